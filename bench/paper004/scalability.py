"""Figure 2b: time per iteration of estimation against 3 to 1,000 attributes, four ways.

    python bench/paper004/scalability.py [METHOD ...] [--attributes N ...] [--peer-python PYTHON]
        [--memory GB] [--timeout S] [--again] [--plot]

engine: `pgmjax.Estimator`. multiplicative-weights, lsmr: over the full vector of cells. mbi: the peer, in its
own interpreter. certificate: fits of the engine at 1,000 attributes to their tolerance, as a check.
bench/paper004/scalability_point.py says what is timed.

Every point is a fresh process under a limit of memory and time, and one line of
bench/results/paper004-scalability.jsonl; what is in the file for the same code and machine is not run
again. The methods take turns at each number of attributes, so that their ratios are of one run. A point
that fails is recorded with its reason and ends its method. `--plot` draws what the file has for its latest
code, and runs nothing.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import harness
from blocks.paper004 import METHODS
from blocks.text import last_code
from harness import Line, seconds

ATTRIBUTES = (3, 4, 5, 6, 7, 8, 9, 10, 20, 50, 100, 200, 500, 1000)
CERTIFICATE = "certificate"
POINT = pathlib.Path(__file__).resolve().with_name("scalability_point.py")


def jobs(methods: Sequence[str], attributes: Sequence[int]) -> list[tuple[str, int]]:
    """The points in the order in which they run."""
    order = [(method, n) for n in attributes for method in METHODS if method in methods]
    return order + ([(CERTIFICATE, max(attributes))] if CERTIFICATE in methods else [])


def run(options: argparse.Namespace, python: str | None) -> None:
    """Run the points that the file does not have yet."""
    theirs = harness.versions(python, ("jax", "jaxlib", "numpy", "mbi")) if python else {}
    ours = {**harness.provenance()["versions"], **harness.versions(names=("scipy",))}
    kept = harness.Results(options.out, ("method", "attributes"), again=options.again, here=True)
    ended = set()
    for method, count in jobs(options.methods, options.attributes):
        if method in ended:
            continue
        line = kept.lines.get((method, count))
        if line is None:
            command = [python if method == "mbi" else sys.executable, str(POINT), method, str(count)]
            keys = {"bench": "paper004-scalability", "method": method, "attributes": count}
            keys |= {"limit_gb": options.memory, "command": harness.shown(command)}
            label = f"{method} {count:,}:"
            line = harness.run(command, memory_gb=options.memory, timeout=options.timeout, label=label)
            line = kept.add({**line, **keys, "versions": theirs if method == "mbi" else ours})
        harness.say(f"{method} {count:,}: {told(line)}")
        if "failed" in line:
            ended.add(method)


def told(line: Line) -> str:
    """One point in a few words."""
    if "failed" in line:
        return f"FAILED: {line['failed']}"
    if line["method"] == CERTIFICATE:
        return "; ".join(ending(line, dtype) for dtype in ("float32", "float64"))
    return (
        f"{seconds(line['step_s'])} an iteration ({line['steps']} of them), first call "
        f"{seconds(line['cold_s'])}, peak {line['peak_mb']:,.0f} MB"
    )


def ending(line: Line, dtype: str) -> str:
    """How a fit of the certificate ended."""
    found = line[dtype]
    return (
        f"{dtype}: {found['status']} after {found['steps']:,} steps and {seconds(found['seconds'])}, "
        f"loss {found['loss']:,.1f}, certified gap {found['gap']:.3g}, {found['relative_gap']:.1e} of it"
    )


def draw(lines: Sequence[Line], canvas: Any) -> None:
    """Seconds an iteration against attributes."""
    panel = canvas.add_subplot()
    for method, name in METHODS.items():
        good = sorted(
            (line["attributes"], line["step_s"])
            for line in last_code(lines)
            if line["method"] == method and "failed" not in line
        )
        if good:
            panel.loglog(*zip(*good, strict=True), marker="o", label=name)
    panel.set(xlabel="attributes of ten values", ylabel="seconds an iteration")
    panel.grid(True, which="major", alpha=0.3)
    panel.legend()


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = harness.parser(__doc__)
    known = (*METHODS, CERTIFICATE)
    parser.add_argument("methods", nargs="*", metavar="METHOD", help=f"{', '.join(known)}; all by default")
    parser.add_argument("--attributes", nargs="+", type=int, default=ATTRIBUTES, metavar="N")
    parser.add_argument("--peer-python", metavar="PYTHON", help="an interpreter that has mbi")
    parser.add_argument("--memory", type=float, metavar="GB", help="ulimit -v (24, less what is not there)")
    parser.add_argument("--timeout", type=float, default=600, metavar="S", help="of one point (600)")
    parser.add_argument("--out", type=pathlib.Path, default=harness.RESULTS / "paper004-scalability.jsonl")
    parser.add_argument("--again", action="store_true", help="repeat what the file of results has")
    parser.add_argument("--plot", action="store_true", help="run nothing: draw what the file has")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.methods if name not in known]
    if unknown:
        parser.error(f"methods are {', '.join(known)}, got {', '.join(unknown)}")
    if min(options.attributes) < 3:
        parser.error(f"a chain of triples has 3 attributes at least, got {min(options.attributes)}")
    options.methods = options.methods or known
    options.attributes = sorted(set(options.attributes))
    if options.memory is None:
        options.memory = harness.free_memory_gb()
    return options


def main() -> None:
    """Run the points that are asked for, or draw what there is."""
    options = parse()
    if not options.plot:
        python = options.peer_python
        if "mbi" in options.methods and python is None:
            from peers import peer_environment

            python = peer_environment(["mbi==2.0.0"])
        try:
            run(options, python)
        except KeyboardInterrupt:
            harness.say(f"stopped; what is finished is in {options.out}, the same command goes on from there")
            sys.exit(130)
        return
    lines = harness.read(options.out)
    if not lines:
        sys.exit(f"scalability.py: there is nothing in {options.out.name} yet: run without --plot.")
    harness.figure(options.out.stem, lambda canvas: draw(lines, canvas), (5.5, 3.8))


if __name__ == "__main__":
    main()
