"""The programs for a card, run on four devices that the processor stands in for."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent.parent
pytestmark = pytest.mark.skipif(not (ROOT / "bench").is_dir(), reason="apart from the source tree")


@pytest.mark.parametrize("program", ["oracle-chain-12x3", "mesh-fit"])
def test_a_program_is_checked_against_float64_on_four_devices(program):
    flags = "--xla_force_host_platform_device_count=4"
    variables = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ROOT / "bench" / "device.py"), "--quick", "--one", "device", program]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    line = json.loads(done.stdout.splitlines()[-1])
    assert line["devices"] == 4
    assert line["error"] <= line["allowed"] < 1e-2
    assert line["right"]
