"""Time the library beside the peer mbi, case by case in turn, and print the ratios with the targets.

    PGMJAX_DATA=... python bench/peers.py [CASE ...] [--runs 3] [--peer-python PYTHON] [--table]

Every run is a fresh process: bench/versus.py here, the peer's own script (mbi_run.py beside the file
of cases) in the peer's virtual environment, with its default oracle and with message_passing_fast.
Both are limited to the same memory; a run that dies is recorded with what it died of, and not
tried again in later runs. Each finished run is one line of bench/results/peers.jsonl, written at once:
a second start goes on where the first was stopped, for the same code on the same machine. A ratio
is the median of the peer's runs over the median of ours: above 1, ours is faster or smaller.

`fit-adult9@64` is a batch of 64 fits against 64 single fits of ours; it has no peer.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import subprocess
import sys
import venv
from collections.abc import Iterable, Sequence

import cases
import harness
from harness import Line
from ratios import BATCH, seconds, table

FAST = "message_passing_fast"
SIDES = ("ours", "mbi", "mbi-fast")
PEER_STEPS = {"fit-adult15-s1": 50}  # its thousand steps take a quarter of an hour


def default_cache() -> pathlib.Path:
    """Where the peer's environment is made: outside of the repository."""
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "pgmjax-bench"


def peer_environment(requirements: Sequence[str]) -> str:
    """The interpreter of an environment with the peer in it, made where it is missing."""
    name = "-".join("".join(c if c.isalnum() or c in ".=" else "_" for c in r) for r in requirements)
    folder = default_cache() / name
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        harness.say(f"making an environment with {' '.join(requirements)} in {folder}")
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *requirements], check=True)
        (folder / "ready").touch()
    return str(python)


@dataclasses.dataclass(frozen=True)
class Bench:
    """Where and how both sides are run."""

    options: argparse.Namespace
    peer_python: str
    peer_script: pathlib.Path
    ours: Line
    theirs: Line

    def steps(self, case: str, side: str) -> int | None:
        """Steps that the peer is told to do instead of the case's own."""
        return None if side == "ours" else self.options.peer_steps.get(case)

    def command(self, case: str, side: str) -> list[str]:
        """The command line of one run."""
        if side == "ours":
            name, _, batch = case.partition("@")
            words = [sys.executable, str(pathlib.Path(__file__).with_name("versus.py")), name]
            words += ["--cases", self.options.cases] if self.options.cases else []
            return words + (["--batch", batch] if batch else [])
        words = [self.peer_python, str(self.peer_script.resolve()), case]
        words += ["--oracle", FAST] if side == "mbi-fast" else []
        steps = self.steps(case, side)
        return words + (["--iters", str(steps)] if steps else [])

    def run(self, case: str, side: str, number: int) -> Line:
        """One run, with everything that is written about it."""
        load = harness.load_average()
        command = self.command(case, side)
        line = harness.run(
            command,
            memory_gb=self.options.memory,
            timeout=self.options.timeout,
            label=f"{case} {side}, run {number}:",
        )
        about = self.ours if side == "ours" else self.theirs
        versions = {**about["versions"], **line.pop("versions", {})}
        if case.startswith("fit-") and side != "ours" and "warm_s" in line:
            steps = self.steps(case, side) or cases.load(case, self.options.cases).steps
            line |= {"steps": steps, "step_s": line["warm_s"] / steps}
        keys = {"bench": "peers", "case": case, "side": side, "run": number}
        keys |= {"peer_steps": self.steps(case, side), "load_before": load, "limit_gb": self.options.memory}
        keys |= {"command": harness.shown(command), "date": harness.now(), "versions": versions}
        return {**line, **about, **keys}


def identity(line: Line) -> tuple:
    """What makes two runs the same measurement repeated."""
    return line["case"], line["side"], line.get("peer_steps"), line["run"]


def usable(line: Line, bench: Bench) -> bool:
    """Whether a finished run counts for this table: the same machine and code."""
    same = line.get("bench") == "peers" and line["machine"] == bench.ours["machine"]
    if line["side"] != "ours" and (bench.options.reuse_peer or bench.options.table):
        return same
    return same and line["source"] == bench.ours["source"]


def sides_of(case: str, wanted: Iterable[str], in_file: bool) -> list[str]:
    """The sides that a case is run on."""
    return [side for side in wanted if side == "ours" or (in_file and "@" not in case)]


