"""Mixtures of products against the joint distribution, cell by cell in plain NumPy."""

import itertools

import numpy as np
import pytest

from pgmjax import queries
from pgmjax.data.domain import Domain
from pgmjax.inference.plan.forecast import ModelTooLargeError
from pgmjax.model.mixture import MixtureModel
from pgmjax.release.folder import load

SIZES = ((3, 4, 2), (2, 2, 2, 2, 2), (5,), (3, 1, 4, 2), (2, 6, 3, 4))
COMPONENTS = (3, 1, 4, 7, 2)
CASES = [pytest.param(s, k, zeros, id=f"{s}-{k}-{zeros}") for (s, k), zeros in zip(
    zip(SIZES, COMPONENTS, strict=True), (0.0, 0.0, 0.3, 0.3, 0.5), strict=True
)]  # fmt: skip


def random_mixture(sizes, components, zeros, seed=0):
    """A model, with its weights and rows as probabilities."""
    rng = np.random.default_rng(seed)
    names = [f"x{i}" for i in range(len(sizes))]
    weights = rng.normal(size=components)
    rows = {}
    for name, size in zip(names, sizes, strict=True):
        table = rng.normal(size=(components, size))
        table[:, 1:][rng.random((components, size - 1)) < zeros] = -np.inf
        rows[name] = table
    model = MixtureModel.from_logits(Domain(dict(zip(names, sizes, strict=True))), weights, rows, total=70.0)
    p = {name: np.exp(t) / np.exp(t).sum(axis=1, keepdims=True) for name, t in rows.items()}
    return model, np.exp(weights) / np.exp(weights).sum(), p


def joint_of(weights, rows, sizes):
    joint = np.zeros(sizes)
    for cell in itertools.product(*map(range, sizes)):
        for k, weight in enumerate(weights):
            joint[cell] += weight * np.prod([t[k, code] for t, code in zip(rows.values(), cell, strict=True)])
    return joint


def summed(joint, axes):
    kept = sorted(axes)
    table = joint.sum(axis=tuple(i for i in range(joint.ndim) if i not in axes))
    return table.transpose([kept.index(axis) for axis in axes])


@pytest.mark.parametrize(("sizes", "components", "zeros"), CASES)
def test_marginals_of_any_attributes_in_any_order(sizes, components, zeros):
    model, weights, rows = random_mixture(sizes, components, zeros)
    joint = joint_of(weights, rows, sizes)
    for length in range(1, len(sizes) + 1):
        for axes in itertools.permutations(range(len(sizes)), length):
            found = model.marginal([f"x{axis}" for axis in axes])
            np.testing.assert_allclose(found, 70 * summed(joint, axes), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("sizes", "components", "zeros"), CASES)
def test_answers_to_factored_and_joint_queries(sizes, components, zeros):
    model, weights, rows = random_mixture(sizes, components, zeros)
    joint = joint_of(weights, rows, sizes)
    names = list(rows)
    rng = np.random.default_rng(1)
    matrices = {name: rng.normal(size=(3, size)) for name, size in zip(names, sizes, strict=True)}
    signed = queries.kronecker({name: queries.matrix(m) for name, m in matrices.items()})
    letters, outs = "abcde"[: len(sizes)], "vwxyz"[: len(sizes)]
    spec = f"{letters},{','.join(o + a for o, a in zip(outs, letters, strict=True))}->{outs}"
    expected = 70 * np.einsum(spec, joint, *matrices.values())
    np.testing.assert_allclose(model.answer(signed), expected, rtol=1e-10, atol=1e-11)
    prefix = queries.kronecker({names[0]: queries.prefix()})
    expected = 70 * np.cumsum(summed(joint, (0,)))
    np.testing.assert_allclose(model.answer(prefix), expected, rtol=1e-12)
    dense = queries.DenseMatrix(tuple(names), rng.normal(size=(2, joint.size)))
    expected = 70 * dense.entries.array @ joint.reshape(-1)
    np.testing.assert_allclose(model.answer(dense), expected, rtol=1e-10, atol=1e-11)


def test_an_answer_over_more_cells_than_memory_needs_no_marginal():
    sizes = (10,) * 40
    model, weights, rows = random_mixture(sizes, 5, 0.0)
    with pytest.raises(ModelTooLargeError):
        model.marginal(list(rows))
    low = queries.kronecker({name: queries.ranges([(0, 8)]) for name in rows})
    expected = 70 * sum(
        weight * np.prod([table[k, :9].sum() for table in rows.values()]) for k, weight in enumerate(weights)
    )
    np.testing.assert_allclose(model.answer(low).reshape(()), expected, rtol=1e-12)


