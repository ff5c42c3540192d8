"""The accuracy of a release, from its noisy answers and its model alone: one answer, its interval, verdicts.

Intervals are made from the noisy answers, without the model: of all their combinations that are unbiased,
whatever the table is, they take the one of least variance (`measurements.residual`, `uncertainty.linear`).
The model's own answer uses everything that was measured, and that no count is negative, and is nearer in most
cases. So the one answer that is reported is the model's, moved to within `CONTRADICTED` standard errors of
the unbiased one, and the interval is widened to contain it: it is then right at least as often. What the
measurements do not determine has no interval: there the model says what has most entropy.

A share is the ratio of a count to the total, with an interval from the noisy answers alone.

Where the total is public, a share's interval is the count's divided by it, else Fieller's
(`uncertainty.ratios`).

For best unbiased answers from marginals, the covariance c of count and total follows from the residual basis
(`measurements.residual`): the total is their part on the empty set, which is uncorrelated with all other
parts. A query with the mean weight m on a cell has the part m t on it, so that c = m w with the variance w of
the total.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pgmjax._internal.migration import Named, instead
from pgmjax.data.domain import Clique, Domain, all_subsets, in_order
from pgmjax.data.population import WHOLE, Population
from pgmjax.data.relation import Relation
from pgmjax.measurements.linear import LinearMeasurement, noisy_marginal
from pgmjax.measurements.residual import MeasuredTable, ResidualAnswers, as_table
from pgmjax.queries.blocks import Identity, Merge, Total
from pgmjax.queries.query import Product, Query, kronecker, marginal
from pgmjax.release.asked import MOST_CELLS, AskedModel
from pgmjax.strategies.least_squares import from_one
from pgmjax.uncertainty.linear import BestLinear, TooMuchWorkError
from pgmjax.uncertainty.ratios import divided, fieller

_MOST_CELLS = 10_000_000


def mean_weights(query: Query, domain: Domain) -> np.ndarray | None:
    """Return the mean weight of a cell in each row of a query [rows]; None if it is too large.

    Example:
        >>> from pgmjax.queries import marginal
        >>> mean_weights(marginal(["a"]), Domain({"a": 4})).tolist()
        [0.25, 0.25, 0.25, 0.25]
    """
    if isinstance(query, Product):
        means = [
            np.asarray(block.apply(np.full(domain[name], 1 / domain[name]), 0), float)
            for name, block in zip(query.clique, query.blocks, strict=True)
        ]
        return functools.reduce(np.multiply.outer, means, np.ones(())).reshape(-1)
    cells = domain.size(query.clique)
    if cells > _MOST_CELLS:
        return None
    return np.asarray(query.apply(np.full(domain.shape_of(query.clique), 1 / cells)), float).reshape(-1)


NORMAL, LAPLACE = 1.96, 2.12
"""Half-width of a 95 % interval in standard errors; an average of Laplace noise needs less than that."""
CONTRADICTED = 3.29
"""Standard errors from the unbiased answer beyond which the model's answer is moved: chance does that to one
answer in a thousand."""
GOOD, COARSE = 0.1, 0.5
"""Relative half-widths up to which a column is good, and up to which it is coarse."""
GOOD_MOVED, COARSE_MOVED = 0.02, 0.2
"""Shares of records that non-negativity moved, up to which a column is good, and coarse."""
NOT_WHOLE = "not the whole table"
"""The best verdict on counts where records may have been left out."""
NOT_DETERMINED = "not determined"
VERDICTS = ("good", "coarse", NOT_WHOLE, "noise", NOT_DETERMINED)
MODEL, LEARNER = "the model", "the trained model"
"""What gives the answers of a release, besides its noisy counts."""
_FIGURES = ("half_width", "relative", "small", "moved", "share")
SIZES = (0, 1, 10, 100, 1_000, 10_000)
"""Counts at which a class of group sizes begins."""
_SMALL, _SMALL_WORD = 5, "fifth"  # the part of the values that are the small groups, of which sentences tell
_MOST_WORK = 3e10  # multiplications for answers without closed forms: some ten seconds


@dataclasses.dataclass(frozen=True)
class Reported(Named):
    """The answers to a query as they are reported everywhere.

    Attributes:
        estimates: the best answers [rows], each inside its interval.
        noisy: the unbiased estimates, from noisy answers alone [rows], NaN where not determined.
        stddevs: standard errors of the unbiased estimates [rows], NaN where not determined.
        intervals: ends of 95 % intervals [rows, 2], which contain the estimates; NaN where not determined.
        shares: ends of 95 % intervals of the shares in the total [rows, 2], NaN where not determined.
        given_by: what gave the answers that the noisy counts correct, `MODEL` or `LEARNER`.
    """

    estimates: np.ndarray
    noisy: np.ndarray
    stddevs: np.ndarray
    intervals: np.ndarray
    shares: np.ndarray
    given_by: str = MODEL

    @property
    def determined(self) -> np.ndarray:
        """The answers that the measurements determine, bool [rows]; others rest on the model alone."""
        return ~np.isnan(self.stddevs)

    def share(self, total: float) -> np.ndarray:
        """Return the best shares [rows]: the answers over the model's total, each inside its interval."""
        low, high = self.shares.T
        found = self.estimates / total
        return np.where(np.isnan(low), found, np.clip(found, low, high))


