"""Error bars by one of three methods.

The result holds answers with standard deviations and intervals, and says which of them are the model's alone.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pgmjax._internal import checks, html
from pgmjax._internal.migration import Named
from pgmjax.estimation.constraints import Constraint
from pgmjax.estimation.estimator import Estimator, Fit
from pgmjax.estimation.problem import SideInformation, total_of
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.noise import normal_quantile
from pgmjax.model.graphical import GraphicalModel
from pgmjax.uncertainty import bootstrap, laplace
from pgmjax.uncertainty.linear import BestLinear
from pgmjax.uncertainty.queries import measurements_of, queries_of, zeros_of

METHODS = ("linear", "laplace", "bootstrap")
_PULLED = (
    "laplace is the curvature of the loss alone, and a prior_weight or a regularisation pulls the model off "
    "its optimum: take method='linear' or 'bootstrap', or fit with regularisation='none'."
)
_INTERIOR = 0.98  # of the deviation of least squares: below it a bound of the model holds the answer


def error_bars(
    fit: Fit | GraphicalModel,
    measurements: Sequence[LinearMeasurement],
    queries: Sequence[Any],
    *,
    method: str = "linear",
    level: float = 0.95,
    total: float | None = None,
    draws: int = 100,
    seed: int = 0,
    estimator: Estimator | None = None,
    constraints: Sequence[Constraint] = (),
    prior: GraphicalModel | None = None,
    prior_weight: float = 0.0,
) -> ErrorBars:
    """Return answers with error bars, from a model and its measurements: post-processing.

    An answer is *determined* if it is a linear combination of the measured queries (and of the public total)
    for every table that meets the constraints: those given, and the cells that the model holds impossible.
    Only such an answer gets an interval; any other is what the model of maximum entropy says, and how far
    that is from the table nothing released can tell.

    The methods:

    - `linear`: the best linear unbiased estimate, with its exact standard deviation. It may be negative.
      Where an answer is not determined, the value is the model's and the standard deviation NaN.
    - `laplace`: the model's answers, with the curvature of the squared loss at the model. Where
      non-negativity holds cells at zero it knows neither their error nor the bias they bring; there its
      standard deviation lies below that of least squares, and the answer gets no interval.
    - `bootstrap`: the model's answers; noise is redrawn about them and the fit repeated, `draws` times in
      one batch. The bias that non-negativity, regularisation and a prior bring is told from noise over many
      answers of like size (`bootstrap.pooled_errors`), so at least 100 determined answers are needed: of all
      such answers about 95 % lie in their intervals. With fewer, an unpulled fit gets Gaussian intervals,
      whose width has the bias of a fit to the model, and a pulled one gets none.

    Args:
        fit: a fit, or its model.
        measurements: those it was fitted to; noise independent between values.
        queries: queries, or tuples of attribute names for all cells of a marginal.
        method: `linear`, `laplace` or `bootstrap`.
        level: of the intervals, in (0, 1): of 0.95 about 95 % hold the table's answer.
        total: the number of records if it is public, as it was given to the fit; None if it was estimated.
        draws: of the bootstrap, >= 2.
        seed: of the bootstrap. The noise redrawn protects nothing.
        estimator: repeats the fit in the bootstrap, as the model was fitted; None for `Estimator()`, with the
            regularisation of the fit: its weight, or one chosen anew for each refit if it was chosen from the
            noise, or none.
        constraints: as in the fit. They hold without error, and the fits of the bootstrap keep to them;
            `laplace` makes use of impossible cells only, so that with a `FixedMarginal` its
            deviations are too wide. Cells that the model holds impossible need not be given again.
        prior: as in the fit; the fits of the bootstrap have it too.
        prior_weight: as in the fit. The intervals of `linear` do not depend on it, nor on regularisation;
            `laplace` is refused for a fit that either of them pulled.

    Raises:
        TypeError: a model, measurement or query of another kind.
        ValueError: something that does not fit the domain, a number outside its range, or `laplace` with a
            prior that pulls.
        ModelTooLargeError: a query's attributes, with the model's cliques, do not fit in memory (`laplace`).
        TooMuchWorkError: least squares of a query's answers would take too long (a ValueError).

    Example:
        >>> import pgmjax as pj
        >>> noisy = [pj.LinearMeasurement(("a",), [30.0, 10.0], stddev=2.0)]
        >>> fit = pj.Estimator().fit(pj.Domain({"a": 2, "b": 2}), noisy)
        >>> bars = pj.uncertainty.error_bars(fit, noisy, [("a",), ("b",)])
        >>> bars.stddevs.round(3).tolist(), bars.determined.tolist()
        ([2.0, 2.0, nan, nan], [True, True, False, False])
        >>> bars[0].intervals.round(2).tolist()
        [[26.08, 33.92], [6.08, 13.92]]
    """
    model = _model_of(fit)
    method = checks.choice("method", method, METHODS)
    normal_quantile(level)
    draws = checks.integer("draws", draws, low=2)
    if total is not None:
        total = checks.total(total)
    domain = model.domain
    noisy, asked = measurements_of(domain, measurements), queries_of(domain, queries)
    checks.kind(estimator, Estimator | None, "estimator must be an Estimator")
    known = SideInformation.of(domain, constraints, prior, prior_weight)
    pulled = known.weight is not None or (isinstance(fit, Fit) and fit.regularisation is not None)
    if pulled and method == "laplace":
        raise ValueError(_PULLED)
    zeros, fixed = zeros_of(model, known.zeros), known.fixed
    total = total_of(fixed, total)
    best = BestLinear(domain, noisy, total, zeros, fixed, [query.clique for query in asked])
    linear = best.answers(asked)
    values = np.concatenate([np.ravel(model.answer(query)) for query in asked])
    biases = np.where(linear.determined, 0.0, np.nan)
    if method == "linear":
        values, stddevs = np.where(linear.determined, linear.values, values), linear.stddevs
        halves = normal_quantile(level) * stddevs
    elif method == "laplace":
        stddevs = laplace.stddevs(model, noisy, asked, total)
        trusted = linear.determined & ~(stddevs < _INTERIOR * linear.stddevs)
        halves = normal_quantile(level) * np.where(trusted, stddevs, np.nan)
        biases = np.where(linear.stddevs == 0, 0.0, np.nan)  # known without noise
    else:
        refits = bootstrap.refitted(
            model,
            noisy,
            asked,
            draws=draws,
            seed=seed,
            estimator=estimator or _as_fitted(fit),
            total=total,
            constraints=[*zeros, *fixed],
            prior=prior,
            prior_weight=prior_weight,
        )
        errors = bootstrap.pooled_errors(values, refits, linear, best.of_noise(asked, refits.noise), level)
        stddevs, biases, halves = errors.stddevs, errors.biases, errors.half_widths
    intervals = np.stack([values - halves, values + halves], axis=-1)
    sizes = tuple(query.num_rows(domain) for query in asked)
    return ErrorBars(values, stddevs, intervals, linear.determined, level, method, sizes, biases)


def _model_of(fit: Any) -> GraphicalModel:
    """Return the model of a fit, or the model itself; refuse what has no error bars."""
    model = fit.model if isinstance(fit, Fit) else fit
    if not isinstance(model, GraphicalModel):
        of_another = (
            ": regions and mixtures have none, and an Estimator without approximate=True fits such a model"
        )
        then = ": give its model" if isinstance(getattr(fit, "model", None), GraphicalModel) else of_another
        raise TypeError(f"error bars are of a Fit or a GraphicalModel, got {type(fit).__name__}{then}.")
    return model


def _as_fitted(fit: Fit | GraphicalModel) -> Estimator:
    """Return an estimator that fits as a fit was: with its weight, or choosing one if that was chosen."""
    if not isinstance(fit, Fit):
        return Estimator()
    pull = fit.regularisation
    if pull is None:
        return Estimator(regularisation="none")
    return Estimator(regularisation="auto" if pull.automatic else pull.weight)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class ErrorBars(Named):
    """Answers with error bars, concatenated over queries.

    Attributes:
        values: the estimates [answers] (counts times the query's unit).
        stddevs: standard deviation of each estimate over the noise of the measurements [answers], NaN where
            undefined. Where an answer is not determined this is the effect of noise on the model's
            answer, not its distance to the table's. With `biases`, the root mean square error.
        intervals: both ends [answers, 2]; NaN where the measurements do not determine the answer, and where
            the method gives none (see `error_bars`).
        determined: whether the measurements determine the answer, bool [answers]. Where they do not, the
            value is the model's (maximum entropy) and no interval is given.
        level: the confidence asked for.
        method: `bootstrap`, `linear` or `laplace`.
        sizes: number of answers of each query.
        biases: the part of the standard deviation that is bias of the model (root mean square over answers of
            like size) [answers]; 0 for unbiased estimates and for what is known exactly. NaN where it is
            unknown: where an answer is not determined, with `laplace`, and with `bootstrap` where too few
            answers are determined.
    """

    values: np.ndarray
    stddevs: np.ndarray
    intervals: np.ndarray
    determined: np.ndarray
    level: float
    method: str
    sizes: tuple[int, ...]
    biases: np.ndarray

    def __len__(self) -> int:
        """Number of queries."""
        return len(self.sizes)

    def __getitem__(self, place: int) -> ErrorBars:
        """Return the error bars of one query."""
        place = range(len(self.sizes))[place]
        start = sum(self.sizes[:place])
        part = slice(start, start + self.sizes[place])
        return dataclasses.replace(
            self,
            values=self.values[part],
            stddevs=self.stddevs[part],
            intervals=self.intervals[part],
            determined=self.determined[part],
            sizes=(self.sizes[place],),
            biases=self.biases[part],
        )

    def half_width(self, level: float) -> np.ndarray:
        """Return half of the length of intervals of any level; NaN where `intervals` is.

        Of another level than `self.level` they are those intervals, scaled as Gaussian ones.

        Raises:
            ValueError: a level outside (0, 1).
        """
        scale = normal_quantile(level) / normal_quantile(self.level)
        return scale * (self.intervals[:, 1] - self.intervals[:, 0]) / 2

    def interval(self, level: float = 0.95) -> np.ndarray:
        """Return both ends of the interval of each estimate [answers, 2]; see `half_width`."""
        width = self.half_width(level)
        return np.stack([self.values - width, self.values + width], axis=-1)

    def __repr__(self) -> str:
        return (
            f"ErrorBars({self.method!r}, {len(self.values):,} answers, {int(self.determined.sum()):,} "
            f"determined by the measurements, level={self.level:g})"
        )

    def _repr_html_(self) -> str:
        facts = {"method": self.method, "level": self.level, "answers": self.values.size}
        low, high = ([None if math.isnan(end) else end for end in ends] for ends in self.intervals.T.tolist())
        columns = {
            "answer": range(self.values.size),
            "estimate": self.values.tolist(),
            "standard deviation": self.stddevs.tolist(),
            "from": low,
            "to": high,
            "determined": self.determined.tolist(),
        }
        rows = zip(*columns.values(), strict=True)
        return html.card("ErrorBars", facts, html.table([*columns], rows, self.values.size))
