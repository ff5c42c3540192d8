"""Private multiplicative weights: answer queries as they come, and pay only for those that surprise."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.mechanisms.base import Settings, check_table_and_workload, read_settings
from pgmjax.mechanisms.mwem_baselines import FullVector
from pgmjax.model.graphical import GraphicalModel
from pgmjax.privacy.backend import NoiseBackend
from pgmjax.privacy.exact import as_text, exact
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.threshold import ThresholdTest
from pgmjax.queries import DenseMatrix, Query
from pgmjax.queries.query import MAX_MATRIX_ENTRIES
from pgmjax.queries.workload import Workload
from pgmjax.release.release import Spent


@dataclasses.dataclass(frozen=True)
class OnlineWeights:
    """Answer counting queries one after the other from an estimate that is corrected where it errs.

    For each query a threshold test compares the estimate's answer with the table's. Told "near", the estimate
    answers and nothing more is spent. Told "far", the query is measured and the estimate multiplied towards
    the answer. After `updates` of them the budget is spent, and the estimate answers all that follows.

    Args:
        epsilon: all that may be spent: a number, or an exact string such as "1/3".
        relation: REPLACE_ONE: the number of records must be public.
        updates: how many queries are measured at most.
        threshold: how far off the estimate may be (counts); None is twice the scale of the test's noise
            times log(2 * expected_queries / 0.05): false alarms are then rare.
        expected_queries: a public guess of how many will be asked, for the threshold.
        split: the share of each update's budget that measures, in (0, 1); the rest tests.
        sweeps: how often an update goes through all measurements so far; None uses the newest alone, once, as
            in the papers.
        backend: source of noise; None is the secure one.

    Raises:
        TypeError: a setting of a wrong type.
        ValueError: a setting outside its range, or another relation.

    Guarantees:
        epsilon-DP under REPLACE_ONE for all answers together, however queries depend on earlier
        answers. There are at most `updates` tests and measurements of epsilon / updates in all, charged as
        they are begun: the test's share by the sparse vector technique, the rest with discrete Laplace
        noise. Queries have rows with entries 0 and 1. Time taken is not protected.

    References:
        Hardt and Rothblum 2010, "A multiplicative weights mechanism for privacy-preserving data analysis";
        Dwork and Roth 2014, Algorithms 3 and 6. Composition here is pure.

    Example:
        >>> OnlineWeights(epsilon=1, relation=Relation.REPLACE_ONE, updates=4).limit
        531
    """

    epsilon: Any
    relation: Relation
    updates: int = 10
    threshold: int | None = None
    expected_queries: int = 100
    split: Any = "1/2"
    sweeps: int | None = None
    backend: NoiseBackend | None = None

    def __post_init__(self) -> None:
        settings = read_settings(self.epsilon, 0, self.relation)
        if settings.relation is not Relation.REPLACE_ONE:
            raise ValueError(
                "OnlineWeights scales its estimate to the number of records, which must be public: use "
                "Relation.REPLACE_ONE."
            )
        object.__setattr__(self, "epsilon", settings.epsilon)
        object.__setattr__(self, "relation", settings.relation)
        checks.integer("updates", self.updates, low=1)
        checks.integer("expected_queries", self.expected_queries, low=1)
        for name in ("threshold", "sweeps"):
            if getattr(self, name) is not None:
                checks.integer(name, getattr(self, name), low=1)
        share = exact("split", self.split)
        if not 0 < share < 1:
            raise ValueError(f"split must be a share of the budget in (0, 1), got {as_text(share)}.")
        object.__setattr__(self, "split", share)

    @property
    def limit(self) -> int:
        """The threshold that is used (counts)."""
        if self.threshold is not None:
            return self.threshold
        scale = 4 / float(self.parts[0])
        return math.ceil(2 * scale * math.log(2 * self.expected_queries / 0.05))

    @property
    def parts(self) -> tuple[Fraction, Fraction]:
        """What a test and a measurement may cost."""
        each = self.epsilon / self.updates
        return each * (1 - self.split), each * self.split

    def open(self, data: Dataset) -> OnlineAnswers:
        """Begin to answer queries on a table.

        Raises:
            TypeError: no table.
            ValueError: weighted records, a table that is not valid, or a domain whose cells do not fit in
                memory; nothing was spent.
        """
        if not isinstance(data, Dataset):
            raise TypeError(f"data must be a pgmjax.Dataset, got {type(data).__name__}.")
        settings = Settings(self.epsilon, Fraction(0), self.relation)
        table = PrivateTable(data, self.relation, settings.budget(), self.backend)
        return OnlineAnswers(self, table, FullVector(data.domain), float(max(1, table.public_count())))

    def run(self, data: Dataset, workload: Workload) -> OnlineAnswers:
        """Answer the rows of a workload in its order, and return what more can be asked.

        Raises:
            ValueError: as `open` and `OnlineAnswers.answer`.
        """
        check_table_and_workload(data, workload)
        for entry in workload.entries:
            counting_rows(entry.query, data.domain)
        opened = self.open(data)
        opened.answered.extend(opened.answer(entry.query) for entry in workload.entries)
        return opened


class OnlineAnswers:
    """An estimate under a budget that answers counting queries; made by `OnlineWeights`.

    Attributes:
        settings: of the mechanism.
        answered: the answers to the workload of `OnlineWeights.run`, float64 [rows] an entry (counts).
        measurements: what was measured so far.
        asked: how many queries were answered.
        late: how many of these after the last update, when nothing is compared with the table any more.
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
        """What was spent so far."""
        return Spent(self._table.budget.spent, Fraction(0))

    @property
    def secure(self) -> bool:
        """Whether the answers may be published: secure noise."""
        return self._table.secure

    @property
    def model(self) -> GraphicalModel:
        """The estimate so far; it costs nothing to ask."""
        return self._weights.model(self._total)

    def answer(self, query: Query) -> np.ndarray:
        """Return answers, float64 [rows] (counts), each compared with the table as long as there is budget.

        Raises:
            ValueError: a query that does not fit, or with entries other than 0 and 1; nothing was spent.
            TableReadError: the table could not be read.
        """
        return np.array([self._row(query.clique, row) for row in counting_rows(query, self._table.domain)])

    def predict(self, query: Query) -> np.ndarray:
        """Return the estimate's answers without looking at the table, float64 [rows] (counts)."""
        query.check(self._table.domain)
        return np.asarray(query.apply(self._total * self._weights.marginal(query.clique)), float).reshape(-1)

    def _row(self, clique: Any, row: np.ndarray) -> float:
        self.asked += 1
        guess = float(self._total * (self._weights.marginal(clique).reshape(-1) @ row))
        if len(self.measurements) == self.settings.updates:
            self.late += 1
            return guess
        query = DenseMatrix(clique, row[None])
        test_cost, answer_cost = self.settings.parts
        if self._test is None:
            self._test = ThresholdTest(self._table, self.settings.limit, test_cost)
        if not self._test.far(query, guess):
            return guess
        self._test = None
        (measured,) = self._table.measure([query], epsilons=[answer_cost], show_progress=False)
        self.measurements.append(measured)
        if self.settings.sweeps is None:
            self._weights.update(measured, self._total)
        else:
            self._weights.sweep(self.measurements, self._total, self.settings.sweeps)
        return float(measured.values[0])


def counting_rows(query: Any, domain: Domain) -> np.ndarray:
    """Return the rows of a query, int64 [rows, cells], each of zeros and ones.

    Raises:
        TypeError: no query.
        ValueError: it does not fit the domain, is too large, or has other entries.
    """
    if not isinstance(query, Query):
        raise TypeError(f"expected a query, got {type(query).__name__}: see pgmjax.queries.")
    query.check(domain)
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
