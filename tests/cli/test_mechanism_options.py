"""Options of mechanisms on the command line."""

import json

import pandas
import pytest

from pgmjax import cli, mechanisms
from pgmjax.cli import main, release
from pgmjax.data.domain import Domain
from pgmjax.job import Job
from pgmjax.mechanisms import Marginals
from pgmjax.release import folder


def test_values_are_json_or_text():
    words = ["rounds=3", "share=0.25", "arm=paper", "degree=null", 'names=["a", "b"]']
    assert release.read_options(words) == {
        "rounds": 3,
        "share": 0.25,
        "arm": "paper",
        "degree": None,
        "names": ["a", "b"],
    }
    assert release.read_options(["arm=a=b"]) == {"arm": "a=b"}
    assert release.read_options([]) == {}


def made(name, relation, words):
    """The mechanism that the command makes of options."""
    options = release.read_options(words)
    given = {"epsilon": 1, "delta": "1e-3", "relation": relation, "insecure_seed": 0}
    return Job(domain=Domain({"age": 5, "sex": 2}), mechanism=name, options=options, **given).named


@pytest.mark.parametrize(
    "words, said",
    [
        (["rounds"], "--option needs NAME=VALUE, got 'rounds'"),
        (["=3"], "needs NAME=VALUE"),
        (["speed=3"], "The mechanism marginals has no option 'speed'; it has: split."),
        (["epsilon=3"], "has no option 'epsilon'"),
        (["rounds=3", "rounds=4"], "--option rounds is given twice"),
    ],
)
def test_bad_words(words, said):
    with pytest.raises(ValueError, match=said):
        _ = made("marginals", "add-remove", words)


def test_options_are_listed(capsys):
    assert main(["mechanisms"]) == 0
    said = capsys.readouterr().out
    assert Marginals.summary in said and "options: split=weighted" in said
    assert "under add-remove or replace-one" in said


# one line for each option: its words, with those that it needs beside it
WORDS = {
    "auto": ["max_cells=1000", "count_share=1/10"],
    "aim": ["rounds=6", "share=4/5", "max_cells=1000", "kept_noise=1", "steps=20"],
    "batch-aim": ["rounds=1", "start=1/3", "share=4/5", "max_cells=1000", "kept_noise=1", "steps=20"],
    "dual-query": [
        "accounting=tight",
        "step=1/2",
        "samples=3",
        "rounds=2",
        "estimate=paper",
        "seed=3",
    ],
    "hdmm": ["strategy=union", "split=equal", "restarts=2", "restart_seed=3", "answer=local"],
    "marginals": ["split=equal"],
    "maximum-entropy": ["alpha=0.5"],
    "mldp": [
        "training=identity",
        "training_count=5 training=random",
        "expected_records=100 training=random",
        "learner=ridge",
        "encoding=factors",
        "universe=cliques",
        'validation_share=1/3 learner=["linear","ridge"]',
        "training_seed=3 training=random",
    ],
    "mst": ['cliques=[["age", "sex"]]', "steps=20", "compress=false"],
    "mwem": [
        "rounds=2",
        "split=0.5",
        "select=queries",
        "penalty=noise",
        "repeat=true",
        "estimate=factored-multiplicative-weights",
        "max_cells=null",
        "history=false estimate=factored-multiplicative-weights",
        "sweeps=3 estimate=multiplicative-weights",
        "steps=20",
        "total_share=1/10",
    ],
    "privbayes": [
        "structure_share=1/2",
        "theta=2.5",
        "score=mutual-information",
        "degree=1",
        'taxonomies={"region":[[0,0,1]]}',
        "estimate=paper",
        "first=region",
        "max_candidates=10",
        "max_cells=500",
    ],
}
WORDS["randomized-response"] = [
    "universe=joint useless=answer",
    "encoding=optimal-unary useless=answer",
    'share={"age":2} useless=answer',
    "useless=answer",
]
IN_PYTHON_ONLY = {"mldp": {"validation"}}  # beside its one word it takes answers known beforehand, an object
EACH = [(name, words) for name, options in WORDS.items() for words in options]


def words_of(text):
    return [text] if text.startswith("cliques") else text.split()


def test_every_option_of_every_mechanism_is_tried():
    for name, mechanism in mechanisms.names().items():
        tried = {words.partition("=")[0] for words in WORDS[name]} | IN_PYTHON_ONLY.get(name, set())
        assert tried == set(mechanisms.options(mechanism)), name


@pytest.mark.parametrize("name, words", EACH)
def test_every_option_is_reached_from_the_command_line(name, words):
    mechanism = mechanisms.names()[name]
    relation = mechanism.relations[-1]
    found = made(name, relation, words_of(words))
    (option, _), *_ = release.read_options(words_of(words)).items()
    plain = mechanism(epsilon=1, delta="1e-3", relation=relation)
    assert getattr(found, option) != getattr(plain, option)


@pytest.mark.slow
@pytest.mark.parametrize("name, words", EACH)
def test_every_option_makes_a_release(name, words, small_domain, small_columns, tmp_path):
    pandas.DataFrame(small_columns).to_csv(tmp_path / "t.csv", index=False)
    small_domain.write(tmp_path / "d.json")
    (tmp_path / "w.json").write_text(json.dumps([["age", "sex"], ["region"]]))
    relation = mechanisms.names()[name].relations[-1].value
    asked = ["release", str(tmp_path / "t.csv"), "--domain", str(tmp_path / "d.json"), "--epsilon", "1"]
    asked += ["--workload", str(tmp_path / "w.json"), "--delta", "1e-3", "--relation", relation, "--quiet"]
    asked += ["--mechanism", name, "--out", str(tmp_path / "out"), "--steps", "50", "--rows", "10"]
    for word in words_of(words):
        asked += ["--option", word]
    assert main(asked) == 0
    record = folder.read(tmp_path / "out").record
    assert record["mechanism"] == name and record["secure"] is True


def test_an_option_of_a_mechanism_is_pointed_to(capsys):
    """`--rounds 3` is no option of the command; the words are listed by hand, as finding them takes JAX."""
    known = {name for each in mechanisms.names().values() for name in mechanisms.options(each)}
    assert {*cli._SETTINGS.split()} == known
    for name in ("rounds", "max-candidates"):
        assert cli.main(["release", "t.csv", f"--{name}", "3"]) == 2
        assert f"Did you mean --option {name.replace('-', '_')}=VALUE?" in capsys.readouterr().err
