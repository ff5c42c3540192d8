"""Error of regularised approximate fits beside the optimum and the stop at the noise, on pairs of a table.

All pairs of the attributes with few values are measured with Laplace noise (replace-one, equal split, seeded)
and fitted by convex belief propagation and by a mixture of products. Printed are means over seeds of the L1
error of the measured marginals, as a share of the records. Nothing here is a release.

    PGMJAX_DATA=... python bench/paper004/regularisation_approximate.py [--epsilons ...] [--seeds 3]
"""

from __future__ import annotations

import argparse
import itertools
import pathlib
import statistics
import sys
from collections.abc import Callable

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import harness
import numpy as np
from workload import TABLES, load

import pgmjax as pj
from pgmjax.estimation import fit_local, fit_mixture

ARMS: dict[str, tuple[Callable[..., object], dict[str, str]]] = {
    "convex, none": (fit_local, {}),
    "convex, auto": (fit_local, {"regularisation": "auto"}),
    "mixture, none": (fit_mixture, {}),
    "mixture, auto": (fit_mixture, {"regularisation": "auto"}),
}


def main() -> None:
    """Measure, fit and print a line for each epsilon."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--table", default="adult", choices=TABLES)
    parser.add_argument("--values", type=int, default=20, help="most values of an attribute")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 0.3, 1.0, 3.0, 10.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--components", type=int, default=400)
    args = parser.parse_args()
    whole, data = load(args.table)
    domain = pj.Domain({name: whole[name] for name in whole if whole[name] <= args.values})
    pairs = list(itertools.combinations(domain.attributes, 2))
    total, true = float(data.count()), dict(zip(pairs, data.marginals(pairs), strict=True))
    for epsilon in args.epsilons:
        errors: dict[str, list[float]] = {}
        for seed in range(args.seeds):
            rng = np.random.default_rng(1000 * seed + int(10 * epsilon))
            scale = 2 * len(pairs) / epsilon
            noisy = [
                pj.LinearMeasurement(pair, t + rng.laplace(0, scale, t.shape), scale * 2**0.5)
                for pair, t in true.items()
            ]
            for name, (fitted, settings) in ARMS.items():
                more = {"components": args.components} if fitted is fit_mixture else {}
                model = fitted(domain, noisy, total, progress=False, **settings, **more).model  # type: ignore[attr-defined]
                found = [abs(model.marginal(pair) - true[pair]).sum() / total for pair in pairs]
                errors.setdefault(name, []).append(float(np.mean(found)))
        means = ", ".join(f"{name} {statistics.mean(found):.4f}" for name, found in errors.items())
        harness.say(f"epsilon {epsilon:g}: {means}")


if __name__ == "__main__":
    main()
