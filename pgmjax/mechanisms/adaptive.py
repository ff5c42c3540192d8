"""Parts of mechanisms that repeatedly select, measure and fit: checks, rounds, candidates.

A `Round` holds the costs of one round. For mechanisms whose number of rounds is not fixed, costs start small
and grow once rounds yield nothing new. The candidates are all subsets of a workload's cliques, with weights.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.memory import available_bytes, readable_bytes
from pgmjax.data.cliques import Clique, maximal
from pgmjax.data.counting import check_memory
from pgmjax.data.domain import Domain
from pgmjax.estimation import solvers
from pgmjax.estimation.estimator import Estimator, Fit
from pgmjax.estimation.regularisation import is_known_for, weight_of
from pgmjax.inference.plan.forecast import ModelTooLargeError
from pgmjax.inference.plan.growth import candidate_cells
from pgmjax.inference.plan.junction_tree import total_cells
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.total import estimate_total
from pgmjax.mechanisms.base import Request, Run, carry_measurements
from pgmjax.mechanisms.noise_sizes import whole_weights
from pgmjax.model.graphical import GraphicalModel
from pgmjax.privacy.budget import Budget
from pgmjax.queries.workload import Workload

MOST_CANDIDATES = 100_000
KEPT_NOISE = {"epsilon": 0.5, "rho": 0.35}
"""The share of a measured marginal's expected noise that is taken to remain in a regularised fit, for Laplace
and for Gaussian noise. Chosen on Adult, Titanic and Stroke of McKenna et al. 2019 (bench/paper004)."""
LARGER = 1.5
"""Cells of a tree that is planned anew, over those forecast for the growing tree: at most 1.47 in
736 random cases (decision 45)."""
LIGHTER = 0.4
"""Share of the automatic weight of regularisation in the fit of a tree or network of chosen marginals. They
are the most dependent ones, and what a pull towards independence takes from each adds up between attributes
that are far apart (bench/paper004)."""


def check_largest_clique(request: Request) -> None:
    """Check that a model of the workload's largest clique alone fits in memory.

    Unlike `Request.measurable`, this needs no model of all the workload's cliques together.

    Raises:
        ModelTooLargeError: it does not fit. The message gives the sizes.
    """
    largest = max(request.workload.cliques, key=request.domain.size)
    request.estimator.plan(request.domain, [largest])


def pulled_less(
    estimator: Estimator, domain: Domain, measured: Sequence[LinearMeasurement], total: float | None
) -> Estimator:
    """Return an estimator with `LIGHTER` times its automatic weight of regularisation.

    Args:
        estimator: the settings; returned unchanged if they do not choose the weight.
        domain: the attributes.
        measured: noisy answers.
        total: number of records (counts); None to estimate it from the answers.
    """
    if estimator.regularisation != "auto" or not is_known_for(estimator.loss):
        return estimator
    records = estimate_total(domain, measured)[0] if total is None else total
    weight = LIGHTER * weight_of("auto", domain, measured, records)
    return dataclasses.replace(estimator, regularisation=weight)


def fit_of_chosen(run: Run, measured: Sequence[LinearMeasurement]) -> Fit:
    """Fit a tree or network of chosen marginals, pulled less towards independence.

    Args:
        run: the run.
        measured: its noisy answers.

    Raises:
        FitError: the fit failed. The error carries the measurements, whose cost is spent.
    """
    with carry_measurements(measured):
        estimator = pulled_less(run.estimator, run.request.domain, measured, run.total)
    return run.fit(measured, estimator=estimator)


def check_cells(max_cells: int, estimator: Estimator) -> None:
    """Check that a model of `max_cells` cells fits in memory.

    Raises:
        ModelTooLargeError: it does not fit. The message gives the sizes.
    """
    itemsize = np.dtype(estimator.dtype).itemsize
    need = math.ceil(LARGER * itemsize * (2 + solvers.build(estimator.solver).copies) * max_cells)
    limit = available_bytes() if estimator.max_bytes is None else estimator.max_bytes
    if need > limit:
        raise ModelTooLargeError(
            f"A model of max_cells = {max_cells:,} cells would need about {readable_bytes(need)}, and "
            f"{readable_bytes(limit)} is available: lower max_cells. Nothing was spent."
        )


def weighted_candidates(request: Request, max_cells: int) -> dict[Clique, int]:
    """Return all subsets of the workload's cliques with at most `max_cells` cells, with whole weights.

    Raises:
        ModelTooLargeError: a model of the largest clique, of `max_cells` cells or of the one-way marginals
            does not fit in memory, nor do the exact tables.
        ValueError: no candidate has room, but for single attributes.
    """
    check_largest_clique(request)
    domain = request.domain
    closure = downward_closure(domain, request.workload)
    check_cells(max_cells, request.estimator)
    wide = [clique for clique in closure if len(clique) > 1]
    smallest = min(wide, key=domain.size, default=None)
    if smallest is not None and domain.size(smallest) > max_cells:
        raise ValueError(
            f"No candidate of two attributes or more is within max_cells = {max_cells:,}: the smallest, on "
            f"{smallest}, has {domain.size(smallest):,} cells, so that no budget would measure any. Raise "
            "max_cells, or ask for single attributes. Nothing was spent."
        )
    kept = [c for c in closure if len(c) == 1 or domain.size(c) <= max_cells]
    check_memory(domain, kept)
    request.estimator.plan(domain, [clique for clique in kept if len(clique) == 1])
    return dict(zip(kept, whole_weights([closure[c] for c in kept]), strict=True))


def kept_noise(request: Request, given: float | None) -> float:
    """Return the share of a measurement's expected noise that is taken to remain in a fit."""
    if given is not None:
        return given
    estimator = request.estimator
    pulled = estimator.regularisation != "none" and is_known_for(estimator.loss)
    return KEPT_NOISE[request.budget.unit] if pulled else 1.0


