"""Maximum entropy: RMSE against alpha, and exact gradients against the paper's stochastic learner.

    OPENBLAS_NUM_THREADS=1 PGMJAX_DATA=... python bench/paper000/max_entropy.py alpha|learner|queries|draw

`alpha` finds the RMSE of past queries, of new ranges, and what 5-fold cross-validation estimates, at each
alpha, with and without a prior. `--solver newton` takes exact gradients until the gap is within `--tol` of
the objective, `chains` samples all gradients, which mix slowly where alpha is large, and `regions` takes
tables that agree where they overlap. `learner` runs both solvers one after the other and evaluates their ends
exactly. `queries` varies the number of queries, at one budget for all. `draw` draws `alpha`. Lines are kept
in bench/results/paper000-max-entropy.jsonl; what has one is not run again. One thread for OpenBLAS: its
products are small, and JAX has its own threads.
"""

from __future__ import annotations

import dataclasses
import pathlib
import sys
import time
from collections.abc import Sequence
from typing import Any

import asked
import numpy as np
import paper_learner
import table

from pgmjax.history import MaxEntropy, ProductPrior

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import harness
from blocks.papers import of_alphas
from blocks.text import by

SCALE = 5000.0
PRIOR_EPSILON = 0.02
FOLDS = 5
ONE_ALPHA = 3e-3  # of the parts that do not vary it
KEYS = ("task", "kind", "prior", "alpha", "queries", "solver")


def prior_of(domain, columns, seed):
    """Noisy one-way marginals (epsilon 0.02 for all together, add/remove), negative counts put to a half."""
    rng = np.random.default_rng(seed)
    tables = {}
    for name in domain:
        counts = np.bincount(columns[name], minlength=domain[name])
        noisy = counts + rng.laplace(0, len(domain) / PRIOR_EPSILON, len(counts))
        tables[name] = np.maximum(noisy, 0.5) / np.maximum(noisy, 0.5).sum()
    return ProductPrior(domain, tables)


def tell(kept, **line):
    """Keep a line."""
    kept.add(line)
    harness.say(str({k: round(v, 6) if isinstance(v, float) else v for k, v in line.items()}))


def validated(settings, options, domain, past, values, weights):
    """The RMSE that 5-fold cross-validation estimates; the noise of what it leaves out is subtracted.

    Exact gradients begin at the weights of the fit to all answers.
    """
    folds, missed = np.random.default_rng(5).integers(FOLDS, size=len(values)), []
    for fold in range(FOLDS):
        inside, outside = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        few = dataclasses.replace(past, queries=[past.queries[k] for k in inside], truth=past.truth[inside])
        start = weights[inside] if settings.solver == "newton" else None
        model = settings.fit(asked.noisy(domain, few, values[inside], SCALE), options.rows, start).model
        answers = [float(model.answer(past.queries[k]).reshape(())) for k in outside]
        missed.extend(np.array(answers) - values[outside])
    return float(np.sqrt(max(np.mean(np.square(missed)) - 2 * SCALE**2, 0.0)))


def run_alpha(kept, options, domain, columns, pairs):
    """RMSE of past and new queries for each alpha and prior."""
    kind = getattr(asked, options.kind)
    past, new = kind(domain, pairs, options.queries, 1), asked.ranges(domain, pairs, options.queries, 2)
    history = asked.history(domain, past, SCALE, 3)
    priors = {"uniform": None, "bought": prior_of(domain, columns, 4)}
    for name in options.priors:
        for alpha in options.alphas:
            if ("alpha", options.kind, name, alpha, options.queries, options.solver) in kept:
                continue
            start, cpu = time.perf_counter(), time.process_time()
            settings = MaxEntropy(
                alpha=alpha,
                prior=priors[name],
                solver=options.solver,
                chain_steps=options.steps,
                chains=options.chains,
            )
            if options.solver == "newton":
                settings = dataclasses.replace(
                    settings, dtype="float32", max_steps=options.max_steps, tol=options.tol
                )
            fit = settings.fit(history, options.rows)
            of_new = [float(fit.model.answer(query).reshape(())) for query in new.queries]
            seconds = time.perf_counter() - start, time.process_time() - cpu
            tell(
                kept,
                task="alpha",
                kind=options.kind,
                prior=name,
                alpha=alpha,
                queries=options.queries,
                solver=options.solver,
                raw=asked.rmse(history.values, past.truth),
                past=asked.rmse(fit.answers, past.truth),
                new=asked.rmse(np.array(of_new), new.truth),
                estimate=None
                if options.no_validation
                else validated(settings, options, domain, past, history.values, fit.weights),
                at_box=float(np.mean(np.abs(fit.weights) >= 0.999 * alpha * options.rows / SCALE)),
                steps=options.steps,
                inferences=fit.steps if options.solver == "newton" else 0,
                gap=fit.gap if options.solver == "newton" else None,
                seconds=seconds[0],
                cpu_seconds=seconds[1],
            )


