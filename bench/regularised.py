"""What regularisation costs and gains on the cases that are timed beside a peer.

Fits: seconds of the default beside `regularisation="none"`, both ending by the noise (`tol=None`), in turn,
from the second call on, with the standard deviation of the noise that was really added. Loops: the mean L1
distance of the cliques' marginals from the exact ones, over the number of records, after the last round, by
the default and at the optimum, with different numbers of steps allowed a round.

    PGMJAX_DATA=... python bench/regularised.py [CASE ...] [--calls N] [--steps N ...]
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time

import cases
import checkout  # noqa: F401  before the library
import harness
import numpy as np

import pgmjax as pj

FITS, LOOPS = ("fit-adult9", "fit-loans15", "fit-chain-300"), ("loop-adult",)
PATH = harness.RESULTS / "regularised.jsonl"
ARMS = ("none", "auto")


def measured(case: cases.Case, noisy: list[np.ndarray]) -> list[pj.LinearMeasurement]:
    """The answers with the standard deviation of their Laplace noise."""
    deviation = case.sigma * math.sqrt(2)
    return [
        pj.LinearMeasurement(clique, values, stddev=deviation)
        for clique, values in zip(case.cliques, noisy, strict=True)
    ]


def estimator(setting: str, steps: int, tol: float | None = None) -> pj.Estimator:
    """The settings of an arm."""
    return pj.Estimator(regularisation=setting, max_steps=steps, tol=tol, progress=False)


def fit_line(case: cases.Case, calls: int) -> harness.Line:
    """Seconds and steps of both arms, in turn; first calls, which may compile, are told apart."""
    total, (noisy,) = cases.answers(case)
    domain, answers = pj.Domain(case.sizes), measured(case, noisy)
    seconds: dict[str, list[float]] = {arm: [] for arm in ARMS}
    line: harness.Line = {}
    for _ in range(1 + calls):
        for arm in ARMS:
            start = time.perf_counter()
            fit = estimator(arm, case.steps).fit(domain, answers, total=float(total))
            seconds[arm].append(time.perf_counter() - start)
            line[f"{arm}_end"] = f"{fit.status.name} {fit.steps}"
    first = {f"{arm}_first_s": taken[0] for arm, taken in seconds.items()}
    later = {f"{arm}_s": statistics.median(taken[1:]) for arm, taken in seconds.items()}
    return {**line, **first, **later, "ratio": later["auto_s"] / later["none_s"]}


def loop_line(case: cases.Case, setting: str, steps: int, tol: float | None) -> harness.Line:
    """The distance from the table after a loop's last round."""
    total, (noisy,) = cases.answers(case)
    exact = cases.exact_counts(case)
    domain, answers, fit = pj.Domain(case.sizes), measured(case, noisy), None
    start, done = time.perf_counter(), 0
    for count in range(len(case.start), len(case.cliques) + 1):
        settings = estimator(setting, steps, tol)
        fit = settings.fit(domain, answers[:count], total=float(total), warm_start=fit and fit.model)
        done += fit.steps
    taken = time.perf_counter() - start
    marginals = [fit.model.marginal(clique) for clique in case.cliques]
    pairs = zip(marginals, exact, strict=True)
    distance = statistics.mean(float(np.abs(mu - counts).sum()) / total for mu, counts in pairs)
    return {"setting": setting, "steps_a_round": steps, "distance": distance, "steps": done, "seconds": taken}


def main() -> None:
    """Run the cases and keep their lines."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("names", nargs="*", default=[*FITS, *LOOPS], metavar="CASE")
    parser.add_argument("--calls", type=int, default=3, help="later calls of each arm; 3")
    parser.add_argument("--steps", type=int, nargs="+", default=[30, 100, 500], help="steps of a round")
    args = parser.parse_args()
    about = harness.provenance()
    for name in args.names:
        case, load = cases.load(name), harness.load_average()
        if case.kind == "fit":
            lines = [fit_line(case, args.calls)]
        else:
            optima = [loop_line(case, "none", steps, 1e-4) for steps in args.steps]
            lines = [*optima, loop_line(case, "auto", max(args.steps), None)]
        for line in lines:
            harness.say(json.dumps({"case": name, **line}))
            harness.append(PATH, {"case": name, **line, **about, "load_before": load, "date": harness.now()})


if __name__ == "__main__":
    main()
