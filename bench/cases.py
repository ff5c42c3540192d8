"""The cases that are timed: structures from a file or made by name, and the inputs drawn for them.

A case says only sizes, cliques, a seed and, for fits, the scale of the noise. Inputs are drawn here
in the order in which a peer's script draws them from the same seed, so that both sides get the same
numbers, bit for bit: potentials are standard normal, answers are exact counts plus Laplace noise.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import pathlib
import re
from typing import Any

import numpy as np

RECORDS = 50_000  # uniform records of a fit case that names no table
MADE = re.compile(r"(oracle|fit)-(chain|tree|loops)-(\d+)(?:x(\d+))?")

Names = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Case:
    """One case.

    Attributes:
        name: its name.
        kind: `oracle` (one inference), `fit`, or `loop` (fits of a growing structure).
        seed: seed of the inputs.
        sizes: size of each attribute.
        start: cliques of the first fit of a loop; all cliques otherwise.
        rounds: cliques that a loop adds, one a round.
        steps: solver steps at most.
        sigma: scale of the Laplace noise; the weight of the loss on both sides.
        data: name of the table, None for uniform records.
    """

    name: str
    kind: str
    seed: int
    sizes: dict[str, int]
    start: tuple[Names, ...]
    rounds: tuple[Names, ...] = ()
    steps: int = 1
    sigma: float = 1.0
    data: str | None = None

    @property
    def cliques(self) -> tuple[Names, ...]:
        """All cliques, in the order of the answers."""
        return self.start + self.rounds

    def shape(self, clique: Names) -> list[int]:
        """Shape of a clique's table."""
        return [self.sizes[name] for name in clique]


def default_file() -> pathlib.Path:
    """The file of cases beside the folder of tables.

    Raises:
        ValueError: PGMJAX_DATA is not set, or there is no such file.
    """
    if "PGMJAX_DATA" not in os.environ:
        raise ValueError(
            "PGMJAX_DATA is not set: it names the folder of real tables, and the default file of cases is "
            "../peers/cases.json beside it. Set it, or pass --cases FILE."
        )
    file = pathlib.Path(os.environ["PGMJAX_DATA"]).resolve().parent / "peers" / "cases.json"
    if not file.is_file():
        raise ValueError(f"there is no default file of cases at {file}: pass --cases FILE.")
    return file


def read(file: str | os.PathLike[str] | None = None) -> dict[str, dict[str, Any]]:
    """The cases of a file as they stand in it, the default file unless told.

    Raises:
        ValueError: no such file, or not a JSON object.
    """
    path = default_file() if file is None else pathlib.Path(file)
    if not path.is_file():
        raise ValueError(f"there is no file of cases at {path}.")
    try:
        found = json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not JSON: {error}.") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path} must hold an object of cases by name, got {type(found).__name__}.")
    return found


def load(name: str, file: str | os.PathLike[str] | None = None) -> Case:
    """A case by name, from the file or made.

    Args:
        name: a name in the file, or `oracle-chain-D`, `oracle-tree-D`, `fit-chain-D`, `fit-tree-D` for D
            attributes, with `xS` behind it for chains of attributes of S values (10 by default); or
            `oracle-loops-P`, `fit-loops-P` for P random pairs over 128 attributes.
        file: the file; None is the default one, which a made case does not need.

    Raises:
        ValueError: unknown name, with those that there are.
    """
    made = MADE.fullmatch(name)
    try:
        found = read(file)
    except ValueError:
        if made and file is None:
            return make(name)
        raise
    if name in found:
        return _case(name, found[name])
    if made:
        return make(name)
    raise ValueError(
        f"{name!r} is not a case; there are {', '.join(found)}, and oracle-chain-D, oracle-tree-D, "
        "fit-chain-D and fit-tree-D for D attributes; oracle-loops-P and fit-loops-P for P pairs."
    )


def _case(name: str, spec: dict[str, Any]) -> Case:
    if spec.get("kind") not in ("oracle", "fit", "loop"):
        raise ValueError(f"the kind of case {name!r} must be oracle, fit or loop, got {spec.get('kind')!r}.")
    start = spec["start"] if spec["kind"] == "loop" else spec["cliques"]
    return Case(
        name,
        spec["kind"],
        spec["seed"],
        dict(spec["domain"]),
        tuple(map(tuple, start)),
        tuple(map(tuple, spec.get("rounds", ()))),
        spec.get("iters", 1),
        spec.get("sigma", 1.0),
        spec.get("data"),
    )


