"""No error shows a value of the table: values planted at random are looked for in every message.

Messages, their causes and contexts are all searched. Planted values are long enough not to stand there
by chance.
"""

import traceback
from unittest import mock

import numpy as np
import pandas
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgmjax import queries
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.mechanisms import Marginals
from pgmjax.privacy.budget import Budget
from pgmjax.privacy.gate import TableReadError
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.scores import Counts, Distances
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.queries.workload import Workload

DOMAIN = Domain({"color": {"labels": ["red", "blue"]}, "size": {"bins": [0, 10, 20]}, "kind": 3})
ROWS = 12
SEEDED = SeededBackend(0, insecure=True)
quick = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
# outside every attribute: a word, a number beyond the bins, a code beyond the size
planted_values = st.one_of(
    st.integers(10**6, 10**12).map(lambda number: f"Qx{number}"),
    st.integers(10**7, 10**12).map(str),
    st.integers(10**7, 10**12).map(lambda number: f"-{number}"),
    st.integers(10**7, 10**12).map(lambda number: f"{number}.25"),
)
places = st.tuples(st.sampled_from(["color", "size", "kind"]), st.integers(0, ROWS - 1))


def columns(planted, place):
    table = {
        "color": ["red", "blue"] * (ROWS // 2),
        "size": [str(k) for k in range(ROWS)],
        "kind": [str(k % 3) for k in range(ROWS)],
    }
    table[place[0]][place[1]] = planted
    return table


def everything_said(error):
    return "".join(traceback.format_exception(error))


def use(data):
    """Whatever a user does with a table that could make it speak."""
    release = Marginals(epsilon=1, relation=Relation.ADD_REMOVE, backend=SEEDED)
    release.run(data, Workload.of_marginals([("color", "size"), ("kind",)]))


def silent(planted, act):
    # the test's own variables are no message: only what the library says is searched
    with pytest.raises((ValueError, TypeError)) as caught:
        act()
    digits = planted.strip("-").removesuffix(".25").removeprefix("Qx")
    messages = [str(each) for each in chain(caught.value)]
    assert not [each for each in messages if digits in each], "a message shows the planted value"


def chain(error):
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


@quick
@given(planted_values, places)
def test_csv(tmp_path, planted, place):
    path = tmp_path / "t.csv"
    pandas.DataFrame(columns(planted, place)).to_csv(path, index=False)
    silent(planted, lambda: use(Dataset.read(path, DOMAIN)))


@quick
@given(planted_values, places)
def test_parquet_of_text(tmp_path, planted, place):
    path = tmp_path / "t.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns(planted, place)), path)
    silent(planted, lambda: use(Dataset.read(path, DOMAIN)))


@quick
@given(planted_values, places)
def test_frames(planted, place):
    silent(planted, lambda: use(Dataset.from_frame(DOMAIN, pandas.DataFrame(columns(planted, place)))))


@quick
@given(st.integers(10**7, 10**12), places)
def test_codes(planted, place):
    codes = {name: np.zeros(ROWS, dtype=np.int64) for name in DOMAIN}
    codes[place[0]][place[1]] = planted
    silent(str(planted), lambda: use(Dataset.from_columns(DOMAIN, codes)))


@quick
@given(st.integers(10**7, 10**12), st.integers(0, ROWS - 1))
def test_weights(planted, row):
    codes = {name: np.zeros(ROWS, dtype=np.int64) for name in DOMAIN}
    weights = np.ones(ROWS, dtype=np.int64)
    weights[row] = planted
    silent(
        str(planted),
        lambda: use(Dataset.from_columns(DOMAIN, codes, weights=weights, max_weight=5)),
    )


GOOD = {name: np.zeros(ROWS, dtype=np.int64) for name in DOMAIN}


@quick
@given(st.integers(10**7, 10**12), st.booleans())
def test_failures_after_the_charge(planted, selects):
    """Whatever a reader or a score says is withheld, and the error carries no other along."""
    data = Dataset.from_columns(DOMAIN, GOOD)
    table = PrivateTable(data, Relation.ADD_REMOVE, Budget(1), SEEDED)
    kind = queries.marginal(["kind"])

    def speaking(*given):
        raise OverflowError(f"count {planted} is too large")

    owner, name = (Counts, "values") if selects else (Dataset, "marginals")
    with mock.patch.object(owner, name, speaking), pytest.raises(TableReadError) as caught:
        if selects:
            table.select(Counts(kind), epsilon=1)
        else:
            table.measure([kind], epsilons=[1])
    assert str(planted) not in everything_said(caught.value)
    assert [type(each) for each in chain(caught.value)] == [TableReadError]
    assert table.budget.remaining == 0


@quick
@given(st.integers(2**40, 2**41))
def test_scores_too_large_saturate(weight):
    """Exact counts too large for a score are no error: whether there is one would tell."""
    rows = 40
    codes = {name: [0] * rows for name in DOMAIN}
    data = Dataset.from_columns(DOMAIN, codes, weights=[weight] * rows, max_weight=2**41)
    table = PrivateTable(data, Relation.ADD_REMOVE, Budget(1), SEEDED)
    score = Distances([(queries.marginal(["kind"]), np.zeros(3)), (queries.marginal(["size"]), np.zeros(2))])
    assert table.select(score, epsilon=1) in (0, 1)
