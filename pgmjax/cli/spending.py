"""Track the spending of a run, and say what was spent where it did not become a release."""

from __future__ import annotations

import contextlib
import json
import pathlib
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax._internal import files
from pgmjax.cli import process
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace, DiscreteNoise
from pgmjax.mechanisms.base import FitError
from pgmjax.privacy.backend import NoiseBackend
from pgmjax.privacy.exact import as_text
from pgmjax.privacy.response import KaryResponse, UnaryResponse
from pgmjax.privacy.selection import ExponentialMechanism, PermuteAndFlip, SelectionDistribution

AGAIN = "Run the same command again: it goes on under the same charge of the ledger, at no further cost."


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


def stage(error: Exception, measured: bool) -> str:
    """Return a message on the stage of a run that failed, and why."""
    name = "fit" if isinstance(error, FitError) else "writing" if measured else "measuring"
    reason = str(_cause(error)).strip().rstrip(".") or type(_cause(error)).__name__
    return f"The {name} failed: {reason}"


def _cause(error: BaseException) -> BaseException:
    return error.__cause__ or error if isinstance(error, FitError) else error


def record(folder: pathlib.Path, mechanism: Any, error: BaseException) -> None:
    """Write `spent.json` into the folder of a run that ended early.

    Args:
        folder: the folder with the noisy answers, which may be published if the noise is secure.
        mechanism: the mechanism with its privacy parameters.
        error: the error; only its class name is written.
    """
    numbers = {"epsilon": as_text(mechanism.epsilon), "delta": as_text(mechanism.delta)}
    spent = {
        "format": "pgmjax-failed-release",
        "mechanism": mechanism.name,
        **numbers,
        "relation": mechanism.relation.value,
        "spent": numbers,
        "secure": mechanism.backend.secure,
        "seed": mechanism.backend.seed,
        "error": type(_cause(error)).__name__,
    }
    with contextlib.suppress(OSError), files.replacing(folder / "spent.json") as path:  # the answers matter
        path.write_text(json.dumps(spent, indent=2) + "\n", encoding="utf-8")
