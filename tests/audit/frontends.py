"""Front-ends of the choke point that are no release, made so that audits can run them.

Each class is called and run as a mechanism is, and returns everything public that it has seen. `TABLE` are
those of tables, `RATINGS` those of ratings and `OPEN` those of raw columns, which have neighbouring tables of
their own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import pathlib
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from pgmjax import random
from pgmjax.data.dataset import Dataset
from pgmjax.data.definition import TableDefinition
from pgmjax.data.ratings import Ratings
from pgmjax.data.relation import Relation
from pgmjax.history.session.session import Session
from pgmjax.mechanisms.mldp_similarity import SimilarityMLDP
from pgmjax.mechanisms.online_weights import OnlineWeights
from pgmjax.mechanisms.parameters import Keeping, PrivacyParameters, workload_over
from pgmjax.privacy.budget import BudgetExceeded
from pgmjax.privacy.ledger import Ledger
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.ratings import MEASURES, PROTECTS, PrivateRatings
from pgmjax.privacy.responding import ENCODINGS
from pgmjax.privacy.scores import Counts, Distances
from pgmjax.privacy.tape import Call, NonInterferenceError
from pgmjax.privacy.threshold import ThresholdTest
from pgmjax.queries import DenseMatrix, Product, Query, marginal, point
from pgmjax.queries.workload import Workload
from tests.audit.discovery import DiscoveryRuns

_SCALE = (1.0, 5.0)
_RECORDS, _ITEMS = 12, 6


@dataclasses.dataclass(frozen=True)
class TableCalls(PrivacyParameters):
    """Everything that a `PrivateTable` can be asked: half of the budget for measurements, then the rest.

    Args:
        encoding: of the records' own answers, where they may give them.

    Guarantees:
        As `mechanisms.Marginals`, for equal parts of the budget.
    """

    encoding: str = "direct"

    name: ClassVar[str] = "table-calls"
    summary: ClassVar[str] = "all calls of a private table"
    audited_values: ClassVar[dict[str, tuple[Any, ...]]] = {"encoding": ENCODINGS}

    def run(
        self, data: Dataset, workload: Workload, *, ledger: Ledger | None = None, key: str | None = None
    ) -> tuple[Any, ...]:
        """Make the calls, the last of them beyond the budget."""
        self._check_table(data)
        workload = workload_over(workload, data.domain)
        table = self._open_table(data, workload, {"mechanism": self.name}, Keeping(ledger, key))
        unit, queries = table.budget.unit, [entry.query for entry in workload.entries]
        parts = table.budget.split([1] * 9)
        each = [sum(parts[:4]) / len(queries)] * len(queries)
        told: list[Any] = [table.measure(queries, **_costs(unit, each), show_progress=False)]
        score = _distances(data, queries)
        costs: list[dict[str, Any]] = [{unit: parts[4]}, {unit: parts[5] / 3}]
        told.append(table.select(score, **costs[0]))
        told.append(table.select_several(Counts(marginal(data.domain.attributes[:1])), 3, **costs[1]))
        told.append(table.measure_scores(score, **{unit: parts[8]}).tolist())
        told.append(table.public_total())
        if unit == "epsilon" and not table.weighted:
            told.append(_threshold(table, parts[6]))
            if self.relation is Relation.REPLACE_ONE:
                groups = [[name] for name in data.domain if data.domain[name] > 1][:1]
                asked = table.respond(
                    groups, epsilons=[parts[7]], encodings=[self.encoding], show_progress=False
                )
                told.append(list(asked))
        told.append(_refused(lambda: table.measure(queries[:1], **_costs(unit, [table.budget.cap]))))
        return (*told, table.budget.statement(), repr(table), table.secure)


def _costs(unit: str, costs: list[Any]) -> dict[str, Any]:
    return {f"{unit}s": costs}


def _distances(data: Dataset, queries: list[Query]) -> Distances:
    """Scores of the workload's marginals by their distance from zero."""
    cliques = dict.fromkeys(query.clique for query in queries)
    zeros = [np.zeros(data.domain.shape_of(clique), dtype=np.int64) for clique in cliques]
    return Distances([(marginal(clique), zero, 1, 0) for clique, zero in zip(cliques, zeros, strict=True)])


