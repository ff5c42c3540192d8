"""What a measurement is made of: a priced query, its noise, and its exact answers.

Only `noise.PrivateTable` uses this, which decides when what happens.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax._internal.progress import Progress
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.measurements.noise import Law
from pgmjax.privacy.accounting.privacy_events import Event, Gaussian, Laplace
from pgmjax.privacy.backend import NoiseBackend
from pgmjax.privacy.exact import exact_epsilon, exact_rho
from pgmjax.privacy.sensitivity import Sensitivity, check_measurable
from pgmjax.privacy.shifts import shifts_of
from pgmjax.queries import Query, integers

_SATURATED = 2**62
_CHUNK = 1 << 16


class TableReadError(RuntimeError):
    """Reading the private table failed after the budget was charged; says nothing about its rows."""


@dataclasses.dataclass(frozen=True)
class Planned:
    """A query with its law and its cost, everything about it public.

    Attributes:
        query: what is asked.
        law: what noise it is answered with.
        sensitivity: how far its answers move between neighbours.
        event: what it costs.
        rows: the number of its answers.
    """

    query: Query
    law: Law
    sensitivity: Sensitivity
    event: Event
    rows: int

    def describe(self) -> dict[str, Any]:
        """Return what was asked, for the records."""
        return {"query": self.query.to_spec(), "noise": self.law.noise, "scale": self.law.scale}


def costs(
    number: int, epsilons: Sequence[Any] | None, rhos: Sequence[Any] | None
) -> tuple[str, tuple[Fraction, ...]]:
    """Return the unit, "epsilon" or "rho", and one exact cost a query.

    Raises:
        ValueError: not exactly one of the two, nothing to measure, or another number than one a query.
    """
    if (epsilons is None) == (rhos is None):
        raise ValueError("Give either epsilons (Laplace noise) or rhos (Gaussian noise).")
    unit, given, check = ("epsilon", epsilons, exact_epsilon) if rhos is None else ("rho", rhos, exact_rho)
    assert given is not None
    if number == 0:
        raise ValueError("There is nothing to measure: give at least one query.")
    if len(given) != number:
        raise ValueError(f"There must be one {unit} a query: expected {number}, got {len(given)}.")
    return unit, tuple(check(value) for value in given)


def plan(
    query: Any,
    unit: str,
    cost: Fraction,
    domain: Domain,
    relation: Relation,
    max_weight: int | None,
    backend: NoiseBackend,
) -> Planned:
    """Return a query with the noise that its cost buys.

    Raises:
        TypeError: not a query.
        ValueError: a query that is not integral or does not fit the domain, or a cost out of range.
    """
    check_measurable(query, domain)
    norm = "l1" if unit == "epsilon" else "l2_squared"
    sensitivity = Sensitivity.of(query, domain, relation, norm, max_weight)
    moves = shifts_of(query, domain, relation, max_weight)
    law: Law
    event: Event
    if unit == "epsilon":
        law = backend.laplace(sensitivity.value, cost)
        event = Laplace(cost, moves, law.scale)
    else:
        law = backend.gaussian(sensitivity.value, cost)
        event = Gaussian(cost, moves, law.scale)
    return Planned(query, law, sensitivity, event, query.num_rows(domain))


def draw(planned: Sequence[Planned], backend: NoiseBackend, show_progress: bool | None) -> list[np.ndarray]:
    """Draw the noise of every query, int64 [rows] each; queries of one law are drawn together."""
    noise = [np.empty(each.rows, dtype=np.int64) for each in planned]
    with Progress("measuring", sum(each.rows for each in planned), show_progress) as progress:
        for law in dict.fromkeys(each.law for each in planned):
            places = [i for i, each in enumerate(planned) if each.law == law]
            drawn = np.empty(sum(planned[i].rows for i in places), dtype=np.int64)
            for start in range(0, drawn.size, _CHUNK):
                part = drawn[start : start + _CHUNK]
                part[:] = backend.draw(law, part.size)
                progress.advance(part.size)
            ends = np.cumsum([planned[i].rows for i in places])
            for i, part in zip(places, np.split(drawn, ends[:-1]), strict=True):
                noise[i] = part
    return noise


def exact_answers(planned: Planned, domain: Domain, table: np.ndarray) -> np.ndarray:
    """Return the exact answers, int64 [rows]; those beyond 2^62 in size are moved there.

    Saturation takes no two answers farther apart; a refusal of large counts would tell that they are large.

    Raises:
        TypeError: a table or a query that gives no integers.
    """
    if table.dtype != np.int64:
        raise TypeError(f"Exact marginals must be int64, got {table.dtype}.")
    answers = integers.answers(planned.query, domain, table)
    if answers.size != planned.rows:
        raise TypeError(f"The query must answer with {planned.rows} integers, got {answers.size}.")
    return integers.saturated(answers, _SATURATED)


def noisy(exact: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Return what is released of exact answers, int64 [rows]."""
    return exact + noise
