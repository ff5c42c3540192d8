"""The result: answers with standard deviations and intervals, and which of them are the model's alone."""

from __future__ import annotations

import dataclasses
import math
import statistics

import numpy as np

from pgmjax._internal import checks, html


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class ErrorBars:
    """Answers with error bars; those of all queries stand behind one another.

    Attributes:
        values: the estimates [answers] (counts times the query's unit).
        stddevs: standard deviation of each estimate over the noise of the measurements [answers], NaN where
            there is none. Where an answer is not determined this is how far the noise moves the model's
            answer, not how far that is from the table's.
        intervals: both ends [answers, 2]; NaN where the measurements do not determine the answer, and where
            the method cannot tell (see `error_bars`).
        determined: whether the measurements determine the answer, bool [answers]. Where they do not, the
            value is the model's (maximum entropy) and no interval is given.
        level: the confidence asked for.
        method: `bootstrap`, `linear` or `laplace`.
        sizes: number of answers of each query.
    """

    values: np.ndarray
    stddevs: np.ndarray
    intervals: np.ndarray
    determined: np.ndarray
    level: float
    method: str
    sizes: tuple[int, ...]

    def __len__(self) -> int:
        """Number of queries."""
        return len(self.sizes)

    def __getitem__(self, place: int) -> ErrorBars:
        """The error bars of one query."""
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
        )

    def __repr__(self) -> str:
        return (
            f"ErrorBars({self.method!r}, {len(self.values):,} answers, {int(self.determined.sum()):,} "
            f"determined by the measurements, level={self.level:g})"
        )

    def _repr_html_(self) -> str:
        ends = ([None, None] if math.isnan(low) else [low, high] for low, high in self.intervals.tolist())
        columns = (self.values.tolist(), self.stddevs.tolist(), ends, self.determined.tolist())
        rows = ((n, v, s, *pair, d) for n, (v, s, pair, d) in enumerate(zip(*columns, strict=True)))
        header = ("answer", "estimate", "standard deviation", "from", "to", "determined")
        facts = {"method": self.method, "level": self.level, "answers": len(self.values)}
        return html.card("ErrorBars", facts, html.table(header, rows, len(self.values)))


def of_stddevs(
    values: np.ndarray,
    stddevs: np.ndarray,
    determined: np.ndarray,
    trusted: np.ndarray,
    *,
    level: float,
    method: str,
    sizes: tuple[int, ...],
) -> ErrorBars:
    """Return error bars with Gaussian intervals around those values that are trusted, NaN for the others."""
    half = normal_quantile(level) * np.where(trusted, stddevs, np.nan)
    intervals = np.stack([values - half, values + half], axis=1)
    return ErrorBars(values, stddevs, intervals, determined, level, method, sizes)


def normal_quantile(level: float) -> float:
    """Return z with P(abs(Z) <= z) = level for a standard Gaussian Z.

    Example:
        >>> round(normal_quantile(0.95), 3)
        1.96
    """
    level = checks.number("level", level, above=0, below=1)
    return statistics.NormalDist().inv_cdf(0.5 + 0.5 * level)
