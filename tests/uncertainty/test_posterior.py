"""Tables to analyse and their rule: closed forms, known truth, and what must fail."""

import math

import numpy as np
import pandas as pd
import pytest
import scipy.stats

import pgmjax as pj
from pgmjax.estimation.estimator import Estimator
from pgmjax.uncertainty import bootstrap, posterior
from pgmjax.uncertainty.posterior import debiased, draws_of

SIZES = {"a": 3, "b": 2, "c": 4}
DOMAIN = pj.Domain(SIZES)
PLAIN = Estimator(regularisation="none", progress=False)


def test_the_rule_in_numbers():
    estimates, variances = np.array([3.0, 5.0, 4.0, 6.0, 2.0]), np.array([1.0, 0.5, 1.5, 1.0, 1.0])
    found = pj.uncertainty.combine(estimates, variances)
    spread = 1.2 * 2.5  # (1 + 1/m) b
    assert found.estimate == 4.0 and math.isclose(found.stderr, math.sqrt(spread - 1.0))
    assert math.isclose(found.df, 4 * (1 - 1 / spread) ** 2)
    low, high = scipy.stats.t.interval(0.95, found.df, 4.0, found.stderr)
    np.testing.assert_allclose(found.interval, (low, high))
    columns = pj.uncertainty.combine(np.stack([estimates, estimates], 1), np.stack([variances, variances], 1))
    assert columns.estimate.shape == (2,) and np.allclose(columns.stderr, found.stderr)


def test_a_variance_is_never_below_that_without_noise():
    found = pj.uncertainty.combine([2.0, 2.0, 2.0], [0.25, 0.25, 0.25])
    assert math.isclose(found.stderr, math.sqrt((1 + 2 / 3) * 0.25)) and math.isinf(found.df)
    assert math.isclose(found.interval[1], 2.0 + 1.959964 * found.stderr, rel_tol=1e-6)
    spread = np.array([1.0, 2.0, 3.0])  # of variance 1: the variance is 4/3 less that of a table
    edge = pj.uncertainty.combine(spread, np.full(3, 0.4999))  # a table's variance counts 5/3 without noise
    assert math.isclose(edge.stderr**2, 4 / 3 - 0.4999) and edge.df < 2
    edge = pj.uncertainty.combine(spread, np.full(3, 0.5001))
    assert math.isclose(edge.stderr**2, 5 / 3 * 0.5001) and math.isinf(edge.df)
    assert pj.uncertainty.combine([2.0, 2.0], [0.0, 0.0]).interval == (2.0, 2.0)


@pytest.mark.parametrize(
    ("m", "noise", "often", "narrower"),
    [
        (5, 0.0, (0.967, 0.974), (0.57, 0.61)),
        (5, 1.0, (0.940, 0.947), (0.67, 0.71)),
        (20, 0.0, (0.967, 0.974), (0.80, 0.83)),
        (20, 1.0, (0.951, 0.958), (0.94, 0.97)),
        (20, 30.0, (0.945, 0.955), (1.0, 1.0)),
        (50, 0.3, (0.953, 0.963), (0.99, 1.02)),
    ],
)
def test_intervals_hold_as_often_as_they_say_at_any_noise(m, noise, often, narrower):
    """People of variance 1, noise, and records of variance 1: what the rule is for, drawn as numbers.

    Beside the published rule, which has u where T is not above 0 and no other floor.
    """
    rng, trials = np.random.default_rng(5), 40_000
    centres = rng.normal(0, math.sqrt(1 + noise), trials)
    estimates = centres + rng.normal(0, math.sqrt(2 + noise), (m, trials))
    low, high = pj.uncertainty.combine(estimates, np.ones((m, trials))).interval
    assert often[0] < np.mean((low <= 0) & (high >= 0)) < often[1]
    spread = (1 + 1 / m) * estimates.var(axis=0, ddof=1)
    df = np.where(spread > 1, np.maximum((m - 1) * (1 - 1 / spread) ** 2, 1), m - 1)
    published = scipy.stats.t.ppf(0.975, df) * np.sqrt(np.where(spread > 1, spread - 1, 1))
    ratio = np.exp(np.mean(np.log((high - low) / 2 / published)))
    assert narrower[0] - 1e-3 <= ratio <= narrower[1] + 1e-3