@pytest.mark.parametrize(("sizes", "components", "zeros"), CASES)
def test_evidence(sizes, components, zeros):
    model, weights, rows = random_mixture(sizes, components, zeros)
    joint = joint_of(weights, rows, sizes)
    allowed = {"x0": [0, 1]} if len(sizes) == 1 else {"x0": 0, f"x{len(sizes) - 1}": [0, 1]}
    masked = joint.copy()
    for name, codes in allowed.items():
        keep = np.isin(np.arange(model.domain[name]), codes)
        masked = masked * keep.reshape([-1 if f"x{i}" == name else 1 for i in range(len(sizes))])
    assert model.log_partition() == 0
    np.testing.assert_allclose(np.exp(model.log_partition(allowed)), masked.sum(), rtol=1e-12)
    given = model.condition(allowed)
    assert given.total == pytest.approx(70 * masked.sum())
    np.testing.assert_allclose(given.marginal(list(rows)), 70 * masked, rtol=1e-11, atol=1e-13)
    assert model.condition({}) is model


def test_impossible_evidence_and_bad_evidence():
    logs = {"a": [[0.0, -np.inf], [0.0, -np.inf]], "b": np.zeros((2, 3))}
    model = MixtureModel.from_logits(Domain({"a": 2, "b": 3}), [0.0, 1.0], logs)
    assert model.log_partition({"a": 1}) == -np.inf
    for evidence in ({"b": 0, "a": 1}, "b=0,a=1"):
        with pytest.raises(ValueError, match="probability zero: no record has this value of 'a'"):
            model.condition(evidence)
    with pytest.raises(ValueError, match="'c'"):
        model.condition({"c": 1})
    with pytest.raises(TypeError, match="mapping"):
        model.log_partition([("a", 0)])


def test_components_that_evidence_excludes_are_gone():
    logs = {"a": [[0.0, -np.inf], [-np.inf, 0.0]], "b": [[0.0, 0.0], [0.0, np.log(3)]]}
    model = MixtureModel.from_logits(Domain({"a": 2, "b": 2}), [0.0, 0.0], logs, total=8)
    given = model.condition({"a": 1})
    assert given.components == 1
    np.testing.assert_allclose(given.marginal(("b",)), [1.0, 3.0])


@pytest.mark.parametrize(("sizes", "components", "zeros"), CASES)
def test_log_probability_of_rows_known_in_part(sizes, components, zeros):
    model, weights, rows = random_mixture(sizes, components, zeros)
    joint = joint_of(weights, rows, sizes)
    rng = np.random.default_rng(2)
    columns = {name: rng.integers(-1, size, 50) for name, size in zip(rows, sizes, strict=True)}
    found = model.log_probability(columns)
    for row in range(50):
        cell = [int(codes[row]) for codes in columns.values()]
        part = joint[tuple(slice(None) if code < 0 else code for code in cell)]
        assert np.exp(found[row]) == pytest.approx(part.sum(), rel=1e-12)


@pytest.mark.parametrize("method", ["multinomial", "round"])
@pytest.mark.parametrize(("sizes", "components", "zeros"), CASES)
def test_rows_follow_the_joint_distribution(sizes, components, zeros, method):
    model, weights, rows = random_mixture(sizes, components, zeros)
    joint = joint_of(weights, rows, sizes)
    drawn = model.sample(40_000, seed=3, method=method)
    assert list(drawn) == list(rows)
    counts = np.zeros(sizes)
    np.add.at(counts, tuple(drawn.values()), 1)
    assert not counts[joint == 0].any()
    # independent rows lie at most this far off but once in 10^6 cells; dealt rows lie nearer
    assert np.all(np.abs(counts - 40_000 * joint) <= 5 * np.sqrt(40_000 * joint) + 2)


@pytest.mark.parametrize(("sizes", "components", "zeros"), CASES)
def test_rows_are_completed_from_the_conditional_distribution(sizes, components, zeros):
    if len(sizes) == 1:
        pytest.skip("nothing is left to complete")
    model, weights, rows = random_mixture(sizes, components, zeros)
    joint = joint_of(weights, rows, sizes)
    held = np.unravel_index(np.argmax(joint), sizes)
    known = {"x0": np.full(30_000, held[0]), "x1": np.full(30_000, held[1])}
    filled = model.complete(known, seed=4)
    assert list(filled) == list(rows)
    assert np.array_equal(filled["x0"], known["x0"])
    rest = joint[held[:2]] / joint[held[:2]].sum()
    counts = np.zeros(sizes[2:])
    np.add.at(counts, tuple(filled[f"x{i}"] for i in range(2, len(sizes))), 1)
    assert np.all(np.abs(counts - 30_000 * rest) <= 5 * np.sqrt(30_000 * rest) + 2)