def check_settings(mechanism: Any) -> None:
    """Check the settings that AIM and batch AIM share; rounds, kept_noise and steps may be None."""
    kept_noise = mechanism.kept_noise
    checks.set_integers(mechanism, "max_cells", low=1)
    checks.set_integers(mechanism, "rounds", "steps", low=1, optional=True)
    if kept_noise is not None and checks.number("kept_noise", kept_noise, above=0) > 1:
        raise ValueError(f"kept_noise must be a share in (0, 1], got {kept_noise:g}.")


def merged(domain: Domain, measurements: Sequence[LinearMeasurement]) -> list[LinearMeasurement]:
    """Return whole marginals in a fixed order, those of one clique averaged with weights 1/variance.

    The sum of squares of the result differs from that of the originals by a constant. The fixed order lets
    programs compiled for the same measured cliques be reused.
    """
    parts: dict[Clique, list[LinearMeasurement]] = {}
    for measurement in measurements:
        parts.setdefault(measurement.clique, []).append(measurement)
    place = {name: i for i, name in enumerate(domain.attributes)}
    result = []
    for clique in sorted(parts, key=lambda clique: (len(clique), [place[name] for name in clique])):
        precisions = [1 / float(part.stddev) ** 2 for part in parts[clique]]
        precision = math.fsum(precisions)
        values = sum(p * part.flat_values() for p, part in zip(precisions, parts[clique], strict=True))
        first = parts[clique][0]
        result.append(
            LinearMeasurement(clique, values / precision, precision**-0.5, first.query, first.noise)
        )
    return result


def between_rounds(estimator: Estimator, steps: int | None) -> Estimator:
    """Return the estimator of the fits between two rounds, which has no progress bar.

    Args:
        estimator: that of the last fit.
        steps: the largest number of steps, with the estimator's own tolerance; None for a fit that ends where
            noise hides what is left to gain (`tol=None`), with the estimator's own limit of steps.
    """
    if steps is None:
        return dataclasses.replace(estimator, tol=None, progress=False)
    return dataclasses.replace(estimator, max_steps=min(steps, estimator.max_steps), progress=False)