@pytest.mark.parametrize(
    ("estimates", "variances", "said"),
    [
        ([1.0], [1.0], "at least two tables"),
        ([1.0, 2.0], [1.0], "one for each of the tables"),
        (3.0, 1.0, "one for each of the tables"),
        ([1.0, math.nan], [1.0, 1.0], "table 1 are not"),
        ([1.0, 2.0], [-1.0, 1.0], "table 0 are not"),
        ([1.0, 2.0], [1.0, math.nan], "table 1 are not"),
        ([1.0, 2.0], [1.0, math.inf], "table 1 are not"),
        ([[1.0], [1.0, 2.0]], [1.0, 1.0], "as many for every table, got 1 to 2"),
        ([pd.Series({"a": 1.0, "b": 2.0}), pd.Series({"b": 2.0, "a": 1.0})], np.ones((2, 2)), "of table 1"),
        (
            np.ones((2, 1)),
            [pd.Series({"a": 1.0}), pd.Series({"b": 1.0})],
            "variances must have .* of table 1",
        ),
        (
            [pd.DataFrame({"u": [1.0], "v": [2.0]}), pd.DataFrame({"v": [1.0], "u": [2.0]})],
            [1, 1],
            "of table 1",
        ),
        ([pd.Series({"a": 1.0, "b": 2.0})] * 2, [pd.Series({"b": 1.0, "a": 2.0})] * 2, "in the order"),
    ],
)
def test_bad_input(estimates, variances, said):
    with pytest.raises(ValueError, match=said):
        pj.uncertainty.combine(estimates, variances)


def test_labels_of_pandas_may_be_missing_and_those_of_variances_others():
    counts = [pd.Series([1.0, np.nan, 1.0]).value_counts(dropna=False) for _ in range(2)]
    found = pj.uncertainty.combine(counts, [pd.Series([1.0, 1.0], ["p", "q"])] * 2)
    assert found.estimate.tolist() == [2.0, 1.0]


@pytest.mark.parametrize(
    "bad", [["x", "y"], [1j, 2.0], [True, False], [[[1.0], [1.0, 2.0]]] * 2, None, {"a": 1}]
)
def test_what_is_no_number_is_refused_unseen(bad):
    with pytest.raises(
        TypeError, match="must be numbers, one or an array of one shape for each table"
    ) as one:
        pj.uncertainty.combine(bad, [1.0, 1.0])
    with pytest.raises(TypeError, match="variances must be numbers"):
        pj.uncertainty.combine([1.0, 1.0], bad)
    assert one.value.__cause__ is None


def people(rng, number):
    """Records in which c follows a, and b both."""
    a = rng.choice(3, number, p=[0.5, 0.3, 0.2])
    c = np.where(rng.random(number) < 0.6, np.minimum(a + 1, 3), rng.integers(0, 4, number))
    b = (rng.random(number) < 0.2 + 0.15 * a).astype(int)
    return {"a": a, "b": b, "c": c}


def analyses(rows):
    """Estimates and squared standard errors: a mean, a share, a difference of two groups' shares."""
    c, b, first = rows["c"], rows["b"], rows["a"] == 0
    shares = b[first].mean(), b[~first].mean()
    own = [p * (1 - p) / n for p, n in zip(shares, (first.sum(), (~first).sum()), strict=True)]
    mean = b.mean()
    values = c.mean(), mean, shares[1] - shares[0]
    return values, (c.var(ddof=1) / len(c), mean * (1 - mean) / len(b), sum(own))


def covered(draw, releases=40, number=4000, m=10):
    """How often intervals hold the truth of the population, and those of one table analysed alone."""
    big = people(np.random.default_rng(99), 2_000_000)
    truth, hits, naive = np.array(analyses(big)[0]), np.zeros(3), np.zeros(3)
    for seed in range(releases):
        rng = np.random.default_rng(seed)
        data = pj.Dataset.from_columns(DOMAIN, people(rng, number))
        cliques = [("a", "b"), ("a", "c"), ("b", "c")]
        noisy = [
            pj.LinearMeasurement(clique, table + rng.normal(0, 20, table.shape), 20.0)
            for clique, table in zip(cliques, data.marginals(cliques), strict=True)
        ]
        fit = PLAIN.fit(DOMAIN, noisy, float(number))
        found = [analyses(rows) for rows in draw(fit.model, noisy, m, seed, number)]
        values, variances = (np.array(each) for each in zip(*found, strict=True))
        low, high = pj.uncertainty.combine(values, variances).interval
        hits += (low <= truth) & (truth <= high)
        naive += np.abs(values[0] - truth) <= 1.96 * np.sqrt(variances[0])
    return hits, naive


