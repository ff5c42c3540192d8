"""Query blocks on one attribute: single codes, neighbouring codes, groups of codes, numbers, any matrix.

The `Indicators` count records: `Identity`, `Total`, `Subset` and `Point` pick codes, `Ranges`, `Range`,
`AllRanges` and `Prefix` neighbouring ones, `Merge` groups. `Moments`, `Mean` and `Matrix` have other entries.

In float32, the running sum and the matrix product for `prefix` both have errors of about 1e-7 of the total
for up to 20,000 codes (XLA sums by a tree). Small sizes therefore use the product, which compiles six times
faster, and large ones the running sum.

`AttributeQuery` is their interface: a matrix whose size is known only when it is bound.

`FrozenArray` holds its numbers. It is read-only, hashable and compared by content, so that a query can be
a static argument under `jax.jit`.
"""

from __future__ import annotations

import abc
import dataclasses
import hashlib
import itertools
import numbers
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from pgmjax._internal import checks
from pgmjax._internal.migration import Named, instead
from pgmjax.data.attribute import Attribute, Code, code_of
from pgmjax.queries import columns
from pgmjax.queries.columns import Exact, Extremes

Value = Any
"""A value of an attribute, as a number or text, or a code of it: see `data.attribute.code_of`."""
SMALL_MATRIX = 65_536
"""Up to this many entries a block is applied as one matrix product: equally accurate, faster to compile."""


@dataclasses.dataclass(frozen=True)
class AttributeQuery(Named):
    """One factor of a query: a matrix [rows, size] over the codes 0..size-1 of one attribute.

    A block has no size until it is bound to an attribute. It is hashable and compared by content, so it
    can be a static argument under `jax.jit`. A new block is one class with `kind`, `rows` and `_matrix`;
    the other methods are shortcuts that must agree with the matrix. Only `check`, `matrix` and `apply` refuse
    a size that does not fit.

    References:
        McKenna et al. 2019, Appendix B.1, Table 2.
    """

    kind: ClassVar[str]

    __and__ = __or__ = instead(
        "Values of one attribute are queries.subset([1, 2]), and conditions on several join by & and |: "
        "history.builders.equals('sex', 'F') & history.builders.between('age', 18, 64)."
    )

    def check(self, size: int, attribute: str = "the attribute") -> None:
        """Refuse an attribute whose size does not fit this block.

        Raises:
            ValueError: the block does not fit; the message names the attribute and its size.
        """
        self._check(checks.integer(f"the size of {attribute}", size, low=1), attribute)

    def over(self, attribute: Attribute) -> AttributeQuery:
        """Return the block with the values that it names, such as labels, replaced by their codes.

        Raises:
            ValueError: the attribute has no such value.
        """
        return self

    @abc.abstractmethod
    def rows(self, size: int) -> int:
        """Return the number of answers on an attribute of `size` codes."""

    def matrix(self, size: int) -> np.ndarray:
        """Return the matrix [rows, size]: int64 when `is_integral`, float64 otherwise.

        Raises:
            ValueError: the block does not fit the size.
        """
        self.check(size)
        return self._matrix(size)

    def is_integral(self, size: int) -> bool:
        """Return whether every entry is an integer."""
        return True

    def is_nonnegative(self, size: int) -> bool:
        """Return whether no entry is negative."""
        return True

    def apply(self, table: Any, axis: int, xp: Any = np) -> Any:
        """Replace one axis of a table by the answers: [..., size, ...] to [..., rows, ...].

        Args:
            table: a NumPy array (integers stay exact) or a JAX array.
            axis: the axis of the attribute.
            xp: the module of the array, `numpy` or `jax.numpy`.
        """
        axis = axis % table.ndim
        self.check(table.shape[axis])
        return self._apply(table, axis, xp)

    def apply_transposed(self, weights: np.ndarray, axis: int, size: int) -> np.ndarray:
        """Replace one axis of weights by the codes: [..., rows, ...] to [..., size, ...], in NumPy.

        Args:
            weights: floats.
            axis: the axis of the attribute.
            size: number of codes.
        """
        return contract(self._matrix(size).T.astype(weights.dtype), weights, axis, np)

    def max_column(self, size: int, power: int) -> Exact:
        """Return the largest sum over a column of ``abs(entry) ** power``, for power 1 or 2."""
        return columns.max_column(self._matrix(size), power)

    def max_distance(self, size: int, power: int) -> Exact | None:
        """Return the largest sum over rows of ``abs(difference of two columns) ** power``.

        None if there is no closed form and there are too many columns to compare all pairs.
        """
        if size > columns.MAX_PAIRWISE_COLUMNS and self.rows(size) > 1:
            return None
        return columns.max_distance(self._matrix(size), power)

    def row_extremes(self, size: int) -> tuple[Extremes, ...]:
        """Return the smallest and largest entry of each row, without the dominated rows.

        See `queries.columns.row_extremes_of_matrix`.
        """
        return columns.row_extremes_of_matrix(self._matrix(size))

    def separates(self, size: int) -> bool:
        """Return whether any two columns are equal or have disjoint supports and equal norms.

        At least two columns must differ. Records that differ here then share no answer.
        """
        return False

    def to_spec(self) -> Any:
        """Return the workload-file form: a name, or a mapping of the name to its arguments."""
        arguments = self._arguments()
        return self.kind if arguments is None else {self.kind: arguments}

    def _check(self, size: int, attribute: str) -> None:
        """Refuse a size that does not fit, see `check`; most blocks fit any."""

    @abc.abstractmethod
    def _matrix(self, size: int) -> np.ndarray:
        """Return the matrix [rows, size] of a size that fits."""

    def _apply(self, table: Any, axis: int, xp: Any) -> Any:
        return contract(self._matrix(table.shape[axis]), table, axis, xp)

    def _arguments(self) -> Any:
        """Return what stands behind the name in a workload file; None if nothing does."""
        return next((as_written(getattr(self, field.name)) for field in dataclasses.fields(self)), None)


