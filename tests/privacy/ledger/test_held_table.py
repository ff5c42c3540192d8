"""Who holds a table and who asks: what is refused, what is charged, and what of it depends on the records."""

import os

import numpy as np
import pandas
import pytest

import pgmjax as pj
from pgmjax.cli import main
from pgmjax.data.definition import TableDefinition
from pgmjax.data.relation import Unit
from pgmjax.estimation.estimator import Estimator
from pgmjax.privacy import Ledger, PrivateTable, TableChangedError, TableReadError
from pgmjax.privacy.accounting.events import Pure
from pgmjax.privacy.gate import holder_log
from pgmjax.privacy.ledger import ledger as ledger_module
from pgmjax.privacy.ledger.journal import HeldTable, LedgerJournal

ADD = pj.Relation.ADD_REMOVE
FAST = Estimator(max_steps=5, progress=False)
WIDE = pj.Domain({"a": {"labels": ["x", "y", "z"]}, "b": 2})
WORKLOAD = pj.Workload([["a"]])


def marginals(epsilon="0.1", relation=ADD):
    return pj.mechanisms.Marginals(epsilon=epsilon, relation=relation, estimator=FAST)


@pytest.fixture
def ledger(tmp_path):
    with Ledger.create(tmp_path / "b.ledger") as made:
        yield made


def table(path, letters="xxyyz"):
    path.write_text("a,b\n" + "".join(f"{letter},{k % 2}\n" for k, letter in enumerate(letters)))
    return path


def register(ledger, path, name="t", definition=WIDE, **more):
    promise = {"epsilon": 1, "relation": ADD, "digest": ledger.digest_of(path), "domain": definition}
    return ledger.register(name, **{**promise, **more})


def test_a_domain_without_a_label_tells_no_count(tmp_path, ledger):
    """It was an exact count before anything was charged: "4 rows lie outside its 2 labels"."""
    said = []
    for letters in ("xxyyz", "xxyyzzzz"):
        path = table(tmp_path / f"{letters}.csv", letters)
        register(ledger, path, letters, other_people=True)
        data = pj.Dataset.read(path, pj.Domain({"a": {"labels": ["x", "y"]}}))
        with pytest.raises(ValueError, match="'a'") as caught:
            marginals().run(data, WORKLOAD, ledger=ledger)
        said.append(str(caught.value))
        assert not ledger.charges(letters)
    assert said[0] == said[1]


def test_an_account_without_a_domain_takes_no_new_run(tmp_path, ledger):
    path = table(tmp_path / "t.csv")
    register(ledger, path, definition=None)
    data = pj.Dataset.read(path, WIDE)
    with pytest.raises(ValueError, match=r"set-domain .* t TABLE --domain FILE"):
        marginals().run(data, WORKLOAD, ledger=ledger)
    ledger.set_domain("t", WIDE, unit="person")
    assert "One record is of one person." in ledger.account("t").statement()
    marginals().run(data, WORKLOAD, ledger=ledger)
    assert len(ledger.charges("t")) == 1
    with pytest.raises(ValueError, match="'t'"):
        ledger.set_domain("t", WIDE)


def test_the_same_people_have_one_budget(tmp_path, ledger):
    first, second = table(tmp_path / "t.csv"), table(tmp_path / "u.csv", "xxyyzz")
    register(ledger, first)
    with pytest.raises(ValueError, match="add-version FILE NAME TABLE"):
        register(ledger, second, "u")
    data = pj.Dataset.read(second, WIDE)
    with pytest.raises(ValueError, match="add-version"):
        marginals().run(data, WORKLOAD, ledger=ledger)
    ledger.add_version("t", ledger.digest_of(second))
    marginals().run(pj.Dataset.read(first, WIDE), WORKLOAD, ledger=ledger)
    release = marginals().run(data, WORKLOAD, ledger=ledger)
    assert [charge.key for charge in ledger.charges("t")] != [release.ledger["key"]] * 2
    assert str(ledger.account("t").spent) == "1/5", "another table is another question"
    with pytest.raises(ValueError, match="belongs to the account 't' already"):
        ledger.add_version("t", ledger.digest_of(second))
    ledger.verify().raise_if_bad()


def test_a_table_in_memory_is_known_by_all_its_columns(ledger):
    """Another domain over the same frame was another table, with a budget of its own."""
    frame = pandas.DataFrame({"a": list("xxyyz"), "b": [0, 1, 0, 1, 0], "name": ["q", "r", None, "s", "t"]})
    wide = pj.Dataset.from_frame(WIDE, frame)
    register(ledger, wide)
    narrow = pj.Dataset.from_frame(pj.Domain({"b": 2}), frame[["name", "b", "a"]])
    assert ledger.digest_of(narrow) == ledger.digest_of(wide)
    marginals().run(narrow, pj.Workload([["b"]]), ledger=ledger)
    assert len(ledger.charges("t")) == 1
    for changed in (
        frame.assign(name=["q", "r", "", "s", "t"]),
        frame.assign(b=[0, 1, 0, 1, 1]),
        frame[::-1],
    ):
        assert ledger.digest_of(pj.Dataset.from_frame(WIDE, changed)) != ledger.digest_of(wide)


