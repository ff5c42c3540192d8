"""Synthetic rows of raw tables at the same total epsilon: discovered bins, public bins, dpmm and dpsynth.

    python bench/discovery.py --packages FOLDER --peer dpmm=PYTHON dpsynth=PYTHON
    python bench/discovery.py --packages FOLDER --sides fixed discovery --tables adult

The tables are those of `discovery_tables.py`, as they are in their files. Every contestant has all of
epsilon (0.3, 1, 10; delta 1e-9) for everything that it learns, the bins included; neighbours differ by one
row more or less. All of them measure what MST measures, so that the bins make the difference:

    fixed           pgmjax, 32 bins of equal width over the public range, at most one an integer
    discovery       pgmjax, bins discovered for a fifth of the budget, no range given
    dpmm            its default bins (PrivTree), no range given
    dpmm-public     the same with the public range: without it, it can fail at small epsilon
    dpsynth         its default bins (32 quantiles), the public range given; values in the middle of a bin
    dpsynth-sample  the same rows, values drawn within the bins
    resample        the rows themselves, drawn with replacement: what chance alone does; not private

Of the synthetic rows are computed, over all columns:

    one_way, two_way              mean total variation distance of marginals on the rank grid: each number in
                                  64 cells between quantiles of the true rows, which no contestant sees
    one_way_width, two_way_width  the same on the public grid: 64 cells of equal width over the public range
    wasserstein                   mean over numbers of the Wasserstein-1 distance, in true standard deviations

`columns` has the distances of single columns: total variation on both grids, Wasserstein. One line of JSON
per table, contestant, epsilon and seed; lines that are there are not made again. Noise of ours is seeded:
nothing of it is a release. Times are not measured.
"""

from __future__ import annotations

import argparse
import itertools
import json
import pathlib
import subprocess
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence

import harness
import numpy as np
import pandas as pd
import scipy
from discovery_tables import COLUMNS, Table, hours, load
from harness import Line

import pgmjax as pj
from pgmjax.queries.workload import KWay

EPSILONS, DELTA, SEEDS = (0.3, 1.0, 10.0), 1e-9, 5
CELLS, BINS = 64, 32
SHARE = "0.2"
PEERS = {
    "dpmm": ("dpmm", "numpy", "scipy", "opendp"),
    "dpmm-public": ("dpmm", "numpy", "scipy", "opendp"),
    "dpsynth": ("dpsynth", "mbi", "jax", "numpy", "dp-accounting"),
}
ERRORS = ("one_way", "two_way", "one_way_width", "two_way_width", "wasserstein")
Contestant = Callable[[Table, float, float, int], pd.DataFrame]


def resample(table: Table, epsilon: float, delta: float, seed: int) -> pd.DataFrame:
    """Return the rows drawn with replacement. Not private."""
    return table.frame.sample(len(table.frame), replace=True, random_state=seed)


def public_edges(low: float, high: float, whole: bool) -> np.ndarray:
    """Return edges of bins of equal width; of integers they enclose at least one."""
    edges = np.linspace(low, high + whole, BINS + 1)
    return np.unique(np.round(edges)) if whole else edges


def fixed(table: Table, epsilon: float, delta: float, seed: int) -> pd.DataFrame:
    """Return rows of MST on public bins, each value drawn within its bin."""
    specs: dict[str, Mapping] = {}
    values = table.frame.copy()
    for name in values:
        if name in table.numbers:
            number = table.numbers[name]
            specs[name] = {"bins": public_edges(*number.bounds, number.kind == "int").tolist(), "clip": True}
            values[name] = numbers_of(values[name])
        else:
            specs[name] = {"labels": table.categories[name]}
    domain = pj.Domain(specs)
    codes = (
        mst(epsilon, delta, seed)
        .run(
            pj.Dataset.from_frame(domain, values), pj.Workload.all_kway(domain, 2, 10**6), show_progress=False
        )
        .model.sample(len(values), seed)
    )
    draw = np.random.default_rng([seed, 1])  # not the stream of the codes
    rows = pd.DataFrame(index=values.index)
    for name in values:
        spec = specs[name]
        if "bins" in spec:
            edges, kind = np.array(spec["bins"]), table.numbers[name].kind
            drawn = draw.uniform(edges[codes[name]], edges[codes[name] + 1])
            rows[name] = np.floor(drawn) if kind == "int" else drawn
        else:
            rows[name] = np.array(spec["labels"], dtype=object)[codes[name]]
    return rows


def mst(epsilon: float, delta: float, seed: int) -> pj.mechanisms.MST:
    """Return the mechanism of all of ours."""
    return pj.mechanisms.MST(
        epsilon=str(epsilon),
        delta=str(delta),
        relation=pj.Relation.ADD_REMOVE,
        estimator=pj.Estimator(progress=False),
        backend=pj.privacy.SeededBackend(seed, insecure=True),
    )


