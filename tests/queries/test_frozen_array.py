import pickle

import numpy as np
import pytest

from pgmjax.queries.blocks import FrozenArray


def test_content_decides():
    first, second = FrozenArray([[1, 2]]), FrozenArray(np.array([[1, 2]], np.int32))
    assert first == second and hash(first) == hash(second)
    assert (
        first != FrozenArray([[2, 1]]) and first != FrozenArray([[1.0, 2.0]]) and first != FrozenArray([1, 2])
    )
    assert first != "array" and pickle.loads(pickle.dumps(first)) == first
    assert repr(first) == "FrozenArray(shape=(1, 2), dtype=int64)"


def test_it_is_a_copy_and_cannot_be_changed():
    source = np.array([1, 2])
    frozen = FrozenArray(source)
    source[0] = 9
    assert frozen.array[0] == 1
    with pytest.raises(ValueError, match="read-only"):
        frozen.array[0] = 3
    with pytest.raises(AttributeError, match="cannot be changed"):
        frozen.array = source


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ([], ValueError, r"\(0,\)"),
        ([[1], [2, 3]], ValueError, "rectangular"),
        ([np.inf], ValueError, "1 of 1"),
        (["x"], TypeError, "texts"),
        ([1j], TypeError, "complex"),
        (np.array([2**63], np.uint64), ValueError, "64-bit signed"),
    ],
)
def test_bad_input(values, error, message):
    with pytest.raises(error, match=f"mask.*{message}"):
        FrozenArray(values, "the mask")
