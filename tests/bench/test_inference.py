"""The script of inference: every part runs at small sizes and says what it measured."""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parent.parent.parent
SCRIPT = str(ROOT / "bench" / "paper003" / "inference.py")


def test_coverage_and_blue(tmp_path):
    out = tmp_path / "inference.jsonl"
    command = [sys.executable, SCRIPT, "--small", "--parts", "blue", "coverage", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(text) for text in out.read_text().splitlines()]
    covered = [line for line in lines if line["part"] == "coverage"]
    assert len(covered) == 24 and all(line["covered"] > 0.94 for line in covered)
    assert all(line["seconds"] > 0 and line["cpu_seconds"] > 0 for line in lines if line["part"] == "blue")
