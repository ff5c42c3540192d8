"""Fixtures shared by all tests."""

import os
import pathlib

import pytest


@pytest.fixture(scope="session")
def data_dir():
    """The folder of real tables; tests that need it are skipped where it is not set."""
    where = os.environ.get("PGMJAX_DATA")
    if not where:
        pytest.skip("PGMJAX_DATA is not set: it names the folder of real tables this test reads")
    folder = pathlib.Path(where)
    if not folder.is_dir():
        pytest.skip(f"PGMJAX_DATA names {folder}, which is not a folder")
    return folder
