"""Perturbed tables with sorted rows: nothing is left of the order of the table, and nothing of it is kept."""

import sqlite3

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.local.table import check_sortable
from pgmjax.privacy.seeded import SeededBackend

DOMAIN = pj.Domain({"a": 300, "b": 2, "c": 5, "d": 3})
SURE = 180  # at this epsilon nobody lies, but for a probability below 10^-6


def columns(rows=5000):
    rng = np.random.default_rng(2)
    return {name: rng.integers(0, size, rows) for name, size in DOMAIN.sizes.items()}


def perturb(given, encoding, **more):
    mechanism = pj.mechanisms.RandomizedResponse(
        SURE, "replace-one", universe=[["d", "b"], ["a"], ["c"]], encoding=encoding
    )
    data = pj.Dataset.from_columns(DOMAIN, given)
    return mechanism.perturb(data, row_order="sorted", show_progress=False, **more)


@pytest.mark.parametrize("encoding", ["direct", "symmetric-unary"])
def test_rows_stay_whole_and_their_order_says_nothing(encoding, tmp_path):
    given = columns()
    by_a = np.argsort(given["a"], kind="stable")
    ordered = perturb({name: codes[by_a] for name, codes in given.items()}, encoding)
    table = perturb(given, encoding, out=tmp_path / "t")
    for column, other in zip(table.columns, ordered.columns, strict=True):
        np.testing.assert_array_equal(column.answers, other.answers)
    assert table.groups == (("d", "b"), ("a",), ("c",)) and table.row_order == "sorted"
    (blocks,) = table.blocks()
    answered = [part if part.ndim == 1 else np.argmax(part, axis=1) for part in blocks]
    found = sorted(zip(*(part.tolist() for part in answered), strict=True))
    cells = given["d"] * 2 + given["b"]
    assert found == sorted(zip(cells.tolist(), given["a"].tolist(), given["c"].tolist(), strict=True))
    assert pj.local.load(tmp_path / "t").row_order == "sorted"
    with pytest.raises(ValueError, match=r"perturbed table: write local\.load"):
        pj.load(tmp_path / "t")


def stored(path):
    with sqlite3.connect(path) as connection:
        return [payload for (payload,) in connection.execute("SELECT payload FROM answer ORDER BY rowid")]


def test_a_ledger_keeps_sorted_rows_and_nothing_else(tmp_path):
    """Tables of the same records in another order leave the same answers in their ledgers."""
    given, payloads = columns(), []
    for number, order in enumerate((slice(None), slice(None, None, -1))):
        data = {name: codes[order] for name, codes in given.items()}
        with pj.privacy.Ledger.create(tmp_path / f"{number}.ledger") as ledger:
            table = pj.Dataset.from_columns(DOMAIN, data)
            ledger.register(
                "t", epsilon=SURE, relation="replace-one", digest=ledger.digest_of(table), domain=DOMAIN
            )
            first = perturb(data, "direct", ledger=ledger)
            again = perturb(data, "direct", ledger=ledger)
            assert ledger.account("t").spent == SURE
        for column, other in zip(first.columns, again.columns, strict=True):
            np.testing.assert_array_equal(column.answers, other.answers)
        payloads.append(stored(tmp_path / f"{number}.ledger"))
    assert payloads[0] == payloads[1] and len(payloads[0]) == 1


def test_the_place_of_a_sorted_row_says_nothing():
    mechanism = pj.mechanisms.RandomizedResponse(
        2, "replace-one", universe="joint", backend=SeededBackend(1, insecure=True)
    )
    data = pj.Dataset.from_columns(pj.Domain({"edge": 2}), {"edge": [0, 1, 1]})
    table = mechanism.perturb(data, row_order="sorted", show_progress=False)
    for act in (
        lambda: pj.local.answer_rows(table, np.zeros((3, 2))),
        lambda: pj.local.group_histograms(table, [0, 1, 1]),
        lambda: pj.local.PerturbedGraph.of(table, 3),
    ):
        with pytest.raises(ValueError, match="rows of this perturbed table are sorted"):
            act()
    assert pj.local.group_histograms(table).counts.sum() == 3


def test_what_does_not_fit_is_refused_beforehand():
    check_sortable([5, 300], ["direct", "direct"], 10**6, in_ledger=True)
    with pytest.raises(ValueError, match="a ledger stores at most 858 MiB at once"):
        check_sortable([1 << 16], ["optimal-unary"], 200_000, in_ledger=True)
    with pytest.raises(ValueError, match="Sorting the answers of 1,000,000,000,000 records needs"):
        check_sortable([1 << 16], ["optimal-unary"], 10**12, in_ledger=False)


def universe(value):
    return pj.mechanisms.RandomizedResponse(1, "replace-one", universe=value, share=None)


def test_lists_of_attributes():
    mechanism = pj.mechanisms.RandomizedResponse(3, "replace-one", universe=[["d", "b"], ["c"], ["a"]])
    errors = mechanism.predicted_errors(DOMAIN, [["c"]], 1000)
    alone = pj.mechanisms.RandomizedResponse(3, "replace-one").predicted_errors(DOMAIN, [["c"]], 1000)
    assert errors == alone  # of three lists, only the one that is asked about has a record answer
    for value, words in [
        ([["a"], ["b", "a"]], "lists 'a' twice"),
        ([[], ["a"]], "at least one attribute"),
        ("all", "'attributes'.*'joint'"),
    ]:
        with pytest.raises(ValueError, match=words):
            universe(value)
    with pytest.raises(TypeError, match=r"names.*str"):
        universe(["a"])
    with pytest.raises(ValueError, match="'b' is asked about and in none of the lists"):
        universe([["a"]]).predicted_errors(DOMAIN, [["b"]], 10)
    with pytest.raises(ValueError, match="leave it out where universe lists groups"):
        pj.mechanisms.RandomizedResponse(1, "replace-one", universe=[["a"]], share={"a": 1}).predicted_errors(
            DOMAIN, [["a"]], 10
        )


def test_the_order_of_the_table_must_be_public_or_sorted():
    data = pj.Dataset.from_columns(DOMAIN, columns(10))
    with pytest.raises(ValueError, match='row_order="sorted"'):
        pj.mechanisms.RandomizedResponse(1, "replace-one").perturb(data)
    with pytest.raises(ValueError, match=r"row_order.*'random'"):
        pj.mechanisms.RandomizedResponse(1, "replace-one").perturb(data, row_order="random")
