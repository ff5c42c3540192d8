"""Half cuts of the Facebook graph, Table I and Figure 5 of Wang, Ying and Zhang 2016.

`python bench/paper002/facebook.py [--json] [--keep] [--runs 20] [--vertices 577 ...]`; needs PGMJAX_DATA.
Each pair of the vertices 0..V-1 answers for itself at epsilon = 1, and random halves of the vertices are cut
from the others. Errors are relative to the expected number of edges across a random half cut.

predicted_sd         exact standard deviation of a half cut, from V and the number of edges
worst_error          the largest of 1, 10, 100 absolute errors, each cut on a release of its own; mean of
                     the runs. Expected: 0.80, 1.88, 2.75 times predicted_sd
worst_error_one_release  the same with all cuts of a run on one release, as in the paper. Two half cuts
                     share half of their pairs, so that their errors have correlation 1/2. Expected:
                     0.80, 1.70, 2.36 times
paper                the paper's worst relative errors, for numbers of cuts and an epsilon that its text lost

A run has 100 cuts: 100 single ones, 10 times 10 and once 100, whose figures are averaged. Noise is seeded:
nothing here is a release.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import harness
import numpy as np
from blocks import paper002 as blocks

import pgmjax as pj

EPSILON = 1
CUTS = 100
COUNTS = (1, 10, 100)
VERTICES = (577, 1154, 1731, 2308, 2885, 3462, 4039)
PAPER = {577: 0.104, 1154: 0.117, 1731: 0.087, 2308: 0.053, 2885: 0.047, 3462: 0.053, 4039: 0.054}


def facebook_edges() -> np.ndarray:
    """Return the edges of the Facebook graph [edges, 2], vertices 0..4038."""
    folder = os.environ.get("PGMJAX_DATA")
    if not folder:
        raise SystemExit("PGMJAX_DATA must name the folder that holds facebook/facebook_combined.txt.gz")
    with gzip.open(pathlib.Path(folder) / "facebook" / "facebook_combined.txt.gz", "rt") as file:
        return np.loadtxt(file, dtype=np.int64)


def half_cuts(generator: np.random.Generator, vertices: int) -> np.ndarray:
    """Return random halves of the vertices, bool [cuts, vertices]."""
    order = np.argsort(generator.random((CUTS, vertices)), axis=1)
    return order < vertices // 2


def true_cuts(edges: np.ndarray, halves: np.ndarray) -> np.ndarray:
    """Return the edges across each cut [cuts]."""
    return np.count_nonzero(halves[:, edges[:, 0]] != halves[:, edges[:, 1]], axis=1)


def worst(errors: np.ndarray) -> dict[int, float]:
    """Return the mean over batches of cuts of the largest absolute error, by size of a batch."""
    return {count: float(np.abs(errors).reshape(-1, count).max(axis=1).mean()) for count in COUNTS}


def one_release(edges: np.ndarray, halves: np.ndarray, seed: int) -> np.ndarray:
    """Return the errors of all cuts of one perturbed graph, through the library from end to end."""
    vertices = halves.shape[1]
    codes = pj.local.VertexPairs(vertices).codes(edges)
    mechanism = pj.mechanisms.RandomizedResponse(
        EPSILON,
        pj.Relation.REPLACE_ONE,
        universe="joint",
        backend=pj.privacy.SeededBackend(seed, insecure=True),
    )
    data = pj.Dataset.from_columns(pj.Domain({"edge": 2}), {"edge": codes})
    table = mechanism.perturb(data, row_order_is_public=True, show_progress=False)
    graph = pj.local.PerturbedGraph.of(table, vertices)
    return graph.cuts(halves).value - true_cuts(edges, halves)


def own_releases(edges: np.ndarray, halves: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return the errors of cuts that each have a perturbed graph of their own.

    Of a graph that is perturbed anew a cut sees only its number of ones: two binomial numbers, exactly.
    """
    distribution = pj.privacy.SeededBackend(0, insecure=True).randomized_response(2, EPSILON)
    channel = pj.local.Channel.of(distribution)
    there, half = true_cuts(edges, halves), halves.sum(axis=1)
    across = half * (halves.shape[1] - half)
    ones = generator.binomial(there, channel.truth) + generator.binomial(across - there, channel.other)
    return channel.factor * ones - channel.offset * across - there


def measure(edges: np.ndarray, vertices: int, runs: int, seed: int) -> dict:
    """Return everything about the subgraph of the first vertices."""
    inside = edges[(edges < vertices).all(axis=1)]
    half = vertices // 2
    across = half * (vertices - half)
    expected = len(inside) * across / math.comb(vertices, 2)
    deviation = math.sqrt(across * math.exp(EPSILON)) / math.expm1(EPSILON)
    start = time.perf_counter()
    shared, own = [], []
    for run in range(runs):
        generator = np.random.default_rng([seed, vertices, run])
        halves = half_cuts(generator, vertices)
        shared.append(worst(one_release(inside, halves, seed * 1000 + run) / expected))
        own.append(worst(own_releases(inside, halves, generator) / expected))
    return {
        "vertices": vertices,
        "edges": len(inside),
        "predicted_sd": deviation / expected,
        "worst_error": {count: float(np.mean([each[count] for each in own])) for count in COUNTS},
        "worst_error_one_release": {
            count: float(np.mean([each[count] for each in shared])) for count in COUNTS
        },
        "paper": PAPER.get(vertices),
        "seconds": time.perf_counter() - start,
    }


def columns(lines: list[dict]) -> dict:
    """Return the lines as one object with a list for each name."""
    result: dict = {name: [line[name] for line in lines] for name in ("vertices", "edges", "predicted_sd")}
    for name in ("worst_error", "worst_error_one_release"):
        result[name] = {str(count): [line[name][count] for line in lines] for count in COUNTS}
    result["paper"] = [line["paper"] for line in lines]
    return result


def draw(lines: list[dict]) -> object:
    """Return what draws predicted and measured errors against the number of vertices."""

    def onto(canvas) -> None:
        axes = canvas.subplots()
        where = [line["vertices"] for line in lines]
        axes.plot(where, [100 * line["predicted_sd"] for line in lines], "k-", label="predicted sd")
        for count in COUNTS:
            measured = [100 * line["worst_error_one_release"][count] for line in lines]
            axes.plot(where, measured, "o-", label=f"worst of {count}, one release")
        axes.plot(where, [100 * (line["paper"] or math.nan) for line in lines], "x--", label="paper")
        axes.set(xlabel="vertices", ylabel="error of half cuts, % of the expected cut", ylim=(0, None))
        axes.legend()

    return onto


def main() -> None:
    """Measure, print, and keep if asked to."""
    parser = harness.parser(__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--keep", action="store_true", help="add the figures to bench/results and draw them")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--vertices", type=int, nargs="*", default=list(VERTICES))
    options = parser.parse_args()
    edges = facebook_edges()
    lines = []
    for vertices in options.vertices:
        lines.append(measure(edges, vertices, options.runs, options.seed))
        harness.say(f"{vertices} vertices: {lines[-1]['seconds']:.1f} s")
        if options.keep:
            harness.keep("paper002-facebook", {**lines[-1], "runs": options.runs, "seed": options.seed})
    if options.keep:
        harness.figure("paper002-facebook", draw(lines), (6.5, 4))
    text = json.dumps(columns(lines))
    print(text if options.json else blocks.facebook(json.loads(json.dumps(lines))))


if __name__ == "__main__":
    main()
