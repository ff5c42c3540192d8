"""Events that tell two neighbours apart: chosen on one half of the outputs, counted on the other.

Which outputs count as an event is free to be chosen from the data, as long as the outputs that test
it are others. Numbers are cut by a threshold, both ways; outputs that come again and again are
ordered by how much likelier the first neighbour makes them, and cut there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pgmjax.random import generator

_MOST_CUTS = 1000  # more are thinned out evenly in rank
_FEW_VALUES = 64  # numbers with at most so many different values are also ordered by likelihood ratio

Counts = tuple[np.ndarray, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Outputs:
    """Outputs on two neighbours as numbers, each in halves that choose and test.

    Attributes:
        choosing: two arrays [n // 2], [m // 2].
        testing: two arrays with the rest.
        labels: for outputs that are no numbers, what each code stands for.
    """

    choosing: Counts
    testing: Counts
    labels: list[Any] | None

    @classmethod
    def split(cls, first: Any, second: Any, seed: int) -> Outputs:
        """Shuffle the outputs on each neighbour by a seed and halve them.

        Raises:
            ValueError: fewer than two outputs on a neighbour, or a NaN among them.
        """
        one, other, labels = _as_numbers(first, second)
        shuffler = generator(seed)
        halves = []
        for name, values in (("first", one), ("second", other)):
            if values.size < 2:
                raise ValueError(f"{name} must hold at least two outputs, got {values.size}.")
            halves.append(np.split(shuffler.permutation(values), [values.size // 2]))
        return cls((halves[0][0], halves[1][0]), (halves[0][1], halves[1][1]), labels)

    def swapped(self) -> Outputs:
        """Return the same outputs with the neighbours exchanged."""
        (a, b), (c, d) = self.choosing, self.testing
        return Outputs((b, a), (d, c), self.labels)

    def best_event(self, value: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> tuple[str, int, int]:
        """Choose an event on the first halves and count it in the second ones.

        Args:
            value: how good events are that hold for so many of the first and so many of the second
                choosing half; arrays [events] to an array [events].

        Returns:
            The event in words, and how many outputs of each testing half it holds for.
        """
        values, where = np.unique(np.concatenate(self.choosing), return_inverse=True)
        parts = np.split(where, [self.choosing[0].size])
        counts = np.stack([np.bincount(part, minlength=values.size) for part in parts])
        orders = []
        if self.labels is None:
            orders += [np.arange(values.size), np.arange(values.size)[::-1]]
        if self.labels is not None or values.size <= _FEW_VALUES:
            ratio = (counts[0] + 0.5) / (counts[1] + 0.5)
            orders.append(np.argsort(-ratio, kind="stable"))
        choices = []
        for order in orders:
            cuts = np.unique(np.linspace(1, order.size, min(order.size, _MOST_CUTS)).astype(np.int64))
            reached = np.cumsum(counts[:, order], axis=1)[:, cuts - 1]
            worth = value(reached[0], reached[1])
            choices.append((float(worth.max()), order[: cuts[np.argmax(worth)]]))
        best = max(range(len(choices)), key=lambda i: choices[i][0])
        chosen = choices[best][1]
        if self.labels is None and best < 2:
            low, edge = best == 0, values[chosen[-1]]
            one, other = (int(np.sum(half <= edge if low else half >= edge)) for half in self.testing)
            return f"output {'<=' if low else '>='} {edge:g}", one, other
        one, other = (int(np.isin(half, values[chosen]).sum()) for half in self.testing)
        return self._in_words(values[chosen]), one, other

    def _in_words(self, members: np.ndarray) -> str:
        shown = [f"{m:g}" if self.labels is None else repr(self.labels[int(m)]) for m in members[:5]]
        more = f" and {members.size - 5} more" if members.size > 5 else ""
        return f"output in {{{', '.join(shown)}}}{more}"


def _as_numbers(first: Any, second: Any) -> tuple[np.ndarray, np.ndarray, list[Any] | None]:
    """Scalars as they are; rows of a matrix and other hashable outputs as codes with labels."""
    one, other = _numbers(first), _numbers(second)
    if one is not None and other is not None:
        if np.any(np.isnan(one)) or np.any(np.isnan(other)):
            raise ValueError("An output is NaN: give it a number or a label of its own, such as None.")
        return one, other, None
    codes: dict[Any, int] = {}
    coded = [
        np.array([codes.setdefault(_hashable(v), len(codes)) for v in values], dtype=np.int64)
        for values in (first, second)
    ]
    return coded[0], coded[1], list(codes)


def _numbers(values: Sequence[Any] | np.ndarray) -> np.ndarray | None:
    """The values as an array [n] if all are numbers."""
    if not isinstance(values, np.ndarray):
        if not all(isinstance(v, int | float | np.integer | np.floating | np.bool_) for v in values):
            return None
        values = np.asarray(values)
    if values.ndim != 1 or values.dtype.kind not in "biuf":
        return None
    return values.astype(np.int64) if values.dtype.kind == "b" else values


def _hashable(value: Any) -> Any:
    return tuple(value.ravel().tolist()) if isinstance(value, np.ndarray) else value
