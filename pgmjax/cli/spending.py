"""Track the spending of a run, and save paid answers that did not become a release."""

from __future__ import annotations

import itertools
import json
import os
import pathlib
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax.cli import process
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace, DiscreteNoise
from pgmjax.mechanisms.base import FitError
from pgmjax.privacy.backend import NoiseBackend
from pgmjax.privacy.exact import as_text
from pgmjax.privacy.response import KaryResponse, UnaryResponse
from pgmjax.privacy.selection import ExponentialMechanism, PermuteAndFlip, SelectionDistribution
from pgmjax.queries.workload import Workload
from pgmjax.release import folder as release_folder
from pgmjax.release import tables

AGAIN = "Run the same command again: it goes on under the same charge of the ledger, at no further cost."
_LONGEST = 200  # bytes of a folder's name, of the 255 that file systems allow


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


def after_interrupt(mechanism: Any, out: pathlib.Path, *, resumable: bool = False) -> str:
    """Return a message on the state after an interrupt: the release exists in full or not at all."""
    if (out / "release.json").is_file():
        return f"interrupted; the release is at {out}"
    if resumable:
        return f"interrupted; nothing was written. {AGAIN}"
    if mechanism.backend.drawn:
        return f"interrupted; nothing was written; {price(mechanism)} counts as spent"
    return "interrupted; nothing was spent"


def after_failure(
    error: Exception,
    measurements: Sequence[LinearMeasurement],
    mechanism: Any,
    workload: Workload,
    out: pathlib.Path,
) -> str:
    """Save the paid answers, if any, with `keep`, and return a message on what happened."""
    stage = "fit" if isinstance(error, FitError) else "writing" if measurements else "measuring"
    cause = error.__cause__ if isinstance(error, FitError) and error.__cause__ else error
    reason = str(cause).strip().rstrip(".") or type(cause).__name__
    said = f"The {stage} failed: {reason}. The budget is spent ({price(mechanism)})"
    if not measurements:
        return f"{said}."
    try:
        kept = keep(measurements, mechanism, workload, cause, out)
    except (OSError, ValueError) as second:
        return f"{said}, and the noisy answers could not be saved: {second}"
    return f"{said}; the noisy answers are in {kept}"


def keep(
    measurements: Sequence[LinearMeasurement],
    mechanism: Any,
    workload: Workload,
    error: BaseException,
    out: pathlib.Path,
) -> pathlib.Path:
    """Save the noisy answers of a run that failed after measuring, next to its intended release folder.

    Args:
        measurements: the noisy answers, which are paid for and may be published if the noise is secure.
        mechanism: the mechanism with its privacy parameters.
        workload: the requested workload, which determines the queries of the answers.
        error: the error; only its class name is written.
        out: intended folder of the release.

    Returns:
        The new folder, with `measurements.parquet` and `spent.json`.
    """
    numbers = {"epsilon": as_text(mechanism.epsilon), "delta": as_text(mechanism.delta)}
    record = {
        "format": "pgmjax-failed-release",
        "mechanism": mechanism.name,
        **numbers,
        "relation": mechanism.relation.value,
        "spent": numbers,
        "secure": mechanism.backend.secure,
        "seed": mechanism.backend.seed,
        "error": type(error).__name__,
        "workload": workload.to_list(),
    }
    target = _free(out)
    with release_folder.reserve(target) as folder:
        marks: dict[str, Any] = {"secure": record["secure"], "seed": record["seed"]}
        tables.write_measurements(measurements, folder / "measurements.parquet", **marks)
        (folder / "spent.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return target


def _free(out: pathlib.Path) -> pathlib.Path:
    """The first of NAME.failed, NAME.failed-2, ... that does not exist."""
    name = out.name
    while len(os.fsencode(name)) > _LONGEST:
        name = name[:-1]
    numbered = itertools.chain([""], (f"-{number}" for number in itertools.count(2)))
    paths = (out.with_name(f"{name}.failed{number}") for number in numbered)
    return next(path for path in paths if not os.path.lexists(path))
