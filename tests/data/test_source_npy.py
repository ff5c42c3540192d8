"""Tables of codes in .npy files: the same counts as in memory, in order, and what is refused."""

import numpy as np
import pytest

from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain

DOMAIN = Domain({"a": 3, "b": 2})
CODES = np.array([[0, 1], [2, 0], [2, 1], [1, 1]])


def saved(tmp_path, codes, name="t.npy"):
    np.save(tmp_path / name, codes)
    return tmp_path / name


@pytest.mark.parametrize("dtype", ["int64", "uint8", "int16"])
def test_counts_and_order(tmp_path, dtype, monkeypatch):
    monkeypatch.setattr("pgmjax.data.files.BATCH_ROWS", 3)
    data = Dataset.read(saved(tmp_path, CODES.astype(dtype)), DOMAIN)
    assert data.marginals([("b", "a")])[0].tolist() == [[0, 0, 1], [1, 1, 1]] and data.count() == 4
    parts = list(data.records(("b", "a")))
    assert [len(part["a"]) for part in parts] == [3, 1]
    assert np.concatenate([part["a"] for part in parts]).tolist() == [0, 2, 2, 1]
    assert data.layout == {"a": "0", "b": "1"}


def test_one_attribute_needs_one_axis(tmp_path):
    data = Dataset.read(saved(tmp_path, CODES[:, 0]), Domain({"a": 3}))
    assert data.marginals([("a",)])[0].tolist() == [1, 1, 2]


def test_a_code_outside_is_an_error(tmp_path):
    data = Dataset.read(saved(tmp_path, CODES + 1), DOMAIN)
    for act in (data.validate, lambda: list(data.records(("a", "b")))):
        with pytest.raises(ValueError, match="2 rows"):
            act()


def test_the_same_file_is_known_again(tmp_path):
    first, second = (Dataset.read(saved(tmp_path, CODES, name), DOMAIN) for name in ("x.npy", "y.npy"))
    key = b"0123456789abcdef"
    assert first.fingerprint(key) == second.fingerprint(key)


@pytest.mark.parametrize(
    "codes, kind, words",
    [
        (CODES[:, :1], ValueError, "2 attributes, got 1 columns"),
        (CODES[0], ValueError, "got 1 axes"),
        (CODES.astype(float), TypeError, "float64"),
    ],
)
def test_other_forms_are_refused(tmp_path, codes, kind, words):
    with pytest.raises(kind, match=words):
        Dataset.read(saved(tmp_path, codes), DOMAIN)


def test_damaged_files_and_weights_are_refused(tmp_path):
    (tmp_path / "t.npy").write_bytes(b"no numbers")
    with pytest.raises(ValueError, match=r"t\.npy"):
        Dataset.read(tmp_path / "t.npy", DOMAIN)
    with pytest.raises(ValueError, match="no column of weights"):
        Dataset.read(saved(tmp_path, CODES), DOMAIN, weights="w", max_weight=2)
