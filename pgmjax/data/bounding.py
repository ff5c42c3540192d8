"""Bounding the records of a unit of privacy: those beyond the bound are left out of every scan, at random.

What is left of one unit depends on its own records and on a secret key only, so that a neighbouring table, in
which another unit is there or not, is left with the same records of this one.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmjax._internal.extras import arrow as pa
from pgmjax._internal.extras import compute
from pgmjax.data.arrow import check_not_rounded, keys_of_array, storage_of
from pgmjax.data.definition import TableDefinition
from pgmjax.data.population import Population
from pgmjax.data.relation import Unit
from pgmjax.data.sources import Batch, DerivedSource, Source
from pgmjax.data.value import key_of

_WORD = 8  # bytes of a random priority


@dataclass(frozen=True)
class UnitRecords:
    """The records of some units, one unit after the other.

    Attributes:
        names: what names each unit [units].
        sizes: the number of its records [units].
        places: the numbers of its records in the table, increasing within a unit [sum of sizes].
    """

    names: Sequence[bytes]
    sizes: np.ndarray
    places: np.ndarray


class LeftOut:
    """Records that are left out, a bit each.

    Attributes:
        number: of all of them.
        of_units: the number of each unit that has any [units].

    Example:
        >>> some = LeftOut()
        >>> some.add(np.array([2, 9]))
        >>> some.within(8, 4).tolist(), some.number
        ([1], 2)
    """

    def __init__(self) -> None:
        self.number = 0
        self.of_units = np.zeros(0, np.int64)
        self._bits = np.zeros(1 << 10, np.uint8)

    def add(self, places: np.ndarray) -> None:
        """Add the numbers of records [n], none of them twice."""
        needed = (int(places.max(initial=0)) >> 3) + 1
        if needed > len(self._bits):
            self._bits = np.append(self._bits, np.zeros(max(needed, len(self._bits)), np.uint8))
        # records may share a byte, of which plain indexing would keep the last one only
        np.bitwise_or.at(self._bits, places >> 3, np.uint8(1) << (places & 7).astype(np.uint8))
        self.number += len(places)

    def within(self, first: int, rows: int) -> np.ndarray:
        """Return which of some records in a row are among them, int64 [n], counted from `first`."""
        low = first >> 3
        bits = np.unpackbits(self._bits[low : (first + rows + 7) >> 3], bitorder="little")
        return np.flatnonzero(bits[first - 8 * low : first - 8 * low + rows])


def left_out(parts: Iterable[UnitRecords], most: int, key: bytes) -> LeftOut:
    """Return the records beyond the bound; each unit keeps a random sample.

    Args:
        parts: all records of each unit that may have too many.
        most: records of a unit that are kept.
        key: secret; the same key chooses the same records.
    """
    result = LeftOut()
    for part in parts:
        units = np.flatnonzero(part.sizes > most)
        sizes = part.sizes[units]
        starts = (np.cumsum(part.sizes) - part.sizes)[units]
        ends = np.cumsum(sizes)
        # 0, 1, 2, ... within each of these units, one unit after the other
        within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - sizes, sizes)
        if not len(within):
            continue
        priorities = np.concatenate(
            [_priorities(part.names[int(unit)], size, key) for unit, size in zip(units, sizes, strict=True)]
        )
        # within each unit by priority: whose place in that order is `most` or more is beyond the bound
        order = np.lexsort((priorities, np.repeat(units, sizes)))
        places = part.places[np.repeat(starts, sizes) + within]
        result.add(places[order[within >= most]])
        result.of_units = np.append(result.of_units, sizes - most)
    return result


def _priorities(name: bytes, size: int, key: bytes) -> np.ndarray:
    """Return a random number for each of a unit's records, from its name and the key alone."""
    # with the key's length in front, so that no other key and name give the same stream
    stream = hashlib.shake_256(len(key).to_bytes(2, "big") + key + name).digest(_WORD * int(size))
    return np.frombuffer(stream, dtype=">u8")


