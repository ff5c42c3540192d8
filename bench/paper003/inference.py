"""Running time and error of inference (Sections 6.2 and 6.3 of Xiao and Xiong 2012), coverage of intervals.

    python bench/paper003/inference.py [--parts blue size beta error coverage joint] [--small]

`blue`: seconds of the best linear unbiased estimate against answers m and cells n. `size`: of the methods
for the distribution of one answer against m and n. `beta`: the same against beta =
(sum of abs(A_k) S_k / alpha_k)^2, with probability calculation at the paper's step 1 and gamma 0.01, and the
mass it loses. `error`: time and error of Monte Carlo against the number of draws. `coverage`: how often 95 %
intervals hold the truth over 100,000 simulated histories with the noise that is really released; `joint`:
how often the intervals of all cells hold their truths at once, simultaneous ones and single ones. Times are
medians of three runs after one that compiles. Noise is seeded NumPy: nothing here is a release. Parts that
bench/results/paper003-inference.jsonl has are not run again; --small prints a few lines and keeps none.
"""

from __future__ import annotations

import json
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import harness
import numpy as np

from pgmjax import history
from pgmjax.history.bayes import inference
from pgmjax.history.bayes.distribution import invert
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace

REPEATS = 3
GAMMA = 0.01
ASKED = np.array(
    [[1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 1, 0], [0, 1, 0, 1], [2, 1, 0, 0], [0, 0, 2, -1]],
    float,
)
TABLE = np.array([10, 20, 20, 10])


def problem(rng, answers, cells, largest):
    """A random history as in the paper: sparse rows with entries up to a size, budgets uniform in (0, 1]."""
    matrix = np.where(
        rng.random((answers, cells)) < 0.3, rng.integers(-largest, largest + 1, (answers, cells)), 0
    )
    matrix[:, 0] = np.where((matrix == 0).all(axis=1), 1, matrix[:, 0])
    matrix = matrix.astype(float)
    epsilons = 1 - rng.random(answers)
    return matrix, np.abs(matrix).max(axis=1) / np.maximum(epsilons, 0.01), rng.normal(size=answers)


def timed(work, repeats=REPEATS):
    """Seconds by the clock and of processor time, medians where there are several runs."""
    clock, processor = [], []
    for _ in range(repeats):
        start = time.perf_counter(), time.process_time()
        work()
        clock.append(time.perf_counter() - start[0])
        processor.append(time.process_time() - start[1])
    return {"seconds": statistics.median(clock), "cpu_seconds": statistics.median(processor)}


def blue(small):
    """Figure 5: m at n = 100, and n at m = 2 n."""
    sizes = [(m, 100) for m in range(200, 2001, 200)] + [(2 * n, n) for n in (200, 500, 1000, 2000)]
    for answers, cells in sizes[: 2 if small else None]:
        matrix, scales, values = problem(np.random.default_rng(0), answers, cells, 10)
        history.BestLinearUnbiased.from_matrix(matrix, values, scales)
        taken = timed(lambda: history.BestLinearUnbiased.from_matrix(matrix, values, scales).estimate)  # noqa: B023
        yield {"part": "blue", "m": answers, "n": cells, **taken}


def methods(distribution, draws=20_000):
    """Seconds and said accuracy of every method for one distribution."""
    ways = {
        "characteristic": lambda: invert(distribution),
        "convolution step 1": lambda: inference.convolve(distribution, 1.0, GAMMA),
        "convolution": lambda: inference.convolve(distribution),
        "monte-carlo": lambda: inference.simulate(distribution, draws),
    }
    for name, work in ways.items():
        result = work()
        yield {
            "method": name,
            **timed(work),
            "half_width": result.half_width(0.95),
            "mass": result.accuracy.mass,
            "shift_over_stddev": result.accuracy.shift / distribution.stddev,
        }


def size(small):
    """Figure 6: m at n = 100, n at m = 500; discrete noise and the paper's."""
    sizes = [(m, 100) for m in range(200, 1001, 200)] + [(500, n) for n in (50, 100)]
    for answers, cells in sizes[: 1 if small else None]:
        matrix, scales, values = problem(np.random.default_rng(1), answers, cells, 5)
        for continuous in (False, True):
            estimator = history.BestLinearUnbiased.from_matrix(matrix, values, scales, continuous=continuous)
            distribution = estimator.answer(np.eye(cells)[0]).distribution
            for line in methods(distribution):
                yield {"part": "size", "m": answers, "n": cells, "continuous": continuous, **line}


def beta(small):
    """Figure 7: the same history with all budgets divided."""
    answers, cells = (200, 50) if small else (1000, 100)
    matrix, scales, values = problem(np.random.default_rng(2), answers, cells, 5)
    for factor in (1, 4) if small else (1, 4, 16, 64):
        estimator = history.BestLinearUnbiased.from_matrix(matrix, values, factor * scales, continuous=True)
        combination = estimator.combination(np.eye(cells)[0])[0]
        distribution = estimator.answer(np.eye(cells)[0]).distribution
        exact = invert(distribution)
        for line in methods(distribution):
            if line["method"] != "monte-carlo":
                spread = float((np.abs(combination) * factor * scales).sum() ** 2)
                off = abs(line["half_width"] - exact.half_width(0.95)) / distribution.stddev
                yield {"part": "beta", "beta": spread, **line, "off_over_stddev": off}
        calculated = inference.convolve(distribution, 1.0, GAMMA)
        yield {"part": "beta", "beta": spread, "lost": 1 - float(calculated.masses.sum()), "gamma": GAMMA}


