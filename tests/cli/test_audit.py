"""`pgmjax audit`: the table, the JSON object, and a failure where there is a fault."""

import json

import pytest

from pgmjax import audit, mechanisms
from pgmjax.cli import main
from pgmjax.data.relation import Relation
from tests.audit import mutations

# two audits (that pass) of the secure noise with fresh entropy, 40 statistics each, at 2e-8 at most
FALSE_ALARMS = 2 * 40 * 2e-8

FAST = ["audit", "--pairs", "4", "--runs", "20", "--seconds", "0"]


@pytest.fixture
def without_primitives(monkeypatch):
    """Leaves out the checks of the secure noise, which take time and may fail by chance."""
    monkeypatch.setattr(audit, "audit_primitives", dict)


@pytest.mark.slow
def test_all_mechanisms_in_a_table(capsys):
    words = ["audit", "--pairs", "2", "--runs", "2", "--mechanism", "all", "--seconds", "30"]
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split("  ")[0] == "mechanism" and "L3 lower bound" in lines[0] and "L1 pairs" in lines[0]
    table = lines[1 : lines.index("")]
    audited = [line for line in table if line.split(" ")[0] in mechanisms.names()]
    assert len(audited) == 2 * sum(len(each.relations) for each in mechanisms.names().values())
    assert {line.split(" ")[0] for line in table} == {*mechanisms.names()}
    text = "\n".join(lines)
    assert "largest privacy loss found by the search" in text
    assert all(line.endswith("passed") for line in audited)
    assert all(any(relation.value in line for line in audited) for relation in Relation)


@pytest.fixture
def fewer_draws(monkeypatch):
    """Checks of the noise on a tenth of their draws: tests/audit has them whole."""
    monkeypatch.setattr(audit.primitives, "_DRAWS", 6_000)


def test_json_is_one_object(capsys, fewer_draws):
    assert main([*FAST, "--mechanism", "marginals", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["passed"] is True and len(record["mechanisms"]) == 4
    first = record["mechanisms"][0]
    assert first["mechanism"] == "marginals" and first["pairs"] == 4 and first["epsilon"] == "1"
    assert first["trials"] == 20 and 0 <= first["bound"] <= 1 and first["fault"] is None
    assert all(each["passed"] for each in record["primitives"].values())


def test_the_search_is_in_the_record_and_in_the_text(capsys, without_primitives):
    words = ["audit", "--pairs", "1", "--runs", "0", "--mechanism", "marginals", "--seconds", "1"]
    assert main([*words, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert len(record["search"]) == len(record["mechanisms"]) == 4
    assert all(each["loss"] <= each["claimed"] * (1 + 1e-9) and each["pairs"] for each in record["search"])
    assert main(words) == 0
    assert "largest privacy loss found by the search" in capsys.readouterr().out


def test_a_fault_is_told_and_fails(capsys, without_primitives):
    with mutations.true_total():
        assert main([*FAST, "--mechanism", "marginals"]) == 1
    said = capsys.readouterr()
    assert "result.model.potentials" in said.out
    assert "The audit found faults" in said.err


def test_a_fault_of_the_noise_is_told(capsys, fewer_draws):
    with mutations.half_scale():
        assert main(["audit", "--pairs", "1", *FAST[3:], "--runs", "0", "--mechanism", "marginals"]) == 1
    said = capsys.readouterr().out
    assert "not run" in said and "does not follow its laplace distribution" in said


def test_unknown_mechanism(capsys):
    assert main(["audit", "--mechanism", "magic"]) == 2
    assert "invalid choice" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--runs", "-1"], "--runs must be at least 2, or 0 for none, got -1"),
        (["--runs", "1"], "--runs must be at least 2, or 0 for none, got 1"),
        (["--pairs", "0"], "--pairs"),
        (["--pairs", "-3"], "--pairs"),
        (["--seconds", "-1"], "--seconds must be at least 0 and at most 1000000, got -1.0"),
        (["--seconds", "nan"], "--seconds must be at least 0 and at most 1000000, got nan"),
    ],
)
def test_numbers_out_of_range(capsys, words, said):
    assert main(["audit", "--mechanism", "marginals", *words]) == 2
    told = capsys.readouterr()
    assert said in told.err and not told.out


OWN = """
from pgmjax.mechanisms import Marginals

class Mine(Marginals):
    name = "mine"

class Counts(Marginals):
    name = "counts"
    def run(self, data, workload):
        return data.count(), super().run(data, workload)

class Bare:
    pass
"""


def test_a_class_of_the_users_own(capsys, tmp_path, monkeypatch, without_primitives):
    (tmp_path / "own_mechanisms.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("nowhere")
    assert main([*FAST, "--mechanism", "own_mechanisms:Mine", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert {each["mechanism"] for each in record["mechanisms"]} == {"mine"}
    assert main([*FAST, "--mechanism", "own_mechanisms:Counts", "--runs", "0"]) == 1
    assert "differ in result[0]: a private number got past the noise" in capsys.readouterr().out
    for name, said in (
        ("own_mechanisms:Bare", "lacks a text `name`"),
        ("own_mechanisms:Other", "own_mechanisms has no 'Other': it has the classes"),
        ("no_such_module:Mine", "there is no module 'no_such_module'"),
        ("own_mechanisms:", "or write module:Class"),
    ):
        assert main(["audit", "--mechanism", name]) == 2
        assert said in capsys.readouterr().err


def test_a_seed_is_handed_on(capsys, monkeypatch, without_primitives):
    seeds = []
    true = audit.audit_mechanism
    monkeypatch.setattr(audit, "audit_mechanism", lambda *g, **m: seeds.append(m["seed"]) or true(*g, **m))
    for words in ([], ["--seed", "7"]):
        assert main([*FAST, "--pairs", "1", "--runs", "0", "--mechanism", "marginals", *words]) == 0
    assert seeds == 4 * [0] + 4 * [7]
    assert main(["audit", "--seed", "-1"]) == 2
    assert "--seed" in capsys.readouterr().err