def test_the_digest_of_a_frame_is_of_its_values(ledger):
    pa, polars = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    columns = {"a": ["x", "y", None, "x"], "b": [0, 1, 1, 0], "c": [0.5, 2.0, None, 1.0]}
    frame = pandas.DataFrame(columns)
    others = [frame.astype({"a": "category"}), pa.table(columns), polars.DataFrame(columns)]
    others.append(pa.Table.from_batches(pa.table(columns).to_batches(max_chunksize=2)))
    domain = pj.Domain({"b": 2})
    digests = {ledger.digest_of(pj.Dataset.from_frame(domain, each)) for each in (frame, *others)}
    assert len(digests) == 1


@pytest.mark.parametrize("in_a_ledger", [False, True])
def test_a_run_reads_one_table(tmp_path, ledger, in_a_ledger, monkeypatch):
    """A file replaced after the first answer gave a mix of two tables under one charge."""
    path = table(tmp_path / "t.csv", "x" * 5000 + "y" * 10)
    register(ledger, path)
    other = table(tmp_path / "other.csv", "z" * 9000)
    data = pj.Dataset.read(path, WIDE)
    if in_a_ledger:
        data = data.under(ledger.account("t").definition)
    private = PrivateTable(data, ADD, pj.privacy.Budget(20))
    query = pj.queries.marginal(["a"])
    first = private.measure([query], epsilons=[5])[0].flat_values()
    os.replace(other, path)
    second = private.measure([query], epsilons=[5])[0].flat_values()
    assert np.abs(first - second).max() < 60 and abs(second[0] - 5000) < 60


@pytest.mark.parametrize("in_a_ledger", [False, True])
def test_a_table_too_large_for_memory_must_not_change(tmp_path, ledger, in_a_ledger, monkeypatch):
    monkeypatch.setattr("pgmjax.data.dataset.available_bytes", lambda: 0)
    path = table(tmp_path / "t.csv", "x" * 50)
    data = pj.Dataset.read(path, WIDE)
    if in_a_ledger:
        data = data.under(TableDefinition(WIDE))
    private = PrivateTable(data, ADD, pj.privacy.Budget(20))
    query = pj.queries.marginal(["a"])
    private.measure([query], epsilons=[5])
    os.replace(table(tmp_path / "other.csv", "z" * 50), path)
    with pytest.raises(TableChangedError, match="of two tables"):
        private.measure([query], epsilons=[5])


@pytest.mark.parametrize("memory", [0, 1 << 40])
def test_files_must_not_change_while_they_are_read(tmp_path, monkeypatch, memory):
    """A part of one table and a part of another would be a table that nobody has."""
    monkeypatch.setattr("pgmjax.data.dataset.available_bytes", lambda: memory)
    for number, read in enumerate(
        (pj.Dataset.snapshot, pj.Dataset.validate, lambda d: list(d.records(["a"])))
    ):
        path = table(tmp_path / f"{number}.csv")
        data = pj.Dataset.read(path, WIDE)
        data.identity(b"k" * 16)  # from here on it is this table

        scanning = type(data._source).batches

        def changed(source, *given, path=path, scanning=scanning, **more):
            yield from scanning(source, *given, **more)
            os.replace(table(tmp_path / "other.csv", "zzzz"), path)

        with monkeypatch.context() as patch:
            patch.setattr(type(data._source), "batches", changed)
            with pytest.raises(TableChangedError, match="none of this reading was shown"):
                read(data)


def test_a_file_changed_since_it_was_recognised_is_not_read(tmp_path, ledger):
    path = table(tmp_path / "t.csv")
    register(ledger, path)
    data = pj.Dataset.read(path, WIDE)
    digest_of = Ledger.digest_of

    def then_change(self, found):
        digest = digest_of(self, found)
        table(path, "zzzzzz")
        return digest

    ledger.digest_of = then_change.__get__(ledger)
    with pytest.raises(TableChangedError):
        marginals().run(data, WORKLOAD, ledger=ledger)


def test_the_table_that_is_registered_is_the_one_that_was_checked(tmp_path, monkeypatch):
    """A file replaced after it was checked was registered unseen."""
    path, out = table(tmp_path / "t.csv"), tmp_path / "new.ledger"
    WIDE.write(tmp_path / "wide.json")
    validate = pj.Dataset.validate

    def then_change(data):
        validate(data)
        table(path, "qqqqqq")

    monkeypatch.setattr(pj.Dataset, "validate", then_change)
    words = ["ledger", "init", out, path, "--name", "t", "--epsilon", "1", "--relation", "add-remove"]
    assert main([*map(str, [*words, "--domain", tmp_path / "wide.json"])]) != 0
    assert not out.exists() or not Ledger.open(out).accounts()


