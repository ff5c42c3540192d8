"""The accuracy of a release, from its noisy answers and its model alone: verdicts, intervals, small groups.

Intervals are made from the noisy answers, without the model: every measured marginal that contains the
attributes asked for is summed onto them, and the sums are averaged with weights 1/variance
(`measurements.marginals.noisy_marginal`). That is unbiased, whatever the table is, and its standard error is
known. The model's own count uses everything that was measured and is nearer in most cases; how near, nothing
released can tell. What no measured marginal contains is not determined: there the model says what has most
entropy.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.marginals import noisy_marginal
from pgmjax.model.graphical import GraphicalModel
from pgmjax.queries.blocks import Matrix
from pgmjax.queries.product import Product, kronecker, marginal
from pgmjax.queries.query import Query
from pgmjax.uncertainty import error_bars

NORMAL, LAPLACE = 1.96, 2.12
"""Half-width of a 95 % interval in standard errors; an average of Laplace noise needs less than that."""
GOOD, COARSE = 0.1, 0.5
"""Relative half-widths up to which a column is good, and up to which it is coarse."""
GOOD_MOVED, COARSE_MOVED = 0.02, 0.2
"""Shares of records that non-negativity moved, up to which a column is good, and coarse."""
VERDICTS = ("good", "coarse", "noise", "not determined")
_ENDLESS = 10.0
_MOST_ANSWERS = 5000
_SMALL = 5  # the small groups are one fifth of the values
_LARGEST_MATRIX = 1 << 22


@dataclasses.dataclass(frozen=True)
class Unbiased:
    """Unbiased estimates of a query's answers.

    Attributes:
        values: the estimates [rows].
        stddevs: their standard errors [rows].
        width: half-width of a 95 % interval, in standard errors.
        counts: whether the answers are counts, so that none is below 0.
    """

    values: np.ndarray
    stddevs: np.ndarray
    width: float
    counts: bool

    @property
    def intervals(self) -> np.ndarray:
        """The ends of 95 % intervals [rows, 2]; those of counts are at least 0."""
        half = self.width * self.stddevs
        ends = np.stack([self.values - half, self.values + half], axis=-1)
        return np.maximum(ends, 0.0) if self.counts else ends


def unbiased(
    domain: Domain, measurements: Sequence[LinearMeasurement], query: Query, model: Any = None
) -> Unbiased | None:
    """Return unbiased estimates of a query's answers, None if they are not determined.

    Args:
        domain: of the measurements.
        measurements: released answers.
        query: the query.
        model: the fitted model, for tables that were measured through other queries than marginals, as by
            HDMM: their least squares (`uncertainty.error_bars`), if they have at most 5,000 answers.

    Returns:
        The best of two: the answers to this very query, or the query of the noisy marginal of its attributes.

    Example:
        >>> domain = Domain({"a": 2, "b": 2})
        >>> noisy = [LinearMeasurement(("a", "b"), [5.0, 7.0, 1.0, 3.0], stddev=2.0)]
        >>> unbiased(domain, noisy, marginal(["b"])).intervals.round(1).tolist()
        [[0.5, 11.5], [4.5, 15.5]]
        >>> unbiased(domain, noisy[:0], marginal(["b"])) is None
        True
    """
    found = [each for each in measurements if each.clique == query.clique and each.query == query]
    made = [
        Unbiased(
            each.flat_values().astype(float),
            each.row_stddevs(),
            _width([each]),
            query == marginal(each.clique),
        )
        for each in found
    ]
    summed = _of_marginal(domain, measurements, query)
    if summed is not None:
        made.append(summed)
    if not made and model is not None:
        made += _by_least_squares(model, measurements, query)
    return min(made, key=lambda each: float(np.square(each.stddevs).sum()), default=None)


def _of_marginal(domain: Domain, measurements: Sequence[LinearMeasurement], query: Query) -> Unbiased | None:
    noisy = noisy_marginal(domain, measurements, query.clique)
    if noisy is None:
        return None
    values, variances = np.asarray(noisy.values, float), np.square(noisy.stddevs)
    width = _width([each for each in measurements if set(query.clique) <= set(each.clique)])
    if query == marginal(query.clique):
        return Unbiased(values.reshape(-1), np.sqrt(variances).reshape(-1), width, True)
    squares = _squares(query, domain)
    if squares is None:
        return None
    spread = np.sqrt(np.asarray(squares.apply(variances), float).reshape(-1))
    answers = np.asarray(query.apply(values), float).reshape(-1)
    return Unbiased(answers, spread, width, squares == query)


def _by_least_squares(model: Any, measurements: Sequence[LinearMeasurement], query: Query) -> list[Unbiased]:
    """Return the estimates of least squares, [] if they are too many or not determined."""
    others = [each for each in measurements if set(each.clique) & set(query.clique)]
    answers = sum(np.size(each.values) for each in measurements)
    if not others or answers > _MOST_ANSWERS or not isinstance(model, GraphicalModel):
        return []
    found = error_bars(model, measurements, [query])
    if not found.determined.all():
        return []
    values, spread = np.ravel(found.values), np.ravel(found.stddevs)
    return [Unbiased(values, spread, _width(measurements), query == marginal(query.clique))]


def _width(measurements: Iterable[LinearMeasurement]) -> float:
    return NORMAL if all(each.noise != "laplace" for each in measurements) else LAPLACE


def _squares(query: Query, domain: Domain) -> Query | None:
    """Return the query with all weights squared, which sums variances; None if it is too large."""
    if not isinstance(query, Product):
        return None
    blocks: dict[str, Any] = {}
    for name, block in zip(query.clique, query.blocks, strict=True):
        if block.rows(domain[name]) * domain[name] > _LARGEST_MATRIX:
            return None
        matrix = np.asarray(block.matrix(domain[name]))
        blocks[name] = block if ((matrix == 0) | (matrix == 1)).all() else Matrix(np.square(matrix))
    return kronecker(blocks)


@dataclasses.dataclass(frozen=True)
class TableAccuracy:
    """The accuracy of the counts of one column, or of one measured table.

    Attributes:
        clique: its attributes.
        verdict: one of `VERDICTS`.
        half_width: of the 95 % interval of the count that a typical record is in; NaN if not determined.
        relative: the same over that count.
        small: the same for small groups: the median over the fifth of the cells with fewest records.
        moved: the share of all records that noisy counts below 0 took from other cells.
    """

    clique: Clique
    verdict: str
    half_width: float
    relative: float
    small: float
    moved: float

    def to_dict(self) -> dict[str, Any]:
        """Return the accuracy for JSON; null where nothing is determined."""
        numbers = {name: getattr(self, name) for name in ("half_width", "relative", "small", "moved")}
        known = {name: round(value, 4) if math.isfinite(value) else None for name, value in numbers.items()}
        return {"attributes": list(self.clique), "verdict": self.verdict, **known}


def table_accuracy(model: Any, measurements: Sequence[LinearMeasurement], clique: Clique) -> TableAccuracy:
    """Return the accuracy of the counts of some attributes.

    The verdict is *good* if the interval of the count that a typical record is in (the median over records)
    is within 10 % of that count, and noisy counts below 0 took at most 2 % of the records from other cells;
    *noise* if it is beyond 50 %, or they took more than 20 %; and *coarse* between.

    Args:
        model: the fitted model.
        measurements: the released answers.
        clique: the attributes.

    Example:
        >>> import pgmjax as pj
        >>> noisy = [pj.LinearMeasurement(("a",), [900, 50, -4], stddev=5.0)]
        >>> model = pj.Estimator(progress=False).fit(pj.Domain({"a": 3}), noisy).model
        >>> found = table_accuracy(model, noisy, ("a",))
        >>> found.verdict, round(found.relative, 3)
        ('good', 0.011)
    """
    nothing = TableAccuracy(clique, VERDICTS[3], math.nan, math.nan, math.nan, math.nan)
    found = unbiased(model.domain, measurements, marginal(clique), model)
    if found is None:
        return nothing
    fitted = np.maximum(np.asarray(model.marginal(clique), float).reshape(-1), 0.0)
    half = found.width * found.stddevs
    relative = half / np.maximum(fitted, 1.0)
    order = np.argsort(relative, kind="stable")
    mass = np.cumsum(fitted[order])
    place = order[min(int(np.searchsorted(mass, mass[-1] / 2)), len(order) - 1)]
    least = np.argsort(fitted, kind="stable")[: max(1, len(fitted) // _SMALL)]
    moved = float(-np.minimum(found.values, 0).sum() / max(float(model.total), 1.0))
    typical = float(relative[place])
    return TableAccuracy(
        clique,
        _verdict(typical, moved),
        float(half[place]),
        typical,
        float(np.median(relative[least])),
        moved,
    )


def _verdict(relative: float, moved: float) -> str:
    if relative <= GOOD and moved <= GOOD_MOVED:
        return VERDICTS[0]
    return VERDICTS[1] if relative <= COARSE and moved <= COARSE_MOVED else VERDICTS[2]


@dataclasses.dataclass(frozen=True)
class ReleaseAccuracy:
    """The accuracy of a release.

    Attributes:
        columns: of each attribute, in the domain's order.
        tables: of each measured marginal of more than one attribute.
    """

    columns: tuple[TableAccuracy, ...]
    tables: tuple[TableAccuracy, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the accuracy for JSON."""
        return {
            "columns": [each.to_dict() for each in self.columns],
            "tables": [each.to_dict() for each in self.tables],
        }