def discovered(table: Table, epsilon: float, delta: float, seed: int) -> pd.DataFrame:
    """Return rows of MST on discovered bins: only `table.frame` and `table.categories` are known.

    A column that is left out is 0 throughout; a missing value, which no row has, becomes one next to it.
    """
    shapes = {"time": "dates"}
    draft = {
        name: {shapes.get(table.numbers[name].kind, "bins"): "discover"}
        if name in table.numbers
        else {"labels": table.categories[name]}
        for name in table.frame
    }
    opened = pj.discovery.OpenTable.from_frame(table.frame, pj.discovery.Draft(draft))
    release = mst(epsilon, delta, seed).run(
        opened, KWay(2, 10**6), discover=pj.discovery.Discovery(SHARE), show_progress=False
    )
    codes = release.model.sample(len(table.frame), seed)
    draw = np.random.default_rng([seed, 1])  # not the stream of the codes
    domain = release.domain
    rows = pd.DataFrame({name: domain.attribute(name).values(codes[name], draw) for name in domain})
    for name in table.numbers:
        rows[name] = rows[name].infer_objects().bfill().ffill() if name in rows else 0.0
    return rows


OURS: dict[str, Contestant] = {"resample": resample, "fixed": fixed, "discovery": discovered}


def numbers_of(column: pd.Series) -> np.ndarray:
    """Return a column of numbers or times as floats; times in hours since 1970, NaN if missing."""
    if column.dtype.kind not in "iufb":
        return np.where(column.isna(), np.nan, hours(column))
    return column.to_numpy(dtype=float)


def rank_edges(truth: np.ndarray) -> np.ndarray:
    """Return inner edges of cells with about as many rows each, halfway between values that occur."""
    ranks = np.quantile(truth, np.arange(1, CELLS) / CELLS, method="inverted_cdf")
    values = np.unique(truth)
    above = np.searchsorted(values, np.unique(ranks), side="right")
    above = above[above < len(values)]
    return (values[above - 1] + values[above]) / 2


class Judge:
    """The distances of synthetic rows from a table.

    Args:
        table: the true rows.
    """

    def __init__(self, table: Table):
        self.table = table
        self.inner: dict[str, dict[str, np.ndarray]] = {"": {}, "_width": {}}
        for name, number in table.numbers.items():
            truth = numbers_of(table.frame[name])
            self.inner[""][name] = rank_edges(truth)
            self.inner["_width"][name] = np.linspace(*number.bounds, CELLS + 1)[1:-1]
        self.truth = {grid: self.codes(table.frame, grid) for grid in self.inner}

    def numbers(self, frame: pd.DataFrame, name: str) -> np.ndarray:
        """Return a column as floats; a missing value, which no true row has, counts as the lower bound."""
        values = numbers_of(frame[name])
        return np.where(np.isnan(values), self.table.numbers[name].bounds[0], values)

    def codes(self, frame: pd.DataFrame, grid: str) -> dict[str, np.ndarray]:
        """Return the cells of all rows; values beyond the ends count in the end cells."""
        result = {}
        for name in self.table.frame:
            if name in self.table.numbers:
                cells = np.searchsorted(self.inner[grid][name], self.numbers(frame, name), side="right")
            else:
                cells = pd.Categorical(frame[name].astype(str), categories=self.table.categories[name]).codes
                if (cells < 0).any():
                    raise ValueError(f"column {name!r} has a category that is not in the public list")
            result[name] = np.asarray(cells, dtype=np.int64)
        return result

    def sizes(self, grid: str) -> dict[str, int]:
        """Return the number of cells of each column."""
        inner, categories = self.inner[grid], self.table.categories
        return {c: len(inner[c]) + 1 if c in inner else len(categories[c]) for c in self.table.frame}

    def distances(self, frame: pd.DataFrame, grid: str, size: int) -> dict[tuple[str, ...], float]:
        """Return the total variation distance of every marginal of some size."""
        sizes, drawn = self.sizes(grid), self.codes(frame, grid)
        result = {}
        for clique in itertools.combinations(sizes, size):
            shape = [sizes[name] for name in clique]
            tables = []
            for codes in (self.truth[grid], drawn):
                cells = np.ravel_multi_index([codes[name] for name in clique], shape)
                counts = np.bincount(cells, minlength=int(np.prod(shape)))
                tables.append(counts / counts.sum())
            result[clique] = float(np.abs(tables[0] - tables[1]).sum() / 2)
        return result

    def wasserstein(self, frame: pd.DataFrame) -> dict[str, float]:
        """Return the Wasserstein-1 distance of each number over its true standard deviation."""
        result = {}
        for name in self.table.numbers:
            truth, drawn = (self.numbers(rows, name) for rows in (self.table.frame, frame))
            result[name] = float(scipy.stats.wasserstein_distance(truth, drawn) / truth.std())
        return result

    def line(self, frame: pd.DataFrame) -> Line:
        """Return all errors of synthetic rows."""
        moved = self.wasserstein(frame)
        line: Line = {"rows": len(frame)}
        single: dict[str, dict[str, float]] = {}
        for grid in self.inner:
            ones = self.distances(frame, grid, 1)
            single[grid] = {clique[0]: value for clique, value in ones.items()}
            line["one_way" + grid] = float(np.mean([*ones.values()]))
            line["two_way" + grid] = float(np.mean([*self.distances(frame, grid, 2).values()]))
        line["wasserstein"] = float(np.mean([*moved.values()]))
        line["columns"] = {
            name: [
                round(x, 4) for x in (*(single[g][name] for g in single), moved.get(name)) if x is not None
            ]
            for name in self.table.frame
        }
        return line