def code_or_value(name: str, given: Any) -> Value:
    """Return what a block takes for a value: a number, a text, or a code, in files written `{"code": 1}`.

    Raises:
        TypeError: neither.
        ValueError: a number that is not finite, or a code below 0.
    """
    if isinstance(given, str):
        return str(given)
    if isinstance(given, Mapping) and [*given] == ["code"]:
        return Code(checks.integer(f"the code in {name}", given["code"], low=0))
    if isinstance(given, Code):
        return given
    value = checks.number(name, given)
    return int(value) if value == int(value) else value


def as_written(given: Any) -> Any:
    """Return codes, values and numbers as a file has them, in lists where there are several."""
    if isinstance(given, tuple):
        return [as_written(each) for each in given]
    if isinstance(given, FrozenArray):
        return given.array.tolist()
    return {"code": int(given)} if isinstance(given, Code) else given


def contract(matrix: np.ndarray, table: Any, axis: int, xp: Any) -> Any:
    """Multiply one axis of `table` by `matrix` [rows, size], in full precision on every device."""
    if xp is np:
        result = np.tensordot(matrix, table, axes=(1, axis))
    else:
        dtype = table.dtype if xp.issubdtype(table.dtype, xp.inexact) else None
        result = xp.tensordot(xp.asarray(matrix, dtype), table, axes=(1, axis), precision="highest")
    return xp.moveaxis(result, 0, axis)


