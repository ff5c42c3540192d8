"""Bounding the records of a unit of privacy: those beyond the bound are left out of every scan, at random.

What is left of one unit depends on its own records and on a secret key only, so that a neighbouring table, in
which another unit is there or not, is left with the same records of this one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.definition import TableDefinition
from pgmjax.data.sources import Batch, Source
from pgmjax.data.unit import Unit

NO_UNIT = ("", "nan", "NaN")
"""Texts that name nobody."""
NOBODY = -1
"""The number of a record that names no unit: it is one of its own."""
_WORD = 8  # bytes of a random priority


def left_out(numbers: np.ndarray, names: Sequence[bytes], most: int, key: bytes) -> np.ndarray:
    """Return the places [n] of records beyond the bound, increasing; each unit keeps a random sample.

    Args:
        numbers: the number of the unit of each record, or `NOBODY` [records].
        names: what each number stands for.
        most: records of a unit that are kept.
        key: secret; the same key chooses the same records.
    """
    counts = np.bincount(numbers[numbers >= 0], minlength=len(names))
    full = counts > most
    places = (
        np.flatnonzero((numbers >= 0) & full[np.maximum(numbers, 0)]) if len(names) else np.zeros(0, np.int64)
    )
    if not len(places):
        return places
    places = places[np.argsort(numbers[places], kind="stable")]
    whose = numbers[places]
    starts = np.flatnonzero(np.append(True, whose[1:] != whose[:-1]))
    sizes = np.diff(np.append(starts, len(whose)))
    priorities = np.concatenate(
        [_priorities(names[number], size, key) for number, size in zip(whose[starts], sizes, strict=True)]
    )
    order = np.lexsort((priorities, whose))
    rank = np.arange(len(whose)) - np.repeat(starts, sizes)
    return np.sort(places[order[rank >= most]])


def _priorities(name: bytes, size: int, key: bytes) -> np.ndarray:
    """Return a random number for each of a unit's records, from its name and the key alone."""
    stream = hashlib.shake_256(len(key).to_bytes(2, "big") + key + name).digest(_WORD * int(size))
    return np.frombuffer(stream, dtype=">u8")


@dataclass(frozen=True)
class Members:
    """Whose each record of a table is, in the order of the table.

    Attributes:
        numbers: the number of each record's unit, or `NOBODY` [records].
        names: what each number stands for. A unit that cannot have too many records may be `NOBODY` too.
    """

    numbers: np.ndarray
    names: Sequence[bytes]


class BoundedSource:
    """The records of a source without those beyond the bound of their unit.

    Args:
        source: the records; its batches must be in one order.
        unit: the unit.
        members: returns whose each record is, for a table as it lies in its files or was given.
        key: secret of the choice. Default: a fresh one.
        rows: the number of each record of the source in the table as it was given; None: all of them, in
            order.
    """

    def __init__(
        self,
        source: Source,
        unit: Unit,
        members: Callable[[], Members],
        key: bytes | None = None,
        rows: np.ndarray | None = None,
    ):
        self._source, self.unit, self._members, self._rows = source, unit, members, rows
        self._key = os.urandom(32) if key is None else key
        self._dropped: np.ndarray | None = None

    def with_key(self, key: bytes) -> BoundedSource:
        """Return the same records with the choice that a key makes."""
        return BoundedSource(self._source, self.unit, self._members, key, self._rows)

    def batches(self, names: Sequence[str], ordered: bool = False) -> Iterator[Batch]:
        """Yield the records that count in batches, always in order, with the named attributes."""
        dropped = self._left_out()
        first = 0
        for batch in self._source.unsettled(names, ordered=True):
            low, high = np.searchsorted(dropped, (first, first + batch.rows))
            kept = batch.without(dropped[low:high] - first)
            first += batch.rows
            yield self._source.settled(kept, names)

    def unsettled(self, names: Sequence[str], ordered: bool = False) -> Iterator[Batch]:
        """Yield what `batches` does."""
        return self.batches(names, ordered)

    def settled(self, batch: Batch, names: Sequence[str]) -> Batch:
        """Return a batch as it is: it is settled."""
        return batch

    def _left_out(self) -> np.ndarray:
        if self._dropped is None:
            members = self._members()
            found = left_out(members.numbers, members.names, self.unit.max_records, self._key)
            if self._rows is not None:  # as numbers of the source's records
                found = np.flatnonzero(np.isin(self._rows, found, assume_unique=True))
            self._dropped = found
        return self._dropped

    @property
    def layout(self) -> dict[str, str]:
        """The stored columns by attribute; the unit's is no part of it."""
        return self._source.layout

    def fingerprint(self, key: bytes) -> str:
        """Return the digest of the records as they are stored, all of them."""
        return self._source.fingerprint(key)

    def identity(self, key: bytes) -> str:
        """Return the digest of the whole table."""
        return self._source.identity(key)

    def stamp(self) -> tuple[Any, ...]:
        """Return the marks of the source's files."""
        return self._source.stamp()

    def under(self, definition: TableDefinition) -> BoundedSource:
        """Return the same records as the holder defined them, with this source's bound."""
        return BoundedSource(self._source.under(definition), self.unit, self._members, self._key, self._rows)


def members_of(values: Any) -> Members:
    """Return whose each record is, from the values of the unit's column [rows]: an Arrow array or a sequence.

    Text is compared without white space around it. Values that are empty, null or NaN name nobody.
    """
    pa = checks.optional("pyarrow", extra="tables")
    compute = checks.optional("pyarrow.compute", extra="tables")
    if hasattr(values, "chunks"):
        values = pa.concat_arrays(values.chunks) if values.chunks else pa.array([], pa.string())
    if not isinstance(values, pa.Array):
        values = pa.array([_text(value) for value in values], pa.large_string())
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    texts = compute.utf8_trim_whitespace(values.cast(pa.large_string()))
    texts = compute.if_else(compute.is_in(texts, pa.array(NO_UNIT, texts.type)), None, texts)
    coded = texts.dictionary_encode()
    numbers = coded.indices.fill_null(NOBODY).to_numpy(zero_copy_only=False).astype(np.int64)
    return Members(numbers, [name.encode(errors="surrogatepass") for name in coded.dictionary.to_pylist()])


def _text(value: Any) -> str | None:
    if value is None or value != value or type(value).__name__ in ("NAType", "NaTType"):
        return None
    return str(value.item() if isinstance(value, np.generic) else value)
