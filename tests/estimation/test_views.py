"""The trace of a fit and its picture."""

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot

import pgmjax as pj
from tests.optimum import to_optimum

matplotlib.use("Agg")
DOMAIN = pj.Domain({"a": 4, "b": 5, "c": 3})


@pytest.fixture(autouse=True)
def close():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def measurements():
    generator = np.random.default_rng(0)
    cliques = [("a", "b"), ("b", "c"), ("a", "c")]
    return [
        pj.LinearMeasurement(c, 50 + 20 * generator.normal(size=DOMAIN.shape_of(c)), 5.0) for c in cliques
    ]


@pytest.fixture(scope="module")
def fit(measurements):
    return to_optimum(progress=False, max_steps=220, tol=0).fit(DOMAIN, measurements)


def test_the_trace_has_every_block_and_ends_where_the_fit_ends(fit):
    steps, loss, gap = np.array(fit.trace).T
    assert (np.diff(steps) > 0).all() and steps[-1] == fit.steps and len(steps) > 2
    assert loss[-1] == pytest.approx(fit.loss, rel=1e-5)
    assert (loss - gap <= fit.loss).all()  # what a certificate bounds: no loss is below
    assert gap[-1] < gap[0]


def test_a_smoothed_loss_is_certified_for_the_loss_itself(measurements):
    fit = to_optimum(loss="l1", progress=False, max_steps=2000).fit(DOMAIN, measurements)
    steps, loss, gap = np.array(fit.trace).T
    assert (np.diff(steps) > 0).all() and steps[-1] == fit.steps
    assert (loss <= fit.loss + fit.gap + gap).all()
    assert (gap >= 0).all() and gap[-1] < gap[0]


def test_each_row_of_a_batch_has_its_own_trace(measurements):
    noisier = [pj.LinearMeasurement(m.clique, m.values * 2, 5.0) for m in measurements]
    batch = to_optimum(progress=False, max_steps=200).fit_batch(DOMAIN, [measurements, noisier])
    ends = [fit.trace[-1] for fit in batch]
    assert [end[0] for end in ends] == batch.steps.tolist()
    assert [end[1] for end in ends] == pytest.approx(batch.loss.tolist(), rel=1e-4)
    assert ends[0][1] != ends[1][1]


def test_the_picture_holds_the_trace_and_the_end(fit):
    axes = fit.plot_trace()
    drawn = {line.get_label(): line for line in axes.lines}
    steps, loss, gap = np.array(fit.trace).T
    assert drawn["loss"].get_xdata().tolist() == steps.tolist()
    assert drawn["loss"].get_ydata().tolist() == loss.tolist()
    assert drawn["certified gap"].get_ydata().tolist() == np.where(gap > 0, gap, np.nan).tolist()
    ends = [line.get_xydata()[0].tolist() for line in axes.lines if len(line.get_xdata()) == 1]
    assert ends == [[fit.steps, fit.loss], [fit.steps, fit.gap]]
    assert axes.get_yscale() == "log" and axes.get_xlabel() == "steps"
    assert axes.get_title(loc="left").startswith(f"{fit.status.name} after {fit.steps:,} steps")
    _, given = pyplot.subplots()
    assert fit.plot_trace(given) is given and given.lines


def test_a_fit_without_a_solver_has_nothing_to_draw(fit):
    from pgmjax.estimation.estimator import Fit

    made = Fit(fit.model, fit.status, 0, 1.0, 1.0, None)
    assert made.trace == ()
    with pytest.raises(ValueError, match="no trace"):
        made.plot_trace()
