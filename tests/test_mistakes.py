"""The seventy mistakes of mistakes.py: what a machine can check of their messages."""

import pathlib

import pytest

from tests import mistakes

ROOT = pathlib.Path(__file__).parent.parent
SAYS = {
    "Half of a command's name": "Did you mean pgmjax domain draft?",
    "An option is misspelt": "pgmjax release: error: unrecognized arguments: --epsilom 1. Did you mean",
    "No relation": "--relation (add-remove if the number of records is secret, ",
    "A negative epsilon": "epsilon must be > 0, got -1: give a number such as 1 or 0.1.",
    "The table does not exist": "There is no table poeple.csv. Did you mean people.csv?",
    "A folder for the table": "only these are read from a folder: name a file.",
    "A CSV file with another delimiter": "its first line is one field, and commas,",
    "Two columns of one name": "2 columns named 'age', and needs one: rename",
    "A value outside the domain": "say what happens to such records: --rows-outside drop.",
    "The domain file is broken JSON": "broken.json, line 2, column 29: This is not JSON: Expecting ','",
    "The domain file has an unknown key": "the key 'minimum', which is unknown. Did you mean min?",
    "The domain file is a list": "such as {age: {min: 0, max: 99}}, got a list of",
    "The ledger is spent": "pgmjax ledger show",
    "A query with an unknown operator": "behind 'sex', got '~F'",
    "A query of a folder that is no release": "Give a folder written by `pgmjax release`.",
    "An earlier release over another domain": "Give the file that it was made with as --domain, or",
    "A negative standard deviation": "--stddev must be finite and > 0, got -5",
    "A model that is too large": "or give --max-cells N, or --all-kway a smaller K.",
    "A unit that is no column": "no column named 'persom', and the unit of privacy (--unit) needs one",
    "An audit of an unknown mechanism": "usage: pgmjax audit [-h] [--mechanism NAME]",
    "A short name of an option": "-e 1. Options have no short form here: write --epsilon",
    "An option for what stands alone": "--table. Did you mean TABLE, without an option?",
    "An option without its value": "--epsilon has no value behind it: write --epsilon E",
    "Two values of epsilon": "--epsilon: is given twice: give it once.",
    "Two tables": "wide.csv. That is one too many: pgmjax release takes TABLE beside its options",
    "An empty name": "argument --out: is empty: write --out DIR",
    "An address for a table": "is an address: download the table, and give the name of the file.",
}
IN_PYTHON = {
    "A value outside the domain": "Correct the domain or the table. Nothing was spent.",
    "A frame without rows": "The frame has no row, and needs at least one. Nothing was spent.",
    "The relation is misspelt": 'relation must be "add-remove" (the number of records is secret) or',
    "A unit that is no column": "no column named 'persom', which Unit names: correct the name there",
    "An argument that there is not": "Dataset.read has no argument 'delimiter': leave it out, the separator",
    "A table without its domain": "Dataset.read needs domain (what values each column has",
    "A number for a folder": "path must be the name of a file or folder, got int.",
    "Counts of the wrong shape": "expected shape (2,), got (3,)",
    "A negative standard deviation": "1 of 1 are not, such as -5",
    "A count of an unknown attribute": "not an attribute of the domain; it has sex",
}


@pytest.fixture(scope="module")
def bench():
    return mistakes


@pytest.fixture(scope="module")
def outcomes(bench):
    """What every mistake did, by its case."""
    with bench.working_folder():
        names = bench.prepare()
        return {id(case): bench.attempt(case, names) for case in bench.CASES}


def test_no_traceback_no_secret_nothing_spent_and_the_documented_exit_status(bench, outcomes):
    found = {case.title: outcomes[id(case)].faults(case) for case in bench.CASES}
    assert len(bench.CASES) == 70 and not {title: faults for title, faults in found.items() if faults}


def test_the_checks_see_what_they_are_to_see(bench):
    """A check that finds nothing in a bad outcome would find nothing anywhere."""
    bad = bench.Outcome("Traceback: Zyxw9173", "91730917", 0, ("budgets.ledger",))
    faults = bad.faults(bench.COMMANDS[0])
    assert len(faults) == 5 and faults[0] == "status 0, expected 2" and faults[-1] == "changed budgets.ledger"


def test_a_charge_and_a_release_are_seen(bench):
    words = f"{bench.RELEASE} --epsilon 0.25 --relation add-remove --ledger moved.ledger --insecure-seed 0"
    with bench.working_folder():
        bench.prepare()
        pathlib.Path("moved.key").replace("moved.ledger.key")
        outcome = bench.attempt(bench.Case("no mistake", f"{words} --steps 5 --quiet --out new"), {})
    assert outcome.status == 0 and {"moved.ledger", "new/release.json"} <= {*outcome.changed}


def test_messages_say_what_to_do(bench, outcomes):
    for cases, said in ((bench.COMMANDS, SAYS), (bench.PYTHON, IN_PYTHON)):
        messages = {case.title: outcomes[id(case)].message for case in cases}
        assert {*said} <= {*messages}
        assert not {title: messages[title] for title, words in said.items() if words not in messages[title]}


def test_grades_are_enough_and_the_committed_page_has_these_cases(bench):
    full = sum(not case.misses for case in bench.CASES)
    assert full >= bench.ENOUGH and not any(case.misleading for case in bench.CASES)
    assert all(case.misses.keys() <= bench.POINTS.keys() for case in bench.CASES)
    page = (ROOT / "tests" / "mistakes.md").read_text(encoding="utf-8")
    for number, case in enumerate(bench.CASES, 1):
        assert f"\n## {number}. {case.title}\n" in page and f"\n{case.tried}\n```\n" in page
        assert f"\nGrade: {bench.grade(case)}\n" in page
    assert page.count("\n## ") == 71 and f"{full} of 70 messages have all five points; 0 are" in page
