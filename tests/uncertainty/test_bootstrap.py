"""The parametric bootstrap: noise of the right distributions, and the deviations that theory gives."""

import dataclasses

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.measurements.noise import DiscreteLaplace
from pgmjax.measurements.residual import BestAnswers
from pgmjax.queries import marginal
from pgmjax.uncertainty import bootstrap

DOMAIN = pj.Domain({"a": 3, "b": 2})
MODEL = pj.GraphicalModel.from_potentials(DOMAIN, {("a",): [0.0, 1.0, 2.0]}, total=3000)


@pytest.mark.parametrize(
    "measurement",
    [
        pj.LinearMeasurement.released(marginal(("a",)), [0, 0, 0], DiscreteLaplace(3.0)),
        pj.LinearMeasurement(("a",), [0.0, 0.0, 0.0], [1.0, 5.0, 2.0]),
        pj.LinearMeasurement(("a",), [0.0, 0.0, 0.0], 4.0, noise="laplace"),
    ],
)
def test_redrawn_noise_has_the_stated_mean_and_deviation(measurement):
    draws = 4000
    rows = bootstrap.redrawn(MODEL, [measurement], draws, seed=0)
    noise = np.array([row[0].values for row in rows]) - MODEL.marginal(("a",))
    spread = measurement.row_stddevs()
    # six standard errors; a Laplace distribution's fourth moment is 6: its variance has a relative one of
    # sqrt(5 / n)
    assert (np.abs(noise.mean(axis=0)) <= 6 * spread / np.sqrt(draws)).all()
    assert (np.abs(noise.var(axis=0) / spread**2 - 1) <= 6 * np.sqrt(5.5 / draws)).all()


def test_the_same_seed_gives_the_same_noise():
    noisy = [pj.LinearMeasurement(("a",), [0.0, 0.0, 0.0], 2.0)]
    one, other, third = (bootstrap.redrawn(MODEL, noisy, 2, seed)[1][0].values for seed in (1, 1, 2))
    assert (one == other).all() and not (one == third).all()


def test_answers_spread_as_the_measurements_do():
    noisy = [pj.LinearMeasurement(("a",), MODEL.marginal(("a",)), 5.0)]
    refits = bootstrap.refitted(
        MODEL,
        noisy,
        [marginal(("a",)), marginal(("b",))],
        draws=300,
        seed=0,
        estimator=pj.Estimator(progress=False),
        total=None,
    )
    answers = refits.answers
    assert not refits.pulled and refits.noise.shape == (300, 3)
    assert np.allclose(answers[:, :3], 5 * refits.noise + MODEL.marginal(("a",)), atol=1e-3)
    assert answers.shape == (300, 5)
    # six standard errors of a standard deviation, 1 / sqrt(2 n)
    assert np.allclose(answers[:, :3].std(axis=0), 5.0, rtol=6 / np.sqrt(600))
    assert np.allclose(answers[:, 3:].std(axis=0), 5.0 * np.sqrt(3) / 2, rtol=6 / np.sqrt(600))


def shrunk(generator, count, spread, share):
    """A shrunk estimate of effects from noise of deviation 1, its refits, and least squares; the truth."""
    known, effects = np.linspace(0, 1000, count), spread * generator.standard_normal(count)
    noisy = effects + generator.standard_normal(count)
    values, noise = known + share * noisy, generator.standard_normal((100, count))
    linear = BestAnswers(known + noisy, np.ones(count))
    refits = bootstrap.Refits(known + share * (values - known + noise), noise, True)
    return values, refits, linear, known + effects


@pytest.mark.parametrize(("spread", "share"), [(0.0, 0.5), (0.5, 0.2), (1.0, 0.5), (3.0, 0.9)])
def test_the_bias_of_shrinkage_is_found_and_intervals_hold_the_truth(spread, share):
    generator, inside, squares = np.random.default_rng(4), {0.9: [], 0.95: []}, []
    for level, held in inside.items():
        for _ in range(5):
            values, refits, linear, truth = shrunk(generator, 2000, spread, share)
            errors = bootstrap.pooled_errors(values, refits, linear, refits.noise, level)
            squares.append(errors.stddevs**2)
            held.append(np.abs(values - truth) <= errors.half_widths)
        assert np.mean(held) == pytest.approx(level, abs=0.02)
    # six standard errors of a mean square distance from least squares; 20 % for groups without bias
    off = 6 * np.sqrt(2 / 20_000) * (1 - share) ** 2 * (1 + spread**2)
    wanted = share**2 + ((1 - share) * spread) ** 2
    assert wanted - off <= np.mean(squares) <= wanted + off + (0.2 * wanted if spread == 0 else 0)


def test_few_answers_and_undetermined_ones_have_no_pooled_errors():
    values, refits, linear, _ = shrunk(np.random.default_rng(0), 110, 1.0, 0.5)
    seen = np.arange(110) < 99
    few = dataclasses.replace(linear, variances=np.where(seen, linear.variances, np.nan))
    assert np.isnan(bootstrap.pooled_errors(values, refits, few, refits.noise, 0.9).half_widths).all()
    seen = np.arange(110) < 100
    known = dataclasses.replace(linear, variances=np.where(seen, 1.0, np.nan))
    assert (
        np.isfinite(bootstrap.pooled_errors(values, refits, known, refits.noise, 0.9).half_widths).tolist()
        == seen.tolist()
    )
    exact = dataclasses.replace(linear, variances=np.where(np.arange(110) == 3, 0.0, 1.0))
    errors = bootstrap.pooled_errors(values, refits, exact, refits.noise, 0.9)
    assert errors.half_widths[3] == errors.stddevs[3] == 0 < errors.half_widths[4]


def test_intervals_of_a_pulled_fit_hold_the_table():
    domain, generator = pj.Domain({"a": 12, "b": 10, "c": 8}), np.random.default_rng(7)
    pairs = [("a", "b"), ("b", "c"), ("a", "c")]
    effects = {pair: 0.7 * generator.standard_normal(domain.shape_of(pair)) for pair in pairs}
    table = pj.GraphicalModel.from_potentials(domain, effects, total=20_000)
    truth = [table.marginal(pair) for pair in pairs]
    estimator, held = pj.Estimator(progress=False), {0.9: [], 0.95: []}
    for trial in range(8):
        noisy = [
            pj.LinearMeasurement(pair, counts + 100 * generator.standard_normal(counts.shape), 100.0)
            for pair, counts in zip(pairs, truth, strict=True)
        ]
        fit = estimator.fit(domain, noisy)
        for level, inside in held.items():
            bars = pj.uncertainty.error_bars(fit, noisy, pairs, method="bootstrap", level=level, seed=trial)
            low, high = bars.intervals.T
            exact = np.concatenate([np.ravel(counts) for counts in truth])
            inside.append((low <= exact) & (exact <= high))
            assert (bars.biases > 0).any() and (bars.stddevs >= bars.biases).all()
            linear = pj.uncertainty.error_bars(fit, noisy, pairs, level=level).intervals
            assert np.mean(high - low) < np.mean(linear[:, 1] - linear[:, 0])
    for level, inside in held.items():
        assert np.mean(inside) == pytest.approx(level, abs=0.03)  # 2,368 intervals, eight draws of noise
