"""Noisy answers that were published elsewhere, read from a table as measurements."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import math
import os
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pgmjax._internal import checks, files
from pgmjax._internal.extras import arrow, csv, parquet
from pgmjax.data.attribute import Attribute, Code
from pgmjax.data.domain import Clique, Domain, as_clique
from pgmjax.data.population import Population
from pgmjax.data.withheld import NOT_UTF8, held_back, place_and_reason
from pgmjax.measurements.inputs import KEY, Input, are_secure, from_list, with_inputs
from pgmjax.measurements.linear import NOISE_DISTRIBUTIONS, LinearMeasurement
from pgmjax.measurements.noise import CONTINUOUS, read_noise
from pgmjax.queries import Product, Query, marginal, point, total
from pgmjax.queries import text as query_text
from pgmjax.queries.workload import as_entry

SUMMED = ("", "*")
"""Texts of a cell that is summed over an attribute, besides null."""
_TOTALS = ("total", "all")  # as published tables write it, unless a label is called so
POPULATION = "population"
"""Key of the metadata of our own files: what the answers are of, as JSON; see `data.population`."""
QUERIES = "queries"
"""Key of the metadata of our own files: what each measurement asked; see `described`."""
_FIELDS = ("value", "stddev", "noise", "rounded_to")
_OURS = ("clique", "row", "value", "stddev")
_OF_QUERIES = ("query", "value", "scale", *_FIELDS[1:])
_MOST_CELLS = 1 << 27
_NOTHING = 1e3  # standard deviation of a cell that was not published, in totals of its table
_SHOWN = 3
_LONGEST = 1_000_000  # characters of a query that is written into a file's metadata


@dataclasses.dataclass(frozen=True)
class Published:
    """Noisy answers as they were published.

    Attributes:
        measurements: one for each table.
        absent: for each table the number of its cells without a value. In the measurement they stand as 0
            with a standard deviation of a thousand times the table's total, which tells nothing.
        population: what they are of, if the file says so, as that of a release does.
        inputs: what they cost and whether their noise is secure, if the file says so, as that of a release
            does; else they are taken to be public. The measurements carry it too.
    """

    measurements: tuple[LinearMeasurement, ...]
    absent: tuple[int, ...]
    population: Population | None = None
    inputs: tuple[Input, ...] = ()

    @property
    def secure(self) -> bool:
        """False if the file says that the noise of an answer protects nobody."""
        return are_secure(self.inputs)

    @property
    def tells_total(self) -> bool:
        """True if a table is complete, so that the total can be estimated."""
        return any(number == 0 for number in self.absent)

    @property
    def answered(self) -> tuple[LinearMeasurement, ...]:
        """The answers without the cells that were not published, for what learns from every answer alike.

        A table without some of its cells becomes a measurement of each cell that it has.
        """
        pairs = zip(self.measurements, self.absent, strict=True)
        return tuple(one for each, absent in pairs for one in (_cells(each) if absent else (each,)))


def read_published(
    path: str | os.PathLike[str], domain: Domain, *, stddev: Any = None, rounded_to: Any = None
) -> Published:
    r"""Read published noisy counts from a file.

    The file has a row for each published number: in the column of each attribute the value that it counts
    (empty, `*` or `total`, where it is summed over the attribute), in `value` the number, and in `stddev` the
    standard deviation of its noise. A cell without a row, or with an empty `value`, was not published.
    Columns `noise` (`gaussian` or `laplace`) and `rounded_to` are optional. `measurements.parquet` of a
    release is read too.

    Answers to other queries stand in a file with a column `query`, which holds conditions such as
    `sex=F,age<30` (empty or `*` for all records), in place of the columns of attributes. For any linear
    query, write a .json file: a list of entries of a workload, each with `values`, one for each row of its
    query. In both, `scale` may replace `stddev`, with `noise`: then the noise is known to be discrete.

    Args:
        path: .csv, .parquet or .json.
        domain: the attributes.
        stddev: standard deviation (counts) of all noise, where the file has no such column.
        rounded_to: the multiple to which all values were rounded, where the file has no such column. Its
            variance, rounded_to squared over 12, is added to that of the noise.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file does not fit the domain, or a number is NaN, negative where it must not be, or
            given twice.

    Example:
        >>> import tempfile, pathlib
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "counts.csv"
        >>> _ = file.write_text("sex,age,value\nF,,510\nM,,490\nF,0,120\nM,0,\n")
        >>> domain = Domain({"sex": {"labels": ["F", "M"]}, "age": 2})
        >>> found = read_published(file, domain, stddev=5, rounded_to=10)
        >>> found.measurements[0]
        LinearMeasurement(('sex',), 2 values, stddev=5.7735, noise='gaussian')
        >>> found.absent
        (0, 3)
    """
    path = pathlib.Path(path)
    given = {
        name: None if value is None else checks.number(name, value, above=0)
        for name, value in (("stddev", stddev), ("rounded_to", rounded_to))
    }
    if path.suffix.lower() == ".json":
        public = (Input("published counts", None),)
        listed = tuple(with_inputs(each, public) for each in _listed(path, domain, given))
        return Published(listed, (0,) * len(listed), None, public)
    table = _read(path)
    for name, value in given.items():
        if value is not None and name in table.column_names:
            option = f"--{name.replace('_', '-')}"
            raise ValueError(f"{path} has a column {name}: leave {name}= ({option}) out.")
    if set(_OURS) <= set(table.column_names):
        found = list(_own(table, domain, given))
    elif "query" in table.column_names and "query" not in domain:
        found = [(each, 0) for each in _conditions(table, domain, given)]
    else:
        found = [_measurement(group, domain, given) for group in _groups(table, domain)]
    if not found:
        raise ValueError("the file holds no number, as that of a mechanism which measures nothing.")
    stated = _metadata(table, POPULATION)
    population = None if stated is None else Population.from_dict(stated)
    inputs = _inputs(table, path)
    measured = tuple(with_inputs(each, inputs) for each, _ in found)
    return Published(measured, tuple(absent for _, absent in found), population, inputs)


def _conditions(table: Any, domain: Domain, given: Mapping[str, float | None]) -> Iterator[LinearMeasurement]:
    """Yield the answers of a file whose column `query` holds conditions."""
    strange = [name for name in table.column_names if name not in _OF_QUERIES]
    if {"estimate", "determined"} <= {*table.column_names}:
        raise ValueError("These are the answers of a release, from its model: give its measurements.parquet.")
    if strange or "value" not in table.column_names:
        raise _of_queries(table.column_names)
    values = _numbers("value", table.column("value").to_pylist(), _every_row(table))
    for number, (value, record) in enumerate(zip(values, table.to_pylist(), strict=True), 1):
        text, where = str(record["query"] or "").strip(), f"Row {number}"
        if math.isnan(value):
            raise ValueError(f"{where}: the value is empty: leave out queries that were not answered.")
        try:
            query = (
                Product({domain.attributes[0]: total()}) if text in SUMMED else query_text.parse(text, domain)
            )
            yield _answer(query, [value], record, given)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error


def _listed(
    path: pathlib.Path, domain: Domain, given: Mapping[str, float | None]
) -> Iterator[LinearMeasurement]:
    """Yield the answers of a .json file: entries of a workload with values and noise."""
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}: check its name.")
    entries = files.parse_json(files.read_text(path))
    if not isinstance(entries, list) or not entries:
        raise ValueError(
            'A .json file of answers is a list such as [{"clique": ["age"], "queries": {"age": "prefix"}, '
            '"values": [12, 30], "stddev": 5}].'
        )
    for number, record in enumerate(entries, 1):
        if not isinstance(record, dict) or "values" not in record:
            raise ValueError(
                f"Answer {number}: expected a mapping such as "
                '{"clique": ["age"], "values": [12, 30], "stddev": 5}. '
                "Conditions stand in a .csv file with the columns query, value and stddev."
            )
        own = ("values", *_OF_QUERIES[2:])
        entry = as_entry(number, {name: value for name, value in record.items() if name not in own})
        try:
            yield _answer(entry.query, record["values"], record, given).over(domain)
        except (ValueError, TypeError) as error:
            raise ValueError(f"Answer {number}: {error}") from error


def _answer(
    query: Query, values: Any, record: Mapping[str, Any], given: Mapping[str, float | None]
) -> LinearMeasurement:
    """Return answers to a query, with the noise that their record, or else the caller, states."""
    kind = str(record.get("noise") or "").strip().lower()
    noise = checks.choice("noise", kind or "gaussian", CONTINUOUS)
    stated: dict[str, np.ndarray] = {}
    for name in ("stddev", "rounded_to", "scale"):
        one = record.get(name)
        found = given.get(name) if one is None or one == "" else _numbers(name, np.ravel(one).tolist())
        if found is not None:
            stated[name] = np.squeeze(np.asarray(found, np.float64))
            if not (stated[name] > 0).all():
                raise ValueError(f"{name} must be > 0, got {np.min(stated[name]):g}.")
    if "scale" in stated:
        if len(stated) > 1 or not kind or stated["scale"].ndim:
            raise ValueError(
                "scale needs a column noise (laplace or gaussian) and one value for all rows: give these, or "
                "stddev in place of scale; stddev and rounded_to do not go with it."
            )
        return LinearMeasurement.released(query, values, read_noise(noise, {"scale": float(stated["scale"])}))
    if not stated:
        raise ValueError("the noise is not known: give stddev or scale in the file, or pass stddev=.")
    variance = stated.get("stddev", np.zeros(())) ** 2 + stated.get("rounded_to", np.zeros(())) ** 2 / 12
    return LinearMeasurement(query.clique, values, np.sqrt(variance), query, noise)


def described(measurements: Sequence[LinearMeasurement]) -> str:
    """Return what was asked, as JSON for the metadata of our own files.

    Of each measurement it holds null for all cells of a marginal, the query as in a workload file for another
    one, and false for a query that is too long to be written.
    """
    found: list[Any] = []
    for each in measurements:
        spec = None if each.query == marginal(each.clique) else each.query.to_spec()
        found.append(spec if len(json.dumps(spec)) <= _LONGEST else False)
    return json.dumps(found)


def read_measurements(path: str | os.PathLike[str], domain: Domain) -> tuple[LinearMeasurement, ...]:
    """Return the noisy answers that a release wrote, without those whose query was too long to be written.

    Args:
        path: `measurements.parquet` of a release.
        domain: of the release.

    Raises:
        ValueError: the file cannot be read or does not fit the domain.
    """
    table = _read(pathlib.Path(path))
    if _metadata(table, QUERIES) is None:
        raise ValueError(
            f"{path} is damaged: it does not say what its answers are to. Make or copy it again."
        )
    inputs = _inputs(table, path)
    found = _own(table, domain, {"stddev": None, "rounded_to": None})
    return tuple(with_inputs(each, inputs) for each, _ in found)


def _inputs(table: Any, path: Any) -> tuple[Input, ...]:
    """Return the inputs that a file states; of one that was not written here, counts that are public.

    Raises:
        ValueError: they cannot be read.
    """
    try:
        stated = _metadata(table, KEY)
        return (Input("published counts", None),) if stated is None else from_list(stated)
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} is damaged: it does not say what its answers cost. Make or copy it again."
        ) from error


def _own(
    table: Any, domain: Domain, given: Mapping[str, float | None]
) -> Iterator[tuple[LinearMeasurement, int]]:
    """Yield the measurements of a file that a release wrote, with the number of cells without a value.

    They follow one another, each row by row. Those whose query was too long to be written are left out.
    """
    asked = _metadata(table, QUERIES)  # null for all cells, false for what was too long to be written
    cliques, rows = table.column("clique").to_pylist(), np.array(table.column("row").to_pylist(), np.int64)
    values = _numbers("value", table.column("value").to_pylist(), _every_row(table))
    fields = {
        name: table.column(name).to_pylist()
        for name in ("stddev", "noise", "scale")
        if name in table.column_names
    }
    starts = [k for k in range(len(rows)) if k == 0 or cliques[k] != cliques[k - 1] or rows[k] <= rows[k - 1]]
    for number, (first, end) in enumerate(itertools.pairwise([*starts, len(rows)])):
        spec = asked[number] if asked is not None else None
        if spec is False:
            continue
        clique = as_clique(domain, cliques[first])
        query = marginal(clique) if spec is None else as_entry(number, spec).query
        cells = query.num_rows(domain)
        if rows[first] < 0 or rows[end - 1] >= cells:
            raise ValueError(
                f"The table over {', '.join(clique)} has {cells:,} cells by the domain, and the file has a "
                f"row {int(rows[end - 1]):,}: give the domain of that release."
            )
        kept = {name: column[first:end] for name, column in fields.items()}
        group = _Group(clique, rows[first:end], np.arange(first, end) + 1, values[first:end], kept)
        if spec is None:
            made, absent = _measurement(group, domain, given)
            yield (made if absent else _drawn(made, group)), absent
        else:
            yield _drawn(_answered(group, query, domain), group), 0


def _drawn(made: LinearMeasurement, group: _Group) -> LinearMeasurement:
    """Return answers with the discrete distribution of their noise, if the file has its scale."""
    scales, integers = set(group.fields.get("scale", ())), np.rint(made.values)
    scale = scales.pop() if len(scales) == 1 else None
    if scale is None or not (math.isfinite(scale) and scale > 0):
        return made
    if made.noise not in CONTINUOUS or (integers != made.values).any():
        return made
    distribution = read_noise(made.noise, {"scale": float(scale)})
    if made.stddev.ndim or not math.isclose(distribution.stddev, made.stddev, rel_tol=1e-9):
        return made
    return LinearMeasurement.released(made.query, integers.astype(np.int64), distribution)


def _answered(group: _Group, query: Query, domain: Domain) -> LinearMeasurement:
    """Return answers to a query as they were written, every row in its place."""
    stddevs = np.array(group.fields["stddev"], float)
    one = float(stddevs[0]) if (stddevs == stddevs[0]).all() else stddevs
    made = LinearMeasurement(query.clique, group.values, one, query, _noise(group))
    made.validate(domain)
    return made


def _metadata(table: Any, key: str) -> Any:
    """Return what the metadata of our own file say under a key; None if they say nothing."""
    found = (table.schema.metadata or {}).get(key.encode())
    return None if found is None else json.loads(found)


def _read(path: pathlib.Path) -> Any:
    """Return the file as an Arrow table; of a .csv file every column is text."""
    if not path.is_file():
        if (path / "measurements.parquet").is_file():
            raise FileNotFoundError(f"{path} is a folder: give {path / 'measurements.parquet'}.")
        named = f"{path} is a folder: name a file in it" if path.is_dir() else f"There is no file {path}"
        raise FileNotFoundError(f"{named}, .csv or .parquet.")
    with held_back(arrow.ArrowException, OSError, UnicodeDecodeError) as failure:
        if path.suffix.lower() == ".parquet":
            return parquet.read_table(path)
        if path.suffix.lower() == ".csv":
            in_order = csv.ReadOptions(use_threads=False)  # so that it tells which row it cannot read
            with open(path, "rb") as file:
                _check_commas(path, file.readline())
                file.seek(0)
                names = csv.open_csv(file, in_order).schema.names
            kinds = csv.ConvertOptions(column_types=dict.fromkeys(names, arrow.string()))
            return csv.read_csv(path, in_order, convert_options=kinds)
    if failure:
        place, reason = place_and_reason(failure[0])
        reason += ". Save it as UTF-8" * (reason == NOT_UTF8)
        raise ValueError(f"{path} cannot be read{place}{f': {reason}' if reason else ''}.")
    raise ValueError(
        f"{path} must be a .csv, .parquet or .json file of published numbers. A table of records goes to "
        "pgmjax release."
    )


def _check_commas(path: pathlib.Path, line: bytes) -> None:
    """Refuse a file whose first line separates its names by something else."""
    other = next((each for each in (b";", b"\t") if each in line), None)
    if other is not None and b"," not in line:
        found = "semicolons" if other == b";" else "tabs"
        raise ValueError(f"{path} separates columns by {found}: write commas, and decimals with a point.")


@dataclasses.dataclass(frozen=True)
class _Group:
    """The rows of one published table.

    Attributes:
        clique: its attributes.
        cells: the number of each row's cell, row-major, int64 [rows].
        lines: the number of each row in the file, from 1, int64 [rows].
        values: float64 [rows], NaN where none was published.
        fields: the other columns [rows], by name.
    """

    clique: Clique
    cells: np.ndarray
    lines: np.ndarray
    values: np.ndarray
    fields: dict[str, list[Any]]

    @property
    def named(self) -> str:
        """The table, for messages."""
        return f"the table over {', '.join(self.clique) or 'all records'}"


_MEANT = {
    **dict.fromkeys(
        ("count", "counts", "n", "freq", "frequency", "estimate", "noisy_count", "total"), "value"
    ),
    **dict.fromkeys(("sd", "std", "sigma", "se", "stderr", "std_dev", "standard_deviation"), "stddev"),
}
"""Columns by their names elsewhere."""
_MEANT_OF_QUERIES = {
    **_MEANT,
    "condition": "query",
    "conditions": "query",
    "answer": "value",
    "answers": "value",
}


def _check_names(table: Any, domain: Domain) -> None:
    """Refuse a file whose columns are not those of published numbers; what may be a record is not quoted."""
    came = table.column_names
    if {"condition", "conditions"} & {*came} - {*domain}:
        raise _of_queries(came)
    strange = [name for name in came if name not in (*domain, *_FIELDS)]
    if not strange and "value" in came and len({*came}) == len(came):
        return
    said = (
        "A file of published numbers has a row a cell: a column for each attribute that it is about, of "
        f"{', '.join(domain)}; the column value, its count; and, where they are known, "
        f"{', '.join(_FIELDS[1:])}."
    )
    found, meant = _it_has(came, (*domain, *_FIELDS)), _meant(strange, _MEANT, came)
    same = {name: checks.same_word(name, domain) for name in strange}
    if capitals := [f"{own} for {name}" for name, own in same.items() if own]:
        raise ValueError(
            f"The file has {', '.join(strange)}. Did you mean {', '.join(capitals)}? Capitals count."
        )
    if "variance" in strange:
        meant += " A stddev is the square root of a variance."
    labels = [name for name in strange for each in domain if name in domain.attribute(each).code_names()]
    if labels and {*came} & {*domain}:  # else the first line may be a record
        raise ValueError(
            f"{', '.join(map(repr, labels[:3]))}: these are values and no attributes. A cross table is "
            f"written long, with a row a cell. {said}"
        )
    if not {*_FIELDS} & {*came} and "value for" not in meant:
        record = "This looks like a table of records, which pgmjax release measures. "
        raise ValueError(f"{record}{said}{found}")
    raise ValueError(f"{meant.lstrip()}{' ' * bool(meant)}{said}{found}")


def _of_queries(came: Sequence[str]) -> ValueError:
    """Return the refusal of a file of answers to queries by its columns."""
    meant = _meant([name for name in came if name not in _OF_QUERIES], _MEANT_OF_QUERIES, came)
    return ValueError(
        "A file of answers to queries has the columns query, value and stddev (or scale and noise, and "
        f"rounded_to, where they are known).{_it_has(came, (*_OF_QUERIES, *_MEANT_OF_QUERIES))}{meant}"
    )


def _it_has(came: Sequence[str], known: Sequence[str]) -> str:
    """Return what the columns of a file are called, unless no name is known: then they may be a record."""
    if not {*came} & {*known, *_MEANT}:
        return " Its first line names no such column: is it a record?"
    return f" It has {', '.join(came)}: correct the names in the file, or in the domain."


def _meant(strange: Sequence[str], names: Mapping[str, str], came: Sequence[str]) -> str:
    """Return a question about the columns that were probably meant, or ""."""
    pairs = [(names[each.lower()], each) for each in strange if each.lower() in names]
    listed = ", ".join(f"{name} for {each}" for name, each in pairs if name not in came)
    return f" Did you mean {listed}?" if listed else ""


def _groups(table: Any, domain: Domain) -> Iterator[_Group]:
    """Yield the rows of each set of attributes that they name, in order of appearance."""
    _check_names(table, domain)
    names = [name for name in table.column_names if name not in _FIELDS]
    # what tells of noise is no table of records, of which no value is quoted
    quoted = bool({*_FIELDS[1:]} & {*table.column_names})
    columns = {name: _codes(domain.attribute(name), table.column(name).to_pylist(), quoted) for name in names}
    values = _numbers("value", table.column("value").to_pylist(), _every_row(table), quoted)
    fields = {name: table.column(name).to_pylist() for name in _FIELDS[1:] if name in table.column_names}
    named = np.array([columns[name] >= 0 for name in names], bool).reshape(len(names), -1).T
    for mask in dict.fromkeys(map(tuple, named.tolist())):
        rows = np.flatnonzero((named == np.array(mask)).all(axis=1)) if names else np.arange(len(values))
        clique = tuple(name for name, used in zip(names, mask, strict=True) if used)
        shape = _shape(clique, domain)
        codes = tuple(columns[name][rows] for name in clique)
        cells = np.ravel_multi_index(codes, shape) if clique else np.zeros(len(rows), np.int64)
        kept = {name: [column[row] for row in rows] for name, column in fields.items()}
        yield _Group(clique, np.asarray(cells, np.int64), rows + 1, values[rows], kept)


def _shape(clique: Clique, domain: Domain) -> tuple[int, ...]:
    shape = domain.shape_of(clique)
    if math.prod(shape) > _MOST_CELLS:
        raise ValueError(
            f"The table over {', '.join(clique)} has {math.prod(shape):,} cells, and at most {_MOST_CELLS:,} "
            "are taken."
        )
    return shape


def _codes(attribute: Attribute, texts: Sequence[Any], quoted: bool) -> np.ndarray:
    """Return the code of each value, by its name or as a table would hold it; -1 where it is summed over."""
    known: dict[Any, int] = {name: code for code, name in enumerate(attribute.code_names())}
    codes: dict[Any, int] = {}
    for value in dict.fromkeys(texts):
        key = value.strip() if isinstance(value, str) else value
        if isinstance(key, str) and key not in known and key.casefold() in _TOTALS:
            key = None
        if key is not None and key not in SUMMED and key not in known:
            try:
                known[key] = int(attribute.encode([key])[0])
            except (TypeError, ValueError):
                named = attribute.code_names()
                places = [str(k) for k, text in enumerate(texts, 1) if text == value][:_SHOWN]
                came = repr(value) if quoted else "What the file has"
                raise ValueError(
                    f"{came} is no value of {attribute.name!r} in the domain (row {', '.join(places)}): its "
                    f"values are {', '.join(named[:10])}{', ...' * (len(named) > 10)}. Write these, in "
                    f"a CSV file with quotes around one that has a comma."
                ) from None
        codes[value] = -1 if key is None or key in SUMMED else known[key]
    return np.array([codes[value] for value in texts], np.int64)


def _every_row(table: Any) -> range:
    """Return the numbers of a file's rows, from 1."""
    return range(1, 1 + table.num_rows)


