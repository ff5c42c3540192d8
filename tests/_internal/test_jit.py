"""The settings of XLA: each release knows some of them, and none that it does not know is passed on."""

import concurrent.futures
import gc

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pgmjax._internal import jit

LEVEL = "xla_backend_optimization_level"


@pytest.fixture
def options(monkeypatch):
    monkeypatch.setattr(jit, "CPU_OPTIONS", {"xla_no_such_thing": False, LEVEL: 1})
    jit._known.cache_clear()
    yield jit.options
    jit._known.cache_clear()


def test_what_xla_does_not_know_is_left_out_alone(options):
    assert options("cpu") == {LEVEL: 1}
    assert options("cpu", long_run=True) is None and options("cuda") is None
    np.testing.assert_allclose(jit.jit(lambda x: jnp.sin(x) + 1)(np.float32(0.5)), np.sin(0.5) + 1, rtol=1e-6)


def test_products_are_at_the_highest_precision_whatever_the_user_set():
    product = jit.jit(lambda a, b: a @ b)
    with jax.default_matmul_precision("tensorfloat32"):
        product(jnp.ones((2, 2)), jnp.ones((2, 2)))
        (program,) = product.held.values()
        text = program.run.lower(jnp.ones((2, 2)), jnp.ones((2, 2))).as_text()
    assert "precision = [HIGHEST, HIGHEST]" in text


def test_programs_are_bounded_and_compiled_again_when_they_are_needed(monkeypatch):
    monkeypatch.setenv(jit.VARIABLE, "30")
    cube = jit.jit(lambda x: jnp.cumsum(jnp.sort(x) ** 3))
    wanted = {n: np.cumsum(np.arange(n, dtype=np.float32) ** 3) for n in range(1, 25)}
    maps = []
    for _ in range(2):
        for n, sums in wanted.items():
            np.testing.assert_allclose(cube(np.arange(n, dtype=np.float32)[::-1]), sums, rtol=1e-6)
            maps.append(jit._maps())
    assert 1 <= jit.cache_size(cube) <= 30 // 5 and len(jit._KEPT.recent) <= 30
    if maps[0] is not None:  # Linux: what was dropped is freed
        assert maps[-1] <= maps[5] + 60


def test_what_was_used_last_is_kept(monkeypatch):
    monkeypatch.setattr(jit, "_maps", lambda: None)
    double = jit.jit(lambda x: 2 * x)
    double(np.ones(1))
    monkeypatch.setenv(jit.VARIABLE, str(2 * jit.MAPS_EACH))
    first = next(iter(double.held.values()))
    for size in range(2, 6):
        double(np.ones(size))
        double(np.ones(1))
    assert first in double.held.values() and jit.cache_size(double) == 2


def test_programs_die_with_their_function():
    before = len(jit._KEPT.recent)
    function = jit.jit(lambda x: x + 1)
    function(np.ones(3))
    assert len(jit._KEPT.recent) == before + 1
    del function
    gc.collect()
    assert len(jit._KEPT.recent) == before


def test_threads_share_programs_that_are_dropped_beside_them(monkeypatch):
    monkeypatch.setenv(jit.VARIABLE, "0")
    power = jit.jit(lambda x, n: x**n, static_argnums=1)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda k: float(power(np.float32(2), k % 5)), range(60)))
    assert found == [2.0 ** (k % 5) for k in range(60)] and jit.cache_size(power) <= 4


def test_a_bound_that_is_no_number_is_an_error(monkeypatch):
    monkeypatch.setenv(jit.VARIABLE, "many")
    with pytest.raises(ValueError, match="PGMJAX_MAX_MAPS must be a whole number, got 'many'"):
        jit.max_maps()