def fit_on_the_way(
    run: Run,
    measurements: Sequence[LinearMeasurement],
    steps: int | None,
    warm_start: GraphicalModel | None = None,
) -> GraphicalModel:
    """Return a model fitted between two rounds: see `between_rounds`.

    Raises:
        FitError: the fit failed. The error carries the measurements, whose cost is spent.
    """
    return fit_merged(run, between_rounds(run.request.estimator, steps), measurements, warm_start).model


def fit_merged(
    run: Run,
    estimator: Estimator,
    measurements: Sequence[LinearMeasurement],
    warm_start: GraphicalModel | None = None,
) -> Fit:
    """Fit a model to whole marginals, those of one clique averaged if the loss is "l2".

    Raises:
        FitError: the fit failed. The error carries the measurements, whose cost is spent.
    """
    domain = run.request.domain
    given = merged(domain, measurements) if estimator.loss == "l2" else measurements
    with carry_measurements(measurements):
        return estimator.fit(domain, given, run.total, warm_start)


@dataclasses.dataclass(frozen=True)
class Round:
    """The costs of a round, as exact fractions in the budget's unit.

    Attributes:
        choose: cost of the selection.
        measure: cost of the measurement; in the last round, all that remains after the selection.
        unit: "epsilon" or "rho".
        last: whether it is the last round.
    """

    choose: Fraction
    measure: Fraction
    unit: str
    last: bool = False

    @classmethod
    def of(cls, cost: Fraction, share: Fraction, unit: str, last: bool = False) -> Round:
        """Divide a round's cost; `share` is the share of the measurement.

        Example:
            >>> Round.of(Fraction(1), Fraction(9, 10), "rho").choose
            Fraction(1, 10)
        """
        return cls(cost * (1 - share), cost * share, unit, last)

    @classmethod
    def first(cls, budget: Budget, rounds: int | None, attributes: int, share: Fraction) -> Round:
        """Return the first round, for an expected number of rounds.

        Args:
            budget: the run's budget; nothing is spent.
            rounds: expected number of rounds. Default: 16 per attribute.
            attributes: number of attributes measured beforehand, each at a round's measurement cost.
            share: the measurement's share of a round's cost.

        Raises:
            ValueError: there are fewer rounds than attributes.
        """
        rounds = 16 * attributes if rounds is None else rounds
        if rounds < attributes:
            raise ValueError(
                f"rounds must be at least {attributes}, the number of the workload's attributes: each is "
                f"measured first with a round's budget; got {rounds}. Nothing was spent."
            )
        return cls.of(budget.cap / rounds, share, budget.unit)

    @property
    def cost(self) -> Fraction:
        """The cost of both parts."""
        return self.choose + self.measure

    def next(self, remaining: Fraction, anneal: bool = False) -> Round:
        """Return the next round.

        Args:
            remaining: the remaining budget.
            anneal: whether to halve the noise of measurements and selections, by twice the epsilon or four
                times the rho.

        Returns:
            The next round; the last one, with all of the remaining budget, if that is at most the cost of
            two more rounds.
        """
        factor = (2 if self.unit == "epsilon" else 4) if anneal else 1
        share = self.measure / self.cost
        if remaining <= 2 * factor * self.cost:
            return Round.of(remaining, share, self.unit, last=True)
        return Round.of(factor * self.cost, share, self.unit)


def is_noise(
    before: np.ndarray, after: np.ndarray, measurement: LinearMeasurement, kept: float = 1.0
) -> bool:
    """Return whether a measurement changed the model's marginal by no more than its own expected noise.

    All arguments are released values.

    Args:
        before: the model's marginal without the measurement (counts).
        after: the model's marginal with it (counts).
        measurement: the measurement, with a known noise distribution.
        kept: the share of the noise that remains in a fit.
    """
    assert measurement.distribution is not None
    moved = float(np.abs(np.asarray(after) - np.asarray(before)).sum())
    return moved <= kept * measurement.distribution.mean_absolute * measurement.values.size


