"""Time the library beside the peer mbi, case by case in turn, and print the ratios with the targets.

    PGMJAX_DATA=... python bench/peers.py [CASE ...] [--runs 3] [--peer-python PYTHON]
    PGMJAX_DATA=... python bench/peers.py [CASE ...] --sides ours before --before COMMIT

Every run is a fresh process: bench/versus.py here, the peer's own script (mbi_run.py beside the file
of cases) in the peer's virtual environment, with its default oracle and with message_passing_fast.
Both are limited to the same memory; a run that dies is recorded with what it died of, and not
tried again in later runs. Each finished run is one line of bench/results/peers.jsonl, written at once:
a second start goes on where the first was stopped, for the same code on the same machine. A ratio
is the median of the other side's runs over the median of ours: above 1, ours is faster or smaller. The side
`before` is the same case run by another commit, in turn with this one; its lines are kept outside of
the repository.

`fit-adult9@64` is a batch of 64 fits against 64 single fits of ours; it has no peer.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import pathlib
import subprocess
import sys
import venv
from collections.abc import Iterable, Sequence

import cases
import harness
from blocks.performance import AIMS, peers
from harness import Line, seconds

FAST = "message_passing_fast"
OURS = ("ours", "before")
SIDES = ("ours", "mbi", "mbi-fast", "before")
KEYS = ("case", "side", "peer_steps", "run")
BATCH = "fit-adult9@64"  # 64 fits at once, against 64 single ones
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
    theirs: Line
    before: pathlib.Path | None = None

    def steps(self, case: str, side: str) -> int | None:
        """Steps that the peer is told to do instead of the case's own."""
        return None if side in OURS else self.options.peer_steps.get(case)

    def command(self, case: str, side: str) -> list[str]:
        """The command line of one run."""
        if side in OURS:
            name, _, batch = case.partition("@")
            root = harness.ROOT if side == "ours" else self.before
            words = [sys.executable, str(root / "bench" / "versus.py"), name]
            words += ["--cases", self.options.cases] if self.options.cases else []
            return words + (["--batch", batch] if batch else [])
        words = [self.peer_python, str(self.peer_script.resolve()), case]
        words += ["--oracle", FAST] if side == "mbi-fast" else []
        steps = self.steps(case, side)
        return words + (["--iters", str(steps)] if steps else [])

    def run(self, case: str, side: str, number: int) -> Line:
        """One run, with everything that is written about it."""
        command = self.command(case, side)
        line = harness.run(
            command,
            memory_gb=self.options.memory,
            timeout=self.options.timeout,
            label=f"{case} {side}, run {number}:",
        )
        about = {} if side in OURS else self.theirs
        versions = {**harness.provenance()["versions"], **about, **line.pop("versions", {})}
        if case.startswith("fit-") and side not in OURS and "warm_s" in line:
            steps = self.steps(case, side) or cases.load(case, self.options.cases).steps
            line |= {"steps": steps, "step_s": line["warm_s"] / steps}
        keys = {"bench": "peers", "case": case, "side": side, "run": number}
        keys |= {"peer_steps": self.steps(case, side), "limit_gb": self.options.memory}
        keys |= {"commit": self.options.before} if side == "before" else {}
        return {**line, **keys, "command": harness.shown(command), "versions": versions}


def usable(line: Line, options: argparse.Namespace) -> bool:
    """Whether a finished run counts: of the same machine and code."""
    here = harness.provenance()
    same = line["machine"] == here["machine"]
    return same and (line["source"] == here["source"] or (options.reuse_peer and line["side"] not in OURS))


def sides_of(case: str, wanted: Iterable[str], in_file: bool) -> list[str]:
    """The sides that a case is run on."""
    return [side for side in wanted if side in OURS or (in_file and "@" not in case)]


