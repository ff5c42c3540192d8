"""pgmjax: one consistent model of a table from noisy, differentially private answers about it.

The names here, and those in the packages among them, are the public interface. `Domain` and `Dataset`
describe a table; `LinearMeasurement` is a noisy answer; `Estimator` fits a `GraphicalModel`; `mechanisms`
measure a table under differential privacy and return a `Release`; `history` learns from noisy answers of the
past. `Error` is the base of the library's own exceptions.
"""

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
from pgmjax._internal import moved
from pgmjax._internal.errors import Error
from pgmjax._version import __version__
from pgmjax.data.attribute import Attribute
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.data.unit import Unit
from pgmjax.estimation import losses, solvers
from pgmjax.estimation.constraints import AllowedSet, FixedMarginal, FunctionalDependency, StructuralZeros
from pgmjax.estimation.estimator import Estimator, Fit
from pgmjax.estimation.solvers.stopping import Status
from pgmjax.inference import oracles
from pgmjax.inference.plan.forecast import ModelTooLargeError
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.total import estimate_total
from pgmjax.mechanisms.base import FitError
from pgmjax.model.compression import Compression
from pgmjax.model.graphical import GraphicalModel
from pgmjax.queries.workload import Workload
from pgmjax.release.load import load
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

moved.install()
