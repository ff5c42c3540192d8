"""pgmjax: one consistent model of a table from noisy, differentially private answers about it.

The names here, and those in the packages among them, are the public interface. `Domain` and `Dataset`
describe a table; `LinearMeasurement` is a noisy answer; `Estimator` fits a `GraphicalModel`; `mechanisms`
measure a table under differential privacy and return a `Release`; `history` learns from noisy answers of the
past. `Error` is the base of the library's own exceptions.
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

from pgmjax._internal import migration
from pgmjax._internal.checks import Error
from pgmjax._version import __version__

if TYPE_CHECKING:
    from pgmjax import (
        adapters,
        discovery,
        estimation,
        gradients,
        history,
        learning,
        local,
        mechanisms,
        model,
        privacy,
        queries,
        uncertainty,
    )
    from pgmjax.data.attribute import Attribute
    from pgmjax.data.dataset import Dataset
    from pgmjax.data.domain import Domain
    from pgmjax.data.relation import Relation, Unit
    from pgmjax.estimation import losses, solvers
    from pgmjax.estimation.constraints import AllowedSet, FixedMarginal, FunctionalDependency, StructuralZeros
    from pgmjax.estimation.estimator import Estimator, Fit
    from pgmjax.estimation.solvers.stopping import Status
    from pgmjax.inference import oracles
    from pgmjax.inference.plan.forecast import ModelTooLargeError
    from pgmjax.measurements.linear import LinearMeasurement
    from pgmjax.measurements.total import estimate_total
    from pgmjax.mechanisms.run import FitError
    from pgmjax.model.compression import Compression
    from pgmjax.model.graphical import GraphicalModel
    from pgmjax.queries.workload import Workload
    from pgmjax.release.folder import load
    from pgmjax.release.release import Release
    from pgmjax.synthesizer import Synthesizer

__all__ = [
    "AllowedSet",
    "Attribute",
    "Compression",
    "Dataset",
    "Domain",
    "Error",
    "Estimator",
    "Fit",
    "FitError",
    "FixedMarginal",
    "FunctionalDependency",
    "GraphicalModel",
    "LinearMeasurement",
    "ModelTooLargeError",
    "Relation",
    "Release",
    "Status",
    "StructuralZeros",
    "Synthesizer",
    "Unit",
    "Workload",
    "__version__",
    "adapters",
    "discovery",
    "estimate_total",
    "estimation",
    "gradients",
    "history",
    "learning",
    "load",
    "local",
    "losses",
    "mechanisms",
    "model",
    "oracles",
    "privacy",
    "queries",
    "solvers",
    "uncertainty",
]

_PLACES = {
    "pgmjax": (
        *("adapters", "discovery", "estimation", "gradients", "history", "learning", "local", "mechanisms"),
        *("model", "privacy", "queries", "uncertainty"),
    ),
    "pgmjax.data.attribute": ("Attribute",),
    "pgmjax.data.dataset": ("Dataset",),
    "pgmjax.data.domain": ("Domain",),
    "pgmjax.data.relation": ("Relation", "Unit"),
    "pgmjax.estimation": (
        "losses",
        "solvers",
    ),
    "pgmjax.estimation.constraints": (
        "AllowedSet",
        "FixedMarginal",
        "FunctionalDependency",
        "StructuralZeros",
    ),
    "pgmjax.estimation.estimator": (
        "Estimator",
        "Fit",
    ),
    "pgmjax.estimation.solvers.stopping": ("Status",),
    "pgmjax.inference": ("oracles",),
    "pgmjax.inference.plan.forecast": ("ModelTooLargeError",),
    "pgmjax.measurements.linear": ("LinearMeasurement",),
    "pgmjax.measurements.total": ("estimate_total",),
    "pgmjax.mechanisms.run": ("FitError",),
    "pgmjax.model.compression": ("Compression",),
    "pgmjax.model.graphical": ("GraphicalModel",),
    "pgmjax.queries.workload": ("Workload",),
    "pgmjax.release.folder": ("load",),
    "pgmjax.release.release": ("Release",),
    "pgmjax.synthesizer": ("Synthesizer",),
}
"""Where the names above are: a name is imported when it is first used, as most of them need JAX."""

logging.getLogger(__name__).addHandler(logging.NullHandler())  # whoever wants to read adds another


def _lazy(name: str) -> Any:
    for place, names in _PLACES.items():
        if name in names:
            found = migration.answering(_attribute(place, name), name)
            globals()[name] = found
            return found
    raise migration.unknown(__name__, name, __all__)


def _attribute(place: str, name: str) -> Any:
    """Return a name of a module, or a module of a package."""
    module = importlib.import_module(place) if place != __name__ else None
    if module is not None and hasattr(module, name):
        return getattr(module, name)
    return importlib.import_module(f"{place}.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


globals()["__getattr__"] = _lazy