def independent(model, noisy, m, seed, number):
    def fitted(rows, before):
        return [fit.model for fit in PLAIN.fit_batch(DOMAIN, rows, float(number))]

    models = draws_of(model, noisy, m, seed, fitted=fitted)
    return [one.sample(number, 7 * seed + k, method="multinomial") for k, one in enumerate(models)]


def test_intervals_cover_a_known_truth_and_those_of_one_table_do_not():
    hits, naive = covered(independent)
    least = scipy.stats.binom.ppf(0.0005, 40, 0.95)  # of 40 at 95 %, in one of two thousand
    assert (hits >= least).all()
    assert hits.sum() > naive.sum() + 10


def slopes(models):
    """The slope of y on x of each model of two columns."""
    codes, found = np.arange(10), []
    for model in models:
        p = model.marginal(("x", "y")) / model.total
        x, y, both = p.sum(1) @ codes, p.sum(0) @ codes, codes @ p @ codes
        found.append((both - x * y) / (p.sum(1) @ codes**2 - x**2))
    return np.array(found)


def test_dependence_is_not_lost_where_most_cells_are_empty():
    """A band of ten by ten cells: a fit without negative counts loses a part of the slope."""
    domain, total, rng = pj.Domain({"x": 10, "y": 10}), 5000.0, np.random.default_rng(0)
    true = np.where(np.abs(np.subtract.outer(np.arange(10), np.arange(10))) < 2, 1.0, 0.0)
    true *= total / true.sum()
    clique = ("x", "y")
    rows = [[pj.LinearMeasurement(clique, true + rng.normal(0, 28, (10, 10)), 28.0)] for _ in range(24)]

    def fitted(given, before=None):
        return [fit.model for fit in PLAIN.fit_batch(domain, given, total)]

    aim = slopes([PLAIN.fit(domain, [pj.LinearMeasurement(clique, true, 1.0)], total).model])
    plain, kept = slopes(fitted(rows)) - aim, slopes(debiased(rows, fitted)) - aim
    assert plain.mean() < -0.1 and abs(kept.mean()) < 0.4 * abs(plain.mean())
    assert kept.std() < 1.5 * plain.std()


@pytest.mark.parametrize(("rounds", "share"), [(3, 0.9), (40, 0.1)])
def test_moments_come_out_as_they_were_answered(monkeypatch, rounds, share):
    monkeypatch.setattr(posterior, "ROUNDS", rounds)
    domain, total, rng = pj.Domain({"x": 10, "y": 10}), 5000.0, np.random.default_rng(1)
    true = rng.dirichlet(np.full(100, 0.1)).reshape(10, 10) * total
    rows = [[pj.LinearMeasurement(("x", "y"), true + rng.normal(0, 28, (10, 10)), 28.0)] for _ in range(8)]

    def fitted(given, before=None):
        return [fit.model for fit in PLAIN.fit_batch(domain, given, total)]

    def lost(models):
        codes = np.arange(10) - 4.5
        tables = [row[0].values - one.marginal(("x", "y")) for row, one in zip(rows, models, strict=True)]
        return np.array([[t.sum(1) @ codes, codes @ t.sum(0), codes @ t @ codes] for t in tables])

    before, after = np.abs(lost(fitted(rows))).mean(axis=0), np.abs(lost(debiased(rows, fitted))).mean(axis=0)
    assert (after < share * before).all()


def restored(measured, missing):
    moments = [posterior._Moments.of(one, DOMAIN) for one in measured]
    tables = [one.sorted(each) for one, each in zip(moments, missing, strict=True)]
    moved = [np.zeros_like(each) for each in tables]
    posterior._restore(moments, tables, moved)
    return [one.as_given(each) for one, each in zip(moments, moved, strict=True)]


def of_cells(clique, stddev=1.0):
    return pj.LinearMeasurement(clique, np.zeros(DOMAIN.shape_of(clique)), stddev)


def test_what_tables_miss_of_a_moment_is_their_weighted_mean():
    line = np.array([-1.0, 0.0, 1.0]) / math.sqrt(2)  # the straight line over codes of a, of length 1
    missing = [np.repeat(line, 2)[None], np.zeros((1, 12))]
    # 2 with variance 2, and 0 with variance 16
    mean = (2 / 2) / (1 / 2 + 1 / 16)
    precise, other = restored([of_cells(("a", "b")), of_cells(("c", "a"), 2.0)], missing)
    np.testing.assert_allclose(precise[0], np.repeat(line, 2) * mean / 2, atol=1e-12)
    np.testing.assert_allclose(other[0], np.tile(line, 4) * mean / 4, atol=1e-12)


