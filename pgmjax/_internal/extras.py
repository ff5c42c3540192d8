"""Optional packages by name: each is imported when something of it is first asked for.

A package that is not installed is an ImportError then, which names the command that installs it.
"""

from __future__ import annotations

from typing import Any

from pgmjax._internal import checks


class Extra:
    """An optional package.

    Args:
        module: what is imported.
        extra: the extra of pgmjax that installs it.
    """

    def __init__(self, module: str, extra: str):
        self._wanted = module, extra

    def __getattr__(self, name: str) -> Any:
        return getattr(checks.optional(*self._wanted), name)


arrow, parquet = Extra("pyarrow", "tables"), Extra("pyarrow.parquet", "tables")
compute, csv = Extra("pyarrow.compute", "tables"), Extra("pyarrow.csv", "tables")
duckdb, polars = Extra("duckdb", "tables"), Extra("polars", "tables")
pandas = Extra("pandas", "demo")
pyplot = Extra("matplotlib.pyplot", "plots")
