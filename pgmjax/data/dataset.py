"""A table of records, and its exact marginals: the private side of the library."""

from __future__ import annotations

import copy
import functools
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.memory import available_bytes
from pgmjax._internal.migration import Named, instead
from pgmjax.data import arrow as source_arrow
from pgmjax.data import files, fingerprint
from pgmjax.data.bounding import BoundedSource, UnitRecords, records_of
from pgmjax.data.counting import Histograms
from pgmjax.data.definition import TableDefinition, check_rows_outside, coder_of
from pgmjax.data.domain import Domain, as_clique, as_cliques, as_domain
from pgmjax.data.encoding import Coder, Encoded
from pgmjax.data.population import Population
from pgmjax.data.relation import Unit, check_unit
from pgmjax.data.sources import (
    LARGEST_TOTAL,
    WEIGHTS,
    Batch,
    ColumnSource,
    RecodedSource,
    ScanTally,
    Source,
    TableChangedError,
    code_tables,
    kept_rows,
    weight_coder,
    without_rows_outside,
)
from pgmjax.data.text_file import positions_of
from pgmjax.data.value import places_of

_COUNTS = ("n", "count", "counts", "size", "freq", "frequency", "weight", "weights", "perwt", "pwgtp")
"""Names of columns that often say how many records a row stands for."""


