"""Both backends draw the distributions they state, and the same ones: chi-square fits with power.

False alarms: FALSE_ALARMS in all for the tests that the distribution passes, each at alpha 1e-9 on entropy of
the operating system; those of the seeded backend alone are deterministic. That one of the wrong distributions
is not rejected has a chance below 1e-12 for each (non-central chi-square).
"""

import collections
import concurrent.futures
import functools
import math
import signal
import time
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.history import Session
from pgmjax.job import WatchedBackend
from pgmjax.measurements import noise as distributions
from pgmjax.mechanisms import Marginals
from pgmjax.privacy import opendp, scales
from pgmjax.privacy.ledger import Ledger
from pgmjax.privacy.opendp import _BITS_PIECE, OpenDPBackend
from pgmjax.privacy.response import KaryResponse
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.privacy.selection import ExponentialMechanism, PermuteAndFlip
from pgmjax.queries.workload import Workload

ALPHA = 1e-9
DRAWS = 100_000
CHOICES = 10_000
NAMES = ["opendp", "seeded"]
DISTRIBUTIONS = [
    distributions.DiscreteLaplace(0.5),
    distributions.DiscreteLaplace(4.0),
    distributions.DiscreteLaplace(50.0),
    distributions.DiscreteGaussian(0.7),
    distributions.DiscreteGaussian(12.5),
]
SELECTIONS = [PermuteAndFlip(1.5), ExponentialMechanism(1.5)]
SCORES = np.array([-3, 2, 2, 0, 3, 1])
RESPONSES = [
    KaryResponse(2, 0.3),
    KaryResponse(4, 0.25),
    KaryResponse(5, 0.7),
    KaryResponse(257, 0.9),
]
# fits and comparisons of noise, choices and answers, and the uniform lies among 2^31 categories
FALSE_ALARMS = ALPHA * (2 * (len(DISTRIBUTIONS) + len(SELECTIONS) + len(RESPONSES)) + 1)


class Drawn(Exception):
    """Something was drawn that should not have been."""


def source_of(name):
    return OpenDPBackend() if name == "opendp" else SeededBackend(1, insecure=True)


@functools.cache
def noise(name, distribution):
    return source_of(name).draw(distribution, DRAWS)


@functools.cache
def choices(name, distribution):
    source = source_of(name)
    return np.array([source.choose(distribution, SCORES) for _ in range(CHOICES)])


def codes_of(distribution):
    return np.arange(DRAWS) % min(distribution.size, 5)


@functools.cache
def answers(name, distribution):
    return source_of(name).respond(distribution, codes_of(distribution))


def fit(draws, distribution):
    """P-value of a chi-square test; tails are folded inward until every bin expects at least 10."""
    width = int(60 * distribution.scale) + 60
    values = np.arange(-width, width + 1)
    expected = distribution.probabilities(values) * draws.size
    first = int(np.argmax(np.cumsum(expected) >= 10))
    last = values.size - 1 - int(np.argmax(np.cumsum(expected[::-1]) >= 10))
    bins = np.concatenate(
        [[expected[: first + 1].sum()], expected[first + 1 : last], [expected[last:].sum()]]
    )
    places = np.clip(draws, values[first], values[last]) - values[first]
    seen = np.bincount(places, minlength=bins.size)
    while bins.size > 2 and bins.min() < 10:
        thin = int(bins.argmin())
        other = thin + 1 if thin < bins.size // 2 else thin - 1
        bins[other] += bins[thin]
        seen[other] += seen[thin]
        bins, seen = np.delete(bins, thin), np.delete(seen, thin)
    return stats.chisquare(seen, bins * seen.sum() / bins.sum()).pvalue


def fit_choices(chosen, distribution, scores=SCORES):
    """P-value of a chi-square test of choices."""
    expected = distribution.probabilities(scores) * chosen.size
    return stats.chisquare(np.bincount(chosen, minlength=scores.size), expected).pvalue


