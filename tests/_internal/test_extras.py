"""Optional packages: found when they are asked for, and named where they are absent."""

import sys

import pyarrow
import pytest

from pgmjax._internal import extras


def test_a_package_is_imported_when_something_of_it_is_asked_for(monkeypatch):
    assert extras.arrow.Table is pyarrow.Table
    absent = extras.Extra("pgmjax_no_such_package.inside", "tables")
    with pytest.raises(ImportError, match=r"pgmjax_no_such_package is needed.*'pgmjax\[tables\]'"):
        _ = absent.anything
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match="pyarrow is needed"):
        _ = extras.arrow.Table