def _threshold(table: PrivateTable, cost: Any) -> list[bool]:
    test = ThresholdTest(table, 3, cost)
    told: list[bool] = []
    for guess in (0, 5, 50):
        if not test.closed:
            told.append(test.far(Product({table.domain.attributes[0]: point(0)}), guess))
    return told


def _refused(act: Any) -> str:
    try:
        act()
    except BudgetExceeded as error:
        return str(error)
    return "granted"


@dataclasses.dataclass(frozen=True)
class OnlineQueries(PrivacyParameters):
    """`OnlineWeights`, asked a workload row by row; see there for the arguments and the guarantee."""

    updates: int = 3
    threshold: int | None = 2
    split: Any = "1/2"
    sweeps: int | None = None

    name: ClassVar[str] = OnlineWeights.name
    summary: ClassVar[str] = "answer queries as they come"
    relations: ClassVar[tuple[Relation, ...]] = OnlineWeights.relations
    accepts_weights: ClassVar[bool] = OnlineWeights.accepts_weights
    restriction: ClassVar[str] = OnlineWeights.restriction
    spends_delta: ClassVar[bool] = False

    def run(
        self, data: Dataset, workload: Workload, *, ledger: Ledger | None = None, key: str | None = None
    ) -> dict[str, Any]:
        """Ask, and return all that was told."""
        names = ("updates", "threshold", "split", "sweeps")
        settings = {name: getattr(self, name) for name in names}
        online = OnlineWeights(self.epsilon, self.relation, backend=self.backend, **settings)
        opened = online.run(data, workload, ledger=ledger, key=key)
        public = ("answered", "measurements", "asked", "late", "spent", "secure")
        told = {name: getattr(opened, name) for name in public}
        return {**told, "model": opened.model.marginal(data.domain.attributes)}


@dataclasses.dataclass(frozen=True)
class SessionQueries(PrivacyParameters):
    """A `history.Session` that is asked and bought from, in a ledger of its own.

    Args:
        half_width: of the interval that is asked for (counts).

    Guarantees:
        As `history.Session`: counted cell by cell, which `check_cost` does over again.
    """

    half_width: int = 40

    name: ClassVar[str] = "session"
    summary: ClassVar[str] = "answer from past answers, or buy"
    accepts_weights: ClassVar[bool] = False
    restriction: ClassVar[str] = "a session counts records."
    spends_delta: ClassVar[bool] = False
    audited_values: ClassVar[dict[str, tuple[Any, ...]]] = {"half_width": (40, 15, 200)}

    def run(self, data: Dataset, workload: Workload) -> list[Any]:
        """Ask for rows of the workload's first query, buy its marginal, and ask for too much."""
        with fresh_ledger() as ledger:
            register(ledger, "t", data, epsilon=2 * self.epsilon, relation=self.relation)
            session = Session.open(
                ledger, data, cap=self.epsilon, relation=self.relation, backend=self.backend
            )
            told = self._asked(session, workload)
            books = [(each.cost, each.attempts, each.answers) for each in ledger.charges("t")]
            return [*told, books, ledger.account("t").remaining]

    @staticmethod
    def check_cost(calls: Sequence[Call], data: Dataset, epsilon: Any) -> None:
        """Check what calls cost together, cell by cell, from their matrices and scales alone.

        Raises:
            NonInterferenceError: some record's (or replacement's) loss is above epsilon.
        """
        cells = np.indices(data.domain.shape).reshape(len(data.domain), -1)
        rows = [np.zeros((0, cells.shape[1]))]
        for call in calls:
            query: Query = call.parameters[0]
            places = [data.domain.attributes.index(name) for name in query.clique]
            shape = data.domain.shape_of(query.clique)
            columns = np.ravel_multi_index(tuple(cells[place] for place in places), shape)
            matrix = np.asarray(query.matrix(data.domain)).reshape(-1, int(np.prod(shape)))
            distribution: Any = call.distribution
            rows.append(matrix[:, columns] / distribution.scale)
        weighed = np.concatenate(rows)
        lost = np.abs(weighed).sum(axis=0).max(initial=0)
        if any(call.sensitivity.relation is Relation.REPLACE_ONE for call in calls):
            lost = max(float(np.abs(weighed - other[:, None]).sum(axis=0).max()) for other in weighed.T)
        if lost > float(epsilon) * (1 + 1e-9):
            raise NonInterferenceError(
                f"The answers cost {lost:.6g} epsilon together, but only {float(epsilon):.6g} is claimed."
            )

    def _asked(self, session: Session, workload: Workload) -> list[Any]:
        query = workload.entries[0].query
        rows = np.asarray(query.matrix(session.domain)).reshape(query.num_rows(session.domain), -1)[:3]
        asked = [DenseMatrix(query.clique, row[None].astype(np.int64)) for row in rows]
        told: list[Any] = [session.ask(each, half_width=self.half_width, delta=0.2) for each in asked]
        session.buy(marginal(query.clique), self.epsilon / 4)
        told += [session.ask(each, half_width=3 * self.half_width, delta=0.2) for each in asked]
        told.append(session.ask(asked[0], half_width=1e-3, delta=1e-6))
        return [*told, session.cost, session.history.values, session.secure]