def _numbers(
    name: str, column: Sequence[Any], lines: Sequence[int] | np.ndarray = (), quoted: bool = True
) -> np.ndarray:
    """Return numbers [rows], NaN for none; a NaN that was written as such is refused, quoted or not.

    Args:
        name: of the column.
        column: what was read [rows].
        lines: the number of each row in the file; () if whoever asks says it.
        quoted: whether a value that is no number may be shown.
    """
    numbers = np.full(len(column), np.nan)
    for k, value in enumerate(column):
        if value is None or (isinstance(value, str) and value.strip() == ""):
            continue
        said = f"Row {lines[k]}: {name} must be" if len(lines) else f"{name} must be"
        readable = False
        with contextlib.suppress(TypeError, ValueError):
            numbers[k], readable = float(value), True
        if not readable:  # raised here so that no error that quotes the value is in the context
            then = "leave the row out if its number was not published"
            if str(value).strip().endswith("%"):
                then = "a count of records, not a share"
            elif re.fullmatch(r"\s*\d{1,3}([ ,.'\u00a0\u202f]\d{3})+\s*", str(value)):
                then = "leave out the separator of thousands"
            came = f", got {value!r}" if quoted else ""
            raise ValueError(f"{said} a number such as 1180 or 0.5{came}: {then}.")
        if not math.isfinite(numbers[k]):
            raise ValueError(f"{said} a finite number, got {value}: leave it empty where none was published.")
    return numbers