class BoundedSource(DerivedSource):
    """The records of a source without those beyond the bound of their unit.

    Args:
        source: the records; its batches must be in one order.
        unit: the unit.
        records: called with a number K, yields the records of all units that have more than K, as they lie in
            the files or were given.
        key: secret of the choice. Default: a fresh one.
        rows: the number of each record of the source in the table as it was given; None: all of them, in
            order.
    """

    def __init__(
        self,
        source: Source,
        unit: Unit,
        records: Callable[[int], Iterable[UnitRecords]],
        key: bytes | None = None,
        rows: np.ndarray | None = None,
    ):
        super().__init__(source)
        self.unit, self._records, self._rows = unit, records, rows
        self._key = os.urandom(32) if key is None else key
        self._choices: dict[Any, LeftOut] = {}  # by key and stamp: another one if the files changed

    @property
    def population(self) -> Population:
        """The population of the source, with a bounded number of records of each unit."""
        return dataclasses.replace(self._source.population, unit=self.unit)

    def with_key(self, key: bytes) -> BoundedSource:
        """Return the same records with the choice that a key makes."""
        return BoundedSource(self._source, self.unit, self._records, key, self._rows).sharing(self)

    def sharing(self, other: BoundedSource) -> BoundedSource:
        """Return this source, which makes no choice again that another one of the same records has made."""
        if self._rows is other._rows:  # a choice numbers the records that this source has
            self._choices = other._choices
        return self

    def unsettled(self, names: Sequence[str], ordered: bool = False) -> Iterator[Batch]:
        """Yield the records that count in batches, always in order and settled, with the named attributes."""
        beyond = self._left_out()
        outside = int(beyond.of_units.sum()) - beyond.number  # that the source had dropped before
        first = 0
        # in the table's order, as those beyond the bound are known by their numbers
        for batch in self._source.unsettled(names, ordered=True):
            kept = batch.without(beyond.within(first, batch.rows))
            first += batch.rows
            found = self._source.settled(kept, names)
            yield dataclasses.replace(found, dropped=found.dropped - outside)
            outside = 0

    def beyond(self) -> np.ndarray:
        """Return how many records are left out of each unit that has more than its bound [units]. Private."""
        return self._left_out().of_units

    def _left_out(self) -> LeftOut:
        place = (self._key, self._source.stamp())
        if place not in self._choices:
            found = left_out(self._records(self.unit.max_records), self.unit.max_records, self._key)
            if self._rows is not None:  # as numbers of the source's records
                given = found.within(0, int(self._rows[-1]) + 1 if len(self._rows) else 0)
                of_units, found = found.of_units, LeftOut()
                found.of_units = of_units
                found.add(np.flatnonzero(np.isin(self._rows, given, assume_unique=True)))
            self._choices[place] = found
        return self._choices[place]

    def under(self, definition: TableDefinition) -> BoundedSource:
        """Return the same records as the holder defined them, with this source's bound."""
        return BoundedSource(self._source.under(definition), self.unit, self._records, self._key, self._rows)


def records_of(values: Any, declared: bool = False) -> UnitRecords:
    """Return the records of each unit, from the values of its column [rows]: an Arrow array or a sequence.

    Values are compared in their canonical form; those that are empty, null or NaN name nobody.

    Args:
        values: the column.
        declared: whether its type is that of a schema. Others follow from the values: where one is missing,
            whole numbers have become floats, and those that were rounded are no longer told apart.

    Raises:
        TypeError: values that are no text, numbers or dates.
        ValueError: floats of an undeclared type, so large that they may have been rounded.
    """
    if hasattr(values, "chunks"):
        values = pa.concat_arrays(values.chunks) if values.chunks else pa.array([], pa.string())
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        values = pa.array(values)
    if not isinstance(values, pa.Array):
        coded = pa.array([_written(key_of(value)) for value in values], pa.large_string())
    else:
        if not declared:
            check_not_rounded("The column of the unit", values)
        check_type_of_unit(values.type)
        coded = keys_of_array(values)
    coded = coded.dictionary_encode()
    numbers = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    # stable, so that places increase within a unit; records of nobody, at -1, come first
    places = np.argsort(numbers, kind="stable")
    # nobody, -1, becomes the first bin, which is cut off below
    sizes = np.bincount(numbers + 1, minlength=len(coded.dictionary) + 1)
    names = [name.encode(errors="surrogatepass") for name in coded.dictionary.to_pylist()]
    return UnitRecords(names, sizes[1:], places[sizes[0] :])


def _written(key: str | None) -> str | None:
    return None if key is None else key.encode(errors="backslashreplace").decode()


def check_type_of_unit(dtype: Any) -> None:
    """Refuse a column of a unit by its Arrow type alone.

    Raises:
        TypeError: its values are no text, numbers or dates.
    """
    if not storage_of(dtype):
        raise TypeError(
            f"The column of the unit must hold text, numbers or dates, got {dtype}: cast it to text."
        )


def units_of(batches: Iterable[Any]) -> Iterator[UnitRecords]:
    """Yield the records of whole units, from Arrow batches of values and places that are sorted by both."""
    left: list[Any] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        if not pa.types.is_string(batch.column(0).type):  # texts have their canonical form already
            keys = keys_of_array(batch.column(0))
            batch = pa.record_batch([keys, batch.column(1)], names=["name", "place"])
        last = batch.column(0)[batch.num_rows - 1]
        begins = int(compute.index(batch.column(0), last).as_py())  # of the last unit, which may go on
        if left and left[0].column(0)[0] == last and not begins:
            left.append(batch)
            continue
        yield _units(pa.Table.from_batches([*left, batch.slice(0, begins)]))
        left = [batch.slice(begins)]
    if left:
        yield _units(pa.Table.from_batches(left))


def _units(table: Any) -> UnitRecords:
    names = table.column(0).combine_chunks()
    names = names.chunk(0) if hasattr(names, "chunks") else names
    coded = names.dictionary_encode()
    sizes = np.bincount(coded.indices.to_numpy(zero_copy_only=False), minlength=len(coded.dictionary))
    texts = [name.encode(errors="surrogatepass") for name in coded.dictionary.to_pylist()]
    return UnitRecords(texts, sizes, table.column(1).to_numpy().astype(np.int64))