@dataclasses.dataclass(frozen=True)
class RatingsCalls(PrivacyParameters):
    """Everything that `PrivateRatings` can be asked.

    Args:
        protect: the unit that is replaced: "record" or "rating".
        measure: one of `privacy.ratings.MEASURES`.
        records: how many there are; all pairs of them are asked for.

    Guarantees:
        As `PrivateRatings`.
    """

    protect: str = "record"
    measure: str = "cosine"
    records: int = _RECORDS

    name: ClassVar[str] = "private-ratings"
    summary: ClassVar[str] = "noisy similarities of records with ratings"
    relations: ClassVar[tuple[Relation, ...]] = SimilarityMLDP.relations
    accepts_weights: ClassVar[bool] = False
    restriction: ClassVar[str] = SimilarityMLDP.restriction
    spends_delta: ClassVar[bool] = False
    audited_values: ClassVar[dict[str, tuple[Any, ...]]] = {
        "protect": PROTECTS,
        "measure": MEASURES,
        "records": (_RECORDS, 2),
    }

    def neighbours(self, pairs: int, seed: int) -> Iterator[tuple[Ratings, Ratings]]:
        """Yield pairs of neighbouring tables, see `neighbouring_ratings`."""
        return neighbouring_ratings(self.protect, pairs, seed, self.records)

    def run(self, ratings: Ratings, workload: Workload | None = None) -> tuple[Any, ...]:
        """Ask for all pairs and for one, then for more than there is budget for."""
        table = PrivateRatings(
            ratings, self.relation, self.budget(), protect=self.protect, backend=self.backend
        )
        pairs = np.argwhere(np.triu(np.ones((self.records, self.records), dtype=bool), 1))
        half = self.epsilon / 2
        told = [table.similarities(asked, self.measure, epsilon=half) for asked in (pairs, pairs[:1])]
        over = _refused(lambda: table.similarities(pairs[:1], self.measure, epsilon=half))
        return (*told, over, table.budget.statement(), table.secure)


@dataclasses.dataclass(frozen=True)
class SimilarityQueries(PrivacyParameters):
    """`SimilarityMLDP` on a few records; see there for the arguments and the guarantee."""

    protect: str = "record"
    measure: str = "cosine"
    training_count: int = 20
    learner: str = "ridge"

    name: ClassVar[str] = SimilarityMLDP.name
    summary: ClassVar[str] = "learn similarities from noisy ones"
    relations: ClassVar[tuple[Relation, ...]] = SimilarityMLDP.relations
    accepts_weights: ClassVar[bool] = False
    restriction: ClassVar[str] = SimilarityMLDP.restriction
    spends_delta: ClassVar[bool] = False
    audited_values: ClassVar[dict[str, tuple[Any, ...]]] = {
        "protect": PROTECTS,
        "measure": MEASURES,
        "training_count": (20, 1, 66, 67),  # of 66 pairs
        "learner": ("ridge", "linear"),
    }

    def neighbours(self, pairs: int, seed: int) -> Iterator[tuple[Ratings, Ratings]]:
        """Yield pairs of neighbouring tables, see `neighbouring_ratings`."""
        return neighbouring_ratings(self.protect, pairs, seed)

    def run(
        self,
        ratings: Ratings,
        workload: Workload | None = None,
        *,
        ledger: Ledger | None = None,
        key: str | None = None,
    ) -> Any:
        """Measure, learn and predict."""
        names = ("protect", "measure", "training_count", "learner")
        settings = {name: getattr(self, name) for name in names}
        made = SimilarityMLDP(self.epsilon, self.relation, backend=self.backend, **settings)
        predictor = made.run(ratings, ledger=ledger, key=key)
        public = ("released", "records", "epsilon", "protect", "secure", "limits")
        return [*(getattr(predictor, name) for name in public), predictor.predict([(0, 1), (2, 3)])]


