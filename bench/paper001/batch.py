"""Networks of 100 seeds and 10 epsilons trained in one batch, against a loop of scikit-learn's MLPRegressor.

Both learn NETTRACE from noisy answers to 500 random ranges: two layers of 64, Adam with the same settings,
the same batch size, epochs, penalty and starting distribution, and inputs and answers scaled alike. The
loop's time is that of `--fits` networks, half of them before the batch and half after it, scaled up to all;
they are trained in float64, scikit-learn's usual, and in float32, as the batch is. The loss is compared on
the same networks: half the mean square and the penalty, over all examples, after the last epoch.

    python bench/paper001/batch.py            # 100 seeds x 10 epsilons, 20 fits of the loop each
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Sequence

import common
import harness
import numpy as np

import pgmjax as pj
from pgmjax.queries.random import distinct_ranges

EPSILONS = ("1/10", "1/5", "3/10", "2/5", "1/2", "3/5", "7/10", "4/5", "9/10", "1")
HIDDEN = (64, 64)
RATE, PENALTY = 1e-3, 1e-4


def examples(queries: int, seeds: int) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Return encodings [queries, 2], noisy answers [seeds * epsilons, queries], and each row's seed."""
    histogram = common.histogram("NETTRACE")
    asked = distinct_ranges(histogram.domain, common.CLIQUE, queries, 0)
    cells = common.rows(asked, common.CELLS)
    low, high = cells.argmax(axis=1), common.CELLS - cells[:, ::-1].argmax(axis=1)
    answers = [histogram.measured(asked, epsilon, seed) for seed in range(seeds) for epsilon in EPSILONS]
    return (
        np.stack([low, high], axis=1) / common.CELLS,
        np.stack(answers),
        np.repeat(range(seeds), len(EPSILONS)).tolist(),
    )


def scaled(columns: np.ndarray) -> np.ndarray:
    """Return columns with mean 0 and standard deviation 1."""
    return (columns - columns.mean(axis=0)) / columns.std(axis=0)


def loss(predicted: np.ndarray, targets: np.ndarray, layers: Sequence[np.ndarray]) -> float:
    """Return half the mean square and the penalty, as `MLPRegressor` defines its loss."""
    squares = sum(float((each.astype(float) ** 2).sum()) for each in layers)
    return float(0.5 * ((predicted - targets) ** 2).mean() + 0.5 * PENALTY * squares / len(targets))


def theirs(
    rows: np.ndarray, answers: np.ndarray, seed: int, epochs: int, batch_size: int
) -> tuple[float, float]:
    """Return seconds and final loss of one network of scikit-learn's."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPRegressor

    peer = MLPRegressor(
        hidden_layer_sizes=HIDDEN,
        alpha=PENALTY,
        batch_size=batch_size,
        learning_rate_init=RATE,
        max_iter=epochs,
        tol=0.0,
        n_iter_no_change=epochs + 1,
        random_state=seed,
    )
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        peer.fit(rows, answers)
    seconds = time.perf_counter() - start
    assert peer.n_iter_ == epochs
    return seconds, loss(peer.predict(rows), answers, peer.coefs_)


def ours(
    rows: np.ndarray, answers: np.ndarray, seeds: list[int], epochs: int, batch_size: int
) -> tuple[float, list[float]]:
    """Return seconds, compilation among them, and the final loss of every network."""
    learner = pj.learning.MLP(
        HIDDEN, epochs=epochs, batch_size=batch_size, learning_rate=RATE, penalty=PENALTY
    )
    start = time.perf_counter()
    fitted = learner.fit(rows, answers, seed=seeds)
    seconds = time.perf_counter() - start
    mean, deviation = answers.mean(axis=1, keepdims=True), answers.std(axis=1, keepdims=True)
    outputs, targets = (fitted.predict(rows) - mean) / deviation, (answers - mean) / deviation
    found = [
        loss(output, target, [weights[row] for weights, _ in fitted.layers])
        for row, (output, target) in enumerate(zip(outputs, targets, strict=True))
    ]
    return seconds, found


def main() -> None:
    """Train both and keep the line."""
    parser = harness.parser(__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--fits", type=int, default=20, help="networks of the loop that are timed; 20")
    options = parser.parse_args()
    rows, answers, seeds = examples(options.queries, options.seeds)
    number = len(answers)
    chosen = np.linspace(0, number - 1, min(options.fits, number)).astype(int)
    course = (options.epochs, options.batch_size)

    def loop(part: np.ndarray) -> list[tuple[float, ...]]:
        """Train each network twice, in either precision, by turns."""
        found = []
        for each in part:
            given = scaled(rows), scaled(answers[each])
            narrow = tuple(array.astype(np.float32) for array in given)
            found.append((*theirs(*given, seeds[each], *course), *theirs(*narrow, seeds[each], *course)))
        return found

    half = len(chosen) // 2
    before = loop(chosen[:half])
    seconds, losses = ours(rows, answers, seeds, *course)
    timed = np.array(before + loop(chosen[half:]))
    double, double_loss, single, single_loss = timed.mean(axis=0)
    mean = float(np.mean(np.array(losses)[chosen]))
    line = {
        "experiment": "batch",
        "networks": number,
        "hidden": HIDDEN,
        "queries": options.queries,
        "epochs": options.epochs,
        "batch_size": options.batch_size,
        "batch_seconds": seconds,
        "loop_fits": len(chosen),
        "loop_seconds_float64": double * number,
        "loop_seconds_float32": single * number,
        "times_faster_float64": double * number / seconds,
        "times_faster_float32": single * number / seconds,
        "batch_loss": mean,
        "batch_loss_all": float(np.mean(losses)),
        "loop_loss_float64": double_loss,
        "loop_loss_float32": single_loss,
        "loss_ratio_float64": mean / double_loss,
        "loss_ratio_float32": mean / single_loss,
    }
    harness.keep("paper001-batch", line)
    print(json.dumps(line))


if __name__ == "__main__":
    main()
