"""Mean absolute errors: against training queries, test queries, epsilon and learners.

    python bench/paper001/mae.py [training] [test] [epsilon] [learners] [--plot] [--check]

NETTRACE and SEARCHLOGS are read from PGMJAX_DATA/dpbench, FACEBOOK (cell v holds the degree of vertex v;
4,039 vertices, zeros up to 4,096 cells) from PGMJAX_DATA/facebook, SIMULATED has ten bins. Test queries and
noise are drawn several times; a line has the mean. Noise is seeded: nothing here is a release. What has a
line in bench/results/paper001-mae.jsonl is not run again. --check compares with `pj.mechanisms.MLDP` itself.
"""

from __future__ import annotations

import itertools
import math
import time
import zlib

import baselines
import common
import harness
import numpy as np
import report
from common import LARGE, NAMES, histogram, rows, sampled, sensitivity

COUNTS = (1, 5, 10, 25, 50, 100, 200, 400, 1000)
TESTS = (1, 5, 10, 30, 100, 300, 500, 1000)
EPSILONS = ("0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "1")
PMWS = tuple(f"pmw:{c}:{t}" for c, t in ((16, 1), (64, 1)))
SIZES = (25, 50, 100, 200, 400, 1000)  # of the training sets that learners are compared on
KEYS = ("data", "method", "tests", "epsilon")
LEARNERS = ("linear", "ridge", "gaussian-basis", "svr", "network", "bagging", "boosting")


def runs(method: str) -> tuple[int, int]:
    """Return how many sets of test (and training) queries are drawn, and runs of noise for each."""
    if method.startswith("pmw") or method.split(":")[-1] in LEARNERS[3:]:
        return 2, 3
    return {"laplace": (10, 10), "matrix": (2, 20), "wavelet": (2, 4)}.get(method, (5, 10))


def plan(which: str) -> list[tuple[str, str, int, str]]:
    """Return the points of an experiment."""
    if which == "training":
        points = [(n, f"random:{m}:linear", t, "1") for n in LARGE for m in COUNTS for t in (100, 500)]
        return points + [("SIMULATED", f"random:{m}:linear", 500, "1") for m in COUNTS if m <= 1000]
    if which == "test":
        methods = ("laplace", "hb", "identity", "random:100:linear", "random:200:linear")
        return list(itertools.product(NAMES, methods, TESTS, ("1",)))
    if which == "epsilon":
        methods = ("laplace", "hb", "wavelet", "identity", "matrix", "random:100:linear", *PMWS)
        return list(itertools.product(NAMES, methods, (500,), EPSILONS))
    if which == "learners":
        methods = [f"random:{m}:{each}" for m in SIZES for each in LEARNERS]
        return list(itertools.product(("NETTRACE", "FACEBOOK"), methods, (500,), ("1",)))
    raise SystemExit(f"experiments are training, test, epsilon and learners, got {which!r}")


def point(name: str, method: str, tests: int, epsilon: str) -> harness.Line:
    """Return the mean of the mean absolute errors over runs, with the standard error between draws."""
    cells, start = len(histogram(name).counts), time.perf_counter()
    found, scales = [], []
    for draw in range(runs(method)[0]):
        query = sampled(cells, tests, draw)
        truth = histogram(name).answers(rows(query, cells))
        noise = noise_seeds(name, method, tests, epsilon, draw, runs(method)[1])
        released = baselines.answers(method, name, (tests, draw), epsilon, noise)
        found.append(float(np.abs(released - truth).mean()))
        scales.append(sensitivity(query, cells) / float(epsilon))
    return {
        "data": name,
        "method": method,
        "tests": tests,
        "epsilon": epsilon,
        "mae": float(np.mean(found)),
        "standard_error": float(np.std(found, ddof=1) / math.sqrt(len(found))),
        "sensitivity_over_epsilon": float(np.mean(scales)),
        "draws": len(found),
        "runs": math.prod(runs(method)),
        "seconds": time.perf_counter() - start,
    }


def noise_seeds(name: str, method: str, tests: int, epsilon: str, draw: int, number: int) -> tuple[int, ...]:
    """Return seeds of noise; what does not see the test queries has the same noise whatever their number."""
    asked = tests if method == "laplace" or method == "matrix" or method.startswith("pmw") else 0
    first = zlib.crc32(f"{name} {method} {epsilon} {asked} {draw}".encode()) % 2**30
    return tuple(range(first, first + number))


def check() -> None:
    """Compare with the mechanism: identity and hb, linear learner, the same seed of noise."""
    import pgmjax as pj
    from pgmjax.privacy.seeded import SeededBackend

    private, query = histogram("NETTRACE"), sampled(common.CELLS, 500, 0)
    for training in ("identity", "hb"):
        settings = {"training": training, "backend": SeededBackend(3, insecure=True)}
        mechanism = pj.mechanisms.MLDP(epsilon=1, relation="add-remove", **settings)
        released = mechanism.run(private.data, pj.Workload([query]), show_progress=False).answers()[0]
        ours = baselines.answers(training, "NETTRACE", (500, 0), "1", (3,))[0]
        truth = private.answers(rows(query, common.CELLS))
        errors = [float(np.abs(each - truth).mean()) for each in (released, ours)]
        harness.say(f"{training}: MAE {errors}, largest difference {np.abs(released - ours).max():.2g}")


def main() -> None:
    """Run what is missing, and draw plots."""
    parser = harness.parser(__doc__)
    parser.add_argument("experiments", nargs="*", help="training, test, epsilon, learners; all")
    parser.add_argument("--plot", action="store_true", help="run nothing: draw what there is")
    parser.add_argument("--check", action="store_true", help="compare with the mechanism and stop")
    parser.add_argument("--method", default="", help="only methods whose names begin so")
    options = parser.parse_args()
    if options.check:
        check()
        return
    chosen = options.experiments or ["training", "test", "epsilon", "learners"]
    points = [each for which in chosen for each in plan(which) if each[1].startswith(options.method)]
    kept = harness.Results("paper001-mae", KEYS)
    missing = [] if options.plot else [each for each in dict.fromkeys(points) if each not in kept]
    missing.sort(key=lambda each: (NAMES.index(each[0]) > 1, each[1], NAMES.index(each[0])))
    for number, each in enumerate(missing):
        line = kept.add(point(*each))
        harness.say(f"{number + 1}/{len(missing)} {each}: {line['mae']:.4g} in {line['seconds']:.1f} s")
    report.draw([*kept.lines.values()])


if __name__ == "__main__":
    main()
