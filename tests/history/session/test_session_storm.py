"""Several processes in one session, killed at any moment: no answer and no budget is lost or overspent."""

import json
import os
import pathlib
import subprocess
import sys
from fractions import Fraction

import pytest

from pgmjax.history import Session
from pgmjax.history.session.costs import CellAccount
from pgmjax.history.session.state import query_of
from pgmjax.privacy.ledger import Ledger

WORKER = pathlib.Path(__file__).with_name("session_worker.py")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "b.ledger"


def run(*arguments):
    done = subprocess.run(
        [sys.executable, str(WORKER), *map(str, arguments)], capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr


def check(path):
    """Return the answers that were shown, each held against what the file alone says."""
    shown = []
    for log in path.parent.glob("*.log*"):
        shown += [json.loads(line) for line in log.read_text().split("\n")[:-1]]
    with Session.read(path) as session:
        again = {answer.step: json.loads(json.dumps(answer.to_dict())) for answer in session.answers()}
        for answer in shown:
            assert again[answer["step"]] == answer, "shown, and not what follows from the file"
        account = CellAccount(session.domain, session.relation)
        records = session._log.records
        for record, after in zip(records, [*records[1:], None], strict=True):
            if record["kind"] == "bought":
                account = account.added(query_of(record), record["rate"])
                assert after is None or after["kind"] == "noise"
        assert account.cost == session.cost <= session.cap == 1
    with Ledger.open(path) as ledger:
        ledger.verify().raise_if_bad()
        (charge,) = ledger.charges("t")
        assert charge.cost == ledger.account("t").spent == 1
    return shown, session.cost


def test_four_processes_at_once(path):
    run("rush", path, 4, 100)
    shown, cost = check(path)
    assert len(shown) == 400 == len({answer["step"] for answer in shown})
    assert cost > Fraction(1, 20)


def test_fifty_kills(path):
    run("storm", path, 50, 2)
    assert len(check(path)[0]) > 50
