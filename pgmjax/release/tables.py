"""The Parquet tables of a release: noisy answers and workload answers."""

from __future__ import annotations

import csv
import io
import json
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from pgmjax._internal.extras import arrow, parquet
from pgmjax._internal.memory import available_bytes, readable_bytes
from pgmjax.data.domain import Clique, Domain
from pgmjax.data.population import Population
from pgmjax.measurements.inputs import Input, of_measurements
from pgmjax.measurements.inputs import marks as inputs_marks
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.published import POPULATION, QUERIES, described
from pgmjax.queries.query import Product, Query, marginal
from pgmjax.queries.spec import in_words, row_names
from pgmjax.release.accuracy import LEARNER, MODEL, NoisyDistance, rests_on

_VALUE_BYTES = 8
_BLOCK_ROWS = 1 << 18
_MOST_WORDS = 1 << 20
_SHARES = ("share_low", "share_high")
_NUMBERS = ("estimate", "stddev", "noise_stddev", "low", "high", *_SHARES, "determined", "rests_on")
_OF_DISTANCES = ("round", "value", "stddev", "changed", "noise")
_FIXED = ("query", "clique", "cell", *_NUMBERS)


def write_measurements(
    measurements: Sequence[LinearMeasurement],
    path: pathlib.Path,
    *,
    inputs: Sequence[Input] | None = None,
    secure: bool | None = None,
    seed: int | None = None,
    population: Population | None = None,
) -> None:
    """Write noisy answers: clique (list of names), row, value, stddev, distribution and scale of the noise.

    `scale` is the scale of the discrete noise distribution, null if unknown. Integer values, as in a release,
    are stored as int64. The file's metadata holds `inputs`, as JSON what the answers cost and whether their
    noise is secure (default: what the measurements say of that); `secure` ("true" or "false", which `secure`
    can only deny) and the `seed` of insecure noise, if anything is known of that; `queries`, what each
    measurement asked, see `measurements.published.described`; and `population`, if it is given, what all are
    of.
    """
    table = measurements_table(measurements)
    marks = _mark(of_measurements(measurements) if inputs is None else inputs, seed, secure)
    marks |= {} if population is None else {POPULATION: json.dumps(population.to_dict())}
    table = table.replace_schema_metadata({**marks, QUERIES: described(measurements)})
    parquet.write_table(table, path, compression="zstd")


def measurements_table(measurements: Sequence[LinearMeasurement]) -> Any:
    """Return noisy answers as an Arrow table with one row per value; see `write_measurements`."""
    integral = all(m.values.dtype.kind == "i" for m in measurements)
    sizes = [m.values.size for m in measurements]
    noise = arrow.array([m.noise for m in measurements], arrow.string())
    columns = {
        "clique": _cliques([m.clique for m in measurements], sizes),
        "row": _joined([np.arange(n) for n in sizes], np.int64),
        "value": _joined([m.values.reshape(-1) for m in measurements], np.int64 if integral else np.float64),
        "stddev": _joined([m.row_stddevs() for m in measurements]),
        "noise": arrow.DictionaryArray.from_arrays(_which(sizes), noise).cast(arrow.string()),
        "scale": arrow.array(_joined(_scales(measurements)), from_pandas=True),
    }
    return arrow.table(columns)


def write_answers(release: Any, path: pathlib.Path) -> None:
    """Write the answers to the workload, in its order, one row for each.

    The columns:

    - `query`: of a marginal, the names of its attributes as `pgmjax query --marginal` takes them, such as
      `sex,age`. Of another query, these names and a description, such as `sex,age (age: prefix)`.
    - one for each attribute of the workload, in the domain's order: what the answer counts, such as a label
      or a bin; null if the query is on other attributes, counts all values of this one or weights them, or
      has more than a million rows on it. An attribute called like another column has ` (attribute)` after
      its name.
    - `clique`: the attributes, a list.
    - `cell`: the number of the answer within its query from 0, row-major in the order of the clique.
    - `estimate`: the best answer from the model and the noisy answers together; it lies in its interval.
    - `stddev`, the standard error of an unbiased estimate from the noisy answers, and `low` and `high`, the
      ends of its 95 % interval; null where it is not determined by what was measured (`release.accuracy`).
    - `determined`: whether it is. `rests_on`: the same in words, "noisy counts and the model" or "the model
      alone"; of a trained model, "the trained model" in its place.
    - `share_low` and `share_high`: the ends of the 95 % interval of the share of the total; null where that
      is not determined.
    - `noise_stddev` of the measurement of this exact query, null if there was none.

    The file's metadata holds `inputs`, `secure` ("true" or "false"), the `seed` of insecure noise,
    `answered_by`, and `population`: as JSON, what all counts and shares are of.
    """
    answers = _Answers(release)
    metadata = {**_mark(release.inputs, release.seed), "answered_by": release.answered_by}
    metadata[POPULATION] = json.dumps(release.population.to_dict())
    schema = answers.table([]).schema.with_metadata(metadata)
    # a dictionary of numbers that differ is work for nothing
    words = [field.name for field in schema if hasattr(field.type, "index_type")]
    with parquet.ParquetWriter(
        path, schema, compression="zstd", use_dictionary=[*words, "clique.list.element"]
    ) as writer:
        for parts in answers.blocks():
            writer.write_table(answers.table(parts).replace_schema_metadata(metadata))


