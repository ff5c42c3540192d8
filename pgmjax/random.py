"""Randomness that is not noise: sampling of rows, restarts of optimisers.

The one module beside the seeded noise backend that may call a random generator. It takes no
table: nothing made here may stand for the noise that protects a release.
"""

from __future__ import annotations

import numpy as np

from pgmjax import _checks


def generator(seed: int) -> np.random.Generator:
    """Return a NumPy generator for a seed.

    Args:
        seed: a non-negative integer.

    Example:
        >>> generator(0).integers(10, size=3).tolist() == generator(0).integers(10, size=3).tolist()
        True
    """
    return np.random.default_rng(_checks.integer("seed", seed, low=0))
