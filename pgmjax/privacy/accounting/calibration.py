"""Noise calibration: the least noise with which a set of queries meets an (epsilon, delta) target.

Calibration happens before anything is spent. If the account has a closed form, the noise follows from it.
Otherwise the largest budget whose cost stays within the target is found by growing and bisection.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, TypeVar

from pgmjax._internal import checks
from pgmjax.data.domain import Domain
from pgmjax.data.relation import AnyRelation, Relation
from pgmjax.measurements.noise import DiscreteNoise
from pgmjax.privacy.accounting.composition import Composition, Guarantee
from pgmjax.privacy.accounting.events import Event, GaussianEvent, LaplaceEvent
from pgmjax.privacy.accounting.zcdp import rho_for
from pgmjax.privacy.exact import exact_delta, exact_epsilon, shortened, split
from pgmjax.privacy.scales import gaussian_for, laplace_for
from pgmjax.privacy.sensitivity import Shifts, check_measurable, shifts_of
from pgmjax.queries import Query

_Noise = tuple[tuple[DiscreteNoise, ...], tuple[Event, ...]]
_Found = TypeVar("_Found")

_TOLERANCE = Fraction(1, 10**5)
_DIGITS = 12


@dataclasses.dataclass(frozen=True)
class Calibration:
    """Noise for each query, and its total cost.

    Attributes:
        distributions: the noise of each query, with the float scales used for drawing.
        events: the cost of each query, with the same scales.
        plan: the composition of the events under the relation.
        loss: the total cost, at most the target.
    """

    distributions: tuple[DiscreteNoise, ...]
    events: tuple[Event, ...]
    plan: Composition
    loss: Guarantee

    @property
    def costs(self) -> tuple[Fraction, ...]:
        """The exact epsilon (Laplace) or rho (Gaussian) of each query, as a `PrivateTable` takes them."""
        return tuple(event.rho if event.epsilon is None else event.epsilon for event in self.events)


@dataclasses.dataclass(frozen=True)
class _Asked:
    """The public facts of one query that its noise depends on."""

    l1: int
    l2_squared: int
    shifts: Shifts | None
    rows: int
    share: Fraction


def calibrate(
    queries: Sequence[Query],
    domain: Domain,
    relation: AnyRelation,
    epsilon: Any,
    delta: Any = 0,
    *,
    noise: str = "auto",
    weights: Sequence[Any] | None = None,
    max_weight: int | None = None,
    max_records: int = 1,
    accountant: str = "zcdp",
) -> Calibration:
    """Return the least noise for which all answers together are (epsilon, delta)-DP.

    Args:
        queries: integral queries, all fixed in advance.
        domain: the domain of the table.
        relation: the neighbouring relation; required.
        epsilon: the target, > 0.
        delta: 0 for pure DP, which divides epsilon exactly and needs Laplace noise.
        noise: "laplace", "gaussian", or "auto": Laplace at delta 0, otherwise the one with the smaller
            total variance of all answers.
        weights: one per query, > 0: the shares of the budget (epsilon for Laplace, rho for Gaussian).
            Default: equal shares.
        max_weight: for weighted data the largest weight of a record (public); None without weights.
        max_records: the largest number of records of a unit of privacy (public); see `Unit`.
        accountant: for delta > 0: "zcdp", "rdp", or "pld" (least noise; takes seconds).

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: a number is invalid, a query is not integral, the noise cannot meet the target, or
            the accountant does not apply to the queries.

    Guarantees:
        `loss.epsilon <= epsilon` is checked for the returned float scales. Sensitivities and shifts are
        computed from the queries. Answers with noise from the distributions are together
        (epsilon, delta)-DP.

    Example:
        >>> from pgmjax.queries import marginal
        >>> domain = Domain({"age": 5, "sex": 2})
        >>> queries = [marginal(["age"]), marginal(["sex"])]
        >>> found = calibrate(queries, domain, Relation.ADD_REMOVE, 1)
        >>> [distribution.scale for distribution in found.distributions]
        [2.0, 2.0]
    """
    relation = Relation.parse(relation)
    target, exact = exact_epsilon(epsilon), exact_delta(delta)
    noise = checks.choice("noise", noise, ("auto", "laplace", "gaussian"))
    accountant = checks.choice("accountant", accountant, ("zcdp", "rdp", "pld"))
    if exact == 0 and noise == "gaussian":
        raise ValueError("Gaussian noise needs delta > 0: ask for laplace or auto at delta 0.")
    records = checks.integer("max_records", max_records, low=1)
    asked = _ask(queries, domain, relation, weights, max_weight, records)
    if exact == 0:
        return _checked(_noise("laplace", asked, target), relation, target, exact, "basic")
    kinds = ("laplace", "gaussian") if noise == "auto" else (noise,)
    found = [_search(kind, asked, target, exact, relation, accountant) for kind in kinds]
    return min(found, key=lambda one: _variance(one, asked))


def _ask(
    queries: Sequence[Query],
    domain: Domain,
    relation: Relation,
    weights: Sequence[Any] | None,
    max_weight: int | None,
    records: int,
) -> list[_Asked]:
    if isinstance(queries, Query) or not isinstance(queries, Sequence):
        raise TypeError(f"queries must be a list of queries, got {type(queries).__name__}.")
    if not queries:
        raise ValueError("There is nothing to measure: give at least one query.")
    if weights is not None:
        weights = checks.several("weights", weights, "numbers, one a query")
    if weights is not None and len(weights) != len(queries):
        raise ValueError(f"There must be one weight a query: expected {len(queries)}, got {len(weights)}.")
    shares = split(Fraction(1), [1] * len(queries) if weights is None else weights)
    result = []
    for query, share in zip(queries, shares, strict=True):
        query = query.over(domain) if isinstance(query, Query) else query
        check_measurable(query, domain)
        norms = (
            query.l1_sensitivity(relation, domain, max_weight) * records,
            query.l2_sensitivity_squared(relation, domain, max_weight) * records**2,
        )
        l1, l2 = (max(1, math.ceil(Fraction(norm))) for norm in norms)
        shifts = shifts_of(query, domain, relation, max_weight) if records == 1 else None
        result.append(_Asked(l1, l2, shifts, query.num_rows(domain), share))
    return result


def _noise(kind: str, asked: Sequence[_Asked], total: Fraction) -> _Noise:
    """Return the noise of each query for its share of an epsilon (Laplace) or a rho (Gaussian)."""
    noises: list[tuple[DiscreteNoise, Event]] = []
    for one in asked:
        cost = one.share * total
        if kind == "laplace":
            laplace = laplace_for(one.l1, cost)
            noises.append((laplace, LaplaceEvent(cost, one.shifts, laplace.scale)))
        else:
            gaussian = gaussian_for(one.l2_squared, cost)
            noises.append((gaussian, GaussianEvent(cost, one.shifts, gaussian.scale)))
    distributions, events = zip(*noises, strict=True)
    return distributions, events


def _search(
    kind: str,
    asked: Sequence[_Asked],
    target: Fraction,
    delta: Fraction,
    relation: Relation,
    accountant: str,
) -> Calibration:
    """Return the noise of the largest total budget whose cost stays within the target."""

    def at(total: Fraction) -> Calibration | None:
        try:
            return _checked(_noise(kind, asked, total), relation, target, delta, accountant)
        except _TooMuch:
            return None

    # the plain sum of epsilons, and the conversion of rho, are within the target by themselves
    simple, low = ("basic", target) if kind == "laplace" else ("zcdp", rho_for(target, delta))
    # of Gaussian noise the other accounts know no more than the sum of its rhos
    found = None if kind == "gaussian" and accountant != "pld" else largest(at, low)
    return _checked(_noise(kind, asked, low), relation, target, delta, simple) if found is None else found


class _TooMuch(ValueError):
    """The noise costs more than the target."""


def _checked(
    noise: _Noise, relation: Relation, target: Fraction, delta: Fraction, method: str
) -> Calibration:
    distributions, events = noise
    plan = Composition(events, relation)
    loss = plan.epsilon(delta, method)
    # in this form NaN is refused too
    if not Fraction(loss.epsilon) <= target:
        raise _TooMuch(f"This noise costs {loss}, above the target {shortened(target)}.")
    return Calibration(distributions, events, plan, loss)


def _variance(one: Calibration, asked: Sequence[_Asked]) -> float:
    return math.fsum(
        query.rows * distribution.variance
        for query, distribution in zip(asked, one.distributions, strict=True)
    )


def largest(at: Callable[[Fraction], _Found | None], low: Fraction) -> _Found | None:
    """Return the function's result at the largest number for which it is not None.

    Args:
        at: function that returns None from some number on.
        low: starting point, > 0; larger numbers tried have 13 digits.

    Returns:
        The result at the largest number tried for which there is one, within 1e-5 of one where there is none;
        None if `at(low)` is None.

    Example:
        >>> largest(lambda x: float(x) if x * x <= 2 else None, Fraction(1))
        1.414206504822
    """
    best = at(low)
    if best is None:
        return None
    # steps grow fourfold until there is no result, and then the gap is halved
    step, high = Fraction(1, 8), _short(low * Fraction(9, 8))
    while (found := at(high)) is not None:
        best, low, step = found, high, min(4 * step, Fraction(3))
        high = _short(low * (1 + step))
    while high - low > _TOLERANCE * high:
        middle = _short((low + high) / 2)
        if not low < middle < high:
            break
        found = at(middle)
        if found is None:
            high = middle
        else:
            best, low = found, middle
    return best


def _short(value: Fraction) -> Fraction:
    """Return a fraction of few digits, so that records stay readable."""
    return Fraction(f"{float(value):.{_DIGITS}e}")