def accuracy_of(model: Any, measurements: Sequence[LinearMeasurement]) -> ReleaseAccuracy:
    """Return the accuracy of a model's counts: of every column, and of every measured table.

    Args:
        model: the fitted model.
        measurements: the released answers.
    """
    cliques = {
        each.clique: None
        for each in measurements
        if len(each.clique) > 1 and each.query == marginal(each.clique)
    }
    return ReleaseAccuracy(
        tuple(table_accuracy(model, measurements, (name,)) for name in model.domain.attributes),
        tuple(table_accuracy(model, measurements, clique) for clique in cliques),
    )


def lines(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is to be said of a release's accuracy, in at most three sentences.

    Args:
        record: what `ReleaseAccuracy.to_dict` returned.

    Example:
        >>> column = {"attributes": ["age"], "verdict": "noise", "relative": 1.4, "small": 3, "moved": 0}
        >>> for line in lines({"columns": [column], "tables": []}):
        ...     print(line)
        Accuracy: of 1 column, 1 noise (age).
        Worst: for a typical record, the count of its value of age is known to within 140 % (95 % interval).
        Small groups: the rarest fifth of the values of age is known to within 300 %.
    """
    columns = record["columns"]
    names = {
        verdict: [one["attributes"][0] for one in columns if one["verdict"] == verdict]
        for verdict in VERDICTS
    }
    told = [f"{len(names['good'])} good"] if names["good"] else []
    told += [f"{len(names[v])} {v} ({_few(names[v])})" for v in VERDICTS[1:] if names[v]]
    yield f"Accuracy: of {len(columns)} column{'s' * (len(columns) != 1)}, {', '.join(told)}."
    known = [one for one in columns if one.get("relative") is not None]
    if not known:
        yield "No column was measured alone or in a table, so no count has an interval."
        return
    worst = max(known, key=lambda one: (VERDICTS.index(one["verdict"]), one["relative"]))
    name, moved = worst["attributes"][0], worst["moved"]
    if _verdict(worst["relative"], 0.0) == worst["verdict"]:
        yield (
            f"Worst: for a typical record, the count of its value of {name} is known to within "
            f"{percent(worst['relative'])} (95 % interval)."
        )
    else:
        yield (
            f"Worst: making negative noisy counts of {name} non-negative moved {percent(moved)} of "
            "the records to other values."
        )
    small = max(known, key=lambda one: one["small"])
    yield (
        "Small groups: the rarest fifth of the values of "
        f"{small['attributes'][0]}{', the worst column,' * (len(known) > 1)} is known to within "
        f"{percent(small['small'])}."
    )


def _few(names: Sequence[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def percent(share: float) -> str:
    """Return a share as text: `0.123` as `12 %`, small ones with a digit more."""
    if share > _ENDLESS:
        return f"more than {100 * _ENDLESS:,.0f} %"
    return f"{100 * share:,.0f} %" if share >= 0.095 else f"{100 * share:.1f} %"