def make(name: str) -> Case:
    """A chain of three-way cliques, a random tree of pairs or random pairs, of any number.

    Raises:
        ValueError: a name of another form, or fewer than three attributes.
    """
    parts = MADE.fullmatch(name)
    if not parts or int(parts[3]) < 3 or (parts[2] != "chain" and parts[4]):
        raise ValueError(
            f"a made case is oracle-chain-D[xS], oracle-tree-D or oracle-loops-D with D >= 3, got {name!r}."
        )
    count = int(parts[3])
    if parts[2] == "chain":
        sizes, cliques = _chain(count, int(parts[4] or 10))
    else:
        sizes, cliques = _tree(count, 5) if parts[2] == "tree" else _loops(count, 1)
    seed = 0 if parts[2] == "chain" else 5
    return Case(name, parts[1], seed, sizes, cliques, steps=500, sigma=50.0)


def _chain(count: int, size: int) -> tuple[dict[str, int], tuple[Names, ...]]:
    names = [f"a{i}" for i in range(count)]
    return dict.fromkeys(names, size), tuple(tuple(names[i : i + 3]) for i in range(count - 2))


def _tree(count: int, seed: int) -> tuple[dict[str, int], tuple[Names, ...]]:
    """Attributes of 2 to 20 values; each hangs on one of the 20 before it."""
    rng = np.random.default_rng(seed)
    sizes = {f"v{i}": int(rng.integers(2, 21)) for i in range(count)}
    return sizes, tuple((f"v{rng.integers(max(0, i - 20), i)}", f"v{i}") for i in range(1, count))


def _loops(count: int, seed: int) -> tuple[dict[str, int], tuple[Names, ...]]:
    """Random pairs over 128 attributes of 2 to 5 values, the same for fewer pairs as the first of more."""
    rng = np.random.default_rng(seed)
    sizes = {f"a{i}": int(rng.integers(2, 6)) for i in range(128)}
    pairs: dict[Names, None] = {}
    while len(pairs) < min(count, 128 * 127 // 2):
        one, other = sorted(rng.choice(128, 2, replace=False).tolist())
        pairs[f"a{one}", f"a{other}"] = None
    return sizes, tuple(pairs)


def potentials(case: Case, dtype: str = "float32") -> list[np.ndarray]:
    """Standard normal log-potentials of each clique [its shape]."""
    rng = np.random.default_rng(case.seed)
    return [rng.normal(size=case.shape(clique)).astype(dtype) for clique in case.cliques]


def answers(case: Case, rows: int = 1) -> tuple[int, list[list[np.ndarray]]]:
    """Number of records, and noisy counts of each clique [its shape] for each of some draws of the noise.

    The first draw is that of a single fit; the generator goes on for the others.

    Raises:
        ValueError: a table is needed and PGMJAX_DATA is not set.
    """
    rng = np.random.default_rng(case.seed)
    records, exact = _exact(case, rng)
    noisy = [
        [counts + rng.laplace(scale=case.sigma, size=counts.shape) for counts in exact] for _ in range(rows)
    ]
    return records, noisy


def _exact(case: Case, rng: np.random.Generator) -> tuple[int, list[np.ndarray]]:
    """Number of records and exact counts; records that no table has are drawn first."""
    if case.data:
        columns = table_of(case)
    else:
        columns = {name: rng.integers(0, size, RECORDS) for name, size in case.sizes.items()}
    exact = [_count(case.shape(clique), [columns[name] for name in clique]) for clique in case.cliques]
    return len(next(iter(columns.values()))), exact


def table_of(case: Case) -> dict[str, np.ndarray]:
    """The codes of a case's attributes in its table."""
    if "PGMJAX_DATA" not in os.environ:
        raise ValueError(
            f"PGMJAX_DATA is not set: it names the folder of real tables, and {case.name} needs one."
        )
    path = pathlib.Path(os.environ["PGMJAX_DATA"]) / str(case.data) / f"{case.data}.csv.gz"
    if not path.is_file():
        raise ValueError(f"{case.name} needs the table {path}, which is not there.")
    with gzip.open(path, "rt") as lines:
        names = lines.readline().strip().split(",")
        codes = np.loadtxt(lines, delimiter=",").astype(int)
    return {name: codes[:, names.index(name)] for name in case.sizes}


def _count(shape: list[int], codes: list[np.ndarray]) -> np.ndarray:
    counts = np.zeros(shape)
    np.add.at(counts, tuple(codes), 1.0)
    return counts
