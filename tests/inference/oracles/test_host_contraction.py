"""The oracle in NumPy against brute force, also with potentials whose exponentials float64 cannot hold."""

import jax
import numpy as np
import pytest

from pgmjax.inference import oracles
from pgmjax.inference.ops import host_join, host_sweep
from pgmjax.inference.oracles.contraction import HostContraction
from pgmjax.inference.plan.forecast import ModelTooLargeError
from pgmjax.inference.plan.structure import Structure
from tests import models
from tests.models import STRUCTURES


def expected_of(structure, tables):
    logits = models.joint(structure, tables)
    flat = host_join([models.marginal(logits, clique) for clique in structure[1]], np.float64)
    return models.log_partition(logits), flat, logits.max()


@pytest.mark.parametrize("name", STRUCTURES)
@pytest.mark.parametrize("spread", [1.0, 30.0, 300.0, 3000.0])
def test_matches_brute_force_on_the_host(name, spread):
    structure = STRUCTURES[name]
    oracle = HostContraction.build(Structure(*structure))
    for zeros in (0.0, 0.4):
        vector = host_join(tables := models.potentials(structure, 3, spread, zeros), np.float64)
        value, marginals, largest = expected_of(structure, tables)
        found_value, found = oracle.infer_flat(vector)
        np.testing.assert_allclose(found_value, value, rtol=1e-14, atol=1e-9)
        np.testing.assert_allclose(found, marginals, atol=1e-12 * max(1, spread))
        np.testing.assert_allclose(oracle.maximum_flat(vector), largest, rtol=1e-14, atol=1e-12)
        assert isinstance(found, np.ndarray) and found.dtype == np.float64


def test_what_is_lost_is_counted():
    """Tables that compensate each other by 900 nats: probabilities alone give nonsense, and say so."""
    structure = ((2, 2, 2), ((0, 1), (1, 2)))
    first = np.array([[0.0, -900.0], [0.0, -900.0]])
    second = np.array([[-900.0, -901.0], [0.0, 1.0]])
    oracle = HostContraction.build(Structure(*structure))
    vector = host_join([first, second], np.float64)
    assert host_sweep.program(oracle.path).marginals(vector).error > 0.1
    _, marginals, _ = expected_of(structure, [first, second])
    np.testing.assert_allclose(oracle.infer_flat(vector)[1], marginals, atol=1e-12)


def test_what_is_set_to_zero_is_counted():
    """A cell 305 nats below another that the next table favours by 295: 5e-5 of the probability."""
    structure = ((2, 2, 2), ((0, 1), (1, 2)))
    tables = [np.array([[0.0, -305.0], [0.0, -305.0]]), np.array([[-295.0, -294.0], [0.0, 0.0]])]
    oracle = HostContraction.build(Structure(*structure))
    vector = host_join(tables, np.float64)
    assert 1e-6 < host_sweep.program(oracle.path).marginals(vector).error < 1e-3
    _, marginals, _ = expected_of(structure, tables)
    np.testing.assert_allclose(oracle.infer_flat(vector)[1], marginals, atol=1e-12)


def test_what_leaves_the_range_only_as_a_product_is_seen():
    """Cells and derivatives that are held, of which no product with one another is."""
    never = -np.inf
    structure = ((6, 2, 2, 4), ((0, 1), (1, 2), (2, 3), (0,), (1,)))
    tables = [np.full([structure[0][v] for v in clique], never) for clique in structure[1]]
    tables[0][[1, 4, 5], 1] = 0.0, -293.0, -501.0
    tables[1][[0, 1], [0, 1]] = 0.0, -243.0
    tables[2][1, 0] = 0.0
    tables[3][3:] = -352.0, -202.0, 0.0
    tables[4][:] = 0.0, -18.0
    oracle = HostContraction.build(Structure(*structure))
    vector = host_join(tables, np.float64)
    value, marginals, _ = expected_of(structure, tables)
    made = host_sweep.program(oracle.path).marginals(vector)
    lost = np.abs(made.vector - marginals).max()
    assert 1e-3 < lost <= made.error * (1 + 1e-9)  # a bound, reached here
    found_value, found = oracle.infer_flat(vector)
    np.testing.assert_allclose(found_value, value, rtol=1e-14)
    np.testing.assert_allclose(found, marginals, atol=1e-12)


def test_large_products_form_no_union_for_a_maximum(monkeypatch):
    monkeypatch.setattr(host_sweep, "CHUNK_CELLS", 50)
    structure = ((9, 8, 7), ((0, 1), (1, 2), (2, 0)))
    tables = models.potentials(structure)
    oracle = HostContraction.build(Structure(*structure))
    found = oracle.maximum_flat(host_join(tables, np.float64))
    np.testing.assert_allclose(found, models.joint(structure, tables).max(), atol=1e-12)


