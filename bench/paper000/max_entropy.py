"""Maximum entropy: RMSE against alpha, and exact gradients against the paper's stochastic learner.

    OPENBLAS_NUM_THREADS=1 PGMJAX_DATA=... python bench/paper000/max_entropy.py alpha|learner|queries

`alpha` prints the RMSE of past and of new queries for each alpha, with and without a prior. `learner` runs
both solvers one after the other and evaluates their ends exactly. `queries` varies the number of queries.
Each line is JSON. One thread for OpenBLAS: its products are small, and JAX has threads of its own.
"""

from __future__ import annotations

import argparse
import json
import time

import asked
import numpy as np
import paper_learner
import table

from pgmjax.history import MaxEntropy, ProductPrior

SCALE = 5000.0
PRIOR_EPSILON = 0.02


def prior_of(domain, columns, seed):
    """Noisy one-way marginals (epsilon 0.02 for all together, add/remove), negative counts put to a half."""
    rng = np.random.default_rng(seed)
    tables = {}
    for name in domain:
        counts = np.bincount(columns[name], minlength=domain[name])
        noisy = counts + rng.laplace(0, len(domain) / PRIOR_EPSILON, len(counts))
        tables[name] = np.maximum(noisy, 0.5) / np.maximum(noisy, 0.5).sum()
    return ProductPrior(domain, tables)


def tell(**line):
    """Print a line."""
    print(json.dumps({k: round(v, 6) if isinstance(v, float) else v for k, v in line.items()}), flush=True)


def run_alpha(options, domain, columns, pairs):
    """RMSE of past and new queries for each alpha and prior."""
    kind = getattr(asked, options.kind)
    past, new = kind(domain, pairs, options.queries, 1), asked.ranges(domain, pairs, options.queries, 2)
    history = asked.history(domain, past, SCALE, 3)
    priors = {"uniform": None, "bought": prior_of(domain, columns, 4)}
    tell(kind=options.kind, queries=options.queries, raw=asked.rmse(history.values, past.truth))
    for name in options.priors:
        for alpha in options.alphas:
            start, cpu = time.perf_counter(), time.process_time()
            fit = MaxEntropy(
                alpha=alpha,
                prior=priors[name],
                solver="chains",
                chain_steps=options.steps,
                chains=options.chains,
            ).fit(history, options.rows)
            of_new = [float(fit.model.answer(query).reshape(())) for query in new.queries]
            tell(
                kind=options.kind,
                prior=name,
                alpha=alpha,
                past=asked.rmse(fit.answers, past.truth),
                new=asked.rmse(np.array(of_new), new.truth),
                at_box=float(np.mean(np.abs(fit.weights) >= 0.999 * alpha * options.rows / SCALE)),
                seconds=time.perf_counter() - start,
                cpu_seconds=time.process_time() - cpu,
            )


def run_learner(options, domain, columns, pairs):
    """Both solvers on one history, their ends evaluated by the same exact dual."""
    past = asked.ranges(domain, pairs, options.queries, 1)
    history = asked.history(domain, past, SCALE, 3)
    (alpha,) = options.alphas
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
        solver="exact gradients",
        alpha=alpha,
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
        solver="paper's learner",
        alpha=alpha,
        primal=point.primal,
        dual=point.value,
        gap=point.gap,
        iterations=options.iterations,
        past=asked.rmse(point.answers * options.rows, past.truth),
        seconds=seconds,
        cpu_seconds=cpu,
    )


def run_queries(options, domain, columns, pairs):
    """RMSE and seconds by the number of queries; the noise grows with it, so that all spend the same."""
    (alpha,) = options.alphas
    for count in options.counts:
        past = asked.ranges(domain, pairs, count, 1)
        history = asked.history(domain, past, SCALE * count / 5000, 3)
        start = time.perf_counter()
        fit = MaxEntropy(alpha=alpha, solver="chains", chain_steps=options.steps, chains=options.chains).fit(
            history, options.rows
        )
        tell(
            queries=count,
            scale=SCALE * count / 5000,
            alpha=alpha,
            raw=asked.rmse(history.values, past.truth),
            past=asked.rmse(fit.answers, past.truth),
            seconds=time.perf_counter() - start,
        )


def main():
    """Run one of the experiments."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("task", choices=("alpha", "learner", "queries"))
    options.add_argument("--queries", type=int, default=5000)
    options.add_argument("--counts", type=int, nargs="+", default=[500, 1000, 2000, 5000, 10000])
    options.add_argument("--kind", choices=("ranges", "general"), default="ranges")
    options.add_argument("--alphas", type=float, nargs="+", default=[1e-3, 3e-3, 1e-2, 3e-2, 0.1])
    options.add_argument("--priors", nargs="+", choices=("uniform", "bought"), default=["uniform", "bought"])
    options.add_argument("--rows", type=int, default=table.ROWS)
    options.add_argument("--chains", type=int, default=5000)
    options.add_argument("--steps", type=int, default=16)
    options.add_argument("--max-steps", type=int, default=4)
    options.add_argument("--tol", type=float, default=1e-2)
    options.add_argument("--iterations", type=int, default=1_000_000)
    chosen = options.parse_args()
    columns = table.table(chosen.rows)
    run = {"alpha": run_alpha, "learner": run_learner, "queries": run_queries}[chosen.task]
    run(chosen, table.domain(), columns, table.pair_counts(columns))


if __name__ == "__main__":
    main()
