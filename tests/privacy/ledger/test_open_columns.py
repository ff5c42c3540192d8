"""Accounts whose holder left columns open: who may find them, what it costs, and what they are afterwards."""

import importlib
import json
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pgmjax as pj
from pgmjax.cli import main
from pgmjax.data.definition import OpenDefinition, TableDefinition
from pgmjax.discovery import Discovery, Draft, OpenTable
from pgmjax.estimation.estimator import Estimator
from pgmjax.privacy import BudgetExceeded, Ledger
from pgmjax.privacy.accounting.events import Concentrated
from pgmjax.privacy.accounting.zcdp import rho_for
from pgmjax.queries.workload import KWay

SEARCH = importlib.import_module("pgmjax.discovery.discover")._Search
ADD, REPLACE = pj.Relation.ADD_REMOVE, pj.Relation.REPLACE_ONE
FAST = Estimator(max_steps=5, progress=False)
RNG = np.random.default_rng(0)
ROWS = 3000
FRAME = pd.DataFrame(
    {
        "id": np.arange(ROWS) // 2,
        "sex": RNG.choice(["F", "M"], ROWS),
        "age": ["?", *RNG.integers(18, 90, ROWS - 1).astype(str)],
        "job": RNG.choice(["baker", "cook", "judge"], ROWS, p=[0.6, 0.3, 0.1]),
    }
)
DRAFT = {"sex": {"labels": ["F", "M"]}, "age": {"bins": "discover"}, "job": "discover"}
NUMBERS = {"sex": {"labels": ["F", "M"]}, "age": {"bins": "discover"}}


@pytest.fixture
def ledger(tmp_path):
    with Ledger.create(tmp_path / "b.ledger") as made:
        yield made


@pytest.fixture
def path(tmp_path):
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


def register(ledger, path, draft=DRAFT, relation=ADD, unit=None, epsilon=3, delta="1e-6", **more):
    held = OpenDefinition(Draft(draft), relation, unit)
    promise = {"epsilon": epsilon, "delta": delta, "relation": relation, "digest": ledger.digest_of(path)}
    return ledger.register("t", **promise, domain=held, **more)


def plain(epsilon=1, delta="1e-6", relation=ADD, **given):
    return pj.mechanisms.Marginals(epsilon, relation, delta, estimator=FAST, **given)


def find(path, ledger, mechanism=None, share="0.3", **given):
    asked = {"discover": Discovery(share), "ledger": ledger, "show_progress": False, **given}
    return (mechanism or plain()).run(OpenTable.read(path), KWay(1), **asked)


@pytest.mark.parametrize("relation", [ADD, REPLACE])
def test_what_is_found_becomes_the_domain_of_the_account(path, ledger, relation):
    register(ledger, path, relation=relation)
    open_column = pj.Dataset.read(path, pj.Domain({"age": {"bins": [0, 50, 99]}}))
    with pytest.raises(ValueError, match="age is open in account 't'"):
        plain(relation=relation).run(open_column, pj.Workload([["age"]]), ledger=ledger)
    described = pj.Dataset.read(path, pj.Domain({"sex": {"labels": ["F", "M"]}}))
    small = plain("0.1", "1e-7", relation=relation)
    small.run(described, pj.Workload([["sex"]]), ledger=ledger)  # needs no discovery
    release = find(path, ledger, plain(relation=relation))
    account = ledger.account("t")
    assert account.definition.domain == release.domain and [*release.domain] == ["sex", "age", "job"]
    assert (account.found_by, account.charges) == (release.ledger["charge"], 2)
    again = find(path, ledger, plain(relation=relation))  # the same run: played back
    assert all(
        (a.values == b.values).all() for a, b in zip(release.measurements, again.measurements, strict=True)
    )
    assert ledger.account("t").charges == 2
    with pytest.raises(ValueError, match="found the domain of account 't' already"):
        find(path, ledger, plain("0.2", "1e-7", relation=relation))
    later = pj.Dataset.read(path, account.definition.domain)
    later = plain("0.5", "1e-7", relation=relation).run(later, pj.Workload([["age"]]), ledger=ledger)
    assert abs(later.model.total - ROWS) < 200 and ledger.account("t").charges == 3
    assert ledger.verify().ok
    with pytest.raises(ValueError, match="has a domain already"):
        ledger.set_domain("t", release.domain)


def test_the_cap_and_the_deltas_for_labels_add_up_to_the_promise(path, ledger):
    account = register(ledger, path)
    assert account.label_delta == account.delta / 2
    assert account.cap <= rho_for(3, account.delta / 2) < account.cap + Fraction(1, 10**12)
    with pytest.raises(BudgetExceeded, match=r"0\.0000005 left for them"):
        find(path, ledger, plain(1, "1.2e-6"))
    assert not ledger.charges("t")
    find(path, ledger, plain("0.5", "8e-7"))
    assert ledger.verify().ok


