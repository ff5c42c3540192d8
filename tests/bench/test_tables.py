"""Measured tables and numbers of pages against kept lines: what differs, lacks or has no commit is found."""

import importlib
import json
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[2]
LINE = {"commit": "0123456789ab", "date": "2026-01-01T00:00:00+00:00"}
TABLE = "| a |\n|---|\n| {} |"


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    return importlib.import_module("tables")


@pytest.fixture
def site(tables, tmp_path, monkeypatch):
    """A page with a table and a number, whose lines are two; returns the blocks."""
    (tmp_path / "docs").mkdir()
    page = "<!-- lines: errors -->\n\n<!-- /lines -->\n\nIn <!-- lines: cost-seconds -->9<!-- /lines --> s.\n"
    (tmp_path / "docs" / "page.md").write_text(page)
    (tmp_path / "small.jsonl").write_text("".join(json.dumps({**LINE, "x": x}) + "\n" for x in (1.0, 2.0)))
    monkeypatch.setattr(tables.harness, "RESULTS", tmp_path)
    monkeypatch.setattr(tables, "ROOT", tmp_path)
    blocks = (
        tables.Block("docs/page.md", "errors", lambda lines: TABLE.format(lines[-1]["x"]), ("small",)),
        tables.Block(
            "docs/page.md", "cost", lambda lines: {"seconds": f"{sum(x['x'] for x in lines):g}"}, ("small",)
        ),
    )
    monkeypatch.setattr(tables, "BLOCKS", blocks)
    return tmp_path


def run(tables, monkeypatch, *words):
    monkeypatch.setattr("sys.argv", ["tables.py", *words])
    return tables.main()


def test_the_pages_of_this_checkout_agree_with_its_lines(tables, monkeypatch, capsys):
    assert run(tables, monkeypatch, "--check") == 0, capsys.readouterr().err


def test_tables_and_numbers_are_written_once(tables, site, monkeypatch):
    page = site / "docs" / "page.md"
    assert run(tables, monkeypatch) == 0
    text = page.read_text()
    assert "<!-- lines: errors -->\n\n| a |\n|---|\n| 2.0 |\n\n<!-- /lines -->" in text
    assert text.endswith("In <!-- lines: cost-seconds -->3<!-- /lines --> s.\n")
    assert run(tables, monkeypatch) == 0 and page.read_text() == text
    assert run(tables, monkeypatch, "--check") == 0


@pytest.mark.parametrize(
    "old, new, says",
    [
        ("| 2.0 |", "| 2.1 |", "the page: | 2.1 |\n  the lines: | 2.0 |"),
        (">3<", ">4<", "the page: 4\n  the lines: 3"),
    ],
)
def test_a_changed_number_is_found_and_nothing_is_written(tables, site, monkeypatch, capsys, old, new, says):
    page = site / "docs" / "page.md"
    assert run(tables, monkeypatch) == 0
    page.write_text(page.read_text().replace(old, new))
    changed = page.read_text()
    assert run(tables, monkeypatch, "--check") == 1
    told = capsys.readouterr().err
    assert says in told and "docs/page.md" in told and page.read_text() == changed


def test_a_changed_line_is_found(tables, site, monkeypatch):
    assert run(tables, monkeypatch) == 0
    with (site / "small.jsonl").open("a") as file:
        file.write(json.dumps({**LINE, "x": 5.0}) + "\n")
    assert run(tables, monkeypatch, "--check") == 1


@pytest.mark.parametrize(
    "old, new, says",
    [
        ("<!-- lines: errors -->", "", "<!-- /lines --> has no partner"),
        ("<!-- /lines --> s.", " s.", "<!-- lines: cost-seconds --> has no partner"),
        ("lines: errors", "lines: erors", "no block is named 'erors'"),
        ("In <", "In <!-- lines: other -->1<!-- /lines -->, <", "no block is named 'other'"),
        ("<!-- lines: cost-seconds -->9<!-- /lines -->", "nine", "has no marker of cost"),
        ("lines: errors -->", "lines: Errors -->", "has no partner"),
        ("In <", "In\n<", "put a word before <!-- lines: cost-seconds -->9"),
    ],
)
def test_markers_without_a_block_and_blocks_without_a_marker_are_errors(
    tables, site, monkeypatch, capsys, old, new, says
):
    page = site / "docs" / "page.md"
    page.write_text(page.read_text().replace(old, new))
    for words in ([], ["--check"]):
        assert run(tables, monkeypatch, *words) == 1
        assert says in capsys.readouterr().err


@pytest.mark.parametrize("commit", ["0123456789ab-dirty", None])
def test_lines_of_no_commit_are_refused(tables, site, monkeypatch, capsys, commit):
    with (site / "small.jsonl").open("a") as file:
        file.write(json.dumps({**LINE, "x": 2.0, "commit": commit}) + "\n")
    assert run(tables, monkeypatch) == 1
    assert f"small.jsonl has lines of {commit}" in capsys.readouterr().err


def test_every_file_of_lines_is_shown_and_every_script_is_named(tables):
    shown = {name for each in (*tables.BLOCKS, *tables.papers.FIGURES) for name in each.results}
    kept = {path.stem for path in (ROOT / "bench" / "results").glob("*.jsonl")}
    assert kept <= shown
    readme = (ROOT / "bench" / "README.md").read_text()
    scripts = {path.name for path in (ROOT / "bench").glob("*.py")}
    assert not {name for name in scripts if f"`{name}" not in readme and not name.startswith("discovery_")}
