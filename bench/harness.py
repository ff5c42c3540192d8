"""What every script of bench/ stands on: this checkout's library, fresh processes, lines that are kept.

Import this before the library: the checkout always wins over an installed copy, so that the commit written
beside a figure is the code that was measured. `kernels/` at the root is `pgmjax.kernels`, which an
installation maps by its package data; here a finder does.

Only the standard library is used, so that a process that starts others stays small: a child's peak of
memory, as the system tells it, is never below its parent's size at the start.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import functools
import hashlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import platform
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
OUT_OF_MEMORY = re.compile(
    r"MemoryError|bad_alloc|RESOURCE_EXHAUSTED|[Oo]ut of memory|Cannot allocate memory"
)
Line = dict[str, Any]


class _Kernels(importlib.abc.MetaPathFinder):
    """Finds `pgmjax.kernels` in the folder at the root."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Say where the package is; None for every other name."""
        if fullname != "pgmjax.kernels":
            return None
        folder = ROOT / "kernels"
        return importlib.util.spec_from_file_location(
            fullname, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )


if str(ROOT) not in sys.path[:1]:
    sys.path.insert(0, str(ROOT))
sys.meta_path.append(_Kernels())


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
    return {**_about(), "date": now()}


@functools.cache
def _about() -> Line:
    return {
        "machine": machine(),
        "versions": {**versions(), "pgmjax": library_version()},
        "commit": commit(),
        "source": source(),
        "command": shown([sys.executable, *sys.argv]),
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


def peak_mb() -> float:
    """The most memory that this process has had, MB of 2^20 bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def timed(call: Callable[[], Any]) -> tuple[Any, Line]:
    """The result of a call, with its seconds by the clock and of the processor (all threads)."""
    wall, processor = time.perf_counter(), time.process_time()
    result = call()
    return result, {"wall": time.perf_counter() - wall, "processor": time.process_time() - processor}


def cost(command: Sequence[str], **variables: str) -> Line:
    """Run a command for its seconds by the clock and of the processor and its peak of memory alone.

    Returns:
        `seconds`, `cpu_seconds` and `peak_mb`; or `failed` in words.
    """
    start, environment = time.perf_counter(), {**os.environ, **variables}
    with tempfile.TemporaryFile("w+") as errors:
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": errors}
        child = subprocess.Popen(command, env=environment, **streams)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        wall = time.perf_counter() - start
        errors.seek(0)
        if child.returncode:
            return {"failed": _reason(child.returncode, errors.read(), None), "returncode": child.returncode}
    peak = used.ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    return {"seconds": wall, "cpu_seconds": used.ru_utime + used.ru_stime, "peak_mb": peak}


@contextlib.contextmanager
def worktree(commit: str) -> Iterator[pathlib.Path]:
    """The files of another commit in a folder of their own, which goes at the end."""
    with tempfile.TemporaryDirectory(prefix="pgmjax-bench-") as folder:
        path = pathlib.Path(folder) / "checkout"
        _git("worktree", "add", "--detach", str(path), commit)
        try:
            yield path
        finally:
            _git("worktree", "remove", "--force", str(path))


def append(path: pathlib.Path, line: Line) -> None:
    """Add one line to a file of results, which outlives an interrupt."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")


def keep(name: str, line: Line) -> None:
    """Add a line to a file of bench/results, with all that a figure needs beside it."""
    append(RESULTS / f"{name}.jsonl", {**provenance(), "load_before": load_average(), **line})


def read(path: pathlib.Path) -> list[Line]:
    """The lines of a file of results; none where it is not there."""
    if not path.exists():
        return []
    return [json.loads(text) for text in path.read_text().splitlines() if text.strip()]


def median(values: Iterable[float | None]) -> float | None:
    """Median of what there is, None of nothing."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


class Results:
    """The lines of one experiment: what is there is not run again, so that a stopped experiment goes on.

    Args:
        name: of the file in `bench/results`, without its ending; or its path.
        keys: what tells the runs apart.
        again: begin anew: what is in the file is not looked at.
        here: only lines of this code on this machine count.
    """

    def __init__(
        self, name: str | pathlib.Path, keys: Sequence[str], *, again: bool = False, here: bool = False
    ):
        self.path = RESULTS / f"{name}.jsonl" if isinstance(name, str) else name
        self.keys = tuple(keys)
        lines = [] if again else read(self.path)
        about = provenance() if here else {}
        lines = [x for x in lines if not here or all(x[k] == about[k] for k in ("machine", "source"))]
        self.lines = {self.key(line): line for line in lines}
        self._load = load_average()

    def key(self, line: Line) -> tuple:
        """What tells a line's run apart."""
        return tuple(line.get(name) for name in self.keys)

    def __contains__(self, key: tuple) -> bool:
        """Whether there is a line of this run."""
        return key in self.lines

    def missing(self, name: str, values: Iterable[Any], **others: object) -> list[Any]:
        """Return those values of a key for which there is no line yet."""
        return [value for value in values if self.key({name: value, **others}) not in self.lines]

    def add(self, line: Line) -> Line:
        """Keep a line, on disk at once, with all that a figure needs beside it, and return it whole."""
        line = {**provenance(), "load_before": self._load, **line}
        append(self.path, line)
        self.lines[self.key(line)] = line
        self._load = load_average()
        return line

    def where(self, **named: object) -> list[Line]:
        """Return the lines with these values."""
        return [
            line for line in self.lines.values() if all(line[name] == value for name, value in named.items())
        ]


def parser(about: str | None, trials: int | None = None) -> argparse.ArgumentParser:
    """A parser that prints a script's docstring; with `trials`, also for --again, --plot and --trials."""
    result = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    if trials is not None:
        result.add_argument("--again", action="store_true", help="run what is in the file of lines once more")
        result.add_argument("--plot", action="store_true", help="run nothing: draw what there is")
        text = f"draws of the noise, seeds 0, 1, ...; {trials}"
        result.add_argument("--trials", type=int, default=trials, help=text)
    return result


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    lines = ["| " + " | ".join(row) + " |" for row in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def figure(name: str, draw: Callable[[Any], object], size: tuple[float, float]) -> None:
    """Draw a plot beside the results, where matplotlib is installed.

    Args:
        name: of the picture, without its ending.
        draw: draws on a matplotlib figure.
        size: width and height (inches).
    """
    try:
        import matplotlib
    except ImportError:
        say("matplotlib is not installed: no plot")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    canvas = pyplot.figure(figsize=size, layout="constrained")
    draw(canvas)
    path = RESULTS / f"{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas.savefig(path, dpi=110)
    pyplot.close(canvas)
    say(f"plot: bench/results/{path.name}")


def legend_below(axes: Any, size: float = 7, columns: int = 2) -> None:
    """Explain the curves of a panel below it, where the legend lies over none of them."""
    axes.legend(fontsize=size, loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=columns, frameon=False)


def seconds(value: float | None) -> str:
    """A time in the unit that reads best."""
    if value is None:
        return "-"
    return f"{value:.3g} s" if value >= 1 else f"{value * 1e3:.3g} ms"
