"""Files of the library's own formats: what is read back, and what is refused with which words."""

import json

import pytest

from pgmjax._internal import record_file

GOOD = {"format": "pgmjax.thing", "format_version": 3, "a": 1}


def test_a_good_file_comes_back(tmp_path):
    (tmp_path / "x.json").write_text(json.dumps(GOOD))
    assert record_file.read(tmp_path / "x.json", "a thing", "pgmjax.thing", 3) == GOOD


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
        record_file.read(tmp_path / "x.json", "a thing", "pgmjax.thing", 3)
