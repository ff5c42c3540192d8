"""The cost of calls from their sensitivities and noise scales alone, compared with a mechanism's claim."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax.data.dataset import Dataset
from pgmjax.data.relation import Relation
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace
from pgmjax.privacy.accounting.events import (
    Event,
    GaussianEvent,
    LaplaceEvent,
    Pure,
    Response,
    Selection,
    check_relation,
)
from pgmjax.privacy.accounting.renyi import ORDERS, epsilon_at
from pgmjax.privacy.accounting.zcdp import rho_for
from pgmjax.privacy.exact import exact_delta, exact_epsilon, exact_rho
from pgmjax.privacy.response import ResponseDistribution
from pgmjax.privacy.selection import ExponentialMechanism, ThresholdNoise
from pgmjax.privacy.sensitivity import RECORDS, shifts_of
from pgmjax.privacy.tape import Call, NonInterferenceError, Tape
from pgmjax.queries import Query

_ROUNDING = 1e-9
_PATH = 3  # the loss on one path of a tree, in units of 1 / scale (PrivTree with halves)


def check_claims(
    calls: Sequence[Call], table: Any, epsilon: Any = None, rho: Any = None, delta: Any = 0
) -> tuple[float | None, float]:
    """Return the cost of calls, as `cost` does, and raise if it exceeds the claim.

    Args:
        calls: the calls of one run.
        table: the table of the run; its public parts make the (epsilon, delta) account tighter.
        epsilon: the claimed epsilon; None for no claim.
        rho: the claimed rho; None for no claim.
        delta: if > 0, the epsilon may also be met by rho or by Renyi divergences, for what is left of delta
            by the calls that may show a key.

    Raises:
        NonInterferenceError: the calls cost more than claimed, or as for `cost`.
    """
    spent = cost(calls)
    epsilon = None if epsilon is None else exact_epsilon(epsilon)
    rho = None if rho is None else exact_rho(rho)
    left = _without_keys(calls, delta)
    if left == 0:
        _compare("epsilon", spent[0], epsilon)
    elif epsilon is not None:
        _compare_approximate(calls, table, spent, epsilon, left)
    _compare("rho", spent[1], rho)
    return spent


def cost(calls: Iterable[Call]) -> tuple[float | None, float]:
    """Return the total cost of calls: pure epsilon (None if a call has none) and rho.

    Computed from each call's sensitivity and noise scale alone, regardless of what was charged.

    Raises:
        NonInterferenceError: a sensitivity is not in the norm that the distribution needs, or an exact
            number with nonzero sensitivity is released without noise.
    """
    epsilon: float | None = 0.0
    rho = 0.0
    for call in calls:
        if call.distribution is None:
            if call.sensitivity.value:
                raise NonInterferenceError(
                    f"A {call.kind} call hands out exact numbers that neighbours move by "
                    f"{call.sensitivity.value}: without noise only a sensitivity of 0 is private."
                )
            continue
        norm = _norm(call)
        if call.sensitivity.norm != norm:
            raise NonInterferenceError(
                f"A {call.kind} call declares its sensitivity in {call.sensitivity.norm}, where its noise "
                f"needs {norm}."
            )
        if isinstance(call.distribution, DiscreteGaussian):
            epsilon = None
            rho += call.sensitivity.value / (2 * call.distribution.scale**2)
            continue
        if isinstance(call.distribution, ThresholdNoise):
            if _paid(call):
                continue
            pure = call.distribution.epsilon(call.sensitivity.value)
        elif isinstance(call.distribution, ResponseDistribution):
            pure = call.sensitivity.value * float(call.distribution.epsilon_bound)
        else:
            pure = call.sensitivity.value / call.distribution.scale * _factor(call, norm)
        epsilon = None if epsilon is None else epsilon + pure
        rho += pure**2 / (8 if isinstance(call.distribution, ExponentialMechanism) else 2)
    return epsilon, rho


def loss(tape: Tape) -> tuple[float | None, float]:
    """Return what two neighbouring tables cost: as `cost`, by how far they really moved the exact numbers.

    Args:
        tape: on which one table was recorded and the other replayed.

    Raises:
        NonInterferenceError: as `cost`.
    """
    return cost(
        dataclasses.replace(call, sensitivity=dataclasses.replace(call.sensitivity, value=moved))
        for call, moved in zip(tape.calls, tape.distances, strict=False)
    )


def _factor(call: Call, norm: str) -> int:
    """Return by how much a change of 1 / scale of what noise is added to is multiplied in the loss."""
    if call.kind == "tree":
        return _PATH
    return 1 if norm == "l1" else 2


def _without_keys(calls: Sequence[Call], delta: Any) -> Fraction:
    """Return what is left of delta by calls that may show a key which one unit alone has.

    Raises:
        NonInterferenceError: nothing is left.
    """
    claimed = exact_delta(delta)
    risks = [Fraction(_risk(call)) for call in calls if call.kind == "keys"]
    if risks and not sum(risks) < claimed:
        raise NonInterferenceError(
            "The calls show keys that one unit alone has with a probability of up to "
            f"{float(sum(risks)):.3g} by their thresholds and noise scales, but only a delta of "
            f"{float(claimed):.3g} is claimed."
        )
    return claimed - sum(risks)


def _risk(call: Call) -> float:
    """Return K P(K + Z >= threshold), where K bounds the records of one unit."""
    distribution: Any = call.distribution
    moved = call.sensitivity.value // (1 if call.sensitivity.relation is Relation.ADD_REMOVE else 2)
    records = math.isqrt(moved)
    beyond = call.parameters[1] - records
    return 1.0 if beyond < 1 else min(1.0, records * float(distribution.above(np.array([beyond - 1.0]))[0]))


def _paid(call: Call) -> bool:
    """Return whether a call is free: the first question of a threshold test pays for all of them."""
    return isinstance(call.distribution, ThresholdNoise) and bool(call.parameters[-1])


def _norm(call: Call) -> str:
    """Return the norm of sensitivity that a call's distribution needs."""
    if isinstance(call.distribution, ResponseDistribution):
        return RECORDS
    norms: dict[type, str] = {DiscreteLaplace: "l1", DiscreteGaussian: "l2_squared"}
    return norms.get(type(call.distribution), "linf")


