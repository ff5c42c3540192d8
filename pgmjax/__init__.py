"""pgmjax: one consistent model of a table from noisy, differentially private answers about it.

The names here are the public interface. `Domain` and `Dataset` describe a table;
`LinearMeasurement` is a noisy answer; `Estimator` fits a `GraphicalModel`; `mechanisms` measure a
table under differential privacy and return a `Release`; `history` learns from noisy answers of the past.
"""

from pgmjax import (
    adapters,
    estimation,
    gradients,
    history,
    learning,
    local,
    mechanisms,
    privacy,
    queries,
    uncertainty,
)
from pgmjax._internal import moved
from pgmjax._version import __version__
from pgmjax.data.attribute import Attribute
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.estimation import losses, solvers
from pgmjax.estimation.constraints import AllowedSet, FixedMarginal, FunctionalDependency, StructuralZeros
from pgmjax.estimation.estimator import Estimator, Fit
from pgmjax.estimation.solvers.stopping import Status
from pgmjax.inference import oracles
from pgmjax.inference.plan.forecast import ModelTooLargeError
from pgmjax.inference.plan.growth import candidate_cells
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.total import estimate_total
from pgmjax.model.calibrated import CalibratedModel
from pgmjax.model.clique_vector import CliqueVector
from pgmjax.model.compression import Compression
from pgmjax.model.graphical import GraphicalModel
from pgmjax.model.mixture import MixtureModel
from pgmjax.model.regions import RegionModel
from pgmjax.queries.workload import Workload
from pgmjax.release.load import load
from pgmjax.release.release import Release

__all__ = [
    "AllowedSet",
    "Attribute",
    "CalibratedModel",
    "CliqueVector",
    "Compression",
    "Dataset",
    "Domain",
    "Estimator",
    "Fit",
    "FixedMarginal",
    "FunctionalDependency",
    "GraphicalModel",
    "LinearMeasurement",
    "MixtureModel",
    "ModelTooLargeError",
    "RegionModel",
    "Relation",
    "Release",
    "Status",
    "StructuralZeros",
    "Workload",
    "__version__",
    "adapters",
    "candidate_cells",
    "estimate_total",
    "estimation",
    "gradients",
    "history",
    "learning",
    "load",
    "local",
    "losses",
    "mechanisms",
    "oracles",
    "privacy",
    "queries",
    "solvers",
    "uncertainty",
]

moved.install()
