"""The base of the library's own exceptions."""

from __future__ import annotations


class Error(Exception):
    """Base of the library's own exceptions.

    Each is also a `ValueError`, `RuntimeError`, `TypeError` or `AssertionError`. A mistake in an argument
    raises one of these built-in classes itself.
    """
