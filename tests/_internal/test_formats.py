"""Every format is refused by name where it is of an unpublished or a newer version, or damaged."""

import json
import sqlite3

import pytest

import pgmjax as pj
from pgmjax._internal import formats
from pgmjax.history import Session
from pgmjax.privacy.ledger import Ledger, LedgerError
from pgmjax.sweeps.store import ResultFile
from tests import stored

NAMES = {each.topic for each in formats.ALL}
WRONG = {
    "unpublished": ({"format": "pgmjax-thing"}, "unpublished version"),
    "unpublished model": ({"format": "pgmjax.model"}, "unpublished version"),
    "newer": ({"format_version": 2}, "version 2"),
    "no version": ({"format_version": "one"}, "damaged.*'one'"),
    "no number": ({"format_version": True}, "damaged.*True"),
    "foreign": ({"format": "another"}, "not written by pgmjax"),
}


def test_every_format_has_a_case_and_a_name_of_its_own():
    beside = {formats.LEDGER, formats.SESSION, formats.SWEEP, formats.RESPONSE}
    assert {each.format for each in stored.FOLDERS} | beside == set(formats.ALL)
    assert len(NAMES) == len(formats.ALL)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Each folder as it is written, made once."""
    place, made = tmp_path_factory.mktemp("kept"), {}

    def of(each):
        topic = each.format.topic
        if topic not in made:
            made[topic] = place / topic / "it"
            each.save(made[topic])
        return made[topic]

    return of


@pytest.mark.parametrize("each", stored.FOLDERS, ids=lambda each: each.format.topic)
def test_folders(kept, each):
    folder = kept(each)
    path = folder / each.record
    text = path.read_text()
    assert json.loads(text) | each.format.heading() == json.loads(text)
    each.load(folder)
    try:
        for changes, said in WRONG.values():
            path.write_text(json.dumps(json.loads(text) | changes))
            with pytest.raises(ValueError, match=f"(?s){said}") as caught:
                each.load(folder)
            assert str(folder) in str(caught.value)
        path.write_text(text[: len(text) // 2])
        with pytest.raises(ValueError, match="damaged"):
            each.load(folder)
    finally:
        path.write_text(text)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"application_id": 0x50474D4C, "user_version": 1}, "unpublished version"),
        ({"application_id": 0x50474D4C, "user_version": 2}, "unpublished version"),
        ({"user_version": 2}, "version 2 of a ledger"),
        ({"user_version": 0}, "damaged"),
        ({"application_id": 7}, "ledger"),
    ],
)
def test_ledgers(tmp_path, fields, said):
    path = tmp_path / "b.ledger"
    Ledger.create(path).close()
    Ledger.open(path).close()
    with sqlite3.connect(path) as connection:
        for name, value in fields.items():
            connection.execute(f"PRAGMA {name} = {value}")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(LedgerError, match=said) as caught:
        Ledger.open(path)
    assert str(path) in str(caught.value) and path.read_bytes() == before


@pytest.mark.parametrize(("changes", "said"), [WRONG["unpublished"], WRONG["newer"], WRONG["no version"]])
def test_sessions(tmp_path, monkeypatch, changes, said):
    noise = pj.privacy.SeededBackend(0, insecure=True)
    with Ledger.create(tmp_path / "b.ledger") as books:
        data = stored.table()
        books.register(
            "people",
            epsilon=2,
            relation="add-remove",
            digest=books.digest_of(data),
            domain=stored.DOMAIN,
            research=True,
        )
        # what another version writes: the same record but for its heading
        heading = formats.Format.heading
        monkeypatch.setattr(formats.Format, "heading", lambda self: heading(self) | changes)
        Session.open(books, data, cap="0.5", relation="add-remove", name="one", backend=noise)
        monkeypatch.undo()
        with pytest.raises(LedgerError, match=said) as caught:
            Session.read(books, "one")
        assert "'one'" in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ("format = 'pgmjax sweep'", "unpublished version"),
        ("version = 2", "version 2 of results of a sweep"),
        ("version = NULL", "damaged"),
        ("format = 'another'", "not written by pgmjax"),
    ],
)
def test_sweeps(tmp_path, fields, said):
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "r.duckdb"
    with ResultFile(path):
        pass
    with duckdb.connect(str(path)) as other:
        other.execute(f"UPDATE about SET {fields}")
    for read_only in (False, True):
        with pytest.raises(ValueError, match=said) as caught:
            ResultFile(path, read_only=read_only)
        assert str(path) in str(caught.value)
