"""The state of a session: a function of its records alone, the same in every process.

The state is the history, its estimator and its cost. An accuracy requirement is met by an interval from the
history or by a budget. An answer is a number with an interval and its source,
or the reason for a refusal.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from pgmjax._internal import checks
from pgmjax.data.counting import check_memory
from pgmjax.data.domain import Domain
from pgmjax.data.population import WHOLE, Population
from pgmjax.data.relation import Relation
from pgmjax.history.bayes.blue import REFACTOR, BestLinearUnbiased, NotEstimableError
from pgmjax.history.bayes.distribution import NoiseSum
from pgmjax.history.bayes.inference import ENDS, Inference
from pgmjax.history.history import History
from pgmjax.history.session.costs import PLACES, CellAccount, least_epsilon
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.noise import DiscreteLaplace, DiscreteNoise
from pgmjax.privacy.exact import as_text, exact
from pgmjax.privacy.sensitivity import Sensitivity, check_measurable
from pgmjax.queries import Query
from pgmjax.queries import text as query_text
from pgmjax.queries.workload import as_entry

_ROUNDING = 1e-6  # of a length: ends of exact distributions are moved outwards by less
_BOUND_MARGIN = 0.9  # intervals are computed from this share of the least width that a bound allows
_WIDEST = 1 << 50  # of half-widths that are worth asking for
SMALLEST_DELTA = 1e-300
"""Smallest delta; below it, tail probabilities underflow."""
LARGEST_DELTA = 0.5
"""Largest delta; above it the level was meant."""


@dataclasses.dataclass(frozen=True)
class AccuracyRequirement:
    """A query of one row with the accuracy required of its answer.

    Attributes:
        query: the query.
        half_width: half the length of the longest acceptable interval (counts); epsilon in the paper.
        delta: the probability with which the interval may miss the true answer.
    """

    query: Query
    half_width: float
    delta: float

    @classmethod
    def of(cls, query: Any, half_width: Any, delta: Any, domain: Domain) -> AccuracyRequirement:
        """Return a requirement after checking it against a domain; nothing is spent if it is rejected.

        Raises:
            TypeError: an argument is not a query or not a number.
            ValueError: the query is over another domain, has several rows or only zeros, the half-width is
                not finite and > 0, or delta is outside [SMALLEST_DELTA, LARGEST_DELTA].
        """
        query = query_text.asked(domain, query)
        if query.num_rows(domain) != 1:
            raise ValueError(
                f"a session is asked one number at a time, got a query of {query.num_rows(domain)} rows: ask "
                "row by row, or buy(query, epsilon) answers to all of them."
            )
        if not query.l1_sensitivity(Relation.ADD_REMOVE, domain):
            raise ValueError("the query has no entry but zeros: its answer is 0 for every table.")
        half_width = checks.number("half_width", half_width, above=0)
        delta = checks.number("delta", delta, above=0)
        checks.refuse(
            (
                delta > LARGEST_DELTA,
                f"delta must be at most {LARGEST_DELTA}, got {delta:g}: it is the chance that the interval "
                "misses the true answer, such as 0.05. Nothing was spent.",
            ),
            (
                delta < SMALLEST_DELTA,
                f"delta must be at least {SMALLEST_DELTA:g}, got {delta:g}: distributions of noise are not "
                "computed further into their tails. Nothing was spent.",
            ),
        )
        return cls(query, half_width, delta)

    def is_met_by(self, answer: Inference) -> tuple[float, float] | None:
        """Return an interval that holds the truth with probability 1 - delta and is short enough, if any.

        Whether one exists depends on the history's queries and distributions; its position also depends on
        their answers. Neither uses the table.
        """
        # A shortcut. A continuous log-concave distribution has at most sqrt(2) w / stddev within w. One whose
        # noises are whole may have an atom there too, so w is lengthened by the largest distance of two
        # atoms.
        reach = self.half_width + (
            max(answer.distribution.sizes, default=0.0) if answer.distribution.is_discrete else 0.0
        )
        if math.sqrt(2) * reach < _BOUND_MARGIN * (1 - self.delta) * answer.distribution.stddev:
            return None
        ends = interval(answer, self.delta)
        short = ends[1] - ends[0] <= 2 * self.half_width * (1 + _ROUNDING)
        return ends if short else None

    def price(
        self,
        domain: Domain,
        relation: Relation,
        laplace: Callable[[int, Fraction], DiscreteLaplace],
        records: int = 1,
    ) -> tuple[int, Fraction, DiscreteLaplace]:
        """Return the least budget whose noise alone meets the requirement.

        Args:
            domain: domain of the table.
            relation: the neighbouring relation.
            laplace: returns the distribution that a backend draws for a sensitivity and an epsilon.
            records: the largest number of records of a unit of privacy.

        Returns:
            One over the noise's scale in units of 10^-12, the epsilon, and the distribution.

        Raises:
            ValueError: the query has non-integer entries or a marginal that does not fit in memory, or the
                requirement could only be met without noise.
        """
        check_measurable(self.query, domain)
        check_memory(domain, [self.query.clique])
        sensitivity = Sensitivity.of(self.query, domain, relation, "l1").of_unit(records).value
        if not sensitivity:
            raise ValueError(
                "no replacement of a record moves this answer: it is public. Compute it from the number of "
                "records, which is public too."
            )
        least = Fraction(least_epsilon(sensitivity, self.half_width, self.delta))
        rate = max(1, math.ceil(least * 10**PLACES / sensitivity))
        while True:
            epsilon = Fraction(rate * sensitivity, 10**PLACES)
            distribution = laplace(sensitivity, epsilon)
            if distribution.outside(math.floor(self.half_width)) <= self.delta:
                return rate, epsilon, distribution
            rate += max(1, rate >> 40)  # the distribution's scale is rounded up to a float

    def advice(self, pays: Callable[[AccuracyRequirement], bool]) -> str:
        """Return the least half-width that a budget pays, in whole records, as a sentence.

        Args:
            pays: whether the budget pays a requirement; it does not pay this one.
        """
        low = math.floor(self.half_width)
        high = 2 * low + 1
        while not pays(dataclasses.replace(self, half_width=float(high))):
            low, high = high, 2 * high + 1
            if high > _WIDEST:
                return "Nothing is left for another answer."
        while high - low > 1:
            middle = (low + high) // 2
            paid = pays(dataclasses.replace(self, half_width=float(middle)))
            low, high = (low, middle) if paid else (middle, high)
        return f"A half-width of {high:,} records can be paid."


def interval(answer: Inference, delta: float) -> tuple[float, float]:
    """Return the ends of an interval that holds the truth with probability 1 - delta (counts).

    The shortest one if the distribution can be computed that far into its tails, else by Chernoff's bound.
    """
    distribution = answer.distribution
    if distribution.num_terms == 1 and isinstance(
        distribution.distributions[0], DiscreteNoise
    ):  # without the margin of a computation
        width = float(distribution.sizes[0]) * (distribution.distributions[0].radius(delta) + ENDS)
        return answer.value - width, answer.value + width
    try:
        return answer.interval(1 - delta)
    except ValueError:
        radius = answer.distribution.radius(delta)
        return answer.value - radius, answer.value + radius


@dataclasses.dataclass(frozen=True)
class SessionAnswer:
    """The answer to one query.

    Attributes:
        step: number of its step in the session's records.
        source: "history" (free), "measured" (paid for), or "refused".
        value: the estimate (counts); None if refused.
        interval: closed interval that contains the true answer with probability 1 - delta over the noise;
            None if refused. This holds for queries not chosen by looking at the noisy answers; for a query
            asked because an answer stood out, coverage is lower.
        stddev: standard deviation of the estimate's noise (counts); None if refused.
        half_width: the required half-width (counts).
        delta: the required delta.
        epsilon: cost of this answer alone; 0 if free or refused.
        system_cost: cost of all answers together afterwards, in epsilon.
        secure: whether the session's noise protects; if it is reproducible, nothing may be published.
        reason: why it was refused, or "".
    """

    step: int
    source: str
    value: float | None
    interval: tuple[float, float] | None
    stddev: float | None
    half_width: float
    delta: float
    epsilon: Fraction
    system_cost: Fraction
    secure: bool
    reason: str = ""

    @classmethod
    def of(
        cls,
        step: int,
        record: dict[str, Any],
        state: SessionState,
        source: str,
        value: float | None = None,
        interval: tuple[float, float] | None = None,
        stddev: float | None = None,
        reason: str = "",
    ) -> SessionAnswer:
        """Return the answer to what a record asked, in the state right after it."""
        epsilon = exact("epsilon", record["epsilon"]) if record["kind"] == "bought" else Fraction(0)
        given = (source, value, interval, stddev, record["half_width"], record["delta"], epsilon)
        return cls(step, *given, state.account.cost, state.secure, reason)

    @property
    def answered(self) -> bool:
        """Return whether there is an answer."""
        return self.source != "refused"

    def to_dict(self) -> dict[str, Any]:
        """Return the answer for JSON, exact numbers as text."""
        return {
            **dataclasses.asdict(self),
            "interval": None if self.interval is None else list(self.interval),
            "epsilon": as_text(self.epsilon),
            "system_cost": as_text(self.system_cost),
        }

    def __str__(self) -> str:
        if self.value is None or self.interval is None:
            return f"refused: {self.reason}"
        low, high = self.interval
        paid = "free, from the history" if self.source == "history" else f"epsilon {as_text(self.epsilon)}"
        return f"{self.value:,.1f} in [{low:,.1f}, {high:,.1f}] with {1 - self.delta:g} ({paid})" + (
            "" if self.secure else "; repeatable noise, for research only"
        )


@dataclasses.dataclass(eq=False)
class SessionState:
    """The state after a sequence of records; it changes only through `add`.

    Attributes:
        domain: domain of the table.
        relation: the neighbouring relation.
        cap: largest cost of all answers together, in epsilon.
        history: all noisy answers.
        account: their cost.
        secure: whether the session's noise protects.
        population: the records that answers are about.
    """

    domain: Domain
    relation: Relation
    cap: Fraction
    history: History
    account: CellAccount
    secure: bool
    population: Population = WHOLE
    _blue: tuple[int, BestLinearUnbiased] | None = None

    @classmethod
    def of(cls, records: list[dict[str, Any]]) -> SessionState:
        """Return the state after some records, of which step 0 describes the session."""
        header = records[0]
        domain, relation = Domain(header["domain"]), Relation.parse(header["relation"])
        given = [
            LinearMeasurement.released(query_of(entry), entry["values"], DiscreteLaplace(entry["scale"]))
            for entry in header["given"]
        ]
        secure = bool(header["secure"])
        history = History(domain, given, relation=relation, secure=secure)
        population = Population.from_dict(header["population"])
        unit = population.unit
        account = CellAccount(domain, relation, records=1 if unit is None else unit.max_records)
        state = cls(domain, relation, exact("cap", header["cap"]), history, account, secure, population)
        for before, record in itertools.pairwise(records):
            state.add(record, before)
        return state

    def add(self, record: dict[str, Any], before: dict[str, Any]) -> None:
        """Add one more record; `before` is the previous one."""
        if record["kind"] == "bought":
            self.account = self.account.added(query_of(record), record["rate"])
        elif record["kind"] == "noise":
            distribution = DiscreteLaplace(record["scale"])
            self.history = self.history.append(
                LinearMeasurement.released(query_of(before), record["values"], distribution)
            )

    @property
    def blue(self) -> BestLinearUnbiased | None:
        """The best linear unbiased estimator from all answers so far, by rank-one updates where exact.

        It is a function of the records: processes that have read the same records have bitwise the same one.
        """
        number = len(self.history.measurements)
        if not number:
            return None
        start = self._start(number)
        if self._blue is None or not start <= self._blue[0] <= number:
            self._blue = start, BestLinearUnbiased.of(History(self.domain, self.history.measurements[:start]))
        known, blue = self._blue
        for measurement in self.history.measurements[known:number]:
            blue = blue.append(
                measurement.query, float(measurement.flat_values()[0]), measurement.distribution
            )
        self._blue = number, blue
        return blue

    def estimate(self, query: Query) -> Inference | str:
        """Return the history's estimate of a query, or a message that names what is missing."""
        blue = self.blue
        if blue is None:
            return "nothing was measured yet"
        try:
            return blue.answer(query, method="characteristic")
        except NotEstimableError:
            return "the history does not tell it"

    def free(self, requirement: AccuracyRequirement) -> tuple[Inference, tuple[float, float]] | str:
        """Return an estimate and its interval if they meet a requirement, else a message."""
        known = self.estimate(requirement.query)
        if isinstance(known, str):
            return known
        ends = requirement.is_met_by(known)
        return (known, ends) if ends is not None else "the history tells it less exactly than that"

    def measured(self, step: int, bought: dict[str, Any], noise: dict[str, Any]) -> SessionAnswer:
        """Return the answer after the newest measurement: the estimate with the shorter interval."""
        requirement = AccuracyRequirement(query_of(bought), bought["half_width"], bought["delta"])
        distribution, value = DiscreteLaplace(noise["scale"]), float(noise["values"][0])
        width = distribution.radius(requirement.delta)
        answer = Inference(value, NoiseSum([1.0], [distribution]))
        ends = value - width, value + width
        known = self.estimate(requirement.query)
        if not isinstance(known, str):
            other = interval(known, requirement.delta)
            if other[1] - other[0] < ends[1] - ends[0]:
                answer, ends = known, other
        return SessionAnswer.of(step, bought, self, "measured", answer.value, ends, answer.stddev)

    def _start(self, number: int) -> int:
        """Return the last measurement at which the estimator was refactorised, the same in every process."""
        for place in range(number, 0, -1):
            rows = self.history.measurements[place - 1].values.size
            if place == 1 or rows > 1 or place % REFACTOR == 0:
                return place
        return number


def answer_at(state: SessionState, records: list[dict[str, Any]], step: int) -> SessionAnswer | None:
    """Return the answer that a record gives, in the state right after it; None if it gives none.

    A purchase gives none: its answer comes with the next record. Free answers and refusals are as recorded:
    on another machine linear algebra may round differently, so that a requirement that was barely met would
    no longer be.
    """
    record, before = records[step], records[step - 1]
    if record["kind"] == "free":
        low, high = record["interval"]
        return SessionAnswer.of(
            step, record, state, "history", record["value"], (low, high), record["stddev"]
        )
    if record["kind"] == "refused":
        return SessionAnswer.of(step, record, state, "refused", reason=record["reason"])
    if record["kind"] == "bought" or "half_width" not in before:  # measured in advance: nobody asked
        return None
    if record["kind"] == "noise":
        return state.measured(step - 1, before, record)
    reason = (
        "its noise could not be computed, as often as the account lets it be tried; its cost stays spent."
    )
    return SessionAnswer.of(step - 1, before, state, "refused", reason=reason)


def query_of(record: dict[str, Any]) -> Query:
    """Return the query of a record."""
    return as_entry(0, record["query"]).query
