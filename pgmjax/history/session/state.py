"""What follows from a session's records: its history, its estimator and its cost, step by step."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any

from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.history.bayes.blue import Blue
from pgmjax.history.bayes.coordinates import NotEstimableError
from pgmjax.history.bayes.inference import Inference
from pgmjax.history.bayes.noise_sum import NoiseSum
from pgmjax.history.history import History
from pgmjax.history.session.cell_account import CellAccount
from pgmjax.history.session.demand import Demand, interval
from pgmjax.history.session.session_answer import SessionAnswer
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.noise import DiscreteLaplace
from pgmjax.queries import Query
from pgmjax.queries.workload import as_entry

_REFACTOR = 64  # answers after which the estimator is made anew: at the same ones in every process


@dataclasses.dataclass(eq=False)
class SessionState:
    """The state after some records; it changes only by `add`.

    Attributes:
        domain: the table's.
        relation: which tables are neighbours.
        cap: what all answers together may cost, in epsilon.
        history: all that was answered with noise.
        account: what it cost.
        secure: whether the session's noise protects.
    """

    domain: Domain
    relation: Relation
    cap: Fraction
    history: History
    account: CellAccount
    secure: bool
    _blue: tuple[int, Blue] | None = None

    @classmethod
    def of(cls, header: dict[str, Any]) -> SessionState:
        """Return the state that step 0 describes."""
        domain, relation = Domain(header["domain"]), Relation.parse(header["relation"])
        given = [
            LinearMeasurement.released(query_of(entry), entry["values"], DiscreteLaplace(entry["scale"]))
            for entry in header["given"]
        ]
        secure = bool(header["secure"])
        history = History(domain, given, relation=relation, secure=secure)
        account = CellAccount.empty(domain, relation)
        return cls(domain, relation, Fraction(header["cap"]), history, account, secure)

    def add(self, record: dict[str, Any], before: dict[str, Any]) -> None:
        """Take up one more record, of which `before` is the one before it."""
        if record["kind"] == "bought":
            self.account = self.account.added(query_of(record), record["rate"])
        elif record["kind"] == "noise":
            law = DiscreteLaplace(record["scale"])
            self.history = self.history.append(
                LinearMeasurement.released(query_of(before), record["values"], law)
            )

    def copy(self) -> SessionState:
        """Return a state that changes by itself."""
        return dataclasses.replace(self)

    @property
    def blue(self) -> Blue | None:
        """The best linear unbiased estimator of everything so far, by rank-one updates where that is exact.

        It is a function of the records: processes that have seen the same ones have the same, to the bit.
        """
        number = len(self.history.measurements)
        if not number:
            return None
        start = self._start(number)
        if self._blue is None or not start <= self._blue[0] <= number:
            self._blue = start, Blue.of(History(self.domain, self.history.measurements[:start]))
        known, blue = self._blue
        for measurement in self.history.measurements[known:number]:
            blue = blue.append(measurement.query, float(measurement.flat_values()[0]), measurement.law)
        self._blue = number, blue
        return blue

    def estimate(self, query: Query) -> Inference | str:
        """Return what the history tells of a query, or in words what of it is missing."""
        blue = self.blue
        if blue is None:
            return "nothing was measured yet"
        try:
            return blue.answer(query, method="characteristic")
        except NotEstimableError as error:
            return str(error).split(". Ask for")[0]

    def free(self, demand: Demand) -> tuple[Inference, tuple[float, float]] | str:
        """Return an estimate and its interval where they meet a demand, else in words why they do not."""
        known = self.estimate(demand.query)
        if isinstance(known, str):
            return known
        ends = demand.met_by(known)
        return (known, ends) if ends is not None else "the history tells it less exactly than that"

    def measured(self, step: int, bought: dict[str, Any], noise: dict[str, Any]) -> SessionAnswer:
        """Return the answer that the newest measurement gave: the estimate that has the shorter interval."""
        demand = Demand(query_of(bought), bought["half_width"], bought["delta"])
        law, value = DiscreteLaplace(noise["scale"]), float(noise["values"][0])
        width = law.radius(demand.delta)
        answer = Inference(value, NoiseSum([1.0], [law]))
        ends = value - width, value + width
        known = self.estimate(demand.query)
        if not isinstance(known, str):
            other = interval(known, demand.delta)
            if other[1] - other[0] < ends[1] - ends[0]:
                answer, ends = known, other
        return SessionAnswer(
            step,
            "measured",
            answer.value,
            ends,
            answer.stddev,
            demand.half_width,
            demand.delta,
            Fraction(bought["epsilon"]),
            self.account.cost,
            self.secure,
        )

    def _start(self, number: int) -> int:
        """The last measurement with which the estimator was made anew."""
        for place in range(number, 0, -1):
            rows = self.history.measurements[place - 1].values.size
            if place == 1 or rows > 1 or place % _REFACTOR == 0:
                return place
        return number


def query_of(record: dict[str, Any]) -> Query:
    """Return the query of a record."""
    return as_entry(0, record["query"]).query