def write_distances(
    distances: Sequence[NoisyDistance], path: pathlib.Path, *, inputs: Sequence[Input], seed: int | None
) -> None:
    """Write the noisy distances that an adaptive mechanism published, one row for each.

    The columns are the attributes of `release.accuracy.NoisyDistance`. The file's metadata holds their
    `inputs`, and `secure` and `seed` of their noise.
    """
    columns = {
        "clique": arrow.array([list(each.clique) for each in distances], arrow.list_(arrow.string())),
        **{name: [getattr(each, name) for each in distances] for name in _OF_DISTANCES},
    }
    table = arrow.table(columns).replace_schema_metadata(_mark(inputs, seed))
    parquet.write_table(table, path)


def read_distances(path: pathlib.Path) -> tuple[NoisyDistance, ...]:
    """Read the noisy distances of a release, () if its mechanism published none.

    Raises:
        ValueError: the file is damaged.
    """
    if not path.is_file():
        return ()
    table = read(path)
    if set(table.column_names) != {"clique", *_OF_DISTANCES}:
        raise ValueError(f"{path} is damaged, as its columns are other ones: make or copy the release again.")
    rows = table.to_pylist()
    return tuple(NoisyDistance(**{**row, "clique": tuple(row["clique"])}) for row in rows)


class _Answers:
    """The answers of a release as tables of bounded size."""

    def __init__(self, release: Any):
        self._release = release
        self._entries = release.workload.entries
        self._queries = arrow.array([_in_words(entry.query) for entry in self._entries], arrow.string())
        used = {name for entry in self._entries for name in entry.clique}
        words: dict[str, dict[str, int]] = {name: {} for name in release.domain if name in used}
        self._rows = [_numbered_rows(entry.query, release.domain, words) for entry in self._entries]
        self._words = {name: arrow.array(list(found), arrow.string()) for name, found in words.items()}

    def blocks(self) -> Iterator[list[_Part]]:
        """Consecutive answers, about `_BLOCK_ROWS` at a time."""
        measured = {(m.clique, m.query): m for m in self._release.measurements}
        block: list[_Part] = []
        for number, estimate in enumerate(self._release.answers()):
            query = self._entries[number].query
            measurement = measured.get((query.clique, query))
            noise = np.full(estimate.size, np.nan) if measurement is None else measurement.row_stddevs()
            unbiased = self._release.answered_by in ("local", "global")
            told = self._release.estimates.report(query, estimate, may_be_negative=unbiased)
            columns = (told.estimates, told.stddevs, noise, told.intervals, told.shares)
            for start in range(0, estimate.size, _BLOCK_ROWS):
                rows = slice(start, start + _BLOCK_ROWS)
                block.append(_Part(number, start, *(column[rows] for column in columns)))
                if sum(part.estimate.size for part in block) >= _BLOCK_ROWS:
                    yield block
                    block = []
        if block:
            yield block

    def table(self, parts: Sequence[_Part]) -> Any:
        """The Arrow table of some answers; words are dictionary-encoded."""
        sizes = [part.estimate.size for part in parts]
        cells = [part.start + np.arange(size) for part, size in zip(parts, sizes, strict=True)]
        entry = np.repeat(np.array([part.entry for part in parts], np.int32), sizes)
        columns = {"query": arrow.DictionaryArray.from_arrays(entry, self._queries)}
        for name, words in self._words.items():
            index = _joined(
                [self._index(part, name, cell) for part, cell in zip(parts, cells, strict=True)], np.int32
            )
            column = name
            while column in _FIXED or (column != name and column in self._words):
                column += " (attribute)"
            masked = arrow.array(index, mask=index < 0)
            columns[column] = arrow.DictionaryArray.from_arrays(masked, words)
        columns["clique"] = _cliques([self._entries[part.entry].clique for part in parts], sizes)
        columns["cell"] = _joined(cells, np.int64)
        columns["estimate"] = _joined([part.estimate for part in parts])
        numbers = {
            "stddev": [part.stddev for part in parts],
            "noise_stddev": [part.noise for part in parts],
            "low": [part.ends[:, 0] for part in parts],
            "high": [part.ends[:, 1] for part in parts],
            **{name: [part.shares[:, side] for part in parts] for side, name in enumerate(_SHARES)},
        }
        for column, found in numbers.items():
            columns[column] = arrow.array(_joined(found), from_pandas=True)
        known = ~np.isnan(_joined(numbers["stddev"]))
        columns["determined"] = arrow.array(known)
        given_by = LEARNER if self._release.answered_by == "learner" else MODEL
        words = arrow.array([rests_on(each, given_by) for each in (False, True)], arrow.string())
        columns["rests_on"] = arrow.DictionaryArray.from_arrays(known.astype(np.int32), words)
        return arrow.table(columns)

    def _index(self, part: _Part, name: str, cells: np.ndarray) -> np.ndarray:
        """The number of each answer's word for an attribute, -1 if it has none."""
        rows = self._rows[part.entry]
        if name not in rows:
            return np.full(len(cells), -1, np.int32)
        shape = [len(numbers) for numbers in rows.values()]
        return rows[name][np.unravel_index(cells, shape)[list(rows).index(name)]]