def program(side: str) -> str:
    """Return which peer a contestant is."""
    return side.partition("-")[0]


def peer_lines(
    table: Table, judge: Judge, name: str, python: str, seed: int, epsilons: Sequence[float]
) -> Iterator[Line]:
    """Run a peer under its own interpreter, one process for the epsilons of a seed."""
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        table.frame.to_csv(place / "table.csv", index=False)
        jobs = [
            {"epsilon": e, "seed": seed, "out": str(place / f"{number}.csv")}
            for number, e in enumerate(epsilons)
        ]
        asked = {
            "table": str(place / "table.csv"),
            "columns": table.described(),
            "delta": DELTA,
            "bounds": name == "dpmm-public",
            "jobs": jobs,
        }
        script = str(pathlib.Path(__file__).with_name(f"discovery_{program(name)}.py"))
        done = subprocess.run([python, script], input=json.dumps(asked), capture_output=True, text=True)
        told = [json.loads(text) for text in done.stdout.splitlines() if text.startswith("{")]
        if len(told) < len(jobs):
            reason = f"ended with {done.returncode}: {(done.stderr.strip().splitlines() or ['no word'])[-1]}"
            told += [{"failed": reason[:300]}] * (len(jobs) - len(told))
        for one, line in zip(jobs, told, strict=True):
            about = {"epsilon": one["epsilon"], "seed": seed, **line}
            endings = {name: ".csv", **({f"{name}-sample": ".sample.csv"} if name == "dpsynth" else {})}
            for side, ending in endings.items():
                if "failed" in line:
                    yield {"side": side, **about}
                    continue
                path = pathlib.Path(one["out"]).with_suffix(ending)
                rows = pd.read_csv(path, keep_default_na=False, dtype=dict.fromkeys(table.categories, str))
                yield {"side": side, **about, **judge.line(rows)}


def our_lines(table: Table, judge: Judge, name: str, seed: int, epsilons: Sequence[float]) -> Iterator[Line]:
    """Run one of ours in this process."""
    for epsilon in epsilons:
        try:
            line = judge.line(OURS[name](table, epsilon, DELTA, seed))
        except Exception as error:  # as with peers: what it dies of is its result
            traceback.print_exc()
            line = {"failed": f"{type(error).__name__}: {error}"[:300]}
        yield {"side": name, "epsilon": epsilon, "seed": seed, **line}


def run(options: argparse.Namespace) -> None:
    """Run what is not in the file."""
    kept = harness.Results(options.out, ("table", "side", "epsilon", "seed"))
    peers = dict(word.split("=", 1) for word in options.peer)
    versions = {
        name: harness.versions(peers[program(name)], PEERS[name]) for name in options.sides if name in PEERS
    }
    tables = [load(name, options.packages) for name in options.tables]
    judges = [Judge(table) for table in tables]
    for seed, (table, judge), side in itertools.product(
        range(options.seeds), zip(tables, judges, strict=True), options.sides
    ):
        left = [e for e in EPSILONS if (table.name, side, e, seed) not in kept]
        if not left:
            continue
        if side in PEERS:
            lines = peer_lines(table, judge, side, peers[program(side)], seed, left)
        else:
            lines = our_lines(table, judge, side, seed, left)
        peer = {"peer": versions[side]} if side in PEERS else {}
        for line in lines:
            keys = {"bench": "discovery", "table": table.name, "table_rows": len(table.frame), "delta": DELTA}
            kept.add({**keys, **line, **peer})
            shown = line.get("failed") or ", ".join(f"{key} {line[key]:.4f}" for key in ERRORS)
            harness.say(f"{table.name} {line['side']} epsilon {line['epsilon']} seed {seed}: {shown}")


def main() -> None:
    """Run what is asked for."""
    parser = harness.parser(__doc__)
    parser.add_argument(
        "--packages", type=pathlib.Path, metavar="FOLDER", help="where the wheels are unpacked"
    )
    parser.add_argument(
        "--peer", nargs="*", default=[], metavar="NAME=PYTHON", help="interpreters of the peers"
    )
    parser.add_argument("--tables", nargs="+", choices=[*COLUMNS], default=[*COLUMNS])
    parser.add_argument("--sides", nargs="+", choices=[*OURS, *PEERS], default=[*OURS, *PEERS])
    parser.add_argument("--seeds", type=int, default=SEEDS, metavar="N", help=f"of each run ({SEEDS})")
    parser.add_argument("--out", type=pathlib.Path, default=harness.RESULTS / "discovery.jsonl")
    options = parser.parse_args()
    wanted = sorted({program(name) for name in options.sides if name in PEERS})
    given = {word.partition("=")[0] for word in options.peer}
    if options.packages is None or not given.issuperset(wanted):
        parser.error(f"--packages is needed, and --peer with an interpreter for each of {', '.join(wanted)}")
    run(options)


if __name__ == "__main__":
    main()
