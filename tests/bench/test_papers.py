"""The page of the five papers: each figure can be remade, and its verdict follows the lines."""

import importlib
import json
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def papers(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    return importlib.import_module("papers")


def test_every_figure_has_its_scripts_lines_and_table(papers):
    blocks = {(block.page, name) for block in papers.BLOCKS for name in (block.name, *block.texts())}
    for figure in papers.FIGURES:
        assert figure.commands and all(
            (ROOT / "bench" / command.split()[0]).is_file() for command in figure.commands
        ), figure
        assert figure.table == ("", "") or figure.table in blocks, figure
        assert not figure.picture or (papers.harness.RESULTS / figure.picture).is_file(), figure
    assert {figure.paper for figure in papers.FIGURES} == set(papers.TITLES)


def test_the_page_has_a_verdict_for_each_figure_and_the_right_one(papers):
    page = papers.page()
    found = re.findall(r"<h3>(.*?) <span class='v[^']*'>(.*?)</span>", page)
    assert [name for name, _ in found] == [figure.name for figure in papers.FIGURES]
    said = zip(papers.FIGURES, found, strict=True)
    verdicts = {(figure.paper, figure.name): verdict for figure, (_, verdict) in said}
    # what is known not to come back, and a printed slip, must not be called done
    for paper, name in (
        ("001", "Figure 5"),
        ("002", "Figure 2"),
        ("002", "Figure 3"),
        ("003", "Section 5.2"),
    ):
        assert verdicts[paper, name] == "differs"
    assert verdicts["004", "Figure 2a"] == verdicts["001", "Figure 4"] == "done"


def test_a_verdict_changes_with_the_lines(papers):
    (figure,) = (f for f in papers.FIGURES if (f.paper, f.name) == ("002", "Figure 4"))
    lines = papers.harness.read(papers.harness.RESULTS / "paper002-scaling.jsonl")
    assert figure.judge(lines)[0] == "done"
    above = [{**line, "mean_square": 2 * line["upper_bound"]} for line in lines]
    assert figure.judge(above)[0] == "differs"


def test_lines_of_other_commits_are_dropped_and_missing_data_is_said(papers, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(papers.harness, "commit", lambda: "0123456789ab")
    path = tmp_path / "some.jsonl"
    path.write_text("".join(json.dumps({"commit": c}) + "\n" for c in ("0123456789ab", "fedcba987654")))
    papers.only_here(path)
    assert [line["commit"] for line in papers.harness.read(path)] == ["0123456789ab"]
    monkeypatch.delenv("PGMJAX_DATA", raising=False)
    monkeypatch.setattr(papers, "ran", lambda command: True)
    left = papers.remade([f for f in papers.FIGURES if f.name == "Figure 3" and f.paper == "004"], False)
    assert left == ["paper004/figure3.py"]
    assert "left out: paper004/figure3.py, PGMJAX_DATA must name" in capsys.readouterr().err


def test_changes_that_are_not_committed_are_refused(papers, monkeypatch):
    monkeypatch.setattr(papers.harness, "commit", lambda: "0123456789ab-dirty")
    with pytest.raises(SystemExit, match="made from a commit"):
        papers.remade(papers.FIGURES, False)


def test_the_kept_page_is_the_one_that_the_lines_make(papers):
    assert papers.PAGE.read_text(encoding="utf-8") == papers.page()
