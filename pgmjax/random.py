"""Randomness that is not noise: sampling of rows, restarts of optimisers.

The one module beside the seeded noise backend that may call a random generator. It takes no
table: nothing made here may stand for the noise that protects a release.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from pgmjax._internal import checks


def generator(seed: int) -> np.random.Generator:
    """Return a NumPy generator for a seed.

    Args:
        seed: a non-negative integer.

    Example:
        >>> generator(0).integers(10, size=3).tolist() == generator(0).integers(10, size=3).tolist()
        True
    """
    return np.random.default_rng(checks.integer("seed", seed, low=0))


def generators(seed: int, number: int) -> list[np.random.Generator]:
    """Return NumPy generators [number] for a seed, independent of one another and of `generator(seed)`.

    Args:
        seed: a non-negative integer.
        number: how many; the first ones are the same for any number.

    Example:
        >>> first, second = generators(0, 2)
        >>> first.random() != second.random()
        True
    """
    entropy = checks.integer("seed", seed, low=0)
    return [np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(i,))) for i in range(number)]


def key(seed: int, jax: ModuleType) -> Any:
    """Return a key of the device's generator for a seed.

    Args:
        seed: a non-negative integer below 2**63.
        jax: the module `jax`, which this one does not import.
    """
    with jax.enable_x64(True):  # elsewhere only the lower 32 bits of a seed count
        return jax.random.key(checks.integer("seed", seed, low=0, high=2**63 - 1))


def split(key: Any, number: int, jax: ModuleType) -> Any:
    """Return independent keys [number] for one, which is then used up."""
    return jax.random.split(key, number)


def uniforms(key: Any, shape: tuple[int, ...], jax: ModuleType) -> Any:
    """Return uniform numbers in (0, 1] of the shape, on the device."""
    return 1 - jax.random.uniform(key, shape)


def normals(key: Any, shape: tuple[int, ...], jax: ModuleType) -> Any:
    """Return standard Gaussian numbers of the shape, on the device."""
    return jax.random.normal(key, shape)


def fold(key: Any, number: Any, jax: ModuleType) -> Any:
    """Return the key that a number picks out of one; different numbers give independent keys."""
    return jax.random.fold_in(key, number)


def positions(key: Any, rows: int, jax: ModuleType) -> Any:
    """Return uniform numbers in [0, 1) of 52 bits [rows], on the device, where 64-bit numbers are allowed."""
    return jax.random.uniform(key, (rows,), "float64")
