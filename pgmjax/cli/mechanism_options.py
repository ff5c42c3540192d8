"""Options of a mechanism as words of the command line: NAME=VALUE."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pgmjax import mechanisms


def read(mechanism: type[Any], words: Sequence[str]) -> dict[str, Any]:
    """Return a mechanism's options from words such as `rounds=10`.

    A value is read as JSON where it is that (10, 0.5, true, null, ["a"]), otherwise it is text.

    Raises:
        ValueError: a word without "=", an option named twice, or one that the mechanism does not have.
    """
    known = mechanisms.options(mechanism)
    found: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name:
            raise ValueError(f"--option takes NAME=VALUE, got {word!r}.")
        if name not in known:
            listed = ", ".join(known) or "none"
            raise ValueError(f"The mechanism {mechanism.name} has no option {name!r}; it has: {listed}.")
        if name in found:
            raise ValueError(f"--option {name} is given twice.")
        found[name] = _value(text)
    return found


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
