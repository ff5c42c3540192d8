"""Rows and slices on 8 virtual devices, against one device."""

import textwrap

import jax
import numpy as np
import pytest

import pgmjax as pj
from pgmjax._internal import sharding
from tests.devices import Devices

COMMON = """
import jax, jax.numpy as jnp, numpy as np
import pgmjax as pj
from pgmjax._internal import sharding

domain = pj.Domain({"a": 3, "b": 4, "c": 2})
rng = np.random.default_rng(0)
joint = rng.dirichlet(np.ones(24)).reshape(3, 4, 2)

def row(seed, total, stddev):
    rng = np.random.default_rng(seed)
    noisy = [table * total + rng.normal(size=table.shape) * stddev for table in (joint.sum(2), joint.sum(0))]
    return [pj.LinearMeasurement(c, y, stddev) for c, y in zip((("a", "b"), ("b", "c")), noisy)]

totals = [10.0 ** (2 + seed % 4) for seed in range(11)]
rows = [row(seed, total, 1.0 + seed) for seed, total in enumerate(totals)]
"""


@pytest.fixture(scope="module")
def eight_devices(tmp_path_factory):
    devices = Devices(tmp_path_factory.mktemp("devices") / "errors.txt")
    yield devices
    devices.process.kill()
    devices.process.wait()


def test_rows_on_eight_devices_end_as_on_one(eight_devices):
    """11 rows, so that some devices have more than others; the numbers are those of one device."""
    out = eight_devices.run(
        COMMON
        + textwrap.dedent("""
        mesh = jax.make_mesh((8,), ("rows",))
        estimator = pj.Estimator(max_steps=300)
        one = estimator.fit_batch(domain, rows, totals)
        many = estimator.fit_batch(domain, rows, totals, mesh=mesh)
        assert many.status.tolist() == one.status.tolist()
        assert many.steps.tolist() == one.steps.tolist()
        np.testing.assert_allclose(many.loss, one.loss, rtol=1e-6)
        for a, b in zip(one, many):
            np.testing.assert_allclose(a.model.marginal(("a", "c")), b.model.marginal(("a", "c")), rtol=1e-5)
        print(len(jax.devices()), len(many))
    """)
    )
    assert out.split() == ["8", "11"]


def test_a_mesh_of_two_axes_and_float64(eight_devices):
    """All axes of a mesh count as one; L1 stages work there too."""
    out = eight_devices.run(
        COMMON
        + textwrap.dedent("""
        mesh = jax.make_mesh((4, 2), ("x", "y"))
        estimator = pj.Estimator(loss="l1", dtype="float64", max_steps=200)
        one = estimator.fit_batch(domain, rows[:3], totals[:3])
        many = estimator.fit_batch(domain, rows[:3], totals[:3], mesh=mesh)
        assert many.steps.tolist() == one.steps.tolist()
        np.testing.assert_allclose(many.loss, one.loss, rtol=1e-9)
        print("same")
    """)
    )
    assert out.strip() == "same"


def test_every_device_holds_its_own_rows(eight_devices):
    """The slots really are cut along the mesh: each of 8 devices holds 2 of 16."""
    out = eight_devices.run(
        COMMON
        + textwrap.dedent("""
        from pgmjax.estimation.solvers import batch as batched
        held = []
        turn = batched._Program.turn
        def watched(self, *arguments):
            found = turn(self, *arguments)
            leaf = self.slots.state.candidate
            part = leaf.addressable_shards[0].data
            held.append((leaf.shape[0], len(leaf.sharding.device_set), part.shape[0]))
            return found
        batched._Program.turn = watched
        pj.Estimator(max_steps=50).fit_batch(domain, rows, totals, mesh=jax.make_mesh((8,), ("rows",)))
        batched._Program.turn = turn
        print(*held[0])
    """)
    )
    assert out.split() == ["16", "8", "2"]


SLICES = """
def run(mesh, count):
    table = jnp.asarray(np.random.default_rng(1).normal(size=(count, 3, 4)) * 20, jnp.float32)

    def one_slice(table, i):
        part = table[i]
        value = jax.nn.logsumexp(part)
        own = jnp.exp(part - value)
        return value, {"summed": own, "placed": jnp.zeros((count, 3)).at[i].set(own.sum(1))}

    call = jax.jit(lambda t: sharding.over_slices(mesh, lambda i: one_slice(t, i), count))
    return call(table), np.asarray(table, np.float64)
"""


def test_slices_on_eight_devices_give_the_whole_model(eight_devices):
    """19 slices on 8 devices (the last has none) against the joint in float64, and on one device."""
    out = eight_devices.run(
        COMMON
        + SLICES
        + textwrap.dedent("""
        for mesh in (None, jax.make_mesh((8,), ("slices",)), jax.make_mesh((2, 4), ("x", "y"))):
            (value, tables), table = run(mesh, 19)
            top = table.max()
            log_partition = top + np.log(np.exp(table - top).sum())
            joint = np.exp(table - log_partition)
            np.testing.assert_allclose(value, log_partition, rtol=1e-6)
            np.testing.assert_allclose(tables["summed"], joint.sum(0), atol=2e-6)
            np.testing.assert_allclose(tables["placed"], joint.sum(2), atol=2e-6)
        print("same")
    """)
    )
    assert out.strip() == "same"


