"""Figure 2b: time per iteration of estimation against 3 to 1,000 attributes, four ways.

    python bench/paper004/scalability.py [METHOD ...] [--attributes N ...] [--peer-python PYTHON]
        [--memory GB] [--timeout S] [--again] [--plot] [--table]

engine: `pgmjax.Estimator`. multiplicative-weights, lsmr: over the full vector of cells. mbi: the peer, in its
own interpreter. certificate: fits of the engine at 1,000 attributes to their tolerance, as a check.
bench/paper004/scalability_point.py says what is timed.

Every point is a fresh process under a limit of memory and time, and one line of
bench/results/paper004-scalability.jsonl; what is in the file for the same code and machine is not run
again. The methods take turns at each number of attributes, so that their ratios are of one run. A point
that fails is recorded with its reason and ends its method. `--plot` draws and `--table` prints what the
file has for its latest code and machine, and run nothing.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Sequence

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import harness
from harness import Line
from ratios import seconds

ATTRIBUTES = (3, 4, 5, 6, 7, 8, 9, 10, 20, 50, 100, 200, 500, 1000)
NAMES = {
    "engine": "engine",
    "mbi": "mbi",
    "multiplicative-weights": "multiplicative weights",
    "lsmr": "LSMR",
}
STEP = ("step_s", "step_cpu_s")
CERTIFICATE = "certificate"
POINT = pathlib.Path(__file__).resolve().with_name("scalability_point.py")
SIZE = 10  # values of an attribute


def key(line: Line) -> tuple[str, int]:
    """What makes two lines the same point."""
    return line["method"], line["attributes"]


def jobs(methods: Sequence[str], attributes: Sequence[int]) -> list[tuple[str, int]]:
    """The points in the order in which they run."""
    order = [(method, n) for n in attributes for method in NAMES if method in methods]
    return order + ([(CERTIFICATE, max(attributes))] if CERTIFICATE in methods else [])


def run(options: argparse.Namespace, python: str | None, about: Line) -> None:
    """Run the points that the file does not have yet."""
    theirs = harness.versions(python, ("jax", "jaxlib", "numpy", "mbi")) if python else {}
    ours = {**about["versions"], **harness.versions(names=("scipy",))}
    done = {
        key(line): line
        for line in harness.read(options.out)
        if not options.again and all(line[k] == about[k] for k in ("machine", "source"))
    }
    ended = set()
    for method, count in jobs(options.methods, options.attributes):
        if method in ended:
            continue
        line = done.get((method, count))
        if line is None:
            command = [python if method == "mbi" else sys.executable, str(POINT), method, str(count)]
            keys = {"bench": "paper004-scalability", "method": method, "attributes": count}
            keys |= {"load_before": harness.load_average(), "limit_gb": options.memory}
            label = f"{method} {count:,}:"
            line = harness.run(command, memory_gb=options.memory, timeout=options.timeout, label=label)
            keys |= {"command": harness.shown(command), "date": harness.now()}
            line = {**line, **about, **keys, "versions": theirs if method == "mbi" else ours}
            harness.append(options.out, line)
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


def latest(lines: Sequence[Line]) -> list[Line]:
    """The last line of each point, of the code and machine of the last line."""
    same = [x for x in lines if all(x[k] == lines[-1][k] for k in ("machine", "source"))]
    return list({key(line): line for line in same}.values())


def table(lines: Sequence[Line]) -> str:
    """A Markdown table: a row for each number of attributes, and the failures in words below it."""
    found = {key(line): line for line in latest(lines)}
    rows = [
        ("attributes", "cells", *NAMES.values(), "mbi / engine", "in CPU seconds"),
        ("---:",) * (len(NAMES) + 4),
    ]
    for count in sorted({count for method, count in found if method in NAMES}):
        entries = [entry(found.get((method, count), {})) for method in NAMES]
        ratios = [ratio(*(found.get((m, count), {}).get(k) for m in ("mbi", "engine"))) for k in STEP]
        cells = f"{SIZE**count:,}" if count <= 4 else f"10^{count}"
        rows.append((f"{count:,}", cells, *entries, *ratios))
    text = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    failed = [line for line in found.values() if "failed" in line]
    notes = [f"- {line['method']} at {line['attributes']:,}: {line['failed']}" for line in failed]
    notes += [
        f"- engine at {line['attributes']:,} to its tolerance, {ending(line, dtype)}"
        for line in found.values()
        if line["method"] == CERTIFICATE and "failed" not in line
        for dtype in ("float32", "float64")
    ]
    loads = [line["load_before"] for line in found.values() if line["load_before"] is not None]
    if loads:
        notes.append(f"- load average before the points: {min(loads):.1f} to {max(loads):.1f}")
    return text + "\n\n" + "\n".join(notes)


def ratio(theirs: float | None, ours: float | None) -> str:
    """How many times ours theirs is."""
    return f"{theirs / ours:.1f}" if theirs and ours else "-"


def entry(line: Line) -> str:
    """Seconds an iteration, with those of the first call in brackets."""
    if "failed" in line:
        words = ("refused", "out of memory", "killed")
        return next((word for word in words if line["failed"].startswith(word)), "failed")
    return f"{seconds(line['step_s'])} ({seconds(line['cold_s'])})" if "step_s" in line else "-"


def plot(lines: Sequence[Line], path: pathlib.Path) -> pathlib.Path | None:
    """Draw seconds an iteration against attributes; None without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        return None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panel = pyplot.subplots(figsize=(5.5, 3.8), layout="constrained")
    for method, name in NAMES.items():
        good = sorted(
            (line["attributes"], line["step_s"])
            for line in latest(lines)
            if line["method"] == method and "failed" not in line
        )
        if good:
            panel.loglog(*zip(*good, strict=True), marker="o", label=name)
    panel.set(xlabel="attributes of ten values", ylabel="seconds an iteration")
    panel.grid(True, which="major", alpha=0.3)
    panel.legend()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    return path


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = (*NAMES, CERTIFICATE)
    parser.add_argument("methods", nargs="*", metavar="METHOD", help=f"{', '.join(known)}; all by default")
    parser.add_argument("--attributes", nargs="+", type=int, default=ATTRIBUTES, metavar="N")
    parser.add_argument("--peer-python", metavar="PYTHON", help="an interpreter that has mbi")
    parser.add_argument("--memory", type=float, metavar="GB", help="ulimit -v (24, less what is not there)")
    parser.add_argument("--timeout", type=float, default=600, metavar="S", help="of one point (600)")
    parser.add_argument("--out", type=pathlib.Path, default=harness.RESULTS / "paper004-scalability.jsonl")
    parser.add_argument("--again", action="store_true", help="repeat what the file of results has")
    parser.add_argument("--plot", action="store_true", help="run nothing: draw what the file has")
    parser.add_argument("--table", action="store_true", help="run nothing: print what the file has")
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
    """Run the points that are asked for, then print the table."""
    options = parse()
    if not (options.plot or options.table):
        python = options.peer_python
        if "mbi" in options.methods and python is None:
            from peers import peer_environment

            python = peer_environment(["mbi==2.0.0"])
        try:
            run(options, python, harness.provenance())
        except KeyboardInterrupt:
            harness.say(f"stopped; what is finished is in {options.out}, the same command goes on from there")
            sys.exit(130)
    lines = harness.read(options.out)
    if not lines:
        sys.exit(
            f"scalability.py: there is nothing in {options.out.name} yet: run without --plot or --table."
        )
    if options.plot:
        path = plot(lines, options.out.with_suffix(".png"))
        harness.say("matplotlib is not installed: no plot" if path is None else f"plot: {path.name}")
    if options.table or not options.plot:
        print(table(lines))


if __name__ == "__main__":
    main()