def test_the_delta_of_several_runs_is_added_up(path, ledger, monkeypatch):
    register(ledger, path)

    def fail(*given, **more):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(SEARCH, "kinds", fail)  # charged at the first answer only
        with pytest.raises(KeyboardInterrupt):
            find(path, ledger)
        assert not ledger.charges("t")
        patch.undo()
        patch.setattr(SEARCH, "cells", fail)
        with pytest.raises(KeyboardInterrupt):
            find(path, ledger)
    assert len(ledger.charges("t")) == 1 and ledger.account("t").definition is None
    with pytest.raises(BudgetExceeded, match="has 0 left for them"):  # another run, not the same again
        find(path, ledger, share="0.2")
    find(path, ledger)
    assert ledger.account("t").charges == 1 and ledger.account("t").found_by == 1


def test_an_account_without_delta_finds_numbers_but_no_labels(path, ledger):
    with pytest.raises(ValueError, match="may be text: job"):
        register(ledger, path, delta=0)
    register(ledger, path, NUMBERS, delta=0)
    with pytest.raises(ValueError, match="event 1"):
        find(path, ledger)
    release = find(path, ledger, plain(1, 0))
    assert [*release.domain] == ["sex", "age"] and ledger.account("t").spent == 1


def test_the_unit_is_the_accounts(path, ledger):
    unit = pj.Unit("id", 2)
    register(ledger, path, unit=unit)
    other = OpenTable.read(path, unit=pj.Unit("id", 1))
    with pytest.raises(ValueError, match="leave unit out"):
        plain().run(other, KWay(1), discover=Discovery(), ledger=ledger)
    assert not ledger.charges("t")
    release = find(path, ledger)
    assert release.unit == unit and "id" not in release.domain
    assert "Charge 1 found the domain of age, job" in ledger.account("t").statement()


def test_only_what_is_open_may_be_found(path, ledger):
    account = register(ledger, path)
    with pytest.raises(ValueError, match="does not complete the draft: see id, sex"):
        find_by_hand = pj.Domain({"id": 3})
        charge = ledger.reserve("t", "k", {}, [Concentrated("0.001")], relation=ADD, secure=True)
        ledger.set_discovered("t", charge.id, find_by_hand)
    assert ledger.account("t").definition is None
    with pytest.raises(ValueError, match="no charge 7"):
        ledger.set_discovered("t", 7, pj.Domain({"sex": 2}))
    closed = pj.Domain({"sex": {"labels": ["F", "M"]}})
    ledger.register(
        "u", epsilon=1, relation=ADD, digest=account.digest + "0", domain=closed, other_people=True
    )
    with pytest.raises(ValueError, match="no open columns"):
        ledger.set_discovered("u", 1, closed)


TYPED = {
    "date": pa.array(np.array(["2020-01-01", "2020-02-01"] * 500, "M8[D]")),
    "moment": pa.array(np.array(["2020-01-01T05", "2020-02-01"] * 500, "M8[us]")),
    "whole": pa.array([1, 2**53 + 1] * 500),
    "bool": pa.array([True, False] * 500),
    "single": pa.array([0.1, 2.0] * 500, pa.float32()),
    "decimal": pa.array([Decimal("0.10"), Decimal("2.00")] * 500),
    "categories": pa.array(["a", "1.0"] * 500).dictionary_encode(),
}


@pytest.mark.parametrize("kind", TYPED)
def test_labels_of_typed_columns_are_those_that_match(ledger, tmp_path, kind):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"c": TYPED[kind]}), path)
    register(ledger, path, {"c": {"labels": "discover"}})
    release = find(path, ledger)
    domain = ledger.account("t").definition.domain
    assert len(domain.attribute("c").labels) == 2
    assert (np.abs(release.measurements[0].values[:2] - 500) < 100).all()  # standard deviations of about 7
    again = plain("0.5", "1e-7").run(pj.Dataset.read(path, domain), pj.Workload([["c"]]), ledger=ledger)
    assert (np.abs(again.measurements[0].values[:2] - 500) < 200).all() and ledger.account("t").charges == 2


@pytest.mark.parametrize(
    ("kind", "shape"), [("date", "bins"), ("whole", "dates"), ("bool", "bins"), ("bool", "dates")]
)
def test_what_a_column_cannot_be_is_refused_before_any_charge(ledger, tmp_path, kind, shape):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"c": TYPED[kind]}), path)
    register(ledger, path, {"c": {shape: "discover"}})
    with pytest.raises(TypeError, match=f"'c'.*{shape}"):
        find(path, ledger)
    ledger.set_domain(
        "t", pj.Domain({"c": {"bins": [0, 1]} if kind == "date" else {"dates": ["2020-01-01", "2021-01-01"]}})
    )
    with pytest.raises(TypeError, match="'c'"):
        plain().run(pj.Dataset.read(path, ledger.account("t").definition.domain), KWay(1), ledger=ledger)
    assert not ledger.charges("t")


