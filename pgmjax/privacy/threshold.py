"""The sparse vector technique: whether counts lie far from guesses, at the cost of a single "far".

Questions may come one after the other and depend on what was told before. As long as the answer is "near",
any number of them costs no more than the first.
"""

from __future__ import annotations

import functools
import os
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.errors import Error
from pgmjax.data.counting import check_memory
from pgmjax.measurements.noise import DiscreteNoise
from pgmjax.privacy import measuring, tape
from pgmjax.privacy.accounting.events import Pure
from pgmjax.privacy.exact import exact_epsilon
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.selection import ThresholdNoise
from pgmjax.privacy.sensitivity import Sensitivity, check_measurable
from pgmjax.queries import Query

_LARGEST = 2**61
"""Guesses beyond it are moved there, so that no distance leaves int64."""


class ThresholdLost(Error, ValueError):
    """A threshold test cannot go on: an interruption took its noisy threshold."""


class ThresholdTest:
    """Tells for counts, one after the other, whether they lie far from a guess; ends with the first "far".

    Args:
        table: the private table.
        threshold: how far is far (counts), an integer; public.
        epsilon: what all questions together cost, exact; charged at once.

    Raises:
        TypeError: no private table, or a threshold that is no integer.
        ValueError: a threshold below 1, or weighted records.
        BudgetExceeded: the budget does not suffice; nothing was spent and no data was read.

    Guarantees:
        epsilon-DP under the table's relation for all answers together: the threshold gets discrete Laplace
        noise once, of scale 2 / epsilon, each distance afresh, of scale 4 / epsilon; only queries are
        taken that no record moves by more than 1, which is computed from the query.

    References:
        Dwork and Roth 2014, Algorithm 1 (AboveThreshold) and Theorem 3.23; the shifts in its proof are by 1
        and 2, so that it holds for discrete noise on integers.

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
        if not isinstance(table, PrivateTable):
            raise TypeError(f"table must be a PrivateTable, got {type(table).__name__}.")
        if table.weighted:
            raise ValueError(
                "a threshold test takes no weighted tables: a record would move counts by more than 1."
            )
        self._threshold = checks.integer("threshold", threshold, low=1)
        cost = exact_epsilon(epsilon)
        self._table = table
        backend = table._backend
        self._distribution = ThresholdNoise(backend.laplace(1, cost / 2), backend.laplace(2, cost / 2))
        self._asked, self._closed = 0, False
        self._event = Pure(cost)
        table._charge([self._event])
        self._noise: int | None = None  # drawn for the first answer, and kept nowhere
        # a ledger keeps who began the test: whoever plays it back has another threshold, and must not go on
        mark = np.array([int.from_bytes(os.urandom(7), "big")], np.int64)
        self._began = bool((table._kept({"threshold": self._threshold}, lambda: mark) == mark).all())

    @property
    def closed(self) -> bool:
        """True if "far" has been told; nothing more can be asked."""
        return self._closed

    def far(self, query: Query, guess: float) -> bool:
        """Return whether a count lies far from a guess, give or take the noise.

        Args:
            query: of one row with integers as entries, which no record moves by more than 1.
            guess: of its answer (counts), from released numbers or none; rounded to an integer.

        Raises:
            ValueError: a query that does not fit, or a test that has ended.
            ThresholdLost: the test is that of another run, played back from a ledger, which keeps no secrets,
                and this answer would need its noisy threshold: open another test, which costs as much.
            TableReadError: the table could not be read.
        """
        if self._closed:
            raise ValueError("this threshold test has told a `far` and ended: open another one.")
        table = self._table
        planned = self._planned(query)
        guess = min(max(round(checks.number("guess", guess)), -_LARGEST), _LARGEST)
        check_memory(table.domain, [query.clique])
        asked = {"far": {"query": query.to_spec(), "guess": guess}}
        if not self._began and not table._is_kept(asked):
            raise ThresholdLost(
                "the noisy threshold of this test was lost with an interrupted run: open another one."
            )
        told = table._kept(asked, functools.partial(self._compare, planned, guess))
        self._asked, self._closed = self._asked + 1, bool(told[0])
        return self._closed

    def _compare(self, planned: measuring.PlannedMeasurement, guess: int) -> np.ndarray:
        """Compare the noisy distance with the noisy threshold; int64 [1]."""
        table, query = self._table, planned.query
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
        return table._pass(call, lambda: (distance + noise >= limit).astype(np.int64))

    def _drawn(self, distribution: DiscreteNoise) -> int:
        return 0 if self._replays() else int(measuring.fresh(self._table._backend, distribution, 1)[0])

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
        return measuring.PlannedMeasurement(query, self._distribution.distance, sensitivity, self._event, 1)

    def _replays(self) -> bool:
        return self._table._tape is not None and self._table._tape.replays