def test_slices_shared_by_eight_devices_equal_those_of_one(eight_devices):
    eight_devices.run("""
        import itertools, jax, numpy as np, pgmjax as pj
        domain = pj.Domain({c: 4 for c in "abcd"})
        rng = np.random.default_rng(0)
        measured = [pj.LinearMeasurement(c, rng.random((4, 4)) * 100, 5.0)
                    for c in itertools.combinations("abcd", 2)]
        mesh = jax.make_mesh((8,), ("slices",))
        estimator = pj.Estimator(max_steps=60, dtype="float64", tol=0.0)
        one = estimator.fit(domain, measured, total=800.0)
        many = estimator.fit(domain, measured, total=800.0, mesh=mesh)
        oracle = many.plan.oracle
        assert type(oracle).__name__ == "Sliced" and oracle.mesh.size == 8 and oracle.plan.slices >= 8
        assert (one.steps, one.status) == (many.steps, many.status)
        np.testing.assert_allclose(many.loss, one.loss, rtol=1e-9)
        for a, b in zip(one.model.potentials.tables, many.model.potentials.tables):
            np.testing.assert_allclose(a, b, atol=1e-6)
        point = rng.normal(size=oracle.length)
        with jax.enable_x64(True):  # also backwards, through the loop of every device
            slope = jax.jit(jax.grad(lambda p: oracle.infer_flat(p)[0]))(point)
            np.testing.assert_allclose(slope, jax.jit(oracle.infer_flat)(point)[1], atol=1e-12)
    """)


def test_the_devices_of_an_estimator_share_batches_and_slices_and_nothing_else(eight_devices):
    out = eight_devices.run(
        COMMON
        + textwrap.dedent("""
        import itertools
        several = pj.Estimator(max_steps=60, dtype="float64", tol=0.0, devices=3)
        alone = pj.Estimator(max_steps=60, dtype="float64", tol=0.0)
        one, many = (e.fit_batch(domain, rows, totals) for e in (alone, several))
        assert many.steps.tolist() == one.steps.tolist()
        np.testing.assert_allclose(many.loss, one.loss, rtol=1e-9)

        wide = pj.Domain({c: 4 for c in "abcd"})
        measured = [pj.LinearMeasurement(c, rng.random((4, 4)) * 100, 5.0)
                    for c in itertools.combinations("abcd", 2)]
        assert not several.fit(wide, measured, total=800.0).plan.oracle.shares_devices
        settings = dict(max_steps=60, dtype="float64", tol=0.0, oracle="sliced")
        one, many = (pj.Estimator(devices=d, **settings).fit(wide, measured, total=800.0) for d in (1, 3))
        assert many.plan.oracle.mesh.size == 3 and one.plan.oracle.mesh is None
        np.testing.assert_allclose(many.loss, one.loss, rtol=1e-9)

        data = pj.Dataset.from_columns(domain, {"a": [0, 1, 2] * 9, "b": [0, 1, 3] * 9, "c": [0, 1, 1] * 9})
        few, enough = (pj.Estimator(devices=d, oracle="sliced", progress=False) for d in (9, 8))
        settings = dict(epsilon=1, relation="add-remove")
        try:
            pj.mechanisms.Marginals(estimator=few, **settings).run(data, pj.Workload([["a", "b"]]))
        except ValueError as error:
            print(error)
        release = pj.mechanisms.Marginals(estimator=enough, **settings).run(data, pj.Workload([["a", "b"]]))
        print(release.fit.plan.oracle.mesh.size)
    """)
    )
    assert out.splitlines() == [
        "devices=9 is more than JAX finds here, 8 (cpu): ask for at most that many.",
        "8",
    ]


def test_rows_drawn_on_several_devices_are_those_of_one(eight_devices):
    out = eight_devices.run(
        COMMON
        + textwrap.dedent("""
        from pgmjax.model import device_sampling
        model = pj.Estimator(max_steps=50).fit(domain, rows[0], totals[0]).model
        one = model.sample(5000, 3, device=True)
        for devices in (3, 8):
            mesh = jax.make_mesh((devices,), ("rows",), devices=jax.devices()[:devices])
            many = model.sample(5000, 3, mesh=mesh)
            assert all(np.array_equal(one[name], many[name]) for name in one)
        tables = device_sampling.Tables(*map(jnp.asarray, device_sampling._tables(
            device_sampling.sampling.conditionals(model._host.buckets(), model._host.structure.sizes))))
        with jax.enable_x64(True):
            drawn = device_sampling._draw(tables, jax.random.key(0), 1024, sharding.check(mesh))
        print(len(drawn.sharding.device_set), drawn.addressable_shards[0].data.shape)
    """)
    )
    assert out.strip() == "8 (3, 128)"


def test_slices_that_are_impossible_count_nothing():
    def one_slice(i):
        value = jax.numpy.where(i == 1, 2.0, -jax.numpy.inf)
        return value, jax.numpy.ones(2) * i

    value, tables = sharding.over_slices(None, one_slice, 3)
    assert float(value) == 2.0
    np.testing.assert_array_equal(tables, [1.0, 1.0])
    value, tables = sharding.over_slices(None, lambda i: (-jax.numpy.inf * (i + 1.0), jax.numpy.ones(2)), 3)
    assert float(value) == -np.inf
    assert np.isfinite(tables).all()


def test_rows_are_padded_to_the_devices():
    mesh = jax.make_mesh((1,), ("rows",))
    assert sharding.padded(5, mesh) == 5
    assert sharding.padded(5, None) == 5


def test_a_mesh_must_be_a_mesh():
    with pytest.raises(
        TypeError, match=r"mesh must be a jax.sharding.Mesh or None, got list: write jax.make_mesh"
    ):
        pj.Estimator().fit_batch(pj.Domain({"a": 2}), [[pj.LinearMeasurement(("a",), [1, 2], 1.0)]], mesh=[1])
