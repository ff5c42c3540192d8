"""Comparison of two results in everything that a reader could see, bit for bit."""

from __future__ import annotations

from typing import Any

from pgmjax.audit.compare import BY_IDENTITY, parts_of


def differences(first: Any, second: Any, name: str = "result") -> list[str]:
    """Return the names of the parts in which two results differ, arrays and floats bit for bit.

    Looks into dataclasses, attributes, slots, mappings (their keys in order, with their types), sequences,
    sets, arrays of NumPy and JAX, tables of pandas, Arrow and Polars, and functions; never asks `==` of
    what it looks into. Values that a `functools.cached_property` keeps are left out. Classes and members
    of enumerations are the same only if they are the same object.

    Args:
        first: a result.
        second: the other one.
        name: what the result is called in the names of its parts.

    Raises:
        TypeError: a part whose contents are out of sight, such as a generator.

    Example:
        >>> differences({"a": [1, 2.0]}, {"a": [1, -2.0]})
        ["result['a'][1]"]
        >>> differences({1: "a"}, {True: "a"})
        ['result (keys)']
    """
    return _walk(name, first, second, {})


def _walk(name: str, first: Any, second: Any, seen: dict[tuple[int, int], Any]) -> list[str]:
    """`seen` holds the pairs that were looked into, so that cycles end and no identity is used again."""
    found = []
    waiting = [(name, first, second)]
    while waiting:
        part, left, right = waiting.pop()
        if left is right or (id(left), id(right)) in seen:
            continue
        seen[id(left), id(right)] = left, right
        if type(left) is not type(right):
            found.append(f"{part} (type)")
            continue
        if isinstance(left, BY_IDENTITY):
            found.append(part)
            continue
        mine, other = parts_of(left), parts_of(right)
        outside = [
            part + label
            for (label, a), (_, b) in zip(mine.frame, other.frame, strict=True)
            if _walk("", a, b, seen)
        ]
        if outside:
            found.append(outside[0])
        elif mine.mark != other.mark or len(mine.inside) != len(other.inside):
            found.append(part)
        else:
            pairs = zip(reversed(mine.inside), reversed(other.inside), strict=True)
            waiting += [(part + label, a, b) for (label, a), (_, b) in pairs]
    return found
