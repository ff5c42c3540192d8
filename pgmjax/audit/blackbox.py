"""Black-box lower bounds on epsilon or mu, from the outputs of any mechanism.

A bound above the claim proves a bug, up to the false-alarm level. A bound below it proves little: for a
composed algorithm, no affordable number of runs finds a factor of two. Use it on primitives and on tiny
cases, as a smoke test next to the exact and replay audits.

An event may be chosen from the data as long as other outputs test it: events are chosen on one half of the
outputs and counted on the other. Numeric events are thresholds, in both directions; outputs with few
distinct values are ordered by likelihood ratio and cut there. Confidence limits are exact.

References:
    Clopper and Pearson 1934, "The use of confidence or fiducial limits illustrated in the case of the
    binomial".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.progress import Progress
from pgmjax.random import generator

_SIDES = 4  # two directions, each with a bound from below and one from above

_MOST_CUTS = 1000  # more are thinned out evenly in rank
_FEW_VALUES = 64  # numbers with at most so many different values are also ordered by likelihood ratio

Counts = tuple[np.ndarray, np.ndarray]


@dataclasses.dataclass(frozen=True)
class LowerBound:
    """A lower bound on epsilon, proven from outputs.

    Attributes:
        value: the bound on the loss, with confidence 1 - alpha; >= 0.
        measure: "epsilon" or "mu".
        event: description of the outputs that distinguish the neighbours.
        likelier: "first" or "second", the neighbour under which the event is likelier.
        draws: outputs per neighbour, both halves together (the smaller number).
        alpha: probability that the bound is above the truth.
        delta: the delta for which an epsilon holds.
    """

    value: float
    measure: str
    event: str
    likelier: str
    draws: int
    alpha: float
    delta: float = 0.0

    def exceeds(self, claimed: float) -> bool:
        """Return whether the outputs prove that the claim is wrong."""
        return self.value > claimed


def epsilon_lower_bound(
    first: Sequence[Any] | np.ndarray,
    second: Sequence[Any] | np.ndarray,
    *,
    alpha: float = 1e-6,
    delta: float = 0.0,
    seed: int = 0,
) -> LowerBound:
    """Bound epsilon from below by the outputs of a mechanism on two neighbouring tables.

    Args:
        first: independent outputs on one table: numbers [n], rows [n, d] or hashable summaries.
        second: independent outputs on its neighbour [m].
        alpha: probability that the bound is above the true epsilon.
        delta: the delta of the claim; 0 for pure differential privacy.
        seed: seed of the shuffle before the outputs are halved; one half chooses the event, one tests it.

    Returns:
        The bound, in nats.

    Raises:
        ValueError: a parameter is out of range, there are fewer than two outputs, or an output is NaN.

    References:
        Clopper and Pearson 1934 (confidence limits); Ding et al. 2018, "Detecting violations of
        differential privacy" (events); Bichsel et al. 2021, "DP-Sniper".

    Example:
        >>> from pgmjax.measurements.noise import DiscreteLaplace
        >>> from pgmjax.privacy.seeded import SeededBackend
        >>> noise = SeededBackend(0, insecure=True).draw(DiscreteLaplace(1.0), 20_000)
        >>> found = epsilon_lower_bound(noise[:10_000], 1 + noise[10_000:])  # epsilon is 1
        >>> found.exceeds(1.0), found.exceeds(0.5)
        (False, True)
    """
    alpha = checks.number("alpha", alpha, above=0, below=1)
    delta = checks.number("delta", delta, at_least=0, below=1)

    def bound(held: np.ndarray, of: Sequence[int]) -> np.ndarray:
        lowest = at_least(held[0], of[0], alpha / _SIDES) - delta
        highest = at_most(held[1], of[1], alpha / _SIDES)
        return np.where(lowest > 0, np.log(np.maximum(lowest, 1e-300)) - np.log(highest), -np.inf)

    return dataclasses.replace(_best_of_both(first, second, bound, "epsilon", alpha, seed), delta=delta)


def mu_lower_bound(
    first: Sequence[Any] | np.ndarray,
    second: Sequence[Any] | np.ndarray,
    *,
    alpha: float = 1e-6,
    seed: int = 0,
) -> LowerBound:
    """Bound the mu of Gaussian differential privacy from below by outputs on two neighbouring tables.

    Args:
        first: independent outputs on one table: numbers [n], rows [n, d] or hashable summaries.
        second: independent outputs on its neighbour [m].
        alpha: probability that the bound is above the true mu.
        seed: shuffles the outputs before they are halved.

    Returns:
        The bound: the normal quantile of the event's probability under one neighbour minus that under the
        other. Continuous Gaussian noise of scale s on an answer that moves by d has mu = d / s. The
        discrete Gaussian has a larger one: 2.488 at s = 0.5 and d = 1, 1.046 at s = d = 1, 1.0004 at
        s = d = 10. Its rho, d^2 / (2 s^2), is as stated.

    Raises:
        ValueError: alpha out of range, fewer than two outputs, or NaN among them.

    References:
        Dong, Roth and Su 2022, "Gaussian differential privacy".

    Example:
        >>> from pgmjax.measurements.noise import DiscreteGaussian
        >>> from pgmjax.privacy.seeded import SeededBackend
        >>> noise = SeededBackend(0, insecure=True).draw(DiscreteGaussian(5.0), 20_000)
        >>> found = mu_lower_bound(noise[:10_000], 5 + noise[10_000:])  # mu is 1.002
        >>> found.exceeds(1.0), found.exceeds(0.8)
        (False, True)
    """
    from scipy.special import ndtri

    alpha = checks.number("alpha", alpha, above=0, below=1)

    def bound(held: np.ndarray, of: Sequence[int]) -> np.ndarray:
        lowest = at_least(held[0], of[0], alpha / _SIDES)
        highest = at_most(held[1], of[1], alpha / _SIDES)
        sure = (lowest > 0) & (highest < 1)
        return np.where(sure, ndtri(lowest) - ndtri(highest), -np.inf)

    return _best_of_both(first, second, bound, "mu", alpha, seed)


def audit_blackbox(
    run: Callable[[Any, int], Any],
    first: Any,
    second: Any,
    trials: int,
    *,
    alpha: float = 1e-6,
    delta: float = 0.0,
    seed: int = 0,
    show_progress: bool | None = None,
) -> LowerBound:
    """Run a mechanism many times on two neighbouring tables and bound its epsilon from below.

    Args:
        run: called with a table and a trial number, which is unique to each run and may seed a repeatable
            backend; returns a number, an array or something hashable.
        first: a made-up table.
        second: its neighbour.
        trials: runs per table; 10,000 find a factor of two at an epsilon of 1 to 2.
        alpha: probability that the bound is above the true epsilon.
        delta: the delta of the claim.
        seed: shuffles the outputs before they are halved.
        show_progress: None shows a bar in terminals and notebooks only.

    Returns:
        The bound, in nats.

    Raises:
        ValueError: a parameter out of range, or an output that is NaN.

    Example:
        >>> from pgmjax.measurements.noise import DiscreteLaplace
        >>> from pgmjax.privacy.seeded import SeededBackend
        >>> def noisy_size(table, trial):
        ...     backend = SeededBackend(trial, insecure=True)
        ...     return len(table) + int(backend.draw(DiscreteLaplace(1.0), 1)[0])
        >>> audit_blackbox(noisy_size, [0, 0], [0, 0, 0], 500).exceeds(1.0)
        False
    """
    count = checks.integer("trials", trials, low=2)
    outputs: tuple[list[Any], list[Any]] = ([], [])
    with Progress("auditing", total=2 * count, show=show_progress) as progress:
        for trial in range(2 * count):
            outputs[trial % 2].append(run((first, second)[trial % 2], trial))
            progress.advance()
    return epsilon_lower_bound(*outputs, alpha=alpha, delta=delta, seed=seed)


def _best_of_both(
    first: Any, second: Any, bound: Callable[..., np.ndarray], measure: str, alpha: float, seed: int
) -> LowerBound:
    outputs = Outputs.split(first, second, seed)
    found = []
    for likelier, given in (("first", outputs), ("second", outputs.swapped())):
        event, value = given.best_event(bound)
        found.append((max(value, 0.0), event, likelier))
    value, event, likelier = max(found, key=lambda item: item[0])
    draws = min(a.size + b.size for a, b in zip(outputs.choosing, outputs.testing, strict=True))
    return LowerBound(value, measure, event, likelier, draws, alpha)


@dataclasses.dataclass(frozen=True)
class Outputs:
    """Outputs on two neighbours as numbers, each split into a choosing and a testing half.

    Attributes:
        choosing: two arrays [n // 2], [m // 2].
        testing: two arrays with the rest.
        labels: for non-numeric outputs, the output of each code; otherwise None.
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
        return Outputs(self.choosing[::-1], self.testing[::-1], self.labels)

    def best_event(self, bound: Callable[[np.ndarray, Sequence[int]], np.ndarray]) -> tuple[str, float]:
        """Choose the event of the largest bound on the first halves, and bound by the second ones.

        Args:
            bound: the bounds [events] of events, given how many outputs of the first and of the second half
                they contain [2, events], of how many.

        Returns:
            The event as text, and its bound on the testing halves.
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
            worth = bound(reached, [half.size for half in self.choosing])
            choices.append((float(worth.max()), order[: cuts[np.argmax(worth)]]))
        best = max(range(len(choices)), key=lambda i: choices[i][0])
        chosen = choices[best][1]
        if self.labels is None and best < 2:
            low, edge = best == 0, values[chosen[-1]]
            event = f"output {'<=' if low else '>='} {edge:g}"
            held = [np.sum(half <= edge if low else half >= edge) for half in self.testing]
        else:
            event = self._in_words(values[chosen])
            held = [np.isin(half, values[chosen]).sum() for half in self.testing]
        return event, float(bound(np.array(held), [half.size for half in self.testing]))

    def _in_words(self, members: np.ndarray) -> str:
        shown = [f"{m:g}" if self.labels is None else repr(self.labels[int(m)]) for m in members[:5]]
        more = f" and {members.size - 5} more" if members.size > 5 else ""
        return f"output in {{{', '.join(shown)}}}{more}"


def _as_numbers(first: Any, second: Any) -> tuple[np.ndarray, np.ndarray, list[Any] | None]:
    """Return scalars unchanged; rows of a matrix and other hashable outputs as codes with labels."""
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


def at_least(held: np.ndarray, of: int, alpha: float) -> np.ndarray:
    """Return the lower confidence limit, above the true probability with probability at most alpha.

    Args:
        held: number of draws in the event [events].
        of: total number of draws.
        alpha: the error probability.
    """
    from scipy import special

    return np.where(held > 0, special.betaincinv(np.maximum(held, 1), of - held + 1, alpha), 0.0)


def at_most(held: np.ndarray, of: int, alpha: float) -> np.ndarray:
    """Return the upper confidence limit, too low with probability at most alpha; see `at_least`."""
    from scipy import special

    return np.where(held < of, special.betainccinv(held + 1, np.maximum(of - held, 1), alpha), 1.0)
