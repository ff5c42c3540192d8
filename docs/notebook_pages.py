"""Pages of the documentation site made from `notebooks/`, which are stored with their outputs.

`python docs/notebook_pages.py [NAME ...]` runs all notebooks, or some, and stores them with what they gave.
With `PGMJAX_NOTEBOOKS=small` a notebook computes less, as in the tests, which store nothing.
"""

from __future__ import annotations

import base64
import os
import pathlib
import re
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

FOLDER = pathlib.Path(__file__).parent.parent / "notebooks"
SIZE = "PGMJAX_NOTEBOOKS"
LARGEST_FIGURE = 60_000
"""Bytes of a stored figure."""
_html: dict[str, list[str]] = {}  # outputs in HTML, by page


def run(path: pathlib.Path, size: str) -> Any:
    """Run a notebook in a clean kernel and an empty folder, and return it with outputs.

    Args:
        path: the notebook.
        size: "small" for the size of the tests; any other is full.

    Raises:
        CellExecutionError: a cell raised an exception, or took more than five minutes.
    """
    import nbclient
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    # a kernel shows figures unless it is told another backend
    environment = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"} | {SIZE: size}
    with tempfile.TemporaryDirectory() as folder:
        client = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": folder}})
        client.execute(env=environment)
    return notebook


def store(path: pathlib.Path) -> None:
    """Run a notebook at its full size and write it with its outputs, without progress and times.

    Raises:
        CellExecutionError: a cell raised an exception.
        ValueError: a figure is too large to be stored; the notebook stays as it was.
    """
    import nbformat

    notebook = run(path, "full")
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = [each for each in cell.outputs if each.get("name") != "stderr"]
    _, figures, _ = page(notebook, path.stem)
    large = {name: len(content) for name, content in figures.items() if len(content) > LARGEST_FIGURE}
    if large:
        raise ValueError(f"Figures may have {LARGEST_FIGURE:,} bytes at most, and these have more: {large}.")
    notebook.metadata = {"kernelspec": notebook.metadata["kernelspec"], "language_info": {"name": "python"}}
    nbformat.write(notebook, path)


def page(notebook: Any, name: str) -> tuple[str, dict[str, bytes], list[str]]:
    """Return the Markdown of an executed notebook, its figures by file name, and its outputs in HTML.

    The place of an output in HTML is an empty `<div id="output-N">`; Markdown would not leave it as it is.
    """
    lines: list[str] = []
    figures: dict[str, bytes] = {}
    html: list[str] = []
    heading = ""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            lines.append(_links(cell.source))
            heading = ([heading, *re.findall(r"^#+ (.*)$", cell.source, re.M)])[-1]
            continue
        lines.append(f"```python\n{cell.source}\n```")
        for output in _outputs(cell):
            if "image/png" in output:
                file = f"{name}-{len(figures)}.png"
                figures[file] = base64.b64decode(output["image/png"])
                lines.append(f"![Figure: {heading}]({file})")
            elif "text/html" in output:
                lines.append(f'<div id="output-{len(html)}"></div>')
                html.append(f'<div style="overflow-x:auto">{output["text/html"]}</div>')
            elif output.get("text/plain", "").strip():
                lines.append(f"```text\n{output['text/plain'].strip()}\n```")
    told = f"This page is the notebook `notebooks/{name}.ipynb` with its outputs."
    return "\n\n".join([*lines, f"*{told}*"]) + "\n", figures, html


def _outputs(cell: Any) -> Iterator[dict[str, str]]:
    """Yield what a cell gave, by type; not what it wrote to stderr, such as progress."""
    for output in cell.outputs:
        if output.output_type == "stream" and output.name == "stdout":
            yield {"text/plain": output.text}
        elif "data" in output:
            yield output.data


def _links(markdown: str) -> str:
    """Write links to other notebooks and to `docs/` as the site has them."""
    return re.sub(r"\]\((\w+)\.ipynb\)", r"](\1.md)", markdown.replace("](../docs/", "](../"))


def on_files(files: Any, *, config: Any) -> Any:
    """Add a page and the figures of each notebook."""
    import nbformat
    from mkdocs.structure.files import File

    for path in sorted(FOLDER.glob("*.ipynb")):
        uri = f"notebooks/{path.stem}.md"
        markdown, figures, _html[uri] = page(nbformat.read(path, as_version=4), path.stem)
        files.append(File.generated(config, uri, content=markdown))
        for name, content in figures.items():
            files.append(File.generated(config, f"notebooks/{name}", content=content))
    return files


def on_page_content(html: str, *, page: Any, config: Any, files: Any) -> str:
    """Put the outputs in HTML in their places."""
    for number, output in enumerate(_html.get(page.file.src_uri, [])):
        html = html.replace(f'<div id="output-{number}"></div>', output)
    return html


if __name__ == "__main__":
    for name in sys.argv[1:] or [path.stem for path in sorted(FOLDER.glob("*.ipynb"))]:
        store(FOLDER / f"{name}.ipynb")