def test_an_account_is_repaired_while_nothing_was_released_by_its_domain(path, ledger, monkeypatch):
    register(ledger, path)

    def fail(*given, **more):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pj.mechanisms.Marginals, "execute", fail)
        with pytest.raises(KeyboardInterrupt):
            find(path, ledger)
    before = ledger.account("t")
    assert before.found_by and before.charges == 1
    with pytest.raises(ValueError, match="costs on two units"):
        ledger.set_domain("t", before.definition.domain, unit=pj.Unit("id", 2))
    described = pj.Domain({"sex": {"labels": ["F", "M"]}, "age": {"bins": [0, 50, 99], "missing": "?"}})
    after = ledger.set_domain("t", described)
    assert after.definition.domain == described and after.found_by is None
    assert (after.spent, after.cap, after.label_delta) == (before.spent, before.cap, before.label_delta)
    opened = OpenDefinition(Draft({**NUMBERS, "age": {"labels": "discover"}}), ADD)
    assert ledger.set_domain("t", opened).open == opened  # as often as it takes
    ledger.set_domain("t", described)
    data = pj.Dataset.read(path, described)
    plain("0.5", "1e-7").run(data, pj.Workload([["age"]]), ledger=ledger)
    with pytest.raises(ValueError, match="what was released rests on it"):
        ledger.set_domain("t", before.definition.domain)
    assert ledger.verify().ok and ledger.account("t").definition.domain == described


def test_what_a_search_did_not_find_is_described_by_hand(path, ledger):
    """Columns that are still open may be described although others were asked about, but those stay."""
    register(ledger, path, NUMBERS)
    sex = {"sex": {"labels": ["F", "M"]}}
    plain("0.5", "1e-7").run(pj.Dataset.read(path, pj.Domain(sex)), pj.Workload([["sex"]]), ledger=ledger)
    with pytest.raises(ValueError, match="what was released rests on it"):
        ledger.set_domain("t", pj.Domain({"sex": 2, "age": {"bins": [0, 99], "missing": "?"}}))
    whole = pj.Domain({**sex, "age": {"bins": [0, 99], "missing": "?"}})
    held = TableDefinition(whole, rows_outside="drop")
    assert ledger.set_domain("t", held).definition == held and ledger.verify().ok


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--rows-outside", "clip"], "--rows-outside must be drop"),
        (["--weights", "age", "--max-weight", "3"], "--weights cannot be used with columns to be discovered"),
        (["--delta", "0"], "may be text: job"),
    ],
)
def test_the_command_refuses(path, tmp_path, capsys, options, said):
    (tmp_path / "d.json").write_text(json.dumps(DRAFT))
    words = ["ledger", "init", str(tmp_path / "c.ledger"), str(path), "--domain", str(tmp_path / "d.json")]
    delta = [] if "--delta" in options else ["--delta", "1e-6"]
    words += ["--name", "t", "--epsilon", "3", "--relation", "add-remove", *delta, *options]
    assert main(words) == 2 and said in capsys.readouterr().err
    assert not (tmp_path / "c.ledger").exists()


def test_the_command_line_from_draft_to_domain(path, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.json").write_text(json.dumps({**DRAFT, "sex": {"labels": ["F"]}}))
    init = ["ledger", "init", "c.ledger", "t.csv", "--domain", "d.json", "--name", "t", "--epsilon", "3"]
    init += ["--delta", "1e-6", "--relation", "replace-one"]
    assert main(init) == 2  # the holder's described columns are checked
    assert "1,565 rows" in capsys.readouterr().err
    (tmp_path / "d.json").write_text(json.dumps(DRAFT))
    assert main(init) == 0
    assert "age, job is open" in capsys.readouterr().out
    ask = ["release", "t.csv", "--ledger", "c.ledger", "--epsilon", "1", "--delta", "1e-6", "--all-kway", "1"]
    ask += ["--relation", "replace-one", "--steps", "20", "--rows", "10", "--discover", "0.3"]
    assert main([*ask, "--out", "r", "--domain", "d.json"]) == 2
    assert "leave out --domain" in capsys.readouterr().err
    assert main([*ask, "--out", "r"]) == 0
    assert main(["ledger", "show", "c.ledger", "--name", "t", "--domain", "found.json"]) == 0
    found = json.loads((tmp_path / "found.json").read_text())
    assert found == json.loads((tmp_path / "r" / "domain.json").read_text()) and [*found] == [*DRAFT]
    assert main(["ledger", "verify", "c.ledger"]) == 0