class FrozenArray:
    """A read-only NumPy array of integers, floats or booleans, hashed and compared by content.

    Integers are kept as int64, booleans as bool and everything else as float64.

    Args:
        values: a rectangular sequence of finite numbers.
        name: what the array is, for error messages.
        dimensions: the required number of axes. Default: any.

    Raises:
        TypeError: the entries are not numbers.
        ValueError: ragged, empty, not finite, or with the wrong number of axes.

    Example:
        >>> FrozenArray([[1, 2]]) == FrozenArray([[1, 2]])
        True
    """

    __slots__ = ("_digest", "array")

    array: np.ndarray
    _digest: str

    def __init__(self, values: Any, name: str = "the array", dimensions: int | None = None) -> None:
        array = real_array(name, values, booleans=True)
        if dimensions is not None and array.ndim != dimensions:
            raise ValueError(f"{name} must have {dimensions} dimensions, got shape {array.shape}.")
        object.__setattr__(self, "array", array)
        # with shape and type, as the same bytes may be other numbers
        content = repr((array.shape, array.dtype.str)).encode() + array.tobytes()
        object.__setattr__(self, "_digest", hashlib.sha256(content).hexdigest())

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a FrozenArray cannot be changed.")

    def __hash__(self) -> int:
        return hash(self._digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FrozenArray) and self._digest == other._digest

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenArray, (self.array,)

    def __repr__(self) -> str:
        return f"FrozenArray(shape={self.array.shape}, dtype={self.array.dtype})"


def real_array(name: str, values: Any, booleans: bool = False) -> np.ndarray:
    """Return real numbers as a read-only copy, int64 or float64 (or bool).

    Args:
        name: what they are, for error messages.
        values: a rectangular sequence of finite numbers.
        booleans: whether true and false are taken.

    Raises:
        TypeError: the entries are not numbers.
        ValueError: ragged, empty, not finite, beyond 64 bits, or with labels of pandas.
    """
    checks.unlabelled(name, values)
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} must be rectangular: its rows have different lengths.") from error
    if array.dtype.kind not in ("biuf" if booleans else "iuf"):
        kinds = {"U": "texts", "S": "texts", "b": "true and false", "c": "complex numbers"}
        strange = (type(each).__name__ for each in array.flat if not isinstance(each, numbers.Real))
        came = kinds.get(array.dtype.kind) or f"an entry of type {next(strange, 'int beyond 64 bits')}"
        raise TypeError(f"{name} must be real numbers, got {came}: give a list or an array of numbers.")
    if array.size == 0:
        raise ValueError(f"{name} must not be empty, got shape {array.shape}.")
    if array.dtype.kind == "u" and int(array.max()) > np.iinfo(np.int64).max:
        raise ValueError(f"{name} must fit 64-bit signed integers.")
    kept = {"f": np.float64, "b": np.bool_}.get(array.dtype.kind, np.int64)
    array = np.array(array, kept, order="C")
    wrong = int((~np.isfinite(array)).sum())
    if wrong:
        raise ValueError(
            f"{name} must be finite; {wrong} of {array.size} are not. Of a table in which some cells were "
            "not "
            "published, give each of the others as an answer by itself: query=Product({name: point(code)})."
        )
    array.flags.writeable = False
    return array


_LARGEST_EXACT = 2**53


class Indicators(AttributeQuery):
    """A block of zeros and ones, each of whose rows counts the records with some of the codes."""

    def row_extremes(self, size: int) -> tuple[Extremes, ...]:
        """Same as `AttributeQuery.row_extremes`: no row has both entries where all columns are equal."""
        return columns.CONSTANT if self.max_distance(size, 1) == 0 else columns.MIXED


class Grouping(Indicators):
    """Counts per group of codes: each record counts in one row, that of the group of its code."""

    @abc.abstractmethod
    def groups_of(self, size: int) -> np.ndarray:
        """Return the row of each code [size]."""

    def rows(self, size: int) -> int:
        """Same as `AttributeQuery.rows`."""
        return int(self.groups_of(size).max()) + 1

    def apply_transposed(self, weights: np.ndarray, axis: int, size: int) -> np.ndarray:
        """Same as `AttributeQuery.apply_transposed`."""
        return np.take(weights, self.groups_of(size), axis=axis)

    def max_column(self, size: int, power: int) -> int:
        """Same as `AttributeQuery.max_column`."""
        return 1

    def max_distance(self, size: int, power: int) -> int:
        """Same as `AttributeQuery.max_distance`."""
        return 2 if self.separates(size) else 0

    def separates(self, size: int) -> bool:
        """Same as `AttributeQuery.separates`."""
        groups = self.groups_of(size)
        return bool((groups != groups[0]).any())

    def _matrix(self, size: int) -> np.ndarray:
        return (self.groups_of(size) == np.arange(self.rows(size))[:, None]).astype(np.int64)


