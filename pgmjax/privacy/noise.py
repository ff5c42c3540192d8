"""The choke point: the one place where exact counts of a private table meet noise.

Front-ends hold a `PrivateTable` and never exact marginals. Everything that could fail for public
reasons is checked first, then the budget, then the table; a spend is charged before the table's
counts are read, and noise is added in the call that reads them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax.cliques import Clique
from pgmjax.counting import check_memory
from pgmjax.dataset import Dataset
from pgmjax.domain import Domain
from pgmjax.laws import Law
from pgmjax.measurements import LinearMeasurement
from pgmjax.privacy import tape as tapes
from pgmjax.privacy.amounts import exact_epsilon, exact_rho
from pgmjax.privacy.backend import NoiseBackend, default_backend
from pgmjax.privacy.budget import Budget
from pgmjax.progress import Progress
from pgmjax.queries import Query
from pgmjax.relation import Relation

_INT64_SAFE = 2**62
_RECORDS_LIMIT = 2**53
_CHUNK = 1 << 16


class TableReadError(RuntimeError):
    """Reading the private table failed after the budget was charged; says nothing about its rows."""


@dataclasses.dataclass(frozen=True)
class _Planned:
    """A query with its law, everything about it public."""

    query: Query
    law: Law
    norm: int
    bound: int
    column_norm: int
    rows: int


class PrivateTable:
    """A table that answers only with noise, under a budget.

    Args:
        data: the table; nothing else may touch it.
        relation: which tables are neighbours; no default.
        budget: what may be spent on it.
        backend: source of noise; None is the secure one.
        tape: for tests, see `pgmjax.privacy.tape`; None takes the enclosing block's, if any.

    Guarantees:
        All answers together are `budget.cap`-DP (unit epsilon) or `budget.cap`-zCDP (unit rho)
        under `relation`, whatever the answers were used for, one record being the unit protected.
        Domain, weights' bound and queries must not depend on the table. Time taken is not protected.

    Example:
        >>> from pgmjax.queries import marginal
        >>> data = Dataset.from_columns(Domain({"sex": 2}), {"sex": [0, 1, 1]})
        >>> table = PrivateTable(data, Relation.ADD_REMOVE, Budget(1))
        >>> measured = table.measure([marginal(["sex"])], epsilons=["0.1"])
        >>> table
        PrivateTable(Domain({sex: 2}), add-remove, Budget(epsilon: 0.1 of 1 spent))
    """

    def __init__(
        self,
        data: Dataset,
        relation: Relation,
        budget: Budget,
        backend: NoiseBackend | None = None,
        tape: tapes.Tape | None = None,
    ):
        if not isinstance(data, Dataset):
            raise TypeError(f"data must be a pgmjax.Dataset, got {type(data).__name__}.")
        if not isinstance(budget, Budget):
            raise TypeError(f"budget must be a Budget, got {type(budget).__name__}.")
        self._data = data
        self._relation = Relation.parse(relation)
        self._budget = budget
        self._backend = (default_backend() if backend is None else backend).restart()
        self._tape = tapes.active() if tape is None else tape

    @property
    def domain(self) -> Domain:
        """The table's public domain."""
        return self._data.domain

    @property
    def relation(self) -> Relation:
        """Which tables are neighbours."""
        return self._relation

    @property
    def weighted(self) -> bool:
        """Whether its records have weights; public."""
        return self._data.weighted

    @property
    def max_weight(self) -> int:
        """The public bound on a record's weight, 1 without weights."""
        return self._data.max_weight

    @property
    def budget(self) -> Budget:
        """What may be spent and has been."""
        return self._budget

    @property
    def secure(self) -> bool:
        """Whether what comes from here may be published: secure noise, and no tape running."""
        return self._backend.secure and self._tape is None

    @property
    def seed(self) -> int | None:
        """The seed of the noise, None where it cannot be repeated."""
        return self._backend.seed

    def measure(
        self,
        queries: Sequence[Query],
        *,
        epsilons: Sequence[Any] | None = None,
        rhos: Sequence[Any] | None = None,
        show_progress: bool | None = None,
    ) -> tuple[LinearMeasurement, ...]:
        """Answer integral queries with integer noise, each under its own part of the budget.

        Args:
            queries: what to ask; entries of their matrices must be integers.
            epsilons: one exact epsilon a query (discrete Laplace), for a budget of unit epsilon.
            rhos: one exact rho a query (discrete Gaussian), for a budget of unit rho.
            show_progress: None shows a bar in terminals only, False never.

        Returns:
            One measurement a query; values int64 [rows], stddev the exact one of the discrete law.

        Raises:
            ValueError: bad queries or parameters; nothing was spent.
            BudgetExceeded: the budget does not suffice; nothing was spent and no data was read.
            TableReadError: the table could not be read; the spend stays.

        Guarantees:
            Query i is epsilon_i-DP by Laplace noise of scale (its L1 sensitivity) / epsilon_i, or
            rho_i-zCDP by Gaussian noise of variance (its squared L2 sensitivity) / (2 rho_i); all
            together cost the sum. Sensitivities are computed from the query objects.
        """
        costs = self._costs(len(queries), epsilons, rhos)
        planned = [self._plan(query, cost) for query, cost in zip(queries, costs, strict=True)]
        check_memory(self.domain, [query.clique for query in queries])
        spend = sum(costs, Fraction(0))
        self._budget.require(spend)
        self._data.validate()
        self._budget.charge(spend)
        noise = self._draw(planned, show_progress)
        return self._answer(planned, noise)

    def public_count(self) -> int:
        """Return the exact number of records, which is public where records are replaced.

        Raises:
            ValueError: records are added and removed, or weighted: then the number is private.

        Guarantees:
            Neighbours under REPLACE_ONE have the same number of records: nothing is spent.
        """
        if self._relation is not Relation.REPLACE_ONE:
            raise ValueError(
                "The number of records is private under Relation.ADD_REMOVE: leave the total to be estimated "
                "from the measurements, or measure it."
            )
        if self._data.weighted:
            raise ValueError(
                "The total weight of a weighted table is private: replacing a record may change its weight. "
                "Leave the total to be estimated from the measurements."
            )
        exact = np.array([self._data.count()], dtype=np.int64)
        return int(self._pass(tapes.Call("public count", (), 1, 0, exact), exact)[0])

    def public_total(self) -> int | None:
        """Return the number of records where it is public, otherwise None: it must be estimated."""
        public = self._relation is Relation.REPLACE_ONE and not self._data.weighted
        return self.public_count() if public else None

    def _costs(
        self, number: int, epsilons: Sequence[Any] | None, rhos: Sequence[Any] | None
    ) -> tuple[Fraction, ...]:
        if (epsilons is None) == (rhos is None):
            raise ValueError("Give either epsilons (Laplace noise) or rhos (Gaussian noise).")
        unit = "epsilon" if rhos is None else "rho"
        if unit != self._budget.unit:
            raise ValueError(f"The budget counts {self._budget.unit}, but {unit}s are to be spent.")
        given = epsilons if rhos is None else rhos
        assert given is not None
        if number == 0:
            raise ValueError("There is nothing to measure: give at least one query.")
        if len(given) != number:
            raise ValueError(f"There must be one {unit} a query: expected {number}, got {len(given)}.")
        check = exact_epsilon if rhos is None else exact_rho
        return tuple(check(value) for value in given)

    def _plan(self, query: Query, cost: Fraction) -> _Planned:
        if not isinstance(query, Query):
            raise TypeError(f"A query must be a pgmjax.queries.Query, got {type(query).__name__}.")
        domain = self._data.domain
        query.check(domain)
        if not query.is_integral(domain):
            raise ValueError(
                f"The query on {query.clique} is not integral. Noise is integer, so a query to be measured "
                "needs a matrix of integers: multiply its rows by a common factor and round, then divide the "
                "answers."
            )
        weight = self._data.max_weight if self._data.weighted else None
        column_norm = _whole(query.l1_sensitivity(Relation.ADD_REMOVE, domain))
        law: Law
        if self._budget.unit == "epsilon":
            norm, bound = 1, _whole(query.l1_sensitivity(self._relation, domain, weight))
            law = self._backend.laplace(bound, cost)
        else:
            norm, bound = 2, _whole(query.l2_sensitivity_squared(self._relation, domain, weight))
            law = self._backend.gaussian(bound, cost)
        return _Planned(query, law, norm, bound, column_norm, query.num_rows(domain))

    def _draw(self, planned: Sequence[_Planned], show_progress: bool | None) -> list[np.ndarray]:
        """Draw all noise before the table is read, so that its time tells nothing about the counts."""
        if self._tape is not None and self._tape.replays:
            return [np.zeros(plan.rows, dtype=np.int64) for plan in planned]
        noise = [np.empty(plan.rows, dtype=np.int64) for plan in planned]
        with Progress("measuring", sum(plan.rows for plan in planned), show_progress) as progress:
            for law in dict.fromkeys(plan.law for plan in planned):
                places = [i for i, plan in enumerate(planned) if plan.law == law]
                drawn = np.empty(sum(planned[i].rows for i in places), dtype=np.int64)
                for start in range(0, drawn.size, _CHUNK):
                    part = drawn[start : start + _CHUNK]
                    part[:] = self._backend.draw(law, part.size)
                    progress.advance(part.size)
                ends = np.cumsum([planned[i].rows for i in places])
                for i, part in zip(places, np.split(drawn, ends[:-1]), strict=True):
                    noise[i] = part
        return noise

    def _answer(
        self, planned: Sequence[_Planned], noise: Sequence[np.ndarray]
    ) -> tuple[LinearMeasurement, ...]:
        cliques = list(dict.fromkeys(plan.query.clique for plan in planned))
        tables = self._marginals(cliques)
        released = []
        for plan, added in zip(planned, noise, strict=True):
            exact = _exact_answers(plan, tables[plan.query.clique])
            parameters = (plan.query.clique, plan.query, plan.law)
            call = tapes.Call(plan.law.noise, parameters, plan.norm, plan.bound, exact)
            values = self._pass(call, exact + added)
            released.append(LinearMeasurement.released(plan.query, values, plan.law))
        return tuple(released)

    def _marginals(self, cliques: list[Clique]) -> dict[Clique, np.ndarray]:
        try:
            return dict(zip(cliques, self._data.marginals(cliques), strict=True))
        except Exception as error:  # its own message may quote a row
            failure = type(error).__name__
        # raised out here, so that the error does not carry the other one along as its context
        raise TableReadError(
            f"Reading the table failed with {failure} after the budget was charged. Details are withheld, "
            "since they may show private values; data.validate() is a safe place to look."
        )

    def _pass(self, call: tapes.Call, released: np.ndarray) -> np.ndarray:
        return released if self._tape is None else self._tape.passage(call, lambda: released)

    def __repr__(self) -> str:
        return f"PrivateTable({self.domain!r}, {self._relation.value}, {self._budget!r})"


def _whole(sensitivity: Any) -> int:
    """Return the sensitivity of an integral query as an integer; a float is an upper bound of one."""
    return math.ceil(Fraction(sensitivity))


def _exact_answers(plan: _Planned, table: np.ndarray) -> np.ndarray:
    """Return the exact answers, int64 [rows], refusing what could wrap around."""
    if table.dtype != np.int64:
        raise TypeError(f"Exact marginals must be int64, got {table.dtype}.")
    records = int(table.sum()) if table.sum(dtype=np.float64) < _RECORDS_LIMIT else _RECORDS_LIMIT
    if records >= _RECORDS_LIMIT or records * plan.column_norm > _INT64_SAFE:
        raise TableReadError(
            f"Answers of the query on {plan.query.clique} could overflow 64-bit integers: "
            "scale its matrix down."
        )
    answers = np.asarray(plan.query.apply(table)).reshape(-1)
    if answers.dtype != np.int64 or answers.size != plan.rows:
        raise TypeError(
            f"The query on {plan.query.clique} must answer with {plan.rows} integers, got {answers.size} of "
            f"type {answers.dtype}."
        )
    return answers