def _measurement(
    group: _Group, domain: Domain, given: Mapping[str, float | None]
) -> tuple[LinearMeasurement, int]:
    """Return a table as a measurement of all its cells, and the number of cells without a value."""
    order = np.argsort(group.cells, kind="stable")
    twice = np.flatnonzero(np.diff(group.cells[order]) == 0)
    if len(twice):
        lines = sorted(group.lines[order[[twice[0], twice[0] + 1]]].tolist())
        raise ValueError(
            f"Rows {lines[0]} and {lines[1]} are of the same cell of {group.named}: leave one out."
        )
    spread = _stddevs(group, given)
    there = ~np.isnan(group.values)
    if not there.any():
        raise ValueError(f"No value was published of {group.named}: leave its rows out.")
    noise = _noise(group)
    if not group.clique:
        name = next(iter(domain))
        return LinearMeasurement((name,), group.values, spread, query="total", noise=noise), 0
    shape = _shape(group.clique, domain)
    values = np.zeros(math.prod(shape))
    stddevs = np.full(values.shape, _nothing(group.values[there]))
    values[group.cells[there]], stddevs[group.cells[there]] = group.values[there], spread[there]
    absent = int(values.size - np.count_nonzero(there))
    one = float(stddevs[0]) if (stddevs == stddevs[0]).all() else stddevs.reshape(shape)
    return LinearMeasurement(group.clique, values.reshape(shape), one, noise=noise), absent


