"""Differential privacy: budgets, noise, accounting, and the one place where counts meet noise."""

from pgmjax.laws import DiscreteGaussian, DiscreteLaplace
from pgmjax.privacy.accounting import epsilon_of, rho_for
from pgmjax.privacy.backend import NoiseBackend, default_backend
from pgmjax.privacy.backend_opendp import OpenDPBackend
from pgmjax.privacy.backend_seeded import SeededBackend
from pgmjax.privacy.budget import Budget, BudgetExceeded
from pgmjax.privacy.noise import PrivateTable, TableReadError
from pgmjax.privacy.tape import NonInterferenceError, Tape, check_pair
from pgmjax.relation import Relation

__all__ = [
    "Budget",
    "BudgetExceeded",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "NoiseBackend",
    "NonInterferenceError",
    "OpenDPBackend",
    "PrivateTable",
    "Relation",
    "SeededBackend",
    "TableReadError",
    "Tape",
    "check_pair",
    "default_backend",
    "epsilon_of",
    "rho_for",
]
