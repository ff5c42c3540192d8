"""Private multiplicative weights behind the privacy boundary: `OnlineWeights` on 500 random ranges.

    python bench/paper001/online_weights.py

As `pmw:c:t` of `mae.py`, but with integer noise through `PrivateTable`, a fresh threshold test for every
update, and the number of records public (replace-one), so that nothing is spent on it. c is the most
updates, the threshold t scales of the tests' noise. Noise is seeded: nothing here is a release. A line of
bench/results/paper001-online-weights.jsonl for each point; what has one is not run again.
"""

from __future__ import annotations

import math
import time

import common
import harness
import numpy as np
from common import CELLS, histogram, rows, sampled

import pgmjax as pj
from pgmjax.data.relation import Relation
from pgmjax.mechanisms.online_weights import OnlineWeights
from pgmjax.privacy.seeded import SeededBackend

DATA = ("NETTRACE", "SEARCHLOGS", "FACEBOOK")
EPSILONS = ("0.1", "0.3", "1")
UPDATES = (16, 64)
THRESHOLDS = (0.5, 1)
KEYS = ("data", "epsilon", "updates", "threshold")
TESTS, DRAWS, RUNS = 500, 2, 3


def point(name: str, epsilon: str, updates: int, threshold: float) -> harness.Line:
    """Return the mean of the mean absolute errors over draws of queries and runs of noise."""
    private, start = histogram(name), time.perf_counter()
    errors: list[float] = []
    made: list[int] = []
    for draw in range(DRAWS):
        query = sampled(CELLS, TESTS, draw)
        truth = private.answers(rows(query, CELLS))
        for run in range(RUNS):
            mechanism = OnlineWeights(
                epsilon=epsilon,
                relation=Relation.REPLACE_ONE,
                updates=updates,
                threshold=math.ceil(threshold * 8 * updates / float(epsilon)),
                sweeps=10,
                backend=SeededBackend(100 * draw + run, insecure=True),
            )
            found = mechanism.run(private.data, pj.Workload([query]))
            errors.append(float(np.abs(found.answered[0] - truth).mean()))
            made.append(len(found.measurements))
    means = np.reshape(errors, (DRAWS, RUNS)).mean(axis=1)
    return {
        **dict(zip(KEYS, (name, epsilon, updates, threshold), strict=True)),
        "tests": TESTS,
        "mae": float(np.mean(errors)),
        "standard_error": float(np.std(means, ddof=1) / math.sqrt(DRAWS)),
        "updates_made": float(np.mean(made)),
        "runs": len(errors),
        "seconds": time.perf_counter() - start,
    }


def main() -> None:
    """Run what is missing."""
    harness.parser(__doc__).parse_args()
    kept = harness.Results("paper001-online-weights", KEYS)
    points = [(n, e, c, t) for n in DATA for c in UPDATES for t in THRESHOLDS for e in EPSILONS]
    for each in [each for each in points if each not in kept]:
        line = kept.add(point(*each))
        harness.say(f"{each}: {line['mae']:.4g}, {line['updates_made']:.1f} updates, {line['seconds']:.1f} s")


assert common  # its import puts bench/ on the path

if __name__ == "__main__":
    main()