class Dataset(Named):
    """The records of a private table, over a public domain.

    Construct one with `from_columns`, `from_frame` or `read`. Its methods return exact, private
    values, which must not be shown or released without noise.

    Every record is checked against the domain before any count is returned: at once for a table in
    memory, during the first scan for a table in files.

    Attributes:
        domain: the domain of the records.
        max_weight: public bound on the weight of a record; 1 without weights.
        weighted: whether records have weights.
        rows_outside: what happens to rows outside the domain; None: they are refused. See
            `data.definition.TableDefinition`.
        registered: whether the table's holder has checked every record, so that no one checks it again.
        unit: the unit of privacy, of whose records a bounded number count; None for one row.

    Example:
        >>> domain = Domain({"age": 3, "sex": 2})
        >>> data = Dataset.from_columns(domain, {"age": [0, 2, 2], "sex": [1, 1, 0]})
        >>> data.marginals([("sex", "age")])[0].tolist()
        [[0, 0, 1], [1, 0, 1]]
    """

    rows_outside: str | None = None
    registered = False
    _stamp: tuple[Any, ...] | None = None  # of the files, when the table was first looked at
    _unit: Unit | None = None  # of records that are bounded already
    _beyond: np.ndarray | None = None  # the numbers of records that this left out of units

    def __init__(
        self,
        domain: Domain,
        source: Source,
        max_weight: int | None,
        total: int | None = None,
        rows_outside: str | None = None,
        registered: bool = False,
    ):
        self.domain = domain
        self.rows_outside = rows_outside
        self.registered = registered
        self.weighted = max_weight is not None
        self.max_weight = 1 if max_weight is None else max_weight
        self._source = source
        self._total = total

    __getitem__ = instead(
        "A dataset gives no column back, as it is private: dataset.marginals([('age', 'sex')]) are its exact "
        "counts, which are private too. What it may hold is in dataset.domain."
    )
    __iter__ = None
    __len__ = instead("A dataset has no length: dataset.count() is its number of records, which is private.")

    def __bool__(self) -> bool:
        return True

    @property
    def unit(self) -> Unit | None:
        """The unit of privacy, None for one row. Records of it beyond the bound are never counted."""
        bounded = self._bounded
        return self._unit if bounded is None else bounded.unit

    @property
    def _bounded(self) -> BoundedSource | None:
        source = self._source
        while isinstance(source, RecodedSource):
            source = source._source
        return source if isinstance(source, BoundedSource) else None

    @property
    def population(self) -> Population:
        """The records that its counts are of, by what is public alone."""
        return self._source.population.over(self.domain)

    def chosen_by(self, key: bytes) -> Dataset:
        """Return the same records with the choice, among those of a unit with too many, that a key makes.

        Args:
            key: a secret, at least 16 bytes; a run and its resumption use one.
        """
        if self.unit is None or not isinstance(self._source, (BoundedSource, RecodedSource)):
            return self
        dataset = self._with(self._source.with_key(key), self.domain)
        # another choice leaves other records, of another total
        dataset._total = None
        return dataset

    @classmethod
    def from_columns(
        cls,
        domain: Domain,
        columns: Mapping[str, Any],
        *,
        weights: Any = None,
        max_weight: int | None = None,
        rows_outside: str | None = None,
        unit: Unit | None = None,
    ) -> Dataset:
        """Make a dataset from columns of integer codes.

        Args:
            domain: the domain of the records.
            columns: codes [rows] by attribute, integers in 0..size-1. Columns that are not in the
                domain are ignored.
            weights: non-negative integer weights of the records [rows].
            max_weight: the largest weight a record may have, chosen without looking at the table.
            rows_outside: what happens to a record with a value outside the domain: "clip", "missing" or
                "drop", see `data.definition.TableDefinition`; None refuses the table.
            unit: the unit of privacy, whose column is one of `columns` with values of any kind; None: one
                row.

        Raises:
            TypeError: codes or weights are not integers.
            ValueError: a column is missing, columns differ in length, there is no record, or a code
                or weight is out of range.
        """
        domain = as_domain(domain, "Dataset.from_columns(domain, columns)", columns)
        checks.kind(columns, Mapping, "columns must be a mapping from name to codes", _of_columns(columns))
        bound = _weight_bound(weights, max_weight)
        clip = check_rows_outside(rows_outside) == "clip"
        encoded = {}
        for name in domain:
            if name not in columns:
                raise ValueError(f"There is no column for the attribute {name!r} of the domain.")
            attribute, codes = domain.attribute(name), _integers(f"Column {name!r}", columns[name])
            encoded[name] = Coder(attribute.size, clip=clip).encode_numbers(codes)
            outside = encoded[name].outside if rows_outside is None else 0
            if outside and (attribute.labels or attribute.bins):
                raise ValueError(
                    f"Column {name!r} must hold codes, 0..{attribute.size - 1}, and "
                    f"{checks.counted(outside, 'row has another', 'rows have others')}: values go to "
                    "Dataset.from_frame(domain, frame). From codes from 1 subtract 1."
                )
        if bound is not None:
            encoded[WEIGHTS] = weight_coder(bound, clip).encode_numbers(_integers("weights", weights))
        lengths = {len(column.codes) for column in encoded.values()}
        if len(lengths) != 1:
            first = next(iter(encoded))
            other = [n for n, c in encoded.items() if n and len(c.codes) != len(encoded[first].codes)]
            raise ValueError(
                f"Columns (and weights) must have equally many rows, got {sorted(lengths)}: correct "
                f"{', '.join(map(repr, other)) or 'the weights'} or {first!r}."
            )
        content = None
        if set(columns) != set(domain):
            free = next(n for k in itertools.count(1) if (n := "\n" * k + "weights") not in columns)
            others = {free: weights} if bound is not None else {}
            content = fingerprint.content(
                {n: [*fingerprint.pieces_of(v)] for n, v in {**columns, **others}.items()}
            )
        bounded, unit = None, check_unit(unit, domain)
        if unit is not None:
            if unit.column not in columns:
                raise ValueError(f"There is no column {unit.column!r}, which names the unit of privacy.")
            if len(columns[unit.column]) not in lengths:
                raise ValueError(
                    f"The column {unit.column!r} of the unit must have as many rows as the others."
                )
            bounded = (unit, records_of(columns[unit.column]))
        named = None if bound is None else (None, bound)
        return cls._in_memory(domain, encoded, named, rows_outside, content, bounded, coded=True)

    @classmethod
    def from_frame(
        cls,
        domain: Domain,
        frame: Any,
        *,
        weights: str | None = None,
        max_weight: int | None = None,
        rows_outside: str | None = None,
        unit: Unit | None = None,
    ) -> Dataset:
        """Make a dataset from a pandas or polars DataFrame, an Arrow table or a relation of DuckDB.

        Args:
            domain: the domain of the records, which defines how raw values are encoded.
            frame: the table. Columns that are not in the domain are ignored.
            weights: the name of a column of non-negative integer weights.
            max_weight: the largest weight a record may have, chosen without looking at the table.
            rows_outside: what happens to a record with a value outside the domain: "clip", "missing" or
                "drop", see `data.definition.TableDefinition`; None refuses the table.
            unit: the unit of privacy, None for one row.

        Raises:
            TypeError: `frame` is not a table, or a column has a type that its attribute does not accept.
            ValueError: a column is missing or occurs twice, there is no record, or values or weights
                are out of range.
        """
        domain = as_domain(domain, "Dataset.from_frame(domain, frame)", frame)
        named = _weights(domain, weights, max_weight)
        frame = source_arrow.as_frame(frame)
        names = source_arrow.column_names(frame)
        if weights is not None and not places_of(weights, names):
            raise ValueError(
                f"weights names {weights!r}, and the frame has no such column: correct the argument."
            )
        if weights is None and (counts := [name for name in names if name in _COUNTS and name not in domain]):
            checks.warn(
                f"The column {counts[0]!r} is not in the domain and is left out, so that each row counts "
                f"once: if it says how many records a row stands for, give weights={counts[0]!r} and "
                "max_weight."
            )
        check_rows_outside(rows_outside)
        coders = {name: coder_of(domain.attribute(name), rows_outside) for name in domain}
        if named is not None:
            coders[named[0]] = weight_coder(named[1], rows_outside == "clip")
        encoded = {}
        inside = [each for each in getattr(getattr(frame, "index", None), "names", ()) if each is not None]
        if any(name in inside and name not in names for name in coders):
            raise ValueError(
                f"The index of the frame has {', '.join(map(repr, inside))}, and not its columns: give "
                "frame.reset_index()."
            )
        for name, place in positions_of("The table", list(coders), names).items():
            try:
                encoded[name] = source_arrow.encode_column(frame, place, coders[name])
            except TypeError as error:
                raise TypeError(f"Column {name!r}: {error}.") from None
        if named is not None:
            encoded[WEIGHTS] = encoded.pop(named[0])
        content = source_arrow.content(frame)
        bounded, unit = None, check_unit(unit, domain, weights)
        if unit is not None:
            remedy = ", which Unit names: correct the name there"
            place = positions_of("The table", [unit.column], names, remedy)[unit.column]
            declared = source_arrow.declared_types(frame)[names[place]] is not None
            bounded = (unit, records_of(source_arrow.column_of(frame, place), declared))
        return cls._in_memory(domain, encoded, named, rows_outside, content, bounded, coded=False)

    @classmethod
    def read(
        cls,
        path: str | os.PathLike[str],
        domain: Domain,
        *,
        header: bool = True,
        weights: str | None = None,
        max_weight: int | None = None,
        rows_outside: str | None = None,
        unit: Unit | None = None,
        encoding: str | None = None,
    ) -> Dataset:
        """Open a table in files of any size. Records are read when counts are requested.

        Args:
            path: a .parquet file or a folder of them; a .csv, .tsv, .data or .txt file, or one of these
                compressed as .gz; an .xlsx file, whose first sheet is read; or a .npy file of integer codes
                [rows, attributes], with columns in the domain's order. In text files, white space around
                fields is dropped, an empty field is a missing value, and a blank line is a record where there
                is one column only.
            domain: the domain of the records. Columns are found by name; others are ignored.
            header: (text) whether the first line names the columns. Otherwise the columns must be in
                the domain's order.
            weights: the name of a column of non-negative integer weights.
            max_weight: the largest weight a record may have, chosen without looking at the table.
            rows_outside: what happens to a record with a value outside the domain: "clip", "missing" or
                "drop", see `data.definition.TableDefinition`; None refuses the table.
            unit: the unit of privacy, whose column the file has; None: one row.
            encoding: (text) such as "cp1252"; None: UTF-8, or UTF-16 if the file begins with a byte-order
                mark of that. For the time of each scan, a file that is not plain UTF-8 text below one line of
                names (and an .xlsx file) is copied as such to a temporary file that only its owner can read.

        Raises:
            FileNotFoundError: there is no such file.
            ImportError: DuckDB, or openpyxl for an .xlsx file, is not installed.
            TypeError: a column of a Parquet file has a type that its attribute, or a unit, does not accept.
            ValueError: the kind of file is not supported, a column is missing or occurs twice, or there is
                no such encoding.
        """
        domain = as_domain(domain, "Dataset.read(path, domain)", path)
        if not isinstance(path, str | os.PathLike):
            also = ": write Dataset.from_frame(domain, frame)" if hasattr(path, "columns") else ""
            if isinstance(path, list | tuple):
                also = ": put the files of one table together, such as Parquet files in a folder of their own"
            raise TypeError(f"path must be the name of a file or folder, got {type(path).__name__}{also}.")
        checks.kind(header, bool, "header must be True, if the first line names the columns, or False")
        named = _weights(domain, weights, max_weight)
        source: Source = files.open_files(
            path, domain, header, named, check_rows_outside(rows_outside), encoding
        )
        if isinstance(source, files.FileSource):
            source.check_types()
        unit = check_unit(unit, domain, weights)
        if unit is not None:
            if not isinstance(source, files.FileSource):
                raise ValueError("A .npy file has codes only and no column that names a unit: leave it out.")
            files.unit_column(source, unit.column)
            source = BoundedSource(source, unit, functools.partial(source.unit_records, unit.column))
        return cls(domain, source, named and named[1], rows_outside=rows_outside)

    @classmethod
    def _in_memory(
        cls,
        domain: Domain,
        encoded: dict[str, Encoded],
        weight_bound: tuple[str | None, int] | None,
        rows_outside: str | None,
        content: bytes | None,
        bounded: tuple[Unit, UnitRecords] | None,
        coded: bool,
    ) -> Dataset:
        bound = weight_bound and weight_bound[1]
        tally = ScanTally(domain, bound or 1)
        batch = Batch(encoded, len(next(iter(encoded.values())).codes))
        rows = np.arange(batch.rows)
        if rows_outside == "drop":
            # numbered before rows are dropped: units are told by the places of records as they were given
            rows = rows[kept_rows(batch)]
        batch = without_rows_outside(batch, domain, rows_outside)
        tally.add(batch)
        tally.check(rows_outside)
        columns = {name: column.codes for name, column in batch.columns.items()}
        population = Population.of_table(domain, rows_outside, bound, coded=coded)
        source = ColumnSource(columns, domain, population, weight_bound, content, batch.dropped)
        if bounded is None:
            return cls(domain, source, bound, tally.total, rows_outside)
        unit, records = bounded
        limited = BoundedSource(source, unit, lambda most: [records], rows=rows)
        return cls(domain, limited, bound, None, rows_outside)

    def recode(self, domain: Domain, codes: Mapping[str, Any]) -> Dataset:
        """Return the same records over another domain, such as a compressed one. Still private.

        Each record becomes one record of the same weight, so that neighbouring tables stay neighbours. A
        release from the result therefore has the same guarantee for this table. A ledger recognises the
        result as this table and charges the same account. Records are mapped when they are read.

        Args:
            domain: a domain with the same attributes. Like any domain it must not depend on the table,
                except through released values (see `pgmjax.Compression`).
            codes: new code of each old code [old size], by attribute. Other attributes keep their codes.

        Raises:
            TypeError: codes are not integers.
            ValueError: the attributes differ, or codes do not fit the sizes.

        Example:
            >>> data = Dataset.from_columns(Domain({"age": 3}), {"age": [0, 2, 2, 1]})
            >>> data.recode(Domain({"age": 2}), {"age": [0, 1, 1]}).marginals([("age",)])[0].tolist()
            [1, 3]
        """
        tables = code_tables(self.domain, domain, codes)
        source = RecodedSource(self._source, tables)
        return self._with(source, domain)

    def validate(self) -> None:
        """Check every record against the domain, if that has not been done.

        Raises:
            TypeError: a column has a type that its attribute does not accept.
            ValueError: records do not fit the domain. The message counts them by attribute and shows no
                value.
        """
        if self._total is None and not self.registered:
            # from here on it is this table: a digest is not to be of another one
            self._stamp = self._source.stamp() if self._stamp is None else self._stamp
            self.count()

    def under(self, definition: TableDefinition) -> Dataset:
        """Return the same records as the table's holder defined them, in this dataset's codes. Private.

        A table in files is read by the definition's domain, and its codes are merged into this one's; one
        in memory stays as it is. Nothing is read here.

        Args:
            definition: the holder's, of a table all of whose records it settles.

        Raises:
            ValueError: this dataset's domain or weights do not follow from the definition's; the message
                does not depend on the records.
        """
        held = self.of_unit(definition.unit)
        dataset = held._with(held._source.under(definition), self.domain)
        dataset.rows_outside, dataset.registered = definition.rows_outside, True
        return dataset

    def of_unit(self, unit: Unit | None) -> Dataset:
        """Return the same records under their holder's unit of privacy, which need not be named to ask.

        Args:
            unit: the holder's, of the whole table.

        Raises:
            ValueError: the table was opened with another unit, or with none where no file has the column.
        """
        if unit == self.unit:
            return self
        source = self._source
        stored = source._source if isinstance(source, RecodedSource) else source
        if unit is None or self.unit is not None or not isinstance(stored, files.FileSource):
            said, held = (
                f"{each.max_records} records of one {each.column}" if each else "one record"
                for each in (self.unit, unit)
            )
            remedy = (
                "without unit"
                if unit is None
                else f"with unit=Unit({unit.column!r}, {unit.max_records}) (--max-records {unit.max_records})"
            )
            raise ValueError(
                f"The account of this table protects {held}, and the table was opened to protect {said}: "
                f"open it {remedy}. Nothing was spent."
            )
        check_unit(unit, self.domain, stored.weight_bound[0] if stored.weight_bound else None)
        bounded: Source = BoundedSource(stored, unit, functools.partial(stored.unit_records, unit.column))
        if isinstance(source, RecodedSource):
            bounded = source.over(bounded)
        dataset = self._with(bounded, self.domain)
        dataset._total = None
        return dataset

    @property
    def in_memory(self) -> bool:
        """True if the records are in memory, so that they cannot change behind the dataset."""
        return isinstance(self._source, ColumnSource)

    def snapshot(self) -> Dataset:
        """Return the records as they are now, checked, and in memory if a quarter of it holds them. Private.

        If they are too many, the files are read again whenever counts are asked for, and must not change.

        Raises:
            TypeError, ValueError: see `validate`.
            TableChangedError: the files changed while they were read, or since the fingerprint was taken.
        """
        if isinstance(self._source, ColumnSource):
            self.validate()
            return self
        before = self._source.stamp() if self._stamp is None else self._stamp
        tally = ScanTally(self.domain, self.max_weight)
        parts: list[Batch] | None = []
        # a quarter: the batches, and the columns that are joined from them, are in memory together
        room = available_bytes() // 4
        for batch in self._source.batches(self.domain.attributes, ordered=True):
            if tally.add(batch) and parts is not None:
                parts.append(batch)
                room -= batch.bytes
                parts = parts if room >= 0 else None
        # first, as faults in files that changed meanwhile may be of neither table
        self._check_unchanged(before)
        tally.check(self.rows_outside, self._may_be_empty)
        source = self._source if parts is None else self._collected(parts, tally.dropped)
        dataset = self._with(source, self.domain)
        dataset._unit = self.unit
        dataset._beyond = None if self._bounded is None else self._bounded.beyond()
        # records in memory no longer depend on the files
        dataset._total, dataset._stamp = tally.total, None if parts is not None else before
        return dataset

    def _collected(self, parts: list[Batch], dropped: int) -> ColumnSource:
        names = [*self.domain, *([WEIGHTS] if self.weighted else [])]
        columns = {name: np.concatenate([part.columns[name].codes for part in parts]) for name in names}
        bound = (None, self.max_weight) if self.weighted else None
        return ColumnSource(columns, self.domain, self.population, bound, dropped=dropped)

    def _check_unchanged(self, stamp: tuple[Any, ...] | None) -> None:
        if stamp is not None and self._source.stamp() != stamp:
            raise TableChangedError(
                "The files of the table changed while a run was reading them: its answers would be of two "
                "tables, so none of this reading was shown. Put the table back, or register the new one."
            )

    def _with(self, source: Source, domain: Domain) -> Dataset:
        """Return a dataset of the same kind with another source."""
        dataset = copy.copy(self)
        dataset._source, dataset.domain = source, domain
        return dataset

    @property
    def _may_be_empty(self) -> bool:
        """True if there may be nothing but dropped records, which no error may tell whoever only asks."""
        return self.rows_outside == "drop" and (self.unit is not None or self.registered)

    def count(self) -> int:
        """Return the exact number of records, or their total weight. Private."""
        if self._total is None:
            return self._scan(None, self.domain.attributes).total
        return self._total

    def left_out(self) -> tuple[int, np.ndarray]:
        """Return how many records are left out, for a value and of units. Private.

        Returns:
            The number of records that were dropped for a value outside the domain, of those within the bound
            of their unit; and how many records are beyond it, of each unit that has any [units].

        Raises:
            ValueError: records do not fit the domain (see `validate`).
        """
        tally = self._scan(None, self.domain.attributes)
        bounded, beyond = self._bounded, self._beyond
        if beyond is None:
            beyond = np.zeros(0, np.int64) if bounded is None else bounded.beyond()
        return tally.dropped, beyond

    def marginals(self, cliques: Iterable[Sequence[str]]) -> list[np.ndarray]:
        """Return the exact counts over every clique, in one scan of the table. Private.

        Args:
            cliques: lists of attribute names.

        Returns:
            For every clique the counts or total weights, int64, of shape `domain.shape_of(clique)`.

        Raises:
            TypeError: a clique is not a list of names.
            ValueError: a clique is empty, repeats an attribute or names an unknown one; the counts
                exceed the available memory; or records do not fit the domain (see `validate`).
        """
        wanted = as_cliques(self.domain, cliques)
        if not wanted:
            return []
        histograms = Histograms(self.domain, wanted)
        self._scan(histograms, self.domain.attributes if self._total is None else histograms.attributes)
        return histograms.marginals()

    @property
    def layout(self) -> dict[str, str]:
        """The file's columns by attribute, with key "" for the weights; empty if in memory. Public."""
        return self._source.layout

    @property
    def reading(self) -> dict[str, Any]:
        """The files by name, their form, and which of their records count, for JSON. Public."""
        return {**self._source.reading, "population": self.population.facts()}

    def fingerprint(self, key: bytes) -> str:
        """Return a keyed digest that identifies the table. It reveals nothing without the key.

        The digest of a table in files is over the files' bytes; in memory it is over names, codes and
        weights. The same records in another form have a different digest.

        Args:
            key: a secret, at least 16 bytes; see `privacy.Ledger`.
        """
        return self._source.fingerprint(key)

    def as_old_as(self, other: Dataset) -> Dataset:
        """Return the records, whose files must still be as they were when another dataset of them was opened.

        Args:
            other: the same records over other attributes. If nobody has looked at its files, they are now.
        """
        if other._stamp is None:
            other._stamp = other._source.stamp()
        source, like = self._source, other._source
        if isinstance(source, BoundedSource) and isinstance(like, BoundedSource) and source.unit == like.unit:
            source.sharing(like)
        dataset = self._with(source, self.domain)
        dataset._stamp = other._stamp
        return dataset

    def identity(self, key: bytes) -> str:
        """Return a keyed digest of the whole table, by which a ledger recognises it.

        It is that of `fingerprint`, except that of a table in memory it covers all columns that the table
        was given with, those outside the domain too. Files that change afterwards are noticed when they are
        read.

        Args:
            key: a secret, at least 16 bytes; see `privacy.Ledger`.
        """
        if self._stamp is None:
            self._stamp = self._source.stamp()
        digest = self._source.identity(key)
        self._check_unchanged(self._stamp)
        return digest

    def records(self, names: Sequence[str]) -> Iterator[dict[str, np.ndarray]]:
        """Yield codes [rows] by attribute, batch by batch, in the order of the table. Private.

        Args:
            names: attributes.

        Raises:
            ValueError: a batch has a record that does not fit the domain. That batch is not yielded.
        """
        tally = ScanTally(self.domain, self.max_weight)
        for batch in self._source.batches(as_clique(self.domain, names), ordered=True):
            if not tally.add(batch):
                tally.check(self.rows_outside)
            yield {name: encoded.codes for name, encoded in batch.columns.items() if name != WEIGHTS}
        self._check_unchanged(self._stamp)

    def _scan(self, histograms: Histograms | None, names: Sequence[str]) -> ScanTally:
        """Count records in one pass, and check those of some attributes."""
        tally = ScanTally(self.domain, self.max_weight)
        for batch in self._source.batches(names):
            # once a record does not fit, the remaining batches are checked but not counted
            if tally.add(batch) and histograms is not None:
                columns = {name: batch.columns[name].codes for name in histograms.attributes}
                histograms.add(columns, batch.weights)
        self._check_unchanged(self._stamp)
        tally.check(self.rows_outside, self._may_be_empty)
        self._total = tally.total
        return tally

    def __repr__(self) -> str:
        weighted = f", max_weight={self.max_weight}" if self.weighted else ""
        return f"Dataset({self.domain!r}{weighted})"