@dataclasses.dataclass(frozen=True)
class Unbiased:
    """Unbiased estimates of a query's answers.

    Attributes:
        values: the estimates [rows], NaN where the measurements do not determine the answer.
        stddevs: their standard errors [rows], NaN there too.
        width: half-width of a 95 % interval, in standard errors.
        nonnegative: whether no answer can be negative, as that of a count.
        closed_form: whether all are the best answers from marginals alone, in closed form.
        linear: whether the estimate of a sum of rows is the sum of theirs.
    """

    values: np.ndarray
    stddevs: np.ndarray
    width: float
    nonnegative: bool
    closed_form: bool = False
    linear: bool = False

    @property
    def determined(self) -> np.ndarray:
        """The answers that the measurements determine, bool [rows]."""
        return ~np.isnan(self.stddevs)

    @property
    def intervals(self) -> np.ndarray:
        """The ends of 95 % intervals [rows, 2].

        Those of answers that cannot be negative reach from at least 0 to at least half a width above 0. A
        noisy count far below 0 would else leave nothing but 0, which claims a certainty that nobody has.
        This only adds to an interval, so it holds the answer at least as often.
        """
        half = self.width * self.stddevs
        low, high = self.values - half, self.values + half
        if self.nonnegative:
            low, high = np.maximum(low, 0.0), np.maximum(high, half)
        return np.stack([low, high], axis=-1)


