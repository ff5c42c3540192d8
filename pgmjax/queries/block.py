"""The interface of a query on one attribute: a matrix whose size is known only when it is bound.

`FrozenArray` holds its numbers. It is read-only, hashable and compared by content, so that a query can be
a static argument under `jax.jit`.
"""

from __future__ import annotations

import abc
import dataclasses
import hashlib
import numbers
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.migration import Named, instead
from pgmjax.data.attribute import Attribute, Code
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
        pass

    @abc.abstractmethod
    def _matrix(self, size: int) -> np.ndarray: ...

    def _apply(self, table: Any, axis: int, xp: Any) -> Any:
        return contract(self._matrix(table.shape[axis]), table, axis, xp)

    def _arguments(self) -> Any:
        return None


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


def as_written(code: Value) -> Any:
    """Return a code or value as a file has it; the inverse of `code_or_value`."""
    return {"code": int(code)} if isinstance(code, Code) else code


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