def run_all(bench: Bench, names: Sequence[str], in_file: Sequence[str], done: dict[tuple, Line]) -> None:
    """Run what is not done yet; add it to the file and to `done`."""
    jobs = [
        (case, side, number)
        for case in names
        for number in range(1, bench.options.runs + 1)
        for side in sides_of(case, bench.options.sides, case in in_file)
    ]
    for place, (case, side, number) in enumerate(jobs, 1):
        key = (case, side, bench.steps(case, side), number)
        before = done.get((*key[:3], 1), {})
        if key in done or (number > 1 and "failed" in before):
            continue
        line = bench.run(case, side, number)
        harness.append(bench.options.out, line)
        done[key] = line
        harness.say(f"[{place}/{len(jobs)}] {case} {side}, run {number}: {told(line)}")


def told(line: Line) -> str:
    """One run in a few words."""
    if "failed" in line:
        return f"FAILED: {line['failed']}"
    words = [f"first {seconds(line['cold_s'])}"]
    words += [f"later {seconds(line['warm_s'])}"] if "warm_s" in line else []
    words += [f"loss {line['loss']:,.1f}"] if "loss" in line else []
    return ", ".join([*words, f"peak {line['peak_mb']:,.0f} MB"])


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="CASE", help="all of the file, and our own, by default")
    parser.add_argument("--cases", metavar="FILE", help="default: $PGMJAX_DATA/../peers/cases.json")
    parser.add_argument("--runs", type=int, default=3, help="runs of each side (3)")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=SIDES)
    parser.add_argument("--peer-python", metavar="PYTHON", help="an interpreter that has mbi")
    parser.add_argument(
        "--peer-requirements",
        nargs="+",
        default=["mbi==2.0.0"],
        help="what is installed for the peer where no interpreter is named (mbi==2.0.0)",
    )
    parser.add_argument("--peer-script", metavar="FILE", help="default: mbi_run.py beside the default cases")
    parser.add_argument(
        "--peer-steps",
        nargs="*",
        default=PEER_STEPS,
        metavar="CASE=N",
        help="fits that the peer does with fewer steps (fit-adult15-s1=50); without a value none",
    )
    parser.add_argument("--memory", type=float, metavar="GB", help="ulimit -v (24, less what is not there)")
    parser.add_argument("--timeout", type=float, default=1800, metavar="S", help="of one run (1800)")
    parser.add_argument("--out", type=pathlib.Path, default=harness.RESULTS / "peers.jsonl")
    parser.add_argument("--again", action="store_true", help="repeat what the file of results has")
    parser.add_argument("--reuse-peer", action="store_true", help="take the peer's runs of any commit")
    parser.add_argument("--table", action="store_true", help="run nothing: print what the file has")
    options = parser.parse_args()
    if not isinstance(options.peer_steps, dict):
        try:
            pairs = [entry.split("=") for entry in options.peer_steps]
            options.peer_steps = {case: int(steps) for case, steps in pairs}
        except ValueError:
            parser.error(f"--peer-steps takes CASE=N, got {' '.join(options.peer_steps)}")
    if options.memory is None:
        options.memory = harness.free_memory_gb()
    return options


def prepare(options: argparse.Namespace) -> Bench:
    """Find both sides and what there is to say about them."""
    script = pathlib.Path(options.peer_script or cases.default_file().with_name("mbi_run.py"))
    if not script.is_file():
        raise ValueError(f"the peer's script {script} is not there: pass --peer-script FILE.")
    python = options.peer_python
    if any(side != "ours" for side in options.sides) and not options.table:
        python = python or peer_environment(options.peer_requirements)
    ours = harness.provenance()
    theirs = dict(ours)
    if python:
        theirs["versions"] = harness.versions(python, ("jax", "jaxlib", "numpy", "mbi"))
    return Bench(options, python or "", script, ours, theirs)


def main() -> None:
    """Run both sides of every case that is asked for, and print the table."""
    options = parse()
    try:
        bench = prepare(options)
        in_file = list(cases.read(bench.peer_script.with_name("cases.json")))
        names = options.names or [*cases.read(options.cases), "oracle-chain-10000", BATCH]
        for name in names:
            cases.load(name.partition("@")[0], options.cases)
    except ValueError as error:
        sys.exit(f"peers.py: {error}")
    lines = harness.read(options.out)
    if options.table and lines:
        bench = dataclasses.replace(bench, ours=lines[-1])
    done = {identity(line): line for line in lines if line["case"] in names and usable(line, bench)}
    if options.again:
        done = {}
    stopped = False
    if not options.table:
        try:
            run_all(bench, names, in_file, done)
        except KeyboardInterrupt:
            stopped = True
            harness.say(f"stopped; what is finished is in {options.out}, the same command goes on from there")
    print(table(done.values()))
    sys.exit(130 if stopped else 0)


if __name__ == "__main__":
    main()
