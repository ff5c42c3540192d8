"""Compression agrees with sums over the cells, and spreading with the joint distribution in NumPy."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmjax import queries
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.estimation.estimator import Estimator
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.noise import DiscreteGaussian
from pgmjax.model.compression import Compression
from pgmjax.model.graphical import GraphicalModel
from pgmjax.queries.spec import as_query

DOMAIN = Domain({"a": 5, "b": {"labels": ["x", "y", "other"], "missing": "?"}, "c": 3})
COMPRESSION = Compression(DOMAIN, {"a": [1, 3, 4], "b": [0, 2]}, {"a": [50, 3, 40, -2, 1]})


def one_way(name, counts, stddev=2.0):
    return LinearMeasurement((name,), counts, stddev)


def summed(table, clique):
    """The marginal over the compressed domain, cell by cell."""
    result = np.zeros(COMPRESSION.domain.shape_of(clique), table.dtype)
    groups = [COMPRESSION.groups.get(name, np.arange(DOMAIN[name])) for name in clique]
    for cell in np.ndindex(*table.shape):
        result[tuple(group[code] for group, code in zip(groups, cell, strict=True))] += table[cell]
    return result


def some_model(domain, seed=0):
    rng = np.random.default_rng(seed)
    cliques = [("a", "b"), ("b", "c"), ("a",)]
    return GraphicalModel.from_potentials(
        domain, {c: rng.normal(size=domain.shape_of(c)) for c in cliques}, 90
    )


def joint(model):
    """The joint distribution, from the potentials by NumPy."""
    names = model.domain.attributes
    total = np.zeros(model.domain.shape)
    for clique, table in model.potentials.items():
        order = np.argsort([names.index(name) for name in clique])
        shape = [model.domain[name] if name in clique else 1 for name in names]
        total = total + table.transpose(order).reshape(shape)
    weights = np.exp(total)
    return weights / weights.sum()


def test_groups_and_labels():
    assert COMPRESSION.groups["a"].tolist() == [0, 2, 1, 2, 2]
    assert COMPRESSION.domain.attribute("a").labels == (0, 2, "other")
    b = COMPRESSION.domain.attribute("b")
    assert COMPRESSION.groups["b"].tolist() == [1, 0, 1, 2]
    assert b.labels == ("y", "other_2") and b.missing and b.missing_markers == ("?",) and b.size == 3
    assert COMPRESSION.domain.attribute("c") == DOMAIN.attribute("c")
    assert repr(COMPRESSION) == "Compression({a: 5 -> 3, b: 4 -> 3} of 3 attributes)"


def test_bins_and_a_merged_missing_bucket():
    domain = Domain({"age": {"bins": [0, 10, 20, 30], "missing": True}})
    compression = Compression(domain, {"age": ["[0, 10)", queries.Code(3)]})
    age = compression.domain.attribute("age")
    assert age.labels == ("[10, 20)", "[20, 30]", "other") and not age.missing
    assert compression.groups["age"].tolist() == [2, 0, 1, 2]


@pytest.mark.parametrize(
    "entry",
    [
        5,
        {"min": 1, "max": 5},
        {"labels": [1, 2, 3, 4, 5]},
        {"bins": [0, 1, 2, 3, 4, 5]},
        ["a", "b", "c", "d", "e"],
    ],
)
def test_rare_values_are_merged_whatever_they_are(entry):
    """A number may be a value and a code: those that are found are codes."""
    domain = Domain({"a": entry})
    counts = [LinearMeasurement(("a",), [1.0, 80.0, 1.0, 90.0, 2.0], 5.0)]
    assert Compression.from_measurements(domain, counts).merged == {"a": (0, 2, 4)}
    codes = [queries.Code(code) for code in (0, 2, 4)]
    assert Compression(domain, {"a": codes}).merged == {"a": (0, 2, 4)}
    with pytest.raises(ValueError, match=r"Code\(5\).*0\.\.4"):
        Compression(domain, {"a": [queries.Code(0), queries.Code(5)]})


@pytest.mark.parametrize(
    "counts, merged",
    [
        ([5.9, 6.0, 1.0, 80.0], (0, 2)),  # 6 = 3 * 2 is not below
        ([7.0, 6.0, 1.0, 80.0], None),  # one alone
        ([-7.0, 0.0, 1.0, 5.0], (0, 1, 2)),  # all of them: the largest stays
        ([3.0, 2.0, 80.0, 90.0], (0, 1)),
        ([9.0, 8.0, 7.0, 80.0], None),
    ],
)
def test_rare_values_are_those_below_the_threshold(counts, merged):
    domain = Domain({"a": 4, "free": 9})
    compression = Compression.from_measurements(domain, [one_way("a", counts)])
    assert compression.merged == ({} if merged is None else {"a": merged})
    assert compression.domain["free"] == 9
    if merged is None:
        assert compression.domain == domain
    else:
        assert compression.domain["a"] == 5 - len(merged)


def test_counts_of_one_attribute_are_averaged_by_precision():
    domain = Domain({"a": 3})
    first, second = one_way("a", [10.0, 4.0, 90.0], 4.0), one_way("a", [7.0, 13.0, 90.0], [2.0, 3.0, 2.0])
    precision = np.array([1 / 16 + 1 / 4, 1 / 16 + 1 / 9, 1 / 16 + 1 / 4])
    mean = np.array([10 / 16 + 7 / 4, 4 / 16 + 13 / 9, 90 / 16 + 90 / 4]) / precision
    found = Compression.from_measurements(domain, [first, second], threshold=4.5)
    np.testing.assert_allclose(found.counts["a"], mean)
    assert (
        found.merged
        == {"a": tuple(np.flatnonzero(mean < 4.5 / np.sqrt(precision)).tolist())}
        == {"a": (0, 1)}
    )


@pytest.mark.parametrize("clique", [("a",), ("c", "a"), ("b", "a", "c"), ("c",)])
@pytest.mark.parametrize("spread", ["one", "each"])
def test_forward_adds_rows_and_variances(clique, spread):
    rng = np.random.default_rng(1)
    values = rng.integers(-5, 90, DOMAIN.shape_of(clique))
    stddev = 3.0 if spread == "one" else rng.uniform(1, 5, values.shape)
    new = COMPRESSION.forward(LinearMeasurement(clique, values, stddev, noise="laplace"))
    new.validate(COMPRESSION.domain)
    assert new.values.dtype == np.int64 and new.noise == "laplace"
    assert new.flat_values().tolist() == summed(values, clique).reshape(-1).tolist()
    squares = summed(np.broadcast_to(np.square(stddev), values.shape).astype(float), clique)
    np.testing.assert_allclose(new.row_stddevs(), np.sqrt(squares).reshape(-1))


def test_forward_leaves_alone_what_has_nothing_merged():
    measurement = LinearMeasurement.released(queries.marginal(["c"]), [1, 2, 3], DiscreteGaussian(2.0))
    assert COMPRESSION.forward(measurement) is measurement


def test_a_measurement_of_the_compressed_marginal_is_one_of_a_whole_marginal():
    query = COMPRESSION.query(("c", "a"))
    table = np.arange(15).reshape(3, 5)
    released = LinearMeasurement.released(query, query.apply(table).reshape(-1), DiscreteGaussian(2.0))
    new = COMPRESSION.forward(released)
    assert new.distribution == released.distribution and new.query == queries.marginal(["c", "a"])
    assert new.flat_values().tolist() == summed(table, ("c", "a")).reshape(-1).tolist()


def test_forward_of_a_half_compressed_product():
    query = queries.Product({"a": queries.identity(), "b": queries.compression(COMPRESSION.groups["b"])})
    table = np.arange(20).reshape(5, 4)
    new = COMPRESSION.forward(LinearMeasurement(("a", "b"), query.apply(table), 1.0, query))
    assert new.flat_values().tolist() == summed(table, ("a", "b")).reshape(-1).tolist()


@pytest.mark.parametrize("query", ["prefix", "total", {"a": "identity", "c": "prefix"}, np.eye(15)])
def test_forward_refuses_other_queries(query):
    clique = ("a", "c") if isinstance(query, dict | np.ndarray) else ("a",)
    rows = as_query(clique, query).num_rows(DOMAIN)
    with pytest.raises(ValueError, match=r"Compression\.query"):
        COMPRESSION.forward(LinearMeasurement(clique, np.ones(rows), 1.0, query))


@pytest.mark.parametrize("relation", list(Relation))
def test_the_query_has_the_sensitivity_of_a_marginal(relation):
    query, plain = COMPRESSION.query(("a", "b")), queries.marginal(("a", "b"))
    assert query.l1_sensitivity(relation, DOMAIN) == plain.l1_sensitivity(relation, DOMAIN)
    assert query.l2_sensitivity_squared(relation, DOMAIN) == plain.l2_sensitivity_squared(relation, DOMAIN)


@pytest.mark.parametrize("spread", ["uniform", "counts"])
def test_backward_against_the_joint(spread):
    model = some_model(COMPRESSION.domain)
    shares = {"a": [1, 1 / 3, 1, 1 / 3, 1 / 3], "b": [0.5, 1, 0.5, 1], "c": [1, 1, 1]}
    if spread == "counts":
        shares["a"] = [1, 0.75, 1, 0, 0.25]  # 3 : -2 : 1, clipped at zero
    groups = [COMPRESSION.groups.get(name, np.arange(DOMAIN[name])) for name in DOMAIN]
    expected = joint(model)[np.ix_(*groups)]
    for axis, name in enumerate(DOMAIN):
        expected = expected * np.reshape(shares[name], [-1 if axis == i else 1 for i in range(3)])
    back = COMPRESSION.backward(model, spread)
    assert back.domain == DOMAIN and back.total == 90
    for size in (1, 2, 3):
        for clique in itertools.permutations(DOMAIN.attributes, size):
            axes = [DOMAIN.attributes.index(name) for name in clique]
            rest = tuple(set(range(3)) - set(axes))
            wanted = 90 * expected.sum(rest).transpose(np.argsort(np.argsort(axes)))
            np.testing.assert_allclose(back.marginal(clique), wanted, rtol=1e-10, atol=1e-12)
    assert back.log_partition() == pytest.approx(model.log_partition())
    given_other = back.condition({"b": ["x", "other"]})
    assert given_other.total == pytest.approx(90 * expected[:, [0, 2]].sum())
    codes = back.sample(2000, seed=1)
    assert {codes[name].max() < DOMAIN[name] for name in DOMAIN} == {True}
    if spread == "counts":
        assert not (codes["a"] == 3).any()


def test_backward_of_a_fit_keeps_its_known_marginals_and_answers():
    rng = np.random.default_rng(2)
    measured = [
        LinearMeasurement(c, rng.poisson(20, DOMAIN.shape_of(c)), 2.0) for c in [("a", "b"), ("b", "c")]
    ]
    fit = Estimator(progress=False).fit(COMPRESSION.domain, [COMPRESSION.forward(m) for m in measured], 400)
    back = COMPRESSION.backward(fit.model)
    bare = GraphicalModel(DOMAIN, back.potentials, back.total)
    assert set(back.known_marginals.cliques) == set(fit.model.known_marginals.cliques) != set()
    for clique in [("a",), ("b", "a"), ("c", "b"), ("c", "a")]:
        np.testing.assert_allclose(back.marginal(clique), bare.marginal(clique), atol=1e-3)
        np.testing.assert_allclose(
            back.answer(COMPRESSION.query(clique)), fit.model.marginal(clique), rtol=1e-6, atol=1e-6
        )


def test_attributes_in_no_clique_are_spread_too():
    back = COMPRESSION.backward(GraphicalModel.from_potentials(COMPRESSION.domain, {}, 12))
    np.testing.assert_allclose(back.marginal(("a",)), [4, 4 / 3, 4, 4 / 3, 4 / 3])


def test_counts_that_are_not_positive_are_spread_evenly():
    compression = Compression(Domain({"a": 3}), {"a": [0, 2]}, {"a": [-1, 50, 0]})
    model = GraphicalModel.from_potentials(compression.domain, {}, 8)
    assert compression.backward(model, "counts").marginal(("a",)).round(9).tolist() == [2, 4, 2]


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_compressing_records_and_marginals_commute(seed):
    rng = np.random.default_rng(seed)
    domain = Domain({"a": 6, "b": 4})
    counts = [one_way(name, rng.normal(5, 6, domain[name])) for name in domain]
    compression = Compression.from_measurements(domain, counts)
    columns = {name: rng.integers(0, domain[name], 50) for name in domain}
    data = Dataset.from_columns(domain, columns)
    recoded = data.recode(compression.domain, compression.groups)
    asked = compression.query(("b", "a")).apply(data.marginals([("b", "a")])[0])
    assert recoded.marginals([("b", "a")])[0].tolist() == asked.tolist()
    mapped = Dataset.from_columns(compression.domain, compression.columns(columns))
    assert mapped.marginals([("b", "a")])[0].tolist() == asked.tolist()


@pytest.mark.parametrize(
    "merged, counts, words",
    [
        ({"zip": [0, 1]}, None, "zip"),
        ({"a": [0, 5]}, None, "5.*'a'"),
        ({"a": [2, 2]}, None, "two or more"),
        ({}, {"a": [1, 2]}, "5 finite"),
        ({}, {"a": [1, 2, 3, 4, np.nan]}, "5 finite"),
    ],
)
def test_bad_codes_and_counts(merged, counts, words):
    with pytest.raises(ValueError, match=words):
        Compression(DOMAIN, merged, counts)


@pytest.mark.parametrize(
    "measurement",
    [LinearMeasurement(("a", "c"), np.ones(15), 1.0), LinearMeasurement(("a",), np.ones(5), 1.0, "prefix")],
)
def test_only_counts_of_one_attribute_say_what_is_rare(measurement):
    with pytest.raises(ValueError, match="each attribute by itself"):
        Compression.from_measurements(DOMAIN, [measurement])


def test_bad_arguments():
    with pytest.raises(ValueError, match="threshold"):
        Compression.from_measurements(DOMAIN, [], threshold=-1)
    with pytest.raises(ValueError, match="compressed domain"):
        COMPRESSION.backward(some_model(DOMAIN))
    with pytest.raises(ValueError, match="spread"):
        COMPRESSION.backward(some_model(COMPRESSION.domain), "evenly")
    with pytest.raises(ValueError, match=r"0\.\.4"):
        COMPRESSION.columns({"a": [0, 5]})


def test_the_code_of_other_values_keeps_its_place():
    domain = Domain({"x": {"labels": ["a", "b", "c"], "other": True, "missing": True}})
    compressed = Compression(domain, {"x": [1, 2]})
    assert compressed.domain.attribute("x").labels == ("a", "other", "other_2")
    assert compressed.domain.attribute("x").missing
    assert compressed.groups["x"].tolist() == [0, 2, 2, 1, 3]
