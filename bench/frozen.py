"""Results kept from one commit and compared with another: fits, plans, releases, histories.

    python bench/frozen.py keep FILE.jsonl [--part fits plans releases histories] [--number N]
    python bench/frozen.py compare FILE.jsonl
    python bench/frozen.py plain FILE.json --seeds SEED ...

`keep` makes 300 random fits (those of `statuses.py`, every other one with a prior or a constraint), 40 plans,
30 releases with seeded noise and 20 histories, and writes a line for each. `compare` makes them again and
prints what moved: losses and marginals by more than 1e-6 of their scale, gaps that grew, statuses that became
worse, plans with more work, releases and answers that differ. It exits with 1 if anything did.
`plain` writes fits as values, with what was found: noisy counts are rounded to nine digits before the fit, so
that a reader without this script fits the same numbers (`tests/estimation/frozen_fits.json`).
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

if __name__ == "__main__":
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
import harness
import numpy as np
import statuses

import pgmjax as pj
from pgmjax import history, mechanisms
from pgmjax.inference.plan import contraction, junction_tree
from pgmjax.inference.plan.structure import Structure
from pgmjax.measurements.noise import DiscreteLaplace

CLOSE = 1e-6  # of the scale of what is compared
STATUSES = ("CONVERGED", "WITHIN_NOISE", "STALLED", "MAX_STEPS")  # from best to worst
RELEASING = (
    *("aim", "batch-aim", "mst", "mwem", "marginals"),
    *("hdmm", "privbayes", "dual-query", "auto", "mldp"),
)
PARTS = {"fits": 300, "plans": 40, "releases": 30, "histories": 20}


def fit(seed: int) -> dict[str, Any]:
    """A random fit: loss, gap, status, and the marginals of its attributes."""
    case = statuses.case_of(seed)
    more: dict[str, Any] = {}
    if case.way == "alone" and case.kind != "custom" and seed % 2:
        first = case.domain.attributes[0]
        if seed % 4 == 1:
            share = pj.Estimator(progress=False).fit(case.domain, case.measurements[:1], case.total).model
            more = {"prior": share, "prior_weight": 10.0}
        else:
            known = np.full(case.domain[first], case.total / case.domain[first])
            more = {"constraints": [pj.FixedMarginal((first,), known)]}
    if more:
        estimator = pj.Estimator(loss=case.kind, progress=False, **case.settings)
        found = estimator.fit(case.domain, case.measurements, case.total, **more)
    else:
        found = statuses.fitted(case)
    marginals = [found.model.marginal((name,)).tolist() for name in case.domain]
    record = {"loss": found.loss, "gap": found.gap, "status": found.status.name, "total": case.total}
    return {**record, "marginals": [round(x, 9) for table in marginals for x in table]}


def rounded(case: statuses.Case) -> statuses.Case:
    """Return a fit whose noisy counts and deviations have nine digits."""
    noisy = [
        pj.LinearMeasurement(
            one.clique,
            [float(f"{x:.9g}") for x in one.flat_values()],
            float(f"{float(one.stddev):.9g}"),
        )
        for one in case.measurements
    ]
    return dataclasses.replace(case, measurements=noisy)


def as_values(seed: int) -> dict[str, Any]:
    """A fit as plain values, and what was found."""
    case = rounded(statuses.case_of(seed))
    found = statuses.fitted(case)
    return {
        "seed": seed,
        "domain": {name: case.domain[name] for name in case.domain},
        "measurements": [
            [list(one.clique), one.flat_values().tolist(), float(one.stddev)] for one in case.measurements
        ],
        "total": case.total,
        "loss": case.kind,
        "settings": case.settings,
        "found": {"loss": found.loss, "gap": found.gap, "status": found.status.name},
    }


def structure(seed: int) -> Structure:
    """A random structure of pairs and triples."""
    rng = np.random.default_rng(seed)
    number = int(rng.integers(4, 60))
    sizes = tuple(int(size) for size in rng.integers(2, 12, number))
    cliques = [tuple(sorted(rng.choice(number, 2 + int(rng.random() < 0.2), False))) for _ in range(number)]
    return Structure(sizes, tuple(tuple(map(int, clique)) for clique in cliques))


def plan(seed: int) -> dict[str, Any]:
    """The work of a contraction and the cells of a junction tree of a random structure."""
    model = structure(seed)
    tree = junction_tree.build(model)
    return {"work": contraction.plan(model).work, "tree": sum(map(model.cells, tree.cliques))}


def release(seed: int) -> dict[str, Any]:
    """A release with seeded noise: what was measured, and the loss."""
    rng = np.random.default_rng(seed)
    domain = pj.Domain({"a": 4, "b": 3, "c": 5, "d": 2, "e": 6})
    hidden = rng.integers(0, 3, 3_000)
    columns = {name: (hidden + rng.integers(0, domain[name], 3_000)) % domain[name] for name in domain}
    names = (
        "aim",
        "batch-aim",
        "mst",
        "mwem",
        "marginals",
        "hdmm",
        "privbayes",
        "dual-query",
        "auto",
        "mldp",
    )
    mechanism = mechanisms.names()[names[seed % len(names)]](
        epsilon=1,
        delta="1e-9" if seed // len(RELEASING) % 2 else 0,
        relation="add-remove",
        backend=pj.privacy.SeededBackend(seed, insecure=True),
    )
    data = pj.Dataset.from_columns(domain, columns)
    found = mechanism.run(data, pj.Workload.all_kway(domain, 2), show_progress=False)
    values = [float(x) for each in found.measurements for x in each.flat_values()]
    lost = None if found.fit is None else found.fit.loss
    return {"mechanism": mechanism.name, "values": values, "loss": lost, "total": 3_000.0}


def past(seed: int) -> dict[str, Any]:
    """A history's answers to new queries, by kernel PCA and by maximum entropy."""
    rng = np.random.default_rng(seed)
    domain = pj.Domain({"a": 6, "b": 4, "c": 5})
    asked = history.builders.random_ranges(domain, 20, seed=seed)
    noisy = rng.integers(0, 500, 20)
    kept = history.History.from_answers(
        domain, asked, noisy, distribution=DiscreteLaplace(20.0), relation="add-remove"
    )
    wanted = history.builders.random_ranges(domain, 5, seed=seed + 1000)
    linear = history.KernelPCA.of(kept)
    entropy = history.MaxEntropy(progress=False).fit(kept, 500.0)
    return {
        "linear": [float(linear.answer(query).values[0]) for query in wanted],
        "entropy": [float(np.ravel(entropy.model.answer(query))[0]) for query in wanted],
        "total": 500.0,
    }


