"""One record in, one response out; and what a collector makes of many, by closed forms and brute force."""

import json
import math

import numpy as np
import pytest
import scipy.stats

import pgmjax as pj
from pgmjax.cli import main
from pgmjax.local import collect, respond
from pgmjax.local.respondent import PerturbedRecord
from pgmjax.privacy.seeded import SeededBackend

DOMAIN = pj.Domain({"sex": ["F", "M"], "age": {"min": 0, "max": 99, "step": 10}, "job": ["a", "b", "c"]})
RECORD = {"sex": "M", "age": 34, "job": "c"}
ENCODINGS = ("direct", "optimal-unary", "symmetric-unary")


def ask(seed, encoding="direct", universe=(("sex", "job"), ("age",)), epsilon=2):
    backend = SeededBackend(seed, insecure=True)
    kind = pj.mechanisms.RandomizedResponse
    return kind(
        epsilon, "replace-one", universe=list(universe), encoding=encoding, useless="answer", backend=backend
    )


def test_a_response_tells_the_truth_as_often_as_it_should():
    """Frequencies of all six answers of one record, against exp(e) / (exp(e) + 5) and 1 / (exp(e) + 5)."""
    counts = np.zeros(6)
    for seed in range(3000):
        counts[respond(DOMAIN, RECORD, ask(seed)).columns[0].codes[0]] += 1
    chances = np.full(6, 1.0)
    chances[1 * 3 + 2] = math.e  # half of epsilon 2 for each group
    assert scipy.stats.chisquare(counts, 3000 * chances / chances.sum()).pvalue > 1e-4


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_collected_answers_are_estimated_without_bias(encoding):
    """Shares of a made-up people from their responses alone, within five of the stated standard errors."""
    rng = np.random.default_rng(0)
    people = [
        {"sex": "FM"[rng.integers(2)], "age": int(rng.integers(0, 40)), "job": "abc"[int(rng.integers(3))]}
        for _ in range(800)
    ]
    sent = [respond(DOMAIN, one, ask(seed, encoding, epsilon=6)) for seed, one in enumerate(people)]
    table = collect(
        DOMAIN, [PerturbedRecord.from_dict(json.loads(json.dumps(one.to_dict()))) for one in sent]
    )
    assert table.rows == 800 and table.epsilon == 6 and table.row_order == "sorted" and not table.secure
    truth = np.bincount([one["age"] // 10 for one in people], minlength=10)
    found = table.marginal(("age",)).measurement()
    assert (np.abs(found.flat_values() - found.query.apply(truth)) < 5 * found.row_stddevs()).all()
    pairs = np.zeros((2, 3))
    for one in people:
        pairs["FM".index(one["sex"]), "abc".index(one["job"])] += 1
    both = table.marginal(("sex", "job")).measurement()
    assert (np.abs(both.flat_values() - np.ravel(both.query.apply(pairs))) < 5 * both.row_stddevs()).all()


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_what_is_collected_does_not_depend_on_the_order_of_arrival(encoding):
    sent = [respond(DOMAIN, RECORD, ask(seed, encoding)) for seed in range(40)]
    one, two = collect(DOMAIN, sent), collect(DOMAIN, sent[::-1])
    for first, second in zip(one.columns, two.columns, strict=True):
        assert (first.answers == second.answers).all()
    assert one.inputs == two.inputs
    rows = {tuple(np.concatenate([c.answers[0].ravel() for c in each.columns])) for each in sent}
    joined = np.concatenate([c.answers.reshape(40, -1) for c in one.columns], axis=1)
    assert {tuple(row) for row in joined} == rows  # whole rows stay together


def test_of_a_record_only_what_is_asked_for_is_read():
    answer = respond(DOMAIN, RECORD, ask(0, universe=[("sex",)]))
    assert [each.attributes for each in answer.columns] == [("sex",)]
    assert "34" not in json.dumps(answer.to_dict()["columns"])


@pytest.mark.parametrize(
    ("record", "error", "said"),
    [
        ({"sex": "Q", "age": 3, "job": "a"}, ValueError, "'sex' is not in the domain. It has F, M"),
        ({"sex": "F", "age": 300, "job": "a"}, ValueError, "The value of 'age' is not in the domain"),
        ({"sex": "F"}, ValueError, "job, age"),
        ({"sex": "F", "age": 3, "job": "a", "pay": 1}, ValueError, "'pay'"),
        ("sex=F", TypeError, "record must be"),
    ],
)
def test_records_that_cannot_be_answered(record, error, said):
    with pytest.raises(error, match=said) as found:
        respond(DOMAIN, record, ask(0))
    assert "Q" not in str(found.value) and "300" not in str(found.value)


def test_responses_that_do_not_belong_together():
    first = respond(DOMAIN, RECORD, ask(0))
    with pytest.raises(ValueError, match="No response has arrived"):
        collect(DOMAIN, [])
    with pytest.raises(ValueError, match="Responses 1 and 3 are the same one"):
        collect(DOMAIN, [first, respond(DOMAIN, RECORD, ask(1)), first])
    for other in (ask(2, epsilon=1), ask(2, "optimal-unary"), ask(2, universe=[("sex", "job")])):
        with pytest.raises(ValueError, match="answer different questions"):
            collect(DOMAIN, [first, respond(DOMAIN, RECORD, other)])
    age, job = {"min": 0, "max": 99, "step": 10}, ["a", "b", "c"]
    same = pj.Domain({"job": job, "age": age, "sex": ["F", "M"]})
    assert collect(same, [first]).rows == 1  # the order of attributes is the collector's
    for other in (["F", "M", "X"], ["M", "F"], ["f", "m"], 2):
        with pytest.raises(ValueError, match="Response 1 about sex, job, age was made with another domain"):
            collect(pj.Domain({"sex": other, "age": age, "job": job}), [first])
    for bins in ({"min": 0, "max": 49, "step": 5}, {"min": 1, "max": 100, "step": 10}):
        with pytest.raises(ValueError, match="another domain"):
            collect(pj.Domain({"sex": ["F", "M"], "age": bins, "job": job}), [first])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: respond(dict(DOMAIN.sizes), RECORD, ask(0)), r"Domain.*dict.*respond\("),
        (lambda: respond(RECORD, DOMAIN, ask(0)), "the domain is given in another place"),
        (lambda: respond(DOMAIN, RECORD, 2), "mechanism must be a mechanisms.RandomizedResponse, got int"),
        (lambda: collect({"sex": 2}, []), "Domain.*dict"),
        (
            lambda: collect(DOMAIN, [0]),
            "response 1 must be what respond returned, .*, got int",
        ),
        (lambda: collect(DOMAIN, respond(DOMAIN, RECORD, ask(0))), "a list of what respond returned"),
        (lambda: collect(DOMAIN, "answer.json"), "a list of what respond returned, got str"),
    ],
)
def test_wrong_arguments_say_what_is_right(call, said):
    with pytest.raises(TypeError, match=said):
        call()