@dataclasses.dataclass(frozen=True)
class Identity(Grouping):
    """Every code by itself: the attribute is kept."""

    kind: ClassVar[str] = "identity"

    def groups_of(self, size: int) -> np.ndarray:
        """Same as `Grouping.groups_of`."""
        return np.arange(size)

    def rows(self, size: int) -> int:
        """Same as `AttributeQuery.rows`."""
        return size

    def separates(self, size: int) -> bool:
        """Same as `AttributeQuery.separates`, without an array: an open column has up to 2^31 - 1 cells."""
        return size > 1

    def apply_transposed(self, weights: np.ndarray, axis: int, size: int) -> np.ndarray:
        """Same as `AttributeQuery.apply_transposed`."""
        return weights

    def _apply(self, table: Any, axis: int, xp: Any) -> Any:
        return table


@dataclasses.dataclass(frozen=True)
class Total(Grouping):
    """The sum over all codes: the attribute is marginalised out."""

    kind: ClassVar[str] = "total"

    def groups_of(self, size: int) -> np.ndarray:
        """Same as `Grouping.groups_of`."""
        return np.zeros(size, np.int64)

    def _apply(self, table: Any, axis: int, xp: Any) -> Any:
        return xp.sum(table, axis=axis, keepdims=True)


@dataclasses.dataclass(frozen=True, init=False)
class Subset(Indicators):
    """One row that counts the records with any of the given codes (evidence with alternatives)."""

    kind: ClassVar[str] = "subset"
    codes: tuple[Value, ...]

    def __init__(self, codes: Iterable[Value]) -> None:
        listed = checks.several("the values of a subset", codes, "values")
        given = [code_or_value(f"a value of a {self.kind}", code) for code in listed]
        # numbers before texts, as the two do not compare
        kept = tuple(sorted(given, key=lambda code: (isinstance(code, str), code)))
        if not kept or len(set(kept)) != len(kept):
            raise ValueError(
                f"subset needs distinct codes, at least one, got {len(kept)} of which "
                f"{len(set(kept))} are distinct."
            )
        object.__setattr__(self, "codes", kept)

    def over(self, attribute: Attribute) -> Subset:
        """Same as `AttributeQuery.over`."""
        return Subset(code_of(attribute, code) for code in self.codes)

    def rows(self, size: int) -> int:
        """Same as `AttributeQuery.rows`."""
        return 1

    def _check(self, size: int, attribute: str) -> None:
        for code in self.codes:
            _check_code(code, size, attribute, self.kind)

    def _matrix(self, size: int) -> np.ndarray:
        return np.isin(np.arange(size), self.codes).astype(np.int64)[None, :]

    def _apply(self, table: Any, axis: int, xp: Any) -> Any:
        return xp.sum(xp.take(table, np.array(self.codes), axis=axis), axis=axis, keepdims=True)


@dataclasses.dataclass(frozen=True, init=False)
class Point(Subset):
    """One row that counts the records with a given code (evidence)."""

    kind: ClassVar[str] = "point"

    def __init__(self, code: Value) -> None:
        super().__init__([code])

    def over(self, attribute: Attribute) -> Point:
        """Same as `AttributeQuery.over`."""
        return Point(code_of(attribute, self.codes[0]))

    def _arguments(self) -> Any:
        return as_written(self.codes[0])


