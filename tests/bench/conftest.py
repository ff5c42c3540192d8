"""Scripts of bench/, run inside this process: without the seconds that the imports of a new one take."""

import runpy
import sys

import pytest


@pytest.fixture
def run_script(monkeypatch, capsys):
    """Run a script as `python SCRIPT WORDS` does; returns what it prints."""

    def run(script, *words):
        monkeypatch.syspath_prepend(str(script.parent))
        monkeypatch.setattr(sys, "argv", [str(script), *map(str, words)])
        runpy.run_path(str(script), run_name="__main__")
        return capsys.readouterr().out

    return run