def error(small):
    """Figure 8: time and error (Definition 4.2) of Monte Carlo against draws, with the paper's bound."""
    matrix, scales, values = problem(np.random.default_rng(3), 200, 100, 5)
    distribution = (
        history.BestLinearUnbiased.from_matrix(matrix, values, scales, continuous=True)
        .answer(np.eye(100)[0])
        .distribution
    )
    exact = invert(distribution)
    for draws in (10_000, 100_000) if small else (100_000, 200_000, 500_000, 1_000_000):
        errors = []
        for seed in range(5):
            simulated = inference.simulate(distribution, draws, seed)
            masses = rounded(simulated.sizes)
            cells = np.arange(len(masses)) - len(masses) // 2
            truth = np.array([exact.between(c - 0.5, c + 0.5) for c in cells])
            errors.append(float(((masses - truth) ** 2).sum()))
        yield {
            "part": "error",
            "draws": draws,
            **timed(lambda: inference.simulate(distribution, draws)),  # noqa: B023
            "root_error": float(np.sqrt(np.mean(errors))),
            "root_bound": float(np.sqrt(len(masses) / (draws - 1) * masses.max() * (1 - masses.max()))),
        }


def rounded(sizes):
    """Return the paper's mass vector u [odd]: shares of draws rounded to whole counts, both signs alike."""
    counts = np.bincount(np.rint(sizes).astype(np.int64)) / (2 * len(sizes))
    counts[0] *= 2
    return np.concatenate([counts[:0:-1], counts])


def coverage(small):
    """Share of simulated histories whose 95 % interval holds the truth, by scale, distribution and target."""
    rng = np.random.default_rng(4)
    histories = 10_000 if small else 100_000
    matrix, table = ASKED, TABLE
    targets = {"one answer": None, "mixed": np.array([1.0, 0, 1, 0]), "total": np.ones(4)}
    for scale in (0.5, 1.0, 4.0, 50.0):
        for kind in (DiscreteLaplace, DiscreteGaussian):
            distribution = kind(scale)
            noise = drawn(distribution, scale, (histories, len(matrix)), rng)
            for name, target in targets.items():
                rows = np.eye(1) if target is None else matrix
                noises, truth = noise[:, : len(rows)], 7.0 if target is None else float(target @ table)
                values = noises + rows @ (np.array([7.0]) if target is None else table)
                asked = np.ones(1) if target is None else target
                estimator = history.BestLinearUnbiased.from_matrix(rows, values[0], distribution)
                answer = estimator.answer(asked)
                low, high = (end - answer.value for end in answer.interval(0.95))
                estimates = values @ estimator.combination(asked)[0]
                held = float(((estimates + low <= truth) & (truth <= estimates + high)).mean())
                yield {
                    "part": "coverage",
                    "target": name,
                    "law": distribution.noise,
                    "scale": scale,
                    "histories": histories,
                    "covered": held,
                    "said": answer.computed.between(low, high),
                    "length": high - low,
                }


def drawn(distribution, scale, shape, rng):
    """Noise by the probabilities of its values."""
    ends = np.arange(-60 * int(scale + 1), 60 * int(scale + 1) + 1)
    shares = distribution.probabilities(ends)
    return rng.choice(ends, p=shares / shares.sum(), size=shape)


def joint(small):
    """Share of simulated histories whose 95 % intervals of all cells hold their truths at once."""
    rng, cells = np.random.default_rng(5), np.eye(len(TABLE))
    histories = 10_000 if small else 100_000
    for scale in (0.5, 1.0, 4.0, 50.0):
        for kind in (DiscreteLaplace, DiscreteGaussian):
            distribution = kind(scale)
            values = ASKED @ TABLE + drawn(distribution, scale, (histories, len(ASKED)), rng)
            estimator = history.BestLinearUnbiased.from_matrix(ASKED, values[0], distribution)
            missed = values @ estimator.combination(cells).T - TABLE
            answers = estimator.answers(cells)
            both = {
                "simultaneous": answers.intervals(0.95),
                "single": np.array([estimator.answer(cell).interval(0.95) for cell in cells]),
            }
            for name, ends in both.items():
                low, high = (ends - answers.values[:, None]).T
                held = float(((missed + low <= 0) & (missed + high >= 0)).all(axis=1).mean())
                length = float((high - low).mean())
                about = {"law": distribution.noise, "scale": scale, "histories": histories}
                yield {"part": "joint", "intervals": name, **about, "covered": held, "length": length}


PARTS = {
    "blue": blue,
    "size": size,
    "beta": beta,
    "error": error,
    "coverage": coverage,
    "joint": joint,
}


def main():
    """Run the parts that are missing and print their lines."""
    parser = harness.parser(__doc__)
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--small", action="store_true", help="few small sizes, to see that it runs")
    options = parser.parse_args()
    path = harness.RESULTS / "paper003-inference.jsonl"
    known = set() if options.small else {line["part"] for line in harness.read(path)}
    for part in options.parts:
        if part not in known:
            for line in [*PARTS[part](options.small)]:  # a part is there as a whole, or not at all
                print(json.dumps(line), flush=True)
                if not options.small:
                    harness.append(path, {**harness.provenance(), **line})


if __name__ == "__main__":
    main()