def _ends_in(attribute: Attribute, pair: tuple[Value, Value]) -> list[int]:
    """Return the codes of the ends of a range of values."""
    try:
        return [code_of(attribute, end) for end in pair]
    except ValueError as error:
        numbers_given = all(isinstance(end, int | float) and not isinstance(end, Code) for end in pair)
        if attribute.bins is None or attribute.time is not None or not numbers_given:
            raise
        low, high, name = *pair, attribute.name
        edges = ", ".join(f"{edge:g}" for edge in attribute.bins[:12])
        raise ValueError(
            f"{name!r} has bins, and a range of it has bins or codes as its ends, both included. Write a "
            f"condition as text, '{name}>={low},{name}<{high}', whose bounds are edges, {edges}; "
            "release.query takes any."
        ) from error


@dataclasses.dataclass(frozen=True, init=False)
class Ranges(Indicators):
    """Several ranges of codes, one row per range, both ends included; see `Point`."""

    kind: ClassVar[str] = "ranges"
    bounds: tuple[tuple[Value, Value], ...]

    def __init__(self, bounds: Iterable[Iterable[Value]]) -> None:
        pairs = tuple(map(_bounds, checks.several("the ranges", bounds, "pairs (low, high)")))
        if not pairs:
            raise ValueError("ranges needs at least one pair (low, high), got none.")
        object.__setattr__(self, "bounds", pairs)

    def over(self, attribute: Attribute) -> Ranges:
        """Same as `AttributeQuery.over`."""
        return Ranges(_ends_in(attribute, pair) for pair in self.bounds)

    def rows(self, size: int) -> int:
        """Same as `AttributeQuery.rows`."""
        return len(self.bounds)

    def max_column(self, size: int, power: int) -> int:
        """Same as `AttributeQuery.max_column`: the largest number of ranges that cover one code."""
        bounds: np.ndarray = np.array(self.bounds)
        change = np.zeros(size + 1, np.int64)
        # a range adds 1 at its low end and takes it away behind its high end: running sums count the cover
        np.add.at(change, bounds[:, 0], 1)
        np.add.at(change, bounds[:, 1] + 1, -1)
        return int(np.cumsum(change).max())

    def row_extremes(self, size: int) -> tuple[Extremes, ...]:
        """Same as `AttributeQuery.row_extremes`."""
        covered = all(high - low + 1 == size for low, high in self.bounds)
        return columns.CONSTANT if covered else columns.MIXED

    def _check(self, size: int, attribute: str) -> None:
        for code in itertools.chain(*self.bounds):
            _check_code(code, size, attribute, self.kind)

    def _matrix(self, size: int) -> np.ndarray:
        return _range_matrix(np.array(self.bounds), size)

    def _apply(self, table: Any, axis: int, xp: Any) -> Any:
        return _apply_ranges(np.array(self.bounds), table, axis, xp)


@dataclasses.dataclass(frozen=True, init=False)
class Range(Ranges):
    """One row that counts the records with a code from `low` to `high`, both included; see `Point`."""

    kind: ClassVar[str] = "range"

    def __init__(self, low: Value, high: Value) -> None:
        super().__init__([(low, high)])

    def over(self, attribute: Attribute) -> Range:
        """Same as `AttributeQuery.over`."""
        return Range(*_ends_in(attribute, self.bounds[0]))

    def _apply(self, table: Any, axis: int, xp: Any) -> Any:
        ((low, high),) = self.bounds
        return xp.sum(_cut(table, axis, low, high + 1), axis=axis, keepdims=True)

    def _arguments(self) -> Any:
        return as_written(self.bounds[0])


