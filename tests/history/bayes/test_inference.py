"""What an answer tells: intervals that cover, probabilities, tests, joint distributions."""

import numpy as np
import pytest
from scipy import stats

from pgmjax.history.bayes.blue import BestLinearUnbiased
from pgmjax.history.bayes.consistent import DeclinedError, InferenceControl
from pgmjax.history.bayes.distribution import NoiseSum
from pgmjax.history.bayes.inference import Claim, Inference
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace, Gaussian

H = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 2], [1, 1, 1], [0, 1, 0]], float)
TABLE = np.array([30, 5, 12])
TARGET = np.array([1.0, 0.0, 1.0])


def draw(distribution, size, rng):
    ends = np.arange(-60 * int(distribution.scale + 1), 60 * int(distribution.scale + 1) + 1)
    probabilities = distribution.probabilities(ends)
    return rng.choice(ends, p=probabilities / probabilities.sum(), size=size)


@pytest.mark.parametrize("scale", [0.5, 1.0, 4.0, 50.0])
@pytest.mark.parametrize("kind", [DiscreteLaplace, DiscreteGaussian])
def test_intervals_cover(scale, kind):
    """Over simulated histories with the released distribution; where it is too coarse they cover more."""
    rng = np.random.default_rng(int(10 * scale))
    size, distributions = 20_000, [kind(scale)] * 6
    values = H @ TABLE + np.stack([draw(distribution, size, rng) for distribution in distributions], axis=1)
    blue = BestLinearUnbiased.from_matrix(H, values[0], distributions)
    answer = blue.answer(TARGET)
    low, high = (end - answer.value for end in answer.interval(0.95))
    estimates = values @ blue.combination(TARGET)[0]
    truth = TARGET @ TABLE
    covered = ((estimates + low <= truth) & (truth <= estimates + high)).mean()
    error = 4 * np.sqrt(0.05 * 0.95 / size)
    assert covered >= 0.95 - error
    coarse = answer.computed.between(low, high) - 0.95
    assert covered <= 0.95 + coarse + error
    if scale >= 4:
        assert coarse < 0.002


def test_the_width_does_not_depend_on_answers():
    widths = {
        BestLinearUnbiased.from_matrix(H, H @ TABLE + y, 4.0).answer(TARGET).half_width(0.9)
        for y in (0, 3.3, -100)
    }
    assert len(widths) == 1


def test_ends_hold_a_true_answer_on_them():
    """A count with noise of scale 1 / 2: errors of exactly the half-width are common."""
    answer = BestLinearUnbiased.from_matrix([[3.0]], [3 * 0.1 + 1], DiscreteLaplace(0.5)).answer([1.0])
    low, high = answer.interval(0.9)
    assert low <= 0.1 <= high and high - low == pytest.approx(2 / 3, abs=1e-6)


def test_probabilities_tests_and_opposites():
    answer = Inference(2.0, NoiseSum([1.0], [Gaussian(4.0)]))
    known = stats.norm(2, 4)
    assert answer.probability(0, 3) == pytest.approx(known.cdf(3) - known.cdf(0))
    assert answer.probability(low=0) == pytest.approx(known.sf(0))
    assert answer.probability() == 1.0
    union = [(4, 9), (-np.inf, -1), (8, 10), (5, 6)]
    expected = known.cdf(-1) + known.cdf(10) - known.cdf(4)
    assert answer.probability_of_set(union) == pytest.approx(expected)
    assert answer.probability_of_set([(-np.inf, 3), (2, np.inf)]) == 1.0
    assert answer.probability_of_set([]) == 0.0
    verdict = answer.test(Claim(low=-6), level=0.95)
    assert verdict.holds is True and verdict.probability == pytest.approx(known.sf(-6))
    assert answer.test(Claim(low=10), level=0.95).holds is False
    assert answer.test(Claim(low=1), level=0.95).holds is None


def test_claims_at_atoms_are_closed_or_strict():
    distribution = DiscreteLaplace(1.0)
    answer = Inference(5.0, NoiseSum([1.0], [distribution]))
    atom = float(distribution.probabilities(np.array([0]))[0])
    closed, strict = (answer.test(Claim(low=5.0, strict=s)).probability for s in (False, True))
    assert closed - strict == pytest.approx(atom)
    claim, opposite = Claim(high=3.0), Claim(low=3.0, strict=True)
    assert answer.test(claim).probability + answer.test(opposite).probability == pytest.approx(1)
    assert answer.test(Claim(2, 2, strict=True)).probability == 0
    for bad in ({"low": np.nan}, {"low": "a"}):
        with pytest.raises(ValueError, match="must be a number or infinite"):
            Claim(**bad)
    with pytest.raises(ValueError, match="low end must not be above"):
        Claim(3, 2)


def test_joint_distributions():
    blue = BestLinearUnbiased.from_matrix(H, H @ TABLE, DiscreteLaplace(4.0))
    targets = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0]], float)
    joint = blue.answers(targets)
    assert len(joint) == 3 and joint[1].value == pytest.approx(5)
    draws = joint.draws(40_000)
    np.testing.assert_allclose(np.cov((draws - joint.values).T), joint.covariance, rtol=0.05, atol=0.5)
    np.testing.assert_allclose(np.diag(joint.covariance), blue.variances(targets))
    np.testing.assert_allclose(draws[:, 0] + draws[:, 1], draws[:, 2], atol=1e-9)
    ends = joint.intervals(0.9, size=40_000)
    share, error = joint.probability(ends[:, 0], ends[:, 1], size=40_000, seed=1)
    assert 0.9 <= share <= 0.9 + 10 * error  # the draws' own error is added to the level
    with pytest.raises(ValueError, match="closer to 1 than 100 draws tell"):
        joint.intervals(0.999, size=100)
    single = joint[0].half_width(0.9)
    assert single < (ends[0, 1] - ends[0, 0]) / 2 < joint[0].half_width(0.97)


def test_inference_control():
    query = ([1.0, 0.0], Claim(low=10.0))
    control = InferenceControl([query, ([0.0, 1.0], Claim(high=0.0))], level=0.9)
    unsure = BestLinearUnbiased.from_matrix([[1.0, 0.0]], [11], 5.0)
    control.check(unsure)
    sure = unsure.append([1.0, 0.0], 40, 5.0)
    assert [verdict.claim for verdict in control.passed(sure)] == [query[1]]
    with pytest.raises(DeclinedError, match="1 of 2 watched claims are known") as caught:
        control.check(sure)
    assert caught.value.verdicts[0].probability > 0.9
    with pytest.raises(TypeError, match="pairs of a query and a Claim"):
        InferenceControl([[1.0, 0.0]])
    with pytest.raises(ValueError, match=r"level.*1"):
        InferenceControl([query], level=1.0)


def test_bad_method():
    with pytest.raises(ValueError, match=r"method.*'magic'"):
        Inference(1.0, NoiseSum([1.0], 1.0), method="magic")
