"""Estimates of anything by draws: closed forms, coverage of the counted table, and what is refused."""

import math
import pickle
import warnings

import numpy as np
import pytest
import scipy.stats

import pgmjax as pj
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.queries.text import conditions

DOMAIN = pj.Domain({"a": ["x", "y", "z"], "b": 2, "c": 4})


def table(seed, number=3000):
    rng = np.random.default_rng(seed)
    a = rng.choice(3, number, p=[0.5, 0.3, 0.2])
    c = np.where(rng.random(number) < 0.6, np.minimum(a + 1, 3), rng.integers(0, 4, number))
    b = (rng.random(number) < 0.2 + 0.15 * a).astype(int)
    return pj.Dataset.from_columns(DOMAIN, {"a": a, "b": b, "c": c})


def released(seed, cliques=(("a", "b"), ("a", "c")), relation="replace-one", epsilon=0.5):
    """A release with seeded noise: a conditional independence of b and c is assumed."""
    made = pj.mechanisms.Marginals(epsilon, relation, backend=SeededBackend(seed, insecure=True))
    return made.run(table(seed), pj.Workload.of_marginals(list(cliques)), show_progress=False)


def share(model):
    """Of those with a = x, the share of b = 1."""
    pair = model.marginal(("a", "b"))
    return pair[0, 1] / pair[0].sum()


def median(model):
    return np.interp(0.5, np.cumsum(model.marginal(("c",))) / model.total, np.arange(4.0))


def entropy(model):
    p = model.marginal(("a",)) / model.total
    return -np.sum(p * np.log(p))


def correlation(model):
    p = model.marginal(("a", "c")) / model.total
    a, c = np.arange(3), np.arange(4)
    one, two, both = p.sum(1) @ a, p.sum(0) @ c, a @ p @ c
    return (both - one * two) / math.sqrt((p.sum(1) @ a**2 - one**2) * (p.sum(0) @ c**2 - two**2))


def four(model):
    return np.array([share(model), median(model), entropy(model), correlation(model)])


class Truth:
    """Exact counts in a model's place."""

    def __init__(self, data):
        self.data, self.total = data, float(data.marginals([("a",)])[0].sum())

    def marginal(self, clique):
        return self.data.marginals([clique])[0].astype(float)


def test_intervals_hold_what_the_counted_table_has():
    """Ratio, quantile, entropy and correlation of measured marginals, over forty releases."""
    hits = np.zeros(4)
    for seed in range(40):
        found = released(seed).estimate(four, 40)
        low, high = found.interval
        truth = four(Truth(table(seed)))
        hits += (low <= truth) & (truth <= high)
        assert found.rests_on_model is False
    assert (hits >= scipy.stats.binom.ppf(0.0005, 40, 0.95)).all(), hits


def test_the_error_of_a_count_is_that_of_its_noise():
    """Alone measured, with a total that is estimated, a large cell is its noisy count."""
    made = released(0, [("a",)], relation="add-remove")
    found = made.estimate(lambda model: model.marginal(("a",))[0], 400)
    assert found.estimate == made.model.marginal(("a",))[0]
    assert 0.9 < found.stderr / made.measurements[0].row_stddevs()[0] < 1.1
    wide = made.estimate(lambda model: model.marginal(("a",))[0], 400, population=True)
    people = math.sqrt(3000 * 0.5 * 0.5)
    assert 0.85 < wide.stderr / math.hypot(people, found.stderr) < 1.15


def test_what_rests_on_the_model_is_said():
    made = released(1)
    assert made.estimate(lambda model: model.marginal(("b", "c"))[0, 0], 2).rests_on_model is True
    assert made.estimate(lambda model: model.answer(pj.queries.marginal(["a"]))[0], 2).rests_on_model is False
    assert made.estimate(lambda model: model.entropy(), 2).rests_on_model is True
    assert pj.uncertainty.combine([1.0, 2.0], [0.0, 0.0]).rests_on_model is None


