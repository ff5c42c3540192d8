"""A source whose codes are mapped, batch by batch, to those of another domain."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pgmjax.data.domain import Domain
from pgmjax.data.encoding import Encoded, code_dtype
from pgmjax.data.sources import Batch, Source


class RecodedSource:
    """The records of another source, each with other codes: one record in, one record out.

    It has the fingerprint of that source, so that a ledger charges both to one account.

    Args:
        source: the records.
        tables: for some attributes the new code of each code [size].
    """

    def __init__(self, source: Source, tables: Mapping[str, np.ndarray]):
        self._source = source
        self._tables = tables

    def batches(self, names: Sequence[str], ordered: bool = False) -> Iterator[Batch]:
        """Yield all records in batches, with the attributes named."""
        for batch in self._source.batches(names, ordered):
            columns = {name: self._mapped(name, encoded) for name, encoded in batch.columns.items()}
            yield Batch(columns, batch.weights, batch.rows)

    def _mapped(self, name: str, encoded: Encoded) -> Encoded:
        if name not in self._tables:
            return encoded
        # rows without a code have code 0 here, and stay counted as such
        return Encoded(self._tables[name][encoded.codes], encoded.outside, encoded.missing)

    @property
    def layout(self) -> dict[str, str]:
        """The columns of the source with a digest of each map, so that a ledger tells maps apart."""
        return {**self._source.layout, **{name: self._described(name) for name in self._tables}}

    def _described(self, name: str) -> str:
        codes = self._tables[name].astype("<u8").tobytes()
        return f"{self._source.layout.get(name, name)} recoded {hashlib.sha256(codes).hexdigest()[:16]}"

    def fingerprint(self, key: bytes) -> str:
        """Return the digest of the records as they are stored."""
        return self._source.fingerprint(key)


def code_tables(before: Domain, after: Domain, codes: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the tables of a `RecodedSource`, checked.

    Args:
        before: the domain of the source.
        after: the new domain, with the same attributes.
        codes: for some attributes the code in `after` of each code in `before` [size].

    Raises:
        TypeError: codes that are no integers.
        ValueError: other attributes, an unknown one, codes that do not fit, or an attribute of another size
            without codes.
    """
    if set(before) != set(after):
        raise ValueError("recode needs a domain with the same attributes; only sizes and labels may differ.")
    tables = {}
    for name, given in codes.items():
        table, size = np.asarray(given), before[name]
        if table.dtype.kind not in "iu":
            raise TypeError(f"The new codes of attribute {name!r} must be integers, got {table.dtype}.")
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
