"""The base class of the library's own exceptions."""

from __future__ import annotations


class Error(Exception):
    """Base class of the library's own exceptions.

    Each is also a `ValueError`, `RuntimeError`, `TypeError` or `AssertionError`. Invalid arguments raise one
    of these built-in classes directly.
    """
