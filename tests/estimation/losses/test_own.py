"""The loss of docs/own.md, as a reader copies it."""

import pathlib
import re

import numpy as np
import pytest

import pgmjax as pj
from tests.optimum import to_optimum

PAGE = (pathlib.Path(__file__).parents[3] / "docs" / "own.md").read_text()


def program(number, **given):
    """The names that a program of the page defines."""
    exec(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[number], given)
    return given


def measured(shift):
    counts = np.array([[30.0, 20.0], [25.0, 15.0], [4.0, 6.0]])
    far = [99.0 + shift, 1.0 - shift]
    return [
        pj.LinearMeasurement(("age", "sex"), counts, stddev=1.0),
        pj.LinearMeasurement(("sex",), [59.0, 41.0], stddev=1.0),
        pj.LinearMeasurement(("sex",), far, stddev=1.0),
    ]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("oracle", ["contraction", "host"])
def test_the_huber_loss_is_certified_at_its_optimum(dtype, oracle):
    """With d more women than 59 it is d^2 / 3 + d^2 + 4 (39 + shift) - 4 d, least at d = 3 / 2."""
    domain = pj.Domain({"age": 3, "sex": 2})
    found = program(3, **program(2))
    estimator = to_optimum(loss=found["Huber"](), dtype=dtype, tol=1e-9, oracle=oracle)
    rows = [measured(shift) for shift in (0.0, 7.0, 20.0)]
    fits = [estimator.fit(domain, row, total=100) for row in rows]
    if oracle == "contraction":
        fits += estimator.fit_batch(domain, rows, totals=100)
    for fit, shift in zip(fits, (0.0, 7.0, 20.0) * 2, strict=False):
        optimum = 153 + 4 * shift
        assert fit.status is pj.Status.CONVERGED and fit.gap <= 1e-9 * fit.loss
        assert fit.loss - fit.gap - 1e-9 * optimum <= optimum <= fit.loss + 1e-9 * optimum
        np.testing.assert_allclose(fit.model.marginal(("sex",)), [60.5, 39.5], atol=1e-3)
