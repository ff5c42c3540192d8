"""The kernels' benchmark runs from a bare checkout and is honest where there is no GPU."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).parent.parent.parent / "bench" / "kernels.py"


@pytest.mark.slow
@pytest.mark.skipif(not SCRIPT.is_file(), reason="the tests run apart from the source tree")
def test_without_a_gpu_it_checks_a_small_product_and_says_so(tmp_path):
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    environment.pop("PYTHONPATH", None)
    command = [sys.executable, str(SCRIPT)]
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    line = json.loads(run.stdout)
    assert line["skipped"].startswith("no GPU")
    assert line["interpreted_forward"] < 1e-5 and line["interpreted_backward"] < 1e-5