def test_rows_of_many_attributes_in_a_file_and_checked(tmp_path):
    model, _, rows = random_mixture((4,) * 60, 30, 0.0)
    columns = model.sample(2000, seed=5)
    path = model.sample_to(tmp_path / "rows.csv", 2000, seed=5)
    read = np.loadtxt(path, delimiter=",", skiprows=1, dtype=int)
    assert path.read_text().splitlines()[0].replace('"', "").split(",") == list(rows)
    assert np.array_equal(read, np.stack(list(columns.values()), axis=1))
    checks = model.check_rows(columns)
    assert [check.clique for check in checks] == [(name,) for name in rows]
    assert all(abs(check.standard_errors) < 6 for check in checks)


def test_the_modes_of_components():
    logs = {"a": np.log([[0.9, 0.1], [0.2, 0.8]]), "b": np.log([[0.9, 0.1], [0.6, 0.4]])}
    model = MixtureModel.from_logits(Domain({"a": 2, "b": 2}), np.log([0.3, 0.7]), logs)
    assert model.best_component_mode() == {"a": 1, "b": 0}
    with pytest.raises(ValueError, match="best_component_mode"):
        model.mode()


def test_saved_and_loaded(tmp_path):
    model, _, rows = random_mixture((3, 4, 2), 5, 0.3)
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert isinstance(again, MixtureModel)
    assert again.domain == model.domain and again.total == model.total and again.cliques == model.cliques
    assert np.array_equal(again.marginal(list(rows)), model.marginal(list(rows)))
    assert sorted(path.name for path in (tmp_path / "m").iterdir()) == ["model.json", "model.npz"]


def test_corrupt_files_are_said_to_be(tmp_path):
    model, _, _ = random_mixture((3, 4), 2, 0.0)
    tmp_path = tmp_path / "m"
    model.save(tmp_path)
    whole = (tmp_path / "model.json").read_text()
    for change in (('"components": 2', '"components": 3'), ('"total": 70.0', '"total": -1.0')):
        assert change[0] in whole
        (tmp_path / "model.json").write_text(whole.replace(*change))
        with pytest.raises(ValueError, match="corrupt"):
            load(tmp_path)
    (tmp_path / "model.json").write_text(whole.replace('"format_version": 1', '"format_version": 2'))
    with pytest.raises(ValueError, match="version"):
        load(tmp_path)
    (tmp_path / "model.json").write_text(whole)
    (tmp_path / "model.npz").write_bytes(b"PK")
    with pytest.raises(ValueError, match="corrupt"):
        load(tmp_path)
    (tmp_path / "model.npz").unlink()
    with pytest.raises(FileNotFoundError, match=r"model\.npz"):
        load(tmp_path)


def test_bad_arguments():
    domain = Domain({"a": 2})
    with pytest.raises(ValueError, match="name every attribute"):
        MixtureModel.from_logits(domain, [0.0], {})
    with pytest.raises(ValueError, match=r"shape \(1, 2\)"):
        MixtureModel.from_logits(domain, [0.0], {"a": [[0.0, 1.0, 2.0]]})
    with pytest.raises(ValueError, match="no possible value"):
        MixtureModel.from_logits(domain, [0.0], {"a": [[-np.inf, -np.inf]]})
    with pytest.raises(ValueError, match="finite or minus infinity"):
        MixtureModel.from_logits(domain, [np.nan], {"a": [[0.0, 0.0]]})
    with pytest.raises(ValueError, match="total"):
        MixtureModel.from_logits(domain, [0.0], {"a": [[0.0, 0.0]]}, total=0)
    model = MixtureModel.from_logits(domain, [0.0], {"a": [[0.0, 0.0]]})
    with pytest.raises(ValueError, match="'a'"):
        model.answer("a")
    with pytest.raises(ValueError, match="'b'"):
        model.marginal(("b",))


def test_shown_as_text_and_html():
    model, _, _ = random_mixture((3, 4), 2, 0.0)
    assert repr(model) == "MixtureModel(2 attributes, 2 components, total=70.0)"
    assert "<b>MixtureModel</b>" in model._repr_html_() and "x1" in model._repr_html_()
