"""Black-box lower bounds: what outputs alone prove about epsilon or mu, whatever the mechanism does.

A bound above the claim proves a bug, up to the false-alarm level. A bound below it proves little: a
composed algorithm hides a factor of two from any number of runs that can be afforded. Use it on
primitives and on tiny cases, as a smoke alarm beside the exact and the replayed audits.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.progress import Progress
from pgmjax.audit import limits
from pgmjax.audit.outputs import Outputs

_SIDES = 4  # two directions, each with a bound from below and one from above


@dataclasses.dataclass(frozen=True)
class LowerBound:
    """What outputs prove.

    Attributes:
        value: the loss is at least this, with confidence 1 - alpha; at least 0.
        measure: "epsilon" or "mu".
        event: the outputs that tell the neighbours apart, in words.
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
        """Say whether the outputs prove that the claim is wrong."""
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
        seed: shuffles the outputs before they are halved; one half chooses the event, one tests it.

    Returns:
        The bound, in nats.

    Raises:
        ValueError: a parameter out of range, fewer than two outputs, or NaN among them.

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

    def bound(held: np.ndarray, of: int, other: np.ndarray, of_other: int) -> np.ndarray:
        lowest = limits.at_least(held, of, alpha / _SIDES) - delta
        highest = limits.at_most(other, of_other, alpha / _SIDES)
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
        The bound: normal quantile of the event's probability under one neighbour less that under the
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
    alpha = checks.number("alpha", alpha, above=0, below=1)
    norm = checks.optional("scipy.stats", extra="privacy").norm

    def bound(held: np.ndarray, of: int, other: np.ndarray, of_other: int) -> np.ndarray:
        lowest, highest = (
            limits.at_least(held, of, alpha / _SIDES),
            limits.at_most(other, of_other, alpha / _SIDES),
        )
        sure = (lowest > 0) & (highest < 1)
        return np.where(sure, norm.ppf(lowest) - norm.ppf(highest), -np.inf)

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
        run: takes a table and a trial number, which is another one for every run and may seed a
            repeatable backend; returns a number, an array or something hashable.
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
        chosen, tested = ([half.size for half in halves] for halves in (given.choosing, given.testing))
        choose = functools.partial(_worth, bound, chosen[0], chosen[1])
        event, held, other = given.best_event(choose)
        value = float(bound(np.array(held), tested[0], np.array(other), tested[1]))
        found.append((max(value, 0.0), event, likelier))
    value, event, likelier = max(found, key=lambda item: item[0])
    draws = min(a.size + b.size for a, b in zip(outputs.choosing, outputs.testing, strict=True))
    return LowerBound(value, measure, event, likelier, draws, alpha)


def _worth(
    bound: Callable[..., np.ndarray], of: int, of_other: int, held: np.ndarray, other: np.ndarray
) -> np.ndarray:
    """The bound that the choosing halves would give, were they allowed to."""
    return bound(held, of, other, of_other)
