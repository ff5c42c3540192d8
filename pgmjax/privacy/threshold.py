"""The sparse vector technique: test whether counts are far from guesses, at the cost of a single "far".

Questions may be adaptive. Any number of "near" answers before the first "far" costs no more than one.
"""

from __future__ import annotations

import functools
import os
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.counting import check_memory
from pgmjax.measurements.noise import DiscreteNoise
from pgmjax.privacy import measuring, tape
from pgmjax.privacy.accounting.events import Pure
from pgmjax.privacy.budget import SingleProcess
from pgmjax.privacy.exact import exact_epsilon
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.selection import ThresholdNoise
from pgmjax.privacy.sensitivity import Sensitivity, check_measurable
from pgmjax.queries import Query

_LARGEST = 2**61
"""Guesses are clipped to this absolute value, so that distances fit in int64."""


class ThresholdLost(checks.Error, ValueError):
    """A threshold test cannot go on: an interruption took its noisy threshold."""


class ThresholdTest(SingleProcess):
    """Tests counts one by one for being far from a guess; ends with the first "far".

    Args:
        table: the private table.
        threshold: distance from which a count is far (counts), an integer; public.
        epsilon: cost of all questions together, exact; charged at construction.

    Raises:
        TypeError: `table` is not a `PrivateTable`, or the threshold is not an integer.
        ValueError: the threshold is below 1, or records are weighted.
        BudgetExceeded: the budget does not suffice; nothing was spent and no data was read.

    Guarantees:
        epsilon-DP under the table's relation for all answers together. The threshold gets discrete Laplace
        noise of scale 2 / epsilon once, each distance fresh noise of scale 4 / epsilon, both times the
        number of records that a unit of privacy may have. Only queries of sensitivity at most 1, computed
        from the query, are accepted.

    References:
        Dwork and Roth 2014, Algorithm 1 (AboveThreshold) and Theorem 3.23; the shifts in its proof are 1
        and 2, so it holds for discrete noise on integers.

    Example:
        >>> from pgmjax.data.dataset import Dataset
        >>> from pgmjax.data.domain import Domain
        >>> from pgmjax.privacy.budget import Budget
        >>> from pgmjax.queries import Product, point
        >>> from pgmjax.data.relation import Relation
        >>> data = Dataset.from_columns(Domain({"sex": 2}), {"sex": [1] * 500})
        >>> test = ThresholdTest(PrivateTable(data, Relation.REPLACE_ONE, Budget(2)), 100, epsilon=2)
        >>> query = Product({"sex": point(1)})
        >>> test.far(query, 490), test.far(query, 250)
        (False, True)
    """

    def __init__(self, table: PrivateTable, threshold: int, epsilon: Any):
        super().__init__()
        checks.kind(table, PrivateTable, "table must be a PrivateTable")
        if table.weighted:
            raise ValueError(
                "a threshold test takes no weighted tables: a record would move counts by more than 1."
            )
        self._threshold = checks.integer("threshold", threshold, low=1)
        cost = exact_epsilon(epsilon)
        self._table = table
        backend = table._backend
        moved = table.max_records
        self._distribution = ThresholdNoise(
            backend.laplace(moved, cost / 2), backend.laplace(2 * moved, cost / 2)
        )
        self._asked, self._closed = 0, False
        self._event = Pure(cost)
        table._charge([self._event])
        self._noise: int | None = None  # drawn for the first answer, and kept nowhere
        # a ledger keeps who began the test: whoever plays it back has another threshold, and must not go on
        mark = np.array([int.from_bytes(os.urandom(7), "big")], np.int64)
        self._began = bool((table._journaled({"threshold": self._threshold}, lambda: mark) == mark).all())

    @property
    def closed(self) -> bool:
        """True after a "far" answer; no more questions can be asked."""
        return self._closed

    def far(self, query: Query, guess: float) -> bool:
        """Return whether a count is far from a guess, up to noise.

        Args:
            query: an integral query with one row and sensitivity at most 1.
            guess: guess of its answer (counts), not computed from private data; rounded to an integer.

        Raises:
            ValueError: the query is not valid here, or the test has ended.
            RuntimeError: called in another process than the one that created the test.
            ThresholdLost: the test is played back from another run's ledger, which does not store the noisy
                threshold, and this answer needs it. Open another test, which costs the same again.
            TableReadError: the table could not be read.
        """
        self._check_process()
        if self._closed:
            raise ValueError("this threshold test has told a `far` and ended: open another one.")
        table = self._table
        planned = self._planned(query)
        guess = min(max(round(checks.number("guess", guess)), -_LARGEST), _LARGEST)
        check_memory(table.domain, [query.clique])
        asked = {"far": {"query": query.to_spec(), "guess": guess}}
        if not self._began and not table._is_journaled(asked):
            raise ThresholdLost(
                "the noisy threshold of this test was lost with an interrupted run: open another one."
            )
        answer = table._journaled(asked, functools.partial(self._compare, planned, guess))
        self._asked, self._closed = self._asked + 1, bool(answer[0])
        return self._closed

    def _compare(self, planned: measuring.PlannedMeasurement, guess: int) -> np.ndarray:
        """Compare the noisy distance with the noisy threshold; int64 [1]."""
        table, query = self._table, planned.query
        # both draws come before the count is read, so that their time tells nothing of it
        if self._noise is None:
            self._noise = self._drawn(self._distribution.threshold)
        noise = self._drawn(self._distribution.distance)
        counts = table._marginals([query.clique])[query.clique]
        exact = table._withheld("Comparing", measuring.exact_answers, planned, table.domain, counts)
        distance = np.abs(exact - guess)
        call = tape.Call(
            "threshold",
            (query, guess, self._threshold, self._asked),
            self._distribution,
            planned.sensitivity,
            distance,
        )
        limit = self._threshold + self._noise
        return table._through_tape(call, lambda: (distance + noise >= limit).astype(np.int64))

    def _drawn(self, distribution: DiscreteNoise) -> int:
        return 0 if self._table._replays else int(measuring.fresh(self._table._backend, distribution, 1)[0])

    def _planned(self, query: Any) -> measuring.PlannedMeasurement:
        domain, relation = self._table.domain, self._table.relation
        check_measurable(query, domain)
        if query.num_rows(domain) != 1:
            raise ValueError(f"a threshold test takes one row at a time, got {query.num_rows(domain)}.")
        sensitivity = Sensitivity.of(query, domain, relation, "linf")
        if sensitivity.value > 1:
            raise ValueError(
                f"a threshold test takes queries that no record moves by more than 1, got "
                f"{sensitivity.value}: ask for counts of records, each once."
            )
        sensitivity = sensitivity.of_unit(self._table.max_records)
        return measuring.PlannedMeasurement(query, self._distribution.distance, sensitivity, self._event, 1)