def test_cells_that_were_merged_rest_on_the_model():
    """MST merges rare codes of an attribute before it measures pairs, so their own cells are not known."""
    domain = pj.Domain({"a": 6, "b": 2})
    rng = np.random.default_rng(0)
    a = rng.choice(6, 3000, p=[0.495, 0.001, 0.5, 0.001, 0.002, 0.001])
    data = pj.Dataset.from_columns(domain, {"a": a, "b": (a + rng.integers(0, 2, 3000)) % 2})
    made = pj.mechanisms.MST(1, "replace-one", backend=SeededBackend(0, insecure=True))
    release = made.run(data, pj.Workload.of_marginals([("a", "b")]), show_progress=False)
    (pair,) = (each for each in release.measurements if each.clique == ("a", "b"))
    assert not pair.query.is_identity
    sums = pj.queries.Product(
        {"a": pj.queries.total(), "b": pj.queries.identity()}
    )  # as the attribute b alone
    for asked, alone in (
        (lambda model: model.marginal(("a", "b")), True),
        (lambda model: model.marginal(("a",)), False),  # before the merge each code was counted
        (lambda model: model.answer(pair.query), False),
        (lambda model: model.answer(conditions("a=0,b=1", domain).query), False),
        (lambda model: model.answer(conditions("a=1,b=1", domain).query), True),
        (lambda model: model.answer(sums), False),
    ):
        assert release.estimate(asked, 2).rests_on_model is alone


def test_draws_are_kept_for_the_next_function_and_no_other_ones(monkeypatch):
    made, fresh = released(4), released(4)
    first = made.estimate(share, 5, 1)
    seen = []
    fitted = type(made)._fitted_draws
    monkeypatch.setattr(type(made), "_fitted_draws", lambda *given: seen.append(given[1:]) or fitted(*given))
    again, other = made.estimate(share, 5, 1), made.estimate(median, 5, 1)
    assert not seen and again == first and other == fresh.estimate(median, 5, 1)
    made.estimate(share, 5, 2), made.estimate(share, 5, 2, population=True), made.tables(5, 2)
    assert seen[1:] == [(5, 2, False), (5, 2, True)] and made.estimate(share, 5, 1) == first
    copied = pickle.dumps(made)
    assert len(copied) == len(pickle.dumps(fresh)) and pickle.loads(copied).estimate(share, 5, 1) == first
    for wrong in ([1], True, -1):
        with pytest.raises((TypeError, ValueError), match="seed must be"):
            made.estimate(share, 5, wrong)


def test_a_saved_release_says_the_same(tmp_path):
    made = released(2)
    made.save(tmp_path / "r")
    one, two = (each.estimate(four, 5, 7) for each in (made, pj.load(tmp_path / "r")))
    np.testing.assert_allclose(one.estimate, two.estimate)
    np.testing.assert_allclose(one.stderr, two.stderr, rtol=1e-6)


@pytest.mark.parametrize(
    ("function", "error", "said"),
    [
        (3, TypeError, "function must take a model and return numbers"),
        (lambda model: "x", TypeError, "must return numbers, got str"),
        (lambda model: [[1.0], [2.0, 3.0]], TypeError, "must return numbers, got list"),
        (lambda model: model.total > 0, TypeError, "must return numbers, got booleans"),
        (lambda model: math.nan, ValueError, "not finite for the release's own model"),
        (lambda model: model.marginal(("b",))[0], ValueError, "Nothing that was measured tells of b"),
        (lambda model: model.marginal(("d",))[0], ValueError, "'d'"),
    ],
)
def test_bad_functions(function, error, said):
    with pytest.raises(error, match=said):
        released(0, [("a",)]).estimate(function, 3)