def run_learner(kept, options, domain, columns, pairs):
    """Both solvers on one history, their ends evaluated by the same exact dual."""
    past = asked.ranges(domain, pairs, options.queries, 1)
    history = asked.history(domain, past, SCALE, 3)
    alpha = ONE_ALPHA
    about = {
        "task": "learner",
        "kind": "ranges",
        "prior": "uniform",
        "alpha": alpha,
        "queries": options.queries,
    }
    settings = MaxEntropy(
        alpha=alpha,
        solver="newton",
        dtype="float32",
        max_steps=options.max_steps,
        tol=options.tol,
        chains=options.chains,
        chain_steps=options.steps,
    )
    start, cpu = time.perf_counter(), time.process_time()
    fit = settings.fit(history, options.rows)
    tell(
        kept,
        **about,
        solver="exact gradients",
        primal=fit.objective,
        dual=fit.objective - fit.gap,
        gap=fit.gap,
        inferences=fit.steps,
        past=asked.rmse(fit.answers, past.truth),
        seconds=time.perf_counter() - start,
        cpu_seconds=time.process_time() - cpu,
    )
    box = alpha * options.rows / SCALE
    cpu = time.process_time()
    weights, seconds = paper_learner.learn(
        past.ranges, history.values / options.rows, box, iterations=options.iterations
    )
    cpu = time.process_time() - cpu
    point = settings.dual(history, options.rows).at(np.clip(weights, -box, box))
    tell(
        kept,
        **about,
        solver="paper's learner",
        primal=point.primal,
        dual=point.value,
        gap=max(point.primal - point.value, 0.0),
        iterations=options.iterations,
        past=asked.rmse(point.answers * options.rows, past.truth),
        seconds=seconds,
        cpu_seconds=cpu,
    )


def run_queries(kept, options, domain, columns, pairs):
    """RMSE and seconds by the number of queries; the noise grows with it, so that all spend the same."""
    alpha = ONE_ALPHA
    for count in options.counts:
        if ("queries", "ranges", "uniform", alpha, count, "chains") in kept:
            continue
        past = asked.ranges(domain, pairs, count, 1)
        history = asked.history(domain, past, SCALE * count / 5000, 3)
        start = time.perf_counter()
        fit = MaxEntropy(alpha=alpha, solver="chains", chain_steps=options.steps, chains=options.chains).fit(
            history, options.rows
        )
        tell(
            kept,
            task="queries",
            kind="ranges",
            prior="uniform",
            alpha=alpha,
            queries=count,
            solver="chains",
            scale=SCALE * count / 5000,
            raw=asked.rmse(history.values, past.truth),
            past=asked.rmse(fit.answers, past.truth),
            seconds=time.perf_counter() - start,
        )


def draw(lines: Sequence[dict[str, Any]], canvas: Any) -> None:
    """Error against alpha, a panel a kind and prior."""
    groups = by(of_alphas(lines), "kind", "prior")
    curves = {
        "past": ("o-", "past queries"),
        "new": ("o-", "new ranges"),
        "estimate": ("o--", "5-fold estimate"),
    }
    axes = canvas.subplots(1, len(groups), sharey=True, squeeze=False)
    for axis, ((kind, prior), group) in zip(axes[0], sorted(groups.items(), reverse=True), strict=True):
        for key, (style, label) in curves.items():
            some = [x for x in group if x[key] is not None]
            axis.loglog([x["alpha"] for x in some], [x[key] for x in some], style, label=label)
        axis.axhline(group[0]["raw"], color="grey", lw=0.8, label="raw noise")
        known = "prior bought" if prior == "bought" else "no prior"
        axis.set(title=f"5,000 {kind}, {known}", xlabel="alpha")
    axes[0][0].set_ylabel("RMSE (counts)")
    axes[0][0].legend(fontsize=7)


def main():
    """Run one of the experiments."""
    options = harness.parser(__doc__)
    options.add_argument("task", choices=("alpha", "learner", "queries", "draw"))
    options.add_argument("--queries", type=int, default=5000)
    options.add_argument("--counts", type=int, nargs="+", default=[500, 1000, 2000, 5000, 10000])
    options.add_argument("--kind", choices=("ranges", "general"), default="ranges")
    options.add_argument("--alphas", type=float, nargs="+", default=[3e-4, 1e-3, 3e-3, 1e-2, 3e-2])
    options.add_argument("--priors", nargs="+", choices=("uniform", "bought"), default=["uniform", "bought"])
    options.add_argument("--solver", choices=("chains", "newton", "regions"), default="newton")
    options.add_argument("--no-validation", action="store_true", help="of `alpha`: six times as fast")
    options.add_argument("--rows", type=int, default=table.ROWS)
    options.add_argument("--chains", type=int, default=5000)
    options.add_argument("--steps", type=int, default=16)
    options.add_argument("--max-steps", type=int, default=30)
    options.add_argument("--tol", type=float, default=1e-2)
    options.add_argument("--iterations", type=int, default=1_000_000)
    chosen = options.parse_args()
    if chosen.task == "draw":
        lines = harness.read(harness.RESULTS / "paper000-max-entropy.jsonl")
        harness.figure("paper000-max-entropy", lambda canvas: draw(lines, canvas), (14, 3.4))
        return
    columns = table.table(chosen.rows)
    run = {"alpha": run_alpha, "learner": run_learner, "queries": run_queries}[chosen.task]
    kept = harness.Results("paper000-max-entropy", KEYS)
    run(kept, chosen, table.domain(), columns, table.pair_counts(columns))


if __name__ == "__main__":
    main()
