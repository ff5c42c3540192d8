"""What spends is one object in one process: forks, copies and pickles of it spend nothing."""

import copy
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.ratings import Ratings
from pgmjax.data.relation import Relation
from pgmjax.privacy.budget import Budget
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.ratings import PrivateRatings
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.privacy.threshold import ThresholdTest

REPLACE = Relation.REPLACE_ONE


def table():
    data = Dataset.from_columns(Domain({"a": 2}), {"a": [0, 1, 1]})
    return PrivateTable(data, REPLACE, Budget(9), SeededBackend(1, insecure=True))


def ratings():
    found = Ratings([0, 1], [0, 0], [1.0, 2.0], (2, 1), (1.0, 5.0))
    return PrivateRatings(found, REPLACE, Budget(1), protect="record")


SPENDERS = {
    "Budget": lambda: Budget(1),
    "PrivateTable": table,
    "PrivateRatings": ratings,
    "ThresholdTest": lambda: ThresholdTest(table(), 10, epsilon=1),
    "Responses": lambda: table().respond([["a"]], epsilons=[1]),
}


@pytest.mark.parametrize("kind", SPENDERS)
@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, pickle.dumps])
def test_there_are_no_copies(kind, again):
    with pytest.raises(TypeError, match=f"A {kind} cannot be copied or pickled"):
        again(SPENDERS[kind]())


FORKED = """
import os, sys
sys.path.insert(0, sys.argv[1])
from pgmjax.privacy.budget import Budget
from pgmjax.privacy.threshold import ThresholdTest
from pgmjax.queries import Product, marginal, point
from test_single_process import REPLACE, table

budget, one, two = Budget(1), table(), table()
test = ThresholdTest(table(), 10, epsilon=1)
answers = one.respond([["a"]], epsilons=[1])
begun = iter(one.respond([["a"]], epsilons=[1]))
uses = [
    lambda: budget.require(1),
    lambda: budget.bind(REPLACE),
    lambda: budget.charge(1),
    lambda: two.measure([marginal(["a"])], epsilons=[1]),
    lambda: test.far(Product({"a": point(1)}), 2),
    lambda: list(answers),
    lambda: list(begun),
]
if os.fork():
    assert os.waitstatus_to_exitcode(os.wait()[1]) == len(uses)
    assert budget.spent == two.budget.spent == 0
    for use in uses:  # the process that made them goes on
        use()
    assert budget.spent == 1
else:
    refused = 0
    for use in uses:
        try:
            use()
        except RuntimeError as error:
            refused += "in the process that made it" in str(error)
    os._exit(refused)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks on this system")
def test_the_child_of_a_fork_spends_nothing():
    command = [sys.executable, "-c", FORKED, os.path.dirname(__file__)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_what_is_spent_by_threads_of_one_process_adds_up():
    budget = Budget(1)
    threads = [threading.Thread(target=budget.charge, args=("0.1",)) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert budget.remaining == 0 and np.isclose(float(budget.spent), 1)