def fit_answers(codes, answered, distribution):
    """P-value of a chi-square test of answers given the truth, all truths together."""
    truths, rows = np.unique(codes, return_counts=True)
    expected = rows[:, None] * distribution.channel()[truths]
    assert expected.min() > 50
    seen = np.zeros(expected.shape)
    np.add.at(seen, (np.searchsorted(truths, codes), answered), 1)
    return stats.chi2.sf(((seen - expected) ** 2 / expected).sum(), expected.size - truths.size)


def same(one, other):
    """P-value of a two-sample chi-square test; values seen less than 20 times are folded outward."""
    counts = collections.Counter(one.tolist()), collections.Counter(other.tolist())
    table, rest = [], np.zeros(2)
    for value in sorted(set(counts[0]) | set(counts[1]), key=abs, reverse=True):
        rest = rest + np.array([counts[0][value], counts[1][value]])
        if rest.sum() >= 20:
            table, rest = [*table, rest], np.zeros(2)
    table[-1] = table[-1] + rest
    return stats.chi2_contingency(np.array(table), correction=False).pvalue


@pytest.fixture(params=NAMES)
def source(request):
    return source_of(request.param)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=str)
def test_goodness_of_fit_with_power(name, distribution):
    draws = noise(name, distribution)
    assert draws.dtype == np.int64 and draws.shape == (DRAWS,)
    assert fit(draws, distribution) > ALPHA
    for factor in (1.1, 0.9):
        assert fit(draws, type(distribution)(distribution.scale * factor)) < ALPHA


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("distribution", SELECTIONS, ids=str)
def test_choices_follow_their_distribution_and_no_other(name, distribution):
    """The other mechanism, a scale half as large again, and the scores upside down are told from it."""
    chosen = choices(name, distribution)
    assert (
        fit_choices(chosen, distribution) > ALPHA and distribution.probabilities(SCORES).min() * CHOICES > 50
    )
    others = [
        type(distribution)(distribution.scale * 1.5),
        type(distribution)(distribution.scale / 1.5),
        *set(SELECTIONS) - {distribution},
    ]
    for other in others:
        assert fit_choices(chosen, other) < ALPHA
    assert fit_choices(chosen, distribution, -SCORES) < ALPHA


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("distribution", RESPONSES, ids=str)
def test_answers_follow_their_channel(name, distribution):
    """Lies that may be the truth, or 10 % more of them, are told from it where they are that likely."""
    codes, answered = codes_of(distribution), answers(name, distribution)
    assert answered.dtype == np.int64 and answered.shape == codes.shape
    assert fit_answers(codes, answered, distribution) > ALPHA
    maybe_true = distribution.lie * (distribution.size - 1) / distribution.size
    for other in (maybe_true, 0.9 * distribution.lie):
        if distribution.size < 100 or other < maybe_true:
            assert fit_answers(codes, answered, KaryResponse(distribution.size, other)) < ALPHA


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=str)
def test_the_same_noise_from_either(distribution):
    assert same(noise("opendp", distribution), noise("seeded", distribution)) > ALPHA
    wider = SeededBackend(5, insecure=True).draw(type(distribution)(distribution.scale * 1.2), DRAWS)
    assert same(noise("opendp", distribution), wider) < ALPHA


@pytest.mark.parametrize("distribution", SELECTIONS, ids=str)
def test_the_same_choices_from_either(distribution):
    assert same(choices("opendp", distribution), choices("seeded", distribution)) > ALPHA
    assert (
        same(choices("opendp", distribution), choices("seeded", type(distribution)(distribution.scale * 2)))
        < ALPHA
    )


@pytest.mark.parametrize("distribution", RESPONSES, ids=str)
def test_the_same_answers_from_either(distribution):
    pairs = [answers(name, distribution) * 5 + codes_of(distribution) for name in NAMES]
    assert same(*pairs) > ALPHA
    rarer = KaryResponse(distribution.size, 0.8 * distribution.lie)
    other = SeededBackend(6, insecure=True).respond(rarer, codes_of(distribution))
    assert same(pairs[0], other * 5 + codes_of(distribution)) < ALPHA


