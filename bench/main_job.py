"""Time the main job, a private release of a real table in one command, on the tables of PGMJAX_DATA.

    PGMJAX_DATA=... python bench/main_job.py [adult] [titanic] [loans] [stroke] [--runs 1]
    PGMJAX_DATA=... python bench/main_job.py --beside COMMIT --runs 3      # in turn with another commit

Adult: all two-way marginals under a million cells of junction tree. The others: fifteen three-way
marginals drawn with a fixed seed such that no clique of the junction tree passes a million cells.
Each line of output is JSON: the table, the seconds of the whole command in a fresh process, by the clock and
of the processor, its peak memory, how the fit ended, and all that a figure needs beside it. With --beside
the ratio of the medians to those of the other commit follows.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import pathlib
import sys
import tempfile

import harness
import numpy as np

import pgmjax as pj

TABLES = ("adult", "titanic", "loans", "stroke")
COSTS = ("seconds", "cpu_seconds", "peak_mb")
# a checkout's own way to make itself importable, then its command
COMMAND = """
import sys
sys.path.insert(0, sys.argv.pop(1))
try:
    import checkout
except ImportError:
    import harness
from pgmjax.cli import run
run()
"""


def bounded_triples(domain: pj.Domain, seed: int, count: int = 15, limit: int = 1_000_000) -> list[list[str]]:
    """Draw three-way cliques while the largest clique of their junction tree stays under a limit."""
    planner = pj.Estimator(oracle="message_passing", max_bytes=2**62)
    generator = np.random.default_rng(seed)
    chosen: list[tuple[str, ...]] = []
    while len(chosen) < count:
        picked = generator.choice(len(domain), 3, replace=False)
        clique = tuple(domain.attributes[i] for i in sorted(picked))
        if clique in chosen:
            continue
        if planner.plan(domain, [*chosen, clique]).oracle.forecast.largest <= limit:
            chosen.append(clique)
    return [list(clique) for clique in chosen]


def asked(name: str, data: pathlib.Path, scratch: pathlib.Path) -> list[str]:
    """The words of a table's command, without the folder that it writes."""
    table, domain = data / name / f"{name}.csv.gz", data / name / f"{name}-domain.json"
    words = ["release", str(table), "--domain", str(domain), "--epsilon", "1", "--relation", "add-remove"]
    if name == "adult":
        return [*words, "--all-kway", "2", "--max-cells", "1000000"]
    workload = scratch / f"{name}.json"
    workload.write_text(json.dumps(bounded_triples(pj.Domain.read(domain), seed=7)))
    return [*words, "--workload", str(workload)]


def measure(words: list[str], root: pathlib.Path) -> harness.Line:
    """Run the command of a checkout once."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "release"
        command = [sys.executable, "-c", COMMAND, str(root / "bench"), *words, "--quiet", "--out", str(out)]
        line = harness.cost(command)
        if "failed" in line:
            return line
        release = json.loads((out / "release.json").read_text())
        return line | {
            "cliques": len(release["workload"]),
            "fit": release["fit"],
            "secure": release["secure"],
        }


def main() -> None:
    """Measure the tables named on the command line, all by default."""
    parser = harness.parser(__doc__)
    parser.add_argument("tables", nargs="*", default=TABLES, metavar="TABLE", help=", ".join(TABLES))
    parser.add_argument("--runs", type=int, default=1, help="of each side (1)")
    parser.add_argument("--beside", metavar="COMMIT", help="another commit, in turn with this one")
    options = parser.parse_args()
    if "PGMJAX_DATA" not in os.environ:
        parser.error("PGMJAX_DATA is not set: it names the folder of real tables")
    if wrong := [name for name in options.tables if name not in TABLES]:
        parser.error(f"tables are {', '.join(TABLES)}, got {wrong[0]!r}")
    found: dict[tuple[str, str], list[harness.Line]] = {}
    with contextlib.ExitStack() as stack:
        scratch = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        data = pathlib.Path(os.environ["PGMJAX_DATA"])
        roots = {"this": harness.ROOT}
        if options.beside:
            roots[options.beside] = stack.enter_context(harness.worktree(options.beside))
        words = {name: asked(name, data, scratch) for name in options.tables}
        for _, name, side in itertools.product(range(options.runs), options.tables, roots):
            line = {"table": name, "side": side, **measure(words[name], roots[side]), **harness.provenance()}
            found.setdefault((name, side), []).append(line)
            print(json.dumps(line), flush=True)
    for name in options.tables if options.beside else ():
        sides = [[line for line in found[name, side] if "failed" not in line] for side in roots]
        ratios = {key: [harness.median(line[key] for line in lines) for lines in sides] for key in COSTS}
        told = ", ".join(f"{key} {a / b:.3f}" if a and b else f"{key} -" for key, (a, b) in ratios.items())
        harness.say(f"{name}, over {options.beside}: {told}")


if __name__ == "__main__":
    main()
