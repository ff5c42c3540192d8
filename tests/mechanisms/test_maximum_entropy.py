"""Publishing by maximum entropy: the optimality conditions of the paper, and what it refuses."""

import numpy as np
import pytest
from scipy.optimize import lsq_linear

import pgmjax as pj
from pgmjax.mechanisms import Marginals, MaximumEntropy
from pgmjax.mechanisms.measure_once import release_together
from pgmjax.privacy import SeededBackend

DOMAIN = pj.Domain({"a": 3, "b": 2, "c": 2})
RNG = np.random.default_rng(2)
A = RNG.choice(3, 400, p=[0.6, 0.3, 0.1])
COLUMNS = {"a": A, "b": (A > 0) ^ (RNG.random(400) < 0.1), "c": RNG.integers(0, 2, 400)}
DATA = pj.Dataset.from_columns(DOMAIN, {name: codes.astype(int) for name, codes in COLUMNS.items()})
PAIRS = pj.Workload.all_kway(DOMAIN, 2)


def make(relation="replace-one", seed=0, **more):
    backend = SeededBackend(seed, insecure=True)
    return MaximumEntropy(epsilon=1, relation=relation, backend=backend, **more)


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_the_conditions_of_the_optimum(relation):
    """log p is a sum of weights within the box; a weight is at its end where the answer is not met."""
    alpha = 0.02
    estimator = pj.Estimator(tol=1e-10, progress=False)
    release = make(relation, alpha=alpha, estimator=estimator).run(DATA, PAIRS)
    total = release.model.total
    assert (total == 400) == (relation == "replace-one")
    p = release.model.marginal(tuple(DOMAIN)).ravel() / total
    cells = np.arange(12).reshape(3, 2, 2)
    rows, scales, targets = [], [], []
    for measured in release.measurements:
        axes = tuple(k for k, name in enumerate(DOMAIN) if name not in measured.clique)
        one_hot = np.eye(12)[cells].sum(axis=axes).reshape(-1, 12)
        rows.append(one_hot)
        scales += [measured.distribution.scale] * len(one_hot)
        targets += (measured.values.ravel() / total).tolist()
    rows, box = np.concatenate(rows), alpha * total / np.array(scales)
    residuals = np.array(targets) - rows @ p
    low = np.where(residuals > 1e-4, box * (1 - 1e-6), -box)
    high = np.where(residuals < -1e-4, -box * (1 - 1e-6), box)
    assert (np.abs(residuals) > 1e-4).any()  # of noisy answers not all can be met
    design = np.vstack([rows, np.ones(12)]).T
    bounds = np.append(low, -np.inf), np.append(high, np.inf)
    found = lsq_linear(design, np.log(p), bounds, tol=1e-12)
    assert np.abs(design @ found.x - np.log(p)).max() < 2e-3


def test_a_larger_alpha_follows_the_answers_more_closely():
    def away(alpha):
        release = make(alpha=alpha).run(DATA, PAIRS)
        model = release.model
        found = [np.abs(m.values - model.marginal(m.clique).ravel()).sum() for m in release.measurements]
        return sum(found), release.fit

    (far, _), (near, fit) = away(1e-4), away(1.0)
    assert near < far / 2 and fit.method == "maximum entropy" and fit.loss > 0


def test_it_measures_what_marginals_measures_and_batches_are_single_fits():
    plain = Marginals(epsilon=1, relation="replace-one", backend=SeededBackend(0, insecure=True))
    first = make(alpha=0.1).run(DATA, PAIRS)
    for own, other in zip(first.measurements, plain.run(DATA, PAIRS).measurements, strict=True):
        np.testing.assert_array_equal(own.values, other.values)
    together = release_together([make(alpha=0.1, seed=s).measure(DATA, PAIRS) for s in (0, 1)])
    np.testing.assert_array_equal(together[0].answers()[0], first.answers()[0])
    assert together[1].fit.method == "maximum entropy"


class Own(pj.oracles.Oracle):
    pass


@pytest.mark.parametrize(
    "setting", [{"loss": "l1"}, {"solver": "lbfgs"}, {"regularisation": 5.0}, {"oracle": Own}]
)
def test_settings_of_another_fit_are_refused(setting):
    with pytest.raises(ValueError, match=f"has no {next(iter(setting))} to choose"):
        make(estimator=pj.Estimator(**setting))


def test_alpha_must_be_above_zero():
    with pytest.raises(ValueError, match=r"alpha.*0"):
        make(alpha=0)


def test_the_report_says_what_the_loss_is(tmp_path):
    from pgmjax.release import folder

    out = folder.write(make(alpha=0.1).run(DATA, PAIRS), tmp_path / "r", show_progress=False)
    said = (out / "report.html").read_text()
    assert "The model is the distribution of maximum entropy" in said and "half the sum" not in said
    assert folder.read(out).record["fit"]["method"] == "maximum entropy"
