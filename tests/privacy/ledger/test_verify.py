"""Whatever is done to a ledger's file from outside, verify finds it and says what."""

import re
import shutil
import sqlite3

import pytest

from pgmjax.privacy.accounting.events import Pure
from pgmjax.privacy.ledger import Ledger, LedgerError
from pgmjax.privacy.ledger import chain as ledger_chain
from pgmjax.privacy.ledger.database import LIMIT

RULES = {"relation": "add-remove", "secure": True}


def spend(ledger, key, payload=b"17"):
    ledger.reserve("table", key, {}, [Pure("0.1")], **RULES).answer(0, {}, lambda: payload)


@pytest.fixture
def path(tmp_path):
    place = tmp_path / "budgets"
    with Ledger.create(place) as ledger:
        ledger.register("table", epsilon=1, relation="add-remove", digest="abc")
        for k in range(3):
            spend(ledger, f"run {k}", b"answer %d" % k)
    return place


def tamper(path, *statements):
    """Write to the file as somebody would who knows SQLite."""
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def faults(path, head=None):
    with Ledger.open(path) as ledger:
        found = ledger.verify(head)
    assert not found.ok
    with pytest.raises(LedgerError, match=re.escape(f"not to be trusted: {found.faults[0]}")):
        found.raise_if_bad()
    return " ".join(found.faults)


def test_a_sound_ledger(path):
    with Ledger.open(path) as ledger:
        found = ledger.verify(ledger.head())
        assert found.ok and found.faults == () and found.head == ledger.head()
        assert found.rows == 2 + 3 * 3 and len(found.head) == 64
        assert found.to_dict() == {"ok": True, "rows": 11, "head": found.head, "faults": []}
        found.raise_if_bad()


def test_each_row_moves_the_head(tmp_path):
    with Ledger.create(tmp_path / "budgets") as ledger:
        heads = [ledger.head()]
        ledger.register("table", epsilon=1, relation="add-remove", digest="abc")
        heads.append(ledger.head())
        for key in "ab":
            spend(ledger, key)
            heads.append(ledger.head())
        assert len(set(heads)) == 4
        assert all(ledger.verify(head).ok for head in heads), "a head noted earlier stays in the chain"


CHANGES = [
    ("charge_is_not_changed", "UPDATE charge SET costs = '[1]' WHERE id = 2", "The charge 2 was changed"),
    (
        "charge_is_not_changed",
        "UPDATE charge SET costs = '[1]' WHERE id = 2",
        "The sums of account table",
    ),
    ("charge_is_not_changed", "UPDATE charge SET key = 'x' WHERE id = 3", "The charge 3 was changed"),
    ("budget_is_not_changed", "UPDATE budget SET caps = '[9000000000000]'", "The budget 1 was changed"),
    ("budget_is_not_changed", "UPDATE budget SET caps = '[1]'", "Account table is charged beyond its cap"),
    ("answer_is_not_changed", "UPDATE answer SET payload = x'00' WHERE id = 1", "The answer 1 was changed"),
    ("attempt_is_not_changed", "UPDATE attempt SET created = ''", "The attempt 1 was changed"),
    ("ledger_is_not_changed", "UPDATE ledger SET name = ''", "The ledger 1 was changed"),
    ("answer_is_not_deleted", "DELETE FROM answer WHERE id = 3", "The answer 3 is missing"),
    ("chain_is_not_deleted", "DELETE FROM chain WHERE seq = 5", "The chain is broken before link 6"),
    ("chain_is_not_deleted", "DELETE FROM chain WHERE seq = 5", "no link seals it"),
    (
        "chain_is_not_changed",
        "UPDATE chain SET hash = 'x' WHERE seq = 5",
        "The chain is broken before link 6",
    ),
    ("chain_is_not_deleted", "DELETE FROM chain", "The chain is empty"),
    ("charge_is_within_the_cap", "SELECT 1", "The rule or table charge_is_within_the_cap was removed"),
]


@pytest.mark.parametrize(("rule", "change", "said"), CHANGES)
def test_changes_are_named(path, rule, change, said):
    tamper(path, f"DROP TRIGGER {rule}", change)
    found = faults(path)
    assert said in found and f"{rule} was removed" in found


