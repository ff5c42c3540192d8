"""Folders that are there in full or not at all.

Files of the library's own formats: what is read back, and what is refused with which words.
"""

import json
import os

import pytest

from pgmjax._internal import files
from pgmjax._internal.files import check_target, reserve


def test_a_folder_appears_when_it_is_complete(tmp_path):
    out = tmp_path / "above" / "made"
    with reserve(out) as folder:
        (folder / "x").write_text("1")
        assert not out.exists()
    assert (out / "x").read_text() == "1" and os.listdir(out.parent) == ["made"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_fails_leaves_nothing(tmp_path, error):
    with pytest.raises(error), reserve(tmp_path / "above" / "made") as folder:
        (folder / "x").write_text("1")
        raise error
    assert os.listdir(tmp_path) == []


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "made").mkdir()
    with pytest.raises(ValueError, match="exists already"):
        check_target(tmp_path / "made")
    with pytest.raises(ValueError, match="exists already"), reserve(tmp_path / "made"):
        pytest.fail("the block ran")


GOOD = {"format": "pgmjax.thing", "format_version": 3, "a": 1}


def test_a_good_file_comes_back(tmp_path):
    (tmp_path / "x.json").write_text(json.dumps(GOOD))
    assert files.read(tmp_path / "x.json", "a thing", "pgmjax.thing", 3) == GOOD


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is damaged: it is not JSON"),
        ("[" * 100_000, "is damaged: it is not JSON"),
        ("[1]", "was not written by pgmjax or is not a thing"),
        (json.dumps({**GOOD, "format": "other"}), "its format is not 'pgmjax.thing'"),
        (json.dumps({**GOOD, "format_version": 4}), "has format version 4; expected 3"),
    ],
)
def test_anything_else_is_refused(tmp_path, text, message):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        files.read(tmp_path / "x.json", "a thing", "pgmjax.thing", 3)
