"""The seventy mistakes of mistakes.py: what a machine can check of their messages."""

import pathlib

import pytest

from tests import mistakes

ROOT = pathlib.Path(__file__).parent.parent
SAYS = {
    "Half of a command's name": "pgmjax domain draft",
    "An option is misspelt": "--epsilon?",
    "No relation": "replace-one",
    "A negative epsilon": "--epsilon",
    "The table does not exist": "people.csv",
    "A folder for the table": ".parquet",
    "A CSV file with another delimiter": "colons.csv",
    "Two columns of one name": "'age'",
    "A value outside the domain": "--rows-outside drop",
    "The domain file is broken JSON": "broken.json, line 2, column 29",
    "The domain file has an unknown key": "'minimum'",
    "The domain file is a list": "{age: {min: 0, max: 99}}",
    "The ledger is spent": "pgmjax ledger show",
    "A query with an unknown operator": "'~F'",
    "A query of a folder that is no release": "`pgmjax release`",
    "An earlier release over another domain": "Give the file that it was made with as --domain, or",
    "A negative standard deviation": "--stddev must be finite and > 0, got -5",
    "A model that is too large": "or give --max-cells N, or --all-kway a smaller K.",
    "A unit that is no column": "(--unit)",
    "An audit of an unknown mechanism": "usage: pgmjax audit [-h] [--mechanism NAME]",
    "A short name of an option": "-e 1",
    "An option for what stands alone": "TABLE",
    "An option without its value": "--epsilon has no value behind it: write --epsilon E",
    "Two values of epsilon": "--epsilon: is given twice: give it once.",
    "Two tables": "wide.csv. That is one too many: pgmjax release takes TABLE beside its options",
    "An empty name": "--out DIR",
    "An address for a table": "https://example.org/people.csv",
}
IN_PYTHON = {
    "A value outside the domain": "'job'",
    "A frame without rows": "frame",
    "The relation is misspelt": '"replace-one"',
    "A unit that is no column": "'persom'",
    "An argument that there is not": "'delimiter'",
    "A table without its domain": "Domain.read('people.yaml')",
    "A number for a folder": "path must be the name of a file or folder, got int.",
    "Counts of the wrong shape": "(3,)",
    "A negative standard deviation": "-5",
    "A count of an unknown attribute": "'gender'",
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
        assert not {title: messages[title] for title, fact in said.items() if fact not in messages[title]}


def test_grades_are_enough_and_the_committed_page_has_these_cases(bench):
    full = sum(not case.misses for case in bench.CASES)
    assert full >= bench.ENOUGH and not any(case.misleading for case in bench.CASES)
    assert all(case.misses.keys() <= bench.POINTS.keys() for case in bench.CASES)
    page = (ROOT / "tests" / "mistakes.md").read_text(encoding="utf-8")
    for number, case in enumerate(bench.CASES, 1):
        assert f"\n## {number}. {case.title}\n" in page and f"\n{case.tried}\n```\n" in page
        assert f"\nGrade: {bench.grade(case)}\n" in page
    assert page.count("\n## ") == 71 and f"{full} of 70 messages have all five points; 0 are" in page