def test_many_small_products_are_one_call():
    """More batches than `MANY_PRODUCTS`, in which one row meets one column."""
    structure = ((40, 5, 2), ((0, 1), (1, 0), (0, 2), (2, 0)))
    tables = models.potentials(structure)
    oracle = HostContraction.build(Structure(*structure))
    _, marginals, _ = expected_of(structure, tables)
    np.testing.assert_allclose(oracle.infer_flat(host_join(tables, np.float64))[1], marginals, atol=1e-13)


def test_impossible_models():
    structure = STRUCTURES["chain"]
    tables = models.potentials(structure)
    tables[1][...] = -np.inf
    oracle = HostContraction.build(Structure(*structure))
    value, marginals = oracle.infer_flat(host_join(tables, np.float64))
    assert value == -np.inf and np.isfinite(marginals).all()


def test_auto_takes_the_host_where_compiling_would_cost_more():
    """A lattice asked a few times; many calls, or a compiled program, are for the device."""
    sizes = {f"{i}{j}": 4 for i in range(5) for j in range(5)}
    pairs = [(f"{i}{j}", f"{i + 1}{j}") for i in range(4) for j in range(5)]
    structure, names = Structure.named(sizes, pairs + [(b[::-1], a[::-1]) for a, b in pairs])
    assert isinstance(oracles.plan(structure, names, calls=20).oracle, HostContraction)
    for settings in ({"compiled": True}, {"calls": 10**9}):
        chosen = oracles.plan(structure, names, **settings).oracle
        assert not isinstance(chosen, HostContraction)


@pytest.mark.parametrize("platform", ["cpu", "gpu"])
def test_small_work_is_the_hosts_beside_a_card_too(monkeypatch, platform):
    """Two binary attributes asked 500 times; a batch, or calls without end, are the device's."""
    structure, names = Structure.named({"a": 2, "b": 2}, [("a", "b")])
    monkeypatch.setattr(jax, "default_backend", lambda: platform)
    assert isinstance(oracles.plan(structure, names, calls=500).oracle, HostContraction)
    assert oracles.plan(structure, names).beginning is not None
    for settings in ({"compiled": True}, {"calls": 10**9}):
        assert not isinstance(oracles.plan(structure, names, **settings).oracle, HostContraction)


def test_logarithms_are_formed_in_parts(monkeypatch):
    """A product of more cells than are formed at once, from potentials that probabilities cannot hold."""
    monkeypatch.setattr(host_sweep, "CHUNK_CELLS", 50)
    structure = ((9, 8, 7), ((0, 1), (1, 2), (2, 0)))
    tables = models.potentials(structure, spread=2000.0, zeros=0.3)
    oracle = HostContraction.build(Structure(*structure))
    value, marginals, _ = expected_of(structure, tables)
    found = host_sweep.program(oracle.path).log_marginals(host_join(tables, np.float64))
    np.testing.assert_allclose(found.log_partition, value, rtol=1e-14)
    np.testing.assert_allclose(found.vector, marginals, atol=1e-10)


def test_a_model_too_large_for_memory_is_refused_by_name():
    structure, names = Structure.named({"a": 900, "b": 900}, [("a", "b")])
    with pytest.raises(ModelTooLargeError, match="MiB"):
        oracles.plan(structure, names, "host", max_bytes=20_000_000)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seed", range(3))
def test_no_product_leaves_the_range_in_a_model_of_more_states_than_float64_holds(seed):
    """A tree of 300 attributes of 9 values with steep potentials, against logarithms all the way."""
    rng = np.random.default_rng(seed)
    sizes = (9,) * 300
    cliques = tuple((v, int(rng.integers(v))) if v % 3 else (v,) for v in range(1, 300))
    vector = np.concatenate([rng.normal(scale=30.0, size=9 ** len(clique)) for clique in cliques])
    oracle = HostContraction.build(Structure(sizes, cliques))
    found = host_sweep.program(oracle.path).marginals(vector)
    expected = host_sweep.program(oracle.path).log_marginals(vector)
    np.testing.assert_allclose(found.log_partition, expected.log_partition, rtol=1e-13)
    np.testing.assert_allclose(found.vector, expected.vector, atol=1e-9 + found.error)
    flat = oracle.infer_flat(np.zeros_like(vector))
    np.testing.assert_allclose(flat[0], 300 * np.log(9), rtol=1e-13)
    np.testing.assert_allclose(
        flat[1], np.concatenate([np.full(9 ** len(c), 9.0 ** -len(c)) for c in cliques])
    )