def test_only_the_changed_row_is_named(path):
    with Ledger.open(path) as ledger, ledger._file.reading() as connection:
        (sql,) = connection.execute(
            "SELECT sql FROM sqlite_master WHERE name = 'answer_is_not_changed'"
        ).fetchone()
    tamper(path, "DROP TRIGGER answer_is_not_changed", "UPDATE answer SET payload = x'00' WHERE id = 2", sql)
    assert faults(path) == "The answer 2 was changed after it was recorded."


def test_notes_of_exact_figures_are_sealed(path):
    with Ledger.open(path) as ledger:
        rows = ledger.verify().rows
        account = ledger.note_exact("table", "a count, yearbook")
        assert [each.what for each in account.exact] == ["a count, yearbook"]
        assert account.spent == ledger.account("table").spent and ledger.verify().rows == rows + 1
    untouched = path.read_bytes()
    cases = {
        "UPDATE exact_figure SET what = 'nothing'": "The exact_figure 1 was changed after it was recorded",
        "DELETE FROM exact_figure": "The exact_figure 1 is missing",
        "DROP TABLE exact_figure": "The exact_figure 1 is missing",
    }
    for change, said in cases.items():
        path.write_bytes(untouched)
        tamper(
            path,
            "DROP TRIGGER exact_figure_is_not_changed",
            "DROP TRIGGER exact_figure_is_not_deleted",
            change,
        )
        assert said in faults(path)
    path.write_bytes(untouched)
    with pytest.raises(sqlite3.IntegrityError, match="only added to"):
        tamper(path, "DELETE FROM exact_figure")
    tamper(path, "INSERT INTO exact_figure (account, what, created) VALUES ('table', 'x', '')")
    assert "no link seals it" in faults(path)


def test_rules_that_were_changed_or_added(path):
    tamper(
        path,
        "DROP TRIGGER charge_is_secure",
        "CREATE TRIGGER charge_is_secure BEFORE INSERT ON charge BEGIN SELECT 1; END",
        "CREATE TABLE other(x)",
    )
    found = faults(path)
    assert "charge_is_secure was changed" in found and "other was added" in found


def test_rows_that_pgmjax_did_not_write(path):
    tamper(path, "INSERT INTO attempt VALUES (NULL, 1, 0, 'now')")
    assert faults(path) == "The attempt 4 was added by something else than pgmjax: no link seals it."


def test_a_charge_with_two_answers(path):
    """The table is made anew without its rule that a step has one answer."""
    tamper(
        path,
        "PRAGMA foreign_keys = OFF",
        "CREATE TABLE copy AS SELECT * FROM answer",
        "DROP TABLE answer",
        "ALTER TABLE copy RENAME TO answer",
        "INSERT INTO answer SELECT 4, charge, step, request_hash, x'01', created FROM answer WHERE id = 1",
    )
    assert "Charge 1 has 2 answers for step 0." in faults(path)


def test_charges_of_nothing(path):
    tamper(path, "PRAGMA foreign_keys = OFF", "INSERT INTO answer VALUES (9, 77, 0, 'h', x'01', 'now')")
    found = faults(path)
    assert "The answer 9 has no charge." in found and "belongs to something that is not there" in found


