"""What to fit: measurements with the settings and the public knowledge that apply to them."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, Protocol

from pgmjax._internal.progress import Progress
from pgmjax.data.domain import Domain
from pgmjax.estimation import losses
from pgmjax.estimation.losses.base import BoundLoss
from pgmjax.estimation.losses.noise_level import noise_level
from pgmjax.estimation.side_information import Known
from pgmjax.inference import oracles
from pgmjax.measurements.linear import LinearMeasurement


class Settings(Protocol):
    """What a fit needs of an `Estimator`; its attributes are described there."""

    @property
    def loss(self) -> Any:
        """What is minimised."""
        ...

    @property
    def solver(self) -> Any:
        """The solver or its name."""
        ...

    @property
    def max_steps(self) -> int:
        """Steps at most."""
        ...

    @property
    def tol(self) -> float:
        """Relative gap to stop at."""
        ...

    @property
    def stop(self) -> str:
        """Where to end: "optimum" or "noise"."""
        ...

    @property
    def dtype(self) -> str:
        """Type on the device."""
        ...

    @property
    def plan(self) -> Callable[..., oracles.Plan]:
        """Plan a fit of some cliques under some constraints, for a dtype."""
        ...


@dataclasses.dataclass(frozen=True)
class Task:
    """What to fit: the estimator's settings with everything they apply to.

    `mesh` holds the devices that share each inference of one fit; `tol` replaces the estimator's in a part of
    a fit that need not go as far; `trace` grows while it runs: steps so far, loss and gap after each block of
    steps.
    """

    estimator: Settings
    domain: Domain
    measurements: tuple[LinearMeasurement, ...]
    total: float
    known: Known
    bar: Progress
    mesh: Any = None
    tol: float | None = None
    trace: list[tuple[int, float, float]] = dataclasses.field(default_factory=list, compare=False)

    def within(self, loss: float, gap: float) -> bool:
        """Whether a gap meets the tolerance."""
        tol = self.estimator.tol if self.tol is None else self.tol
        return gap <= tol * max(1.0, loss)

    @functools.cached_property
    def level(self) -> float:
        """The loss to stop at beside the tolerance: that of the noise alone, or none."""
        if self.estimator.stop == "optimum":
            return -math.inf
        return noise_level(self.estimator.loss, self.measurements)

    def bind(self, dtype: str) -> BoundLoss:
        """The loss of the measurements."""
        return losses.build(self.estimator.loss, self.domain, self.measurements, self.total, dtype)

    def plan(self, cliques: Any, dtype: str | None = None) -> oracles.Plan:
        """The plan of a fit whose loss is over some cliques."""
        known = self.known
        return self.estimator.plan(
            self.domain, cliques, known.zeros, prior=known.prior, dtype=dtype, mesh=self.mesh
        )
