"""Batches of fits: every row is the single fit of its measurements, whatever the others do."""

import dataclasses

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.estimation import batch
from pgmjax.estimation.solvers import batch as programs
from pgmjax.estimation.solvers import loop
from pgmjax.inference.plan.forecast import ModelTooLargeError
from tests.optimum import to_optimum
from tests.solver_names import SOLVERS

DOMAIN = pj.Domain({"a": 3, "b": 4, "c": 5})
CLIQUES = (("a", "b"), ("b", "c"), ("a", "c"))
JOINT = np.random.default_rng(7).dirichlet(np.ones(60)).reshape(3, 4, 5)


def row(seed, total=1000.0, stddev=1.0, cliques=CLIQUES):
    rng = np.random.default_rng(seed)
    measured = []
    for clique in cliques:
        exact = JOINT.sum(tuple(i for i, name in enumerate("abc") if name not in clique)) * total
        measured.append(pj.LinearMeasurement(clique, exact + rng.normal(size=exact.shape) * stddev, stddev))
    return measured


def assert_rows_are_single_fits(estimator, rows, totals, rtol=1e-6, **settings):
    many = estimator.fit_batch(DOMAIN, rows, totals, **settings)
    alone = [estimator.fit(DOMAIN, r, t, **settings) for r, t in zip(rows, totals, strict=True)]
    # two compiled programs round differently, and 240 steps of a row of noise were 242 on one processor
    np.testing.assert_allclose(many.steps, [fit.steps for fit in alone], rtol=0.02)
    assert many.status.tolist() == [fit.status for fit in alone]
    for one, other in zip(many, alone, strict=True):  # each is within its gap of the same optimum
        most = max(one.gap, other.gap) if one.status is pj.Status.CONVERGED else 0.0
        assert one.loss == pytest.approx(other.loss, rel=rtol, abs=most)
    for one, other in zip(many, alone, strict=True):
        assert one.model.total == other.model.total
        ours, theirs = (fit.model.marginal(("a", "b", "c")) for fit in (one, other))
        np.testing.assert_allclose(ours, theirs, atol=1e-4 * other.model.total)
    return many


def test_rows_with_totals_and_stddevs_of_their_own():
    """N from 1e2 to 1e6, stddev from 0.1 to 30, so that rows end after different numbers of steps."""
    totals = [1e2, 1e3, 1e4, 1e5, 1e6, 3e2, 5e4]
    rows = [row(seed, total, (0.1, 1.0, 30.0)[seed % 3]) for seed, total in enumerate(totals)]
    many = assert_rows_are_single_fits(to_optimum(dtype="float64", max_steps=600, tol=1e-6), rows, totals)
    assert len(set(many.steps.tolist())) > 1
    assert (many.gap <= 1e-6 * np.maximum(many.loss, 1))[many.status == pj.Status.CONVERGED].all()


def test_float32_rows_end_as_single_fits():
    totals = [100.0, 2000.0, 3e5]
    rows = [row(seed, total, 3.0) for seed, total in enumerate(totals)]
    assert_rows_are_single_fits(to_optimum(max_steps=150, tol=1e-2), rows, totals)


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver(solver):
    totals = [200.0, 5000.0, 800.0]
    rows = [row(seed, total, 2.0) for seed, total in enumerate(totals)]
    estimator = to_optimum(solver=solver, dtype="float64", max_steps=60, tol=1e-4)
    assert_rows_are_single_fits(estimator, rows, totals, rtol=1e-7)


def test_l1_rows_sharpen_on_their_own():
    totals = [100.0, 5000.0, 1e5]
    rows = [row(seed, total, 2.0 + seed) for seed, total in enumerate(totals)]
    assert_rows_are_single_fits(to_optimum(loss="l1", dtype="float64", max_steps=250), rows, totals)


def test_constraints_and_a_warm_start_hold_for_all_rows():
    possible = np.ones((3, 4), bool)
    possible[0, 0] = False
    zeros = pj.StructuralZeros(("a", "b"), possible)
    estimator = to_optimum(dtype="float64", max_steps=100)
    start = estimator.fit(DOMAIN, row(9), 1000.0).model
    rows = [row(seed) for seed in range(3)]
    settings = {"constraints": [zeros], "warm_start": start}
    many = assert_rows_are_single_fits(estimator, rows, [1000.0] * 3, **settings)
    assert all(fit.model.marginal(("a", "b"))[0, 0] == 0 for fit in many)


