"""A table whose domain is open in part: some columns are described, the others are to be discovered."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from pgmjax.data import arrow as source_arrow
from pgmjax.data import files
from pgmjax.data.attribute import Attribute
from pgmjax.data.dataset import Dataset
from pgmjax.data.definition import OpenDefinition
from pgmjax.data.domain import Domain
from pgmjax.data.draft import Draft
from pgmjax.data.entry import OPEN
from pgmjax.discovery.probes import MISSING_TEXTS, KeyCoder, Probe

_OPTIONS = ("unit", "encoding")


def open_entry(kind: Any) -> Any:
    """Return the entry of a column of which only the Arrow type is known, or, with None, nothing."""
    entries = {
        "bool": {"labels": [False, True], "missing": True},
        "date": {"dates": OPEN},
        "number": {"bins": OPEN},
    }
    return OPEN if kind is None else entries.get(source_arrow.storage_of(kind), OPEN)


class OpenTable:
    """The records of a private table whose domain is open in part. Nothing is read before a run.

    Construct one with `read`, `from_frame` or `from_columns`.

    Attributes:
        draft: what is known of its columns.

    Example:
        >>> table = OpenTable.from_columns({"age": [31, 45, 28], "job": ["baker", "cook", "cook"]})
        >>> table.draft.open
        {'age': 'any', 'job': 'any'}
    """

    def __init__(
        self,
        draft: Draft,
        opener: Callable[..., Dataset],
        given: Mapping[str, Any],
        types: Mapping[str, Any],
        definition: OpenDefinition | None = None,
    ):
        unknown = [name for name, value in given.items() if name not in _OPTIONS and value is not None]
        if unknown:
            raise ValueError(
                f"An open table takes {' and '.join(_OPTIONS)}, got {', '.join(unknown)}: its records have "
                "no weights, its columns have names, and what happens to rows outside is found."
            )
        for name, dtype in types.items():
            if dtype is None or name not in draft.columns:
                continue
            try:
                source_arrow.check_type(functools.partial(draft.refusal, name), dtype)
            except TypeError as error:
                raise TypeError(f"Column {name!r}: {error}. Nothing was spent.") from None
        self.draft = draft
        self._types = types
        self._opener = opener
        self._given = dict(given)
        self._definition = definition

    @classmethod
    def read(
        cls,
        path: str | os.PathLike[str],
        draft: Draft | None = None,
        *,
        leave_out: Iterable[str] = (),
        **options: Any,
    ) -> OpenTable:
        """Open a table in files.

        Args:
            path: as for `Dataset.read`, but no .npy file.
            draft: what is known of the columns. Default: nothing; all columns are open.
            leave_out: columns that are left out if there is no draft.
            options: of `Dataset.read`: `unit`, `encoding`.

        Raises:
            FileNotFoundError: there is no such file.
            TypeError: a column of a Parquet file has a type that can have no place in its entry.
            ValueError: the kind of file is not supported, or it does not name its columns.
        """
        unit = options.get("unit")
        hidden = {*leave_out, *([] if unit is None else [unit.column])}
        types = files.column_types(path, options.get("encoding"))
        if draft is None:
            draft = Draft({name: open_entry(kind) for name, kind in types.items() if name not in hidden})
        return cls(draft, functools.partial(Dataset.read, path), options, types)

    @classmethod
    def from_frame(cls, frame: Any, draft: Draft | None = None, **options: Any) -> OpenTable:
        """Open a pandas, polars or Arrow table, which must not be changed before the run has ended.

        Args:
            frame: the table.
            draft: what is known of the columns. Default: nothing; all columns are open, and only an Arrow
                table, which has a schema, says what a column may be.
            options: of `Dataset.from_frame`: `unit`.

        Raises:
            TypeError: `frame` is none of these, or a column of an Arrow table has a type that can have no
                place in its entry.
        """
        if isinstance(frame, Domain | Draft):
            raise TypeError("The frame comes first: write OpenTable.from_frame(frame, draft).")
        unit = options.get("unit")
        frame = source_arrow.as_frame(frame)
        types = source_arrow.declared_types(frame)
        if draft is None:
            hidden = None if unit is None else unit.column
            draft = Draft({name: open_entry(kind) for name, kind in types.items() if name != hidden})

        def opener(domain: Domain, **given: Any) -> Dataset:
            return Dataset.from_frame(domain, frame, **given)

        return cls(draft, opener, options, types)

    @classmethod
    def from_columns(
        cls, columns: Mapping[str, Any], draft: Draft | None = None, **options: Any
    ) -> OpenTable:
        """Open columns of raw values [rows], by name, as `from_frame` does; Arrow arrays say their type."""
        return cls.from_frame(source_arrow.RawColumns(columns), draft, **options)

    @property
    def unit(self) -> Any:
        """The unit of privacy, None for one row."""
        return self._given.get("unit")

    def held_as(self, definition: OpenDefinition) -> OpenTable:
        """Return the same table as its holder defined it: with the holder's draft, unit and encoding.

        Args:
            definition: the holder's, who has checked the described columns of every record.

        Raises:
            ValueError: this table was opened with another unit or encoding.
        """
        for name, wanted in (("unit", definition.unit), ("encoding", definition.encoding)):
            if self._given.get(name) not in (None, wanted):
                told = "none" if wanted is None else wanted
                raise ValueError(
                    f"The table's holder registered it with the {name} {told}, and it was opened with "
                    f"another: leave {name} out. Nothing was spent."
                )
        text = "encoding" in self._given or definition.encoding is not None
        given = {"unit": definition.unit, **({"encoding": definition.encoding} if text else {})}
        return OpenTable(definition.draft, self._opener, given, self._types, definition)

    def reads(self, attribute: Attribute) -> bool:
        """Return whether a column can match an attribute that was found for it, by what is public of both."""
        dtype = self._types.get(attribute.name)
        if dtype is not None and attribute.coder.refusal(source_arrow.storage_of(dtype)):
            return False
        if attribute.labels is not None:
            codes = attribute.coder.raw_codes(attribute.labels)
        else:
            codes = attribute.coder.codes_of_numbers(np.array((attribute.bins or ())[:-1]))
        return codes.tolist() == [*range(len(codes))]

    def under(
        self,
        attributes: Iterable[Attribute],
        rows_outside: str | None = None,
        *,
        like: Dataset | None = None,
    ) -> Dataset:
        """Return the records over some attributes, in the order given. Private.

        Args:
            attributes: one for each column that is wanted.
            rows_outside: as for `Dataset`.
            like: the same records opened before; if the files changed since then, reading them raises.
        """
        domain = Domain({attribute.name: attribute for attribute in attributes})
        data = self._opener(domain, rows_outside=rows_outside, **self._given)
        data.registered = self._definition is not None
        return data if like is None else data.as_old_as(like)


def key_column(table: OpenTable, name: str, like: Dataset | None = None) -> tuple[Dataset, KeyCoder]:
    """Return one column of a table encoded by its texts, and the encoder. Private.

    Args:
        table: the table.
        name: the column.
        like: as for `OpenTable.under`.
    """
    coder = KeyCoder(MISSING_TEXTS, exact=table._types.get(name) is not None)
    return table.under([Probe(name, coder.size, rule=coder)], like=like), coder
