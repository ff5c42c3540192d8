"""Numbers whose products leave float64: joint states above 1e308, counts and noise of any size."""

import itertools
import warnings

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.estimation import losses

pytestmark = pytest.mark.filterwarnings("error")
PAIR = pj.Domain({"a": 2, "b": 3})


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("number", "size"), [(400, 9), (1200, 2)])
def test_a_fit_of_more_joint_states_than_float64_counts(number, size, dtype, tmp_path):
    """One-way answers that add up: their product is the optimum, whatever one asks of it."""
    domain = pj.Domain({f"x{i}": size for i in range(number)})
    counts = np.arange(1.0, size + 1) * 720 / (size * (size + 1))  # 360 records
    noisy = [pj.LinearMeasurement((name,), counts, stddev=1.0) for name in domain]
    fit = pj.Estimator(dtype=dtype, regularisation="none").fit(domain, noisy)
    model, shares = fit.model, counts / 360
    first, last = domain.attributes[0], domain.attributes[-1]
    pair = model.marginal((first, last))
    np.testing.assert_allclose(pair, 360 * np.outer(shares, shares), rtol=1e-3)
    assert model.mode() == dict.fromkeys(domain, size - 1)
    some = dict.fromkeys(domain.attributes[::2], 0)
    evidence = model.log_partition(some) - model.log_partition()
    np.testing.assert_allclose(evidence, len(some) * np.log(shares[0]), rtol=1e-4)
    given = model.condition({first: 0})
    np.testing.assert_allclose(given.marginal((last,)), 360 * shares[0] * shares, rtol=1e-3)
    rows = model.sample(1000, seed=0)
    assert all(np.abs(np.bincount(rows[n], minlength=size) - 1000 * shares).max() < 2 for n in (first, last))
    model.save(tmp_path / "model")
    np.testing.assert_allclose(pj.load(tmp_path / "model").marginal((first, last)), pair)
    assert all(map(len, (model._repr_html_(), fit._repr_html_(), domain._repr_html_(), repr(fit))))


def noisy(value, stddev):
    return [
        pj.LinearMeasurement(("a",), [value, 2 * value], stddev=stddev),
        pj.LinearMeasurement(("a", "b"), [value / 2] * 6, stddev=[stddev, 1, 2, 3, 4, stddev]),
    ]


SIZES = [1e-320, 1e-300, 1e-38, 1e-3, 1.0, 1e8, 1e20, 1e45, 1e60, 1e150, 1e300]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numbers_of_any_size_are_fitted_or_refused(dtype):
    """Every combination ends in a finite model or a ValueError that names what is too large; none warns."""
    estimator = pj.Estimator(dtype=dtype, max_steps=20, tol=1.0)
    fitted = 0
    for value, stddev, total in itertools.product(SIZES, SIZES, [None, *SIZES]):
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", category=UserWarning)  # of totals below one record
                pj.estimate_total(PAIR, noisy(value, stddev)[:1])
                loss = losses.build("l2", PAIR, noisy(value, stddev), total or value or 1.0, dtype)
                assert np.isfinite(loss.lipschitz())
                if SIZES.index(value) % 3 == 2 and stddev == 1.0:
                    fit = estimator.fit(PAIR, noisy(value, stddev), total)
                    fitted += 1
                    assert np.isfinite(fit.model.marginal(("a", "b"))).all() and np.isfinite(fit.loss)
        except ValueError as error:
            assert any(word in str(error) for word in ("values", "stddev", "total"))
    assert fitted


@pytest.mark.parametrize(
    "make",
    [
        lambda: pj.LinearMeasurement(("a",), [1e300, 2e300], stddev=1e299),
        lambda: pj.LinearMeasurement(("a",), [1.0, 2.0], stddev=1e-300),
        lambda: pj.LinearMeasurement(("a",), [1.0, 2.0], stddev=[1.0, 1e200]),
        lambda: pj.FixedMarginal(("a",), [1e200, 1e200]),
        lambda: pj.GraphicalModel.from_potentials(PAIR, {}, total=1e200),
        lambda: pj.Estimator().fit(PAIR, noisy(1.0, 1.0), total=1e-200),
        lambda: pj.Estimator().fit_batch(PAIR, [noisy(1.0, 1.0)], totals=1e200),
        lambda: pj.Estimator(regularisation="none").fit(
            PAIR, noisy(1.0, 1.0), prior=pj.GraphicalModel.from_potentials(PAIR, {}), prior_weight=1e200
        ),
    ],
)
def test_sizes_whose_squares_overflow_are_refused_where_they_enter(make):
    with pytest.raises(ValueError, match=r"values|stddev|total|fixed marginal|prior_weight"):
        make()
