"""Signals wait where an exception would do harm or be lost, and come after that."""

import importlib
import signal
import subprocess
import sys
import time

import pytest

from pgmjax.cli import process


def given_again():
    """Wait for a signal that had to wait; it is given again within a moment."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        time.sleep(0.01)


def test_an_interrupt_waits_for_the_end_of_an_import(tmp_path, monkeypatch):
    text = "import signal\nsignal.raise_signal(signal.SIGINT)\nloaded = True\n"
    (tmp_path / "interrupted_import.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with process.listening():
        loaded = importlib.import_module("interrupted_import").loaded
        with pytest.raises(KeyboardInterrupt):
            given_again()
    assert loaded


def test_an_interrupt_is_not_lost_in_what_python_collects():
    class Collected:
        def __del__(self):
            signal.raise_signal(signal.SIGINT)

    with process.listening(), pytest.raises(KeyboardInterrupt):
        thing = Collected()
        del thing
        given_again()


def test_elsewhere_it_comes_at_once():
    with process.listening(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)
        pytest.fail("it did not come")


def test_before_the_command_is_loaded_it_is_told_in_one_line():
    code = (
        "import signal, sys\nfrom pgmjax import __main__ as entry\n"
        "class Late:\n    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'pgmjax.cli': signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Late())\nentry.run()\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 130 and ended.stderr == "pgmjax: interrupted; nothing was done\n"
