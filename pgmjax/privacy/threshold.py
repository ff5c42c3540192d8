"""The sparse vector technique: whether counts lie far from guesses, at the cost of a single "far".

Questions may come one after the other and depend on what was told before. As long as the answer is "near",
any number of them costs no more than the first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.counting import check_memory
from pgmjax.privacy import measuring, tape
from pgmjax.privacy.accounting.events import Pure
from pgmjax.privacy.exact import exact_epsilon
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.selection import ThresholdLaw
from pgmjax.privacy.sensitivity import Sensitivity, check_measurable
from pgmjax.queries import Query

_LARGEST = 2**61
"""Guesses beyond it are moved there, so that no distance leaves int64."""


class ThresholdTest:
    """Tells for counts, one after the other, whether they lie far from a guess; ends with the first "far".

    Args:
        table: the private table.
        threshold: how far is far (counts), an integer; public.
        epsilon: what all questions together cost, exact; charged at once.

    Raises:
        TypeError: no private table, or a threshold that is no integer.
        ValueError: a threshold below 1, weighted records, or a table whose answers a ledger keeps: a run
            that goes on after an interruption would need its noisy threshold, which nobody may see.
        BudgetExceeded: the budget does not suffice; nothing was spent and no data was read.

    Guarantees:
        epsilon-DP under the table's relation for all answers together: the threshold gets discrete Laplace
        noise once, of scale 2 / epsilon, each distance anew, of scale 4 / epsilon; only queries are
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
        if table._journal is not None:
            raise ValueError(
                "a threshold test cannot be kept in a ledger: its noisy threshold is a secret that a "
                "resumed run would need. Charge the ledger for all of it by another run, or give no ledger."
            )
        self._threshold = checks.integer("threshold", threshold, low=1)
        cost = exact_epsilon(epsilon)
        self._table = table
        backend = table._backend
        self._law = ThresholdLaw(backend.laplace(1, cost / 2), backend.laplace(2, cost / 2))
        self._asked, self._closed = 0, False
        self._event = Pure(cost)
        table._charge([self._event])
        self._noise = 0 if self._replays() else int(backend.draw(self._law.threshold, 1)[0])

    @property
    def closed(self) -> bool:
        """Whether "far" has been told; nothing more can be asked."""
        return self._closed

    def far(self, query: Query, guess: float) -> bool:
        """Return whether a count lies far from a guess, give or take the noise.

        Args:
            query: of one row with integers as entries, which no record moves by more than 1.
            guess: of its answer (counts), from released numbers or none; rounded to an integer.

        Raises:
            ValueError: a query that does not fit, or a test that has ended.
            TableReadError: the table could not be read.
        """
        if self._closed:
            raise ValueError("this threshold test has told a `far` and ended: open another one.")
        table = self._table
        planned = self._planned(query)
        guess = min(max(round(checks.number("guess", guess)), -_LARGEST), _LARGEST)
        check_memory(table.domain, [query.clique])
        noise = 0 if self._replays() else int(table._backend.draw(self._law.distance, 1)[0])
        counts = table._marginals([query.clique])[query.clique]
        exact = table._withheld("Comparing", measuring.exact_answers, planned, table.domain, counts)
        distance = np.abs(exact - guess)
        call = tape.Call(
            "threshold",
            (query, guess, self._threshold, self._asked),
            self._law,
            planned.sensitivity,
            distance,
        )
        told = table._pass(call, lambda: (distance + noise >= self._threshold + self._noise).astype(np.int64))
        self._asked, self._closed = self._asked + 1, bool(told[0])
        return self._closed

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
        return measuring.PlannedMeasurement(query, self._law.distance, sensitivity, self._event, 1)

    def _replays(self) -> bool:
        return self._table._tape is not None and self._table._tape.replays