def test_each_row_may_begin_at_a_model_of_its_own():
    estimator = to_optimum(dtype="float64", max_steps=40)
    rows = [row(seed, 1000.0, 20.0) for seed in range(3)]
    starts = [estimator.fit(DOMAIN, row(9 - seed, 1000.0, 20.0), 1000.0).model for seed in range(3)]
    many = estimator.fit_batch(DOMAIN, rows, 1000.0, warm_start=starts)
    for one, measured, start in zip(many, rows, starts, strict=True):
        alone = estimator.fit(DOMAIN, measured, 1000.0, warm_start=start)
        assert one.loss == pytest.approx(alone.loss, rel=1e-7)
    with pytest.raises(ValueError, match="one for each of 3 rows, got 2"):
        estimator.fit_batch(DOMAIN, rows, 1000.0, warm_start=starts[:2])
    with pytest.raises(TypeError, match="warm_start must be a GraphicalModel, got int"):
        estimator.fit_batch(DOMAIN, rows, 1000.0, warm_start=[*starts[:2], 3])


def test_more_rows_than_slots_wait_for_their_turn(monkeypatch):
    monkeypatch.setattr(batch, "slots_and_threads", lambda *_: (2, 1))
    totals = [float(10 ** (2 + seed % 4)) for seed in range(7)]
    rows = [row(seed, total) for seed, total in enumerate(totals)]
    assert_rows_are_single_fits(to_optimum(dtype="float64", max_steps=130, tol=1e-4), rows, totals)


@pytest.mark.parametrize("loss", ["l1", "l2"])
def test_rows_certified_in_one_program_are_those_certified_on_the_host(monkeypatch, loss):
    """Seven rows in groups of two, with a prior and impossible cells."""
    monkeypatch.setattr(batch, "slots_and_threads", lambda *_: (4, 1))
    possible = np.ones((3, 4), bool)
    possible[0, 0] = False
    settings = {"constraints": [pj.StructuralZeros(("a", "b"), possible)], "prior_weight": 3.0}
    settings["prior"] = to_optimum(max_steps=50).fit(DOMAIN, row(9), 1000.0).model
    rows, estimator = [row(seed, 500.0, 2.0) for seed in range(7)], to_optimum(loss=loss, max_steps=60)
    apart = estimator.fit_batch(DOMAIN, rows, 500.0, **settings)
    called = []
    evaluate_rows = programs.evaluate_rows
    monkeypatch.setattr(loop, "HOST_CELLS", 0)
    monkeypatch.setattr(
        programs, "evaluate_rows", lambda *asked: called.append(asked[1]) or evaluate_rows(*asked)
    )
    together = estimator.fit_batch(DOMAIN, rows, 500.0, **settings)
    assert len(called) >= 4 and set(called) == {2}
    assert together.steps.tolist() == apart.steps.tolist()
    assert together.status.tolist() == apart.status.tolist()
    np.testing.assert_allclose(together.loss, apart.loss, rtol=1e-10)
    np.testing.assert_allclose(together.gap, apart.gap, rtol=1e-6, atol=1e-9)


def test_totals_are_estimated_row_by_row():
    rows = [row(seed, total, 0.5) for seed, total in enumerate([100.0, 4000.0])]
    many = to_optimum(max_steps=50).fit_batch(DOMAIN, rows)
    alone = [to_optimum(max_steps=50).fit(DOMAIN, r) for r in rows]
    assert [fit.model.total for fit in many] == [fit.model.total for fit in alone]
    assert abs(many[1].model.total - 4000) < 5


def test_one_stddev_in_one_row_and_one_a_value_in_another():
    first, second = row(0), row(1)
    spread = np.linspace(0.5, 2, 12).reshape(3, 4)
    second[0] = pj.LinearMeasurement(("a", "b"), second[0].values, spread)
    query = pj.LinearMeasurement(("a",), [500.0, 900.0, 1000.0], 2.0, query="prefix")
    other = pj.LinearMeasurement(("a",), [480.0, 910.0, 990.0], [1.0, 2.0, 3.0], query="prefix")
    rows = [[*first, query], [*second, other]]
    assert_rows_are_single_fits(to_optimum(dtype="float64", max_steps=100), rows, [1000.0, 900.0])


