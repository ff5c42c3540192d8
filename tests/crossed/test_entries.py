"""Every mechanism on every kind of entry of a domain file: its release answers about values, not codes."""

import numpy as np
import pandas as pd
import pytest

import pgmjax as pj
from pgmjax.privacy.seeded import SeededBackend

RECORDS, SHARES = 2000, (0.6, 0.38, 0.01, 0.01)  # two values are rare enough to be merged
OFF = 100  # records; a neighbouring value would be off by more than 400
ENTRIES = {
    "codes": 4,
    "range": {"min": 1, "max": 4},
    "steps": {"min": 0, "max": 39, "step": 10},
    "bins": {"bins": [0, 10, 20, 30, 40]},
    "numbers": {"labels": [1, 2, 3, 4]},
    "labels": {"labels": ["a", "b", "c", "d"]},
    "dates": {"from": "2024-01-01", "to": "2024-04-30", "step": "month"},
}
SECOND = {
    "codes": "codes=1",
    "range": "range=2",
    "steps": "steps>=10,steps<20",
    "bins": "bins>=10,bins<20",
    "numbers": "numbers=2",
    "labels": "labels=b",
    "dates": "dates>=2024-02-01,dates<2024-03-01",
}
"""For each attribute the condition on its second value."""
OPTIONS = {"mwem": {"rounds": 7}, "aim": {"rounds": 8}}


def frame():
    codes = {name: np.random.default_rng(k).choice(4, RECORDS, p=SHARES) for k, name in enumerate(ENTRIES)}
    values = dict(codes)
    for name in ("range", "numbers"):
        values[name] = codes[name] + 1
    for name in ("steps", "bins"):
        values[name] = 10 * codes[name] + 3
    values["labels"] = np.array(list("abcd"))[codes["labels"]]
    values["dates"] = pd.to_datetime([f"2024-0{code + 1}-05" for code in codes["dates"]])
    return codes, pd.DataFrame(values)


@pytest.mark.parametrize("name", sorted(pj.mechanisms.comparison.names()))
def test_a_release_counts_the_second_value_of_each(name):
    codes, table = frame()
    domain = pj.Domain(ENTRIES)
    kind = pj.mechanisms.comparison.names()[name]
    mechanism = kind(
        epsilon=40,
        relation=kind.relations[-1],
        backend=SeededBackend(0, insecure=True),
        **OPTIONS.get(name, {}),
    )
    asked = pj.Workload([[attribute] for attribute in ENTRIES])
    release = mechanism.run(pj.Dataset.from_frame(domain, table), asked, show_progress=False)
    for attribute, text in SECOND.items():
        truth = int((codes[attribute] == 1).sum())
        assert release.query(text).estimate == pytest.approx(truth, abs=OFF), attribute
