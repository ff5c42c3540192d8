"""Medians and quartiles of groups of cells."""

import numpy as np
import pytest

from pgmjax.sweeps.page import NUMBERS, Quartiles, summarise


def test_quartiles_are_numpys():
    values = [3.0, 1.0, 7.0, 10.0]
    found = Quartiles.of([*values, None, float("nan")])
    assert (found.low, found.median, found.high) == tuple(np.quantile(values, (0.25, 0.5, 0.75)))
    assert Quartiles.of([None]) is None


def row(group, trial, status="done", **changes):
    made = {"group_key": group, "table_name": "t", "workload": "w", "label": "m", "epsilon": "1"}
    made |= {"epsilon_value": 1.0, "status": status, "fit_status": "CONVERGED", "finished": 0, "trial": trial}
    numbers = dict.fromkeys(NUMBERS, float(trial) if status == "done" else None)
    return {**made, **numbers, **changes}


def test_failures_count_as_trials_and_not_as_numbers():
    (line,) = summarise([row("g", 1), row("g", 2), row("g", 6, fit_status="STALLED"), row("g", 9, "failed")])
    assert (line.done, line.trials) == (3, 4)
    assert line.numbers["total_variation"].median == 2
    assert line.statuses == {"CONVERGED": 2, "STALLED": 1}


@pytest.mark.parametrize("turned", [False, True])
def test_groups_of_one_label_are_numbered_by_age(turned):
    rows = [row("old", 1, finished=1), row("new", 5, finished=2)]
    lines = summarise(rows[::-1] if turned else rows)
    assert [(line.label, line.numbers["seconds"].median) for line in lines] == [("m", 1), ("m #2", 5)]