def downward_closure(domain: Domain, workload: Workload) -> dict[Clique, Fraction]:
    """Return every subset r of a workload's cliques with its weight, the sum of c_s |r & s| over cliques s.

    The weight is the sum over the attributes of r of the total weight of the cliques that have each.

    Args:
        domain: the attributes; the returned cliques are in its order.
        workload: cliques s with weights c_s. Their queries are ignored.

    Returns:
        Weights by clique, small cliques first.

    Raises:
        ValueError: there are more than 100,000 subsets.

    References:
        McKenna, Mullins, Sheldon and Miklau 2022, section 4.

    Example:
        >>> domain = Domain({"a": 2, "b": 2, "c": 2})
        >>> for clique, weight in downward_closure(domain, Workload([["b", "a"], ["b", "c"]])).items():
        ...     print(clique, weight)
        ('a',) 1
        ('b',) 2
        ('c',) 1
        ('a', 'b') 3
        ('b', 'c') 3
    """
    asked = [(frozenset(entry.clique), entry.weight) for entry in workload.entries]
    at_least = max(2 ** len(clique) - 1 for clique, _ in asked)
    found: set[Clique] = set()
    for clique, _ in asked if at_least <= MOST_CANDIDATES else ():
        names = [name for name in domain.attributes if name in clique]
        for size in range(1, len(names) + 1):
            found.update(itertools.combinations(names, size))
    if max(at_least, len(found)) > MOST_CANDIDATES:
        raise ValueError(
            f"the workload's cliques have at least {max(at_least, len(found)):,} subsets, more than the "
            f"{MOST_CANDIDATES:,} candidates that are weighed: ask for smaller cliques, or fewer."
        )
    place = {name: i for i, name in enumerate(domain.attributes)}
    ordered = sorted(found, key=lambda clique: (len(clique), [place[name] for name in clique]))
    total = dict.fromkeys(place, Fraction(0))
    for asked_for, weight in asked:
        for name in asked_for:
            total[name] += weight
    return {clique: sum((total[name] for name in clique), Fraction(0)) for clique in ordered}


def affordable(
    domain: Domain, cliques: Sequence[Clique], candidates: Sequence[Clique], limit: int
) -> list[Clique]:
    """Return the candidates with which a model's junction tree has at most `limit` cells.

    A candidate contained in one of the model's cliques changes nothing and is always included. The others
    count with the tree that `candidate_cells` makes of the model's own, unless one that is larger already
    fits: that with all variables of the candidate but the largest in every clique. The tree that is planned
    for the fit had at most 1.5 times as many cells in 736 random cases of 10 to 100 attributes, and as many
    or fewer in most.

    Args:
        domain: the attributes.
        cliques: the cliques of the current model.
        candidates: the cliques to choose from.
        limit: the largest number of cells of the junction tree.
    """
    largest = [frozenset(clique) for clique in maximal(cliques)]
    holding: dict[str, list[frozenset[str]]] = {name: [] for name in domain.attributes}
    for held in largest:
        for name in held:
            holding[name].append(held)
    place = {name: i for i, name in enumerate(domain.attributes)}
    model = [sorted(held, key=place.__getitem__) for held in largest]
    base = total_cells(domain.shape, [tuple(place[name] for name in held) for held in model])

    def certain(clique: Clique) -> bool:
        cells = domain.size(clique)
        in_all = base * (cells // max(domain[name] for name in clique)) + cells
        return in_all <= limit or any(held.issuperset(clique) for held in holding[clique[0]])

    kept = set(filter(certain, candidates))
    unsure = [clique for clique in candidates if clique not in kept]
    forecast = candidate_cells(domain, model, unsure)
    kept.update(clique for clique, cells in zip(unsure, forecast, strict=True) if cells <= limit)
    return [clique for clique in candidates if clique in kept]
