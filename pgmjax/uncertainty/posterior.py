"""Several tables to analyse like real ones, and the rule by which their estimates are combined.

A draw of the posterior simulates the people of the fitted model, adds the mechanism's noise anew and fits
again, so that little dependence is lost (`debiased`). Records of a draw are then drawn independently of one
another: the rule subtracts their sampling variance, which rows that are dealt evenly do not have.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.migration import Named
from pgmjax.data.domain import Domain
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.model.graphical import GraphicalModel
from pgmjax.queries.blocks import Grouping
from pgmjax.queries.query import Product
from pgmjax.uncertainty import bootstrap


@dataclasses.dataclass(frozen=True)
class Combined(Named):
    """An estimate from several tables.

    Attributes:
        estimate: mean of the tables' estimates.
        stderr: its standard error, of the noise and of the people drawn.
        interval: (low, high). Of `Release.estimate` it is about a fit that nothing pulls, and the estimate
            may lie at its end.
        df: degrees of freedom of the t distribution of the interval.
        rests_on_model: whether it is of attributes that no measured marginal holds together, so that the
            error of the model there is in no interval; None if nobody knows.
    """

    estimate: Any
    stderr: Any
    interval: tuple[Any, Any]
    df: Any
    rests_on_model: bool | None = None


def combine(estimates: Any, variances: Any, *, level: float = 0.95) -> Combined:
    """Combine one estimate from each of several tables of a release.

    With b the variance of the estimates, u the mean of their variances and m their number, the variance is
    T = (1 + 1/m) b - u, with (m - 1) (1 - u / ((1 + 1/m) b))**2 degrees of freedom, at least 1. Each table
    is drawn from another draw of the model: b holds u once for its people and once for its records, and the
    noise beside. So T is (1 + 2/m) u without any noise, and where it comes out below that, it is that, with
    infinitely many degrees of freedom, as u hardly varies (docs/lab/coverage.md has how often such intervals
    hold). Tables of fewer records than there are people get too large errors so. Those of another origin,
    whose people are not simulated anew, need the published rule, without that floor.

    Args:
        estimates: of each table [m] or [m, ...], in the analysis' own units.
        variances: the squared standard error of each, as the analysis of the one table gives it.
        level: of the interval.

    Raises:
        TypeError: what is given is no numbers.
        ValueError: fewer than two tables, shapes or labels (of pandas) that differ, estimates that are not
            finite, or variances that are negative or not finite.

    References:
        Raghunathan, Reiter and Rubin 2003, "Multiple imputation for statistical disclosure limitation",
        section 2; Raisa, Jalko, Kaski and Honkela 2023, "Noise-aware statistical inference with
        differentially private synthetic data".

    Example:
        >>> found = combine([10.0, 12.0, 11.0, 13.0], [0.5, 0.5, 0.5, 0.5])
        >>> found.estimate, round(found.stderr, 3), [round(x, 2) for x in found.interval]
        (11.5, 1.258, [5.2, 17.8])
    """
    labels = _same_labels("estimates", estimates), _same_labels("variances", variances)
    for one, other in zip(*labels, strict=False):
        if not one.equals(other) and set(one) == set(other):
            raise ValueError("variances must have their labels in the order of those of the estimates.")
    given, own = _numbers("estimates", estimates), _numbers("variances", variances)
    level = checks.number("level", level, above=0, below=1)
    if given.ndim == 0 or given.shape != own.shape:
        raise ValueError(
            "Estimates and variances must be one for each of the tables, such as 20 of release.tables(20): "
            f"got shapes {given.shape} and {own.shape}."
        )
    if len(given) < 2:
        raise ValueError(f"Estimates of at least two tables are needed, got {len(given)}: draw more tables.")
    bad = [number for number in range(len(given)) if not np.isfinite(given[number]).all()]
    bad += [
        number for number in range(len(own)) if not (own[number] >= 0).all() or np.isinf(own[number]).any()
    ]
    if bad:
        raise ValueError(
            "Estimates must be finite, and variances finite and at least 0: those of table "
            f"{bad[0]} are not. Leave the table out only if the reason has nothing to do with its values."
        )
    m = len(given)
    centre, between, within = given.mean(axis=0), given.var(axis=0, ddof=1), own.mean(axis=0)
    spread, least = (1 + 1 / m) * between, (1 + 2 / m) * within
    above = spread - within > least
    variance = np.where(above, spread - within, least)
    share = np.divide(within, spread, out=np.zeros_like(spread), where=above)
    df = np.where(above, np.maximum((m - 1) * (1 - share) ** 2, 1.0), np.inf)
    half = _half_width(variance, df, level)
    return _combined(centre, variance, (centre - half, centre + half), df)


def around(estimate: Any, plain: Any, draws: Sequence[Any], *, level: float = 0.95) -> Combined:
    """Return an estimate with an error from draws of a fit that nothing pulls.

    With d the deviations of m draws from that fit, its variance is (1 + 1/m) mean(d**2), with m degrees of
    freedom. The interval is the fit's, widened to hold the estimate, which a pull or counts that cannot be
    negative may have moved by more than noise does. The estimate's squared standard error has its squared
    distance from the fit beside the fit's variance.

    Args:
        estimate: of the release.
        plain: the same of a fit that nothing pulls.
        draws: the same of fits to noise drawn anew about that.
        level: of the interval.
    """
    given = np.asarray(draws, np.float64)
    m, centre, about = len(given), np.asarray(estimate, np.float64), np.asarray(plain, np.float64)
    variance = (1 + 1 / m) * np.square(given - about).mean(axis=0)
    df = np.full(centre.shape, float(m))
    half = _half_width(variance, df, level)
    ends = np.minimum(about - half, centre), np.maximum(about + half, centre)
    return _combined(centre, variance + np.square(centre - about), ends, df)


def _half_width(variance: np.ndarray, df: np.ndarray, level: float) -> np.ndarray:
    from scipy import special  # late, as importing it takes as long as importing NumPy

    return np.asarray(special.stdtrit(df, (1 + level) / 2) * np.sqrt(variance))


def _combined(
    centre: np.ndarray, variance: np.ndarray, ends: tuple[np.ndarray, np.ndarray], df: np.ndarray
) -> Combined:
    """Return numbers as numbers, and arrays as they are."""
    mean, error, low, high, freedom = (
        each.item() if each.ndim == 0 else each
        for each in map(np.asarray, (centre, np.sqrt(variance), *ends, df))
    )
    return Combined(mean, error, (low, high), freedom)


def _same_labels(name: str, given: Any) -> list[Any]:
    """Return the labels of tables of pandas, which an array would put together by place; none of others.

    Raises:
        ValueError: a coefficient that one table lacks, or another order.
    """
    first: list[Any] | None = None
    for number, of_table in enumerate(given if isinstance(given, list | tuple) else ()):
        axes = [getattr(of_table, axis, None) for axis in ("index", "columns")]
        labels: list[Any] = [each for each in axes if hasattr(each, "equals")]  # a list has a method `index`
        first = labels if first is None else first
        if len(labels) != len(first) or not all(
            one.equals(two) for one, two in zip(labels, first, strict=True)
        ):
            raise ValueError(
                f"{name} must have the same labels, in one order, for all tables, and those of table "
                f"{number} differ from the first ones. Fit the same terms to each, and write "
                "results.params.reindex(names)."
            )
    return first or []


def _numbers(name: str, given: Any) -> np.ndarray:
    """Return real numbers as an array; what is refused is not shown, as it may be data."""
    try:
        found = np.asarray(given)
        if found.dtype.kind in "iuf":
            return found.astype(np.float64)
    except (TypeError, ValueError):
        sizes: list[int] = []
        with contextlib.suppress(TypeError, ValueError):
            sizes = sorted({np.size(each) for each in given})
        if len(sizes) > 1:
            raise ValueError(
                f"{name} must be as many for every table, got {sizes[0]} to {sizes[-1]}: fit the same terms "
                "to each."
            ) from None
    raise TypeError(
        f"{name} must be numbers, one or an array of one shape for each table, got {type(given).__name__} of "
        "other values."
    ) from None


EMPTY, ROUNDS, FLOOR, DEGREE = 8.0, 3, 0.15, 2
"""Share of a table's lowering over that of its negative answers, refits, the least count by which a noise is
divided, in its standard deviations, and the highest power in a moment. Chosen for the coverage of slopes and
means of single tables of two columns at three levels of noise (docs/lab/coverage.md)."""
Fits = Callable[
    [Sequence[Sequence[LinearMeasurement]], Sequence[GraphicalModel] | None], list[GraphicalModel]
]
"""Fits models to rows of noisy answers of one structure. Given are the rows, and models to begin from that
have the number of records of each (None for answers as they were drawn)."""


def draws_of(
    model: GraphicalModel,
    measurements: Sequence[LinearMeasurement],
    draws: int,
    seed: int,
    *,
    fitted: Fits,
    people: bool = True,
) -> list[GraphicalModel]:
    """Return models of people simulated from a model, each fitted to their answers with noise drawn anew.

    Args:
        model: the fitted model.
        measurements: whose queries and noise are used; their values are not.
        draws: how many.
        seed: the same seed gives the same draws; it protects nothing.
        fitted: how to fit.
        people: whether people are simulated, for what is true of the population that they are a sample of.
    """
    return debiased(bootstrap.redrawn(model, measurements, draws, seed, people=people), fitted)


def debiased(rows: Sequence[Sequence[LinearMeasurement]], fitted: Fits) -> list[GraphicalModel]:
    """Return models of rows of noisy answers that lose less dependence than fits without negative counts do.

    A model has no negative counts. So the noise of empty cells stays in a fit where it is positive, and all
    other cells give up what that adds: what depends on one another seems to depend less, and less again in
    fits about such a fit. Here each fit after the first one is to answers that the fit before changed, in
    two ways.

    They are lowered by ``share * stddev**2 / (count + FLOOR * stddev)``, with the count of the fit before:
    steps of reweighting that lower the loss plus ``share`` times the sum of log(count + FLOOR * stddev). With
    a share of 1, cells below about two standard deviations become empty. The share of a table is `EMPTY`
    times that of its negative answers, at most 1, as a table without empty cells has hardly any. Tables of
    the same cells are lowered as the one table that they amount to.

    And they are moved by what the fit before lost of moments (`_Moments`): steps of the method of
    multipliers, after which a part of the loss is left. Moments of noisy answers have no bias, and means,
    slopes and correlations are made of them.

    Answers other than counts of cells, or of cells merged into groups, stay. The number of records is that of
    the first fit.

    Args:
        rows: noisy answers, of the same cliques and queries in each row.
        fitted: how to fit.

    References:
        Candes, Wakin and Boyd 2008, "Enhancing sparsity by reweighted l1 minimization", equation 8; Hestenes
        1969, "Multiplier and gradient methods", section 4.
    """
    places = [place for place, one in enumerate(rows[0]) if _counts_cells(one)]
    counted = [rows[0][place] for place in places]
    models = fitted(rows, None)
    moments = [_Moments.of(one, models[0].domain) for one in counted]
    answered = [
        one.sorted(np.stack([row[place].flat_values() for row in rows]))
        for place, one in zip(places, moments, strict=True)
    ]
    alike = _alike(moments, answered)
    if not any(np.any(each.share) for each in alike):
        return models
    moved = [np.zeros_like(each) for each in answered]
    for _ in range(ROUNDS):
        fits = [
            kind.sorted(np.stack([np.ravel(model.answer(one.query)) for model in models]))
            for kind, one in zip(moments, counted, strict=True)
        ]
        _restore(moments, [values - fit for values, fit in zip(answered, fits, strict=True)], moved)
        values = [one + more for one, more in zip(answered, moved, strict=True)]
        for each in alike:
            less = each.lowering(fits[each.places[0]])
            for place in each.places:
                values[place] -= less
        given = [one.as_given(each) for one, each in zip(moments, values, strict=True)]
        models = fitted([_answered(row, places, k, given) for k, row in enumerate(rows)], models)
    return models


def _answered(
    row: Sequence[LinearMeasurement], places: Sequence[int], draw: int, values: Sequence[np.ndarray]
) -> list[LinearMeasurement]:
    """Return the measurements of a draw with other values [draws, cells] in some places."""
    changed = list(row)
    for place, cells in zip(places, values, strict=True):
        own = cells[draw].reshape(row[place].values.shape)
        changed[place] = dataclasses.replace(row[place], values=own)
    return changed


def _counts_cells(measurement: LinearMeasurement) -> bool:
    """Return whether each answer counts a cell, or a group of cells that no other answer counts."""
    query = measurement.query
    return isinstance(query, Product) and all(isinstance(block, Grouping) for block in query.blocks)


@dataclasses.dataclass(frozen=True)
class _Alike:
    """Measurements of the same cells, which are lowered as the one measurement that they amount to.

    Attributes:
        places: of the measurements.
        values: their mean with weights 1/variance [draws, *shape].
        spread: standard deviation of its noise [*shape].
        share: of the lowering [draws, 1, ...].
    """

    places: tuple[int, ...]
    values: np.ndarray
    spread: np.ndarray
    share: np.ndarray

    def lowering(self, counts: np.ndarray) -> np.ndarray:
        """Return by how much each is lowered [draws, *shape], none far below 0."""
        values, spread = self.values, self.spread
        less = values - self.share * spread**2 / (counts + FLOOR * spread)
        # further down they would change no fit, but its loss, by which it is judged whether noise explains it
        return values - np.maximum(less, np.minimum(values, -spread))


def _alike(moments: Sequence[_Moments], answered: Sequence[np.ndarray]) -> list[_Alike]:
    """Return which measurements are of the same cells, in any order of their attributes."""
    places = collections.defaultdict(list)
    for place, one in enumerate(moments):
        places[one.axes].append(place)
    found = []
    for same in places.values():
        weights = [1 / np.square(moments[place].spread) for place in same]
        total = sum(weights[1:], weights[0])
        values = sum(weight / total * answered[place] for place, weight in zip(same, weights, strict=True))
        negative = (values < 0).mean(axis=tuple(range(1, values.ndim)), keepdims=True)
        found.append(_Alike(tuple(same), values, total**-0.5, np.minimum(1.0, EMPTY * negative)))
    return found


@dataclasses.dataclass(frozen=True)
class _Moments:
    """The moments of one table of counts.

    A moment is the total over cells of a polynomial of the code of one attribute, or of a product of those of
    two, of degrees 1 to `DEGREE`. A group of codes has their mean.

    Attributes:
        axes: an attribute's name and its groups, for each axis, in the order of names.
        order: which axis of the measurement each is.
        spread: standard deviations of its cells' noise [*shape].
        codes: of each axis' groups.
    """

    axes: tuple[tuple[str, Grouping], ...]
    order: tuple[int, ...]
    spread: np.ndarray
    codes: tuple[tuple[float, ...], ...]

    @classmethod
    def of(cls, measurement: LinearMeasurement, domain: Domain) -> _Moments:
        """Return the moments of a measurement of cells."""
        query: Any = measurement.query
        order = tuple(sorted(range(len(query.clique)), key=lambda axis: query.clique[axis]))
        axes, codes = tuple((query.clique[axis], query.blocks[axis]) for axis in order), []
        for name, block in axes:
            groups = block.groups_of(domain[name])
            codes.append(
                tuple(np.bincount(groups, np.arange(len(groups))) / np.maximum(np.bincount(groups), 1))
            )
        spread = np.asarray(measurement.row_stddevs(), np.float64).reshape(query.shape(domain))
        return cls(axes, order, spread.transpose(order), tuple(codes))

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the table."""
        return tuple(self.spread.shape)

    @property
    def variance(self) -> float:
        """Mean of its cells' noise."""
        return float(np.square(self.spread).mean())

    def sorted(self, values: np.ndarray) -> np.ndarray:
        """Return answers [draws, cells] as tables [draws, *shape]."""
        given = [self.shape[self.order.index(axis)] for axis in range(len(self.order))]
        return values.astype(np.float64).reshape(-1, *given).transpose(0, *(1 + axis for axis in self.order))

    def as_given(self, tables: np.ndarray) -> np.ndarray:
        """Return tables [draws, *shape] as answers [draws, cells]."""
        back = tables.transpose(0, *(1 + np.argsort(self.order)))
        return back.reshape(len(tables), -1)

    @property
    def groups(self) -> list[tuple[int, ...]]:
        """The axes that moments are of: one each, and pairs."""
        axes = range(len(self.axes))
        return [(axis,) for axis in axes] + list(itertools.combinations(axes, 2))

    def name(self, group: tuple[int, ...]) -> tuple[tuple[str, Grouping], ...]:
        """Return what moments are called that other tables may have too."""
        return tuple(self.axes[axis] for axis in group)

    def cells(self, group: tuple[int, ...]) -> int:
        """Number of cells that a total over the other axes adds up."""
        return math.prod(self.shape) // math.prod(self.shape[axis] for axis in group)

    def totals(self, table: np.ndarray, group: tuple[int, ...]) -> np.ndarray:
        """Return the moments [draws, degrees, ...] of numbers in cells [draws, *shape]."""
        found = table.sum(axis=tuple(1 + axis for axis in range(len(self.shape)) if axis not in group))
        for axis in group:
            # the first axis of codes becomes the last one, of degrees
            found = np.tensordot(found, _polynomials(self.codes[axis]), axes=(1, 0))
        return found

    def least(self, moments: np.ndarray, group: tuple[int, ...]) -> np.ndarray:
        """Return the least numbers in cells that have some moments, with axes of length 1 for the others."""
        for axis in group:
            moments = np.tensordot(moments, _polynomials(self.codes[axis]), axes=(1, 1))
        thin = [size if axis in group else 1 for axis, size in enumerate(self.shape)]
        return moments.reshape(-1, *thin) / self.cells(group)