@pytest.mark.parametrize("knows_the_key", [False, True])
def test_a_whole_forged_chain_is_found_by_its_key_or_its_head(path, knows_the_key):
    """Somebody lowers a cost and seals all rows again: it takes the key, and then only the head tells."""
    with Ledger.open(path) as ledger:
        head, key = ledger.head(), ledger._key() if knows_the_key else bytes(32)
    connection = sqlite3.connect(path, isolation_level=None)
    rules = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in rules:
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute("UPDATE charge SET costs = '[1]', totals = '[1]' WHERE id = 1")
    connection.execute("UPDATE charge SET totals = '[100000000001]' WHERE id = 2")
    connection.execute("UPDATE charge SET totals = '[200000000001]' WHERE id = 3")
    links = connection.execute("SELECT kind, row FROM chain ORDER BY seq").fetchall()
    connection.execute("DELETE FROM chain")
    previous = ledger_chain.BEGINNING
    for kind, row in links:
        cursor = connection.execute(f"SELECT * FROM {kind} WHERE id = ?", (row,))
        names = [column[0] for column in cursor.description]
        link = ledger_chain.link(previous, kind, dict(zip(names, cursor.fetchone(), strict=True)), key)
        connection.execute("INSERT INTO chain VALUES (NULL, ?, ?, ?, ?)", (kind, row, previous, link))
        previous = link
    for _, sql in rules:
        connection.execute(sql)
    connection.close()
    with Ledger.open(path) as ledger:
        assert ledger.verify().ok is knows_the_key, "whoever has the key can do this, and nobody else"
    assert "The head noted earlier is not in the chain" in faults(path, head)


def test_an_older_copy_put_back_is_found_by_its_head(path):
    copy = path.with_name("copy")
    shutil.copy(path, copy)
    with Ledger.open(path) as ledger:
        spend(ledger, "one more")
        head = ledger.head()
    shutil.copy(copy, path)
    with Ledger.open(path) as ledger:
        assert ledger.verify().ok
    assert "this is an older copy that was put back, or another ledger" in faults(path, head)
    with Ledger.open(path) as ledger:
        assert ledger.verify(f" {ledger.head().upper()}\n").ok, "a head may be pasted"


def test_an_end_cut_off_is_found_by_its_head(path):
    with Ledger.open(path) as ledger:
        head = ledger.head()
    tamper(
        path,
        *(f"DROP TRIGGER {table}_is_not_deleted" for table in ("answer", "chain")),
        "DELETE FROM answer WHERE id = 3",
        "DELETE FROM chain WHERE seq = 11",
    )
    assert "The head noted earlier is not in the chain" in faults(path, head)


def test_a_changed_byte_is_found(path):
    """A payload's byte on the disk: no rule of SQLite sees it, the chain does."""
    content = path.read_bytes()
    assert content.count(b"answer 1") == 1
    path.write_bytes(content.replace(b"answer 1", b"answer 9"))
    assert faults(path) == "The answer 2 was changed after it was recorded."


def ask_everything(path):
    """Verify, read and spend; a fault is found by verify, and nothing but a LedgerError comes out."""
    with Ledger.open(path) as ledger:
        found = ledger.verify()
        assert not found.ok and len(found.faults) <= 51
        for ask in (ledger.accounts, ledger.head, lambda: spend(ledger, "next")):
            try:
                ask()
            except LedgerError as error:
                assert "sqlite3" not in str(error)


def test_damaged_pages_are_told(path, tmp_path):
    """Bytes at the head of each page in turn are flipped."""
    sound = path.read_bytes()
    assert len(sound) % 4096 == 0 and len(sound) > 10 * 4096
    for page in range(len(sound) // 4096):
        content = bytearray(sound)
        start = 4096 * page + (100 if page == 0 else 0)  # the first page begins with the file's header
        content[start : start + 16] = bytes(byte ^ 0xFF for byte in content[start : start + 16])
        copy = tmp_path / f"copy {page}"
        copy.write_bytes(content)
        try:
            ask_everything(copy)
        except LedgerError as error:
            assert "damaged" in str(error) or "not a ledger" in str(error)


def test_a_file_cut_off_is_told(path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(LedgerError, match=r"damaged|not a ledger"), Ledger.open(path) as ledger:
        ledger.verify().raise_if_bad()


def test_a_head_is_text(path):
    with Ledger.open(path) as ledger, pytest.raises(TypeError, match=r"head must be a string, .*, got int"):
        ledger.verify(3)


def test_sums_beyond_counting_are_beyond_every_cap(path):
    tamper(
        path,
        "DROP TRIGGER budget_is_not_changed",
        "DROP TRIGGER charge_is_not_changed",
        f"UPDATE budget SET caps = '[{LIMIT}]'",
        f"UPDATE charge SET costs = '[{LIMIT}]', totals = '[{LIMIT}]'",
    )
    assert "Account table is charged beyond its cap." in faults(path)
