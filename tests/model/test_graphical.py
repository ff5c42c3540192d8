"""The graphical model's answers against the joint table."""

import itertools

import numpy as np
import pytest

import pgmjax as pj
from pgmjax import queries
from tests import models

DOMAIN = pj.Domain({"a": 3, "b": 4, "c": 2, "d": 5, "free": 2})
CLIQUES = [("a", "b"), ("b", "c"), ("d", "c")]


def make(seed=0, total=50.0, zeros=0.0):
    tables = models.potentials(((3, 4, 2, 5), ((0, 1), (1, 2), (3, 2))), seed, zeros=zeros)
    model = pj.GraphicalModel.from_potentials(DOMAIN, dict(zip(CLIQUES, tables, strict=True)), total)
    numbers = tuple(tuple(DOMAIN.attributes.index(n) for n in c) for c in CLIQUES)
    return model, models.joint((DOMAIN.shape, numbers), tables)


@pytest.mark.parametrize("clique", [c for n in (1, 2, 3) for c in itertools.permutations("abcd", n)][:30])
def test_marginal_of_any_attributes_in_any_order(clique):
    model, logits = make(zeros=0.2)
    expected = 50 * models.marginal(logits, tuple(DOMAIN.attributes.index(n) for n in clique))
    np.testing.assert_allclose(model.marginal(clique), expected, atol=1e-12)


def test_free_attributes_are_uniform_and_count_in_the_partition():
    model, logits = make()
    assert model.log_partition() == pytest.approx(models.log_partition(logits), abs=1e-12)
    table = model.marginal(("free", "a"))
    np.testing.assert_allclose(table[0], table[1])


def test_entropy():
    model, logits = make(zeros=0.3)
    p = models.marginal(logits, range(5)).ravel()
    assert model.entropy() == pytest.approx(-np.sum(p[p > 0] * np.log(p[p > 0])), abs=1e-12)


def test_potentials_over_the_same_attributes_add_up():
    domain = pj.Domain({"a": 2, "b": 3})
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 3)), rng.normal(size=(3, 2))
    model = pj.GraphicalModel.from_potentials(domain, {("a", "b"): first, ("b", "a"): second})
    expected = np.exp(first + second.T)
    np.testing.assert_allclose(model.marginal(("a", "b")), expected / expected.sum(), atol=1e-14)


BLOCKS = {
    "identity": queries.identity(),
    "total": queries.total(),
    "point": queries.point(1),
    "subset": queries.subset([0, 1]),
    "range": queries.range(0, 1),
    "ranges": queries.ranges([(0, 1), (1, 1)]),
    "prefix": queries.prefix(),
    "mean": queries.mean(),
    "moments": queries.moments(3),
}


@pytest.mark.parametrize("first", BLOCKS)
@pytest.mark.parametrize("second", ["identity", "prefix", "signed"])
def test_factored_answers_of_every_block(first, second):
    """All blocks of Table 2, with a signed matrix beside them, on attributes of different cliques."""
    model, logits = make(zeros=0.2)
    signed = queries.matrix(np.array([[1.0, -1, 0, 2, 0], [0, 0.5, -3, 0, 1]]))
    query = queries.kronecker({"a": BLOCKS[first], "d": {**BLOCKS, "signed": signed}[second]})
    table = 50 * models.marginal(logits, (0, 3))
    expected = query.matrix(DOMAIN) @ table.ravel()
    np.testing.assert_allclose(model.answer(query).ravel(), expected, atol=1e-11)
    assert model.answer(query).shape == query.shape(DOMAIN)


def test_two_signed_factors_and_compression():
    model, logits = make()
    query = queries.kronecker(
        {
            "d": queries.matrix(np.array([[1.0, -1, 1, -1, 1]])),
            "a": queries.matrix(np.array([[1.0, -2, 1]])),
            "b": queries.compression([0, 0, 1, 1]),
        }
    )
    table = 50 * models.marginal(logits, (3, 0, 1))
    np.testing.assert_allclose(model.answer(query).ravel(), query.matrix(DOMAIN) @ table.ravel(), atol=1e-11)


