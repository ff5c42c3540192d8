"""pgmjax: one consistent model of a table from noisy, differentially private answers about it.

The names here are the public interface. `Domain` and `Dataset` describe a table;
`LinearMeasurement` is a noisy answer; `Estimator` fits a `GraphicalModel`; `mechanisms` measure a
table under differential privacy and return a `Release`; `history` learns from noisy answers of the past.
"""

from pgmjax import (
    companion,
    history,
    learners,
    losses,
    mechanisms,
    oracles,
    perturbed,
    privacy,
    queries,
    solvers,
    uncertainty,
    workloads,
)
from pgmjax._version import __version__
from pgmjax.attribute import Attribute
from pgmjax.calibrated_model import CalibratedModel
from pgmjax.clique_vector import CliqueVector
from pgmjax.constraints import StructuralZeros
from pgmjax.dataset import Dataset
from pgmjax.domain import Domain
from pgmjax.estimate import Estimator, Fit
from pgmjax.measurements import LinearMeasurement
from pgmjax.model import GraphicalModel, load
from pgmjax.plan.forecast import ModelTooLargeError
from pgmjax.plan.growth import candidate_cells
from pgmjax.relation import Relation
from pgmjax.release import Release
from pgmjax.solvers.loop import Status
from pgmjax.total import estimate_total
from pgmjax.workload import Workload

__all__ = [
    "Attribute",
    "CalibratedModel",
    "CliqueVector",
    "Dataset",
    "Domain",
    "Estimator",
    "Fit",
    "GraphicalModel",
    "LinearMeasurement",
    "ModelTooLargeError",
    "Relation",
    "Release",
    "Status",
    "StructuralZeros",
    "Workload",
    "__version__",
    "candidate_cells",
    "companion",
    "estimate_total",
    "history",
    "learners",
    "load",
    "losses",
    "mechanisms",
    "oracles",
    "perturbed",
    "privacy",
    "queries",
    "solvers",
    "uncertainty",
    "workloads",
]
