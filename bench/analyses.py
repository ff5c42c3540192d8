"""Coverage of 95 % intervals of analyses of a release: tables to analyse, draws, and one table alone.

    PGMJAX_DATA=... python bench/analyses.py [--tables T ...] [--mechanisms M ...] [--epsilons E ...]
        [--releases N] [--relation add-remove]

The population is known: two real tables, of which records are drawn with replacement, and two made ones.
Each release is of 5,000 such records, with seeded noise. Three routes give an interval to an analysis' value
in the population: "tables" (20 of `Release.tables`, put together by `combine`), "draws" (`Release.estimate`
with 20 draws, population=True), and "naive" (one of these tables, analysed as if it were the records). A line
has for one release which routes held, and how wide their intervals were beside those of the records
themselves; the variances "parts" that `combine` put together and how far "off" its estimate was are in units
of the records' own squared standard error and its root. "inside" are analyses of attributes whose cells were
measured together, "merged" those of attributes measured together after rare codes had been merged (MST).
Lines under add-remove are in a file of their own (analyses-add-remove.jsonl).
"""

from __future__ import annotations

import functools
import itertools
import math
import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import harness
import numpy as np

import pgmjax as pj
from pgmjax.privacy.seeded import SeededBackend

RECORDS, TABLES, DRAWS, PARTS = 5_000, 20, 20, 25
KEYS = ("table", "mechanism", "epsilon", "release")
Z = 1.959963984540054
FILES = {"replace-one": "analyses", "add-remove": "analyses-add-remove"}
MECHANISMS = ("marginals", "mst", "batch-aim")
Rows = Mapping[str, np.ndarray]


def real(name: str) -> Rows:
    """Return five columns x, y (0 or 1), g (0 or 1), u, v of a real table, as codes."""
    folder = pathlib.Path(os.environ["PGMJAX_DATA"]) / name
    domain = pj.Domain.read(folder / f"{name}-domain.json")
    data = pj.Dataset.read(folder / f"{name}.csv.gz", domain)
    chosen = {
        "adult": ("education-num", "income>50K", "sex", "age", "relationship"),
        "titanic": ("Pclass", "Survived", "Sex", "Age", "Parch"),
    }[name]
    joint = data.marginals([chosen])[0]
    cells = np.repeat(np.arange(joint.size), np.ravel(joint))
    columns = dict(zip("xyguv", np.unravel_index(cells, joint.shape), strict=True))
    columns["y"], columns["g"] = np.minimum(columns["y"], 1), np.minimum(columns["g"], 1)
    columns["u"] = columns["u"] * 10 // (columns["u"].max() + 1)
    return columns


def made(seed: int) -> Rows:
    """Return a large table of the same form: a chain of columns, each after the one before."""
    rng = np.random.default_rng(seed)
    number = 1_000_000
    u = rng.choice(10, number, p=rng.dirichlet(np.full(10, 3.0)))
    x = np.clip(np.rint(u / 2 + rng.normal(2, 1.5, number)), 0, 9).astype(int)
    g = (rng.random(number) < 0.3 + 0.04 * x).astype(int)
    y = (rng.random(number) < 1 / (1 + np.exp(2 - 0.3 * x - 0.5 * g))).astype(int)
    v = np.where(rng.random(number) < 0.5, g * 2 + y, rng.integers(0, 4, number))
    return {"x": x, "y": y, "g": g, "u": u, "v": v}


POPULATIONS: dict[str, Callable[[], Rows]] = {
    "adult": lambda: real("adult"),
    "titanic": lambda: real("titanic"),
    "made 1": lambda: made(1),
    "made 2": lambda: made(2),
}


@functools.cache
def populated(table: str) -> Rows:
    """Return a population; it is made once."""
    return POPULATIONS[table]()


def counted(marginal: Callable[[tuple[str, ...]], np.ndarray]) -> dict[str, float]:
    """Return every analysis of a table of counts, given its marginals.

    Args:
        marginal: counts of some columns, an axis each.
    """
    x, y = (marginal((name,)) for name in "xy")
    n = x.sum()
    codes, xy, gy, ux = np.arange(len(x)), marginal(("x", "y")), marginal(("g", "y")), marginal(("u", "x"))
    rates = gy[:, 1] / gy.sum(axis=1)
    u = np.arange(len(ux))
    mx, mu, both = x @ codes / n, ux.sum(1) @ u / n, u @ ux @ codes / n
    vx, vu = x @ codes**2 / n - mx**2, ux.sum(1) @ u**2 / n - mu**2
    expected = np.outer(gy.sum(1), gy.sum(0)) / n
    odds = gy + 0.5  # as usual: a cell may be empty in a table that is drawn
    return {
        "mean": mx,
        "share": y[1] / n,
        "ratio": (xy[:, 1] @ codes / y[1]) / (xy[:, 0] @ codes / y[0]),
        "quantile": float(np.interp(0.5, np.cumsum(x) / n, codes)),
        "difference": rates[1] - rates[0],
        "log odds": math.log(odds[1, 1] * odds[0, 0] / (odds[1, 0] * odds[0, 1])),
        "slope": (both - mu * mx) / vu,
        "logistic": logistic(xy),
        "chi-square": float(((gy - expected) ** 2 / expected).sum() / n),
        "correlation": (both - mu * mx) / math.sqrt(vx * vu),
    }


