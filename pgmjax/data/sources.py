"""Sources of records, through which all tables are read as batches of codes.

`ColumnSource` holds columns in memory; `RecodedSource` maps another source's codes, batch by batch, to those
of another domain. Sources of files are in `data.files`. `ScanTally` counts what a scan has seen;
`without_rows_outside` settles what becomes of records that do not fit.
"""

from __future__ import annotations

import abc
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.checks import Error
from pgmjax.data import fingerprint
from pgmjax.data.definition import TableDefinition
from pgmjax.data.domain import Domain
from pgmjax.data.encoding import Coder, Encoded, checked_codes, code_dtype
from pgmjax.data.population import Population

WEIGHTS = ""
"""The name of weights among the columns of a table, which no attribute has."""
BATCH_ROWS = 1 << 17
LARGEST_TOTAL = 1 << 53


@dataclass(frozen=True)
class Batch:
    """A batch of records.

    Attributes:
        columns: codes [rows] and the number of rows without one, by requested attribute; the weights, if
            there are some, as those of `WEIGHTS`.
        rows: the number of records.
        dropped: the number of records that were dropped from it, for a value outside the domain.
    """

    columns: dict[str, Encoded]
    rows: int
    dropped: int = 0

    @property
    def bytes(self) -> int:
        """The memory that the codes and weights take, in bytes."""
        return sum(part.codes.nbytes for part in self.columns.values())

    @property
    def weights(self) -> np.ndarray | None:
        """The weights [rows], None without."""
        return self.columns[WEIGHTS].codes if WEIGHTS in self.columns else None

    def without(self, places: np.ndarray) -> Batch:
        """Return the batch without the records at some places [n]."""
        if not len(places):
            return self
        keep = np.ones(self.rows, dtype=bool)
        keep[places] = False
        return self.only(keep)

    def only(self, keep: np.ndarray) -> Batch:
        """Return the records of a mask [rows]."""
        columns = {name: encoded.only(keep) for name, encoded in self.columns.items()}
        return replace(self, columns=columns, rows=int(np.count_nonzero(keep)))


class TableChangedError(Error, RuntimeError):
    """The files of a table changed between two readings that had to be of one table."""


class Source(abc.ABC):
    """A source of batches of codes that can be scanned repeatedly; what it need not say is that of memory."""

    @abc.abstractmethod
    def unsettled(self, names: Sequence[str], ordered: bool = False) -> Iterator[Batch]:
        """Yield batches with every record as it lies there, those outside the domain too."""

    def settled(self, batch: Batch, names: Sequence[str]) -> Batch:
        """Return an unsettled batch, or a part of one, as `batches` yields it."""
        return batch

    def batches(self, names: Sequence[str], ordered: bool = False) -> Iterator[Batch]:
        """Yield all records in batches, with the named attributes; in the table's order if `ordered`."""
        for batch in self.unsettled(names, ordered):
            yield self.settled(batch, names)

    @abc.abstractmethod
    def fingerprint(self, key: bytes) -> str:
        """Return a keyed digest of the records as stored; in memory of the domain's columns alone."""

    def identity(self, key: bytes) -> str:
        """Return a keyed digest of the whole table, by which a ledger recognises it."""
        return self.fingerprint(key)

    def stamp(self) -> tuple[Any, ...]:
        """Return marks of the files that change when they do; empty in memory."""
        return ()

    @abc.abstractmethod
    def under(self, definition: TableDefinition) -> Source:
        """Return the same records, encoded as the table's holder defined it, in this source's codes.

        Raises:
            ValueError: codes or weights that do not follow from the definition's.
        """

    @property
    def layout(self) -> dict[str, str]:
        """The stored columns by attribute, with key "" for the weights; empty in memory."""
        return {}

    @property
    @abc.abstractmethod
    def population(self) -> Population:
        """The records that count, by public facts alone."""

    @property
    def reading(self) -> dict[str, Any]:
        """The files by name and how they are read, for JSON; empty in memory."""
        return {}