def _restore(moments: Sequence[_Moments], missing: Sequence[np.ndarray], moved: Sequence[np.ndarray]) -> None:
    """Add to cells what gives fits the moments that were answered.

    What a fit lost of a moment is the mean of what is missing in each table that has it, with weights
    1/variance: where noise makes them disagree, a fit is not to follow each.

    Args:
        moments: of each table.
        missing: answers less those of the fits, each [draws, *shape].
        moved: where it is added, each [draws, *shape].
    """
    sums: dict[Any, Any] = collections.defaultdict(float)
    weights: dict[Any, float] = collections.defaultdict(float)
    for one, table in zip(moments, missing, strict=True):
        for group in one.groups:
            weight = 1 / (one.variance * one.cells(group))
            weights[one.name(group)] += weight
            sums[one.name(group)] = sums[one.name(group)] + weight * one.totals(table, group)
    for one, table in zip(moments, moved, strict=True):
        for group in one.groups:
            table += one.least(sums[one.name(group)] / weights[one.name(group)], group)


@functools.cache
def _polynomials(codes: tuple[float, ...]) -> np.ndarray:
    """Return orthonormal polynomials of codes [codes, degrees], without the constant one."""
    degrees, values = min(DEGREE, len(codes) - 1), np.asarray(codes)
    values = (values - values.mean()) / max(np.ptp(values), 1.0)  # of moderate powers
    return np.linalg.qr(np.vander(values, degrees + 1, increasing=True))[0][:, 1:]
