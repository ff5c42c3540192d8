"""The script that compares forecasts: one program in a process, and a table of what was measured before."""

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


def test_the_table_counts_what_is_within_a_factor(run_script, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    import harness

    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    lines = [
        {"program": None, "rates": {}},
        {"program": "oracle-a", "oracle": "x", "forecast_s": 9.0, "measured_s": 1.0},  # an older line
        {"program": "oracle-a", "oracle": "x", "forecast_s": 1.9, "measured_s": 1.0},
        {"program": "fit-a", "oracle": "y", "forecast_s": 0.4, "measured_s": 1.0},
        {"program": "fit-b", "failed": "killed"},
    ]
    for line, (told, used) in zip(lines[1:4], [(9, 1), (1.4, 1), (1, 2)], strict=True):
        line |= {"forecast_bytes": int(told * 2**30), "measured_bytes": used * 2**30}
    lines[3]["measured_bytes"] = 2**19  # too few to compare
    out = tmp_path / "lines.jsonl"
    out.write_text("".join(json.dumps(line) + "\n" for line in lines))
    said = run_script(SCRIPT, "--table", "--out", out)
    assert "| oracle-a | x | 1.9e+03 | 1e+03 | 1.90 | 1.43e+03 | 1.02e+03 | 1.40 |" in said
    assert "| fit-a | y | 400 | 1e+03 | 0.40 | - | - | - |" in said and "fit-b" not in said
    assert "seconds: 1 of 2 within a factor of 2" in said and "bytes: 1 of 1 within a factor of 1.5" in said
