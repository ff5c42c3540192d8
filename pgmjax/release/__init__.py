"""Releases: what a mechanism hands out, on disk and in its report."""

from pgmjax._internal.moved import names_of

__getattr__ = names_of("release", __path__)
