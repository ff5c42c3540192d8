"""Hooks of the documentation site: what Markdown alone cannot say.

Links that leave `docs/` become names of files in the repository, but for notebooks, which have pages
(`notebook_pages.py`); `<!-- help: release -->` becomes what `pgmjax release --help` prints.
"""

from __future__ import annotations

import os
import pathlib
import posixpath
import re
import subprocess
import sys
from typing import Any

LINK = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+[^)#\s]+)(#[^)\s]*)?\)")
HELP = re.compile(r"<!-- help:([a-z -]*)-->")


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Write `[text](../bench/README.md)` as text and path: only `docs/` and notebooks are on the site."""
    here = posixpath.dirname(page.file.src_uri)

    def replaced(match: re.Match[str]) -> str:
        text, target = match.group(1), posixpath.normpath(posixpath.join(here, match.group(2)))
        if not target.startswith("../"):
            return match.group(0)
        path = target.removeprefix("../")
        if path.startswith("notebooks/"):
            return f"[{text}]({posixpath.relpath(path.replace('.ipynb', '.md'), here or '.')})"
        return f"`{path}`" if text.strip("`") in path else f"{text} (`{path}`)"

    return HELP.sub(_help, LINK.sub(replaced, markdown))


def _help(match: re.Match[str]) -> str:
    command = [sys.executable, "-m", "pgmjax", *match.group(1).split(), "--help"]
    text = subprocess.run(
        command, check=True, capture_output=True, text=True, env=os.environ | {"COLUMNS": "90"}
    ).stdout
    return f"```text\n{text.rstrip()}\n```"


def on_files(files: Any, *, config: Any) -> Any:
    """Every decision is listed on the page of decisions: said here once, so that none is forgotten."""
    folder = pathlib.Path(config["docs_dir"]) / "decisions"
    text = (folder / "index.md").read_text()
    missing = [p.name for p in sorted(folder.glob("0*.md")) if p.name not in text]
    if missing:
        raise ValueError(f"docs/decisions/index.md lists no {', '.join(missing)}: add a line for each.")
    return files