@pytest.mark.parametrize("clique", [("a", "b", "c"), ("c", "b", "a"), ("b",)])
def test_moments_of_any_order_of_attributes_are_those_of_records(clique):
    """A direction with moments alone is what misses; and one in which no code or pair varies is not."""
    shape, rng = DOMAIN.shape_of(clique), np.random.default_rng(2)
    axes = np.meshgrid(*(np.arange(size) for size in shape), indexing="ij")
    codes = dict(zip(clique, axes, strict=True))
    kept = sum(rng.normal() * codes[one] * codes[two] for one in clique for two in clique)
    kept = np.ravel(kept - kept.mean())[None]
    np.testing.assert_allclose(restored([of_cells(clique)], [kept])[0], kept, atol=1e-9)
    np.testing.assert_allclose(restored([of_cells(clique)], [np.full_like(kept, 3.0)])[0], 0, atol=1e-9)


def test_merged_cells_keep_moments_of_their_groups_and_are_lowered():
    """Codes 1 to 3 of c are one group, which has the code 2."""
    query = pj.queries.kronecker({"a": pj.queries.identity(), "c": pj.queries.compression([0, 1, 1, 1])})
    values = np.array([60.0, 45.0, -4.0, 3.0, 30.0, 2.0])
    merged = pj.LinearMeasurement(("a", "c"), values, 5.0, query)
    codes = np.stack(np.meshgrid(np.arange(3) - 1, [-1.0, 1.0], indexing="ij"))
    kept = np.ravel(2 * codes[0] + 3 * codes[1] + codes[0] * codes[1])[None]
    np.testing.assert_allclose(restored([merged], [kept])[0], kept, atol=1e-9)
    calls = []

    def fitted(rows, before):
        calls.append(rows)
        return [fit.model for fit in PLAIN.fit_batch(DOMAIN, rows, 136.0)]

    debiased([[merged]], fitted)
    assert len(calls) == 1 + posterior.ROUNDS and (calls[-1][0][0].values != values).all()


def test_what_was_measured_twice_is_lowered_as_its_mean():
    """An adaptive mechanism measures cells again; lowered twice, they would depend too much on each other."""
    rng, before = np.random.default_rng(3), []
    mean = np.outer([60.0, 3.0, 0.0], [40.0, 1.0, 0.0, 2.0]) / 2 + rng.normal(0, 12, (3, 4))
    apart = rng.normal(0, 12, (3, 4))  # noise of two measurements cancels in their mean

    def fitted(rows, _):
        before.append(rows)
        return [fit.model for fit in PLAIN.fit_batch(DOMAIN, rows, 1400.0)]

    def lowered(rows):
        before.clear()
        tables = [model.marginal(("a", "c")) for model in debiased([rows], fitted)]
        return tables[0], before[-1][0]

    once, (one,) = lowered([pj.LinearMeasurement(("a", "c"), mean, 12.0)])
    # weights 1/16**2 and 1/s**2 that add up to 1/12**2
    second, share = (12**-2 - 16**-2) ** -0.5, 12**2 / 16**2
    again = mean - apart * share / (1 - share)
    twice, (first, other) = lowered(
        [
            pj.LinearMeasurement(("a", "c"), mean + apart, 16.0),
            pj.LinearMeasurement(("c", "a"), again.T, second),
        ]
    )
    assert not np.allclose(one.values, mean)
    np.testing.assert_allclose(first.values - apart, one.values, atol=0.05)
    np.testing.assert_allclose(other.values - (again - mean).T, one.values.T, atol=0.05)
    np.testing.assert_allclose(twice, once, atol=0.05)


