"""Options of mechanisms on the command line."""

import dataclasses
from typing import Any

import pytest

from pgmjax.cli import main, mechanism_options
from pgmjax.mechanisms import Marginals


@dataclasses.dataclass(frozen=True)
class Some:
    epsilon: Any
    rounds: int = 10
    share: float = 0.5
    arm: str = "engine"
    degree: int | None = None
    names: tuple[str, ...] = ()
    name = "some"


def test_values_are_json_or_text():
    words = ["rounds=3", "share=0.25", "arm=paper", "degree=null", 'names=["a", "b"]']
    assert mechanism_options.read(Some, words) == {
        "rounds": 3,
        "share": 0.25,
        "arm": "paper",
        "degree": None,
        "names": ["a", "b"],
    }
    assert mechanism_options.read(Some, ["arm=a=b"]) == {"arm": "a=b"}
    assert mechanism_options.read(Some, []) == {}


@pytest.mark.parametrize(
    "words, said",
    [
        (["rounds"], "--option takes NAME=VALUE, got 'rounds'"),
        (["=3"], "takes NAME=VALUE"),
        (["speed=3"], "has no option 'speed'; it has: rounds, share, arm, degree, names"),
        (["epsilon=3"], "has no option 'epsilon'"),
        (["rounds=3", "rounds=4"], "--option rounds is given twice"),
    ],
)
def test_bad_words(words, said):
    with pytest.raises(ValueError, match=said):
        mechanism_options.read(Some, words)


def test_options_are_listed(capsys):
    assert main(["mechanisms"]) == 0
    said = capsys.readouterr().out
    assert Marginals.summary in said and "options: split=equal" in said
    assert "under add-remove or replace-one" in said
