"""Building blocks of measurements and private selections: plans with costs, noise and exact values.

`PrivateTable` controls the order of the steps, and only it passes exact tables to them. `threshold` answers
single queries with the same functions, and MWEM's rounds plan a selection here to know its cost.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.progress import Progress
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.measurements.noise import DiscreteNoise
from pgmjax.privacy.accounting.events import Event, GaussianEvent, LaplaceEvent, Selection
from pgmjax.privacy.backend import NoiseBackend
from pgmjax.privacy.exact import exact_epsilon, exact_rho
from pgmjax.privacy.scores import Score
from pgmjax.privacy.selection import SelectionDistribution
from pgmjax.privacy.sensitivity import Sensitivity, check_measurable, shifts_of
from pgmjax.queries import Query, integers

_SATURATED = 2**62
_CHUNK = 1 << 16

_SCORE = (
    "such as privacy.Counts(queries.marginal(['age'])), or Distances of pairs of a marginal and its model's"
)
METHODS = ("permute-and-flip", "exponential")
MOST_DRAWS = 10**6


@dataclasses.dataclass(frozen=True)
class PlannedMeasurement:
    """A query with its noise distribution and cost, all public.

    Attributes:
        query: the query.
        distribution: distribution of the noise added to its answers.
        sensitivity: sensitivity of its answers.
        event: its cost.
        rows: the number of its answers.
    """

    query: Query
    distribution: DiscreteNoise
    sensitivity: Sensitivity
    event: Event
    rows: int

    def describe(self) -> dict[str, Any]:
        """Return what was asked, for the records."""
        return {
            "query": self.query.to_spec(),
            "noise": self.distribution.noise,
            "scale": self.distribution.scale,
        }


def plan_measurements(
    query: Any,
    unit: str,
    cost: Fraction,
    domain: Domain,
    relation: Relation,
    max_weight: int | None,
    backend: NoiseBackend,
    records: int = 1,
) -> PlannedMeasurement:
    """Return a query with the noise for its cost, for neighbours that differ in as many records.

    Raises:
        TypeError: the argument is not a query.
        ValueError: the query is not integral or does not fit the domain, or the cost is out of range.
    """
    query = query.over(domain) if isinstance(query, Query) else query
    check_measurable(query, domain)
    norm = "l1" if unit == "epsilon" else "l2_squared"
    sensitivity = Sensitivity.of(query, domain, relation, norm, max_weight).of_unit(records)
    # several records move other answers than one of their joint weight: only norms bound them
    shifts = shifts_of(query, domain, relation, max_weight) if records == 1 else None
    distribution, event = noise_for(backend, sensitivity, cost, shifts)
    return PlannedMeasurement(query, distribution, sensitivity, event, query.num_rows(domain))


def noise_for(
    backend: NoiseBackend, sensitivity: Sensitivity, cost: Fraction, shifts: tuple[int, ...] | None = None
) -> tuple[DiscreteNoise, Event]:
    """Return the noise for a cost, and the cost as an event: Laplace for "l1", Gaussian for "l2_squared"."""
    if sensitivity.norm == "l1":
        laplace = backend.laplace(sensitivity.value, cost)
        return laplace, LaplaceEvent(cost, shifts, laplace.scale)
    gaussian = backend.gaussian(sensitivity.value, cost)
    return gaussian, GaussianEvent(cost, shifts, gaussian.scale)


def costs(
    number: int, epsilons: Sequence[Any] | None, rhos: Sequence[Any] | None
) -> tuple[str, tuple[Fraction, ...]]:
    """Return the unit, "epsilon" or "rho", and one exact cost per query.

    Raises:
        ValueError: not exactly one of `epsilons` and `rhos` is given, there is no query, or the number of
            costs differs from the number of queries.
    """
    if (epsilons is None) == (rhos is None):
        raise ValueError(
            "Give either epsilons (Laplace noise) or rhos (Gaussian noise), one for each query: "
            "measure([query], epsilons=[0.1])."
        )
    unit, given, check = ("epsilon", epsilons, exact_epsilon) if rhos is None else ("rho", rhos, exact_rho)
    each = ", ".join(["0.1"] * min(number, 3)) + ", ..." * (number > 3)
    given = checks.several(f"{unit}s", given, "costs, one for each query", f"write {unit}s=[{each}]")
    if number == 0:
        raise ValueError("There is nothing to measure: give at least one query.")
    if len(given) != number:
        raise ValueError(
            f"There must be one {unit} a query: expected {number}, got {len(given)}, as in {unit}s=[{each}]."
        )
    return unit, tuple(check(value) for value in given)


def draw(
    planned: Sequence[PlannedMeasurement | PlannedScores], backend: NoiseBackend, show_progress: bool | None
) -> list[np.ndarray]:
    """Draw the noise of every query, int64 [rows] each; those of equal distributions share one draw.

    Raises:
        RuntimeError: as `fresh`.
    """
    noise = [np.empty(each.rows, dtype=np.int64) for each in planned]
    with Progress("measuring", sum(each.rows for each in planned), show_progress) as progress:
        for distribution in dict.fromkeys(each.distribution for each in planned):
            places = [i for i, each in enumerate(planned) if each.distribution == distribution]
            drawn = np.empty(sum(planned[i].rows for i in places), dtype=np.int64)
            filled = 0
            while filled < drawn.size:  # counted by what was handed out, so that no cell is left without
                part = fresh(backend, distribution, min(_CHUNK, drawn.size - filled))
                drawn[filled : filled + part.size] = part
                filled += part.size
                progress.advance(part.size)
            ends = np.cumsum([planned[i].rows for i in places])
            for i, part in zip(places, np.split(drawn, ends[:-1]), strict=True):
                noise[i] = part
    return noise


def fresh(backend: NoiseBackend, distribution: DiscreteNoise, size: int) -> np.ndarray:
    """Return draws of a backend, int64 [size], counted.

    Raises:
        RuntimeError: it hands out another number of draws, or something else; nothing was shown.
    """
    part = backend.draw(distribution, size)
    if not isinstance(part, np.ndarray) or part.dtype != np.int64 or part.shape != (size,):
        found = f"{part.dtype} {part.shape}" if isinstance(part, np.ndarray) else type(part).__name__
        raise RuntimeError(
            f"The noise backend {backend.name!r} must hand out int64 draws of shape ({size},), one for each "
            f"released number, got {found}: repair it. Nothing was shown."
        )
    return part


def check_one_draw_each(
    planned: Sequence[PlannedMeasurement | PlannedScores], noise: Sequence[np.ndarray]
) -> None:
    """Check that there is one draw for every number that is going to be released, and no array twice.

    Raises:
        RuntimeError: there are more or fewer, or two queries would share them; nothing was shown.
    """
    shapes = [(part.dtype, part.shape) for part in noise]
    if shapes != [(np.dtype(np.int64), (each.rows,)) for each in planned]:
        rows = [each.rows for each in planned]
        raise RuntimeError(
            f"Each of {rows} released numbers needs a draw of noise of its own, int64, but {shapes} were "
            "drawn. Nothing was shown."
        )
    # equal noise in two answers would cancel in their difference
    if len({part.__array_interface__["data"][0] for part in noise}) != len(noise):
        raise RuntimeError("Two queries would share one array of noise. Nothing was shown.")


def exact_answers(planned: PlannedMeasurement, domain: Domain, table: np.ndarray) -> np.ndarray:
    """Return the exact answers, int64 [rows], clipped to at most 2^62 in absolute value.

    Clipping moves no two answers farther apart, whereas an error for large counts would reveal them.

    Raises:
        TypeError: the table is not int64, or the query does not give `rows` integers.
    """
    if table.dtype != np.int64:
        raise TypeError(f"Exact marginals must be int64, got {table.dtype}.")
    answers = integers.answers(planned.query, domain, table)
    if answers.size != planned.rows:
        raise TypeError(f"The query must answer with {planned.rows} integers, got {answers.size}.")
    return integers.saturated(answers, _SATURATED)


def noisy(exact: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Return exact answers plus noise, int64 [rows]."""
    return exact + noise


