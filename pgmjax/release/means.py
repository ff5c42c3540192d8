"""Means of an attribute, in all records or by group, with intervals.

A mean is a sum over a count, both estimates whose errors depend on each other. Its interval is Fieller's
(`uncertainty.ratios`), of the unbiased sum and count that the noisy answers determine. Where they determine
none, the mean is the model's.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np

from pgmjax._internal.migration import Named
from pgmjax.data.domain import Domain, as_clique
from pgmjax.data.population import WHOLE, Population
from pgmjax.queries import Product, matrix
from pgmjax.queries import text as query_text
from pgmjax.release.accuracy import CONTRADICTED, CountEstimates, Unbiased
from pgmjax.uncertainty.ratios import divided, fieller


@dataclasses.dataclass(frozen=True, eq=False)
class Means(Named):
    """Means of an attribute in groups of records.

    Attributes:
        name: the attribute.
        by: the attributes whose values make the groups; without any, there is one group.
        groups: of each group its value of each of them, as text.
        estimates: the means [groups], each in its interval; NaN in a group without records.
        intervals: ends of their 95 % intervals [groups, 2]; NaN where there are none.
        determined: whether the noisy answers determine the mean, bool [groups]; others rest on the model
            alone, and have an interval only by draws.
        records: how many records of each group have a number, by the model [groups].
        reach: how far values that lie elsewhere in their bins than is assumed may move each mean, up or down
            [groups]; no interval knows it. It bounds nothing where a note says that values beyond the ends
            count in the end bins.
        notes: a sentence on each bin that a condition cuts, on values that are no numbers, and on those
            beyond the ends.
    """

    name: str
    by: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]
    estimates: np.ndarray
    intervals: np.ndarray
    determined: np.ndarray
    records: np.ndarray
    reach: np.ndarray
    notes: tuple[str, ...] = ()

    def drawn(self, ends: np.ndarray) -> Means:
        """Return these means with intervals [groups, 2] of draws where the noisy answers determine none."""
        return dataclasses.replace(self, intervals=np.where(self.determined[:, None], self.intervals, ends))


class MeanQuery:
    """The query whose answers make the means of an attribute.

    Args:
        domain: the attributes.
        name: the attribute, whose values are numbers.
        by: the attributes that make groups, or one of them.
        where: conditions as text on the records that count; None for all.
        population: whose merged cells say where values beyond the ends count; None if it is not known.

    Attributes:
        query: has four rows for each group: the sum of the values, scaled to lie within 1/2 of 0; the number
            of records; both together, from whose variance their covariance follows; and the sum of how
            far values may be from those that are assumed in their bins.

    Raises:
        TypeError: names or conditions of another kind.
        ValueError: an unknown name, an attribute without numbers, one that makes groups too, or a condition
            that the domain does not allow.

    Example:
        >>> domain = Domain({"age": {"min": 0, "max": 99, "step": 20}, "sex": ["F", "M"]})
        >>> asked = MeanQuery(domain, "age", "sex")
        >>> asked.groups, asked.query.num_rows(domain), asked.centre
        ((('F',), ('M',)), 8, 49.5)
    """

    def __init__(
        self,
        domain: Domain,
        name: str,
        by: Any = (),
        where: str | None = None,
        population: Population | None = None,
    ) -> None:
        if not isinstance(name, str):
            raise TypeError(
                f"name must be one attribute, such as {domain.attributes[0]!r}: ask for each by itself."
            )
        (self.name,) = as_clique(domain, (name,))
        by = (by,) if isinstance(by, str) else by
        self.by = as_clique(domain, by) if len(by) else ()
        if self.name in self.by:
            raise ValueError(f"Each mean of {name!r} by {name!r} is the value itself: name other groups.")
        attribute = domain.attribute(self.name)
        low, middle, high = attribute.spans()
        asked = None if where is None else query_text.conditions(where, domain, interpolate=True)
        shares = {} if asked is None else dict(asked.shares)
        counted = shares.pop(self.name, np.ones(attribute.size)) * ~np.isnan(middle)
        if not (inside := counted > 0).any():
            raise ValueError(f"No record that {where!r} counts has a number as its {self.name}.")
        self.low, self.high = float(low[inside].min()), float(high[inside].max())
        self.centre, self.width = (self.low + self.high) / 2, (self.high - self.low) or 1.0
        scaled = np.nan_to_num((middle - self.centre) / self.width) * counted
        half = np.nan_to_num(np.maximum(high - middle, middle - low)) * counted
        blocks = {each: np.diag(shares.pop(each, np.ones(domain[each]))) for each in self.by}
        kept = {each: np.flatnonzero(block.any(axis=1)) for each, block in blocks.items()}
        blocks = {each: block[kept[each]] for each, block in blocks.items()}
        blocks |= {each: share[None] for each, share in shares.items()}
        blocks[self.name] = np.stack([scaled, counted, scaled + counted, half])
        self.query = Product({each: matrix(block) for each, block in blocks.items()})
        names = {each: domain.attribute(each).code_names() for each in self.by}
        self.groups = tuple(itertools.product(*([names[each][k] for k in kept[each]] for each in self.by)))
        others = [one for one, value in zip(attribute.code_names(), middle, strict=True) if np.isnan(value)]
        self.notes = () if asked is None else asked.notes
        if others:
            self.notes += (f"Records whose {self.name} is {' or '.join(others)} are in no mean.",)
        of_domain = (population or WHOLE).over(domain)
        if beyond := of_domain.beyond(self.name, np.flatnonzero(inside)):
            self.notes += (beyond,)

    def of(self, answers: np.ndarray) -> np.ndarray:
        """Return the means [groups] in a model's answers to `query`; NaN in a group without records."""
        total, count, _, _ = np.asarray(answers, np.float64).reshape(-1, 4).T
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(count > 0, self.centre + self.width * total / count, np.nan)

    def near(self, answers: np.ndarray, fitted: np.ndarray) -> np.ndarray:
        """Return means to first order in the answers, about those of a fit, and always finite [groups].

        Args:
            answers: to `query`, of a draw.
            fitted: those of the fit.
        """
        total, count, _, _ = np.asarray(answers, np.float64).reshape(-1, 4).T
        _, of_fit, _, _ = np.asarray(fitted, np.float64).reshape(-1, 4).T
        mean = self.of(fitted)
        return mean + (self.width * total - (mean - self.centre) * count) / of_fit

    def report(self, fitted: np.ndarray, estimates: CountEstimates) -> Means:
        """Return the means with their intervals.

        Args:
            fitted: the model's answers to `query` [rows].
            estimates: from the noisy answers.
        """
        _, count, _, half = np.asarray(fitted, np.float64).reshape(-1, 4).T
        means = self.of(fitted)
        found = estimates.unbiased(self.query, may_be_negative=True)
        ends, sure = np.full((len(means), 2), np.nan), np.zeros(len(means), bool)
        if found is not None:
            bounds = self._ends(found, CONTRADICTED)
            if not estimates.facts:
                means = np.where(np.isnan(bounds[:, 0]), means, np.clip(means, *bounds.T))
            ends = self._ends(found, found.width)
            ends = np.stack([np.fmin(ends[:, 0], means), np.fmax(ends[:, 1], means)], axis=-1)
            sure = found.determined.reshape(-1, 4)[:, :3].all(axis=1) & ~np.isnan(means)
            ends[~sure] = np.nan
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.where(count > 0, half / count, np.nan)
        return Means(self.name, self.by, self.groups, means, ends, sure, count, reach, self.notes)

    def _ends(self, found: Unbiased, width: float) -> np.ndarray:
        """Return the ends of intervals [groups, 2]: of all that is possible where noise hides the count."""
        values, variances = found.values.reshape(-1, 4), np.square(found.stddevs).reshape(-1, 4)
        ends = np.full((len(values), 2), np.nan)
        for group, (value, variance) in enumerate(zip(values, variances, strict=True)):
            shared = (variance[2] - variance[0] - variance[1]) / 2
            if found.linear:
                given = value[:1], value[1], variance[:1], np.array([shared]), variance[1], width
                ends[group] = fieller(*given)[0]
            else:
                half = width * np.sqrt(variance)
                both = np.array([[value[0] - half[0], value[0] + half[0]]])
                ends[group] = divided(both, value[1], half[1])[0]
        return np.clip(self.centre + self.width * ends, self.low, self.high)
