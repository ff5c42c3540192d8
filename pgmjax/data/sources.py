"""Batches of codes, the one form in which every source hands over its records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from pgmjax.data import fingerprint
from pgmjax.data.domain import Domain
from pgmjax.data.encoding import Coder, Encoded

BATCH_ROWS = 1 << 17
LARGEST_TOTAL = 1 << 53
_HALF = 26


@dataclass(frozen=True)
class Batch:
    """Some records.

    Attributes:
        columns: for every attribute asked for, the codes [rows] and how many rows have none.
        weights: the weights [rows] and how many rows have none, or None.
        rows: the number of records.
    """

    columns: dict[str, Encoded]
    weights: Encoded | None
    rows: int


class Source(Protocol):
    """Something that can be scanned, again and again, for batches of codes."""

    def batches(self, names: Sequence[str], ordered: bool = False) -> Iterator[Batch]:
        """Yield all records in batches, with the attributes named; in the table's order if asked for."""
        ...

    def fingerprint(self, key: bytes) -> str:
        """Return a keyed digest of the records as they are stored."""
        ...

    @property
    def layout(self) -> dict[str, str]:
        """The columns that attributes, and "" weights, are read from, by attribute."""
        ...


class ColumnSource:
    """Columns of codes held in memory.

    Args:
        columns: valid codes [rows] by attribute.
        weights: valid weights [rows], or None.
    """

    def __init__(self, columns: dict[str, np.ndarray], weights: np.ndarray | None):
        self._columns = columns
        self._weights = weights
        self._rows = len(next(iter(columns.values())))

    def batches(self, names: Sequence[str], ordered: bool = False) -> Iterator[Batch]:
        """Yield all records in batches, always in order, with the attributes named."""
        for start in range(0, self._rows, BATCH_ROWS):
            part = slice(start, min(start + BATCH_ROWS, self._rows))
            columns = {name: Encoded(self._columns[name][part]) for name in names}
            weights = None if self._weights is None else Encoded(self._weights[part])
            yield Batch(columns, weights, part.stop - start)

    @property
    def layout(self) -> dict[str, str]:
        """Empty: columns in memory are known by their attributes."""
        return {}

    def fingerprint(self, key: bytes) -> str:
        """Return a keyed digest of names, codes and weights."""
        columns = dict(self._columns) if self._weights is None else {**self._columns, "": self._weights}
        return fingerprint.of_columns(columns, key)


def weight_coder(max_weight: int) -> Coder:
    """Return the encoder of a column of weights: the integers 0..max_weight are their own codes."""
    return code_coder(max_weight + 1)


def code_coder(size: int) -> Coder:
    """Return the encoder of a column that holds codes already, the missing one included."""
    return Coder(size)


@dataclass
class Tally:
    """What a scan has seen: records, their total weight, and rows that have no code.

    Args:
        domain: the domain of the records.
        max_weight: the largest weight.
    """

    domain: Domain
    max_weight: int
    rows: int = 0
    total: int = 0
    _problems: dict[str, Encoded] = field(default_factory=dict)
    _bad_weights: int = 0

    def add(self, batch: Batch) -> bool:
        """Take in a batch; return whether every record so far is valid."""
        self.rows += batch.rows
        for name, encoded in batch.columns.items():
            if encoded.outside or encoded.missing:
                seen = self._problems.get(name, Encoded(encoded.codes[:0]))
                self._problems[name] = Encoded(
                    seen.codes, seen.outside + encoded.outside, seen.missing + encoded.missing
                )
        if batch.weights is None:
            self.total += batch.rows
        else:
            self._bad_weights += batch.weights.outside + batch.weights.missing
            self.total += _exact_sum(batch.weights.codes)
        return not self._problems and not self._bad_weights and self.total < LARGEST_TOTAL

    def check(self) -> None:
        """Raise if there is no record, or one that is not valid; all problems in one message.

        Raises:
            ValueError: the message counts rows and shows no value.
        """
        said = [
            self.domain.attribute(name).problem(self._problems[name])
            for name in self.domain
            if name in self._problems
        ]
        if self._bad_weights:
            said.append(f"Weights: {self._bad_weights} rows are not integers in 0..{self.max_weight}.")
        if not self.rows:
            said.append("The table is empty: it must hold at least one record.")
        if not said and self.total >= LARGEST_TOTAL:
            said.append("The total weight of the records must stay below 2**53.")
        if said:
            raise ValueError(" ".join(said))


def _exact_sum(weights: np.ndarray) -> int:
    # in two halves: 2**17 weights just below 2**53 would overflow 64 bits
    low = weights & weights.dtype.type(min((1 << _HALF) - 1, np.iinfo(weights.dtype).max))
    if weights.dtype.itemsize < 8:
        return int(weights.sum(dtype=np.uint64))
    high = weights >> weights.dtype.type(_HALF)
    return (int(high.sum(dtype=np.uint64)) << _HALF) + int(low.sum(dtype=np.uint64))