def test_a_function_that_fails_on_some_draws_says_on_how_many():
    made, calls = released(0, [("a",)]), []

    def fails(model):
        calls.append(model)
        return 1 / (len(calls) % 4)

    with pytest.raises(ValueError, match="for 3 of 11 fits"):
        made.estimate(fails, 10)
    calls.clear()
    with pytest.raises(ValueError, match="raises IndexError for 5 of 5 fits"):
        made.estimate(lambda model: calls.append(0) or [1.0][len(calls) - 1], 4)
    calls.clear()
    with pytest.raises(ValueError, match="is not finite or is of another shape for 2 of 5 fits"):
        made.estimate(
            lambda model: calls.append(0) or [1.0, 1.0, math.nan, [1.0], 1.0, 1.0][len(calls) - 1], 4
        )
    for draws in (1, 0, 2.5):
        with pytest.raises((TypeError, ValueError), match="draws"):
            made.estimate(lambda model: 1.0, draws)
    with pytest.raises(ValueError, match=r"level.*1"):
        made.estimate(lambda model: 1.0, 3, level=1)


def test_a_ratio_whose_denominator_comes_out_empty_has_no_error():
    """A fit leaves small cells empty now and then, and divides by next to nothing there."""
    made = released(0, [("a",)])
    values = iter([1.0, 1.0, 1.1, 0.9, 1.2, 1e30, 0.8, 1.0])
    with pytest.raises(ValueError, match=r"In 1 of 6 draws .* 1,000 times"):
        made.estimate(lambda model: next(values), 6)
    codes = iter([2, 2, 2, 2, 2, 2, 2, 3])  # a median of codes hardly ever moves, and has an error
    assert made.estimate(lambda model: next(codes), 6).stderr > 0


def test_counts_of_a_sparse_pair_have_errors():
    """Most draws leave most cells empty, down to 1e-35, and some do not: no reason to refuse."""
    domain, rng = pj.Domain({"a": 30, "b": 20}), np.random.default_rng(0)
    rows = {
        name: np.minimum(rng.zipf(2.5, 3000), size) - 1 for name, size in zip("ab", (30, 20), strict=True)
    }
    made = pj.mechanisms.Marginals(1, "replace-one", backend=SeededBackend(0, insecure=True))
    data = pj.Dataset.from_columns(domain, rows)
    release = made.run(data, pj.Workload.of_marginals([("a", "b")]), show_progress=False)
    found = release.estimate(lambda model: model.marginal(("a", "b")), 30)
    assert (found.stderr[:3, :3] > 0).all() and not found.rests_on_model


def test_draws_that_do_not_fit_are_refused_before_any_is_made():
    for asked in (lambda made: made.tables(10**12), lambda made: made.estimate(lambda model: 1.0, 10**12)):
        with pytest.raises(ValueError, match=r"draws of 3 measured cells need .* enough for"):
            asked(released(0, [("a",)]))


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_draws_of_a_sparse_table_have_as_many_records_as_the_release(relation):
    """Answers are lowered where cells are empty: neither totals nor warnings are taken from those."""
    domain, rng = pj.Domain({"x": 30, "y": 30}), np.random.default_rng(0)
    x = rng.integers(0, 30, 3000)
    data = pj.Dataset.from_columns(domain, {"x": x, "y": np.minimum(x + rng.integers(0, 2, 3000), 29)})
    made = pj.mechanisms.Marginals(0.3, relation, backend=SeededBackend(0, insecure=True))
    release = made.run(data, pj.Workload([["x", "y"]]), show_progress=False)
    with warnings.catch_warnings(action="error"):
        plain, models = release._about, release._drawn_models(4, 0, people=True)
    assert math.isclose(plain.total, release.model.total, rel_tol=1e-9)
    spread = math.sqrt(900) * float(release.measurements[0].stddev)
    totals = np.array([model.total for model in models])
    assert (np.abs(totals - plain.total) < 5 * spread).all()
    assert (totals == plain.total).all() == (relation == "replace-one")


def test_tables_that_no_memory_holds_are_refused_before_a_draw_is_fitted(monkeypatch):
    def fitted(*given, **more):
        raise AssertionError("a draw was fitted")

    monkeypatch.setattr("pgmjax.release.analysis.draws_of", fitted)
    with pytest.raises(ValueError, match="1,000,000,000,000,000"):
        released(0, [("a",)]).tables(3, rows=10**15)
