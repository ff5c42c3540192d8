"""Fingerprints: the same for the same table, another for any other, and nothing without the key."""

import hashlib
import hmac

import numpy as np
import pytest

from pgmjax.data import fingerprint
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain

KEY = b"sixteen secret bytes"
COLUMNS = {"age": np.array([0, 2, 1]), "sex": np.array([1, 0, 1])}
EMPTY = np.zeros(0, int)


def test_columns():
    first = fingerprint.of_columns(COLUMNS, KEY)
    assert len(first) == 64 and set(first) <= set("0123456789abcdef")
    assert first == fingerprint.of_columns(dict(reversed(COLUMNS.items())), KEY)
    assert first == fingerprint.of_columns({n: c.astype(np.uint8) for n, c in COLUMNS.items()}, KEY)
    assert first == fingerprint.of_columns({n: c.tolist() for n, c in COLUMNS.items()}, KEY)
    assert first == fingerprint.of_columns({n: np.repeat(c, 2)[::2] for n, c in COLUMNS.items()}, KEY)


OTHERS = {
    "a value": {"age": [0, 2, 0], "sex": [1, 0, 1]},
    "rows in another order": {"age": [2, 0, 1], "sex": [0, 1, 1]},
    "a name": {"Age": [0, 2, 1], "sex": [1, 0, 1]},
    "columns exchanged": {"age": [1, 0, 1], "sex": [0, 2, 1]},
    "a column less": {"age": [0, 2, 1]},
    "weights": {"age": [0, 2, 1], "sex": [1, 0, 1], "": [1, 1, 1]},
    "a row moved on": {"age": [0, 2, 1, 1], "sex": [0, 1]},
    "nothing": {},
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_other_columns(other):
    assert fingerprint.of_columns(other, KEY) != fingerprint.of_columns(COLUMNS, KEY)


@pytest.mark.parametrize(
    "pair",
    [
        ({"a": EMPTY, "b": EMPTY}, {"a" + 8 * "\0" + "b": EMPTY}),
        ({"a": np.array([0])}, {"a\1" + 7 * "\0": EMPTY}),  # a number in eight bytes, the lowest first
    ],
    ids=["two columns or one", "a row or none"],
)
def test_a_name_does_not_run_on_into_what_follows_it(pair):
    """Even where names, numbers of rows and codes, written one after the other, are the same bytes."""
    first, second = pair
    assert fingerprint.of_columns(first, KEY) != fingerprint.of_columns(second, KEY)


def test_long_columns_are_read_in_pieces(monkeypatch):
    whole = fingerprint.of_columns({"age": np.arange(1000)}, KEY)
    monkeypatch.setattr(fingerprint, "_CHUNK", 7)
    assert fingerprint.of_columns({"age": np.arange(1000)}, KEY) == whole


def test_files(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_bytes(bytes(range(256)) * 40)
    (tmp_path / "copy.dat").write_bytes(bytes(range(256)) * 40)
    first = fingerprint.of_path(tmp_path / "a.csv", KEY)
    assert first == fingerprint.of_path(str(tmp_path / "copy.dat"), KEY), "a table may be moved"
    monkeypatch.setattr(fingerprint, "_CHUNK", 100)
    assert fingerprint.of_path(tmp_path / "a.csv", KEY) == first
    (tmp_path / "a.csv").write_bytes(bytes(range(256)) * 40 + b"\n")
    assert fingerprint.of_path(tmp_path / "a.csv", KEY) != first


def folder(place, files):
    for name, content in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)
    return fingerprint.of_path(place, KEY)


def test_folders(tmp_path):
    parts = {"1.parquet": b"ab", "sub/2.parquet": b"c"}
    first = folder(tmp_path / "first", parts)
    assert first == folder(tmp_path / "again", dict(reversed(parts.items())))
    aside = {"_metadata.parquet": b"x", ".1.parquet": b"x", "README": b"x"}
    assert first == folder(tmp_path / "aside", {**parts, **aside})
    others = [
        {"1.parquet": b"abc", "sub/2.parquet": b""},
        {"1.parquet": b"ab", "sub/3.parquet": b"c"},
        {"1.parquet": b"ab"},
        {"1.parquet": b"c", "sub/2.parquet": b"ab"},
    ]
    digests = {folder(tmp_path / f"other {k}", files) for k, files in enumerate(others)}
    assert len(digests) == 4 and first not in digests
    assert folder(tmp_path / "one", {"1.parquet": b"ab"}) != fingerprint.of_path(
        tmp_path / "one" / "1.parquet", KEY
    )


def test_the_key_decides(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"age\n1\n")
    other = b"another secret key"
    assert fingerprint.of_columns(COLUMNS, KEY) != fingerprint.of_columns(COLUMNS, other)
    assert fingerprint.of_path(tmp_path / "a.csv", KEY) != fingerprint.of_path(tmp_path / "a.csv", other)
    known = {hashlib.sha256(b"age\n1\n").hexdigest(), hmac.new(KEY, b"age\n1\n", "sha256").hexdigest()}
    assert fingerprint.of_path(tmp_path / "a.csv", KEY) not in known


@pytest.mark.parametrize(
    ("columns", "key", "error", "said"),
    [
        ({"age": [0.5]}, KEY, TypeError, "Column 'age' must hold integer codes, got float64"),
        ({"age": [True]}, KEY, TypeError, "got bool"),
        ({"age": ["Jane"]}, KEY, TypeError, "must hold integer codes"),
        ({"age": [[1]]}, KEY, ValueError, r"one-dimensional, got shape \(1, 1\)"),
        ({"age": 3}, KEY, ValueError, "one-dimensional"),
        ({"age": [1]}, "text" * 9, TypeError, "key must be bytes, got str"),
        ({"age": [1]}, b"short", ValueError, "at least 16 bytes, got 5"),
    ],
)
def test_bad_input(columns, key, error, said):
    with pytest.raises(error, match=said) as refused:
        fingerprint.of_columns(columns, key)
    assert "Jane" not in str(refused.value)


def test_missing_tables(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no table at"):
        fingerprint.of_path(tmp_path / "none.csv", KEY)
    with pytest.raises(ValueError, match=r"holds no \.parquet file"):
        fingerprint.of_path(tmp_path, KEY)


@pytest.mark.parametrize(
    ("columns", "error", "said"),
    [
        ({1: [1]}, TypeError, "The name of a column must be a string, got int"),
        ({"age": [1], 1: [1]}, TypeError, "The name of a column must be a string, got int"),
        ([[1]], TypeError, "columns.*list"),
        (
            {"age": [[7], [7, 2]]},
            ValueError,
            "Column 'age' must be one-dim.* several lengths",
        ),
    ],
)
def test_columns_of_another_form(columns, error, said):
    with pytest.raises(error, match=said) as refused:
        fingerprint.of_columns(columns, KEY)
    assert "7" not in str(refused.value)


def test_a_release_within_a_folder_is_no_part_of_its_table(tmp_path):
    (tmp_path / "r").mkdir()
    for place in (tmp_path / "a.parquet", tmp_path / "r" / "synthetic.parquet"):
        place.write_bytes(b"PAR1")
    assert len(fingerprint.parts_of(tmp_path)) == 2
    (tmp_path / "r" / "release.json").write_text("{}")
    with pytest.raises(ValueError, match=r"holds a release, .*r, whose files are no parts of a table"):
        fingerprint.parts_of(tmp_path)


def test_a_column_has_any_name_beside_weights():
    """A column of the name under which weights are digested did not count."""
    table = {"a": [0, 1], "other": [1, 1]}
    weighted = {"weights": [2, 3], "max_weight": 5}
    found = {
        Dataset.from_columns(Domain({"a": 2}), {**table, **more}, **weighted).identity(KEY)
        for more in ({}, {"\nweights": [2, 3]}, {"\nweights": [2, 4]}, {"\nweights": ["x", "y"]})
    }
    assert len(found) == 4
