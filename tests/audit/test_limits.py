"""Limits of a probability against scipy's."""

import numpy as np
import pytest
import scipy.stats

from pgmjax.audit import blackbox


@pytest.mark.parametrize(("held", "of"), [(0, 10), (1, 10), (37, 100), (10, 10), (4999, 5000)])
def test_confidence_limits_against_scipy(held, of):
    truth = scipy.stats.binomtest(held, of).proportion_ci(1 - 2e-6, method="exact")
    assert blackbox.at_least(np.array(held), of, 1e-6) == pytest.approx(truth.low, rel=1e-9)
    assert blackbox.at_most(np.array(held), of, 1e-6) == pytest.approx(truth.high, rel=1e-9)
