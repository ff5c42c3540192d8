"""Notebooks run from a clean kernel, use public names only and are stored without outputs."""

import json
import pathlib
import re

import pytest

import pgmjax

pytestmark = pytest.mark.docs

ROOT = pathlib.Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def code_of(path):
    cells = [c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]
    return cells, "\n".join("".join(cell["source"]) for cell in cells)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_stored_without_outputs(path):
    cells, _ = code_of(path)
    assert cells and all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_public_names_only(path):
    _, code = code_of(path)
    assert set(re.findall(r"\bpj\.(\w+)", code)) <= set(pgmjax.__all__)
    assert not re.search(r"from pgmjax|import pgmjax\.|\._\w", code)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_runs_from_a_clean_kernel(path, tmp_path):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
