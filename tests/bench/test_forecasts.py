"""The script that compares forecasts: one program in a process, and a table of what was measured before."""

import importlib
import json
import pathlib

import pytest

SCRIPT = pathlib.Path(__file__).parent.parent.parent / "bench" / "forecasts.py"
pytestmark = pytest.mark.skipif(not SCRIPT.is_file(), reason="the tests run apart from the source tree")


@pytest.mark.parametrize("program", ["oracle-loops-20", "fit-tree-10", "calibrate-grid-8x8", "pair-grid-8x8"])
def test_a_program_is_run_and_compared(program, run_script):
    line = json.loads(run_script(SCRIPT, program, "--one"))
    assert line["forecast_s"] > 0 and line["measured_s"] > 0 and line["forecast_bytes"] > 0
    assert line["runs"] >= 3 and line["measured_bytes"] >= 0


def test_what_is_within_a_factor_is_counted(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    blocks = importlib.import_module("blocks.performance")
    lines = [
        {"program": None, "rates": {}},
        {"program": "oracle-a", "forecast_s": 9.0, "measured_s": 1.0},  # an older line
        {"program": "oracle-a", "forecast_s": 1.9, "measured_s": 1.0},
        {"program": "fit-a", "forecast_s": 0.4, "measured_s": 1.0},
        {"program": "fit-b", "failed": "killed"},
    ]
    for line, (told, used) in zip(lines[1:4], [(9, 1), (1.4, 1), (1, 2)], strict=True):
        line |= {"forecast_bytes": int(told * 2**30), "measured_bytes": used * 2**30}
    lines[3]["measured_bytes"] = 2**19  # too few to compare
    assert blocks.forecasts(lines) == {"seconds": "1 of 2", "bytes": "1 of 1"}