def test_sums_and_joint_matrices():
    model, logits = make()
    left = queries.kronecker({"a": queries.prefix(), "d": queries.total()})
    right = queries.kronecker({"a": queries.identity(), "d": queries.point(2)})
    both = queries.WeightedSum([(2.0, left), (-1.0, right)])
    table = 50 * models.marginal(logits, (0, 3)).ravel()
    np.testing.assert_allclose(model.answer(both).ravel(), both.matrix(DOMAIN) @ table, atol=1e-11)
    dense = queries.DenseMatrix(("a", "d"), np.random.default_rng(0).normal(size=(4, 15)))
    np.testing.assert_allclose(model.answer(dense), dense.matrix(DOMAIN) @ table, atol=1e-11)


def test_an_answer_never_builds_the_marginal():
    """A range on each of 12 attributes of 50 values: the marginal would have 2.4e20 cells."""
    domain = pj.Domain({f"x{i}": 50 for i in range(12)})
    rng = np.random.default_rng(0)
    tables = {(f"x{i}", f"x{i + 1}"): rng.normal(size=(50, 50)) for i in range(11)}
    model = pj.GraphicalModel.from_potentials(domain, tables, total=1000)
    query = queries.kronecker({name: queries.range(10, 39) for name in domain})
    vector = np.zeros(50)
    vector[10:40] = 1
    message, norm = vector.copy(), np.ones(50)
    for table in tables.values():
        message, norm = (message @ np.exp(table)) * vector, norm @ np.exp(table)
    assert float(model.answer(query).item()) == pytest.approx(1000 * message.sum() / norm.sum(), rel=1e-9)
    with pytest.raises(ValueError, match=r"cells and needs about .* is available"):
        model.marginal(domain.attributes)


def test_conditioning_keeps_the_joint_counts():
    model, _ = make()
    narrowed = model.condition({"c": 1})
    joint = model.marginal(("c", "a", "d"))
    np.testing.assert_allclose(narrowed.marginal(("a", "d")), joint[1], atol=1e-11)
    assert narrowed.total == pytest.approx(joint[1].sum())
    twice = narrowed.condition({"free": [0], "a": [0, 2]})
    np.testing.assert_allclose(twice.marginal(("a",)), model.marginal(("c", "free", "a"))[1, 0] * [1, 0, 1])
    assert model.condition({}) is model


def test_evidence_by_label():
    domain = pj.Domain({"sex": {"labels": ["F", "M"]}, "x": 2})
    model = pj.GraphicalModel.from_potentials(domain, {("sex", "x"): np.log([[1.0, 2], [3, 4]])}, 10)
    np.testing.assert_allclose(model.condition({"sex": "M"}).marginal(("x",)), [3, 4])


@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        ({"z": 0}, "'z'"),
        ({"a": 3}, "3.*'a'.* 0, 1, 2"),
        ({"a": "x"}, "'x'.*'a'.* 0, 1, 2"),
        ({"a": []}, "name at least one"),
        ({"a": {0: False}}, "dict.*'a'"),
    ],
)
def test_bad_evidence(evidence, message):
    with pytest.raises(ValueError, match=message):
        make()[0].condition(evidence)


def test_impossible_evidence():
    domain = pj.Domain({"a": 2})
    model = pj.GraphicalModel.from_potentials(domain, {("a",): [0.0, -np.inf]})
    with pytest.raises(ValueError, match=r"\('a',\)"):
        model.condition({"a": 1})


def test_impossible_evidence_names_what_contradicts():
    domain = pj.Domain(dict.fromkeys("abcde", 2))
    equal = np.log(np.eye(2) + 1e-300) + np.where(np.eye(2) > 0, 0.0, -np.inf)
    pairs = {("a", "b"): equal, ("b", "c"): equal, ("d", "e"): np.zeros((2, 2))}
    model = pj.GraphicalModel.from_potentials(domain, pairs)
    for evidence in ({"d": 0, "a": 0, "e": 1, "c": 1}, "d=0,a=0,e=1,c=1"):
        with pytest.raises(ValueError, match=r"cannot hold for \('a', 'c'\) together"):
            model.condition(evidence)
    unequal = equal[::-1]
    with pytest.raises(ValueError, match=r"agrees with \('a', 'b'\), \('b', 'c'\), \('a', 'c'\)\."):
        pj.GraphicalModel.from_potentials(domain, {**pairs, ("a", "c"): unequal, ("c", "d"): equal})