def logistic(pairs: np.ndarray) -> float:
    """Return the slope of a logistic regression of y on x from counts [codes of x, 2], by Newton's method."""
    codes, weight = np.arange(len(pairs)), pairs.sum(axis=1)
    design, beta = np.stack([np.ones(len(pairs)), codes]), np.zeros(2)
    for _ in range(10):
        p = 1 / (1 + np.exp(-beta @ design))
        curve = (design * (weight * p * (1 - p))) @ design.T
        step = np.linalg.solve(curve, design @ (pairs[:, 1] - weight * p))
        beta = beta + step
        if np.abs(step).max() < 1e-6:
            break
    return float(beta[1])


def analysed(rows: Rows, sizes: Mapping[str, int]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the analyses of records, and their squared standard errors by the jackknife of `PARTS` parts."""
    values = {name: np.asarray(rows[name]) for name in "xyguv"}
    part = np.arange(len(values["x"])) % PARTS

    @functools.cache
    def of_parts(names: tuple[str, ...]) -> np.ndarray:
        shape = (PARTS, *(sizes[name] for name in names))
        cell = np.ravel_multi_index([part, *(values[name] for name in names)], shape)
        return np.bincount(cell, minlength=math.prod(shape)).reshape(shape).astype(float)

    whole = counted(lambda names: of_parts(names).sum(0))
    without = [counted(lambda names, k=k: of_parts(names).sum(0) - of_parts(names)[k]) for k in range(PARTS)]
    errors = {name: (PARTS - 1) * float(np.var([each[name] for each in without])) for name in whole}
    return whole, errors


def trial(table: str, mechanism: str, epsilon: float, number: int, relation: str) -> dict[str, Any]:
    """Release records once, and give every analysis its intervals."""
    # other records and other noise for each, so that all releases are independent
    places = list(POPULATIONS).index(table), MECHANISMS.index(mechanism)
    rng = np.random.default_rng([*places, round(1000 * epsilon), number])
    noise, seed = rng.integers(2**31, size=2).tolist()
    population = populated(table)
    sizes = {name: int(population[name].max()) + 1 for name in "xyguv"}
    chosen = rng.integers(0, len(population["x"]), RECORDS)
    rows = {name: population[name][chosen] for name in "xyguv"}
    truth, own = analysed(population, sizes)[0], analysed(rows, sizes)[1]
    domain = pj.Domain(sizes)
    delta = 0 if mechanism == "marginals" else 1e-9
    kind = pj.mechanisms.names()[mechanism]
    maker = kind(epsilon, relation, delta=delta, backend=SeededBackend(noise, insecure=True))
    release = maker.run(
        pj.Dataset.from_columns(domain, rows), pj.Workload.all_kway(domain, 2), show_progress=False
    )
    drawn = [analysed(table, sizes) for table in release.tables(TABLES, seed)]
    held: dict[str, Any] = {}
    for name, true in truth.items():
        estimates, variances = ([float(each[k][name]) for each in drawn] for k in (0, 1))
        low, high = pj.uncertainty.combine(estimates, variances).interval
        half = Z * math.sqrt(variances[0])
        wide = 2 * Z * math.sqrt(own[name])
        held[name] = {
            "tables": [bool(low <= true <= high), float((high - low) / wide)],
            "naive": [bool(abs(estimates[0] - true) <= half), float(2 * half / wide)],
            # what the rule is made of, in squared standard errors of the records' own
            "parts": [float(x / own[name]) for x in (np.var(estimates, ddof=1), np.mean(variances))],
            "off": float((np.mean(estimates) - true) / math.sqrt(own[name])),
        }
    names = list(truth)
    found = release.estimate(
        lambda model: np.array([counted(model.marginal)[name] for name in names]),
        DRAWS,
        seed,
        population=True,
    )
    measured = [(frozenset(each.clique), _cell_by_cell(each, sizes)) for each in release.measurements]
    needs = {"share": "y", "mean": "x", "quantile": "x", "slope": "ux", "correlation": "ux"}
    for place, name in enumerate(names):
        low, high = (end[place] for end in found.interval)
        wide = 2 * Z * math.sqrt(own[name])
        held[name]["draws"] = [bool(low <= truth[name] <= high), float(high - low) / wide]
        asked = needs.get(name, "xy" if name in ("ratio", "logistic") else "gy")
        having = [cells for clique, cells in measured if frozenset(asked) <= clique]
        held[name]["inside"] = any(having)
        if having and not any(having):
            held[name]["merged"] = True
    return {"status": release.fit.status.name, "held": held}


def _cell_by_cell(measurement: pj.LinearMeasurement, sizes: Mapping[str, int]) -> bool:
    """Return whether a measurement has an answer for every cell; MST merges those of rare codes."""
    return len(measurement.values) == math.prod(sizes[name] for name in measurement.clique)


def main() -> None:
    """Make the lines that are not there yet."""
    options = harness.parser(__doc__)
    options.add_argument("--tables", nargs="+", default=list(POPULATIONS))
    options.add_argument("--mechanisms", nargs="+", default=list(MECHANISMS))
    options.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 10.0])
    options.add_argument("--releases", type=int, default=100)
    options.add_argument("--relation", choices=tuple(FILES), default="replace-one")
    given = options.parse_args()
    kept = harness.Results(FILES[given.relation], KEYS)
    for number in range(given.releases):
        for key in itertools.product(given.tables, given.mechanisms, given.epsilons, [number]):
            if key not in kept:
                kept.add(dict(zip(KEYS, key, strict=True)) | trial(*key, given.relation))
        harness.say(f"release {number + 1} of {given.releases}")


if __name__ == "__main__":
    main()