class _Part(NamedTuple):
    """Consecutive answers of a workload entry.

    Attributes:
        entry: the entry's number.
        start: the first answer's row in the query.
        estimate: [rows].
        stddev: standard errors [rows], NaN if not determined.
        noise: standard deviations of the noise [rows], NaN if the query was not measured.
        ends: of the intervals [rows, 2].
        shares: of the intervals of shares [rows, 2].
    """

    entry: int
    start: int
    estimate: np.ndarray
    stddev: np.ndarray
    noise: np.ndarray
    ends: np.ndarray
    shares: np.ndarray


def _in_words(query: Query) -> str:
    """The attributes of a query as a line of CSV, and what it asks of them unless it is a marginal."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(query.clique)
    asked = in_words(query)
    return line.getvalue() if query == marginal(query.clique) else f"{line.getvalue()} ({asked})"


def _numbered_rows(query: Query, domain: Domain, words: dict[str, dict[str, int]]) -> dict[str, np.ndarray]:
    """The number of each row's word, -1 without one, for each attribute of a product; new words are added.

    The words of an attribute begin with the names of its codes, in their order.
    """
    if not isinstance(query, Product):
        return {}
    found = {}
    for name, block in zip(query.clique, query.blocks, strict=True):
        rows, known = block.rows(domain[name]), words[name]
        found[name] = np.full(rows, -1, np.int32)
        if max(rows, domain[name]) <= _MOST_WORDS:
            names = domain.attribute(name).code_names()
            for each in names:
                known.setdefault(each, len(known))
            for row, word in enumerate(row_names(block, names)):
                if word is not None:
                    found[name][row] = known.setdefault(word, len(known))
    return found


def read(path: pathlib.Path) -> Any:
    """Read a Parquet file of a release as an Arrow table.

    Raises:
        ValueError: the file is missing or damaged, or holds more than fits in memory.
    """
    if not path.is_file():
        raise ValueError(f"There is no {path}, so the release is incomplete: make or copy it again.")
    try:
        _require_memory(path, parquet.read_metadata(path))
        return parquet.read_table(path)
    except (arrow.ArrowException, OSError) as error:
        raise ValueError(
            f"{path} is damaged, as it cannot be read as Parquet: make or copy the release again."
        ) from error


def _require_memory(path: pathlib.Path, metadata: Any) -> None:
    """Refuse more values than fit in memory, however few bytes they are packed into."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    columns = [group.column(place) for group in groups for place in range(group.num_columns)]
    needed = sum(max(each.total_uncompressed_size, _VALUE_BYTES * each.num_values) for each in columns)
    if needed > (free := available_bytes()):
        raise ValueError(
            f"{path} holds {readable_bytes(needed)} or more, and only {readable_bytes(free)} of "
            "memory are free."
        )


def _mark(inputs: Sequence[Input], seed: int | None, secure: bool | None = None) -> dict[str, str]:
    """Metadata on what was paid for, and whether its noise was secure, if anything is known of that."""
    mark = inputs_marks(inputs, secure)
    return mark if seed is None or "secure" not in mark else {**mark, "seed": str(seed)}


def _joined(parts: Iterable[np.ndarray], dtype: Any = np.float64) -> np.ndarray:
    parts = list(parts)
    return np.concatenate(parts).astype(dtype) if parts else np.zeros(0, dtype=dtype)


def _scales(measurements: Sequence[LinearMeasurement]) -> list[np.ndarray]:
    """The noise scale of each row of each measurement, NaN if its distribution is unknown."""
    return [
        np.full(m.values.size, np.nan if m.distribution is None else m.distribution.scale)
        for m in measurements
    ]


def _which(sizes: Sequence[int]) -> np.ndarray:
    """The index of the entry of each table row."""
    return np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)


def _cliques(cliques: Sequence[Clique], sizes: Sequence[int]) -> Any:
    """A column of attribute lists: `cliques[i]` repeated `sizes[i]` times."""
    return arrow.array([list(clique) for clique in cliques], arrow.list_(arrow.string())).take(_which(sizes))
