"""Track the spending of a run, and save paid answers that did not become a release."""

from __future__ import annotations

import hashlib
import os
import pathlib
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax.cli import process
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace, DiscreteNoise
from pgmjax.mechanisms.base import FitError
from pgmjax.privacy.backend import NoiseBackend, passes_on
from pgmjax.privacy.exact import as_text
from pgmjax.privacy.response import KaryResponse, UnaryResponse
from pgmjax.privacy.selection import ExponentialMechanism, PermuteAndFlip, SelectionDistribution
from pgmjax.release import run_folder

_RESUME = (
    "Run the same command again, or pgmjax release --resume {}: it continues from these answers "
    "at no further cost"
)
_LONGEST = 200  # bytes of a name, of the 255 that file systems allow
AGAIN = "Run the same command again: it continues under the same charge in the ledger, at no further cost."


@passes_on
class WatchedBackend:
    """A noise backend that forwards to another one and records whether noise was drawn.

    The budget of a run is charged just before its noise is drawn.

    Attributes:
        drawn: whether noise was drawn, by this object or by one that `restart` returned.
    """

    def __init__(self, backend: NoiseBackend, parent: WatchedBackend | None = None):
        self._backend = backend
        self._parent = parent
        self.name, self.secure, self.seed = backend.name, backend.secure, backend.seed
        self.drawn = False

    def restart(self) -> WatchedBackend:
        """Return the backend for one run."""
        return WatchedBackend(self._backend.restart(), self)

    def laplace(self, sensitivity: int, epsilon: Fraction) -> DiscreteLaplace:
        """Return the wrapped backend's distribution."""
        process.check()
        return self._backend.laplace(sensitivity, epsilon)

    def gaussian(self, sensitivity_squared: int, rho: Fraction) -> DiscreteGaussian:
        """Return the wrapped backend's distribution."""
        process.check()
        return self._backend.gaussian(sensitivity_squared, rho)

    def permute_and_flip(self, sensitivity: int, epsilon: Fraction, monotone: bool = False) -> PermuteAndFlip:
        """Return the wrapped backend's distribution."""
        process.check()
        return self._backend.permute_and_flip(sensitivity, epsilon, monotone)

    def exponential(
        self, sensitivity: int, epsilon: Fraction, monotone: bool = False
    ) -> ExponentialMechanism:
        """Return the wrapped backend's distribution."""
        process.check()
        return self._backend.exponential(sensitivity, epsilon, monotone)

    def randomized_response(self, size: int, epsilon: Fraction) -> KaryResponse:
        """Return the wrapped backend's distribution."""
        process.check()
        return self._backend.randomized_response(size, epsilon)

    def unary_response(self, size: int, epsilon: Fraction, symmetric: bool = False) -> UnaryResponse:
        """Return the wrapped backend's distribution."""
        process.check()
        return self._backend.unary_response(size, epsilon, symmetric)

    def draw(self, distribution: DiscreteNoise, size: int) -> np.ndarray:
        """Return the wrapped backend's noise, int64 [size]."""
        self._note()
        return self._backend.draw(distribution, size)

    def choose(self, distribution: SelectionDistribution, scores: np.ndarray) -> int:
        """Return the wrapped backend's choice."""
        self._note()
        return self._backend.choose(distribution, scores)

    def choose_several(
        self, distribution: SelectionDistribution, scores: np.ndarray, draws: int
    ) -> np.ndarray:
        """Return the wrapped backend's choices, int64 [draws]."""
        self._note()
        return self._backend.choose_several(distribution, scores, draws)

    def respond(self, distribution: KaryResponse, codes: np.ndarray) -> np.ndarray:
        """Return the wrapped backend's answers, int64 [n]."""
        self._note()
        return self._backend.respond(distribution, codes)

    def respond_bits(self, distribution: UnaryResponse, codes: np.ndarray) -> np.ndarray:
        """Return the wrapped backend's answers, bool [n, size]."""
        self._note()
        return self._backend.respond_bits(distribution, codes)

    def _note(self) -> None:
        self.drawn = True
        if self._parent is not None:
            self._parent._note()


def price(mechanism: Any) -> str:
    """Return the budget of a run of a mechanism as text."""
    delta = f", delta = {as_text(mechanism.delta)}" if mechanism.delta else ""
    return f"epsilon = {as_text(mechanism.epsilon)}{delta}"


def after_interrupt(out: pathlib.Path, *, resumable: bool = False) -> str:
    """Return a message on what an interrupt left.

    Args:
        out: where the release was to be.
        resumable: whether a ledger keeps the run's charge and answers.
    """
    partial = partial_of(out)
    if (out / "release.json").is_file():
        return f"interrupted; the release is at {out}"
    if partial.is_dir():
        return f"interrupted; the noisy answers are in {partial}. {_RESUME.format(partial)}"
    return f"interrupted; nothing was written. {AGAIN}" if resumable else "interrupted; nothing was spent"


def after_failure(error: Exception, mechanism: Any, out: pathlib.Path) -> str:
    """Return a message on what failed after a run had its first noise, and what it left."""
    cause = error.__cause__ if isinstance(error, FitError) and error.__cause__ else error
    reason = str(cause).strip().rstrip(".") or type(cause).__name__
    partial = partial_of(out)
    measured = (partial / run_folder.MEASUREMENTS).is_file()
    stage = "fit" if isinstance(error, FitError) else "writing" if measured else "measuring"
    said = f"The {stage} failed: {reason}. The budget is spent ({price(mechanism)})"
    kept = f"; the noisy answers are in {partial}. {_RESUME.format(partial)}" if partial.is_dir() else ""
    return f"{said}{kept}."


def partial_of(out: pathlib.Path) -> pathlib.Path:
    """Return the folder in which a release is made: OUT.partial, of a long name the beginning."""
    name = out.name
    if len(os.fsencode(name)) > _LONGEST:
        name = f"{name[:50]}-{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}"
    return out.with_name(f"{name}.partial")
