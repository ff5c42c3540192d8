"""Every example in a docstring, in README and in docs/ runs.

How the blocks of a page run stands in `docs/example_pages.py`. Where `PGMJAX_EXECUTED` names a folder, their
outputs are left there, for the site to show.
"""

import doctest
import importlib.util
import pathlib
import re

import pytest

pytestmark = pytest.mark.docs

ROOT = pathlib.Path(__file__).parent.parent
MODULES = sorted(
    ".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for p in (ROOT / "pgmjax").rglob("*.py")
    if p.name != "__main__.py" and ">>>" in p.read_text()
)
_spec = importlib.util.spec_from_file_location("example_pages", ROOT / "docs" / "example_pages.py")
example_pages = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(example_pages)
PAGES = example_pages.pages()


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert result.attempted and result.failed == 0


def blocks(path, language="python"):
    return example_pages.blocks(path.read_text(), language)


@pytest.mark.parametrize("path", [p for p in PAGES if blocks(p)], ids=lambda p: str(p.relative_to(ROOT)))
def test_page_examples(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outputs = example_pages.run_python(path)
    assert len(outputs) == len(blocks(path))
    example_pages.leave(path, "python", outputs)


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_code_fits_the_page(path):
    fences = re.findall(r"^```(?:python|bash|yaml|toml)\n(.*?)^```", path.read_text(), re.M | re.S)
    assert [line for code in fences for line in code.splitlines() if len(line) > 80] == []


def test_programs_to_copy_are_short():
    programs = blocks(ROOT / "docs" / "own.md")
    assert len(programs) == 6 and all(program.count("\n") <= 60 for program in programs)


def test_readme_has_an_example_that_runs():
    assert blocks(ROOT / "README.md")


def test_links_inside_the_repository_lead_somewhere():
    wrong = [
        f"{path.relative_to(ROOT)} links to {target}"
        for path in PAGES
        for target in re.findall(r"\]\(([^)#\s]+)", path.read_text())
        if "://" not in target and not target.startswith("mailto:") and not (path.parent / target).exists()
    ]
    assert not wrong, "\n".join(wrong)


DESIGN = (ROOT / "docs" / "design.md").read_text()


@pytest.mark.parametrize("page", ["docs/design.md", "CONTRIBUTING.md"])
def test_paths_that_a_page_names_are_there(page):
    text = (ROOT / page).read_text()
    paths = {p for p in re.findall(r"`((?:pgmjax|tests|kernels)/[\w/.]+)`", text) if "NAME" not in p}
    assert paths and not {p for p in paths if not (ROOT / p).exists()}


def test_the_files_that_the_design_names_have_what_it_says_to_look_for():
    missing, known = [], 0
    for file, look in re.findall(r"^\| (?:[^|]+\? \| )?`(pgmjax/[^`]+)` \| ([^|]*) \|", DESIGN, re.MULTILINE):
        text = (ROOT / file).read_text()
        names = [name.split(".")[-1] for name in re.findall(r"`(?:[A-Z]\w+\.)?\w+`", look)]
        known += len(names)
        missing += [name for name in names if name.strip("`") not in text and not name.startswith("`__")]
    assert not missing and known > 34
