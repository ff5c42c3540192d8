"""Responses through the choke point: what is refused, charged, kept, and handed out in order."""

import io
import itertools
from fractions import Fraction

import numpy as np
import pytest

from pgmjax.audit.replay import check_pair
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.local.marginals import marginals_of
from pgmjax.privacy import responding
from pgmjax.privacy.budget import Budget, BudgetExceeded
from pgmjax.privacy.gate import TableReadError
from pgmjax.privacy.ledger import Ledger
from pgmjax.privacy.ledger.journal import HeldTable, LedgerJournal
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.privacy.tape import NonInterferenceError, Tape

DOMAIN = Domain({"a": 3, "b": 2, "c": 5})
REPLACE = Relation.REPLACE_ONE
TRUTHFUL = ["30", "30", "30"]  # a lie has a chance of 1e-12


def data_of(rows, seed=0):
    rng = np.random.default_rng(seed)
    return Dataset.from_columns(
        DOMAIN, {name: rng.integers(0, size, rows) for name, size in DOMAIN.sizes.items()}
    )


def table_of(data, cap=100, relation=REPLACE, journal=None, seed=0):
    return PrivateTable(data, relation, Budget(cap), SeededBackend(seed, insecure=True), journal)


def columns_of(data):
    parts = list(data.records(DOMAIN.attributes))
    return {name: np.concatenate([part[name] for part in parts]).astype(int) for name in DOMAIN}


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(responding, "_MOST_ROWS", 7)
    monkeypatch.setattr(responding, "_FEWEST_ROWS", 1)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("rows", [1, 6, 7, 8, 20])
def test_answers_come_in_the_order_of_the_table(rows):
    data = data_of(rows)
    groups = [["c"], ["b", "a"], ["a"]]
    encodings = ["direct", "direct", "optimal-unary"]
    responses = table_of(data).respond(groups, epsilons=TRUTHFUL, encodings=encodings)
    blocks = list(responses)
    assert responses.rows == rows and [len(block[0]) for block in blocks][:-1] == [7] * (len(blocks) - 1)
    first, second, third = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    truth = columns_of(data)
    assert first.dtype == np.uint8 and third.shape == (rows, 3) and third.dtype == bool
    assert np.array_equal(first, truth["c"])
    assert np.array_equal(second, truth["b"] * 3 + truth["a"])
    others = np.arange(3) != truth["a"][:, None]
    assert not third[others].any()  # of the own bits, half are 1 whatever epsilon


def test_each_group_is_charged_before_anything_is_read():
    data, budget = data_of(5), Budget(1)
    table = PrivateTable(data, REPLACE, budget, SeededBackend(0, insecure=True))
    responses = table.respond([["a"], ["b"]], epsilons=["0.25", "0.5"])
    assert budget.spent == Fraction(3, 4)
    with pytest.raises(BudgetExceeded):
        table.respond([["a"]], epsilons=["0.3"])
    list(responses)
    with pytest.raises(ValueError, match="read before, and records answer once"):
        list(responses)


@pytest.mark.parametrize(
    "groups, more, kind, words",
    [
        ([], {}, ValueError, "nothing to answer for"),
        ([["a"]], {"epsilons": [1, 2]}, ValueError, "one epsilon a group: expected 1, got 2"),
        ([["a"]], {"encodings": ["direct"] * 2}, ValueError, "one encoding a group: expected 1, got 2"),
        ([["a"]], {"encodings": ["unary"]}, ValueError, "encoding.*'direct'"),
        ([["z"]], {}, ValueError, "'z'"),
        (["a"], {}, TypeError, r"'a'.*\('a',\)"),
        ([["a"]], {"epsilons": [-1]}, ValueError, "epsilon.*-1"),
        ([["a"]], {"epsilons": ["1e-30"]}, ValueError, r"epsilon 0\.0.* 3 "),
    ],
)
def test_bad_requests_cost_nothing(groups, more, kind, words):
    budget = Budget(1)
    table = PrivateTable(data_of(5), REPLACE, budget, SeededBackend(0, insecure=True))
    with pytest.raises(kind, match=words):
        table.respond(groups, **{"epsilons": [1] * len(groups), **more})
    assert budget.spent == 0


