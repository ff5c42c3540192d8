"""`pgmjax audit`: the table, the JSON object, and a failure where there is a fault."""

import json

import pytest

from pgmjax import mechanisms
from pgmjax.audit import mutations
from pgmjax.cli import main

# three audits (that pass) of the secure noise with fresh entropy, 24 statistics each, at 2e-8 at most
FALSE_ALARMS = 3 * 24 * 2e-8

FAST = ["audit", "--pairs", "4", "--runs", "20"]


def test_all_mechanisms_in_a_table(capsys):
    assert main([*FAST, "--mechanism", "all"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split("  ")[0] == "mechanism" and "L3 lower bound" in lines[0] and "L1 pairs" in lines[0]
    audited = [line for line in lines[1:] if "runs)" in line]
    assert len(audited) == 4 * len(mechanisms.__all__)
    assert all(line.endswith("passed") for line in audited)
    assert sum("replace-one" in line for line in audited) == len(audited) // 2


def test_json_is_one_object(capsys):
    assert main([*FAST, "--mechanism", "marginals", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["passed"] is True and len(record["mechanisms"]) == 4
    first = record["mechanisms"][0]
    assert first["mechanism"] == "marginals" and first["pairs"] == 4 and first["epsilon"] == "1"
    assert first["trials"] == 20 and 0 <= first["bound"] <= 1 and first["fault"] is None
    assert all(each["passed"] for each in record["primitives"].values())


def test_a_fault_is_told_and_fails(capsys):
    with mutations.true_total():
        assert main([*FAST, "--mechanism", "marginals"]) == 1
    said = capsys.readouterr()
    assert "FAILED: With frozen noise the results differ in" in said.out
    assert "The audit found faults" in said.err


def test_a_fault_of_the_noise_is_told(capsys):
    with mutations.half_scale():
        assert main(["audit", "--pairs", "1", "--runs", "0", "--mechanism", "marginals"]) == 1
    said = capsys.readouterr().out
    assert "not run" in said and "does not follow its laplace law" in said


def test_seeded_bugs_are_listed(capsys):
    assert main(["audit", "--pairs", "1", "--runs", "0", "--mutants", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["mutants"]
    assert len(found) >= 25 and all(each["caught"] and each["by"] for each in found.values())


def test_unknown_mechanism(capsys):
    assert main(["audit", "--mechanism", "magic"]) == 2
    assert "invalid choice" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--runs", "-1"], "--runs must be at least 2, or 0 for none, got -1"),
        (["--runs", "1"], "--runs must be at least 2, or 0 for none, got 1"),
        (["--pairs", "0"], "--pairs must be at least 1, got 0"),
        (["--pairs", "-3"], "--pairs must be at least 1, got -3"),
    ],
)
def test_numbers_out_of_range(capsys, words, said):
    assert main(["audit", "--mechanism", "marginals", *words]) == 2
    told = capsys.readouterr()
    assert said in told.err and not told.out
