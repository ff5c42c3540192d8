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
    **dict.fromkeys(("adapters", "discovery", "estimation", "gradients", "history", "learning"), "pgmjax"),
    **dict.fromkeys(("local", "mechanisms", "model", "privacy", "queries", "uncertainty"), "pgmjax"),
    "AllowedSet": "pgmjax.estimation.constraints",
    "Attribute": "pgmjax.data.attribute",
    "Compression": "pgmjax.model.compression",
    "Dataset": "pgmjax.data.dataset",
    "Domain": "pgmjax.data.domain",
    "Estimator": "pgmjax.estimation.estimator",
    "Fit": "pgmjax.estimation.estimator",
    "FitError": "pgmjax.mechanisms.run",
    "FixedMarginal": "pgmjax.estimation.constraints",
    "FunctionalDependency": "pgmjax.estimation.constraints",
    "GraphicalModel": "pgmjax.model.graphical",
    "LinearMeasurement": "pgmjax.measurements.linear",
    "ModelTooLargeError": "pgmjax.inference.plan.forecast",
    "Relation": "pgmjax.data.relation",
    "Release": "pgmjax.release.release",
    "Status": "pgmjax.estimation.solvers.stopping",
    "StructuralZeros": "pgmjax.estimation.constraints",
    "Synthesizer": "pgmjax.synthesizer",
    "Unit": "pgmjax.data.relation",
    "Workload": "pgmjax.queries.workload",
    "estimate_total": "pgmjax.measurements.total",
    "load": "pgmjax.release.folder",
    "losses": "pgmjax.estimation",
    "oracles": "pgmjax.inference",
    "solvers": "pgmjax.estimation",
}
"""Where the names above are: a name is imported when it is first used, as most of them need JAX."""

logging.getLogger(__name__).addHandler(logging.NullHandler())  # whoever wants to read adds another


def _lazy(name: str) -> Any:
    if name not in _PLACES:
        raise migration.unknown(__name__, name, __all__)
    place = _PLACES[name]
    module = importlib.import_module(place)
    found = vars(module)[name] if name in vars(module) else importlib.import_module(f"{place}.{name}")
    globals()[name] = migration.answering(found, name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


globals()["__getattr__"] = _lazy