def test_one_respondent_need_not_know_that_one_answer_says_nothing():
    kind = pj.mechanisms.RandomizedResponse
    assert respond(DOMAIN, RECORD, kind(1, "replace-one")).secure


@pytest.mark.parametrize(
    "change",
    [
        {"id": ""},
        {"id": 3},
        {"columns": 5},
        {"columns": [5]},
        {"columns": [{"attributes": ["sex", "sex"]}]},
        {"columns": [{"attributes": [1, 2]}]},
        {"columns": [{"size": 10**30}]},
        {"secure": 1},
        {"columns": []},
        {"columns": [{}]},
        {"columns": [{"answer": 6}]},
        {"columns": [{"answer": -1}]},
        {"columns": [{"answer": "x"}]},
        {"columns": [{"epsilon": "0.5"}]},
        {"columns": [{"lie": "2"}]},
    ],
)
def test_damaged_responses(change):
    whole = respond(DOMAIN, RECORD, ask(0, universe=[("sex", "job")])).to_dict()
    match change:
        case {"columns": [{**column}]} if column:
            change = {"columns": [{**whole["columns"][0], **column}]}
    with pytest.raises(ValueError, match="the response is damaged"):
        PerturbedRecord.from_dict({**whole, **change})
    for other in ([], {}, {**whole, "format": "pgmjax:model"}, {**whole, "format_version": 99}):
        with pytest.raises(ValueError, match="response"):
            PerturbedRecord.from_dict(other)


def test_at_the_command_a_record_becomes_a_line_and_lines_a_folder(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.json").write_text(json.dumps(DOMAIN.to_dict()))
    words = ["--domain", "d.json", "--groups", "sex,job", "--epsilon", "3"]
    for _ in range(30):
        assert main(["respond", "sex=F", "job=b", *words]) == 0
    lines = capsys.readouterr().out
    (tmp_path / "r.jsonl").write_text(lines)
    assert main(["respond", "sex=M", "job=a", *words, "--out", "one.json"]) == 0
    assert main(["collect", "r.jsonl", "one.json", "--domain", "d.json", "--out", "made", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["secure"] is True and told["epsilon"] == "3" and told["total"] == 31
    assert main(["query", "made", "sex=F,job=b", "--json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)["answers"]
    assert answer["interval"][0] <= 30 <= answer["interval"][1]
    assert pj.local.load(tmp_path / "made" / "table").rows == 31
    for bad, said in (
        (["respond", "sex", *words], "Value 1 must be NAME=VALUE"),
        (["respond", "sex=F", "sex=M", *words], "'sex' is given twice"),
        (
            ["respond", "sex=F", "--domain", "d.json", "--epsilon", "1"],
            "give either --groups NAMES or --each",
        ),
        (["collect", "d.json", "--domain", "d.json", "--out", "x"], "line 1, is no response"),
        (["collect", "no.jsonl", "--domain", "d.json", "--out", "x"], "There is no file of responses"),
        (["collect", "r.jsonl", "r.jsonl", "--domain", "d.json", "--out", "x"], "are the same one"),
        (["collect", "r.jsonl", "--domain", "d.json", "--out", "made"], "made"),
    ):
        assert main(bad) == 2
        assert said in capsys.readouterr().err and not (tmp_path / "x").exists()
