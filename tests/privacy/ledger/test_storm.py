"""Many processes at once, forks, kills and a full disk: what the ledger promises holds."""

import collections
import json
import os
import pathlib
import subprocess
import sys

import pytest

from pgmjax.privacy.accounting.events import Pure
from pgmjax.privacy.ledger import Ledger

COST = [Pure("0.01")]
WORKER = pathlib.Path(__file__).with_name("worker.py")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked")


def run(*arguments):
    command = [sys.executable, str(WORKER), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budgets"


def make(path, epsilon):
    with Ledger.create(path) as ledger:
        ledger.register("table", epsilon=epsilon, relation="add-remove", digest="d", max_attempts=1000)


def test_eight_processes_are_granted_exactly_the_cap(path):
    make(path, 1)
    granted = run("rush", path, 8, 40)
    assert len(granted) == 8 and sum(granted) == 100
    with Ledger.open(path) as ledger:
        account = ledger.account("table")
        assert (account.spent, account.remaining, account.charges) == (1, 0, 100)
        ledger.verify().raise_if_bad()


def test_a_ledger_carried_across_a_fork_loses_nothing(path):
    """With an inherited connection, SQLite in the child holds no lock and its last commit is lost."""
    make(path, 1)
    keys = run("carry", path)
    assert sorted(keys) == ["child 1", "child 2", "parent", "parent again"]
    with Ledger.open(path) as ledger:
        ledger.verify().raise_if_bad()


def check_storm(path):
    shown = collections.defaultdict(set)
    for log in path.parent.glob("*.log*"):
        for line in log.read_text().split("\n")[:-1]:  # the last one may be cut off
            key, step, noisy = line.split("\t")
            shown[key, int(step)].add(noisy)
    assert shown, "nobody showed anything"
    with Ledger.open(path) as ledger:
        found = ledger.verify()
        found.raise_if_bad()
        account, charges = ledger.account("table"), {one.key: one for one in ledger.charges("table")}
        assert account.spent <= account.cap and account.spent == sum(one.cost for one in charges.values())
        with ledger._file.reading() as connection:
            query = "SELECT key, step, payload FROM answer JOIN charge ON charge.id = answer.charge"
            stored = {(key, step): payload.hex() for key, step, payload in connection.execute(query)}
    for (key, step), answers in shown.items():
        assert key in charges, "an answer without a charge"
        assert answers == {stored[key, step]}, "two answers to one step, or one that is not stored"
    return len(shown)


def test_two_hundred_kills(path):
    make(path, 40)
    run("storm", path, 200, 2)
    check_storm(path)


def test_full_disk_shows_nothing_that_is_not_stored(path):
    make(path, 10)
    made = path.stat().st_size
    done = run("full", path, made + 300_000)
    assert "could not be" in done["said"], "the limit was not reached"
    assert "disk" in done["said"] and "same key" in done["said"]
    assert "Traceback" not in done["said"] and "sqlite" not in done["said"].lower()
    assert len(done["charged"]) - len(done["shown"]) in (0, 1) and len(done["shown"]) >= 3
    with Ledger.open(path) as ledger:
        ledger.verify().raise_if_bad()
        assert {one.key for one in ledger.charges("table")} >= set(done["charged"])
        for key, noisy in done["shown"]:
            again = ledger.reserve("table", key, {}, COST, relation="add-remove", secure=True)
            assert again.answer(0, {}, lambda: pytest.fail("was stored")).hex() == noisy
        ledger.reserve("table", "with space again", {}, COST, relation="add-remove", secure=True)
