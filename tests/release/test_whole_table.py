"""Bounds for the whole table against its true counts, over many draws of noise and of what counts."""

import numpy as np
import pandas
import pytest
from scipy.stats import binom

import pgmjax as pj
from pgmjax.data.population import Population
from pgmjax.privacy import SeededBackend
from pgmjax.privacy.left_out import CountLeftOut
from pgmjax.queries import marginal
from pgmjax.release import whole_table

DOMAIN = pj.Domain({"a": {"labels": ["x", "y", "z"]}, "b": {"min": 0, "max": 7, "step": 4}})
DRAWS = 300
ROWS = 1500


def frame():
    """A table in which some units have many records, all of one kind, and some values are outside."""
    rng = np.random.default_rng(0)
    ids = np.concatenate([np.arange(900), rng.integers(0, 150, ROWS - 900)])
    a = np.where(ids < 150, "z", rng.choice(["x", "y", "z"], ROWS))  # who has many records is not like others
    a = np.where(rng.random(ROWS) < 0.06, "elsewhere", a)
    return pandas.DataFrame({"id": ids, "a": a, "b": rng.integers(0, 9, ROWS)})


TABLE = frame()
LARGEST = int(TABLE.groupby("id").size().max())
UNIT = pj.Unit("id", 2)
CASES = {
    "dropped": ("add-remove", {"rows_outside": "drop"}, None, 0),
    "bounded": ("add-remove", {"rows_outside": "clip", "unit": UNIT}, LARGEST, 0),
    "bounded and dropped": ("add-remove", {"rows_outside": "drop", "unit": UNIT}, LARGEST + 3, 0),
    "bounded and dropped, Gaussian": ("add-remove", {"rows_outside": "drop", "unit": UNIT}, LARGEST, 1e-6),
    "bounded, values public": ("replace-one", {"rows_outside": "clip", "unit": UNIT}, None, 0),
}


def counts_of(table, clip):
    """Return the counts of the whole table over a and b, by pandas alone."""
    b = np.minimum(table["b"], 7) // 4 if clip else table["b"].where(table["b"] < 8) // 4
    found = table.groupby(["a", b]).size()
    return np.array([[found.get((a, code), 0) for code in range(2)] for a in ("x", "y", "z")], float)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("clique", [("a", "b"), ("a",)])
def test_intervals_hold_the_counts_of_the_whole_table(case, clique):
    relation, reading, largest, delta = CASES[case]
    clip = reading["rows_outside"] == "clip"
    table = TABLE[TABLE["a"] != "elsewhere"] if clip else TABLE
    true, query = counts_of(table, clip).sum(axis=tuple(range(len(clique), 2))), marginal(clique)
    if clique == ("a",) and not clip:  # a count of a alone holds also records that b leaves out
        true = np.array([(table["a"] == a).sum() for a in ("x", "y", "z")], float)
    true, held = true.reshape(-1), []
    for seed in range(DRAWS):
        data = pj.Dataset.from_frame(DOMAIN, table, **reading)
        made = pj.mechanisms.Marginals(
            2,
            relation,
            delta,
            backend=SeededBackend(seed, insecure=True),
            estimator=pj.Estimator(max_steps=5),
        )
        counting = CountLeftOut("0.3", largest)
        release = made.run(data, pj.Workload([clique]), count_left_out=counting, show_progress=False)
        found = release.whole_table(query)
        low, high = whole_table.records(release.estimates, release.population)
        held.append(
            [
                *((found.counts[:, 0] <= true) & (true <= found.counts[:, 1])),
                *((found.shares[:, 0] <= true / len(table)) & (true / len(table) <= found.shares[:, 1])),
                low <= len(table) <= high,
            ]
        )
    fewest = np.sum(held, axis=0).min()
    assert fewest >= binom.ppf(1e-4, DRAWS, 0.95), np.mean(held, axis=0)
    if relation == "replace-one":
        assert low == high == len(table)


@pytest.mark.parametrize("share", [None, "0.1"])
def test_where_nothing_bounds_what_is_left_out_it_is_said(share):
    data = pj.Dataset.from_frame(DOMAIN, TABLE, rows_outside="drop", unit=UNIT)
    made = pj.mechanisms.Marginals(1, "add-remove")
    release = made.run(data, pj.Workload([["a"]]), count_left_out=share, show_progress=False)
    said = "was not counted" if share is None else "How many records a id may have is not known"
    with pytest.raises(ValueError, match=said):
        release.whole_table(marginal(["a"]))
    told = " ".join(release.population.sentences())
    assert ("from above" in told) == (share is not None)
    assert release.population == Population.from_dict(release.population.to_dict())
