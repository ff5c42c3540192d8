"""Progress bars: silent where nobody looks, closed whatever happens."""

import pytest

from pgmjax._internal.progress import Progress


def test_silent_when_piped(capsys):
    with Progress("work", 3) as bar:
        for _ in range(3):
            bar.advance(1, "note")
    assert capsys.readouterr() == ("", "")


def test_never_shown_on_request():
    assert Progress("work", 3, show=False)._bar is None


def test_closes_on_errors():
    with pytest.raises(KeyboardInterrupt), Progress("work", 3) as bar:
        bar.advance()
        raise KeyboardInterrupt
    assert bar._bar is None or bar._bar.disable
