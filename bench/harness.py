"""Fresh processes that print one line of JSON, and what is written beside each line.

Only the standard library is used here, so that a process that starts others stays small: a child's
peak of memory, as the system tells it, is never below its parent's size at the start.
"""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import json
import os
import pathlib
import platform
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from checkout import ROOT

RESULTS = ROOT / "bench" / "results"
OUT_OF_MEMORY = re.compile(
    r"MemoryError|bad_alloc|RESOURCE_EXHAUSTED|[Oo]ut of memory|Cannot allocate memory"
)
Line = dict[str, Any]


def run(command: Sequence[str], *, memory_gb: float | None, timeout: float, label: str = "") -> Line:
    """Run a command under limits and read the last line of its output.

    Args:
        command: program and arguments.
        memory_gb: limit of its address space (`ulimit -v`), GB of 2^30 bytes; None sets none.
        timeout: seconds after which it is killed.
        label: shown with the seconds so far where standard error is a terminal.

    Returns:
        The line; or, where there is none, `failed` (in words) and `returncode`. An interrupt kills
        the command before it goes on.
    """
    if memory_gb is not None:
        limit = f'ulimit -v {int(memory_gb * 2**20)} && exec "$@"'
        command = ["/bin/sh", "-c", limit, "sh", *command]
    start = time.perf_counter()
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        while True:
            try:
                output, errors = child.communicate(timeout=1)
                break
            except subprocess.TimeoutExpired:
                spent = time.perf_counter() - start
                _show(f"{label} {spent:.0f} s")
                if spent > timeout:
                    return {"failed": f"killed after {timeout:g} s", "returncode": -signal.SIGKILL}
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        _show("")
    if child.returncode == 0:
        try:
            return json.loads(output.strip().splitlines()[-1])
        except (IndexError, json.JSONDecodeError):
            return {"failed": "printed no line of JSON", "returncode": 0}
    return {"failed": _reason(child.returncode, errors, memory_gb), "returncode": child.returncode}


def _reason(code: int, errors: str, memory_gb: float | None) -> str:
    """Why a command failed, in words."""
    last = errors.strip().splitlines()[-1:] or [""]
    starved = [line for line in errors.splitlines() if OUT_OF_MEMORY.search(line)]
    limit = "" if memory_gb is None else f" under ulimit -v {memory_gb:.1f} GB"
    if starved:
        return f"out of memory{limit}: {starved[-1].strip()[:200]}"
    if code < 0 or code > 128:
        number = -code if code < 0 else code - 128
        return f"killed by signal {number}{limit}: {last[0][:200]}"
    return last[0][:300]


def _show(text: str) -> None:
    """Replace the line at the bottom of the terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def say(text: str) -> None:
    """A line of progress on standard error."""
    _show("")
    print(text, file=sys.stderr, flush=True)


def free_memory_gb(reserve: float = 4.0, most: float = 24.0) -> float | None:
    """A limit for one process: what the machine has less a reserve; None where it has a GPU.

    A CUDA context maps more address space than the machine has memory, so it cannot be limited so.
    """
    if gpu() is not None:
        return None
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    except (OSError, ValueError, AttributeError):
        return most
    return max(min(most, total - reserve), 1.0)


def gpu() -> str | None:
    """Name and memory of the GPUs, as the driver's tool tells them."""
    try:
        asked = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"]
        found = subprocess.run(asked, capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return "; ".join(found.split("\n")).strip("; ") or None


def machine() -> Line:
    """What this runs on."""
    model = platform.processor() or platform.machine()
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    if cpuinfo.exists():
        models = [x.split(":", 1)[1].strip() for x in cpuinfo.read_text().splitlines() if "model name" in x]
        model = models[0] if models else model
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gb": round(memory / 2**30, 1),
        "gpu": gpu(),
        "system": platform.system(),
    }


def versions(python: str = sys.executable, names: Sequence[str] = ("jax", "jaxlib", "numpy")) -> Line:
    """Versions of an interpreter and of what is installed for it; None for what is not."""
    if python == sys.executable:
        return {"python": platform.python_version(), **{name: _version(name) for name in names}}
    asked = (
        "import importlib.metadata as m, json, platform, sys\n"
        "found = {d.metadata['Name'].lower(): d.version for d in m.distributions()}\n"
        "print(json.dumps({'python': platform.python_version(), **{n: found.get(n) for n in sys.argv[1:]}}))"
    )
    done = subprocess.run([python, "-c", asked, *names], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def library_version() -> str:
    """The version of the library in this checkout."""
    text = (ROOT / "pgmjax" / "_version.py").read_text()
    found = re.search(r'__version__ = "([^"]+)"', text)
    return found[1] if found else "unknown"


def commit() -> str | None:
    """The commit that is checked out, with `-dirty` behind it where the library differs from it."""
    try:
        head = _git("rev-parse", "--short=12", "HEAD")
        changed = _git("status", "--porcelain", "--", "pgmjax", "kernels", "bench/*.py")
    except (OSError, subprocess.SubprocessError):
        return None
    return head + ("-dirty" if changed else "")


def _git(*arguments: str) -> str:
    asked = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(asked, capture_output=True, text=True, check=True, timeout=30).stdout.strip()


def source() -> str:
    """A digest of the library's code: two runs with the same one measured the same program."""
    digest = hashlib.sha256()
    for path in sorted([*(ROOT / "pgmjax").rglob("*.py"), *(ROOT / "kernels").rglob("*.py")]):
        digest.update(str(path.relative_to(ROOT)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def provenance() -> Line:
    """Everything that a figure needs beside it."""
    return {
        "machine": machine(),
        "versions": {**versions(), "pgmjax": library_version()},
        "commit": commit(),
        "source": source(),
        "command": shown([sys.executable, *sys.argv]),
        "date": now(),
    }


def now() -> str:
    """The date and time, UTC."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def shown(command: Sequence[str]) -> str:
    """A command of Python's without the folders of this machine."""
    return " ".join(["python", *map(_shown, command[1:])])


def _shown(word: str) -> str:
    data = os.environ.get("PGMJAX_DATA")
    word = word.replace(str(ROOT) + os.sep, "")
    word = word.replace(data, "$PGMJAX_DATA") if data else word
    return ".../" + pathlib.Path(word).name if os.path.isabs(word) else word


def load_average() -> float | None:
    """Processes that wanted a core over the last minute: near 0 before a run in quiet."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def append(path: pathlib.Path, line: Line) -> None:
    """Add one line to a file of results, which outlives an interrupt."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")


def read(path: pathlib.Path) -> list[Line]:
    """The lines of a file of results; none where it is not there."""
    if not path.exists():
        return []
    return [json.loads(text) for text in path.read_text().splitlines() if text.strip()]


def median(lines: Sequence[Line], key: str) -> float | None:
    """Median of a key over the lines that have it."""
    values = [line[key] for line in lines if isinstance(line.get(key), int | float)]
    return statistics.median(values) if values else None
