"""Docstrings as the reference reads them: their `Example:` is the section that griffe calls `Examples:`."""

from __future__ import annotations

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    """Rename the section, so that doctests are shown as code and not read as Markdown."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Called for every object that was collected."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
