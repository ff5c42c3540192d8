"""Coverage of error bars on Adult: how often an interval holds the table's answer.

    PGMJAX_DATA=... python bench/coverage.py [--trials N] [--scales S ...] [--methods M ...] [--draws N]
        [--seconds S] [--again]

Six marginals are measured with discrete Gaussian noise, drawn with the trial's number as seed; models are
fitted, pulled (the default) and at their optimum; the methods of `pgmjax.uncertainty.error_bars` give error
bars of nine queries that the measurements determine and three that they do not. Runs are kept in
bench/results/coverage.jsonl, a line a method, scale and trial, with for each group of answers the share whose
interval holds the exact answer:

given: answers that get an interval.
all: every determined answer.
away: determined answers whose estimate is at least four of the method's standard deviations above zero.
near: the other determined answers, where non-negativity bends the model's answers.
model: undetermined ones. They get no interval; this is the share that one of the same width about the
    model's value would have held.
"""

from __future__ import annotations

import argparse
import itertools
import os
import pathlib
import statistics
import sys
import time

import harness
import numpy as np

import pgmjax as pj
from pgmjax.measurements.noise import DiscreteGaussian
from pgmjax.uncertainty.intervals import ErrorBars

SCALES = (30.0, 100.0, 300.0)  # of the noise, counts
METHODS = {
    "linear": ("auto", "linear"),
    "laplace, optimum": ("none", "laplace"),
    "bootstrap, optimum": ("none", "bootstrap"),
    "bootstrap": ("auto", "bootstrap"),
}
LEVELS = (0.90, 0.95)
GROUPS = ("given", "all", "away", "near", "model")
AWAY = 4.0
MEASURED = [
    pj.queries.marginal(("age", "income>50K")),
    pj.queries.marginal(("education-num", "income>50K")),
    pj.queries.marginal(("marital-status", "relationship")),
    pj.queries.marginal(("relationship", "sex")),
    pj.queries.marginal(("workclass", "occupation")),
    pj.queries.marginal(("race", "sex")),
]
ASKED = [
    pj.queries.marginal(("age",)),
    pj.queries.kronecker({"age": pj.queries.prefix()}),
    pj.queries.marginal(("education-num", "income>50K")),
    pj.queries.marginal(("marital-status", "relationship")),
    pj.queries.marginal(("race", "sex")),
    pj.queries.marginal(("relationship",)),
    pj.queries.marginal(("occupation",)),
    pj.queries.marginal(("workclass",)),
    pj.queries.marginal(("income>50K",)),
    pj.queries.marginal(("sex", "income>50K")),
    pj.queries.marginal(("race", "relationship")),
    pj.queries.marginal(("education-num", "sex")),
]


def load() -> tuple[pj.Domain, pj.Dataset]:
    """Return Adult's domain and table from the folder that PGMJAX_DATA names."""
    where = os.environ.get("PGMJAX_DATA")
    if not where:
        raise SystemExit("PGMJAX_DATA is not set: it names the folder of the tables.")
    folder = pathlib.Path(where) / "adult"
    domain = pj.Domain.read(folder / "adult-domain.json")
    return domain, pj.Dataset.read(folder / "adult.csv.gz", domain)


def exact(data: pj.Dataset, queries: list[pj.queries.Query]) -> list[np.ndarray]:
    """Return the true answers, for evaluation only."""
    cliques = list(dict.fromkeys(query.clique for query in queries))
    tables = dict(zip(cliques, data.marginals(cliques), strict=True))
    return [np.ravel(query.apply(tables[query.clique])) for query in queries]


def noisy(answers: list[np.ndarray], scale: float, trial: int) -> list[pj.LinearMeasurement]:
    """Return measurements with noise of a trial."""
    distribution, generator = DiscreteGaussian(scale), np.random.default_rng(trial)
    support = np.arange(-distribution.radius(1e-12), distribution.radius(1e-12) + 1)
    chances = distribution.probabilities(support)
    return [
        pj.LinearMeasurement.released(
            query, answer + generator.choice(support, answer.size, p=chances / chances.sum()), distribution
        )
        for query, answer in zip(MEASURED, answers, strict=True)
    ]


def line(of_level: dict[float, ErrorBars], truth: np.ndarray) -> harness.Line:
    """Return the coverage of one trial, group by group and level by level."""
    bars = of_level[LEVELS[-1]]
    away = bars.determined & (bars.values >= AWAY * bars.stddevs)
    given = np.isfinite(bars.intervals).all(axis=1)
    which = {
        "given": given,
        "all": bars.determined,
        "away": away,
        "near": bars.determined & ~away,
        "model": ~bars.determined,
    }
    result: harness.Line = {}
    for group, chosen in which.items():
        misses, widths = np.abs(bars.values - truth)[chosen], bars.stddevs[chosen]
        known = np.isfinite(widths)
        result[group] = {"answers": int(known.sum())}
        if not known.any():
            continue
        result[group]["mean_stddev"] = float(widths[known].mean())
        result[group]["rmse"] = float(np.sqrt(np.mean(misses[known] ** 2)))
        for level in LEVELS:
            z = statistics.NormalDist().inv_cdf(0.5 + 0.5 * level)
            half = z * widths[known]
            if group == "given":
                half = np.diff(of_level[level].intervals[chosen], axis=1)[known, 0] / 2
            result[group][f"{level:.2f}"] = float(np.mean(misses[known] <= half))
    return result


def main() -> None:
    """Run what is missing."""
    parser = harness.parser(__doc__)
    parser.add_argument("--trials", type=int, default=100, help="of each method and scale; 100")
    parser.add_argument("--scales", type=float, nargs="+", default=SCALES, help="of the noise (counts)")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS), metavar="M")
    parser.add_argument("--draws", type=int, default=30, help="of the bootstrap; 30")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no trial after so many")
    parser.add_argument("--again", action="store_true", help="run what is in the file of results once more")
    asked = parser.parse_args()
    run(asked, harness.Results("coverage", ("method", "scale", "trial"), again=asked.again))


def run(asked: argparse.Namespace, kept: harness.Results) -> None:
    """Run the trials that are not kept."""
    began = time.perf_counter()
    domain, data = load()
    answers, truth = exact(data, MEASURED), np.concatenate(exact(data, ASKED))
    for trial, scale in itertools.product(range(asked.trials), asked.scales):
        methods = [method for method in asked.methods if (method, scale, trial) not in kept]
        if not methods or time.perf_counter() - began > asked.seconds:
            continue
        measurements = noisy(answers, scale, trial)
        for name in methods:
            regularisation, method = METHODS[name]
            estimator = pj.Estimator(max_steps=3000, progress=False, regularisation=regularisation)
            start = time.perf_counter()
            fit = estimator.fit(domain, measurements)
            settings = {"method": method, "draws": asked.draws, "seed": trial, "estimator": estimator}
            of_level = {
                level: pj.uncertainty.error_bars(fit, measurements, ASKED, level=level, **settings)
                for level in LEVELS
            }
            made = {"method": name, "scale": scale, "trial": trial, "draws": asked.draws}
            made |= {"seconds": round(time.perf_counter() - start, 2), "status": fit.status.name}
            kept.add(made | line(of_level, truth))
        harness.say(f"trial {trial}, scale {scale:g}: {', '.join(methods)}")


if __name__ == "__main__":
    sys.exit(main())
