"""Differential privacy: budgets, noise, accounting, ledgers, and the one place where counts meet noise.

`private_table` is that place, the choke point; `measuring`, `responding` and `threshold` are its parts, and
`ratings` does the same for ratings. `gate` has what every access passes. `left_out` counts what the records
that count leave out of a table. `sensitivity` computes sensitivities from queries, `scores` rates
candidates; `scales`, `selection` and `response` give the noise distributions, and a `backend` draws from
them, securely (`opendp`) or repeatably (`seeded`). `budget` limits a run's spending, `accounting` computes
the total cost of accesses, and `ledger` records it. `tape` replays runs for tests; `exact` reads
parameters.
"""

from pgmjax._internal import migration
from pgmjax.data.definition import TableDefinition
from pgmjax.data.sources import TableChangedError
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace
from pgmjax.privacy.accounting.calibration import calibrate
from pgmjax.privacy.accounting.composition import Composition, UnsupportedError
from pgmjax.privacy.accounting.events import GaussianEvent, LaplaceEvent, Selection
from pgmjax.privacy.accounting.zcdp import epsilon_of, rho_for
from pgmjax.privacy.backend import NoiseBackend
from pgmjax.privacy.budget import Budget, BudgetExceeded
from pgmjax.privacy.gate import TableReadError
from pgmjax.privacy.ledger import (
    Account,
    AttemptsExhausted,
    IdempotencyConflict,
    Ledger,
    LedgerError,
    NoLedgerError,
)
from pgmjax.privacy.left_out import CountLeftOut
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.response import KaryResponse
from pgmjax.privacy.scores import Counts, Deviations, Distances, Score
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.privacy.threshold import ThresholdLost, ThresholdTest

__all__ = [
    "Account",
    "AttemptsExhausted",
    "Budget",
    "BudgetExceeded",
    "Composition",
    "CountLeftOut",
    "Counts",
    "Deviations",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Distances",
    "GaussianEvent",
    "IdempotencyConflict",
    "KaryResponse",
    "LaplaceEvent",
    "Ledger",
    "LedgerError",
    "NoLedgerError",
    "NoiseBackend",
    "PrivateTable",
    "Score",
    "SeededBackend",
    "Selection",
    "TableChangedError",
    "TableDefinition",
    "TableReadError",
    "ThresholdLost",
    "ThresholdTest",
    "UnsupportedError",
    "calibrate",
    "epsilon_of",
    "rho_for",
]

migration.answer(globals())