MAKERS: dict[str, Callable[[int], dict[str, Any]]] = {
    "fits": fit,
    "plans": plan,
    "releases": release,
    "histories": past,
}


def made(part: str, number: int) -> Iterator[dict[str, Any]]:
    """Make some results of a part; one that is refused says so."""
    for seed in range(number):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found = MAKERS[part](seed)
            except Exception as error:  # a refusal is a result too
                found = {"refused": type(error).__name__}
        yield {"part": part, "seed": seed, **found}


def moved(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What differs between two results, in words."""
    if before.keys() != after.keys():
        return [f"{sorted(before)} became {sorted(after)}"]
    found = []
    scale = max(1.0, float(before.get("total", 1.0)))
    for key, old in before.items():
        new = after[key]
        if key == "status":
            worse = STATUSES.index(new) > STATUSES.index(old) if {old, new} <= set(STATUSES) else new != old
            found += [f"status {old} became {new}"] if worse else []
        elif key == "gap":
            grew = new is None or (old is not None and new > old + CLOSE * max(1.0, before["loss"]))
            found += [f"gap {old} became {new}"] if grew and new != old else []
        elif key in ("work", "tree"):
            found += [f"{key} {old} became {new}"] if new > old else []
        elif isinstance(old, float | list):
            unit = max(1.0, abs(old)) if key == "loss" else scale
            one, other = np.ravel(old), np.ravel(new)
            if one.shape != other.shape or not np.allclose(one, other, rtol=0, atol=CLOSE * unit):
                found.append(f"{key} moved")
        elif old != new:
            found.append(f"{key} {old} became {new}")
    return found


def main() -> None:
    """Keep results, or compare them."""
    parser = harness.parser(__doc__)
    parser.add_argument("what", choices=("keep", "compare", "plain"))
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--number", type=int, help="of each part; the default is all")
    parser.add_argument("--seeds", type=int, nargs="+", help="of the fits that `plain` writes")
    given = parser.parse_args()
    if given.what == "plain":
        lines = [json.dumps(as_values(seed)) for seed in given.seeds]
        given.file.write_text("[\n" + ",\n".join(lines) + "\n]\n")
        return
    if given.what == "keep":
        with given.file.open("w") as out:
            for part in given.part:
                for line in made(part, given.number or PARTS[part]):
                    out.write(json.dumps(line) + "\n")
        return
    kept = [json.loads(line) for line in given.file.read_text().splitlines()]
    worse = 0
    for part in given.part:
        old = [line for line in kept if line["part"] == part][: given.number]
        for before, after in zip(old, made(part, len(old)), strict=True):
            if said := moved(before, after):
                worse += 1
                harness.say(f"{part} {before['seed']}: {'; '.join(said)}")
    harness.say(f"{worse} of {len(kept)} results moved")
    sys.exit(bool(worse))


if __name__ == "__main__":
    main()