@dataclasses.dataclass(frozen=True)
class AllRanges(Indicators):
    """Every range of codes, in the order (0, 0), (0, 1), ..., (1, 1), ...: size * (size + 1) / 2 rows."""

    kind: ClassVar[str] = "all_ranges"

    def rows(self, size: int) -> int:
        """Same as `AttributeQuery.rows`."""
        return size * (size + 1) // 2

    def max_column(self, size: int, power: int) -> int:
        """Same as `AttributeQuery.max_column`: the middle code is in most ranges."""
        return ((size + 1) // 2) * (size // 2 + 1)

    def max_distance(self, size: int, power: int) -> int:
        """Same as `AttributeQuery.max_distance`.

        With s the codes up to a, and from b > a on, s (size + 1 - s) ranges hold one of a and b alone: most
        for the s in the middle, and as many as the middle code is in.
        """
        return self.max_column(size, power) if size > 1 else 0

    def _matrix(self, size: int) -> np.ndarray:
        return _range_matrix(np.stack(np.triu_indices(size), axis=1), size)

    def _apply(self, table: Any, axis: int, xp: Any) -> Any:
        return _apply_ranges(np.stack(np.triu_indices(table.shape[axis]), axis=1), table, axis, xp)


@dataclasses.dataclass(frozen=True)
class Prefix(Indicators):
    """Cumulative counts: the records with a code up to b, for every b; the last row is the total."""

    kind: ClassVar[str] = "prefix"

    def rows(self, size: int) -> int:
        """Same as `AttributeQuery.rows`."""
        return size

    def apply_transposed(self, weights: np.ndarray, axis: int, size: int) -> np.ndarray:
        """Same as `AttributeQuery.apply_transposed`."""
        return np.flip(np.cumsum(np.flip(weights, axis), axis=axis), axis)

    def max_column(self, size: int, power: int) -> int:
        """Same as `AttributeQuery.max_column`."""
        return size

    def max_distance(self, size: int, power: int) -> int:
        """Same as `AttributeQuery.max_distance`."""
        return size - 1

    def _matrix(self, size: int) -> np.ndarray:
        return np.tri(size, dtype=np.int64)

    def _apply(self, table: Any, axis: int, xp: Any) -> Any:
        size = table.shape[axis]
        if xp is not np and size * size <= SMALL_MATRIX:
            return super()._apply(table, axis, xp)
        return xp.cumsum(table, axis=axis)


@dataclasses.dataclass(frozen=True, init=False)
class Merge(Grouping):
    """Counts per group of codes, as for a coarser attribute."""

    kind: ClassVar[str] = "compression"
    groups: FrozenArray

    def __init__(self, groups: ArrayLike) -> None:
        rows = FrozenArray(groups, "the groups of a compression", 1)
        if rows.array.dtype != np.int64:
            raise TypeError(f"the groups of a compression must be integers, got {rows.array.dtype}.")
        if rows.array.min() < 0:
            raise ValueError("the groups of a compression must be rows >= 0, got a negative one.")
        object.__setattr__(self, "groups", rows)

    def groups_of(self, size: int) -> np.ndarray:
        """Same as `Grouping.groups_of`."""
        return self.groups.array

    def _check(self, size: int, attribute: str) -> None:
        _check_length(self.groups, 0, size, attribute, self.kind)

    def _apply(self, table: Any, axis: int, xp: Any) -> Any:
        size = table.shape[axis]
        if self.rows(size) * size <= SMALL_MATRIX:
            return super()._apply(table, axis, xp)
        first = xp.moveaxis(table, axis, 0)
        result = xp.zeros((self.rows(size), *first.shape[1:]), table.dtype)
        if xp is np:
            # codes of one group add to one row, of which plain indexing would keep the last code only
            np.add.at(result, self.groups.array, first)
        else:
            result = result.at[xp.asarray(self.groups.array)].add(first)
        return xp.moveaxis(result, 0, axis)


@dataclasses.dataclass(frozen=True, init=False)
class Moments(AttributeQuery):
    """The sums of the first `order` powers of a value over the records, unnormalised, one row per power."""

    kind: ClassVar[str] = "moments"
    _written: ClassVar[str] = (
        "queries.moments(2, [9, 26.5, ...]), in a file {moments: {order: 2, values: [9, ...]}}"
    )
    order: int
    values: FrozenArray | None

    def __init__(self, order: int, values: ArrayLike | None = None) -> None:
        given = None if values is None else _numbers(values, f"the values of the {self.kind} query", 1)
        checks.set_fields(self, order=checks.integer("the number of moments", order, low=1), values=given)

    def over(self, attribute: Attribute) -> AttributeQuery:
        """Same as `AttributeQuery.over`; without values they are the numbers that the codes stand for.

        Raises:
            ValueError: no values were given, and a code stands for a word, a range, a date or a missing one.
        """
        if self.values is not None or (numbers := _quantities(attribute)) == [*range(attribute.size)]:
            return self
        if numbers is None:
            has = [name for name in ("labels", "bins") if getattr(attribute, name) is not None]
            raise ValueError(
                f"{attribute.name!r} has {has[0] if has else 'a code for missing values'}, whose codes are "
                f"no quantities: give the number of each of its {attribute.size} codes, "
                f"{', '.join(attribute.code_names()[:6])}, as in {self._written}. The answer is a sum over "
                "the records; divided by their number it is the mean."
            )
        return Mean(numbers) if self.kind == "mean" else Moments(self.order, numbers)

    def rows(self, size: int) -> int:
        """Same as `AttributeQuery.rows`."""
        return self.order

    def is_integral(self, size: int) -> bool:
        """Same as `AttributeQuery.is_integral`."""
        values = self._values(size)
        # in Python's integers, as the power may exceed 64 bits
        return values.dtype == np.int64 and int(np.abs(values).max()) ** self.order < _LARGEST_EXACT

    def is_nonnegative(self, size: int) -> bool:
        """Same as `AttributeQuery.is_nonnegative`."""
        return bool(self._values(size).min() >= 0)

    def _values(self, size: int) -> np.ndarray:
        return np.arange(size) if self.values is None else self.values.array

    def _check(self, size: int, attribute: str) -> None:
        if self.values is not None:
            _check_length(self.values, 0, size, attribute, self.kind)
        largest = float(np.abs(self._values(size)).max())
        if largest > 1 and self.order * np.log2(largest) >= 1000:
            raise ValueError(
                f"{self.order} moments of {attribute} overflow: its values reach a power above 1e300. "
                "Ask for fewer moments or give smaller values."
            )

    def _matrix(self, size: int) -> np.ndarray:
        values = self._values(size)
        if not self.is_integral(size):
            values = values.astype(np.float64)
        return values[None, :] ** np.arange(1, self.order + 1)[:, None]

    def _arguments(self) -> Any:
        if self.values is None:
            return self.order
        return {"order": self.order, "values": as_written(self.values)}


@dataclasses.dataclass(frozen=True, init=False)
class Mean(Moments):
    """The sum of a value over the records, one row: an unnormalised mean, the first moment."""

    kind: ClassVar[str] = "mean"
    _written: ClassVar[str] = 'queries.mean([9, 26.5, ...]), in a file {"mean": [9, 26.5, ...]}'

    def __init__(self, values: ArrayLike | None = None) -> None:
        if isinstance(values, str):
            raise TypeError(
                f"the attribute is named by the product: write kronecker({{{values!r}: mean()}})."
            )
        super().__init__(1, values)

    def _arguments(self) -> Any:
        return as_written(self.values)


@dataclasses.dataclass(frozen=True, init=False)
class Matrix(AttributeQuery):
    """Any matrix over the codes of one attribute; entries may be negative."""

    kind: ClassVar[str] = "matrix"
    entries: FrozenArray

    def __init__(self, entries: ArrayLike) -> None:
        object.__setattr__(self, "entries", _numbers(entries, "the entries of a matrix query", 2))

    def rows(self, size: int) -> int:
        """Same as `AttributeQuery.rows`."""
        return self.entries.array.shape[0]

    def is_integral(self, size: int) -> bool:
        """Same as `AttributeQuery.is_integral`."""
        return self.entries.array.dtype == np.int64

    def is_nonnegative(self, size: int) -> bool:
        """Same as `AttributeQuery.is_nonnegative`."""
        return bool(self.entries.array.min() >= 0)

    def _check(self, size: int, attribute: str) -> None:
        _check_length(self.entries, 1, size, attribute, self.kind)

    def _matrix(self, size: int) -> np.ndarray:
        return self.entries.array


def _quantities(attribute: Attribute) -> list[float] | None:
    """Return the number that each code stands for; None if one stands for something else, or for a range."""
    if attribute.missing or attribute.other:
        return None
    found: Any = attribute.numbers
    if found is None and attribute.labels is None and attribute.bins is None:
        found = range(attribute.size)
    if found is None or len(found) != attribute.size:
        return None
    return [int(each) if each == int(each) else each for each in found]


def _check_code(code: Value, size: int, attribute: str, kind: str) -> None:
    """Refuse a code that an attribute of `size` codes does not have, and a value whose code is not known."""
    if isinstance(code, str):
        raise ValueError(
            f"the {kind} query names {code!r}, a value of {attribute}, and codes are needed here: write "
            "query.over(domain)."
        )
    if not 0 <= code < size or not isinstance(code, int):
        raise ValueError(
            f"the {kind} query names code {code}, but {attribute} has codes 0..{size - 1}: codes are places "
            "in the domain. Conditions such as 'age>=18,age<40' ask in values: Synthesizer.query, or pgmjax "
            "query."
        )


def _cut(table: Any, axis: int, low: int, high: int) -> Any:
    """Return the part of a table with codes low..high-1 on one axis."""
    return table[(*[slice(None)] * axis, slice(low, high))]


def _bounds(pair: Any) -> tuple[Value, Value]:
    pair = checks.several(
        "a range", pair, "two codes or values", "give pairs, as in ranges([(0, 9), (5, 14)])"
    )
    if len(pair) != 2:
        raise ValueError(f"a range is a pair (low, high), got {len(pair)} numbers.")
    low = code_or_value("the low end of a range", pair[0])
    high = code_or_value("the high end of a range (included)", pair[1])
    if isinstance(low, str) or isinstance(high, str):
        return low, high
    if high < low:
        raise ValueError(
            f"the high end of a range (included) must be at least its low end {low}, got {high}."
        )
    return low, high


def _range_matrix(bounds: np.ndarray, size: int) -> np.ndarray:
    codes = np.arange(size)
    return ((codes >= bounds[:, :1]) & (codes <= bounds[:, 1:])).astype(np.int64)


def _apply_ranges(bounds: np.ndarray, table: Any, axis: int, xp: Any) -> Any:
    """Answer ranges as differences of cumulative sums, or by one matrix product if that is small."""
    size = table.shape[axis]
    if xp is not np and len(bounds) * size <= SMALL_MATRIX:
        return contract(_range_matrix(bounds, size), table, axis, xp)
    sums = xp.cumsum(table, axis=axis)
    # from 0 on, so that every range is the difference at its two ends
    sums = xp.concatenate([xp.zeros_like(_cut(sums, axis, 0, 1)), sums], axis=axis)
    return xp.take(sums, bounds[:, 1] + 1, axis=axis) - xp.take(sums, bounds[:, 0], axis=axis)


def _numbers(values: Any, name: str, dimensions: int) -> FrozenArray:
    """Freeze numbers; floats that are all whole numbers below 2**53 become integers and stay exact."""
    frozen = FrozenArray(values, name, dimensions)
    array = frozen.array
    exact = (array == np.round(array)).all() and np.abs(array).max() < _LARGEST_EXACT
    return FrozenArray(array.astype(np.int64), name, dimensions) if exact else frozen


def _check_length(array: FrozenArray, axis: int, size: int, attribute: str, kind: str) -> None:
    length = array.array.shape[axis]
    if length != size:
        raise ValueError(
            f"the {kind} query has {length} {'columns' if axis else 'entries'}: {attribute} needs {size}, "
            "one for each code, the missing one included."
        )