def test_tables_without_empty_cells_and_other_answers_are_fitted_once(monkeypatch):
    calls = []
    # what is moved for moments has tests of its own
    monkeypatch.setattr(posterior, "_restore", lambda moments, missing, moved: None)

    def fitted(rows, before):
        calls.append((rows, before))
        return [fit.model for fit in PLAIN.fit_batch(DOMAIN, rows, 100.0)]

    full = pj.LinearMeasurement(("a", "b"), [[30.0, 20.0], [10.0, 20.0], [12.0, 8.0]], 3.0)
    below = pj.LinearMeasurement(
        ("c",), [-4.0, -5.0, 60.0, 90.0], 5.0, pj.queries.kronecker({"c": pj.queries.prefix()})
    )
    debiased([[full, below]], fitted)
    assert len(calls) == 1
    sparse = pj.LinearMeasurement(("c",), [60.0, 45.0, -4.0, 3.0], 5.0)
    debiased([[full, below, sparse]], fitted)
    lowered = calls[-1][0][0]
    assert [before is None for _, before in calls] == [True, True, False, False, False]
    assert len(calls) == 5 and lowered[0].values.tolist() == full.values.tolist()
    assert lowered[1].values.tolist() == below.values.tolist()
    # 60 - 25 / (count + 0.75) and so on, and nothing further than one standard deviation below 0
    less = np.array([60.0, 45.0, -4.0, 3.0]) - lowered[2].values
    assert lowered[2].values.min() == lowered[2].values[2] == -5.0 and ((less > 0) & (less < 5)).all()


def of_counts(counts, domain=DOMAIN):
    """The model of a table that is known."""
    exact = [pj.LinearMeasurement(("a", "b", "c"), counts, 1.0)]
    return PLAIN.fit(domain, exact, float(counts.sum())).model


def test_rows_that_are_dealt_evenly_break_the_rule():
    """They lack the variance that the rule subtracts: at little noise nothing is left."""
    rng = np.random.default_rng(0)
    model = of_counts(100 + rng.random((3, 2, 4)))
    for method, most in (("round", 0.1), ("multinomial", 2.0)):
        shares = [model.sample(4000, seed, method=method)["b"].mean() for seed in range(40)]
        spread, share = np.var(shares, ddof=1), np.mean(shares)
        assert spread < most * share * (1 - share) / 4000
        assert method == "round" or spread > 0.5 * share * (1 - share) / 4000


def test_people_are_simulated_and_noise_is_added():
    model = of_counts(np.full((3, 2, 4), 100.0))
    quiet = [pj.LinearMeasurement(("a",), np.full(3, 800.0), 1e-3)]
    drawn = bootstrap.redrawn(model, quiet, 300, 0, people=True)
    values = np.array([row[0].flat_values() for row in drawn])
    np.testing.assert_allclose(values.mean(0), 800, atol=5 * math.sqrt(2400 * 2 / 9 / 300))
    assert 0.7 < values.var(0).mean() / (2400 * 2 / 9) < 1.3  # of a multinomial draw
    np.testing.assert_allclose(values.sum(1), 2400, atol=0.02)


def test_a_release_gives_frames(tmp_path):
    rng = np.random.default_rng(0)
    table = people(rng, 500)
    months = {"from": "2024-01-01", "to": "2024-04-30", "step": "month"}
    labelled = pj.Domain({"a": ["x", "y", "z"], "b": 2, "c": months})
    data = pj.Dataset.from_columns(labelled, table)
    kind = pj.mechanisms.Marginals(1, "replace-one", backend=pj.privacy.SeededBackend(0, insecure=True))
    release = kind.run(data, pj.Workload.all_kway(labelled, 2), show_progress=False)
    frames = release.tables(3, rows=50)
    assert [frame.shape for frame in frames] == [(50, 3)] * 3
    assert set(frames[0]["a"]) <= {"x", "y", "z"} and not frames[0].equals(frames[1])
    assert frames[0]["c"].dtype.kind == "M"
    assert release.tables(2)[0].shape == (500, 3)
    assert all(one.equals(two) for one, two in zip(release.tables(2), release.tables(2), strict=True))
    with pytest.raises(ValueError, match="m must be an integer >= 2"):
        release.tables(1)
    release.save(tmp_path / "r")
    saved = pj.load(tmp_path / "r").tables(3, rows=50)
    assert pj.load(tmp_path / "r").domain == release.domain == labelled
    assert all(one.equals(two) for one, two in zip(frames, saved, strict=True))
    from_other = release.with_prior(of_counts(np.full((3, 2, 4), 20.0), labelled))
    from_other.save(tmp_path / "other")
    for each in (from_other, pj.load(tmp_path / "other")):  # draws know the noisy answers alone
        assert all(one.equals(two) for one, two in zip(each.tables(3, rows=50), frames, strict=True))
        own, plain = (one.estimate(lambda model: model.marginal(("a",)), 5) for one in (each, release))
        moved = np.abs(own.estimate - plain.estimate)
        assert moved.max() > 10 and (own.stderr**2 > moved**2 / 2).all()
