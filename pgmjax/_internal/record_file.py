"""JSON files that say what they are: a format's name and its version beside the contents."""

from __future__ import annotations

import json
import pathlib
from typing import Any


def read(path: pathlib.Path, what: str, name: str, version: int) -> dict[str, Any]:
    """Read a file that this library wrote, or say what is wrong with it.

    Args:
        path: the file.
        what: what it should be, in words, such as "a model of pgmjax".
        name: the format's name, under the key `format`.
        version: the only version that is read, under the key `format_version`.

    Raises:
        ValueError: it is no JSON, of another program, or of another version.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise ValueError(f"{path} is damaged: it is not JSON. Make or copy it again.") from None
    if not isinstance(record, dict) or record.get("format") != name:
        raise ValueError(f"{path} was not written by pgmjax or is not {what}: its format is not {name!r}.")
    if record.get("format_version") != version:
        raise ValueError(
            f"{path} has format version {record.get('format_version')!r}; expected {version}. Install the "
            "version of pgmjax it names."
        )
    return record