def run_all(bench: Bench, names: Sequence[str], in_file: Sequence[str], kept: harness.Results) -> None:
    """Run what is not done yet."""
    jobs = [
        (case, side, number)
        for case in names
        for number in range(1, bench.options.runs + 1)
        for side in sides_of(case, bench.options.sides, case in in_file)
    ]
    for place, (case, side, number) in enumerate(jobs, 1):
        key = (case, side, bench.steps(case, side), number)
        first = kept.lines.get((*key[:3], 1), {})
        if key in kept or (number > 1 and "failed" in first):
            continue
        line = kept.add(bench.run(case, side, number))
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
    parser = harness.parser(__doc__)
    parser.add_argument("names", nargs="*", metavar="CASE", help="all of the file, and our own, by default")
    parser.add_argument("--cases", metavar="FILE", help="default: $PGMJAX_DATA/../peers/cases.json")
    parser.add_argument("--runs", type=int, default=3, help="runs of each side (3)")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=SIDES[:3])
    parser.add_argument("--before", metavar="COMMIT", help="the commit of the side `before`")
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
    parser.add_argument("--out", type=pathlib.Path, help="bench/results/peers.jsonl, but not with --before")
    parser.add_argument("--again", action="store_true", help="repeat what the file of results has")
    parser.add_argument("--reuse-peer", action="store_true", help="take the peer's runs of any commit")
    options = parser.parse_args()
    if not isinstance(options.peer_steps, dict):
        try:
            pairs = [entry.split("=") for entry in options.peer_steps]
            options.peer_steps = {case: int(steps) for case, steps in pairs}
        except ValueError:
            parser.error(f"--peer-steps takes CASE=N, got {' '.join(options.peer_steps)}")
    if (options.before is None) == ("before" in options.sides):
        parser.error("--sides before and --before COMMIT belong together")
    if options.memory is None:
        options.memory = harness.free_memory_gb()
    if options.out is None:
        options.out = default_cache() / "before.jsonl" if options.before else harness.RESULTS / "peers.jsonl"
    return options


def prepare(options: argparse.Namespace) -> Bench:
    """Find the peer and what there is to say about it.

    Raises:
        ValueError: if its script is not there.
    """
    script = pathlib.Path(options.peer_script or cases.default_file().with_name("mbi_run.py"))
    if set(options.sides) <= set(OURS):
        return Bench(options, "", script, {})
    if not script.is_file():
        raise ValueError(f"the peer's script {script} is not there: pass --peer-script FILE.")
    python = options.peer_python or peer_environment(options.peer_requirements)
    return Bench(options, python, script, harness.versions(python, ("jax", "jaxlib", "numpy", "mbi")))


def table(lines: Iterable[Line]) -> str:
    """The ratios of all cases to every other side."""
    good = [line for line in lines if "cold_s" in line]
    ours = {line["case"] for line in good if line["side"] == "ours"}
    found = dict.fromkeys((line["case"], line["side"]) for line in good if line["case"] in ours)
    others = [pair for pair in found if pair[1] != "ours"]
    alone = [pair for pair in found if pair[0] not in {case for case, _ in others}]
    return peers(good, sorted([*others, *alone], key=lambda pair: [*AIMS, pair].index(pair)))


def main() -> None:
    """Run both sides of every case that is asked for, and print the ratios."""
    options = parse()
    try:
        bench = prepare(options)
        in_file = list(cases.read(bench.peer_script.with_name("cases.json")))
        names = options.names or [*cases.read(options.cases), "oracle-chain-10000", BATCH]
        for name in names:
            cases.load(name.partition("@")[0], options.cases)
    except ValueError as error:
        sys.exit(f"peers.py: {error}")
    kept = harness.Results(options.out, KEYS, again=options.again)
    kept.lines = {k: x for k, x in kept.lines.items() if x["case"] in names and usable(x, options)}
    stopped = False
    try:
        with contextlib.ExitStack() as stack:
            if options.before:
                bench = dataclasses.replace(
                    bench, before=stack.enter_context(harness.worktree(options.before))
                )
            run_all(bench, names, in_file, kept)
    except KeyboardInterrupt:
        stopped = True
        harness.say(f"stopped; what is finished is in {options.out}, the same command goes on from there")
    print(table(kept.lines.values()))
    sys.exit(130 if stopped else 0)


if __name__ == "__main__":
    main()
