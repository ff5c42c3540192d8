"""`pgmjax similarities`: what it predicts is what the mechanism in Python predicts, and what is refused."""

import json

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.cli import main
from pgmjax.cli.options import history as options
from pgmjax.data.ratings import Ratings
from pgmjax.privacy import SeededBackend
from pgmjax.privacy.ratings import MEASURES, PROTECTS

RNG = np.random.default_rng(0)
RATED = np.argwhere(RNG.random((12, 9)) < 0.6)
VALUES = RNG.integers(1, 6, len(RATED))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = "".join(f"{a},{b},{value}\n" for (a, b), value in zip(RATED, VALUES, strict=True))
    (tmp_path / "r.csv").write_text("record,item,rating\n" + lines)
    return tmp_path


def words(*more, **changed):
    given = {"records": 12, "items": 9, "scale": "1,5", "protect": "record", "epsilon": "3"}
    given |= {"relation": "replace-one", "training_count": 30, "insecure_seed": 4, **changed}
    named = [part for name, value in given.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    return ["similarities", "r.csv", *more, *named]


@pytest.mark.parametrize("protect", PROTECTS)
def test_predictions_are_those_of_the_mechanism(folder, capsys, protect):
    assert main([*words("3,7", "0,1", protect=protect), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    mechanism = pj.mechanisms.SimilarityMLDP(
        epsilon=3,
        relation="replace-one",
        protect=protect,
        training_count=30,
        backend=SeededBackend(4, insecure=True),
    )
    found = mechanism.run(Ratings(*RATED.T, VALUES, shape=(12, 9), scale=(1, 5)))
    expected = found.predict([(3, 7), (0, 1)])
    assert [one["similarity"] for one in told["similarities"]] == pytest.approx(expected.tolist())
    assert told["trained_on"] == 30 and told["epsilon"] == "3" and told["secure"] is False


def test_all_pairs_go_into_a_file(folder, capsys):
    assert main([*words(), "--out", "s.csv"]) == 0
    said = capsys.readouterr()
    assert "epsilon = 3" in said.out and "replace-one" in said.out
    assert "research only" in said.err
    lines = (folder / "s.csv").read_text().splitlines()
    assert lines[0] == "record,other,similarity" and len(lines) == 1 + 12 * 11 // 2
    assert main([*words(), "--out", "s.csv"]) == 2
    assert "exists" in capsys.readouterr().err


def test_choices_are_those_of_the_library():
    assert options.MEASURES == MEASURES and sorted(options.PROTECTS) == sorted(PROTECTS)


@pytest.mark.parametrize(
    "more, changed, message",
    [
        ([], {}, "Say what to predict"),
        (["3"], {}, "two numbers of records"),
        (["3,3"], {}, "two different records"),
        (["3,12"], {}, "0..11"),
        (["3,4"], {"items": 8}, "0..7"),
        (["3,4"], {"scale": "2,5"}, "scale"),
        (["3,4"], {"scale": "5"}, "--scale must be"),
        (["3,4"], {"relation": "add-remove"}, "replace-one"),
        (["3,4"], {"epsilon": "-1"}, "--epsilon"),
        (["3,4"], {"training_count": 67}, "66"),
        (["3,4"], {"learner": "forest"}, "--learner"),
    ],
)
def test_bad_input(folder, capsys, more, changed, message):
    assert main(words(*more, **changed)) == 2
    said = capsys.readouterr()
    assert message in said.err and not said.out


def test_a_bad_file_is_refused_without_a_value_of_it(folder, capsys):
    (folder / "r.csv").write_text("record,item,rating\n0,1,secret\n")
    assert main(words("3,4")) == 2
    said = capsys.readouterr().err
    assert "A line of r.csv is not two whole numbers" in said and "secret" not in said
    (folder / "r.csv").write_text("who,item,rating\n0,1,3\n")
    assert main(words("3,4")) == 2
    assert "must be record,item,rating" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_measured(folder, capsys, monkeypatch):
    def spent(*_):
        raise AssertionError("measured")

    monkeypatch.setattr(pj.mechanisms.SimilarityMLDP, "run", spent)
    assert main(words("--out", "none/all.csv")) == 2
    assert "folder" in capsys.readouterr().err


def test_noise_that_drowns_the_similarities_is_told(folder, capsys):
    assert main(words("3,7", epsilon="0.01")) == 0
    said = capsys.readouterr()
    assert "similarities lie in 0 to 1" in said.out and "times as wide as these can differ" in said.err
    assert main(words("3,7", epsilon="100000")) == 0
    assert "as wide" not in capsys.readouterr().err
