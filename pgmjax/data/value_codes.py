"""The codes of single values that somebody wrote down: labels, or codes where no label is a number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from pgmjax.data.attribute import Attribute


def codes_of(attribute: Attribute, values: Iterable[Any], said: str) -> list[int]:
    """Return the code of each value.

    Args:
        attribute: what the values are of.
        values: labels; or codes, where the attribute's labels are no numbers.
        said: what the values are part of, for the message.

    Raises:
        ValueError: a value that is neither.

    Example:
        >>> sex = Attribute.from_spec("sex", {"labels": ["Female", "Male"]})
        >>> codes_of(sex, ["Male", 0], "evidence")
        [1, 0]
    """
    labels = attribute.labels or ()
    numbered = any(isinstance(label, int | float) for label in labels)
    known: dict[tuple[type, Any], int] = {}
    for number, label in enumerate(labels):
        known.setdefault((type(label), label), number)
    codes: list[int] = []
    for value in values:
        value = value.item() if hasattr(value, "item") and np.ndim(value) == 0 else value
        code: int | None = known.get((type(value), value)) if value.__hash__ else None
        if code is None and type(value) is int and not numbered and 0 <= value < attribute.size:
            code = value
        if code is None:
            other = "" if numbered else f" or a code in 0..{attribute.size - 1}"
            raise ValueError(f"{said} on {attribute.name!r} must be one of its labels{other}.")
        codes.append(code)
    return codes
