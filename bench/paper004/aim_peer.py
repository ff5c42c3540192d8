"""AIM of dpmm on a coded table, and the errors of any marginals: one line of JSON.

    .../dpmm/bin/python bench/paper004/aim_peer.py [REQUEST | < request.json]

Runs under the interpreter of dpmm's own virtual environment; `bench/paper004/aim.py` starts it. Its AIM
takes cliques with weights where its class is called itself (`models.aim.AIM(...).fit(frame, W=...)`);
the front end on top (`AIMGM`) takes only a degree. Its Gaussian noise cannot be seeded, its choices can.
The errors below are NumPy's alone, so that they serve both libraries.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Clique = Sequence[str]


def exact_marginals(
    columns: Mapping[str, np.ndarray], domain: Mapping[str, int], cliques: Sequence[Clique]
) -> list[np.ndarray]:
    """Return the counts of some cliques of a table of codes."""
    result = []
    for clique in cliques:
        shape = [domain[name] for name in clique]
        places = np.ravel_multi_index([columns[name] for name in clique], shape)
        result.append(np.bincount(places, minlength=int(np.prod(shape))).reshape(shape).astype(float))
    return result


def prefixes(table: np.ndarray, clique: Clique, wide: Sequence[str]) -> np.ndarray:
    """Return the answers to the prefix queries of a clique's wide attributes, all cells of the others."""
    for axis, name in enumerate(clique):
        if name in wide:
            table = np.cumsum(table, axis=axis)
    return table


def errors(
    cliques: Sequence[Clique], wide: Sequence[str], truth: Sequence[np.ndarray], ours: Sequence[np.ndarray]
) -> dict[str, float]:
    """Return the mean relative L1 error on the workload's queries and on the cells of the same cliques."""

    def mean(view: Callable[[np.ndarray, Clique], np.ndarray]) -> float:
        pairs = [(view(t, c), view(o, c)) for t, o, c in zip(truth, ours, cliques, strict=True)]
        return float(np.mean([np.abs(t - o).sum() / np.abs(t).sum() for t, o in pairs]))

    return {
        "error": mean(lambda table, clique: prefixes(table, clique, wide)),
        "cells_error": mean(lambda table, _: table),
    }


def distance(truth: Sequence[np.ndarray], ours: Sequence[np.ndarray]) -> float:
    """Return the mean over marginals of the L1 distance of the shares."""
    return float(np.mean([np.abs(t / t.sum() - o / o.sum()).sum() for t, o in zip(truth, ours, strict=True)]))


def expanded(table: np.ndarray, clique: Clique, supports: Mapping[str, np.ndarray] | None) -> np.ndarray:
    """Undo dpmm's merging of rare values: the merged value's mass goes to all of them in equal parts."""
    if supports is None:
        return table
    for axis, name in enumerate(clique):
        kept = supports[name]
        spread = np.zeros((kept.size, table.shape[axis]))
        spread[np.flatnonzero(kept), np.arange(kept.sum())] = 1
        if not kept.all():
            spread[~kept, -1] = 1 / (~kept).sum()
        table = np.moveaxis(np.tensordot(spread, table, axes=(1, axis)), 0, axis)
    return table


def logsumexp(values: np.ndarray, axis: Any = None) -> Any:
    """Return what scipy's function of this name does, in a third to an eighth of its time on small tables."""
    top = np.max(values, axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    total = np.log(np.sum(np.exp(values - top), axis=axis, keepdims=True)) + top
    return total.reshape(())[()] if axis is None else total.squeeze(axis)


def run(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Fit dpmm's AIM and return its errors, from the model's marginals and from synthetic rows."""
    import pandas
    from dpmm.models.aim import AIM
    from dpmm.models.base.mbi import factor

    factor.logsumexp = logsumexp  # the same numbers, several times faster

    domain, cliques, wide = asked["domain"], asked["cliques"], asked["wide"]
    frame = pandas.read_csv(asked["table"])[list(domain)]
    ordered = [tuple(name for name in domain if name in clique) for clique in cliques]
    peer = AIM(
        epsilon=asked["epsilon"],
        delta=asked["delta"],
        prng=np.random.RandomState(asked["seed"]),
        max_model_size=asked["megabytes"],
        n_iters=asked["iterations"],
        compress=asked["compress"],
        domain=dict(domain),
        n_jobs=1,
    )
    start = time.perf_counter()
    peer.fit(frame, W=[(clique, 1.0) for clique in ordered])
    seconds = time.perf_counter() - start
    supports = peer.compressor.supports if peer.compress else None
    truth = exact_marginals({name: frame[name].to_numpy() for name in domain}, domain, cliques)
    found = [expanded(peer.model.project(tuple(c)).datavector(flatten=False), c, supports) for c in cliques]
    line = {"seconds": seconds, **errors(cliques, wide, truth, found)}
    line["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rows = peer.generate(n_records=len(frame))
    sampled = exact_marginals({name: rows[name].to_numpy() for name in domain}, domain, cliques)
    line |= {f"rows_{key}": value for key, value in errors(cliques, wide, truth, sampled).items()}
    line |= {"tree_cells": int(peer.model.size), "rho": float(peer.rho)}
    line["cliques"] = [list(c) for c in dict.fromkeys(peer.cliques) if len(c) > 1]
    line["sigmas"] = [float(sigma) for _, _, sigma, _ in peer.measures]
    return line


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.argv[1]) if len(sys.argv) > 1 else json.load(sys.stdin))))
