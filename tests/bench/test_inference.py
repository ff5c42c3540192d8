"""The script of inference: every part runs at small sizes and says what it measured."""

import json
import pathlib

SCRIPT = pathlib.Path(__file__).parents[2] / "bench" / "paper003" / "inference.py"


def test_coverage_and_blue(tmp_path, run_script):
    said = run_script(SCRIPT, "--small", "--parts", "blue", "coverage")
    lines = [json.loads(text) for text in said.splitlines() if text.startswith("{")]
    covered = [line for line in lines if line["part"] == "coverage"]
    assert len(covered) == 24 and all(line["covered"] > 0.94 for line in covered)
    assert all(line["seconds"] > 0 and line["cpu_seconds"] > 0 for line in lines if line["part"] == "blue")