def neighbouring_ratings(
    protect: str, pairs: int, seed: int = 0, records: int = _RECORDS, items: int = _ITEMS
) -> Iterator[tuple[Ratings, Ratings]]:
    """Yield pairs of neighbouring tables of ratings, in both orders.

    In every other pair the ratings that differ are the largest and the smallest of the scale, and all others
    of the record are alike.

    Args:
        protect: what is replaced: "record", all ratings of one, or "rating", the value of one rating.
        pairs: how many.
        seed: of the made-up ratings.
        records: how many there are.
        items: how many there are.

    Example:
        >>> first, second = next(neighbouring_ratings("rating", 1))
        >>> int((first.values != second.values).sum())
        1
    """
    generator = random.generator(seed)
    for number in range(pairs):
        extreme = number % 2 == 1
        rated = generator.random((records, items)) < 0.7
        rated[:, 0] = True  # nobody without a rating
        values = generator.integers(1, 6, (records, items)).astype(np.float64)
        place = int(generator.integers(records))
        if extreme:
            values[place] = _SCALE[number // 2 % 2]
        others, rated_too = values.copy(), rated.copy()
        if protect == "record":
            others[place] = sum(_SCALE) - values[place] if extreme else generator.integers(1, 6, items)
            rated_too[place] = rated[place] if extreme else generator.random(items) < 0.7
        else:
            item = int(generator.choice(np.flatnonzero(rated[place])))
            others[place, item] = sum(_SCALE) - values[place, item]
            if others[place, item] == values[place, item]:
                others[place, item] = _SCALE[1]
        pair = _ratings(values, rated), _ratings(others, rated_too)
        yield pair if number % 4 < 2 else pair[::-1]


def _ratings(values: np.ndarray, rated: np.ndarray) -> Ratings:
    records, items = np.nonzero(rated)
    return Ratings(records, items, values[rated], shape=rated.shape, scale=_SCALE)


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="pgmjax-audit-")


@contextlib.contextmanager
def fresh_ledger() -> Iterator[Ledger]:
    """Yield an empty ledger: each time at the same path, so that the words of an error repeat."""
    folder = pathlib.Path(_folder().name)
    for path in folder.iterdir():
        path.unlink()
    with Ledger.create(folder / "audit.ledger") as ledger:
        yield ledger


def register(ledger: Ledger, name: str, data: Any, *, defined: bool = True, **promise: Any) -> None:
    """Give a made-up table an account that takes repeatable noise, unless `research` is False.

    Args:
        ledger: a fresh one.
        name: of the account.
        data: the table.
        defined: whether the account gets the table's definition.
        promise: further arguments of `Ledger.register`.
    """
    definition = None
    if defined and isinstance(data, Dataset):
        weights, bound = ("weights", data.max_weight) if data.weighted else (None, None)
        definition = TableDefinition(data.domain, weights, bound, unit=data.unit)
    given = {"research": True, **promise}
    ledger.register(name, digest=ledger.digest_of(data), domain=definition, **given)


TABLE = (TableCalls, OnlineQueries, SessionQueries)
"""Front-ends of tables."""

RATINGS = (RatingsCalls, SimilarityQueries)
"""Front-ends of ratings."""

OPEN = (DiscoveryRuns,)
"""Front-ends of tables whose domain is open."""


def names() -> dict[str, type[Any]]:
    """Return the front-ends by the names that the command knows them by.

    Example:
        >>> list(names())
        ['table-calls', 'online-weights', 'session', 'private-ratings', 'similarity-mldp', 'discovery']
    """
    return {each.name: each for each in (*TABLE, *RATINGS, *OPEN)}
