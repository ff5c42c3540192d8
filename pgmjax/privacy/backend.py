"""What draws noise: one small interface with two implementations.

`OpenDPBackend` is the default and the only one whose releases are secure. `SeededBackend` draws the
same laws from a seed, for research that must be repeatable, and marks what it makes as not secure.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol

import numpy as np

from pgmjax.laws import DiscreteGaussian, DiscreteLaplace, Law


class NoiseBackend(Protocol):
    """Integer noise for integer answers.

    Attributes:
        name: what releases record.
        secure: True only where the noise comes from a vetted sampler with operating-system entropy.
        seed: the seed, None where there is none.
    """

    name: str
    secure: bool
    seed: int | None

    def restart(self) -> NoiseBackend:
        """Return the backend that one run uses: a seeded one starts its stream anew."""
        ...

    def laplace(self, sensitivity: int, epsilon: Fraction) -> DiscreteLaplace:
        """Return the law this backend draws for an exact L1 sensitivity and epsilon."""
        ...

    def gaussian(self, sensitivity_squared: int, rho: Fraction) -> DiscreteGaussian:
        """Return the law this backend draws for an exact squared L2 sensitivity and rho."""
        ...

    def draw(self, law: Law, size: int) -> np.ndarray:
        """Return independent noise, int64 [size]."""
        ...


def default_backend() -> NoiseBackend:
    """Return the secure backend.

    Raises:
        ImportError: OpenDP is not installed; the message names the command that installs it.
    """
    from pgmjax.privacy.backend_opendp import OpenDPBackend

    return OpenDPBackend()
