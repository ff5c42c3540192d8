"""Kills of real runs of `pgmjax release`: no answer is lost, drawn twice or left without a charge.

Many more of them: `python tests/storms/release.py 100`.
"""

import pathlib
import subprocess
import sys

STORM = pathlib.Path(__file__).parents[1] / "storms" / "release.py"


def test_no_answer_is_lost_where_runs_are_killed(tmp_path):
    done = subprocess.run(
        [sys.executable, str(STORM), "6"], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("6 kills of ")
    assert lines[-3:] == ["answers lost: 0", "answers drawn twice: 0", "answers without a charge: 0"]
