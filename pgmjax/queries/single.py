"""Queries on one attribute by the names that a user writes: each function returns a block of `blocks`."""

from __future__ import annotations

from collections.abc import Iterable

from numpy.typing import ArrayLike

from pgmjax.queries import blocks
from pgmjax.queries.blocks import AttributeQuery, Value


def identity() -> AttributeQuery:
    """Return the query that counts every code by itself: the attribute is kept.

    Example:
        >>> identity().matrix(2).tolist()
        [[1, 0], [0, 1]]
    """
    return blocks.Identity()


def total() -> AttributeQuery:
    """Return the sum over all codes: the attribute is marginalised out.

    Example:
        >>> total().matrix(3).tolist()
        [[1, 1, 1]]
    """
    return blocks.Total()


def point(value: Value) -> AttributeQuery:
    """Return one row that counts the records with a given value (evidence).

    Args:
        value: a label, a bin such as "[20, 30)", or "missing", looked up in the domain that the query is
            asked over. A number is a value where values are numbers by themselves, such as the labels 1, 2
            and 3 or ages in years, and a code otherwise; `Code(1)` is a code in either case.

    Example:
        >>> point(1).matrix(3).tolist()
        [[0, 1, 0]]
        >>> from pgmjax.data.attribute import Attribute
        >>> point("Ideal").over(Attribute.from_spec("cut", {"labels": ["Fair", "Ideal"]})).matrix(2).tolist()
        [[0, 1]]
    """
    return blocks.Point(value)


def subset(values: Iterable[Value]) -> AttributeQuery:
    """Return one row that counts the records with any of the given values (evidence with alternatives).

    Args:
        values: distinct values, at least one; see `point`.

    Example:
        >>> subset([2, 0]).matrix(4).tolist()
        [[1, 0, 1, 0]]
    """
    return blocks.Subset(values)


def range(low: Value, high: Value) -> AttributeQuery:
    """Return one row that counts the records with a value from `low` to `high`, both included; see `point`.

    Example:
        >>> range(1, 2).matrix(4).tolist()
        [[0, 1, 1, 0]]
    """
    return blocks.Range(low, high)


def ranges(bounds: Iterable[Iterable[Value]]) -> AttributeQuery:
    """Return several ranges of values, one row a pair (low, high), both included; see `point`.

    Example:
        >>> ranges([(0, 1), (1, 2)]).matrix(3).tolist()
        [[1, 1, 0], [0, 1, 1]]
    """
    return blocks.Ranges(bounds)


def all_ranges() -> AttributeQuery:
    """Return every range of codes, in the order (0, 0), (0, 1), ..., (1, 1), ...: size * (size + 1) / 2 rows.

    Example:
        >>> all_ranges().matrix(2).tolist()
        [[1, 0], [1, 1], [0, 1]]
    """
    return blocks.AllRanges()


def prefix() -> AttributeQuery:
    """Return cumulative counts: the records with a code up to b, for every b; the last row is the total.

    Example:
        >>> prefix().matrix(3).tolist()
        [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """
    return blocks.Prefix()


def compression(groups: ArrayLike) -> AttributeQuery:
    """Return counts per group of codes, as for a coarser attribute.

    Args:
        groups: the row of each code, one entry per code; rows are 0..max(groups).

    Example:
        >>> compression([0, 1, 1]).matrix(3).tolist()
        [[1, 0, 0], [0, 1, 1]]
    """
    return blocks.Merge(groups)


def mean(values: ArrayLike | None = None) -> AttributeQuery:
    """Return the sum of a value over the records, one row: an unnormalised mean.

    Divided by the number of records, which is asked for by `total`, it is the mean.

    Args:
        values: the value of each code. Default: the number that it stands for, if each code stands for one.

    Example:
        >>> mean().matrix(3).tolist(), mean([0.0, 0.5, 1.0]).matrix(3).tolist()
        ([[0, 1, 2]], [[0.0, 0.5, 1.0]])
    """
    return blocks.Mean(values)


def moments(order: int, values: ArrayLike | None = None) -> AttributeQuery:
    """Return the sums of the first `order` powers of a value over the records, one row per power.

    Args:
        order: number of powers, at least 1.
        values: as for `mean`.

    Example:
        >>> moments(2).matrix(4).tolist()
        [[0, 1, 2, 3], [0, 1, 4, 9]]
    """
    return blocks.Moments(order, values)


def matrix(entries: ArrayLike) -> AttributeQuery:
    """Return any matrix over the codes of one attribute; entries may be negative.

    Args:
        entries: [rows, size], finite.

    Example:
        >>> matrix([[1, -1]]).rows(2)
        1
    """
    return blocks.Matrix(entries)