def _of_columns(columns: Any) -> str:
    """Return what to write for columns that are no mapping of names to codes."""
    if isinstance(columns, list) and not any(isinstance(each, Mapping) for each in columns[:1]):
        return "write dict(zip(domain, columns)) for a list of columns of codes"
    made = "pandas.DataFrame(records)" if isinstance(columns, list) else "frame"
    return f"write Dataset.from_frame(domain, {made})"


def _weight_bound(weights: Any, max_weight: int | None) -> int | None:
    if weights is None:
        if max_weight is not None:
            raise ValueError("max_weight is given without weights: leave it out, or name the weights.")
        return None
    if max_weight is None:
        raise ValueError(
            "weights need max_weight, the largest weight that a record may have: choose it without "
            "looking at the table, since the noise will depend on it."
        )
    return checks.integer("max_weight", max_weight, low=1, high=LARGEST_TOTAL - 1)


def _weights(domain: Domain, weights: Any, max_weight: int | None) -> tuple[str, int] | None:
    """Return the name of the column of weights and the largest weight; None without weights."""
    then = "write frame.assign(w=weights) and weights='w'"
    checks.kind(weights, str | None, "weights must be the name of a column", then)
    if weights in domain:
        raise ValueError(f"weights names {weights!r}, which is an attribute of the domain.")
    bound = _weight_bound(weights, max_weight)
    return None if bound is None else (weights, bound)


def _integers(said: str, values: Any) -> np.ndarray:
    """Return values [rows] as a new array, after checking that they have an integer type."""
    masked = isinstance(values, np.ma.MaskedArray)
    try:
        array = None if masked or isinstance(values, str) else np.array(values)
    except (TypeError, ValueError):
        array = None
    if array is not None and array.ndim == 1 and not array.size:
        raise ValueError(f"{said} is empty: the table must hold at least one record.")
    if array is None or array.ndim != 1:
        shape = "" if array is None else f", got shape {array.shape}"
        raise ValueError(f"{said} must be one-dimensional integers without gaps{shape}.")
    if array.dtype.kind not in "iu":
        encoded = "values take Dataset.from_frame(domain, pandas.DataFrame(columns))"
        whole = "multiply fractions by 10 or 100, round them, and raise max_weight as much"
        remedy = whole if said == "weights" else encoded
        kind = {"U": "texts", "f": "numbers with fractions or gaps"}.get(array.dtype.kind, str(array.dtype))
        raise TypeError(f"{said} must hold whole numbers 0, 1, ..., got {kind}: {remedy}.")
    return array
