"""A batch over two processes on loopback, against one device of one process."""

import os
import pathlib
import socket
import subprocess
import sys

import pytest

WORKER = """
import sys
number, address, tests = int(sys.argv[1]), *sys.argv[2:]
sys.path.insert(0, tests)
import program_cache
program_cache.switch_on()
import jax

jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(address, num_processes=2, process_id=number, initialization_timeout=60)

import numpy as np
import pgmjax as pj

assert jax.process_count() == 2 and len(jax.devices()) == 4, (jax.process_count(), jax.devices())
domain = pj.Domain({"a": 3, "b": 4, "c": 2})
joint = np.random.default_rng(0).dirichlet(np.ones(24)).reshape(3, 4, 2)
totals = [10.0 ** (2 + seed % 4) for seed in range(7)]
rows = []
for seed, total in enumerate(totals):
    rng = np.random.default_rng(seed)
    tables = (joint.sum(2), joint.sum(0))
    noisy = [table * total + rng.normal(size=table.shape) * (1 + seed) for table in tables]
    pairs = zip((("a", "b"), ("b", "c")), noisy)
    rows.append([pj.LinearMeasurement(clique, values, 1.0 + seed) for clique, values in pairs])

estimator = pj.Estimator(max_steps=60)
mesh = jax.sharding.Mesh(np.array(jax.devices()), ("rows",))
many = estimator.fit_batch(domain, rows, totals, mesh=mesh)
if number:  # one of them tells
    jax.distributed.shutdown()
    sys.exit()
one = estimator.fit_batch(domain, rows, totals)  # on this process's own device
assert many.status.tolist() == one.status.tolist()
assert many.steps.tolist() == one.steps.tolist()
np.testing.assert_allclose(many.loss, one.loss, rtol=1e-6)
for a, b in zip(many, one):
    np.testing.assert_allclose(a.model.marginal(("a", "c")), b.model.marginal(("a", "c")), rtol=1e-5)
print("same", len(many))
jax.distributed.shutdown()
"""


TESTS = str(pathlib.Path(__file__).resolve().parents[1])


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def test_two_processes_give_the_numbers_of_one_device():
    address = f"127.0.0.1:{_free_port()}"
    environment = {
        **os.environ,
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
        "JAX_PLATFORMS": "cpu",
    }
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(number), address, TESTS],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    try:
        outs = [worker.communicate(timeout=150) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    if any("jax_cpu_collectives_implementation" in err and "gloo" in err for _, err in outs):
        pytest.skip("this jaxlib has no gloo collectives for CPUs")
    for worker, (_, err) in zip(workers, outs, strict=True):
        assert worker.returncode == 0, err[-3000:]
    assert "same 7" in outs[0][0]
