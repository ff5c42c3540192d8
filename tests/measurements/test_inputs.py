"""Inputs: which are one, what several promise together, and what of them a file states."""

import json

import numpy as np
import pytest

from pgmjax.measurements.inputs import Input, are_secure, digest_of, from_list, marks, merged, of_measurements
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.release.statement import of_inputs

COST = {"epsilon": "1", "delta": "0"}
ONE = Input("a release by 'mst'", True, COST, relation="add-remove", answers="aa")
DEAR = Input("a release by 'mst'", True, {"epsilon": "2", "delta": "0"}, relation="add-remove", answers="aa")
OPEN = Input("a release by 'mst'", False, COST, relation="add-remove", answers="aa")
PUBLIC = Input("published counts", None)


def test_an_input_that_comes_by_two_ways_is_one_and_others_are_not():
    assert merged([ONE], [ONE, PUBLIC], [PUBLIC]) == (ONE, PUBLIC)
    assert merged([ONE], [DEAR], [OPEN]) == (ONE, DEAR, OPEN)


def test_all_must_be_secure():
    assert are_secure([ONE, PUBLIC]) and not are_secure([ONE, OPEN])
    assert marks([ONE])["secure"] == "true" == marks([ONE, DEAR])["secure"]
    for several in ([ONE, OPEN], [OPEN, ONE], [OPEN]):
        assert marks(several)["secure"] == "false"
    assert marks([ONE], secure=False)["secure"] == "false" == marks([OPEN], secure=True)["secure"]
    assert from_list(json.loads(marks([ONE, OPEN, PUBLIC])["inputs"])) == (ONE, OPEN, PUBLIC)


def test_those_of_every_measurement_count():
    made = [LinearMeasurement(("a",), [1, 2], 1.0, inputs=[each]) for each in (ONE, OPEN, PUBLIC)]
    assert of_measurements(made) == (ONE, OPEN, PUBLIC)
    assert of_measurements(made[1:]) == (OPEN, PUBLIC) and of_measurements([]) == ()


def test_a_digest_tells_numbers_and_words_apart():
    found = {
        digest_of([np.array(values)], *words)
        for values in ([1, 2], [2, 1], [1, 2, 0])
        for words in ((), ("a",), ("b",))
    }
    assert len(found) == 9 and digest_of([np.array([1, 2])], "a") == digest_of([np.array([1, 2])], "a")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"role": "other"}, "role.*'other'"),
        ({"name": "a\nb"}, "without control characters"),
        ({"cost": {"epsilon": "x", "delta": "0"}}, "epsilon"),
    ],
)
def test_what_is_no_input(change, said):
    with pytest.raises(ValueError, match=said):
        Input(**{"name": "x", "secure": True, **change})


def test_the_risks_of_several_searches_for_labels_add_up():
    cost = {"epsilon": "1", "delta": "0.001"}
    found = [Input(name, True, cost, part) for name, part in (("one", "0.0002"), ("two", "0.0003"))]
    assert "Of delta, 0.0005 went to the search for labels" in of_inputs(found)
    assert "Of delta, 0.0003 went" in of_inputs(found[1:])