def test_limits_of_a_question_are_checked():
    model, _ = make()
    with pytest.raises(ValueError, match=r"max_seconds.*0"):
        model.within(max_seconds=0)
    with pytest.raises(ValueError, match=r"max_bytes.*0"):
        model.within(max_bytes=0)
    assert model.within(max_bytes=10**6).condition({"a": 1}).limits.max_bytes == 10**6


@pytest.mark.parametrize("seed", range(6))
def test_mode_is_the_most_likely_cell(seed):
    model, logits = make(seed, zeros=0.3)
    mode = model.mode()
    cell = tuple(mode[name] for name in DOMAIN.attributes)
    assert logits[cell] == logits.max()


def test_bad_potentials():
    domain = pj.Domain({"a": 2, "b": 2})
    make_model = pj.GraphicalModel.from_potentials
    with pytest.raises(ValueError, match=r"must have shape \(2, 2\), got \(2,\)"):
        make_model(domain, {("a", "b"): [0.0, 0.0]})
    with pytest.raises(ValueError, match="finite or minus infinity"):
        make_model(domain, {("a",): [0.0, np.nan]})
    with pytest.raises(ValueError, match="no possible cell"):
        make_model(domain, {("a",): [0.0, -np.inf], ("a", "b"): [[-np.inf, -np.inf], [0, 0]]})
    with pytest.raises(ValueError, match=r"total.*0"):
        make_model(domain, {}, total=0)


def test_unknown_attribute():
    with pytest.raises(ValueError, match="'z'"):
        make()[0].marginal(("a", "z"))


def test_reprs_are_readable():
    model, _ = make()
    assert repr(model) == "GraphicalModel(5 attributes, 3 cliques, 30 potentials, total=50.0)"
    assert "<table" in model._repr_html_() and "a, b" in model._repr_html_()


def test_extreme_potentials_keep_their_answers():
    """Potentials of size 1e5 that cancel between cliques."""
    domain = pj.Domain({"a": 3, "b": 3})
    model = pj.GraphicalModel.from_potentials(
        domain,
        {("a",): [1e5, 0.0, -1e5], ("a", "b"): [[-1e5, -1e5, -1e5], [0, 0, 0], [1e5, 1e5, 1e5]]},
        total=9,
    )
    np.testing.assert_allclose(model.marginal(("a", "b")), np.ones((3, 3)), atol=1e-9)


def test_numbers_as_labels_are_labels():
    domain = pj.Domain({"x": {"labels": [1, 0, 3]}})
    model = pj.GraphicalModel.from_potentials(domain, {("x",): np.log([1.0, 2.0, 3.0])}, 6)
    assert model.condition({"x": 0}).total == pytest.approx(2)
    assert model.condition({"x": np.int64(3)}).total == pytest.approx(3)
    with pytest.raises(ValueError, match=r"2.*'x'.* 1, 0, 3"):
        model.condition({"x": 2})


def test_wrong_types_are_named():
    model, _ = make()
    with pytest.raises(TypeError, match=r"pgmjax.queries.*int"):
        model.answer(1)
    np.testing.assert_allclose(model.answer(("a",)), model.marginal(("a",)))
    np.testing.assert_allclose(model.answer("a=1"), model.marginal(("a",))[1:2])
    with pytest.raises(TypeError, match=r"evidence.*list"):
        model.condition([("a", 1)])
    assert model.condition({"a": np.array(1)}).total == pytest.approx(model.marginal(("a",))[1])


def test_a_query_matrix_beyond_memory_is_refused(monkeypatch):
    model, _ = make()
    monkeypatch.setattr("pgmjax.inference.oracles.host.available_bytes", lambda: 1000)
    monkeypatch.setattr("pgmjax.inference.oracles.host.SMALL", 0)
    with pytest.raises(pj.ModelTooLargeError, match="the query's matrix on 'd' has 75 cells"):
        model.answer(queries.kronecker({"a": queries.total(), "d": queries.all_ranges()}))
