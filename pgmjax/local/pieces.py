"""From sums over rows to answers: the one place where values and variances are put together."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from pgmjax.local.answers import Answers, refuse_useless
from pgmjax.local.channel import Channel

_EXACT = 1e-9


@dataclasses.dataclass(frozen=True)
class Function:
    """What is known of row functions over all categories; arrays that broadcast to [queries, groups].

    Attributes:
        sums: sum of f over the categories.
        squares: sum of f^2.
        low: least value.
        high: largest value.
    """

    sums: Any
    squares: Any
    low: Any
    high: Any

    @classmethod
    def of(cls, values: np.ndarray) -> Function:
        """Return the sums and ends of functions written out [..., size]."""
        return cls(
            values.sum(axis=-1),
            np.einsum("...v,...v->...", values, values),
            values.min(axis=-1),
            values.max(axis=-1),
        )


class Pieces:
    """Sums over rows for some queries, added to block by block.

    Args:
        channel: of the law that answered.
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
            where: the queries.
            rows: number of rows of each group [groups].
            function: of each query on each group, [queries, groups].
            seen: sum of f(y) over each group's answers [queries, groups].
            seen_squares: sum of f(y)^2 [queries, groups].
        """
        channel, sums = self.channel, self._sums
        spread = np.asarray(function.high - function.low)
        values = channel.factor * (seen - channel.other * rows * function.sums)
        squares = channel.factor * (seen_squares - channel.other * rows * function.squares)
        # the variance of a row's answer is a function of its category, so it is estimated like any other
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
        worst = np.minimum(np.maximum(*ends), bound)  # rounding apart, the worst is never above
        # two values only, and as much variance at either: the same for every table
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

    def answers(self, useless: str) -> Answers:
        """Return the answers as means over `rows`.

        Raises:
            ValueError: there is no row, or (UselessAnswerError) noise exceeds any use.
        """
        if not self.rows:
            raise ValueError("there are no rows to answer about: expected at least one perturbed code.")
        sums, rows = self._sums, float(self.rows)
        exact = sums["varies"] == 0
        worst = sums["worst"] / rows**2
        result = Answers(
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
