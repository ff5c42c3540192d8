"""The check of every system at every door: what works, what fails, and what says why it is not there."""

import dataclasses
import importlib
import pathlib

import pytest

BENCH = pathlib.Path(__file__).parent.parent.parent / "bench"
pytestmark = pytest.mark.skipif(not BENCH.is_dir(), reason="the tests run apart from the source tree")


@pytest.fixture
def mission(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("mission")


def fails():
    raise AssertionError("it does not work")


def test_a_cell_that_fails_fails_the_run(mission, monkeypatch, capsys):
    works = next(system for system in mission.SYSTEMS if system.name == "own loss and oracle")
    monkeypatch.setattr(mission, "SYSTEMS", [works])
    assert mission.main([]) == 0
    said = capsys.readouterr().out
    assert "all work" in said and "none: they are code" in said
    for change, message in (
        ({"python": fails}, "it does not work"),
        ({"command": ("query nowhere a=1", "a")}, "pgmjax query nowhere a=1: pgmjax: There is no folder"),
        ({"command": ("mechanisms", "no such line")}, "does not print"),
        ({"notebook": (works.notebook[0], "no such word")}, "has no no such word"),
        ({"page": ("docs/own.md#nowhere", "x")}, "has no section nowhere"),
        ({"page": (works.page[0], "no such word")}, "has no such word"),
    ):
        monkeypatch.setattr(mission, "SYSTEMS", [dataclasses.replace(works, **change)])
        assert mission.main([]) == 1
        said = capsys.readouterr().out
        assert message in said and "1 cells failed" in said


def test_every_paper_has_systems_and_every_section_and_notebook_is_there(mission):
    assert {system.paper for system in mission.SYSTEMS} == {"000", "001", "002", "003", "004"}
    for system in mission.SYSTEMS:
        for door in (mission.at_page, mission.at_notebook):
            assert door(system)


def test_anchors_are_those_of_the_site(mission):
    assert mission.slug("Maximum entropy: one distribution, from all `answers`") == (
        "maximum-entropy-one-distribution-from-all-answers"
    )
    page = "# A\n\n## B\n\n```bash\n# C\n```\n\n## D\n"
    assert [head for head, _ in mission.sections(page)] == ["A", "B", "D"]