@dataclasses.dataclass(frozen=True)
class PlannedScores:
    """A score whose values are published with noise, with the noise's distribution and cost, all public.

    Attributes:
        score: the score of the candidates.
        distribution: distribution of the noise added to each value.
        sensitivity: sensitivity of all values together.
        event: their cost.
        rows: the number of candidates.
    """

    score: Score
    distribution: DiscreteNoise
    sensitivity: Sensitivity
    event: Event
    rows: int

    def describe(self) -> dict[str, Any]:
        """Return what was asked, for the records."""
        return {
            "score": self.score.to_dict(),
            "noise": self.distribution.noise,
            "scale": self.distribution.scale,
        }


def plan_scores(
    score: Any,
    epsilon: Any,
    rho: Any,
    domain: Domain,
    relation: Relation,
    max_weight: int | None,
    backend: NoiseBackend,
    records: int = 1,
) -> PlannedScores:
    """Return a score with the noise for its cost; neighbours differ in `records`.

    Raises:
        TypeError: the argument is not a score.
        ValueError: the score does not fit the domain, or not exactly one valid cost is given.
    """
    checks.kind(score, Score, "score must be a pgmjax.privacy.Score", _SCORE)
    if (epsilon is None) == (rho is None):
        raise ValueError("Give either epsilon or rho, what the scores may cost.")
    score.check(domain)
    number = score.candidates(domain)
    each = score.sensitivity(domain, relation, max_weight).of_unit(records)
    if rho is None:
        # one record may move every score, so that L1 is the sum over them
        cost, sensitivity = exact_epsilon(epsilon), Sensitivity(number * each.value, "l1", each.relation)
    else:
        cost = exact_rho(rho)
        sensitivity = Sensitivity(number * each.value**2, "l2_squared", each.relation)
    distribution, event = noise_for(backend, sensitivity, cost)
    return PlannedScores(score, distribution, sensitivity, event, number)


