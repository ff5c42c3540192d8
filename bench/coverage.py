"""Coverage of error bars on Adult: how often an interval holds the table's answer.

    PGMJAX_DATA=... python bench/coverage.py [--trials N] [--scales S ...] [--methods M ...] [--draws N]
        [--seconds S] [--again] [--table]

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

import checkout  # noqa: F401  before the library
import harness
import numpy as np

import pgmjax as pj
from pgmjax.measurements.noise import DiscreteGaussian

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
PATH = harness.RESULTS / "coverage.jsonl"


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


def line(of_level: dict[float, pj.uncertainty.ErrorBars], truth: np.ndarray) -> harness.Line:
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


def table(lines: list[harness.Line]) -> str:
    """Return the kept lines as a table: means over trials, with standard errors by trial."""
    rows = ["| method | scale | answers | trials | answers a trial | 90 % | 95 % | mean stddev | rms error |"]
    rows.append("|" + "---|" * 9)
    for method, scale in itertools.product(METHODS, SCALES):
        for group in GROUPS:
            mine = [kept[group] for kept in lines if (kept["method"], kept["scale"]) == (method, scale)]
            found = [one for one in mine if one["answers"]]
            if not found:
                continue
            counted = f"{np.mean([f['answers'] for f in found]):.0f}"
            cells = [method, f"{scale:.0f}", group, str(len(found)), counted]
            for level in LEVELS:
                shares = 100 * np.array([f[f"{level:.2f}"] for f in found])
                error = shares.std(ddof=1) / np.sqrt(len(shares)) if len(shares) > 1 else float("nan")
                cells.append(f"{shares.mean():.1f} ± {error:.1f}")
            cells += [f"{np.mean([f[name] for f in found]):.1f}" for name in ("mean_stddev", "rmse")]
            rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def main() -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=100, help="of each method and scale; 100")
    parser.add_argument("--scales", type=float, nargs="+", default=SCALES, help="of the noise (counts)")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS), metavar="M")
    parser.add_argument("--draws", type=int, default=30, help="of the bootstrap; 30")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no trial after so many")
    parser.add_argument("--again", action="store_true", help="run what is in the file of results once more")
    parser.add_argument("--table", action="store_true", help="run nothing")
    asked = parser.parse_args()
    lines = harness.read(PATH) if PATH.exists() else []
    kept = {(one["method"], one["scale"], one["trial"]): one for one in lines}
    if not asked.table:
        again = {key for key in kept if asked.again and key[0] in asked.methods}
        run(asked, {key: line for key, line in kept.items() if key not in again})
        kept |= {(one["method"], one["scale"], one["trial"]): one for one in harness.read(PATH)}
    print(table(list(kept.values())))


def run(asked: argparse.Namespace, kept: dict[tuple[str, float, int], harness.Line]) -> None:
    """Run the trials that are not kept."""
    began = time.perf_counter()
    domain, data = load()
    answers, truth = exact(data, MEASURED), np.concatenate(exact(data, ASKED))
    about = harness.provenance()
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
            made |= {**line(of_level, truth), **about, "date": harness.now(), "load": harness.load_average()}
            harness.append(PATH, made)
            kept[name, scale, trial] = made
        harness.say(f"trial {trial}, scale {scale:g}: {', '.join(methods)}")


if __name__ == "__main__":
    sys.exit(main())
