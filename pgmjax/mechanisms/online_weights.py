"""Private multiplicative weights: answer queries as they arrive, measuring only those with a large error."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.mechanisms.multiplicative_weights import FullVector
from pgmjax.mechanisms.parameters import Keeping, PrivacyParameters, budget_share, whole, workload_over
from pgmjax.model.graphical import GraphicalModel
from pgmjax.privacy import Ledger, PrivateTable, ThresholdLost, ThresholdTest
from pgmjax.privacy.exact import as_text
from pgmjax.queries import DenseMatrix, Query
from pgmjax.queries import text as query_text
from pgmjax.queries.query import MAX_MATRIX_ENTRIES
from pgmjax.queries.workload import Workload
from pgmjax.release.release import Spent


@dataclasses.dataclass(frozen=True)
class OnlineWeights(PrivacyParameters):
    """Answer a sequence of counting queries from an estimate that is updated if its error is large.

    For each query a threshold test compares the estimate's answer with the table's. If they are close, the
    estimate's answer is returned and nothing more is spent. Otherwise the query is measured and the estimate
    is updated multiplicatively. After `updates` updates the budget is spent, and the estimate answers all
    further queries.

    Args:
        updates: the largest number of measured queries.
        threshold: tolerated error of the estimate (counts). Default: twice the scale of the test's noise
            times log(2 * expected_queries / 0.05), which makes false alarms rare.
        expected_queries: public guess of the number of queries, for the threshold.
        split: the measurement's share of each update's budget, in (0, 1); the test gets the rest.
        sweeps: number of passes over all measurements in an update. Default: one update with the newest
            measurement alone, as in the papers.

    Guarantees:
        epsilon-DP under REPLACE_ONE for all answers together, even if queries depend on earlier answers.
        There are at most `updates` tests and measurements at epsilon / updates per pair. Each is charged when
        it starts: the test by the sparse vector technique, the measurement with discrete Laplace noise.
        Queries have rows with entries 0 and 1. Running time is not protected.

    References:
        Hardt and Rothblum 2010, "A multiplicative weights mechanism for privacy-preserving data analysis";
        Dwork and Roth 2014, Algorithms 3 and 6. Composition here is pure.

    Example:
        >>> OnlineWeights(epsilon=1, relation=Relation.REPLACE_ONE, updates=4).limit
        531
    """

    delta: Any = dataclasses.field(default=0, init=False)
    updates: int = whole(10, low=1)
    threshold: int | None = whole(None, low=1)
    expected_queries: int = whole(100, low=1)
    split: Any = budget_share("1/2")
    sweeps: int | None = whole(None, low=1)

    name: ClassVar[str] = "online-weights"
    relations: ClassVar[tuple[Relation, ...]] = (Relation.REPLACE_ONE,)
    accepts_weights: ClassVar[bool] = False
    restriction: ClassVar[str] = (
        "its estimate is scaled to the number of records, which must be public, each counted once."
    )

    @property
    def limit(self) -> int:
        """The threshold in use (counts)."""
        if self.threshold is not None:
            return self.threshold
        scale = 4 / float(self.parts[0])
        # 8 (log k + log(2 / beta)) / epsilon: Dwork and Roth 2014, Theorem 3.24, with beta = 0.05
        return math.ceil(2 * scale * math.log(2 * self.expected_queries / 0.05))

    @property
    def parts(self) -> tuple[Fraction, Fraction]:
        """The costs of a test and of a measurement."""
        each = self.epsilon / self.updates
        return each * (1 - self.split), each * self.split

    def open(self, data: Dataset, *, ledger: Ledger | None = None, key: str | None = None) -> OnlineAnswers:
        """Open a table for queries.

        Args:
            data: the private table, without weights.
            ledger: the ledger with the table's budget. Default: no record beyond this run. The whole
                epsilon is charged with the first query.
            key: the run's name in the ledger. Default: derived from the settings. A run reopened under the
                same name gives the same answers to the same queries in the same order, then continues. An
                interruption loses the open test, so a new one is charged.

        Raises:
            TypeError: `data` is not a table.
            ValueError: the records have weights, the table is invalid, or the domain's cells do not fit in
                memory; nothing was spent.
            LedgerError: the ledger cannot be used; nothing was spent.
        """
        self._check_table(data)
        settings = {
            "updates": self.updates,
            "threshold": self.threshold,
            "expected_queries": self.expected_queries,
            "sweeps": self.sweeps,
            "mechanism": self.name,
            "split": as_text(self.split),
        }
        table = self._open_table(data, None, settings, Keeping(ledger, key))
        return OnlineAnswers(self, table, FullVector(data.domain), float(max(1, table.public_count())))

    def run(
        self, data: Dataset, workload: Workload, *, ledger: Ledger | None = None, key: str | None = None
    ) -> OnlineAnswers:
        """Answer the rows of a workload in order, and return the object for further queries.

        Args:
            data: the private table, without weights.
            workload: counting queries.
            ledger: see `open`.
            key: see `open`.

        Raises:
            ValueError: see `open` and `OnlineAnswers.answer`.
        """
        self._check_table(data)
        workload = workload_over(workload, data.domain)
        for entry in workload.entries:
            counting_rows(entry.query, data.domain)
        opened = self.open(data, ledger=ledger, key=key)
        opened.answered.extend(opened.answer(entry.query) for entry in workload.entries)
        return opened


class OnlineAnswers:
    """An estimate under a budget that answers counting queries; constructed by `OnlineWeights`.

    Attributes:
        settings: the mechanism with its settings.
        answered: the answers to the workload of `OnlineWeights.run`, float64 [rows] per entry (counts).
        measurements: the measurements so far.
        asked: number of queries answered.
        late: number of queries answered after the budget was spent, without a comparison with the table.
    """

    def __init__(self, settings: OnlineWeights, table: PrivateTable, weights: FullVector, total: float):
        self.settings = settings
        self.answered: list[np.ndarray] = []
        self.measurements: list[LinearMeasurement] = []
        self.asked = self.late = 0
        self._table, self._weights, self._total = table, weights, total
        self._test: ThresholdTest | None = None

    @property
    def spent(self) -> Spent:
        """The cost so far."""
        return Spent(self._table.budget.spent, Fraction(0))

    @property
    def secure(self) -> bool:
        """True if the answers may be published: secure noise."""
        return self._table.secure

    @property
    def model(self) -> GraphicalModel:
        """The current estimate, available at no cost."""
        return self._weights.model(self._total)

    def answer(self, query: Query) -> np.ndarray:
        """Return answers, float64 [rows] (counts), each compared with the table while budget remains.

        Raises:
            ValueError: the query does not fit or has entries other than 0 and 1; nothing was spent.
            TableReadError: the table could not be read.
        """
        query = query_text.asked(self._table.domain, query)
        rows, clique = counting_rows(query, self._table.domain), query.clique
        return np.array([self._row(clique, row) for row in rows])

    def predict(self, query: Query) -> np.ndarray:
        """Return the estimate's answers without accessing the table, float64 [rows] (counts)."""
        query = query_text.asked(self._table.domain, query)
        return np.asarray(query.apply(self._total * self._weights.marginal(query.clique)), float).reshape(-1)

    def _row(self, clique: Any, row: np.ndarray) -> float:
        self.asked += 1
        guess = float(self._total * (self._weights.marginal(clique).reshape(-1) @ row))
        query = DenseMatrix(clique, row[None])
        far = self._is_far(query, guess)
        if far is None:
            self.late += 1
        if not far:
            return guess
        # a test ends with its first "far": the next query opens another
        self._test = None
        (measured,) = self._table.measure([query], epsilons=[self.settings.parts[1]], show_progress=False)
        self.measurements.append(measured)
        if self.settings.sweeps is None:
            self._weights.step(measured, self._total)
        else:
            self._weights.sweep(self.measurements, self._total, self.settings.sweeps)
        return float(measured.values[0])

    def _is_far(self, query: Query, guess: float) -> bool | None:
        """Test whether a guess is far off; None if the remaining budget allows no further update."""
        test_cost, answer_cost = self.settings.parts
        # the default threshold grows with the noise, which covers all records of a unit
        grows = 1 if self.settings.threshold is not None else self._table.max_records
        while True:
            if self._test is None:
                if self._table.budget.remaining < test_cost + answer_cost:
                    return None
                self._test = ThresholdTest(self._table, self.settings.limit * grows, test_cost)
            try:
                return self._test.far(query, guess)
            except ThresholdLost:  # begun by a run that was interrupted
                self._test = None


def counting_rows(query: Query, domain: Domain) -> np.ndarray:
    """Return the rows of a query over a domain, int64 [rows, cells], each of zeros and ones.

    Raises:
        ValueError: the query is too large, or has other entries.
    """
    rows, cells = query.num_rows(domain), domain.size(query.clique)
    if rows * cells > MAX_MATRIX_ENTRIES:
        raise ValueError(
            f"the query has {rows:,} rows over {cells:,} cells, above the limit of {MAX_MATRIX_ENTRIES:,} "
            "entries: ask fewer at once."
        )
    matrix = np.asarray(query.matrix(domain)).reshape(rows, cells)
    if not np.isin(matrix, (0, 1)).all():
        raise ValueError("OnlineWeights answers counts: entries of a query must be 0 or 1.")
    return matrix.astype(np.int64)