def test_what_is_withheld_goes_to_the_holder_s_log(tmp_path):
    """A record outside, which a registered table does not have, is no message for those who ask."""
    path = table(tmp_path / "t.csv", "xq")
    data = pj.Dataset.read(path, WIDE).under(TableDefinition(WIDE))
    private = PrivateTable(data, ADD, pj.privacy.Budget(1))
    log = tmp_path / "holder.log"
    with holder_log(log), pytest.raises(TableReadError) as caught:
        private.measure([pj.queries.marginal(["a"])], epsilons=["0.5"])
    assert "1 rows" not in str(caught.value) and caught.value.__context__ is None
    assert "1 row" in log.read_text() and log.stat().st_mode & 0o077 == 0


def test_dropped_rows_make_the_number_of_records_private(tmp_path, ledger):
    path = table(tmp_path / "t.csv")
    definition = TableDefinition(WIDE, rows_outside="drop")
    with pytest.raises(ValueError, match="makes the number of records private"):
        register(ledger, path, definition=definition, relation="replace-one")
    assert not ledger.accounts()
    data = pj.Dataset.read(path, WIDE, rows_outside="drop")
    with pytest.raises(ValueError, match="makes the number of records private"):
        PrivateTable(data, pj.Relation.REPLACE_ONE, pj.privacy.Budget(1))


def test_a_unit_is_not_given_beside_a_charge_of_the_same_moment(tmp_path, ledger, monkeypatch):
    """The charge was committed between what `set_domain` read and what it wrote."""
    register(ledger, table(tmp_path / "t.csv"), definition=None)
    true = ledger_module.definition_row

    def charged_meanwhile(*given):
        ledger.reserve("t", "run", {}, [Pure("0.1")], relation=ADD, secure=True)
        return true(*given)

    monkeypatch.setattr(ledger_module, "definition_row", charged_meanwhile)
    with pytest.raises(ValueError, match="two units cannot be added up"):
        ledger.set_domain("t", WIDE, unit=Unit("who", 3))
    assert ledger.account("t").definition is None


def planned(ledger, path):
    """A run that was planned, and has charged nothing yet."""
    held = HeldTable.of(ledger, pj.Dataset.read(path, WIDE))
    journal = LedgerJournal(ledger, held, "run", {"mechanism": "m"})
    return journal, lambda: journal.begin(journal, pj.privacy.Budget("0.1"), ADD, True)


def test_a_run_planned_by_an_earlier_definition_is_not_charged(tmp_path, ledger):
    """It was charged for one record to an account that promises for three of a person by then."""
    path = table(tmp_path / "t.csv")
    register(ledger, path)
    _, begin = planned(ledger, path)
    ledger.set_domain("t", WIDE, unit=Unit("who", 3))
    with pytest.raises(ValueError, match=r"another definition after .*Nothing was charged"):
        begin()
    assert not ledger.charges("t")


def test_an_answer_by_an_earlier_definition_is_not_shown(tmp_path, ledger):
    """Until a first answer is stored, the holder may correct the definition, also while it is computed."""
    path = table(tmp_path / "t.csv")
    register(ledger, path)
    journal, begin = planned(ledger, path)
    begin()

    def compute():
        ledger.set_domain("t", TableDefinition(WIDE, rows_outside="clip"))
        return np.zeros(2, np.int64)

    with pytest.raises(ValueError, match=r"another definition .*nothing was shown"):
        journal.answer({}, compute)
    assert [charge.answers for charge in ledger.charges("t")] == [0]
    again, begin = planned(ledger, path)
    begin()
    assert again.answer({}, lambda: np.ones(2, np.int64)).tolist() == [1, 1]
    ledger.verify().raise_if_bad()


def test_the_commands_of_the_holder(tmp_path, capsys):
    WIDE.write(tmp_path / "wide.json")
    path, out = table(tmp_path / "t.csv", "xxyyzq"), tmp_path / "b.ledger"
    init = ["ledger", "init", out, path, "--name", "t", "--epsilon", "1", "--relation", "add-remove"]
    init += ["--domain", tmp_path / "wide.json"]
    assert main([*map(str, init)]) == 2
    said = capsys.readouterr().err
    assert "1 row" in said and "--rows-outside" in said and not out.exists()
    assert main([*map(str, init), "--rows-outside", "drop", "--record-is", "person"]) == 0
    assert "One record is of one person" in capsys.readouterr().out
    second = table(tmp_path / "u.csv", "xyq")
    assert main(["ledger", "init", str(out), str(second), "--same-people-as", "t"]) == 0
    assert main(["ledger", "add-version", str(out), "t", str(second)]) == 2
    assert "belongs to the account 't' already" in capsys.readouterr().err
    words = ["release", path, "--domain", tmp_path / "wide.json", "--all-kway", 1, "--epsilon", "0.5"]
    words += ["--relation", "add-remove", "--ledger", out, "--steps", 5, "--out", tmp_path / "r", "--quiet"]
    assert main([*map(str, words)]) == 0
    assert main([*map(str, words[:-2]), str(tmp_path / "s"), "--rows-outside", "clip"]) == 2
    assert "--rows-outside" in capsys.readouterr().err
    with Ledger.open(out) as ledger:
        assert str(ledger.account("t").spent) == "1/2"
        assert ledger.account("t").to_dict()["definition"]["rows_outside"] == "drop"