def test_lies_among_very_many_categories(source):
    """Uniform over all but the truth, of which 20,000 answers at 16 bins tell; the truth is in between."""
    distribution = KaryResponse(2**31, 0.5)
    codes = np.full(20_000, 2**30, np.uint32)
    answered = source.respond(distribution, codes)
    lies = answered[answered != 2**30]
    assert lies.min() >= 0 and 2**31 - 2**21 < lies.max() < 2**31 and 9000 < lies.size < 11_000
    assert stats.chisquare(np.bincount(lies >> 27, minlength=16)).pvalue > ALPHA


def test_answers_across_pieces(source):
    """More records than one piece: each is answered once, in its place (P < 1e-300 by chance)."""
    distribution = source.randomized_response(1000, Fraction(64))
    codes = np.arange(2 * _BITS_PIECE + 13) % 1000
    assert np.array_equal(source.respond(distribution, codes), codes)
    assert source.respond(distribution, codes[:0]).shape == (0,) and source.respond(
        distribution, codes[:1]
    ).shape == (1,)


def test_noise_across_pieces():
    """Every place of a large draw is filled, by threads or not: zeros are as rare as they should be."""
    draws = OpenDPBackend().draw(distributions.DiscreteLaplace(2.0**40), 40_000)
    assert np.unique(draws).size > 39_990


@pytest.mark.parametrize("cores", [1, 2, 5])
def test_pieces_cover_the_range_once(monkeypatch, cores):
    monkeypatch.setattr(opendp, "_cores", lambda: cores)
    for size in (0, 1, 7, 8, 50):
        seen = np.zeros(size, int)

        def fill(start, stop, seen=seen):
            assert 0 < stop - start <= 7
            seen[start:stop] += 1

        opendp._in_pieces(size, 7, fill)
        assert (seen == 1).all()


@pytest.mark.parametrize("cores", [1, 2])
def test_an_error_in_a_piece_is_the_callers(monkeypatch, cores):
    monkeypatch.setattr(opendp, "_cores", lambda: cores)
    begun = []

    def fill(start, _):
        begun.append(start)
        time.sleep(0.01)
        raise Drawn

    with pytest.raises(Drawn):
        opendp._in_pieces(1000, 1, fill)
    assert len(begun) < 100


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer signals on this system")
def test_an_interrupt_is_heard_in_the_middle():
    """Of draws of half a minute; it comes again each second, since Python drops one in a destructor."""
    waiting = True

    def interrupt(*_):
        if waiting:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    start = time.perf_counter()
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.25, 1.0)
        with pytest.raises(KeyboardInterrupt):
            OpenDPBackend().draw(DISTRIBUTIONS[4], 5_000_000)
        waiting = False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert time.perf_counter() - start < 10


def test_choices_at_the_edge_of_the_scores(source):
    """Scores of 53 bits are told apart by one: nothing goes through a float that is too coarse."""
    for distribution in SELECTIONS:
        sharp = type(distribution)(1 / 64)
        for scores in ([2**53 - 2, 2**53 - 1], [1 - 2**53, 2 - 2**53], [1 - 2**53, 2**53 - 1]):
            assert all(source.choose(sharp, np.array(scores)) == 1 for _ in range(5))  # but once in 10^27
    assert source.choose(PermuteAndFlip(1.0), np.array([7], np.int8)) == 0
    assert type(source.choose(ExponentialMechanism(1.0), np.array([7]))) is int


def test_nothing_is_drawn_for_what_is_refused(source, monkeypatch):
    def refuse(*_):
        raise Drawn

    for call in ("flips", "coins", "uniform", "permute_and_flip_sampler", "exponential_sampler"):
        monkeypatch.setattr(opendp, call, refuse)
    distribution = KaryResponse(3, 0.5)
    for codes in ([0, 1, 77], [-77]):
        with pytest.raises(ValueError, match=r"0\.\.2") as refusal:
            source.respond(distribution, np.array(codes))
        assert "77" not in str(refusal.value)
    with pytest.raises(TypeError, match=r"codes.*float64"):
        source.respond(distribution, np.array([0.0, math.nan]))
    for choice in SELECTIONS:
        for scores, error in (
            (np.array([], np.int64), ValueError),
            (np.array([1.0, math.nan]), TypeError),
            (np.array([1.0, math.inf]), TypeError),
            (np.array([2**53, 0]), ValueError),
        ):
            with pytest.raises(error, match=r"scores|candidate"):
                source.choose(choice, scores)
    if source.seed is not None:
        expected = SeededBackend(1, insecure=True).draw(DISTRIBUTIONS[0], 50)
        assert np.array_equal(source.draw(DISTRIBUTIONS[0], 50), expected)