def _nothing(values: np.ndarray) -> float:
    """Return the standard deviation of a cell that was not published, from the values that were."""
    return _NOTHING * max(1.0, float(np.abs(values).sum()))


def _cells(table: LinearMeasurement) -> Iterator[LinearMeasurement]:
    """Yield the cells of a table that were published."""
    values, stddevs = np.asarray(table.values), np.asarray(table.stddev)
    for cell in np.argwhere(stddevs < 0.99 * _nothing(values)).tolist():
        asked = Product({name: point(Code(code)) for name, code in zip(table.clique, cell, strict=True)})
        place = tuple(cell)
        one = LinearMeasurement(table.clique, values[place], float(stddevs[place]), asked, table.noise)
        yield with_inputs(one, table.inputs)


def _check_multiples(group: _Group, rounded: np.ndarray) -> None:
    """Refuse values that are no multiples of what they were rounded to."""
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = group.values / rounded
        bad = np.flatnonzero(np.abs(shares - np.round(shares)) > 1e-6)
    if len(bad):
        # the value is not quoted: a file with no noise of its own may be a table of records
        raise ValueError(
            f"Row {int(group.lines[bad[0]])}: value is no multiple of rounded_to, {rounded[bad[0]]:g}: "
            "correct "
            "that, or give a stddev."
        )


