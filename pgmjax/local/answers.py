"""Answers to statistical queries, with their variances and error bounds.

`SufficientStatistics` turns sums over rows into answers; values and variances are computed only there.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.checks import Error
from pgmjax._internal.migration import Named
from pgmjax.local.channel import Channel

USELESS = ("refuse", "answer")

_EXACT = 1e-9


class UselessAnswerError(Error, ValueError):
    """The noise is too large: the middle of a query's range is as good a guess, without any data."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class UnbiasedAnswers(Named):
    """Unbiased answers, each with its variance and bounds that hold for every table.

    Answers are means over the rows, unless scaled by `times`; variances are in the same unit, squared.

    Attributes:
        value: unbiased answers, float64 [queries]. They may be outside low..high.
        variance: the exact variance if it is the same for every table (see `exact`), otherwise an
            unbiased estimate, which may be negative, float64 [queries].
        exact: whether `variance` is exact, bool [queries].
        worst_variance: the largest exact variance over all tables, float64 [queries].
        variance_bound: the paper's bound, not below `worst_variance`, float64 [queries].
        low: the smallest possible true answer, float64 [queries].
        high: the largest possible true answer, float64 [queries].
        largest_step: the largest change of the value from one record's answer, float64 [queries].

    References:
        Wang, Ying and Zhang 2016, Lemma 2.
    """

    value: np.ndarray
    variance: np.ndarray
    exact: np.ndarray
    worst_variance: np.ndarray
    variance_bound: np.ndarray
    low: np.ndarray
    high: np.ndarray
    largest_step: np.ndarray

    @property
    def stddev(self) -> np.ndarray:
        """Standard deviation: exact, or estimated and clipped to 0..`worst_stddev`, float64 [queries]."""
        return np.sqrt(np.clip(self.variance, 0.0, self.worst_variance))

    @property
    def worst_stddev(self) -> np.ndarray:
        """The largest standard deviation over all tables, float64 [queries]."""
        return np.sqrt(self.worst_variance)

    @property
    def useless(self) -> np.ndarray:
        """True if the error of the middle of low..high is always below `worst_stddev`, bool [queries]."""
        return (self.worst_stddev > (self.high - self.low) / 2) & (self.high > self.low)

    def half_width(self, level: float) -> np.ndarray:
        """Return a half-width w [queries] with P(abs(value - truth) <= w) >= level for every table.

        It is the smaller of Hoeffding's and Bernstein's bounds for sums of independent bounded terms; no
        normal approximation is used.

        Raises:
            ValueError: level outside (0, 1).
        """
        level = checks.number("level", level, above=0, below=1)
        log = math.log(2 / (1 - level))
        hoeffding = np.sqrt(2 * log * self.variance_bound)
        linear = log * self.largest_step / 3
        # Bernstein: w^2 / 2 = log (V + step w / 3), solved for w
        bernstein = linear + np.sqrt(linear**2 + 2 * log * self.worst_variance)
        return np.minimum(hoeffding, bernstein)

    def clipped(self) -> np.ndarray:
        """Return the values clipped to low..high, which never increases an error."""
        return np.clip(self.value, self.low, self.high)

    def times(self, factor: float) -> UnbiasedAnswers:
        """Return the answers times a factor; the number of rows turns fractions into counts.

        Raises:
            ValueError: the factor is not above 0.
        """
        factor = checks.number("factor", factor, above=0)
        return dataclasses.replace(
            self,
            value=self.value * factor,
            variance=self.variance * factor**2,
            worst_variance=self.worst_variance * factor**2,
            variance_bound=self.variance_bound * factor**2,
            low=self.low * factor,
            high=self.high * factor,
            largest_step=self.largest_step * factor,
        )

    def __len__(self) -> int:
        return len(self.value)

    def __repr__(self) -> str:
        queries = checks.counted(len(self), "query", "queries")
        return f"UnbiasedAnswers({queries}, {np.count_nonzero(self.exact):,} of exact variance)"


def refuse_useless(answers: UnbiasedAnswers, useless: str) -> UnbiasedAnswers:
    """Return the answers, or refuse if the noise of some is too large to be useful.

    Args:
        answers: the answers.
        useless: "refuse", or "answer" to return them anyway.

    Raises:
        UselessAnswerError: some answers are useless; the message gives their number and largest error.
    """
    useless = checks.choice("useless", useless, USELESS)
    bad = answers.useless
    if useless == "answer" or not bad.any():
        return answers
    shares = (answers.worst_stddev / np.maximum(answers.high - answers.low, np.finfo(float).tiny))[bad]
    raise UselessAnswerError(
        f"{np.count_nonzero(bad):,} of {len(answers):,} answers would have a standard deviation of up to "
        f"{shares.max():.3g} times the range of the query, above one half: the middle of the range is a "
        "better guess. Use fewer categories, more rows or a larger epsilon; "
        'useless="answer" gives them all the same.'
    )


