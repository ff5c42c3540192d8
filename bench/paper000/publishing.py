"""Data publishing: a synthetic table from all two-way marginals against randomised response.

    OPENBLAS_NUM_THREADS=1 PGMJAX_DATA=... python bench/paper000/publishing.py [options]

All 29,570 cells of all pairs are measured with Laplace noise of scale 36 / epsilon: epsilon-DP where a record
is added or removed (a replaced one costs twice that: the paper says 1-DP and calls n public). Maximum entropy
fits them and a table of as many rows is drawn. Errors are sums of absolute differences of joint probabilities
(equation 42) of all pairs and of some triples, and the RMSE of random k-dimensional ranges, in JSON lines.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time

import numpy as np
import response
import table

from pgmjax import queries
from pgmjax.history import History, MaxEntropy
from pgmjax.measurements.noise import DiscreteLaplace

TRIPLES = [
    ("gender", "race", "marital"),
    ("age", "gender", "marital"),
    ("education", "work-class", "marital"),
    ("birthplace", "race", "work-class"),
    ("gender", "occupation", "salary"),
]


def tell(**line):
    """Print a line."""
    print(json.dumps({k: round(v, 6) if isinstance(v, float) else v for k, v in line.items()}), flush=True)


def shares(columns, clique, sizes):
    """Joint probabilities of some attributes of a table."""
    shape = [sizes[name] for name in clique]
    cells = np.ravel_multi_index([columns[name] for name in clique], shape)
    return np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape) / len(cells)


def counted(columns, asked):
    """Shares of a table's rows within each range conjunction."""
    found = []
    for query in asked:
        inside = np.ones(len(columns["age"]), bool)
        for name, (low, high) in query.items():
            inside &= (columns[name] >= low) & (columns[name] <= high)
        found.append(inside.mean())
    return np.array(found)


def random_ranges(sizes, dimensions, count, seed):
    """Random ranges over some random attributes each."""
    rng = np.random.default_rng(seed)
    names = list(sizes)
    asked = []
    for _ in range(count):
        chosen = rng.choice(len(names), dimensions, replace=False)
        asked.append(
            {names[k]: tuple(sorted(rng.integers(sizes[names[k]], size=2).tolist())) for k in chosen}
        )
    return asked


def published(options, columns):
    """A synthetic table by maximum entropy, and the fit it was drawn from."""
    domain = table.domain()
    distribution = DiscreteLaplace(36.0 / options.epsilon)
    pairs = table.pair_counts(columns)
    rng = np.random.default_rng(5)
    noisy = [
        np.round(c + rng.laplace(0, distribution.scale, c.shape)).astype(np.int64).reshape(-1)
        for c in pairs.values()
    ]
    asked = [queries.marginal(pair) for pair in pairs]
    history = History.from_answers(domain, asked, np.concatenate(noisy), distribution=distribution)
    settings = MaxEntropy(
        alpha=options.alpha, solver="chains", chains=options.chains, chain_steps=options.steps
    )
    start, cpu = time.perf_counter(), time.process_time()
    fit = settings.fit(history, options.rows)
    fitted = time.perf_counter()
    drawn = fit.sample(options.rows, seed=6, sweeps=options.sweeps)
    tell(
        method="maximum entropy",
        alpha=options.alpha,
        queries=history.num_rows,
        fit_seconds=fitted - start,
        sample_seconds=time.perf_counter() - fitted,
        cpu_seconds=time.process_time() - cpu,
    )
    return drawn


def main():
    """Publish three ways and compare."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rows", type=int, default=table.ROWS)
    options.add_argument("--epsilon", type=float, default=1.0)
    options.add_argument("--alpha", type=float, default=1e-4)
    options.add_argument("--chains", type=int, default=10_000)
    options.add_argument("--steps", type=int, default=20)
    options.add_argument("--sweeps", type=int, default=20)
    options.add_argument("--ranges", type=int, default=200)
    chosen = options.parse_args()
    sizes, columns = table.SIZES, table.table(chosen.rows)
    drawn = published(chosen, columns)
    others = {
        "retention replacement": response.Retention.of(columns, sizes, chosen.epsilon, 7),
        "flipping": response.Flipping.of(columns, sizes, chosen.epsilon, 8),
    }

    def errors(cliques, joint):
        return [float(np.abs(joint(c) - shares(columns, c, sizes)).sum()) for c in cliques]

    pairs = list(itertools.combinations(sizes, 2))
    methods = {"maximum entropy": lambda c: shares(drawn, c, sizes)} | {
        name: lambda c, other=other: response.joint(other, c, chosen.rows) for name, other in others.items()
    }
    for name, joint in methods.items():
        of_pairs = errors(pairs, joint)
        tell(method=name, two_way_mean=float(np.mean(of_pairs)), two_way_worst=max(of_pairs))
        of_triples = dict(zip([" ".join(t) for t in TRIPLES], errors(TRIPLES, joint), strict=True))
        tell(method=name, three_way_mean=float(np.mean(list(of_triples.values()))), **of_triples)
    for dimensions in (1, 2, 3, 4, 5):
        asked = random_ranges(sizes, dimensions, chosen.ranges, dimensions)
        truth = counted(columns, asked)
        for name in methods:
            if name == "maximum entropy":
                found = counted(drawn, asked)
            else:
                found = response.ranges(others[name], asked, chosen.rows)
            tell(
                method=name,
                dimensions=dimensions,
                rmse=float(chosen.rows * np.sqrt(np.mean((found - truth) ** 2))),
            )


if __name__ == "__main__":
    main()