def _fits(spent: float | None, claimed: Fraction) -> bool:
    return spent is not None and spent <= float(claimed) * (1 + _ROUNDING)


def _compare(unit: str, spent: float | None, claimed: Fraction | None) -> None:
    if claimed is None or _fits(spent, claimed):
        return
    raise NonInterferenceError(
        f"The calls cost {_text(spent)} {unit} by their sensitivities and noise scales, but only "
        f"{float(claimed):.6g} is claimed."
    )


def _compare_approximate(
    calls: Sequence[Call], table: Any, spent: tuple[float | None, float], epsilon: Fraction, delta: Any
) -> None:
    allowed = rho_for(epsilon, delta)
    if _fits(spent[0], epsilon) or _fits(spent[1], allowed):
        return
    found = _approximate_epsilon(calls, table, delta)
    if not _fits(found, epsilon):
        raise NonInterferenceError(
            f"The calls cost {_text(spent[0])} epsilon, {spent[1]:.6g} rho and epsilon {found:.6g} at delta "
            f"{float(exact_delta(delta)):g} by their sensitivities and noise scales, but only epsilon "
            f"{float(epsilon):.6g} at that delta is claimed, which is {float(allowed):.6g} rho."
        )


def _text(spent: float | None) -> str:
    return "no finite" if spent is None else f"{spent:.6g}"


def _approximate_epsilon(calls: Sequence[Call], table: Any, delta: Any) -> float:
    """Return the epsilon at delta of all calls, from the Renyi divergences of their distributions."""
    if not calls:
        return 0.0
    divergences = np.zeros(ORDERS.size)
    for call in calls:
        if call.distribution is not None and call.sensitivity.value and not _paid(call):
            event = _event(call, table)
            check_relation(event, call.sensitivity.relation)
            divergences += event.renyi(ORDERS)
    return epsilon_at(divergences, ORDERS, delta)


def _event(call: Call, table: Any) -> Event:
    moved = Fraction(call.sensitivity.value)
    distribution: Any = call.distribution
    if isinstance(distribution, ResponseDistribution):
        return Response(moved * distribution.epsilon_bound)
    if isinstance(distribution, ThresholdNoise):
        return Pure(Fraction(distribution.epsilon(call.sensitivity.value)))
    scale = Fraction(distribution.scale)
    if isinstance(distribution, DiscreteGaussian):
        return GaussianEvent(moved / (2 * scale**2), scale=distribution.scale)
    if call.kind == "tree":
        return Pure(_PATH * moved / scale)
    if isinstance(distribution, DiscreteLaplace):
        shifts = None
        if isinstance(table, Dataset) and isinstance(call.parameters[0], Query):  # not a score
            bound = table.max_weight if table.weighted else None
            shifts = shifts_of(call.parameters[0], table.domain, call.sensitivity.relation, bound)
        if shifts is not None and sum(shifts) != moved:  # a wrong sensitivity, which the replay may tell
            shifts = None
        return LaplaceEvent(moved / scale, shifts, distribution.scale)
    return Selection(2 * moved / scale, distribution.name)
