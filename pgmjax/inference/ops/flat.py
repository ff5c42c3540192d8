"""Tables of several shapes in one vector, each in row-major order."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def split(vector: Any, shapes: Sequence[tuple[int, ...]]) -> tuple[Any, ...]:
    """Cut a vector into tables; what is left at its end is ignored.

    Example:
        >>> [table.shape for table in split(np.arange(9), [(2, 3), (2,)])]
        [(2, 3), (2,)]
    """
    ends = list(itertools.accumulate(map(math.prod, shapes)))
    if isinstance(vector, np.ndarray):
        starts = [0, *ends]
        return tuple(
            vector[start:end].reshape(shape) for start, end, shape in zip(starts, ends, shapes, strict=False)
        )
    return tuple(
        jax.lax.slice(vector, (end - math.prod(shape),), (end,)).reshape(shape)
        for end, shape in zip(ends, shapes, strict=True)
    )


def join(tables: Sequence[jax.Array], length: int | None = None) -> jax.Array:
    """All tables in one vector, with zeros up to a length."""
    parts = [jnp.ravel(table) for table in tables]
    rest = 0 if length is None else length - sum(part.size for part in parts)
    if rest or not parts:
        parts.append(jnp.zeros(rest, parts[0].dtype if parts else None))
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts)


def host_join(tables: Sequence[Any], dtype: Any, length: int | None = None) -> np.ndarray:
    """As `join`, in NumPy, cast to a dtype."""
    parts = [np.asarray(table).reshape(-1) for table in tables]
    size = sum(map(len, parts))
    vector = np.zeros(size if length is None else length, dtype)
    if parts:
        np.concatenate(parts, out=vector[:size], casting="unsafe")
    return vector
