"""Folders that are there in full or not at all."""

import os

import pytest

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