class CountEstimates(Named):
    """Unbiased answers to any queries from the noisy answers of one release, prepared once.

    Args:
        domain: of the measurements.
        measurements: released answers.
        total: the number of records, where it is public.
        facts: whether models keep to public facts beside these answers, which then correct nothing.

    Example:
        >>> domain = Domain({"a": 2, "b": 2})
        >>> noisy = [LinearMeasurement(("a", "b"), [5.0, 7.0, 1.0, 3.0], stddev=2.0)]
        >>> found = CountEstimates(domain, noisy)
        >>> found.unbiased(marginal(["b"])).intervals.round(1).tolist()
        [[0.5, 11.5], [4.5, 15.5]]
        >>> CountEstimates(domain, []).unbiased(marginal(["b"])) is None
        True
    """

    __getitem__ = instead(
        "Estimates are asked with a query: write release.report(('age',)) for their counts."
    )

    def __init__(
        self,
        domain: Domain,
        measurements: Sequence[LinearMeasurement],
        total: float | None = None,
        facts: bool = False,
    ) -> None:
        self.facts = facts
        self.domain, self.measurements, self.total = domain, tuple(measurements), total
        laplace = any(each.noise == "laplace" for each in self.measurements)
        self.width = LAPLACE if laplace else NORMAL
        tables = {number: as_table(domain, each) for number, each in enumerate(self.measurements)}
        self._others = [self.measurements[number] for number, table in tables.items() if table is None]
        known = [] if total is None else [MeasuredTable((), np.array(float(total)), 0.0)]
        self.residuals = ResidualAnswers(
            domain, [*(each for each in tables.values() if each is not None), *known]
        )

    def unbiased(self, query: Query, may_be_negative: bool = False) -> Unbiased | None:
        """Return unbiased estimates of a query's answers; None if none is determined.

        They are the best ones if all measurements are marginals, or few enough to be factored together.
        Otherwise they are averages, with weights 1/variance, of the best ones from marginals and of those
        from each other measurement by itself.

        Args:
            query: of the domain.
            may_be_negative: do not cut intervals at 0.
        """
        best = None if self._others else self.residuals.answers(query)
        found = self._together(query) if self._others else None
        if best is not None:
            found = best.values, best.variances
        linear = found is not None
        for values, variances in self._apart(query) if found is None else ():
            found = (values, variances) if found is None else _averaged(*found, values, variances)
        if found is None or np.isnan(found[1]).all():
            return None
        nonnegative = not may_be_negative and query.is_nonnegative(self.domain)
        return Unbiased(found[0], np.sqrt(found[1]), self.width, nonnegative, best is not None, linear)

    def report(
        self, query: Query, fitted: np.ndarray, may_be_negative: bool = False, given_by: str = MODEL
    ) -> Reported:
        """Return the one answer to each row of a query, with its interval.

        Args:
            query: of the domain.
            fitted: the answers of the model, or of another estimator [rows].
            may_be_negative: whether `fitted` holds unbiased answers, which may be negative.
            given_by: what gave them.
        """
        fitted = np.asarray(fitted, np.float64).reshape(-1)
        if not may_be_negative and query.is_nonnegative(self.domain):
            fitted = np.maximum(fitted, 0.0)  # a learner may say less
        found = self.unbiased(query, may_be_negative)
        if found is None:
            nothing = np.full(fitted.size, np.nan)
            nowhere = np.stack([nothing, nothing], axis=-1)
            return Reported(fitted, nothing, nothing, nowhere, nowhere, given_by)
        reach = np.inf if self.facts else CONTRADICTED * found.stddevs
        bottom = np.maximum(found.values - reach, 0.0) if found.nonnegative else found.values - reach
        top = np.maximum(found.values, 0.0 if found.nonnegative else found.values) + reach
        best = np.where(found.determined, np.clip(fitted, bottom, top), fitted)
        shares = self.shares(query, found)
        if self.records is not None:
            shares = _widened(shares, best / self.records[0])
        noisy = np.where(found.determined, found.values, np.nan)
        return Reported(best, noisy, found.stddevs, _widened(found.intervals, best), shares, given_by)

    @functools.cached_property
    def records(self) -> tuple[float, float] | None:
        """The number of records and the variance of its noise; None if it is not determined."""
        if self.total is not None:
            return float(self.total), 0.0
        found = self.unbiased(kronecker({self.domain.attributes[0]: Total()}))
        return None if found is None else (float(found.values[0]), float(found.stddevs[0]) ** 2)

    def shares(self, query: Query, found: Unbiased) -> np.ndarray:
        """Return 95 % intervals of the shares of answers in the total.

        Args:
            query: of the domain.
            found: the unbiased estimates of its answers.

        Returns:
            The ends [rows, 2], NaN where answer or total are not determined.
        """
        if self.records is None:
            return np.full((found.values.size, 2), np.nan)
        number, error = self.records
        means = mean_weights(query, self.domain) if found.closed_form and error else None
        if not error:
            ends = found.intervals / number
        elif means is None:
            ends = divided(found.intervals, number, found.width * error**0.5)
        else:
            spread = np.square(found.stddevs)
            ends = fieller(found.values, number, spread, means * error, error, found.width)
        if not found.nonnegative:
            return np.where(np.isfinite(ends), ends, np.nan)
        most = float(query.linf_sensitivity(Relation.ADD_REMOVE, self.domain))
        # a count far below 0 leaves more than 0, as above
        least = found.width * found.stddevs / max(number, 1.0)
        ends[:, 1] = np.maximum(ends[:, 1], least)
        return np.clip(ends, 0.0, most)

    @functools.cached_property
    def _linear(self) -> BestLinear:
        return BestLinear(self.domain, self.measurements, self.total, most_work=_MOST_WORK, iterate=False)

    def variances_of_parts(self, clique: Clique) -> list[float] | None:
        """Return the variance of the residual on each subset of a clique, by size.

        None if not all are measured, or other measurements than marginals count too.
        """
        ordered = in_order(self.domain.attributes, clique)
        if self._others or not self.residuals.is_measured(clique):
            return None
        return [self.residuals.residual(in_order(ordered, subset))[1] for subset in all_subsets(clique)]

    def _together(self, query: Query) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the best answers from all measurements; None if that is too much work."""
        try:
            found = self._linear.answers([query])
        except TooMuchWorkError:
            return None
        return found.values, np.square(found.stddevs)

    def _apart(self, query: Query) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield answers with independent errors, and their variances [rows]."""
        best = self.residuals.answers(query)
        if best is not None:
            yield best.values, best.variances
        else:
            yield from self._summed(query, self.measurements)
        asked = set(query.clique)
        for each in filter(lambda other: asked.issubset(other.clique), self._others):
            if each.query == query:
                yield each.flat_values(), np.square(each.row_stddevs())
            elif (found := from_one(self.domain, query, each)) is not None:
                yield found
            else:
                yield from self._summed(query, [each])

    def _summed(
        self, query: Query, measurements: Sequence[LinearMeasurement]
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the cells of a marginal as averages of measured marginals that contain them."""
        if query != marginal(query.clique):
            return
        noisy = noisy_marginal(self.domain, measurements, query.clique)
        if noisy is not None:
            yield np.ravel(noisy.values), np.square(np.ravel(noisy.stddevs))


def rests_on(determined: bool, given_by: str = MODEL) -> str:
    """Return what an answer rests on, in words.

    Example:
        >>> rests_on(True), rests_on(False, LEARNER)
        ('noisy counts and the model', 'the trained model alone')
    """
    return f"noisy counts and {given_by}" if determined else f"{given_by} alone"


def _widened(ends: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return intervals that contain some values too [rows, 2]; NaN stays."""
    low, high = ends.T
    return np.stack([np.minimum(low, values), np.maximum(high, values)], axis=-1)


def _averaged(
    first: np.ndarray, of_first: np.ndarray, second: np.ndarray, of_second: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return averages with weights 1/variance, and their variances; NaN where neither is known."""
    with np.errstate(divide="ignore", invalid="ignore"):
        one, other = (np.where(np.isnan(v), 0.0, 1.0 / v) for v in (of_first, of_second))
        # an exact answer outweighs every noisy one
        shares = np.where(np.isinf(one), 1.0, np.where(np.isinf(other), 0.0, one / (one + other)))
        values = shares * np.nan_to_num(first) + (1.0 - shares) * np.nan_to_num(second)
        return values, np.where(one + other > 0, 1.0 / (one + other), np.nan)


@dataclasses.dataclass(frozen=True)
class NoisyDistance:
    """A noisy distance between the table and a model on the way, which an adaptive mechanism published.

    Attributes:
        clique: the attributes of the marginal.
        round: number of the round, from 1.
        value: the L1 distance of the marginal of the table from that of the model in that round, with noise
            (counts).
        stddev: of the noise.
        changed: the exact L1 distance of that model's marginal from the released model's (counts).
        noise: the family of the noise, `gaussian` or `laplace`.
    """

    clique: Clique
    round: int
    value: float
    stddev: float
    changed: float
    noise: str = "gaussian"

    def misplaced(self, records: float) -> tuple[float, float]:
        """Return the ends of a 95 % interval of the share of records that the released model misplaces.

        That share is half the L1 distance over the number of records. The released model's distance differs
        from the published one by at most `changed`, by the triangle inequality.

        Args:
            records: the model's total.

        Example:
            >>> NoisyDistance(("a", "b"), 1, 100.0, 10.0, 4.4).misplaced(1000.0)
            (0.038, 0.062)
        """
        reach = (LAPLACE if self.noise == "laplace" else NORMAL) * self.stddev + self.changed
        ends = (max(self.value - reach, 0.0), max(self.value, 0.0) + reach)
        low, high = (min(round(end / (2 * max(records, 1.0)), 6), 1.0) for end in ends)
        return low, high


@dataclasses.dataclass(frozen=True)
class TableAccuracy:
    """The accuracy of the counts of one column, or of one measured or requested table.

    Attributes:
        clique: its attributes.
        verdict: one of `VERDICTS`.
        half_width: of the 95 % interval of the count that a typical record is in; NaN if not determined.
        relative: the same over that count.
        small: the same for small groups: the median over the fifth of the cells with fewest records.
        moved: the share of all records that noisy counts below 0 took from other cells.
        misplaced: ends of a 95 % interval of the share of records that the model has in a wrong cell, where
            the mechanism published a noisy distance; None elsewhere.
        share: half-width of the 95 % interval of the share that a typical record is in, over that share.
        share_verdict: the verdict on shares, by the same rules.
        merged: whether it is not determined because it was measured with rare values merged.
        sizes: of the cells in each class of `SIZES` by the model's count, the sums that `by_size` needs: of
            ones, of the model's counts, of half-widths, and of the model's counts minus the noisy ones.
    """

    clique: Clique
    verdict: str
    half_width: float = math.nan
    relative: float = math.nan
    small: float = math.nan
    moved: float = math.nan
    misplaced: tuple[float, float] | None = None
    share: float = math.nan
    share_verdict: str = VERDICTS[-1]
    merged: bool = False
    sizes: tuple[tuple[float, float, float, float], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the accuracy for JSON; null where nothing is determined."""
        numbers = {name: getattr(self, name) for name in _FIGURES}
        known = {name: round(value, 4) if math.isfinite(value) else None for name, value in numbers.items()}
        wrong: dict[str, Any] = (
            {} if self.misplaced is None else {"misplaced": [round(end, 4) for end in self.misplaced]}
        )
        told = {"verdict": self.verdict, "share_verdict": self.share_verdict}
        wrong |= {"merged": True} if self.merged else {}
        return {"attributes": list(self.clique), **told, **known, **wrong}


def table_accuracy(
    estimates: CountEstimates, clique: Clique, fitted: np.ndarray, records: float
) -> TableAccuracy:
    """Return the accuracy of the counts of some attributes.

    The verdict is *good* if the interval of the count that a typical record is in (the median over records)
    is within 10 % of that count, and noisy counts below 0 took at most 2 % of the records from other cells;
    *noise* if it is beyond 50 %, or they took more than 20 %; and *coarse* between.

    Args:
        estimates: from the released answers.
        clique: the attributes.
        fitted: the model's counts [size of each attribute].
        records: the model's total.

    Example:
        >>> noisy = [LinearMeasurement(("a",), [900, 50, -4], stddev=5.0)]
        >>> estimates = CountEstimates(Domain({"a": 3}), noisy)
        >>> found = table_accuracy(estimates, ("a",), np.array([898.0, 48.0, 0.0]), 946.0)
        >>> found.verdict, round(found.relative, 3)
        ('good', 0.011)
    """
    found = estimates.unbiased(marginal(clique))
    if found is None or not found.determined.all():
        return TableAccuracy(clique, VERDICTS[-1], merged=_is_merged(estimates, clique))
    fitted = np.maximum(np.asarray(fitted, float).reshape(-1), 0.0)
    half = found.width * found.stddevs
    relative = half / np.maximum(fitted, 1.0)
    place = _typical(relative, fitted)
    ends = estimates.shares(marginal(clique), found)
    of_shares = (ends[:, 1] - ends[:, 0]) / 2 / (np.maximum(fitted, 1.0) / max(records, 1.0))
    share = float(of_shares[_typical(of_shares, fitted)])
    least = np.argsort(fitted, kind="stable")[: max(1, len(fitted) // _SMALL)]
    moved = float(np.maximum(-found.values, 0).sum() / max(records, 1.0))
    typical = float(relative[place])
    return TableAccuracy(
        clique,
        _verdict(typical, moved),
        float(half[place]),
        typical,
        float(np.median(relative[least])),
        moved,
        share=share,
        share_verdict=VERDICTS[-1] if math.isnan(share) else _verdict(share, moved),
        sizes=_sizes(fitted, half, found.values),
    )


def _sizes(
    fitted: np.ndarray, half: np.ndarray, noisy: np.ndarray
) -> tuple[tuple[float, float, float, float], ...]:
    """Return the sums of `TableAccuracy.sizes`, a row for each class."""
    place = np.searchsorted(SIZES, fitted, side="right") - 1
    parts = (np.ones_like(fitted), fitted, half, fitted - noisy)
    sums = [np.bincount(place, part, minlength=len(SIZES)).tolist() for part in parts]
    return tuple(zip(*sums, strict=True))


def _is_merged(estimates: CountEstimates, clique: Clique) -> bool:
    """Return whether a table was measured with values merged, as MST measures its pairs."""
    return any(
        set(each.clique) == set(clique)
        and isinstance(each.query, Product)
        and all(isinstance(block, Identity | Merge) for block in each.query.blocks)
        for each in estimates.measurements
    )


def _typical(relative: np.ndarray, fitted: np.ndarray) -> int:
    """Return the cell of the median record, by the relative half-width of its cell."""
    order = np.argsort(relative, kind="stable")
    # by records: the median over cells would be that of the many small ones
    mass = np.cumsum(fitted[order])
    return int(order[min(int(np.searchsorted(mass, mass[-1] / 2)), len(order) - 1)])


def _verdict(relative: float, moved: float) -> str:
    if relative <= GOOD and moved <= GOOD_MOVED:
        return "good"
    return "coarse" if relative <= COARSE and moved <= COARSE_MOVED else "noise"


def _about(population: Population, verdict: str) -> str:
    """Return a verdict on counts as counts of the table: where some may be left out, none is too good."""
    return verdict if population.is_whole else max(verdict, NOT_WHOLE, key=VERDICTS.index)


@dataclasses.dataclass(frozen=True)
class ReleaseAccuracy(Named):
    """The accuracy of a release.

    Attributes:
        columns: of each attribute, in the domain's order.
        tables: of each table of more than one attribute that was measured or asked for.
    """

    columns: tuple[TableAccuracy, ...]
    tables: tuple[TableAccuracy, ...]

    __getitem__ = instead(
        "The accuracy of a release has columns and tables, lists in the order of the domain and of what was "
        "asked; the error of a query is release.report(('age',))."
    )

    def by_size(self) -> list[dict[str, float | None]]:
        """Return the accuracy of groups by their size, over all determined columns and tables.

        Each class of `SIZES` that has a cell tells the count from which it is (`least`), its number of
        `cells`, the sum of the half-widths of their 95 % intervals over the sum of the model's counts
        (`relative`), and the mean of the model's counts minus the noisy ones (`excess`): what non-negativity
        and the agreement of all counts add to a cell of that size.
        """
        sums = [each.sizes for each in (*self.columns, *self.tables) if each.sizes]
        found: list[dict[str, float | None]] = []
        for least, row in zip(SIZES, np.sum(sums, axis=0).tolist() if sums else (), strict=False):
            cells, counts, half, excess = row
            if cells:
                relative = round(half / counts, 4) if counts > 0 else None
                told = {"relative": relative, "excess": round(excess / cells, 4)}
                found.append({"least": least, "cells": int(cells), **told})
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the accuracy for JSON."""
        return {
            "columns": [each.to_dict() for each in self.columns],
            "tables": [each.to_dict() for each in self.tables],
            "sizes": self.by_size(),
        }


def accuracy_of(
    model: Any,
    estimates: CountEstimates,
    asked: Iterable[Clique] = (),
    distances: Sequence[NoisyDistance] = (),
    population: Population = WHOLE,
) -> ReleaseAccuracy:
    """Return the accuracy of a model's counts: of every column, and of every measured or requested table.

    Args:
        model: the fitted model.
        estimates: from the released answers.
        asked: the attributes of what was asked for.
        distances: noisy distances that the mechanism published.
        population: what the counts are of. Where records may have been left out, `NOT_WHOLE` takes the place
            of every better verdict on counts, however little noise they have.
    """
    domain, records = model.domain, float(model.total)
    measured = (each.clique for each in estimates.measurements if as_table(domain, each) is not None)
    wide = {frozenset(clique): clique for clique in (*measured, *asked) if len(clique) > 1}
    small = [clique for clique in wide.values() if domain.size(clique) <= MOST_CELLS]
    known = {frozenset(each.clique): each for each in distances}
    columns: list[TableAccuracy] = []
    tables: list[TableAccuracy] = []
    singles = [(name,) for name in domain.attributes]
    for clique, fitted in AskedModel.of(model).marginals([*singles, *small]):
        found = table_accuracy(estimates, clique, fitted, records)
        if (one := known.get(frozenset(clique))) is not None:
            found = dataclasses.replace(found, misplaced=one.misplaced(records))
        found = dataclasses.replace(found, verdict=_about(population, found.verdict))
        (columns if len(clique) == 1 else tables).append(found)
    return ReleaseAccuracy(tuple(columns), tuple(tables))


def lines(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is to be said of a release's accuracy, in a few sentences.

    Args:
        record: what `ReleaseAccuracy.to_dict` returned.

    Example:
        >>> column = {"attributes": ["age"], "verdict": "noise", "relative": 1.4, "small": 3, "moved": 0}
        >>> for line in lines({"columns": [column], "tables": []}):
        ...     print(line)
        Accuracy: of 1 column, 1 is noise (age).
        Worst: a typical count of age is noise: its 95 % interval is wider than the count itself.
        Small groups: counts of the rarest fifth of the values of age are noise.
    """
    columns = record["columns"]
    if any(one["verdict"] == NOT_WHOLE for one in columns):
        yield "Records may have been left out: counts are of the records that count, not of the whole table."
        yield f"Accuracy of shares of the records that count: {_by_verdict(columns, 'share_verdict')}."
    else:
        yield f"Accuracy: {_by_verdict(columns, 'verdict')}."
    unknown = [one["attributes"][0] for one in columns if one["verdict"] == NOT_DETERMINED]
    if 0 < len(unknown) < len(columns):
        yield (
            f"Nothing was measured of {few(unknown)}: their values in synthetic rows mean nothing. Leave "
            "such columns out of the domain, or measure them."
        )
    known = [one for one in columns if one.get("relative") is not None]
    if known:
        yield from _worst(known)
    else:
        yield "No column was measured alone or in a table, so no count has an interval."
    yield from _of_tables(record["tables"])


def _by_verdict(columns: Sequence[Mapping[str, Any]], kind: str) -> str:
    """Return how many columns have which verdict, and the names of those that are not good."""
    names = {each: [one["attributes"][0] for one in columns if one[kind] == each] for each in VERDICTS}
    told = [
        f"{_are(len(names[each]))} {each}" + f" ({few(names[each])})" * (each != "good")
        for each in VERDICTS
        if names[each]
    ]
    return f"of {len(columns)} column{'s' * (len(columns) != 1)}, {_listed(told)}"


def _are(number: int) -> str:
    return f"{number:,} {'is' if number == 1 else 'are'}"


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _worst(known: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield sentences about the worst column, and about small groups."""
    worst = max(
        known, key=lambda one: (VERDICTS.index(_verdict(one["relative"], one["moved"])), one["relative"])
    )
    name, moved = worst["attributes"][0], worst["moved"]
    among = " among the records that count" if worst["verdict"] == NOT_WHOLE else ""
    if _verdict(worst["relative"], 0.0) == _verdict(worst["relative"], moved):
        noise = "is noise: its 95 % interval is wider than the count itself"
        known_to = f"is known to within {within(worst['relative'])} (95 % interval)"
        yield f"Worst: a typical count of {name}{among} {noise if worst['relative'] > 1 else known_to}."
    else:
        yield (
            f"Worst: making negative noisy counts of {name} non-negative moved "
            f"{f'{percent(moved)} of the records' if moved < 1 else 'as many records as there are'} to other "
            "values."
        )
    small = max(known, key=lambda one: one["small"])
    yield (
        f"Small groups: counts of the rarest {_SMALL_WORD} of the values of "
        f"{small['attributes'][0]}{', the worst column,' * (len(known) > 1)} are "
        f"{'' if small['small'] > 1 else 'known to within '}{within(small['small'])}."
    )


def _of_tables(tables: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield sentences about tables of more than one attribute: how many are good, or only noise.

    Example:
        >>> pair = {"attributes": ["a", "b"], "verdict": "noise"}
        >>> list(_of_tables([pair, pair, {**pair, "verdict": "not determined"}]))
        ['Of 3 pairs, 2 are mostly noise and 1 was not measured: its counts rest on the model alone.']
    """
    if not tables:
        return
    number = {verdict: sum(one["verdict"] == verdict for one in tables) for verdict in VERDICTS}
    kind = "pair" if all(len(one["attributes"]) == 2 for one in tables) else "table"
    good, coarse, part, noise, unknown = (number[verdict] for verdict in VERDICTS)
    merged = sum(one.get("merged", False) for one in tables)
    unknown -= merged
    parts = {"good": good, "coarse": coarse, "not of the whole table": part, "mostly noise": noise}
    told = [f"{_are(count)} {word}" for word, count in parts.items() if count]
    if merged:
        told.append(
            f"{merged} {'was' if merged == 1 else 'were'} measured with rare values merged, within which the "
            "model alone says how counts divide"
        )
    if unknown:
        told.append(
            f"{unknown} {'was' if unknown == 1 else 'were'} not measured: "
            f"{'its' if unknown == 1 else 'their'} counts rest on the model alone"
        )
    yield f"Of {len(tables):,} {kind}{'s' * (len(tables) != 1)}, {_listed(told)}."
    alone = [one for one in tables if one["verdict"] == VERDICTS[-1] and one.get("misplaced")]
    if alone:
        worst = max(alone, key=lambda one: one["misplaced"][1])
        most = sorted(one["misplaced"][1] for one in alone)[len(alone) // 2]
        far = (
            f": in half of them the model has at most {percent(most)} of the records in a wrong cell, in the "
            f"worst ({', '.join(worst['attributes'])}) at most {percent(worst['misplaced'][1])} (95 % each)."
        )
        lost = ", but with too much noise to say how many records the model has in a wrong cell."
        yield f"Noisy distances were published of {len(alone):,} of these{far if most < 1 else lost}"


def few(names: Sequence[str], most: int = 5) -> str:
    """Return some of several names in words, with the number of the others."""
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def percent(share: float) -> str:
    """Return a share as text: `0.123` as `12 %`, small ones with a digit more."""
    return f"{100 * share:,.0f} %" if share >= 0.095 else f"{100 * share:z.1f} %"


def within(share: float) -> str:
    """Return half the width of an interval over the count, as text: `noise` beyond the count itself.

    Example:
        >>> within(0.123), within(5.56)
        ('12 %', 'noise')
    """
    return "noise" if share > 1 else percent(share)
