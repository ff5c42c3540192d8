"""Means by group: closed forms against the noise's own covariance, coverage, and what is refused."""

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.data.population import Population
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.release.accuracy import CountEstimates
from pgmjax.release.means import MeanQuery

DOMAIN = pj.Domain(
    {
        "sex": ["F", "M"],
        "cost": {"bins": [0, 10, 20, 50], "missing": True},
        "stars": {"labels": [1, 2, 5, "none"]},
        "when": {"dates": ["2020-01-01", "2020-07-01", "2021-01-01"]},
        "k": 3,
    }
)


def table(seed=0, number=4000):
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, number)
    codes = {name: rng.integers(0, DOMAIN[name], number) for name in DOMAIN}
    cost = np.where(rng.random(number) < 0.3 + 0.3 * sex, 2, codes["cost"])
    return pj.Dataset.from_columns(DOMAIN, {**codes, "sex": sex, "cost": cost})


def released(seed, relation, epsilon=0.2):
    made = pj.mechanisms.Marginals(epsilon, relation, backend=SeededBackend(seed, insecure=True))
    workload = pj.Workload.of_marginals([("sex", "cost"), ("stars",), ("k",)])
    return made.run(table(), workload, show_progress=False)


def truths(data):
    """Means of cost by sex, of the codes that are not missing, each at the middle of its bin."""
    (counts,) = data.marginals([("sex", "cost")])
    return counts[:, :3] @ [5.0, 15.0, 35.0] / counts[:, :3].sum(axis=1)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_intervals_hold_the_true_means(relation):
    truth, held = truths(table()), []
    for seed in range(60):
        low, high = released(seed, relation).mean("cost", "sex").intervals.T
        held.append((low <= truth) & (truth <= high))
    assert 0.9 <= np.mean(held) <= 0.995  # 120 draws of 0.95: within 2.5 standard errors


def test_an_interval_is_fiellers_of_sum_and_count():
    domain = pj.Domain({"x": {"labels": [1, 2, 4]}})
    noisy = np.array([40.0, 30.0, 30.0])
    estimates = CountEstimates(domain, [LinearMeasurement(("x",), noisy, stddev=3.0)])
    found = MeanQuery(domain, "x").report(MeanQuery(domain, "x").query.apply(noisy), estimates)
    (low, high), values = found.intervals[0], np.array([1.0, 2.0, 4.0])
    for end in (low, high):  # there the noisy sum of (value - end) is 1.96 of its standard errors from 0
        weights = values - end
        assert abs(weights @ noisy) == pytest.approx(1.96 * 3.0 * np.sqrt(weights @ weights), rel=1e-9)
    assert found.estimates[0] == pytest.approx(2.2)


def test_means_are_those_of_synthetic_values():
    within = pj.Domain({"x": {"bins": [0, 10, 100], "grid": 1, "within": [[0, 1], [10, 3], [20, 1]]}})
    domain = pj.Domain({"x": {"min": 0, "max": 99, "step": 30}, "y": {"bins": [0, 0.5, 4]}})
    for attribute in (*map(domain.attribute, domain), within.attribute("x")):
        low, middle, high = attribute.spans()
        for code in range(attribute.size):
            drawn = attribute.values(np.full(40_000, code), np.random.default_rng(1))
            assert low[code] <= drawn.min() and drawn.max() <= high[code]
            assert middle[code] == pytest.approx(drawn.mean(), abs=5 * drawn.std() / 200 + 1e-9)


def test_conditions_choose_the_records():
    release = released(0, "replace-one")
    by, one = release.mean("cost", "sex"), release.mean("cost", where="sex=M")
    assert one.estimates[0] == pytest.approx(by.estimates[1])
    assert one.intervals[0] == pytest.approx(by.intervals[1])
    counts = release.model.marginal(("sex", "cost"))
    some = release.mean("cost", "sex", where="cost<20,sex=F")
    assert some.groups == (("F",),)
    assert some.estimates[0] == pytest.approx(counts[0, :2] @ [5, 15] / counts[0, :2].sum(), rel=1e-5)
    assert release.mean("stars").notes == ("Records whose stars is none are in no mean.",)


def test_draws_give_an_interval_to_what_was_not_measured_together():
    release = released(0, "replace-one")
    bare, drawn = release.mean("cost", "k"), release.mean("cost", "k", draws=20)
    assert not bare.determined.any() and np.isnan(bare.intervals).all()
    low, high = drawn.intervals.T
    assert ((low < drawn.estimates) & (drawn.estimates < high)).all() and not drawn.determined.any()


def test_nothing_bounds_a_mean_where_values_beyond_the_ends_count():
    """By the domain's entry or by how the table was read; a condition may leave the end bins out."""
    plain = pj.Domain({"x": {"min": 0, "max": 99, "step": 25}})
    clips = pj.Domain({"x": {"min": 0, "max": 99, "step": 25, "clip": True}})
    read = Population.of_table(plain, "clip")
    both = "All smaller values and all larger values of x count as if they lay in its first and last cells,"
    for domain, population, where, said in (
        (plain, None, None, ""),
        (plain, Population(), None, ""),
        (clips, None, None, both),
        (plain, read, None, both),
        (plain, read, "x>=50", "All larger values of x count as if they lay in its last cell,"),
        (clips, None, "x>=25,x<75", ""),
    ):
        notes = MeanQuery(domain, "x", (), where, population).notes
        assert len(notes) == bool(said) and all(note.startswith(said) for note in notes)


def test_a_count_hidden_in_noise_leaves_every_mean_possible():
    domain = pj.Domain({"x": {"labels": [1, 2, 4]}})
    estimates = CountEstimates(domain, [LinearMeasurement(("x",), [1.0, 0.0, 1.0], stddev=9.0)])
    asked = MeanQuery(domain, "x")
    found = asked.report(asked.query.apply(np.array([1.0, 0.5, 1.0])), estimates)
    assert found.intervals[0].tolist() == [1.0, 4.0]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("sex",), "'sex' has no mean: its values are words"),
        (("when",), "its values are dates"),
        (("cost", "cost"), "name other groups"),
        (("costs",), "'cost'"),
        (("cost", (), "cost=missing"), "No record that 'cost=missing' counts has a number"),
    ],
)
def test_what_has_no_mean_is_refused(asked, said):
    with pytest.raises(ValueError, match=said):
        released(0, "replace-one").mean(*asked)
