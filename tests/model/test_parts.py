"""Models that do not fit in memory: what can be fitted is asked, sampled, saved and loaded, in parts."""

import itertools

import numpy as np
import pytest

import pgmjax as pj
from pgmjax._internal.memory import readable_bytes
from pgmjax.inference.oracles import host
from pgmjax.inference.oracles.host_tree import SlicedTree
from pgmjax.inference.plan import elimination
from pgmjax.inference.plan.structure import Structure
from pgmjax.model import sampling
from tests import models

SIZES = (3, 4, 2, 5, 3)
CLIQUES = ((0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (1, 3))
DOMAIN = pj.Domain(dict(zip("abcde", SIZES, strict=True)))


def names(clique):
    return tuple("abcde"[v] for v in clique)


@pytest.fixture(scope="module")
def tables():
    return models.potentials((SIZES, CLIQUES), seed=5, zeros=0.2)


@pytest.fixture
def model(tables):
    """A model, with memory for half of its junction tree."""
    potentials = {names(c): table for c, table in zip(CLIQUES, tables, strict=True)}
    made = pj.GraphicalModel.from_potentials(DOMAIN, potentials, total=100.0)
    structure = Structure(SIZES, CLIQUES)
    return made.within(max_bytes=host.needed_bytes(structure, elimination.best(structure)) // 2)


def test_calibrated_models_answer_in_parts(model, tables):
    ready = model.calibrate()
    assert isinstance(ready._tree, SlicedTree)
    logits = models.joint((SIZES, CLIQUES), tables)
    assert ready.log_partition() == pytest.approx(models.log_partition(logits), abs=1e-12)
    for pair, found in ready.all_marginals(2):
        expected = 100 * models.marginal(logits, ["abcde".index(name) for name in pair])
        np.testing.assert_allclose(found, expected, atol=1e-11)
        np.testing.assert_allclose(ready.marginal(pair), expected, atol=1e-11)


@pytest.mark.parametrize("method", sampling.METHODS)
def test_rows_drawn_in_parts_follow_the_model(model, tables, method):
    rows = 40_000
    columns = model.sample(rows, seed=3, method=method)
    expected = models.marginal(models.joint((SIZES, CLIQUES), tables), range(5))
    found = np.zeros(SIZES)
    np.add.at(found, tuple(columns[name] for name in "abcde"), 1)
    assert found.sum() == rows and not found[expected == 0].any()
    possible = expected > 0
    chi2 = ((found - rows * expected)[possible] ** 2 / (rows * expected[possible])).sum()
    degrees = possible.sum() - 1
    assert chi2 < degrees + 5 * np.sqrt(2 * degrees)
    order = np.corrcoef(np.arange(rows), columns["d"])[0, 1]
    assert abs(order) < 5 / np.sqrt(rows)  # the parts are mixed
    # rounding leaves less error than independent draws do
    assert chi2 < 0.7 * degrees or method == "multinomial"


def test_the_most_likely_row_is_found_in_parts(model, tables):
    logits = models.joint((SIZES, CLIQUES), tables)
    best = np.unravel_index(np.argmax(logits), SIZES)
    assert tuple(model.mode().values()) == tuple(int(code) for code in best)


def test_a_model_is_saved_and_loaded_in_the_same_memory(model, tmp_path):
    model.save(tmp_path / "model")
    loaded = pj.load(tmp_path / "model").within(max_bytes=model.limits.max_bytes)
    np.testing.assert_allclose(loaded.marginal(("a", "d")), model.marginal(("a", "d")), atol=1e-12)


def test_a_refusal_says_what_was_found_and_what_would_help(model, tables):
    hurried = model.within(model.limits.max_bytes, max_seconds=1e-9)
    with pytest.raises(pj.ModelTooLargeError, match="no order has less than") as refusal:
        hurried.calibrate()
    text, need = str(refusal.value), refusal.value.fits_in
    for word in ("s of search", "at a time", "approximate=True", "in 2 parts", "within(max_bytes=..."):
        assert word in text
    assert model.limits.max_bytes < need and readable_bytes(need) in text
    model.within(max_bytes=need).calibrate()


def test_what_is_fitted_in_slices_can_be_asked_in_the_same_memory(tmp_path):
    """All pairs of neighbours of a grid, with memory for slices only."""
    domain = pj.Domain({f"{row}{column}": 2 for row in range(6) for column in range(6)})
    cliques = [(f"{r}{c}", f"{r}{c + 1}") for r in range(6) for c in range(5)]
    cliques += [(f"{r}{c}", f"{r + 1}{c}") for r in range(5) for c in range(6)]
    whole = pj.Estimator(oracle="contraction").plan(domain, cliques).peak_bytes
    estimator = pj.Estimator(oracle="sliced", max_bytes=int(0.95 * whole), max_steps=3)
    rng = np.random.default_rng(0)
    noisy = [pj.LinearMeasurement(c, rng.uniform(5, 15, (2, 2)), stddev=1.0) for c in cliques]
    model = estimator.fit(domain, noisy, total=40.0).model.within(estimator.max_bytes)
    assert model.marginal(("00", "55")).sum() == pytest.approx(40)
    assert dict(model.calibrate().marginals([("00", "33")]))["00", "33"].sum() == pytest.approx(40)
    assert len(model.sample(50, seed=0)["00"]) == 50
    model.save(tmp_path / "model")
    loaded = pj.load(tmp_path / "model").within(estimator.max_bytes)
    np.testing.assert_allclose(loaded.marginal(("50", "05")), model.marginal(("50", "05")))


def test_a_fit_whose_model_could_not_be_asked_is_refused_before(monkeypatch):
    monkeypatch.setattr("pgmjax.inference.oracles.host.CELLS", 1e8)
    monkeypatch.setattr("pgmjax.inference.oracles.host.QUESTION_SECONDS", 0.0)
    domain = pj.Domain(dict.fromkeys("abcdef", 10))
    with pytest.raises(pj.ModelTooLargeError, match=r"1,000.*2\^10"):
        pj.Estimator(oracle="sliced", max_bytes=10**9).plan(domain, [tuple("abcdef"[:3]), tuple("def")])


def test_a_model_too_large_for_any_question_is_still_made_loaded_and_saved(tmp_path):
    """All pairs of 60 attributes of 50 values: no elimination order fits, but a clique's evidence does."""
    domain = pj.Domain({f"x{i}": 50 for i in range(60)})
    potentials = {(f"x{i}", f"x{j}"): np.zeros((50, 50)) for i in range(60) for j in range(i)}
    model = pj.GraphicalModel.from_potentials(domain, potentials, total=9.0)
    model.save(tmp_path / "model")
    model = pj.load(tmp_path / "model")
    with pytest.raises(pj.ModelTooLargeError, match="cells"):
        model.marginal(("x0",))
    assert model.marginal(()) == 9.0
    given = {f"x{i}": 0 for i in range(2, 60)}
    assert model.log_partition(given) == pytest.approx(np.log(2500))


@pytest.mark.parametrize("seed", range(12))
def test_parts_count_variables_that_were_summed_out_once(seed):
    """Variables in no clique, or in one table alone, are summed out before a question is divided."""
    rng = np.random.default_rng(seed)
    domain = pj.Domain({**dict.fromkeys("abcde", 6), "z": int(rng.integers(2, 400)), "y": 5})
    pairs = [*itertools.combinations("abcde", 2), ("a", "y")]
    potentials = {pair: rng.normal(size=domain.shape_of(pair)) for pair in pairs}
    whole = pj.GraphicalModel.from_potentials(domain, potentials, 50.0)
    small = whole.within(max_bytes=60_000)
    assert len(small._host.divided()) > 1
    assert small.log_partition() == pytest.approx(whole.log_partition(), rel=1e-12)
    evidence = {"b": 3, "z": 1}
    assert small.condition(evidence).total == pytest.approx(whole.condition(evidence).total, rel=1e-9)
    np.testing.assert_allclose(small.marginal(("c", "z")), whole.marginal(("c", "z")), rtol=1e-9)
