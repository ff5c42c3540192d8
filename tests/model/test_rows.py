"""Arguments of a model's rows; what the rows are is tested in test_sampling and test_completion.

The distance of rows from a model: its exact mean, its bound, and that wrong rows are seen.
"""

import math

import numpy as np
import pytest
import scipy.stats

import pgmjax as pj
from pgmjax.model import rows as row_check


@pytest.fixture(scope="module")
def model():
    domain = pj.Domain({"a": 2, "b": {"labels": ["x", "y", "z"]}, "c": 2})
    tables = {("a", "b"): [[0.0, 1.0, 2.0], [1.0, 0.0, -np.inf]], ("b", "c"): np.eye(3, 2)}
    return pj.GraphicalModel.from_potentials(domain, tables, total=300.4)


def test_rows_under_evidence_agree_with_it(model):
    narrowed = model.condition({"b": ["x", "z"], "c": 1})
    rows = narrowed.sample(2000, seed=0, method="round")
    assert set(rows["b"]) == {0, 2} and set(rows["c"]) == {1}
    assert all(check.standard_errors < 3 for check in narrowed.check_rows(rows, [("a", "b"), ("a",)]))


def test_rows_of_another_model_are_seen(model):
    rows = model.condition({"a": 0}).sample(2000, seed=0)
    assert max(check.standard_errors for check in model.check_rows(rows)) > 3
    assert [check.clique for check in model.check_rows(rows)] == [("a", "b"), ("b", "c")]


@pytest.mark.parametrize(
    ("columns", "kind", "said"),
    [
        ([1, 2], TypeError, "must be a frame, or a mapping"),
        ({}, ValueError, "at least one attribute"),
        ({"d": [0]}, ValueError, "'d'"),
        ({"a": [0.5]}, TypeError, "must be integers"),
        ({"a": [[0]]}, ValueError, "one-dimensional"),
        ({"a": [0, 2]}, ValueError, r"0..1 \(or -1 where not known\)"),
        ({"a": [0, -2]}, ValueError, r"0..1 \(or -1 where not known\)"),
        ({"a": [0], "b": [0, 1]}, ValueError, r"\[1, 2\]"),
    ],
)
def test_bad_partial_rows(model, columns, kind, said):
    with pytest.raises(kind, match=said):
        model.complete(columns)


def test_bad_method_and_seed_of_a_completion(model):
    with pytest.raises(ValueError, match=r"method.*'magic'"):
        model.complete({"a": [0]}, method="magic")
    with pytest.raises(ValueError, match=r"seed.*-1"):
        model.complete({"a": [0]}, seed=-1)


def test_rows_to_check_need_every_attribute_and_known_cells(model):
    with pytest.raises(ValueError, match=r"missing are \['b', 'c'\]"):
        model.check_rows({"a": [0]})
    with pytest.raises(ValueError, match="at least one row"):
        model.check_rows(model.sample(0))
    with pytest.raises(ValueError, match=r"must lie in 0\.\.1"):
        model.check_rows({"a": [-1]}, [("a",)])


def test_seeds_repeat(model):
    holes = {"a": [0, -1, 1, -1] * 50}
    first, again, other = model.complete(holes, 1), model.complete(holes, 1), model.complete(holes, 2)
    assert all((first[n] == again[n]).all() for n in first)
    assert any((first[n] != other[n]).any() for n in first)


@pytest.mark.parametrize("rows", [1, 7, 500])
def test_the_expected_distance_is_the_sum_over_all_counts(rows):
    p = np.array([0.0, 0.03, 0.47, 0.5])
    columns = {"a": np.full(rows, 2)}
    found = row_check.compare_rows(("a",), p, columns)
    counts = np.arange(rows + 1)
    mean = [(scipy.stats.binom.pmf(counts, rows, q) * np.abs(counts / rows - q)).sum() for q in p]
    assert found.expected == pytest.approx(0.5 * sum(mean), rel=1e-9)
    assert found.total_variation == pytest.approx(0.53)
    assert found.stderr == 1 / math.sqrt(2 * rows)
    assert found.standard_errors == pytest.approx((0.53 - found.expected) / found.stderr)


def test_a_certain_cell_has_no_distance():
    found = row_check.compare_rows(("a",), np.array([0.0, 1.0]), {"a": np.ones(5, np.int64)})
    assert found.total_variation == found.expected == 0


def test_draws_are_as_far_as_said_and_spread_less_than_the_bound():
    """1,000 seeded sets of 200 rows: mean within 6 standard errors."""
    generator = np.random.default_rng(0)
    p = generator.dirichlet(np.ones(12)).reshape(3, 4)
    found = []
    for _ in range(1000):
        cell = generator.choice(12, size=200, p=p.ravel())
        found.append(row_check.compare_rows(("a", "b"), p, {"a": cell // 4, "b": cell % 4}))
    distances = np.array([check.total_variation for check in found])
    assert abs(distances.mean() - found[0].expected) < 6 * distances.std() / math.sqrt(1000)
    assert distances.std() < found[0].stderr
    assert max(check.standard_errors for check in found) < 3
