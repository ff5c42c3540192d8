"""A domain that is open in part: some columns are described, the others are to be discovered."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pgmjax.data.attribute import Attribute
from pgmjax.data.domain_file import read_domain_file
from pgmjax.data.encoding import STORAGES
from pgmjax.data.entry import OPEN, at, open_kind, shown

_STORAGES = {"bins": ("text", "number", "nothing"), "dates": ("text", "date", "nothing")}
"""The storage types of columns in which values of a shape may be found; any where nothing is said."""


class Draft:
    """A domain that is open in part.

    Args:
        entries: for each column an entry of a domain file, or `"discover"`, `{"bins": "discover"}`,
            `{"labels": "discover"}` or `{"dates": "discover"}`.

    Raises:
        TypeError: the entries are no mapping.
        ValueError: an entry is invalid, or there is none.

    Attributes:
        closed: the attributes that are described, by name.
        open: what is said of the others, by name: one of `entry.OPEN_KINDS`, or "any".
        columns: all names, in order.

    Example:
        >>> draft = Draft({"sex": {"labels": ["F", "M"]}, "age": {"bins": "discover"}, "job": "discover"})
        >>> [*draft.closed], draft.open
        (['sex'], {'age': 'bins', 'job': 'any'})
    """

    def __init__(self, entries: Mapping[str, Any]):
        if not isinstance(entries, Mapping):
            raise TypeError(
                "A domain must be a mapping from column to entry, such as {age: {min: 0, max: 99}}, got "
                f"{shown(entries)}."
            )
        if not entries:
            raise ValueError("A draft must name at least one column, got none.")
        self.closed: dict[str, Attribute] = {}
        self.open: dict[str, str] = {}
        for name, entry in entries.items():
            with at(name):
                shape = open_kind(name, entry)
            if shape is None:
                self.closed[name] = Attribute.from_spec(name, entry)
            else:
                self.open[name] = shape
        self.columns = tuple(entries)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Draft:
        """Read a domain file, .json, .yaml or .yml, that may say "discover" for columns.

        Raises:
            ValueError: as `Domain.read`.
        """
        return read_domain_file(path, cls)

    def refusal(self, name: str, storage: str) -> str:
        """Return why a column of some storage type has no place in its entry; empty if it has one.

        Args:
            name: the column.
            storage: one of `encoding.STORAGES`.
        """
        if name in self.closed:
            return self.closed[name].coder.refusal(storage)
        shape = self.open[name]
        return "" if storage in _STORAGES.get(shape, STORAGES) else f"{shape} are to be discovered in it"

    @property
    def may_have_labels(self) -> bool:
        """True if an open column may turn out to be text."""
        return bool(self.maybe_text)

    @property
    def maybe_text(self) -> list[str]:
        """The open columns that may turn out to be text, whose labels need a delta."""
        return [name for name, shape in self.open.items() if shape in ("any", "labels")]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Draft) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def to_dict(self) -> dict[str, Any]:
        """Return the content of the domain file."""
        return {
            name: self.closed[name].to_spec()
            if name in self.closed
            else OPEN
            if self.open[name] == "any"
            else {self.open[name]: OPEN}
            for name in self.columns
        }
