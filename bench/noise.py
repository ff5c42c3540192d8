"""Speed of noise, of choices and of randomised responses, and of one real workload with all its noise.

    [PGMJAX_DATA=...] python bench/noise.py [--sizes N...] [--repeats R] [--backends B...] [--loans]
        [--out FILE]

Primitives: seconds for 10^3 to 10^6 entries of noise (scale 10), for one choice among as many
candidates (scores 0 to 99, scale 10), and for as many responses over 5 categories (epsilon 1).
Workload: 2- and 3-way marginals of the Loans table with 362,201 cells in all, measured by
`PrivateTable.measure` with the secure backend, Laplace (epsilon 1) and Gaussian (rho 1/2); `--loans`
measures nothing else.

seconds: the best of so many runs (median_s beside it); for the workload from opening the file to the
answers.
table_s: validating and counting the same marginals alone. noise_s: the same noise alone.

Everything is one process, imports are not counted. The table is printed, the lines go to
bench/results/noise.jsonl.
"""

from __future__ import annotations

import argparse
import itertools
import os
import pathlib
import statistics
import time
from collections.abc import Callable, Sequence
from fractions import Fraction

import checkout  # noqa: F401  before the library
import harness
import numpy as np
from harness import Line

import pgmjax as pj
from pgmjax import queries
from pgmjax.measurements import noise
from pgmjax.privacy import Budget, NoiseBackend, OpenDPBackend, PrivateTable, SeededBackend
from pgmjax.privacy.selection import ExponentialMechanism, PermuteAndFlip

QUERIES = 362_201
SCALE = 10.0


def timed(run: Callable[[], object], repeats: int) -> Line:
    """Best and median seconds of some runs."""
    spent = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        spent.append(time.perf_counter() - start)
    return {"seconds": min(spent), "median_s": statistics.median(spent), "runs": repeats}


def primitives(backend: NoiseBackend, size: int) -> dict[str, Callable[[], object]]:
    """What to run for a number of entries."""
    scores, codes = np.arange(size) % 100, np.arange(size) % 5
    response = backend.randomized_response(5, Fraction(1))
    return {
        "laplace": lambda: backend.draw(noise.DiscreteLaplace(SCALE), size),
        "gaussian": lambda: backend.draw(noise.DiscreteGaussian(SCALE), size),
        "permute-and-flip": lambda: backend.choose(PermuteAndFlip(SCALE), scores),
        "exponential": lambda: backend.choose(ExponentialMechanism(SCALE), scores),
        "response": lambda: backend.respond(response, codes),
    }


def workload(domain: pj.Domain, cells: int, largest: int = 30_000, seed: int = 0) -> list[tuple[str, ...]]:
    """Draw 2- and 3-way marginals of so many cells in all, as nearly as the sizes allow."""
    size = dict(zip(domain.attributes, domain.shape, strict=True))
    pool = [c for k in (2, 3) for c in itertools.combinations(domain.attributes, k)]
    cost = {clique: int(np.prod([size[a] for a in clique])) for clique in pool}
    order = [pool[i] for i in np.random.default_rng(seed).permutation(len(pool))]
    chosen, left = [], cells
    for clique in order:
        if cost[clique] <= min(largest, left - 2 * largest):
            chosen.append(clique)
            left -= cost[clique]
    rest = [clique for clique in order if clique not in chosen]
    exact = {cost[clique]: clique for clique in rest}
    for clique in rest:  # two more that fill what is left to the last cell, if there are two
        other = exact.get(left - cost[clique])
        if other is not None and other != clique:
            return [*chosen, clique, other]
    return chosen


def loans(folder: pathlib.Path, unit: str, repeats: int) -> Line:
    """The workload's line under a budget's unit."""
    domain = pj.Domain.read(folder / "loans-domain.json")
    file = folder / "loans.csv.gz"
    cliques = workload(domain, QUERIES)
    asked = [queries.marginal(clique) for clique in cliques]
    rows = sum(query.num_rows(domain) for query in asked)
    backend = OpenDPBackend()

    def measure() -> None:
        budget = Budget(1) if unit == "epsilon" else Budget("1/2", unit="rho")
        table = PrivateTable(pj.Dataset.read(file, domain), pj.Relation.ADD_REMOVE, budget, backend)
        parts = budget.split([1] * len(asked))
        answers = table.measure(asked, show_progress=False, **{f"{unit}s": parts})
        assert sum(answer.values.size for answer in answers) == rows and table.secure

    def read() -> None:
        data = pj.Dataset.read(file, domain)
        data.validate()
        data.marginals(cliques)

    part = Fraction(1, len(asked))
    distribution = backend.laplace(1, part) if unit == "epsilon" else backend.gaussian(1, part / 2)
    alone = {
        "table_s": timed(read, repeats),
        "noise_s": timed(lambda: backend.draw(distribution, rows), repeats),
    }
    keys = {"primitive": f"workload, {distribution.noise}", "backend": backend.name, "entries": rows}
    return {
        **keys,
        **timed(measure, repeats),
        **{key: line["seconds"] for key, line in alone.items()},
        **{
            "marginals": len(asked),
            "records": pj.Dataset.read(file, domain).count(),
            "scale": distribution.scale,
        },
    }


def show(lines: Sequence[Line]) -> None:
    """A table of the lines."""
    print(f"{'primitive':<20} {'backend':<8} {'entries':>10} {'seconds':>10} {'us an entry':>12}")
    for line in lines:
        each = 1e6 * line["seconds"] / line["entries"]
        print(
            f"{line['primitive']:<20} {line['backend']:<8} {line['entries']:>10,} {line['seconds']:>10.4f} "
            f"{each:>12.3f}"
        )
        if "table_s" in line:
            print(f"{'':<20} table alone {line['table_s']:.2f} s, noise alone {line['noise_s']:.2f} s")


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="*", default=[10**3, 10**4, 10**5, 10**6])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--backends", nargs="+", default=["opendp", "seeded"], choices=("opendp", "seeded"))
    parser.add_argument("--loans", action="store_true", help="the workload only")
    parser.add_argument("--out", type=pathlib.Path, default=harness.RESULTS / "noise.jsonl")
    options = parser.parse_args()
    about = harness.provenance()
    about["versions"] |= harness.versions(names=("opendp",))
    lines: list[Line] = []

    def record(line: Line, load: float | None) -> None:
        lines.append({"bench": "noise", **line, "load_before": load, **about})
        harness.append(options.out, lines[-1])
        harness.say(f"{line['primitive']} {line['backend']} {line['entries']:,}: {line['seconds']:.3g} s")

    for name in [] if options.loans else options.backends:
        backend = OpenDPBackend() if name == "opendp" else SeededBackend(0, insecure=True)
        for size in options.sizes:
            for primitive, run in primitives(backend, size).items():
                load = harness.load_average()
                line = {"primitive": primitive, "backend": name, "entries": size}
                record({**line, **timed(run, options.repeats)}, load)
    folder = os.environ.get("PGMJAX_DATA")
    if options.loans and folder is None:
        parser.error("PGMJAX_DATA is not set: it names the folder of real tables")
    if folder is not None and "opendp" in options.backends:
        for unit in ("epsilon", "rho"):
            load = harness.load_average()
            record(loans(pathlib.Path(folder) / "loans", unit, options.repeats), load)
    show(lines)


if __name__ == "__main__":
    main()