def test_a_row_that_is_not_finite_leaves_the_others_alone():
    def loss(marginals):  # infinite where more than 50 records are asked for
        return (marginals["a", "b"] ** 2).sum() + 0 / (marginals["a", "b"].sum() < 50)

    estimator = to_optimum(loss=pj.losses.Custom(loss), dtype="float64", max_steps=50)
    many = estimator.fit_batch(DOMAIN, [row(0), row(1)], [40.0, 60.0])
    assert many[1].status is pj.Status.NOT_FINITE
    assert many[0].status is not pj.Status.NOT_FINITE
    assert np.isfinite(many[0].loss)


def test_the_second_batch_compiles_nothing():
    from pgmjax._internal import jit

    estimator = to_optimum(max_steps=60)
    estimator.fit_batch(DOMAIN, [row(seed) for seed in range(4)], 1000.0)
    before = [jit.cache_size(program) for program in programs._programs(None)]
    faster = dataclasses.replace(estimator, max_steps=70)
    faster.fit_batch(DOMAIN, [row(seed, 500.0, 3.0) for seed in range(10, 14)], 500.0)
    assert [jit.cache_size(program) for program in programs._programs(None)] == before


def test_the_result_is_a_sequence_with_arrays():
    many = to_optimum(max_steps=20).fit_batch(DOMAIN, [row(0), row(1)], [1000, 1000])
    assert len(many) == 2 and many[1] is list(many)[1]
    assert many.status.shape == many.steps.shape == many.loss.shape == many.gap.shape == (2,)
    assert many.gap[0] == many[0].gap


def test_memory_decides_how_many_rows_run_at_once():
    plan = to_optimum().plan(DOMAIN, CLIQUES)
    one = plan.peak_bytes + plan.copies * plan.oracle.forecast.inputs * plan.itemsize
    kept = 100 * batch.ROW_BYTES * plan.oracle.forecast.inputs
    for rows_at_once in (1, 3, 8):
        limited = dataclasses.replace(plan, max_bytes=kept + rows_at_once * one)
        slots, threads = batch.slots_and_threads(limited, 100, None)
        assert slots * threads <= rows_at_once
    with pytest.raises(ModelTooLargeError, match=r"results of 100 fits take about .* Fit fewer rows"):
        batch.slots_and_threads(dataclasses.replace(plan, max_bytes=kept + one - 1), 100, None)


def test_fits_within_max_bytes_are_the_same():
    rows = [row(seed) for seed in range(5)]
    estimator = to_optimum(dtype="float64", max_steps=60)
    plan = estimator.plan(DOMAIN, CLIQUES)
    inputs = plan.oracle.forecast.inputs
    need = plan.peak_bytes + plan.copies * inputs * 8 + 5 * batch.ROW_BYTES * inputs
    tight = dataclasses.replace(estimator, max_bytes=need)
    np.testing.assert_allclose(
        tight.fit_batch(DOMAIN, rows, 1000.0).loss, estimator.fit_batch(DOMAIN, rows, 1000.0).loss, rtol=1e-9
    )


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ([], ValueError, "a batch needs at least one row of measurements, got none"),
        (row(0), TypeError, "measurements of a batch must be a list of lists, one list a row"),
        ([row(0), ["b"] * 3], TypeError, "measurements.*LinearMeasurement.*str"),
        ([row(0), row(1)[:2]], ValueError, "row 0 has 3 measurements, row 1 has 2. Fit it apart"),
        ([row(0), row(1), row(2)[::-1]], ValueError, "measurement 0 of row 2 has another clique"),
        (
            [
                [pj.LinearMeasurement(("a",), [1, 2, 3], 1.0)],
                [pj.LinearMeasurement(("a",), [1, 2, 3], 1.0, query="prefix")],
            ],
            ValueError,
            "measurement 0 of row 1 has another query",
        ),
    ],
)
def test_rows_that_do_not_fit_together_are_refused(rows, error, message):
    with pytest.raises(error, match=message):
        to_optimum().fit_batch(DOMAIN, rows)


@pytest.mark.parametrize(
    ("totals", "message"),
    [([1.0], "totals must be one number or one a row: 2 rows, got 1"), ([1.0, -1.0], "total.*-1")],
)
def test_totals_that_do_not_fit_are_refused(totals, message):
    with pytest.raises(ValueError, match=message):
        to_optimum().fit_batch(DOMAIN, [row(0), row(1)], totals)