@dataclass(frozen=True, eq=False)
class ColumnSource(Source):
    """Columns of codes held in memory.

    Attributes:
        columns: valid codes [rows] by attribute, and the weights, if there are some, as those of `WEIGHTS`.
        domain: of the codes.
        public: the population that they are of.
        weight_bound: name (None if it has none) and bound of the weights.
        content: digest of everything that the table was given as, see `fingerprint.content`; None if that was
            these columns alone.
        dropped: number of records of the table that are not among them, for a value outside the domain.
    """

    columns: dict[str, np.ndarray]
    domain: Domain
    public: Population
    weight_bound: tuple[str | None, int] | None = None
    content: bytes | None = None
    dropped: int = 0

    def unsettled(self, names: Sequence[str], ordered: bool = False) -> Iterator[Batch]:
        """Yield all records in batches, always in order, with the named attributes."""
        rows = len(next(iter(self.columns.values())))
        wanted = [*names, *({WEIGHTS} & self.columns.keys())]
        for start in range(0, max(rows, 1), BATCH_ROWS):
            part = slice(start, min(start + BATCH_ROWS, rows))
            columns = {name: Encoded(self.columns[name][part]) for name in wanted}
            # once in all, with the first batch
            yield Batch(columns, part.stop - start, 0 if start else self.dropped)

    @property
    def population(self) -> Population:
        """The records that they are of."""
        return self.public

    def fingerprint(self, key: bytes) -> str:
        """Return a keyed digest of names, codes and weights."""
        return fingerprint.of_columns(self.columns, key)

    def identity(self, key: bytes) -> str:
        """Return a keyed digest of all columns that the table was given with."""
        return self.fingerprint(key) if self.content is None else fingerprint.of_content(self.content, key)

    def under(self, definition: TableDefinition) -> ColumnSource:
        """Return this source, if its codes and weights follow from the definition's."""
        definition.tables(self.domain)
        if self.weight_bound is not None:
            definition.check_weights(*self.weight_bound)
        return self


def weight_coder(max_weight: int, clip: bool = False) -> Coder:
    """Return the encoder of a column of weights: the integers 0..max_weight are their own codes."""
    return Coder(max_weight + 1, clip=clip)


@dataclass
class ScanTally:
    """Totals of a scan: records, their weight, those that were dropped, and rows without a code.

    Args:
        domain: the domain of the records.
        max_weight: the largest allowed weight.
    """

    domain: Domain
    max_weight: int
    rows: int = 0
    total: int = 0
    dropped: int = 0
    _problems: dict[str, list[Encoded]] = field(default_factory=dict)

    def add(self, batch: Batch) -> bool:
        """Add a batch. Returns whether every record so far is valid."""
        self.rows += batch.rows
        self.dropped += batch.dropped
        for name, encoded in batch.columns.items():
            if encoded.lacking:  # the numbers alone
                self._problems.setdefault(name, []).append(encoded.only(np.zeros(0, np.intp)))
        self.total += batch.rows if batch.weights is None else _exact_sum(batch.weights)
        return not self._problems and self.total < LARGEST_TOTAL

    def _remedy(self, problems: Mapping[str, Encoded], rows_outside: str | None) -> str:
        """Return what to do about records that have no code, of what would help all of them."""
        if rows_outside is not None:
            why = {
                "clip": ": it is for numbers beyond the ends of bins and ranges",
                "missing": ": it needs `missing: true` in the entry",
            }
            said = f'rows_outside "{rows_outside}" has no place for these{why.get(rows_outside, "")}.'
            return (
                f'{said} Correct the domain or the table. Such records are left out by rows_outside "drop".'
            )
        where = [(self.domain.attribute(name), each) for name, each in problems.items() if name != WEIGHTS]
        clip = all(one.labels is None and not (each.missing or each.unreadable) for one, each in where)
        missing = all(one.missing for one, _ in where) and WEIGHTS not in problems
        every = any(each.lacking >= self.rows for each in problems.values())
        able = ['"clip"'] * clip + ['"missing"'] * missing + ['"drop"'] * (not every)
        wrong = "the domain or the table" if where else "the column of weights"
        ways = " or ".join([*filter(None, [", ".join(able[:-1])]), *able[-1:]])
        choice = f", or say what happens to such records: rows_outside {ways}" if able else ""
        alone = "; it is for whole numbers beyond the bound, not for fractions" if clip and not where else ""
        return f"Correct {wrong}{choice}{alone}."

    def check(self, rows_outside: str | None = None, may_be_empty: bool = False) -> None:
        """Raise if there is no record, or one that is not valid; all problems in one message.

        Args:
            rows_outside: what happened to rows outside the domain; None: nothing was chosen.
            may_be_empty: whether there may be no record, as of a unit a choice may be dropped altogether.

        Raises:
            ValueError: they are not. One message lists all problems, with counts of rows and no values.
        """
        problems = {n: Encoded.concatenated(p, np.dtype(np.uint8)) for n, p in self._problems.items()}
        said = [self.domain.attribute(n).problem(problems[n]) for n in self.domain if n in problems]
        if WEIGHTS in problems:
            bad = checks.counted(problems[WEIGHTS].lacking, "row is not an integer", "rows are not integers")
            said.append(f"Weights: {bad} in 0..{self.max_weight}.")
            said.append(
                "Weights are whole numbers up to max_weight: raise it to what a weight can be, or, of "
                "fractions, as of a survey, multiply them by 10 or 100, round them, and raise max_weight as "
                "much."
            )
        if said:
            said.append(self._remedy(problems, rows_outside))
        if not self.rows and not may_be_empty:
            said.append(
                f"All {self.dropped:,} records lie outside the domain, so that none is left: correct the "
                "domain or the table."
                if self.dropped
                else "The table is empty: it must hold at least one record."
            )
        if not said and self.total >= LARGEST_TOTAL:
            said.append("The total weight of the records must stay below 2**53.")
        if said:
            raise ValueError(" ".join(said))