@dataclasses.dataclass(frozen=True)
class Function:
    """Summary of row functions over all categories; arrays that broadcast to [queries, groups].

    Attributes:
        sums: sum of f over the categories.
        squares: sum of f^2.
        low: smallest value.
        high: largest value.
    """

    sums: Any
    squares: Any
    low: Any
    high: Any

    @classmethod
    def of(cls, values: np.ndarray) -> Function:
        """Return the summary of functions given by their values [..., size]."""
        return cls(
            values.sum(axis=-1),
            np.einsum("...v,...v->...", values, values),
            values.min(axis=-1),
            values.max(axis=-1),
        )


def real_functions(values: Any) -> np.ndarray:
    """Return values of functions as an array, if they are real and finite.

    Raises:
        TypeError: values that are not real numbers.
        ValueError: values that are not finite.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "buif":
        raise TypeError(f"functions must hold real numbers, got {array.dtype}.")
    if not np.isfinite(array).all():
        raise ValueError("functions must be finite: bounded row functions are what can be answered.")
    return array


class SufficientStatistics:
    """Sums over rows for some queries, accumulated block by block.

    Args:
        channel: channel of the distribution of the answers.
        queries: number of queries.
    """

    def __init__(self, channel: Channel, queries: int):
        self.channel = channel
        self.rows = 0
        names = ("value", "variance", "worst", "bound", "low", "high", "step", "varies")
        self._sums = {name: np.zeros(queries) for name in names}

    def add(self, where: slice, rows: Any, function: Function, seen: Any, seen_squares: Any) -> None:
        """Add rows of some queries.

        Args:
            where: slice of the queries.
            rows: number of rows of each group [groups].
            function: summary of each query's function on each group, [queries, groups].
            seen: sum of f(y) over each group's answers [queries, groups].
            seen_squares: sum of f(y)^2 [queries, groups].
        """
        channel, sums = self.channel, self._sums
        spread = np.asarray(function.high - function.low)
        values = channel.factor * (seen - channel.other * rows * function.sums)
        squares = channel.factor * (seen_squares - channel.other * rows * function.squares)
        # the variance of a row's answer is a function of its category, so it is estimated in the same way
        about = channel.other * function.squares - (channel.other * function.sums) ** 2
        estimate = (
            rows * about
            - 2 * channel.other * channel.gap * function.sums * values
            + channel.gap * (1 - channel.gap) * squares
        )
        ends = [
            channel.variance(end, function.sums, function.squares) for end in (function.low, function.high)
        ]
        bound = channel.bound(spread)
        worst = np.minimum(np.maximum(*ends), bound)  # up to rounding, the worst is never above the bound
        # if f has only two values, with equal variance at both, the variance is the same for every table
        inside = function.squares - (function.low + function.high) * function.sums
        inside = abs(inside + channel.size * function.low * function.high)
        unequal = abs(ends[0] - ends[1]) + channel.factor**2 * channel.other * inside
        parts = {
            "value": values,
            "variance": channel.factor**2 * estimate * (spread > 0),
            "worst": rows * worst,
            "bound": rows * bound,
            "low": rows * function.low,
            "high": rows * function.high,
            "varies": rows * ((unequal > _EXACT * bound) & (spread > 0)),
        }
        shape = np.broadcast_shapes(np.shape(seen), np.shape(rows))
        for name, part in parts.items():
            sums[name][where] += np.broadcast_to(part, shape).sum(axis=-1)
        step = np.broadcast_to(channel.factor * spread * (np.asarray(rows) > 0), shape).max(
            axis=-1, initial=0.0
        )
        sums["step"][where] = np.maximum(sums["step"][where], step)

    def answers(self, useless: str) -> UnbiasedAnswers:
        """Return the answers as means over `rows`.

        Raises:
            ValueError: there are no rows.
            UselessAnswerError: some answers are too noisy and `useless` is "refuse".
        """
        if not self.rows:
            raise ValueError("there are no rows to answer about: expected at least one perturbed code.")
        sums, rows = self._sums, float(self.rows)
        exact = sums["varies"] == 0
        worst = sums["worst"] / rows**2
        result = UnbiasedAnswers(
            value=sums["value"] / rows,
            variance=np.where(exact, worst, sums["variance"] / rows**2),
            exact=exact,
            worst_variance=worst,
            variance_bound=sums["bound"] / rows**2,
            low=sums["low"] / rows,
            high=sums["high"] / rows,
            largest_step=sums["step"] / rows,
        )
        return refuse_useless(result, useless)
