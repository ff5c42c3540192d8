"""Private multiplicative weights behind the privacy boundary: `OnlineWeights` on 500 random ranges.

    python bench/paper001/online_weights.py [--table]

As `pmw:c:t` of `mae.py`, but with integer noise through `PrivateTable`, a fresh threshold test for every
update, and the number of records public (replace-one), so that nothing is spent on it. c is the most
updates, the threshold t scales of the tests' noise. Noise is seeded: nothing here is a release. A line of
bench/results/paper001-online-weights.jsonl for each point; what has one is not run again.
"""

from __future__ import annotations

import argparse
import math
import time

import common
import numpy as np
from common import CELLS, harness, histogram, rows, sampled
from showing import markdown

import pgmjax as pj
from pgmjax.data.relation import Relation
from pgmjax.mechanisms.online_weights import OnlineWeights
from pgmjax.privacy.seeded import SeededBackend

PATH = harness.RESULTS / "paper001-online-weights.jsonl"
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


def table(lines: list[harness.Line]) -> str:
    """Return the errors by data, setting and epsilon."""
    head = ["data", "c", "t", *(f"epsilon {epsilon}" for epsilon in EPSILONS)]
    made = []
    for name in DATA:
        for updates in UPDATES:
            for threshold in THRESHOLDS:
                mine = {
                    line["epsilon"]: f"{line['mae']:.3g} ± {line['standard_error']:.1g}"
                    for line in lines
                    if (line["data"], line["updates"], line["threshold"]) == (name, updates, threshold)
                }
                made.append([name, str(updates), f"{threshold:g}", *(mine.get(e, "-") for e in EPSILONS)])
    return markdown(head, made)


def main() -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--table", action="store_true", help="run nothing: print what there is")
    options = parser.parse_args()
    done = {tuple(line[key] for key in KEYS) for line in harness.read(PATH)}
    points = [(n, e, c, t) for n in DATA for c in UPDATES for t in THRESHOLDS for e in EPSILONS]
    for each in [] if options.table else [each for each in points if each not in done]:
        line = point(*each)
        about = {**harness.provenance(), "load": harness.load_average()}
        harness.append(PATH, {**line, **about})
        harness.say(f"{each}: {line['mae']:.4g}, {line['updates_made']:.1f} updates, {line['seconds']:.1f} s")
    print(table(harness.read(PATH)))


assert common  # its import puts bench/ on the path

if __name__ == "__main__":
    main()