def _exact_sum(weights: np.ndarray) -> int:
    # in pieces, as 2**17 weights just below 2**53 would overflow 64 bits
    pieces = range(0, len(weights), 1 << 10)
    return sum(int(weights[start : start + (1 << 10)].sum(dtype=np.uint64)) for start in pieces)


class DerivedSource(Source):
    """The records of another source, seen in another way: the same table to a ledger, in the same files.

    Args:
        source: the records.
    """

    def __init__(self, source: Source):
        self._source = source

    @property
    def layout(self) -> dict[str, str]:
        """The stored columns by attribute."""
        return self._source.layout

    def fingerprint(self, key: bytes) -> str:
        """Return the digest of the records as they are stored, all of them."""
        return self._source.fingerprint(key)

    def identity(self, key: bytes) -> str:
        """Return the digest of the source's table."""
        return self._source.identity(key)

    def stamp(self) -> tuple[Any, ...]:
        """Return the marks of the source's files."""
        return self._source.stamp()

    @property
    def reading(self) -> dict[str, Any]:
        """The files of the source and how they are read."""
        return self._source.reading


class RecodedSource(DerivedSource):
    """The records of another source with new codes, one record for each original one.

    It has the fingerprint of that source, so that a ledger charges both to one account.

    Args:
        source: the records.
        tables: for some attributes the new code of each code [size].
        weighted: whether the source's weights, if it has some, are passed on.
    """

    def __init__(self, source: Source, tables: Mapping[str, np.ndarray], weighted: bool = True):
        super().__init__(source)
        self._tables = tables
        self._weighted = weighted

    def unsettled(self, names: Sequence[str], ordered: bool = False) -> Iterator[Batch]:
        """Yield the batches of the source, in its own codes."""
        return self._source.unsettled(names, ordered)

    def settled(self, batch: Batch, names: Sequence[str]) -> Batch:
        """Return a batch of `unsettled` in the new codes; rows without a code stay marked as such."""
        batch = self._source.settled(batch, names)
        columns = {
            name: replace(one, codes=self._tables[name][one.codes]) if name in self._tables else one
            for name, one in batch.columns.items()
        }
        if not self._weighted:
            columns.pop(WEIGHTS, None)
        return replace(batch, columns=columns)

    @property
    def layout(self) -> dict[str, str]:
        """The columns of the source with a digest of each map, so that a ledger can distinguish maps."""
        stored = self._source.layout
        # one width and byte order, so that the digest does not depend on how a map is stored
        digests = {n: hashlib.sha256(t.astype("<u8").tobytes()).hexdigest() for n, t in self._tables.items()}
        return {**stored, **{n: f"{stored.get(n, n)} recoded {found[:16]}" for n, found in digests.items()}}

    @property
    def population(self) -> Population:
        """The population of the source, in the new codes."""
        return self._source.population.recoded(self._tables, self._weighted)

    def with_key(self, key: bytes) -> RecodedSource:
        """Return the same records with the choice that a key makes among those of a unit."""
        source = self._source
        return self.over(source.with_key(key) if hasattr(source, "with_key") else source)

    def over(self, source: Source) -> RecodedSource:
        """Return the records of another source with these new codes."""
        return RecodedSource(source, self._tables, self._weighted)

    def under(self, definition: TableDefinition) -> RecodedSource:
        """Return the source's records under a definition, with this source's codes."""
        return RecodedSource(self._source.under(definition), self._tables, self._weighted)


