"""A mechanism of google/dpsynth on a coded table: one line of JSON.

    .../dpsynth/bin/python bench/paper004/dpsynth_peer.py REQUEST

Runs under the interpreter of dpsynth's own environment (bench/discovery_dpsynth.py says how to make it);
`bench/paper004/peers.py` starts it. Its wrapper spends a tenth of rho on one-way marginals. Its adaptive
mechanisms compile so many programs that the process runs out of memory maps, so that they are forgotten
after every fifth fit.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
import warnings
from collections.abc import Mapping
from typing import Any

warnings.filterwarnings("ignore")
os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"

import jax  # noqa: E402

jax.config.update("jax_enable_x64", True)

import aim_peer  # noqa: E402
import mbi  # noqa: E402
import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
from dpsynth import discrete_mechanisms as kinds  # noqa: E402

CONFIGS = {"aim": "AIMConfig", "aim-gdp": "AIMGDPConfig", "mst": "MSTConfig", "swift": "SWIFTConfig"}


def forgetful() -> None:
    """Have programs forgotten after every fifth fit."""
    estimate, calls = mbi.estimation.MirrorDescent.estimate, [0]

    def forgetting(*given: Any, **named: Any) -> Any:
        calls[0] += 1
        if calls[0] % 5 == 0:
            jax.clear_caches()
        return estimate(*given, **named)

    mbi.estimation.MirrorDescent.estimate = forgetting


def run(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Run the mechanism and return its errors, from the model's marginals and from its rows."""
    sizes = asked["domain"]
    cliques = [tuple(name for name in sizes if name in clique) for clique in asked["cliques"]]
    frame = pd.read_csv(asked["table"])[list(sizes)]
    data = mbi.Dataset(
        {name: frame[name].to_numpy() for name in sizes}, mbi.Domain(tuple(sizes), tuple(sizes.values()))
    )
    forgetful()
    settings = {} if asked["mechanism"] == "mst" else {"workload": cliques}
    kind = getattr(kinds, CONFIGS[asked["mechanism"]])(**settings)
    start = time.perf_counter()
    mechanism = kinds.DiscreteConfig(mechanism=kind).configure(zcdp_rho=asked["rho"])
    result = mechanism(np.random.default_rng(asked["seed"]), data)
    seconds = time.perf_counter() - start

    def table(source: Any, clique: tuple[str, ...]) -> np.ndarray:
        return np.asarray(source.project(clique).datavector(flatten=True), float)

    truth = [table(data, clique) for clique in cliques]
    line = {"seconds": seconds, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}
    line["error"] = aim_peer.distance(truth, [table(result.model, clique) for clique in cliques])
    line["rows_error"] = aim_peer.distance(truth, [table(result.synthetic_data, c) for c in cliques])
    return {**line, "measured": len(result.measurements)}


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.argv[1]))))
