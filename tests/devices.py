"""A process with eight virtual devices that runs one piece of code after another.

The number of devices is fixed when JAX starts, so that code for several needs a process of its own; the
pieces share its imports and compiled programs.
"""

import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import textwrap
import traceback

FLAGS = "--xla_force_host_platform_device_count=8"


class Devices:
    """Runs code where jax has eight devices."""

    def __init__(self, log):
        environment = {**os.environ, "XLA_FLAGS": FLAGS, "JAX_PLATFORMS": "cpu"}
        self.log = log
        with log.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, pathlib.Path(__file__).resolve()],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def run(self, code):
        """What a piece of code prints; AssertionError with its traceback where it fails."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(textwrap.dedent(code)) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, self.log.read_text()[-3000:]
        answer = json.loads(line)
        assert answer["error"] is None, answer["error"]
        return answer["printed"]


def serve():
    """Run what comes in, a line a piece, each in a namespace of its own; one line of answer for each."""
    import program_cache  # this file runs as a script: its folder is on the path

    program_cache.switch_on()
    answers = sys.stdout
    for line in sys.stdin:
        printed, error = io.StringIO(), None
        try:
            with contextlib.redirect_stdout(printed):
                exec(json.loads(line), {})
        except BaseException:
            error = traceback.format_exc()
        print(json.dumps({"printed": printed.getvalue(), "error": error}), file=answers, flush=True)


if __name__ == "__main__":
    serve()