def test_sizes_that_cannot_be_answered_for():
    domain = Domain({"one": 1, "many": 70_000, "more": 40_000})
    data = Dataset.from_columns(domain, {"one": [0], "many": [5], "more": [1]})
    table = PrivateTable(data, REPLACE, Budget(1), SeededBackend(0, insecure=True))
    with pytest.raises(ValueError, match="1 categories"):
        table.respond([["one"]], epsilons=[1])
    with pytest.raises(ValueError, match="2,800,000,000 categories"):
        table.respond([["many", "more"]], epsilons=[1])
    with pytest.raises(ValueError, match="2 to 65,536"):
        table.respond([["many"]], epsilons=[1], encodings=["optimal-unary"])


def test_add_remove_and_weights_are_refused():
    with pytest.raises(ValueError, match="replace-one only, got add-remove"):
        table_of(data_of(3), relation=Relation.ADD_REMOVE).respond([["a"]], epsilons=[1])
    weighted = Dataset.from_columns(DOMAIN, {name: [0, 1] for name in "abc"}, weights=[1, 2], max_weight=3)
    with pytest.raises(ValueError, match="no weighted tables"):
        table_of(weighted).respond([["a"]], epsilons=[1])


def neighbour_of(data, places):
    columns = columns_of(data)
    for place in places:
        columns["a"][place] = (columns["a"][place] + 1) % 3
    return Dataset.from_columns(DOMAIN, columns)


def asked(data):
    responses = table_of(data).respond(
        [["a", "c"], ["b"]], epsilons=[1, 1], encodings=["direct", "symmetric-unary"]
    )
    return [part.tolist() for block in responses for part in block]


@pytest.mark.usefixtures("small_blocks")
def test_replay_on_neighbours_passes_and_two_changed_records_do_not():
    data = data_of(20)
    tape = check_pair(asked, data, neighbour_of(data, [4]))
    assert [call.kind for call in tape.calls] == ["public count", "response", "response"]
    with pytest.raises(NonInterferenceError, match=r"records.*1"):
        check_pair(asked, data, neighbour_of(data, [4, 9]))


def test_what_is_made_under_a_tape_is_the_same():
    data = data_of(20)
    with Tape().recording():
        taped = asked(data)
    assert taped == asked(data)