def _stddevs(group: _Group, given: Mapping[str, float | None]) -> np.ndarray:
    """Return the standard deviation [rows] of noise and rounding together."""
    parts = []
    for name in ("stddev", "rounded_to"):
        column = _numbers(name, group.fields[name], group.lines) if name in group.fields else None
        if column is None:
            column = np.full(len(group.values), np.nan if given[name] is None else given[name])
        bad = np.flatnonzero(column <= 0 if name == "stddev" else column < 0)
        if len(bad):
            raise ValueError(f"Row {int(group.lines[bad[0]])}: {name} must be > 0, got {column[bad[0]]:g}.")
        if name == "rounded_to":
            _check_multiples(group, column)
        parts.append(column)
    lacking = np.flatnonzero(np.isnan(parts[0]) & np.isnan(parts[1]) & ~np.isnan(group.values))
    if len(lacking):
        raise ValueError(
            f"Row {int(group.lines[lacking[0]])} of {group.named} has no standard deviation: give a "
            "column stddev, or pass stddev=, or rounded_to= where the values were rounded."
        )
    noise, rounding = (np.nan_to_num(part) for part in parts)
    return np.sqrt(np.square(noise) + np.square(rounding) / 12)


def _noise(group: _Group) -> str:
    kinds = {str(kind).strip().lower() for kind in group.fields.get("noise", ()) if kind not in (None, "")}
    if len(kinds) > 1:
        raise ValueError(f"T{group.named[1:]} has noise of several kinds: {', '.join(sorted(kinds))}.")
    kind = kinds.pop() if kinds else "gaussian"
    return checks.choice(f"noise of {group.named}", kind, NOISE_DISTRIBUTIONS)
