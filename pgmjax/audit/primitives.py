"""Checks of the installed noise: what passes the choke point follows the claimed distribution.

They draw through `privacy.PrivateTable` on made-up tables, so that all code between a backend and a release
is checked too. Each raises `AuditFailure` on a fault and otherwise returns None.

Noise drawn once and used twice (forked workers, threads, a reused seed) is found by `repeated`. The signs of
independent symmetric noise are fair coins. At a distance (lag) at which draws are copies, signs agree. For
independent noise, the agreements of all pairs at one lag are independent fair coins too (the pairs are the
edges of paths), so their number follows an exact binomial distribution. All lags are computed in one pass of
Fourier transforms.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax._internal.checks import Error
from pgmjax.audit import exact, goodness
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace
from pgmjax.privacy import Budget, Counts, NoiseBackend, PrivateTable, scales
from pgmjax.privacy.accounting import zcdp
from pgmjax.privacy.opendp import default_backend
from pgmjax.privacy.responding import ENCODINGS
from pgmjax.privacy.selection import ExponentialMechanism, PermuteAndFlip, SelectionDistribution
from pgmjax.privacy.tape import Tape
from pgmjax.queries import marginal

ALPHA = 1e-9
"""False-alarm level of each statistical check."""

_DRAWS = 60_000  # of noise or of answers in a statistical check
_CHOICES = 1_000
_SCORES = 16  # what the scores of a call cost: noise that is enough for one of them is not refused
_LARGEST_DELTA = Fraction(1, 1000)

_MANY = (1 << 18) + (1 << 12) + 7
_WIDE = 2.0**50  # the widest noise there is
_BY_CHANCE = 2  # numbers drawn again: more of them have a probability below 1e-15
_AWKWARD = (Fraction(1, 10), Fraction(1, 3), Fraction(3), Fraction(7, 5), Fraction(2, 7))

_SIZE = 3  # categories of the table whose records answer: few, so that each of them answers often
_DOMAIN = Domain({"a": _SIZE})


class AuditFailure(Error, AssertionError):
    """A mechanism or a primitive does not keep what it claims."""


def noise_follows_its_distribution(backend: NoiseBackend | None = None, *, unit: str = "epsilon") -> None:
    """L2: released minus exact counts of a large, nearly empty table follow the released distribution.

    Args:
        backend: source of noise. Default: the secure backend.
        unit: "epsilon" checks Laplace noise, "rho" Gaussian noise.

    Raises:
        AuditFailure: the distribution differs, noise repeats, or two queries or calls share noise.
    """
    _check_noise(_noise_of_calls(backend, unit), "call")


def _check_noise(calls: Sequence[tuple[np.ndarray, Any]], said: str) -> None:
    """Raise `AuditFailure` if the noise of a call does not follow its distribution, or repeats."""
    for number, (noise, distribution) in enumerate(calls, start=1):
        fit = goodness.goodness_of_fit(noise, distribution)
        if fit.p_value < ALPHA:
            raise AuditFailure(
                f"Noise of {said} {number} does not follow its {distribution.noise} distribution of scale "
                f"{distribution.scale:g}: p = {fit.p_value:.2g} from {noise.size:,} draws."
            )
        if repeated(noise).p_value < ALPHA:
            raise AuditFailure(f"Noise of {said} {number} repeats itself, or its queries share it.")
    if repeated(np.concatenate([noise for noise, _ in calls])).p_value < ALPHA:
        raise AuditFailure("Two calls share their noise.")


def _noise_of_calls(backend: NoiseBackend | None, unit: str) -> list[tuple[np.ndarray, Any]]:
    """Return released minus exact counts of two calls with two queries each, and each distribution."""
    domain = Domain({"a": _DRAWS // 2, "b": _DRAWS // 2})
    data = Dataset.from_columns(domain, {"a": [0, 0, 1], "b": [0, 1, 1]})
    costs = {"epsilons" if unit == "epsilon" else "rhos": [Fraction(1, 4), Fraction(1, 4)]}
    tape = Tape()
    with tape.recording():
        table = PrivateTable(data, Relation.ADD_REMOVE, Budget(1, unit), backend)
        queries = [marginal([name]) for name in domain]
        distributions = [
            table.measure(queries, **costs, show_progress=False)[0].distribution for _ in range(2)
        ]
    noises = [released - call.exact for call, released in zip(tape.calls, tape.releases, strict=True)]
    return [
        (np.concatenate(noises[2 * i : 2 * i + 2]), distribution)
        for i, distribution in enumerate(distributions)
    ]


def scores_follow_their_distribution(backend: NoiseBackend | None = None) -> None:
    """L0 and L2: noisy minus exact scores follow the declared distribution, wide enough for all of them.

    A record more moves one of these scores only, but what is promised of scores counts on each of them.

    Args:
        backend: source of noise. Default: the secure backend.

    Raises:
        AuditFailure: a scale is below what the number of scores asks for, the distribution differs, noise
            repeats, or two calls share it.
    """
    for unit in ("epsilon", "rho"):
        calls = _noise_of_scores(backend, unit)
        for noise, distribution in calls:
            scale = Fraction(distribution.scale)
            paid = noise.size / (scale if unit == "epsilon" else 2 * scale**2)
            if paid > _SCORES:
                raise AuditFailure(
                    f"The noise of {noise.size:,} scores has scale {distribution.scale:g}: together they "
                    f"may cost {unit} {float(paid):g}, and {_SCORES} is charged."
                )
        _check_noise(calls, "scores of call")


def _noise_of_scores(backend: NoiseBackend | None, unit: str) -> list[tuple[np.ndarray, Any]]:
    """Return published minus exact scores of two calls, as integers, and each distribution."""
    domain = Domain({"a": _DRAWS // 2})
    data, score = Dataset.from_columns(domain, {"a": [0, 0, 1]}), Counts(marginal(["a"]))
    tape = Tape()
    with tape.recording():
        table = PrivateTable(data, Relation.ADD_REMOVE, Budget(2 * _SCORES, unit), backend)
        published = [table.measure_scores(score, **{unit: _SCORES}) for _ in range(2)]
    return [
        (scores.astype(np.int64) - call.exact, call.distribution)
        for scores, call in zip(published, tape.calls, strict=True)
    ]


def selection_follows_its_distribution(
    backend: NoiseBackend | None = None, *, method: str = "permute-and-flip", choices: int = _CHOICES
) -> None:
    """L2: candidates are chosen with the frequencies of the mechanism's formula for its epsilon.

    Args:
        backend: source of noise. Default: the secure backend.
        method: "permute-and-flip" or "exponential".
        choices: number of choices.

    Raises:
        AuditFailure: the frequencies differ.
    """
    counts = np.array([4, 3, 1, 0])
    codes = np.repeat(np.arange(counts.size), counts)
    data = Dataset.from_columns(Domain({"a": counts.size}), {"a": codes})
    score = Counts(marginal(["a"]))
    budget = Budget(choices, relation=Relation.ADD_REMOVE)
    table = PrivateTable(data, Relation.ADD_REMOVE, budget, backend)
    picked = [table.select(score, epsilon=1, method=method) for _ in range(choices)]
    distribution: SelectionDistribution = (
        PermuteAndFlip(2.0) if method == "permute-and-flip" else ExponentialMechanism(2.0)
    )
    fit = goodness.categorical_fit(
        np.bincount(picked, minlength=counts.size), distribution.probabilities(counts)
    )
    if fit.p_value < ALPHA:
        raise AuditFailure(
            f"Selection by {method} does not follow its distribution for epsilon 1: p = {fit.p_value:.2g} "
            f"from {choices:,} choices."
        )


def conversions_hold() -> None:
    """L0: the (epsilon, delta) converted from a rho holds for the exact discrete Gaussian.

    Raises:
        AuditFailure: the exact delta at that epsilon is larger.
    """
    for rho in (Fraction(1, 200), Fraction(1, 8), Fraction(1)):
        for delta in (Fraction(1, 10**9), Fraction(1, 10**5), _LARGEST_DELTA):
            epsilon = zcdp.epsilon_of(rho, delta)
            distribution = scales.gaussian_for(1, rho)
            found = exact.noise_delta(DiscreteGaussian(distribution.scale), 1, epsilon)
            if not found <= float(delta):
                raise AuditFailure(
                    f"rho {rho} is converted to epsilon {epsilon:.6g} at delta {float(delta):g}, but the "
                    f"exact delta there is {found:.3g}."
                )


def responses_keep_their_epsilon(backend: NoiseBackend | None = None) -> None:
    """L0 and L2: each encoding's channel has the claimed epsilon, and released answers follow it.

    Args:
        backend: source of randomness. Default: the secure backend.

    Raises:
        AuditFailure: an exact log-ratio is above epsilon, answers follow another channel, or two calls
            give the same answers.
    """
    source = backend or default_backend()
    truths = np.repeat(np.arange(_SIZE), _DRAWS // _SIZE)
    data = Dataset.from_columns(_DOMAIN, {"a": truths})
    for encoding in ENCODINGS:
        for epsilon in (Fraction(1, 2), Fraction(2)):
            table = PrivateTable(data, Relation.REPLACE_ONE, Budget(2 * epsilon), source)
            (channel, answers), (_, again) = (_answers(table, encoding, epsilon) for _ in range(2))
            said = f"Responses of encoding {encoding!r} and epsilon {epsilon}"
            found = exact.channel_epsilon(channel)
            if not found <= float(epsilon) * (1 + 1e-12):
                raise AuditFailure(f"{said} have an exact loss of {found:.6g}.")
            for truth, probabilities in enumerate(channel):
                counts = np.bincount(answers[truths == truth], minlength=channel.shape[1])
                fit = goodness.categorical_fit(counts, probabilities)
                if fit.p_value < ALPHA:
                    raise AuditFailure(f"{said} do not follow their channel: p = {fit.p_value:.2g}.")
            if np.array_equal(answers, again):
                raise AuditFailure(f"{said} are the same in two calls.")


def _answers(table: PrivateTable, encoding: str, epsilon: Fraction) -> tuple[np.ndarray, np.ndarray]:
    """Return the channel of a call, and its answers as column indices of it [records]."""
    responses = table.respond([["a"]], epsilons=[epsilon], encodings=[encoding], show_progress=False)
    answers = np.concatenate([block[0] for block in responses])
    if answers.ndim == 2:
        answers = answers @ (1 << np.arange(_SIZE)[::-1])
    return responses.planned[0].distribution.channel(), answers.astype(np.int64)


def scales_cover_their_budget(backend: NoiseBackend | None = None) -> None:
    """L0: scales, which are floats, are rounded so that no more than the exact budget is spent.

    Raises:
        AuditFailure: the exact cost of a scale is above the budget that it was made for.
    """
    source: Any = backend or default_backend()
    for sensitivity, budget in itertools.product((1, 2, 3), _AWKWARD):
        costs = {
            "laplace": lambda scale, moved: moved / scale,
            "gaussian": lambda scale, moved: moved / (2 * scale**2),
            "permute_and_flip": lambda scale, moved: 2 * moved / scale,
            "exponential": lambda scale, moved: 2 * moved / scale,
        }
        for name, cost in costs.items():
            distribution = getattr(source, name)(sensitivity, budget)
            if cost(Fraction(distribution.scale), Fraction(sensitivity)) > budget:
                raise AuditFailure(
                    f"The scale that `{name}` gives for {budget} at sensitivity {sensitivity} is rounded "
                    "down: it costs more than that."
                )


def large_draws_are_fresh(backend: NoiseBackend | None = None) -> None:
    """A draw of more than 2^18 numbers at once has no zero and no number again, at a scale at which none has.

    Raises:
        AuditFailure: it has; in noise as it ought to be that is less likely than 1e-9.
    """
    source = (backend or default_backend()).restart()
    noise = source.draw(DiscreteLaplace(_WIDE), _MANY)
    if noise.shape != (_MANY,):
        raise AuditFailure(f"A draw of {_MANY:,} numbers gave {noise.shape}.")
    zeros = np.flatnonzero(noise == 0)
    if zeros.size:
        raise AuditFailure(
            f"{zeros.size:,} of {_MANY:,} numbers drawn at once are 0, the first in row {int(zeros[0]):,}."
        )
    again = _MANY - np.unique(noise).size
    if again > _BY_CHANCE:
        raise AuditFailure(f"{again:,} of {_MANY:,} numbers drawn at once were drawn before.")


@dataclasses.dataclass(frozen=True)
class Repetition:
    """The outcome of a search for copies.

    Attributes:
        p_value: for independent noise, at most alpha with probability at most alpha; covers all lags.
        lag: the distance in draws at which signs agree or disagree most significantly.
        agreement: the share of pairs at that lag that agree; 1 if all are copies.
        pairs: number of pairs at that lag with two nonzero values.
    """

    p_value: float
    lag: int
    agreement: float
    pairs: int


def repeated(noise: np.ndarray) -> Repetition:
    """Search noise for copies of itself at any distance: adjacent copies, repeated blocks, negated ones.

    Args:
        noise: independent draws of a distribution symmetric about zero, in the order drawn, numbers [n].
            Concatenate the draws of two workers, threads or calls to compare them.

    Returns:
        The outcome; reject at p_value < alpha. Shuffled copies are left to `goodness_of_fit`.

    Raises:
        ValueError: there are fewer than two draws, or they are not one-dimensional and finite.

    Example:
        >>> from pgmjax.measurements.noise import DiscreteGaussian
        >>> from pgmjax.privacy.seeded import SeededBackend
        >>> noise = SeededBackend(0, insecure=True).draw(DiscreteGaussian(9.0), 500)
        >>> repeated(noise).p_value > 0.01
        True
        >>> copied = repeated(np.concatenate([noise, noise]))
        >>> copied.p_value < 1e-100, copied.lag, copied.agreement
        (True, 500, 1.0)
    """
    from scipy.special import bdtr

    signs = np.sign(np.asarray(noise)).astype(np.float64)
    if signs.ndim != 1 or signs.size < 2 or not np.all(np.isfinite(signs)):
        raise ValueError(f"noise must be one row of at least two finite numbers, got shape {signs.shape}.")
    pairs, sums = _over_lags(np.abs(signs)), _over_lags(signs)
    agreeing = (pairs + sums) // 2
    tails = bdtr(np.minimum(agreeing, pairs - agreeing), pairs, 0.5)
    least = np.flatnonzero(tails == tails.min())  # many where they underflow: take the clearest
    worst = least[np.argmax(sums[least] ** 2 / np.maximum(pairs[least], 1))]
    # two-sided; the lags are not independent of each other, hence the union bound
    p_value = min(1.0, float(2 * tails.size * tails[worst]))
    share = agreeing[worst] / max(pairs[worst], 1)
    return Repetition(p_value, int(worst) + 1, float(share), int(pairs[worst]))


def _over_lags(values: np.ndarray) -> np.ndarray:
    """Return sums over i of values[i] values[i + lag] for lags 1..n - 1, exact for small integers [n - 1]."""
    spectrum = np.fft.rfft(values, 2 * values.size)
    sums = np.fft.irfft(spectrum * spectrum.conj(), 2 * values.size)
    return np.rint(sums[1 : values.size]).astype(np.int64)
