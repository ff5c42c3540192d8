import numpy as np
import pytest

from pgmjax.data.domain import Domain
from pgmjax.estimation.constraints import FixedMarginal

DOMAIN = Domain({"age": 3, "sex": 2})


def test_counts_probabilities_and_empty_cells():
    fixed = FixedMarginal(("sex", "age"), [[10, 0, 20], [5, 5, 0]])
    assert fixed.total == 40
    np.testing.assert_array_equal(fixed.probabilities * 40, fixed.counts)
    mask = fixed.zeros(DOMAIN)
    assert mask.clique == ("sex", "age")
    np.testing.assert_array_equal(mask.allowed, [[True, False, True], [True, True, False]])
    assert FixedMarginal(("sex",), [1.5, 2.5]).zeros(DOMAIN) is None


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: FixedMarginal(("sex",), [True, False]), TypeError, "must hold counts, got booleans"),
        (lambda: FixedMarginal(("sex",), ["a", "b"]), TypeError, r"\('sex',\).*texts"),
        (lambda: FixedMarginal(("sex",), [3, -1]), ValueError, "counts >= 0"),
        (lambda: FixedMarginal(("sex",), [0, 0]), ValueError, "above zero"),
        (lambda: FixedMarginal(("sex",), [np.nan, 1]), ValueError, "finite"),
        (lambda: FixedMarginal(("sex",), [1, 2, 3]).zeros(DOMAIN), ValueError, r"\(2,\).*\(3,\)"),
    ],
)
def test_bad_input(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_a_sum_beyond_float64_is_refused():
    with pytest.raises(ValueError, match="sum of the fixed marginal"):
        FixedMarginal(("a",), [1e308, 1e308])
