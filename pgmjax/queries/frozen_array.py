"""A read-only array that can be hashed and compared, so that it may be static under `jax.jit`."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np


class FrozenArray:
    """A read-only NumPy array of integers, floats or booleans, hashed and compared by content.

    Integers are kept as int64, booleans as bool and everything else as float64.

    Args:
        values: a rectangular sequence of finite numbers.
        name: what the array is, for the messages.
        dimensions: how many axes it must have; any number when left out.

    Raises:
        TypeError: the entries are not numbers.
        ValueError: ragged, empty, not finite, or of other dimensions than asked for.

    Example:
        >>> FrozenArray([[1, 2]]) == FrozenArray([[1, 2]])
        True
    """

    __slots__ = ("_digest", "array")

    array: np.ndarray
    _digest: str

    def __init__(self, values: Any, name: str = "the array", dimensions: int | None = None) -> None:
        array = _checked(values, name)
        if dimensions is not None and array.ndim != dimensions:
            raise ValueError(f"{name} must have {dimensions} dimensions, got shape {array.shape}.")
        if array.size == 0:
            raise ValueError(f"{name} must not be empty, got shape {array.shape}.")
        array.flags.writeable = False
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


def _checked(values: Any, name: str) -> np.ndarray:
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} must be rectangular: its rows have different lengths.") from error
    if array.dtype.kind == "b":
        return np.array(array, dtype=bool, order="C")
    if array.dtype.kind in "iu":
        if array.size and int(array.max()) > np.iinfo(np.int64).max:
            raise ValueError(f"{name} must fit 64-bit signed integers.")
        return np.array(array, dtype=np.int64, order="C")
    if array.dtype.kind != "f":
        raise TypeError(f"{name} must hold real numbers, got entries of type {array.dtype}.")
    array = np.array(array, dtype=np.float64, order="C")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must hold finite numbers; {int((~np.isfinite(array)).sum())} are not.")
    return array
