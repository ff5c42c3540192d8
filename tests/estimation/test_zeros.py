import numpy as np
import pytest

from pgmjax.data.domain import Domain
from pgmjax.estimation.constraints import StructuralZeros

DOMAIN = Domain({"age": 3, "driver": 2})


def test_mask():
    zeros = StructuralZeros(["age", "driver"], [[1 > 2, True], [True, True], [True, False]])
    assert zeros.zeros(DOMAIN) is zeros
    assert zeros.clique == ("age", "driver") and zeros.allowed.dtype == bool
    np.testing.assert_array_equal(np.exp(zeros.log_mask()), zeros.allowed)
    again = StructuralZeros(("age", "driver"), zeros.allowed)
    assert zeros == again and hash(zeros) == hash(again)
    with pytest.raises(ValueError, match="read-only"):
        zeros.allowed[0, 0] = True


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: StructuralZeros("age", [True]), TypeError, r"'age'.*\('age',\)"),
        (lambda: StructuralZeros(("age",), [1, 0, 1]), TypeError, r"mask over \('age',\) must be boolean"),
        (lambda: StructuralZeros(("age",), [False] * 3), ValueError, "allows no combination"),
        (lambda: StructuralZeros(("age", "driver"), [True]), ValueError, r"\('age', 'driver'\).*2"),
        (lambda: StructuralZeros(("age",), [True]).zeros(DOMAIN), ValueError, r"\(3,\).*\(1,\)"),
        (lambda: StructuralZeros(("zip",), [True]).zeros(DOMAIN), ValueError, "zip"),
    ],
)
def test_bad_input(make, error, message):
    with pytest.raises(error, match=message):
        make()