def test_distributions_of_another_kind_are_refused(source):
    for distribution in (SELECTIONS[0], RESPONSES[0], "laplace", None):
        with pytest.raises(TypeError, match="distribution must be a DiscreteLaplace or DiscreteGaussian"):
            source.draw(distribution, 3)
    for distribution in (DISTRIBUTIONS[0], RESPONSES[0], 1.0):
        with pytest.raises(TypeError, match="distribution must be a PermuteAndFlip or ExponentialMechanism"):
            source.choose(distribution, SCORES)
    for distribution in (DISTRIBUTIONS[0], SELECTIONS[0], 0.3):
        with pytest.raises(TypeError, match=r"distribution.*KaryResponse"):
            source.respond(distribution, np.array([0]))


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize("distribution", [distributions.DiscreteLaplace, distributions.DiscreteGaussian])
def test_scales_that_mean_no_noise_are_refused(source, distribution, scale):
    """OpenDP takes 0 and adds nothing."""
    with pytest.raises(ValueError, match="scale"):
        source.draw(distribution(scale), 3)


@pytest.mark.parametrize("distribution", [DISTRIBUTIONS[1], DISTRIBUTIONS[4]], ids=str)
def test_the_fit_rejects_replicated_noise(source, distribution):
    assert fit(np.tile(source.draw(distribution, DRAWS // 200), 200), distribution) < ALPHA


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=str)
def test_stated_stddev_is_that_of_the_draws(distribution):
    """Six standard errors of the sample variance, from the distribution's own fourth moment."""
    draws = SeededBackend(2, insecure=True).draw(distribution, DRAWS).astype(float)
    values = np.arange(-int(60 * distribution.scale) - 60, int(60 * distribution.scale) + 61)
    fourth = float((distribution.probabilities(values) * values.astype(float) ** 4).sum())
    error = math.sqrt((fourth - distribution.variance**2) / DRAWS)
    assert abs((draws**2).mean() - distribution.variance) < 6 * error


CASES = [
    (1, Fraction(1, 3)),
    (3, Fraction(7)),
    (1, Fraction(1, 10)),
    (2, Fraction(1, 15)),
    (12345, Fraction(1, 7)),
]


@pytest.mark.parametrize("sensitivity, cost", CASES)
def test_opendp_confirms_the_scale_it_is_given(sensitivity, cost):
    """Its own outward-rounded map never says more than the budget, and one float less would."""
    dp = pytest.importorskip("opendp.prelude")
    source = OpenDPBackend()
    lap, gau = source.laplace(sensitivity, cost), source.gaussian(sensitivity**2, cost)
    l1 = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    l2 = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float)
    assert Fraction(dp.m.make_laplace(*l1, scale=lap.scale).map(sensitivity)) <= cost
    assert Fraction(dp.m.make_gaussian(*l2, scale=gau.scale).map(float(sensitivity))) <= cost
    assert lap.scale == pytest.approx(float(sensitivity / cost), rel=1e-15)
    assert gau.scale == pytest.approx(sensitivity / math.sqrt(2 * cost), rel=1e-15)


def test_float_scales_of_one_third_are_not_enough():
    """The trap the rounding rule is for: OpenDP charges 3.0000000000000004 for scale float(1/3)."""
    dp = pytest.importorskip("opendp.prelude")
    OpenDPBackend()
    l1 = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    assert dp.m.make_laplace(*l1, scale=float(Fraction(1, 3))).map(1) > 3
    assert OpenDPBackend().laplace(1, Fraction(3)).scale > 1 / 3


@pytest.mark.parametrize("sensitivity, cost", CASES)
def test_opendp_confirms_the_scale_of_a_choice(sensitivity, cost):
    """In the measure that its map speaks of: epsilon, and for Gumbel noise epsilon^2 / 8."""
    dp = pytest.importorskip("opendp.prelude")
    source, seeded = OpenDPBackend(), SeededBackend(0, insecure=True)
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")
    for name, measure, budget in (
        ("permute_and_flip", dp.max_divergence(), cost),
        ("exponential", dp.zero_concentrated_divergence(), cost**2 / 8),
    ):
        distribution = getattr(source, name)(sensitivity, cost)
        confirmed = dp.m.make_noisy_max(*space, measure, scale=distribution.scale).map(sensitivity)
        assert budget * (1 - Fraction(1, 10**14)) < Fraction(confirmed) <= budget
        exact = float(2 * sensitivity / cost)
        assert distribution.scale == pytest.approx(exact, rel=1e-15)
        assert getattr(seeded, name)(sensitivity, cost).scale == pytest.approx(exact, rel=1e-15)


@pytest.mark.parametrize("size", [2, 3, 10])
@pytest.mark.parametrize("epsilon", [Fraction(1, 3), Fraction(1), Fraction(7)])
def test_both_backends_answer_by_the_distribution_that_opendp_knows(size, epsilon):
    """OpenDP's scalar mechanism at the same truth has the same loss."""
    dp = pytest.importorskip("opendp.prelude")
    distribution = OpenDPBackend().randomized_response(size, epsilon)
    assert distribution == SeededBackend(0, insecure=True).randomized_response(size, epsilon)
    known = dp.m.make_randomized_response(list(range(size)), float(distribution.truth)).map(1)
    assert known == pytest.approx(float(epsilon), rel=1e-13) and distribution.epsilon_bound <= epsilon


@pytest.mark.parametrize("sensitivity, cost", CASES)
def test_both_backends_draw_the_same_distributions(sensitivity, cost):
    secure, seeded = OpenDPBackend(), SeededBackend(0, insecure=True)
    assert secure.laplace(sensitivity, cost).scale == pytest.approx(
        seeded.laplace(sensitivity, cost).scale, rel=1e-15
    )
    assert secure.gaussian(sensitivity, cost).scale == pytest.approx(
        seeded.gaussian(sensitivity, cost).scale, rel=1e-15
    )


def test_noise_of_any_size(source):
    for distribution in DISTRIBUTIONS[::3]:
        for size in (0, 1, 3):
            assert source.draw(distribution, size).shape == (size,)


def test_huge_scales_stay_inside_int64(source):
    for distribution in (
        distributions.DiscreteLaplace(scales.LARGEST_SCALE),
        distributions.DiscreteGaussian(scales.LARGEST_SCALE),
    ):
        draws = source.draw(distribution, 2000)
        assert np.abs(draws).max() < 2**62 and np.abs(draws).max() > 2**50


def test_the_seeded_backend_wants_a_signature():
    with pytest.raises(ValueError, match=r"insecure=True"):
        SeededBackend(0)
    with pytest.raises(ValueError, match=r"insecure=True"):
        SeededBackend(0, insecure=1)
    with pytest.raises(TypeError, match=r"seed.*float 0\.5"):
        SeededBackend(0.5, insecure=True)
    with pytest.raises(ValueError, match=r"seed.*-1"):
        SeededBackend(-1, insecure=True)


def test_the_seed_decides():
    distribution = distributions.DiscreteLaplace(1e6)
    first = SeededBackend(3, insecure=True)
    draws = first.draw(distribution, 100)
    assert not np.array_equal(draws, first.draw(distribution, 100))
    assert np.array_equal(draws, first.restart().draw(distribution, 100))
    for other in (4, 3 + 2**32, 3 + 2**64):
        assert not np.array_equal(draws, SeededBackend(other, insecure=True).draw(distribution, 100))


def test_the_seed_decides_choices_and_answers():
    first, codes, scores = SeededBackend(3, insecure=True), np.zeros(100, int), np.zeros(1000, int)
    for distribution in SELECTIONS:
        chosen = [first.choose(distribution, scores) for _ in range(20)]
        assert chosen != [first.choose(distribution, scores) for _ in range(20)]
        one, two = first.restart(), first.restart()
        assert [one.choose(distribution, scores) for _ in range(3)] == [
            two.choose(distribution, scores) for _ in range(3)
        ]
    distribution = KaryResponse(1000, 0.9)
    one, two = first.restart(), first.restart()
    assert np.array_equal(one.respond(distribution, codes), two.respond(distribution, codes))
    assert not np.array_equal(one.respond(distribution, codes), first.respond(distribution, codes))


def test_secure_noise_never_repeats():
    """Two calls, two backends, two threads: no user-space state to repeat (P < 1e-500 by chance)."""
    distribution = distributions.DiscreteLaplace(1e6)
    sources = [OpenDPBackend(), OpenDPBackend()]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        drawn = list(pool.map(lambda source: source.draw(distribution, 100).tobytes(), sources * 2))
    assert len(set(drawn)) == 4 and OpenDPBackend().seed is None


def test_secure_choices_and_answers_never_repeat():
    """The chance of a repeat is below 1e-100."""
    source, distribution = OpenDPBackend(), KaryResponse(1000, 0.99)
    drawn = [source.respond(distribution, np.zeros(100, int)).tobytes() for _ in range(4)]
    assert len(set(drawn)) == 4
    for choice in SELECTIONS:
        rows = [tuple(source.choose(choice, np.arange(1000) // 999) for _ in range(40)) for _ in range(3)]
        assert len(set(rows)) == 3


def test_the_default_is_secure():
    assert opendp.default_backend().secure is True and opendp.default_backend().name == "opendp"
    assert SeededBackend(0, insecure=True).secure is False


class Claims(SeededBackend):
    """Repeatable noise that calls itself secure."""

    secure, seed = True, None

    def __init__(self):
        super().__init__(1, insecure=True)
        self.seed = None

    def restart(self):
        return self


class Subclass(OpenDPBackend):
    """Overrides where noise comes from."""

    def draw(self, distribution, size):
        return np.zeros(size, np.int64)


def patched():
    source = OpenDPBackend()
    source.draw = lambda distribution, size: np.zeros(size, np.int64)
    return source


def mocked():
    from unittest import mock

    source = mock.Mock(spec=OpenDPBackend, secure=True, seed=None)
    source.restart.return_value = source
    source.laplace = OpenDPBackend().laplace
    source.draw = lambda distribution, size: np.zeros(size, np.int64)
    return source


@pytest.mark.parametrize("make", [Claims, Subclass, patched, mocked])
@pytest.mark.parametrize("watched", [False, True])
def test_what_only_calls_itself_secure_is_not(make, watched, tmp_path):
    """The class decides: such releases are marked, and an account for secure noise refuses them."""
    source = WatchedBackend(make()) if watched else make()
    assert source.secure and not opendp.is_secure(source)
    data = Dataset.from_columns(Domain({"a": 2}), {"a": [0, 1]})
    marginals = Marginals(epsilon=1, relation="add-remove", backend=source)
    assert marginals.run(data, Workload([["a"]]), show_progress=False).secure is False
    with Ledger.create(tmp_path / "budgets.ledger") as ledger:
        ledger.register(
            "table", epsilon=1, relation="add-remove", digest=ledger.digest_of(data), domain=data.domain
        )
        with pytest.raises(ValueError, match="'table'"):
            marginals.run(data, Workload([["a"]]), ledger=ledger)
        with pytest.raises(ValueError, match="'table'"):
            Session.open(ledger, data, cap=1, relation="add-remove", backend=source)
        assert ledger.account("table").spent == 0


def test_what_the_library_wraps_stays_secure():
    assert opendp.is_secure(OpenDPBackend()) and opendp.is_secure(WatchedBackend(OpenDPBackend()))
    assert opendp.is_secure(WatchedBackend(OpenDPBackend()).restart())
    assert not opendp.is_secure(WatchedBackend(SeededBackend(0, insecure=True)))
