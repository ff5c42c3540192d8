"""Keys of a grid file, read one by one, so that an unread key is an error and not silently ignored."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from pgmjax._internal import checks

_KINDS = {str: "text", int: "a whole number", bool: "true or false", list: "a list", dict: "a table"}
_MISSING = object()


class Fields:
    """The keys of one table of a grid file.

    Args:
        where: name of the table in error messages, such as "[[tables]] entry 2".
        content: the parsed content of the table.

    Raises:
        ValueError: `content` is not a table.
    """

    def __init__(self, where: str, content: Any):
        if not isinstance(content, dict):
            raise ValueError(f"{where} must be a table of keys, got {type(content).__name__}.")
        self.where = where
        self._left = dict(content)
        self._known: list[str] = []

    def take(self, name: str, kind: type, default: Any = _MISSING) -> Any:
        """Return the value of a key.

        Raises:
            ValueError: the key is missing and has no default, or its value has the wrong type.
        """
        self._known.append(name)
        if name not in self._left:
            if default is _MISSING:
                raise ValueError(f"{self.where}: the key {name!r} is missing.")
            return default
        value = self._left.pop(name)
        if kind is int:
            with contextlib.suppress(TypeError):  # a whole number such as 1e6 is one
                value = checks.integer(name, value)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise ValueError(f"{self.where}: {name!r} must be {_KINDS[kind]}, got {type(value).__name__}.")
        return value

    def number(self, name: str, default: Any = _MISSING) -> Any:
        """Return the value of a numeric key, unchecked: a number, or text such as "1/3"."""
        self._known.append(name)
        if name not in self._left:
            if default is _MISSING:
                raise ValueError(f"{self.where}: the key {name!r} is missing.")
            return default
        return self._left.pop(name)

    def names(self, name: str, known: Sequence[str] | None = None) -> tuple[str, ...] | None:
        """Return the names listed under a key, or None if the key is absent.

        Raises:
            ValueError: the value is not a list of text, is empty, or has a name that is not in `known`.
        """
        value = self.take(name, list, None)
        if value is None:
            return None
        if not value or not all(isinstance(each, str) for each in value):
            raise ValueError(f"{self.where}: {name!r} must be a list of names, not empty.")
        strange = [each for each in value if known is not None and each not in known]
        if strange:
            raise ValueError(
                f"{self.where}: {name!r} names {strange[0]!r}; there are: {', '.join(known or ())}."
            )
        return tuple(value)

    def done(self) -> None:
        """Reject keys that were not read.

        Raises:
            ValueError: there is such a key; the message names it and the known keys.
        """
        for name in self._left:
            table = f" Write [[{name}]] with double brackets, and what belongs to it below." * (
                name in ("mechanisms", "tables", "workloads") and not self.where.startswith("[[")
            )
            raise ValueError(f"{self.where}: unknown key {name!r}; known: {', '.join(self._known)}.{table}")


def entries(content: dict[str, Any], name: str) -> list[Any]:
    """Return the entries of an array of tables such as [[tables]].

    Raises:
        ValueError: there is no entry, or the array is written with single brackets.
    """
    found = content.get(name)
    if not isinstance(found, list) or not found:
        raise ValueError(f"a grid needs at least one [[{name}]] entry (with double brackets).")
    return found


def distinct(what: str, names: Sequence[str]) -> None:
    """Raise ValueError if a name is given twice."""
    twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if twice is not None:
        raise ValueError(f"{what} {twice!r} is given twice: names must differ.")
