"""Accuracy requirements on an answer, met by an interval from the history or by a budget."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from pgmjax._internal import checks
from pgmjax.data.counting import check_memory
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.history.bayes.inference import Inference
from pgmjax.history.session.costs import PLACES, least_epsilon
from pgmjax.measurements.noise import DiscreteLaplace, DiscreteNoise
from pgmjax.privacy.sensitivity import Sensitivity, check_measurable
from pgmjax.queries import Query

_ROUNDING = 1e-6  # of a length: ends of exact distributions are moved outwards by less
_HOPELESS = 0.9
SMALLEST_DELTA = 1e-300
"""Smallest delta; below it, tail probabilities underflow."""
_ASKED = "write, for example, Product({'sex': point('Female')})"
LARGEST_DELTA = 0.5
"""Largest delta; above it the level was meant."""
_ENDS = 1e-7  # keeps a true answer at an end inside in spite of rounding


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
        checks.kind(query, Query, "a session is asked a pgmjax.queries.Query", _ASKED)
        query = query.over(domain)
        if query.num_rows(domain) != 1:
            raise ValueError(
                f"a session is asked one number at a time, got a query of {query.num_rows(domain)} rows: ask "
                "row by row, or buy(query, epsilon) answers to all of them."
            )
        if not query.l1_sensitivity(Relation.ADD_REMOVE, domain):
            raise ValueError("the query has no entry but zeros: its answer is 0 for every table.")
        half_width = checks.number("half_width", half_width, above=0)
        delta = checks.number("delta", delta, above=0, below=1)
        if delta > LARGEST_DELTA:
            raise ValueError(
                f"delta must be at most {LARGEST_DELTA}, got {delta:g}: it is the chance that the interval "
                "misses the true answer, such as 0.05. Nothing was spent."
            )
        if delta < SMALLEST_DELTA:
            raise ValueError(
                f"delta must be at least {SMALLEST_DELTA:g}, got {delta:g}: distributions of noise are not "
                "computed further into their tails. Nothing was spent."
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
        if math.sqrt(2) * reach < _HOPELESS * (1 - self.delta) * answer.distribution.stddev:
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


def interval(answer: Inference, delta: float) -> tuple[float, float]:
    """Return the ends of an interval that holds the truth with probability 1 - delta (counts).

    The shortest one if the distribution can be computed that far into its tails, else by Chernoff's bound.
    """
    distribution = answer.distribution
    if distribution.num_terms == 1 and isinstance(
        distribution.distributions[0], DiscreteNoise
    ):  # without the margin of a computation
        width = float(distribution.sizes[0]) * (distribution.distributions[0].radius(delta) + _ENDS)
        return answer.value - width, answer.value + width
    try:
        return answer.interval(1 - delta)
    except ValueError:
        radius = answer.distribution.radius(delta)
        return answer.value - radius, answer.value + radius
