"""The specification of a sweep, read from TOML: tables x workloads x mechanisms x epsilons x trials.

A workload is all marginals of k attributes or a workload file.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import json
import os
import pathlib
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from pgmjax import mechanisms
from pgmjax._internal import checks
from pgmjax._version import __version__
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.estimation.estimator import Estimator
from pgmjax.job import checked_options
from pgmjax.privacy.exact import as_text, exact_delta, exact_epsilon
from pgmjax.queries.workload import Workload
from pgmjax.sweeps.tables import Fields, Table, TableSpec, distinct, entries, located, read_spec

_ESTIMATOR = {
    "max_steps": int,
    "tol": None,
    "dtype": str,
    "solver": str,
    "regularisation": str,
    "devices": int,
}


_FORM = 1


@dataclasses.dataclass(frozen=True)
class SweepGrid:
    r"""The specification of a sweep.

    Attributes:
        name: name of the sweep.
        seed: seed of the noise of all cells, which is reproducible and protects nothing.
        trials: number of trials of each combination.
        epsilons: the privacy budgets.
        delta: delta; 0 is pure differential privacy.
        relation: the neighbouring relation.
        tables: locations of the tables.
        workloads: the workloads.
        mechanisms: the mechanisms with their options.
        estimator: settings of the fit that differ from the default.

    Example:
        >>> import tempfile, pathlib
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "t.csv").write_text("a\n0\n1\n")
        >>> _ = (folder / "d.json").write_text('{"a": 2}')
        >>> _ = (folder / "g.toml").write_text('''
        ... [grid]
        ... name = "small"
        ... trials = 2
        ... epsilons = [1, "1/3"]
        ... relation = "replace-one"
        ... [[tables]]
        ... name = "t"
        ... path = "t.csv"
        ... domain = "d.json"
        ... [[workloads]]
        ... name = "1-way"
        ... all_kway = 1
        ... [[mechanisms]]
        ... name = "marginals"
        ... ''')
        >>> grid = SweepGrid.read(folder / "g.toml")
        >>> len(list(grid.combinations())), grid.epsilons[1]
        (2, Fraction(1, 3))
    """

    name: str
    seed: int
    trials: int
    epsilons: tuple[Fraction, ...]
    delta: Fraction
    relation: Relation
    tables: tuple[TableSpec, ...]
    workloads: tuple[WorkloadSpec, ...]
    mechanisms: tuple[MechanismSpec, ...]
    estimator: Mapping[str, Any]

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> SweepGrid:
        """Read a grid file; its paths are relative to the file, and `${NAME}` is an environment variable.

        Raises:
            FileNotFoundError: the file does not exist.
            ValueError: the file is not TOML, a key is missing or unknown, or a value is invalid.
        """
        checks.kind(path, str | os.PathLike, "path must be that of a grid, a TOML file")
        file = pathlib.Path(path)
        if not file.exists():
            raise FileNotFoundError(f"There is no grid file {file}.")
        if file.is_dir():
            raise ValueError(f"{file} is a folder, and a grid is a TOML file.")
        try:
            content = tomllib.loads(file.read_text(encoding="utf-8"), parse_float=Decimal)
            return _read(content, file.parent)
        except tomllib.TOMLDecodeError as error:
            bare = re.search(r"Invalid value \(at line (\d+)", str(error))
            quotes = f" In line {bare[1]}, put quotes around text." if bare else ""
            raise ValueError(
                f"{file} is no grid, which lists tables, workloads and mechanisms in TOML: {error}.{quotes} "
                "To compare mechanisms for one domain there is pgmjax mechanisms compare."
            ) from error
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{file} is no grid, which lists tables, workloads and mechanisms in TOML. If it holds the "
                "results of a sweep, pgmjax bench report reads it."
            ) from error
        except (TypeError, ValueError) as error:
            raise ValueError(f"{file.name}: {error}") from error

    def combinations(self) -> Iterator[tuple[TableSpec, WorkloadSpec, MechanismSpec, Fraction]]:
        """Yield the combinations to run `trials` times each; the table varies slowest."""
        for table, workload, mechanism in itertools.product(self.tables, self.workloads, self.mechanisms):
            here = table.name in workload.tables and table.name in mechanism.tables
            if here and workload.name in mechanism.workloads:
                for epsilon in self.epsilons:
                    yield table, workload, mechanism, epsilon


@dataclasses.dataclass(frozen=True)
class MechanismSpec:
    """A mechanism with its options.

    Attributes:
        name: command-line name of the mechanism.
        label: label in the results: the name with the options given in the grid.
        options: all its options, including defaults.
        tables: the tables it runs on.
        workloads: the workloads it runs on.
    """

    name: str
    label: str
    options: Mapping[str, Any]
    tables: Sequence[str]
    workloads: Sequence[str]


@dataclasses.dataclass(frozen=True)
class WorkloadSpec:
    """The specification of a workload.

    Attributes:
        name: label in the results.
        all_kway: k, for all marginals of k attributes; None if `file` is given.
        max_cells: with `all_kway`, keep as many marginals as fit in a model of this size; None keeps all.
        file: path of a workload file, or "" with `all_kway`.
        tables: the tables it applies to.
    """

    name: str
    all_kway: int | None
    max_cells: int | None
    file: str
    tables: Sequence[str]

    def build(self, domain: Domain) -> Workload:
        """Build the workload for a domain.

        Raises:
            ValueError: the workload does not fit the domain.
        """
        try:
            if self.all_kway is not None:
                return Workload.all_kway(domain, self.all_kway, self.max_cells)
            return Workload.read(self.file).over(domain)
        except (TypeError, ValueError) as error:
            raise ValueError(f"[[workloads]] {self.name}: {error}") from error


def _read(content: dict[str, Any], folder: pathlib.Path) -> SweepGrid:
    strange = set(content) - {"grid", "tables", "workloads", "mechanisms", "estimator"}
    if strange:
        raise ValueError(
            f"unknown table [{sorted(strange)[0]}]; a grid file holds [grid], [estimator], [[tables]], "
            "[[workloads]] and [[mechanisms]]."
        )
    fields = Fields("[grid]", content.get("grid", {}))
    name, seed = fields.take("name", str), fields.take("seed", int, 0)
    seed = checks.integer("[grid]: 'seed'", seed, low=0)
    trials = checks.integer("[grid]: 'trials'", fields.take("trials", int), low=1)
    listed = fields.take("epsilons", list)
    delta, relation = exact_delta(fields.take("delta", None, 0)), Relation.parse(fields.take("relation", str))
    fields.done()
    epsilons = tuple(map(exact_epsilon, listed))
    if not epsilons:
        raise ValueError("[grid]: 'epsilons' is empty: name at least one.")
    distinct("[grid]: the epsilon", [str(epsilon) for epsilon in epsilons])
    tables = tuple(read_spec(*each, folder) for each in entries(content, "tables"))
    distinct("[[tables]]: the name", [table.name for table in tables])
    known = [table.name for table in tables]
    workloads = tuple(read_workload(*each, folder, known) for each in entries(content, "workloads"))
    distinct("[[workloads]]: the name", [workload.name for workload in workloads])
    asked = [workload.name for workload in workloads]
    found = [made for each in entries(content, "mechanisms") for made in _mechanisms(*each, known, asked)]
    distinct("[[mechanisms]]: the mechanism", [each.label for each in found])
    grid = SweepGrid(
        name, seed, trials, epsilons, delta, relation, tables, workloads, tuple(found), _estimator(content)
    )
    for each in found:
        _try(each, grid)
    if not any(True for _ in grid.combinations()):
        raise ValueError("the grid has no cell: its 'tables' and 'workloads' lists leave nothing.")
    return grid


def _mechanisms(
    fields: Fields, name: str, tables: list[str], workloads: list[str]
) -> Iterator[MechanismSpec]:
    """The mechanisms of an entry: one for each combination of values from the options that are lists."""
    name = checks.choice(f"{fields.where}: the mechanism", name, mechanisms.names())
    known = mechanisms.names()[name]
    given = checked_options(known, fields.take("options", dict, {}), f"{fields.where}: ")
    only = fields.names("tables", tables) or tables, fields.names("workloads", workloads) or workloads
    defaults = mechanisms.options(known)
    for option in given:
        if given[option] == []:
            raise ValueError(
                f"{fields.where}: option {option!r} is a list of no values, which leaves nothing to run: "
                "name one, or write [[]] for a value that is an empty list."
            )
    values = [value if isinstance(value, list) else [value] for value in given.values()]
    for chosen in itertools.product(*values):
        options = dict(zip(given, (_plain(value) for value in chosen), strict=True))
        words = ", ".join(f"{option}={value}" for option, value in options.items())
        yield MechanismSpec(name, f"{name} ({words})" if words else name, {**defaults, **options}, *only)


def _estimator(content: dict[str, Any]) -> dict[str, Any]:
    fields = Fields("[estimator]", content.get("estimator", {}))
    taken = {name: _plain(fields.take(name, kind, None)) for name, kind in _ESTIMATOR.items()}
    fields.done()
    found = {name: value for name, value in taken.items() if value is not None}
    Estimator(**found)  # refused, if it must be, before anything runs
    return found


def _try(spec: MechanismSpec, grid: SweepGrid) -> None:
    """Construct the mechanism once, so that bad options are reported before anything runs."""
    mechanism = mechanisms.names()[spec.name]
    if grid.relation not in mechanism.relations:
        works = " or ".join(relation.value for relation in mechanism.relations)
        raise ValueError(f"[[mechanisms]] {spec.label}: works under {works}, not {grid.relation.value}.")
    try:
        for epsilon in grid.epsilons:
            mechanism(epsilon=epsilon, delta=grid.delta, relation=grid.relation, **spec.options)
    except (TypeError, ValueError) as error:
        raise ValueError(f"[[mechanisms]] {spec.label}: {error}") from error


def read_workload(fields: Fields, name: str, folder: pathlib.Path, tables: Sequence[str]) -> WorkloadSpec:
    """Read an entry of [[workloads]].

    Args:
        fields: its keys.
        name: its name.
        folder: folder that relative paths start from.
        tables: names of the grid's tables.

    Raises:
        ValueError: a key is missing, or not exactly one of `all_kway` and `file` is given.
    """
    k, cells = fields.take("all_kway", int, None), fields.take("max_cells", int, None)
    file, only = fields.take("file", str, ""), fields.names("tables", tables) or tables
    fields.done()  # a misspelt key is told before what is missing for it
    if (k is None) == (not file):
        raise ValueError(f"{fields.where}: give 'all_kway' or 'file', one of them.")
    if file and cells is not None:
        raise ValueError(f"{fields.where}: 'max_cells' goes with 'all_kway'.")
    for key, value in (("all_kway", k), ("max_cells", cells)):
        if value is not None and value < 1:
            raise ValueError(f"{fields.where}: {key!r} must be an integer >= 1, got {value}.")
    return WorkloadSpec(name, k, cells, located(fields.where, file, folder) if file else "", only)


def _plain(value: Any) -> Any:
    """The value with every Decimal converted to a float, also within lists."""
    if isinstance(value, Decimal):
        return float(value)
    return [_plain(each) for each in value] if isinstance(value, list) else value


@dataclasses.dataclass(frozen=True)
class Cell:
    """One trial.

    Attributes:
        key: the digest (64 hexadecimal digits), primary key of its row.
        trial: number of the trial, from 0.
        seed: seed of its noise, derived from the key.
    """

    key: str
    trial: int
    seed: int


@dataclasses.dataclass(frozen=True)
class Group:
    """The trials of one combination of settings, which are run and stored together.

    Attributes:
        grid: the sweep that it is of.
        table: the table's name.
        workload: the workload's name.
        mechanism: the mechanism with its options.
        epsilon: epsilon of the budget.
        asked: the workload.
        content: everything the results depend on, apart from the trial.
    """

    grid: SweepGrid
    table: str
    workload: str
    mechanism: MechanismSpec
    epsilon: Fraction
    asked: Workload
    content: Mapping[str, Any]

    @functools.cached_property
    def key(self) -> str:
        """Digest of the content; it does not depend on the number of trials."""
        return _digest(self.content)

    @functools.cached_property
    def cells(self) -> tuple[Cell, ...]:
        """One cell per trial; with fewer trials, the first of these."""
        keys = [_digest({"group": self.key, "trial": trial}) for trial in range(self.grid.trials)]
        return tuple(Cell(key, trial, int(key[:15], 16)) for trial, key in enumerate(keys))

    def __str__(self) -> str:
        return f"{self.table}, {self.workload}, {self.mechanism.label}, epsilon {as_text(self.epsilon)}"


def groups(grid: SweepGrid, tables: Mapping[str, Table]) -> Iterator[Group]:
    """Yield the groups of a grid in grid order.

    Args:
        grid: the sweep.
        tables: its tables, by name.

    Raises:
        ValueError: a workload does not fit a table's domain.
    """
    built: dict[tuple[str, str], Workload] = {}
    for table, workload, mechanism, epsilon in grid.combinations():
        place = (table.name, workload.name)
        if place not in built:
            built[place] = workload.build(tables[table.name].domain)
        content = {
            "form": _FORM,
            "pgmjax": __version__,
            "seed": grid.seed,
            "table": {"name": table.name, "digest": tables[table.name].digest},
            "domain": tables[table.name].domain.to_dict(),
            "workload": {"name": workload.name, "entries": built[place].to_list()},
            "mechanism": {"name": mechanism.name, "label": mechanism.label, "options": mechanism.options},
            "epsilon": as_text(epsilon),
            "delta": as_text(grid.delta),
            "relation": grid.relation.value,
            "estimator": grid.estimator,
        }
        yield Group(grid, *place, mechanism, epsilon, built[place], content)


def _digest(content: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON: sorted keys, no white space, non-JSON values as text."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()