def without_rows_outside(batch: Batch, domain: Domain, rows_outside: str | None) -> Batch:
    """Return a batch in which records that do not fit are settled, as far as the treatment goes.

    Args:
        batch: some records.
        domain: of the codes.
        rows_outside: "missing" gives a value outside the domain the code of missing ones, where there is one;
            "drop" leaves out each record with an attribute, or weight, that has no code; "clip" has happened
            when values were encoded; None settles nothing.
    """
    if rows_outside == "missing":
        columns = {name: _as_missing(encoded, domain, name) for name, encoded in batch.columns.items()}
        return replace(batch, columns=columns)
    if rows_outside != "drop" or not any(each.lacking for each in batch.columns.values()):
        return batch
    kept = kept_rows(batch)
    columns = {name: Encoded(encoded.codes[kept]) for name, encoded in batch.columns.items()}
    rows = int(np.count_nonzero(kept))
    return Batch(columns, rows, batch.dropped + batch.rows - rows)


def kept_rows(batch: Batch) -> np.ndarray:
    """Return whether each record of a batch has a code in every column, bool [rows]."""
    masks = [part.invalid for part in batch.columns.values() if part.invalid is not None]
    return ~np.logical_or.reduce([np.zeros(batch.rows, bool), *masks])


def _as_missing(encoded: Encoded, domain: Domain, name: str) -> Encoded:
    attribute = None if name == WEIGHTS else domain.attribute(name)
    if encoded.invalid is None or attribute is None or not attribute.missing:
        return encoded
    return Encoded(np.where(encoded.invalid, encoded.codes.dtype.type(attribute.size - 1), encoded.codes))


def code_tables(before: Domain, after: Domain, codes: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the checked tables of a `RecodedSource`.

    Args:
        before: the domain of the source.
        after: the new domain, with the same attributes.
        codes: code in `after` of each code in `before` [size], by recoded attribute.

    Raises:
        TypeError: codes are not integers.
        ValueError: the attributes differ, one is unknown, codes do not fit, or an attribute changes size
            without new codes.
    """
    if set(before) != set(after):
        raise ValueError("recode needs a domain with the same attributes; only sizes and labels may differ.")
    tables = {}
    for name, given in codes.items():
        table, size = checked_codes(f"The new codes of attribute {name!r}", given), before[name]
        if table.shape != (size,) or table.min() < 0 or table.max() >= after[name]:
            raise ValueError(
                f"The new codes of attribute {name!r} must be {size} codes in 0..{after[name] - 1}, one for "
                "each old code."
            )
        tables[name] = table.astype(code_dtype(after[name]))
    changed = [name for name in before if name not in tables and before[name] != after[name]]
    if changed:
        raise ValueError(f"Attributes {changed} have another size and no new codes: give them in codes.")
    return tables