class Interrupted(Exception):
    pass


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("encoding", ["direct", "optimal-unary"])
def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path, encoding, monkeypatch):
    """Stored blocks come back as they were, each record's answer is drawn once, and the charge is one."""
    data, drawn = data_of(30), []
    name = "respond" if encoding == "direct" else "respond_bits"
    true = getattr(SeededBackend, name)

    def watched(self, distribution, codes):
        drawn.append(codes.copy())
        if len(drawn) == 3:
            raise Interrupted
        return true(self, distribution, codes)

    monkeypatch.setattr(SeededBackend, name, watched)
    with Ledger.create(tmp_path / "budgets.ledger") as ledger:
        digest = ledger.digest_of(data)
        ledger.register(
            "people", epsilon=1, relation="replace-one", digest=digest, research=True, domain=data.domain
        )

        def run(seed):
            journal = LedgerJournal(ledger, HeldTable.of(ledger, data), "one", {"mechanism": "test"})
            table = table_of(data, cap=1, journal=journal, seed=seed)
            answers = table.respond([["c"]], epsilons=[1], encodings=[encoding], row_order_is_public=True)
            return iter(answers)

        blocks = run(1)
        kept = [next(blocks)[0].copy() for _ in range(2)]
        with pytest.raises(Interrupted):
            next(blocks)
        first = [block[0].copy() for block in run(2)]
        whole = len(drawn)
        second = [block[0] for block in run(3)]
        assert ledger.account("people").spent == 1 and ledger.account("people").charges == 1
    assert len(drawn) == whole == 6  # five blocks, one of them twice: no answer of the first try was shown
    assert all(np.array_equal(a, b) for a, b in zip(kept, first[:2], strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    answered_for = np.concatenate([*drawn[:2], *drawn[3:]])
    assert np.array_equal(answered_for, columns_of(data)["c"])


def test_a_table_that_changed_while_it_was_read_shows_nothing(monkeypatch):
    data = data_of(5)
    table = table_of(data)
    responses = table.respond([["a"]], epsilons=[1])

    def broken(self, names):
        raise ValueError("code 741 found")
        yield

    monkeypatch.setattr(Dataset, "records", broken)
    with pytest.raises(TableReadError) as caught:
        list(responses)
    assert "741" not in str(caught.value) and caught.value.__context__ is None
    assert table.budget.spent == 1


@pytest.mark.parametrize("rows", [3, 9])
def test_another_number_of_records_than_validated(monkeypatch, rows):
    responses = table_of(data_of(5)).respond([["a"]], epsilons=[1])
    monkeypatch.setattr(Dataset, "records", lambda self, names: iter([{"a": np.zeros(rows, np.uint8)}]))
    with pytest.raises(TableReadError):
        list(responses)


@pytest.mark.parametrize("cuts", list(itertools.product([1, 2, 3, 10], [1, 4, 5])))
def test_blocks_are_cut_alike_whatever_the_batches(cuts, monkeypatch):
    batch, block = cuts
    codes = np.arange(10)
    parts = [{"a": codes[start : start + batch]} for start in range(0, 10, batch)]
    monkeypatch.setattr(Dataset, "records", lambda self, names: iter(parts))
    reader = responding.Reader(data_of(1), ["a"], block)
    wanted = range(1, -(-10 // block))  # from the second on
    found = [reader.block(number)["a"].tolist() for number in wanted]
    assert found == [codes[number * block : (number + 1) * block].tolist() for number in wanted]


def journal_of(ledger, data, key="one"):
    return LedgerJournal(ledger, HeldTable.of(ledger, data), key, {"mechanism": "test"})


@pytest.fixture
def sorted_books(tmp_path):
    """A table sorted by a private value, whose order is not public, with an account."""
    data = Dataset.from_columns(DOMAIN, {"a": [0] * 60 + [2] * 40, "b": [0] * 100, "c": [1] * 50 + [3] * 50})
    with Ledger.create(tmp_path / "budgets.ledger") as ledger:
        digest = ledger.digest_of(data)
        ledger.register(
            "people", epsilon=200, relation="replace-one", digest=digest, research=True, domain=data.domain
        )
        yield ledger, data


def stored(ledger, key="one"):
    return [np.load(io.BytesIO(content)) for _, content in ledger.charge("people", key).stored()]


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("encoding", ["direct", "optimal-unary"])
def test_a_ledger_keeps_counts_and_no_order(sorted_books, encoding):
    """What is stored of a sorted table is what is stored of the same table in any other order."""
    ledger, data = sorted_books

    def asked(key, seed=0):
        table = table_of(data, cap=60, journal=journal_of(ledger, data, key), seed=seed)
        responses = table.respond([["a"], ["c"]], epsilons=["30", "30"], encodings=["direct", encoding])
        return marginals_of(responses, [["a"], ["a", "c"]])

    first = asked("one")
    assert first[0].counts().tolist() == [60, 0, 40]
    (kept,) = stored(ledger)
    assert kept.size == 4 + 4 * 6  # the sums of both cliques: no number of a record, of 15 blocks
    again = asked("one", seed=1)
    assert all(np.array_equal(a.sums, b.sums) for a, b in zip(first, again, strict=True))
    assert ledger.account("people").charges == 1


def test_responses_are_not_kept_in_an_order_that_may_be_private(sorted_books):
    ledger, data = sorted_books
    responses = table_of(data, journal=journal_of(ledger, data)).respond([["a"]], epsilons=["1"])
    with pytest.raises(ValueError, match=r"in the order of the table.*row_order_is_public=True"):
        list(responses)
    assert stored(ledger) == []
    assert marginals_of(responses, [["a"]])[0].rows == 100  # they can be counted


@pytest.mark.usefixtures("small_blocks")
def test_a_count_that_was_interrupted_begins_again(sorted_books, monkeypatch):
    ledger, data = sorted_books
    true, calls = SeededBackend.respond, []

    def breaks(self, distribution, codes):
        calls.append(codes)
        if len(calls) == 5:
            raise Interrupted
        return true(self, distribution, codes)

    monkeypatch.setattr(SeededBackend, "respond", breaks)

    def asked():
        table = table_of(data, journal=journal_of(ledger, data))
        return marginals_of(table.respond([["a"]], epsilons=["30"]), [["a"]])[0].counts().tolist()

    with pytest.raises(Interrupted):
        asked()
    assert stored(ledger) == []
    assert asked() == [60, 0, 40] and len(stored(ledger)) == 1
    assert ledger.account("people").charges == 1