@dataclasses.dataclass(frozen=True)
class PlannedSelection:
    """A score with its selection distribution and cost, all public.

    Attributes:
        score: the score of the candidates.
        distribution: the selection distribution, given the scores.
        sensitivity: sensitivity of a score.
        event: the cost of one draw.
        draws: number of independent choices from the same scores.
    """

    score: Score
    distribution: SelectionDistribution
    sensitivity: Sensitivity
    event: Selection
    draws: int = 1

    def describe(self) -> dict[str, Any]:
        """Return what was asked, for the records."""
        several = {} if self.draws == 1 else {"draws": self.draws}
        return {
            "score": self.score.to_dict(),
            "method": self.distribution.name,
            "scale": self.distribution.scale,
            **several,
        }


def plan_selection(
    score: Any,
    epsilon: Any,
    rho: Any,
    method: str | None,
    unit: str,
    domain: Domain,
    relation: Relation,
    max_weight: int | None,
    backend: NoiseBackend,
    draws: int = 1,
    records: int = 1,
) -> PlannedSelection:
    """Return a score with the selection distribution for its cost; neighbours differ in `records`.

    Raises:
        TypeError: the argument is not a score, or a cost or `draws` is not a number.
        ValueError: the score does not fit the domain, the method is unknown, or a number is out of range.
    """
    checks.kind(score, Score, "score must be a pgmjax.privacy.Score", _SCORE)
    if (epsilon is None) == (rho is None):
        raise ValueError("Give either epsilon or rho, what the selection may cost.")
    if method is None:
        method = "permute-and-flip" if unit == "epsilon" else "exponential"
    method = checks.choice("method", method, METHODS)
    if rho is not None and method != "exponential":
        raise ValueError(
            "Selection for a rho is by the exponential mechanism: permute-and-flip takes epsilon."
        )
    draws = checks.integer("draws", draws, low=1, high=MOST_DRAWS)
    cost = exact_epsilon(epsilon) if rho is None else _epsilon_for(exact_rho(rho))
    score.check(domain)
    sensitivity = score.sensitivity(domain, relation, max_weight).of_unit(records)
    make = backend.permute_and_flip if method == "permute-and-flip" else backend.exponential
    return PlannedSelection(score, make(sensitivity.value, cost), sensitivity, Selection(cost, method), draws)


def _epsilon_for(rho: Fraction) -> Fraction:
    """Return the largest epsilon, to 12 digits, with epsilon^2 / 8 <= rho."""
    digits = 10 ** (12 + max(0, -math.floor(math.log10(rho)) // 2))
    return Fraction(math.isqrt(math.floor(8 * rho * digits**2)), digits)
