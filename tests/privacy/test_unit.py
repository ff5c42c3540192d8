"""The unit of privacy at the choke point: sensitivities, costs, keys, runs that go on, sessions, words."""

import itertools
import json
from fractions import Fraction

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.cli import main
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation, Unit
from pgmjax.discovery.open_table import key_column
from pgmjax.history.session.session import Session
from pgmjax.mechanisms import HDMM, Marginals, RandomizedResponse
from pgmjax.privacy import Budget, Ledger, PrivateTable
from pgmjax.privacy.accounting.calibration import calibrate
from pgmjax.privacy.accounting.events import Pure
from pgmjax.privacy.ledger.journal import HeldTable
from pgmjax.privacy.partition import find_keys
from pgmjax.privacy.scores import Distances
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.privacy.sensitivity import Sensitivity
from pgmjax.privacy.tape import Tape
from pgmjax.privacy.threshold import ThresholdTest
from pgmjax.queries import Product, marginal, point, prefix
from pgmjax.queries.workload import Workload
from pgmjax.release.run_folder import RunFolder

pytest.importorskip("duckdb")
ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
DOMAIN = Domain({"a": 3})
UNIT = Unit("who", 2)
QUERIES = (marginal(["a"]), Product({"a": prefix()}))


def opened(codes, people, relation=ADD, unit=UNIT, cap=1, backend=None, **options):
    data = Dataset.from_columns(DOMAIN, {"a": codes, "who": people}, unit=unit)
    source = SeededBackend(0, insecure=True) if backend is None else backend
    return PrivateTable(data, relation, Budget(cap, **options), source)


def asked(table):
    """Ask in every way that adds noise to counts."""
    if table.relation is REPLACE:
        list(table.respond([["a"]], epsilons=["0.1"], row_order_is_public=True))
    table.measure(QUERIES, epsilons=["0.1", "0.1"], show_progress=False)
    table.select(Distances([(marginal(["a"]), np.array([9.0, 0, 0]))]), epsilon="0.1")
    ThresholdTest(table, 1, "0.1").far(Product({"a": point(0)}), 1)


def every_table(people):
    """Every table of some records of one other person between those of one person."""
    for codes in itertools.product(range(3), repeat=len(people)):
        yield list(codes)


@pytest.mark.parametrize("relation", Relation)
def test_no_person_moves_an_answer_by_more_than_is_declared_and_some_by_as_much(relation):
    """All tables of one person's three records, of which two count, beside another's; all neighbours."""
    people = ["x", "y", "x", "x"]
    mine = [place for place, person in enumerate(people) if person == "x"]
    most = {}
    for codes in every_table(people):
        if relation is ADD:
            others = [([codes[1]], ["y"])]
        elif codes[0] == codes[2] == codes[3]:
            others = [(changed(codes, mine, new), people) for new in range(3)]
        else:
            others = []
        for neighbour in others:
            tape = Tape()
            with tape.recording():
                asked(opened(codes, people, relation))
            with tape.replaying():
                asked(opened(*neighbour, relation))  # raises where a call moves by more than it declares
            for place, (call, moved) in enumerate(zip(tape.calls, tape.distances, strict=True)):
                known = most.setdefault(place, [call.sensitivity.value, 0])
                assert known[0] == call.sensitivity.value
                known[1] = max(known[1], moved)
    assert most and {place: each for place, each in most.items() if each[0] != each[1]} == {}


def changed(codes, places, new):
    return [new if place in places else code for place, code in enumerate(codes)]


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("norm, factor", [("l1", 3), ("l2_squared", 9), ("linf", 3)])
def test_sensitivities_of_a_group(relation, norm, factor):
    for query in QUERIES:
        one = Sensitivity.of(query, DOMAIN, relation, norm)
        assert one.of_unit(3).value == factor * one.value and one.of_unit(1) == one


def test_noise_is_that_of_the_group_and_accounts_know_no_shifts():
    for records in (1, 3):
        unit = Unit("who", records)
        pure = opened([0, 1], ["x", "y"], unit=unit)
        (answer,) = pure.measure([QUERIES[0]], epsilons=["0.5"], show_progress=False)
        assert answer.distribution.scale == 2 * records
        assert (pure.budget.events[0].shifts is None) == (records > 1)
        assert pure.budget.spent == Fraction(1, 2)
        found = calibrate([QUERIES[0]], DOMAIN, ADD, 1, max_records=records)
        assert found.distributions[0].scale == records
    rho = PrivateTable(
        Dataset.from_columns(DOMAIN, {"a": [0, 1], "who": [1, 1]}, unit=Unit("who", 3)),
        ADD,
        Budget(1, unit="rho"),
        SeededBackend(0, insecure=True),
    )
    (answer,) = rho.measure([QUERIES[0]], rhos=["0.5"], show_progress=False)
    assert answer.distribution.scale == 3


def test_records_of_a_unit_share_what_a_response_may_cost():
    table = opened([0, 1, 2], ["x", "x", "y"], REPLACE)
    (planned,) = table.respond([["a"]], epsilons=[1], row_order_is_public=True).planned
    assert (
        float(planned.distribution.epsilon_bound) <= 0.5 < float(planned.distribution.epsilon_bound) * 1.001
    )
    assert table.budget.spent == 1
    mechanism = RandomizedResponse(1, REPLACE)
    one, two = (mechanism.predicted_errors(DOMAIN, [["a"]], 10_000, records) for records in (1, 2))
    half = RandomizedResponse("0.5", REPLACE).predicted_errors(DOMAIN, [["a"]], 10_000)
    assert two == half and two["a",] > one["a",]


def test_expected_errors_are_those_of_the_group():
    workload, mechanism = Workload([["a"]]), HDMM(1, ADD, strategy="identity")
    one, three = (mechanism.expected_errors(workload, DOMAIN, None, records) for records in (1, 3))
    assert three.root_mean_square == pytest.approx(3 * one.root_mean_square, rel=0.1)


def test_a_budget_protects_one_unit_and_says_so():
    table = opened([0, 1], ["x", "y"], unit=UNIT)
    table.measure([QUERIES[0]], epsilons=["0.25"], show_progress=False)
    assert "If all records of one who (at most 2 count) are added" in table.budget.statement()
    plain = Dataset.from_columns(DOMAIN, {"a": [0, 1]})
    with pytest.raises(ValueError, match=r"'who'.*2"):
        PrivateTable(plain, ADD, table.budget, SeededBackend(0, insecure=True))


class CountedDraws(SeededBackend):
    """Repeatable noise that counts its draws."""

    drawn = 0

    def restart(self):
        return self

    def draw(self, distribution, size):
        CountedDraws.drawn += size
        return super().draw(distribution, size)


@pytest.mark.parametrize("most", [1, 3])
def test_keys_of_records_left_out_are_no_candidates(most):
    """A person with many keys brings at most as many of them as records count: the threshold rests on it."""
    drawn = []
    for mine in (0, 40):
        columns = {
            "x": ["a"] * 90 + [f"key {k}" for k in range(mine)],
            "who": [*map(str, range(90)), *["me"] * mine],
        }
        people = pj.discovery.OpenTable.from_columns(columns, unit=Unit("who", most))
        data, coder = key_column(people, "x")
        backend, CountedDraws.drawn = CountedDraws(0, insecure=True), 0
        table = PrivateTable(data, ADD, Budget("0.1", unit="rho", delta="1e-6"), backend)
        find_keys(table, "x", coder, rho="0.1", delta="1e-6")
        drawn.append(CountedDraws.drawn)
    assert drawn[1] - drawn[0] == most


def visits(folder, rows=60):
    """Write a table of visits, three for each person, and return its path."""
    path = folder / "visits.csv"
    lines = [f"p{number // 3},{number % 3}" for number in range(rows)]
    path.write_text("\n".join(["who,a", *lines]) + "\n")
    return path


def test_a_ledger_keeps_the_unit_and_the_choice(tmp_path):
    path = visits(tmp_path)
    with Ledger.create(tmp_path / "l.ledger") as ledger:
        data = Dataset.read(path, DOMAIN)
        promise = {"epsilon": 3, "relation": ADD, "domain": DOMAIN, "digest": ledger.digest_of(data)}
        account = ledger.register("visits", unit=UNIT, **promise)
        assert account.definition.unit == UNIT and account.unit == ""
        assert "all records of one who (at most 2 count) are added" in account.statement()
        held, again = (HeldTable.of(ledger, Dataset.read(path, DOMAIN)) for _ in range(2))
        assert held.data.unit == UNIT and held.data.registered
        key = held.choice_key(ledger)
        assert key == again.choice_key(ledger) and len(key) == 32
        with Ledger.create(tmp_path / "other.ledger") as other:  # of the same account, with another secret
            assert held.choice_key(other) != key
        mechanism = Marginals(1, ADD, backend=None)
        release = mechanism.run(data, Workload([["a"]]), ledger=ledger, key="one", show_progress=False)
        assert release.unit == UNIT and ledger.account("visits").spent == 1
        for other in (Unit("who", 3), Unit("nobody", 2)):
            with pytest.raises(ValueError, match=r"protects 2 records of one who|no column"):
                wrong = Dataset.read(path, DOMAIN, unit=other)
                mechanism.run(wrong, Workload([["a"]]), ledger=ledger, key="two")
        assert ledger.account("visits").spent == 1


def test_an_account_without_a_unit_refuses_one_and_one_with_charges_takes_none(tmp_path):
    path = visits(tmp_path)
    with Ledger.create(tmp_path / "l.ledger") as ledger:
        data = Dataset.read(path, DOMAIN)
        promise = {"epsilon": 3, "relation": ADD, "digest": ledger.digest_of(data)}
        ledger.register("visits", domain=DOMAIN, unit="person", **promise)
        assert ledger.account("visits").statement().endswith("One record is of one person.")
        with pytest.raises(ValueError, match="without unit"):
            Marginals(1, ADD).run(Dataset.read(path, DOMAIN, unit=UNIT), Workload([["a"]]), ledger=ledger)
        with pytest.raises(ValueError, match="give the domain too"):
            ledger.register("other", unit=UNIT, other_people=True, **{**promise, "digest": "d"})
        ledger.register("open", other_people=True, **{**promise, "digest": "d"})
        event = Pure(1)
        ledger.reserve("open", "run", {}, [event], relation=ADD, secure=True)
        with pytest.raises(ValueError, match="'open'"):
            ledger.set_domain("open", DOMAIN, unit=UNIT)


def test_a_run_that_goes_on_from_its_folder_keeps_its_records(tmp_path):
    data = Dataset.from_columns(DOMAIN, {"a": [0, 1, 2] * 9, "who": [1] * 27}, unit=UNIT)
    keys = []
    for _ in range(2):
        folder = RunFolder(tmp_path / "run")
        folder.bind({"asked": 1}, data)
        keys.append(folder.journal(None).choice_key())
        folder.close()
    assert keys[0] == keys[1] and (tmp_path / "run" / ".run.json").stat().st_mode & 0o777 == 0o600
    tables = [PrivateTable(data, ADD, Budget(1)) for _ in range(2)]
    assert tables[0]._choice != tables[1]._choice
    seeded = [PrivateTable(data, ADD, Budget(1), SeededBackend(4, insecure=True)) for _ in range(2)]
    assert seeded[0]._choice == seeded[1]._choice


def test_all_tables_of_a_run_choose_the_same_records():
    """With records of one choice alone, a person moves all answers together by what one budget pays for."""
    domain = Domain({"a": 400})
    data = Dataset.from_columns(domain, {"a": np.arange(400), "who": ["me"] * 400}, unit=UNIT)
    table = PrivateTable(data, ADD, Budget(1))
    halves = data.recode(Domain({"a": 400}), {"a": np.arange(400)[::-1]})
    part = table.budget.part("0.5")
    (mine,), (within,), (other,), (after,) = (
        each._records().marginals([["a"]])
        for each in (table, table.within(part), table.over(halves, part), table.over(data, part).within(part))
    )
    assert mine.sum() == UNIT.max_records
    assert (within == mine).all() and (other[::-1] == mine).all() and (after == mine).all()


def test_a_session_protects_the_unit_of_its_account(tmp_path):
    path = visits(tmp_path, 600)
    with Ledger.create(tmp_path / "l.ledger") as ledger:
        data = Dataset.read(path, DOMAIN)
        ledger.register(
            "visits", epsilon=3, relation=ADD, domain=DOMAIN, digest=ledger.digest_of(data), unit=UNIT
        )
        session = Session.open(ledger, data, cap=3, relation=ADD)
        assert session.unit == UNIT
        query = Product({"a": point(0)})
        session.buy(query, "0.5")
        session.buy(Product({"a": point(1)}), "0.5")
        assert session.cost == Fraction(1, 2)  # both records of a person may lie in either cell
        assert [d.scale for d in session.history.distributions] == [4.0, 4.0]
        session.buy(Product({"a": prefix()}), "0.5")
        assert 1 - Fraction(2, 10**11) < session.cost <= 1
        chosen = [
            PrivateTable(session._data, ADD, Budget(1), choice=session._choice)
            ._records()
            .marginals([["a"]])[0]
            for _ in range(2)
        ]
        assert (chosen[0] == chosen[1]).all() and chosen[0].sum() == 400
        again = Session.open(ledger, Dataset.read(path, DOMAIN), cap=3, relation=ADD)
        assert again._choice == session._choice and again.cost == session.cost


def test_the_command_line_names_a_unit_and_the_release_says_it(tmp_path, capsys):
    path, domain = visits(tmp_path), tmp_path / "d.json"
    domain.write_text(json.dumps(DOMAIN.to_dict()))
    (tmp_path / "w.json").write_text('[["a"]]')
    ask = [
        "release",
        path,
        "--domain",
        domain,
        "--workload",
        tmp_path / "w.json",
        "--epsilon",
        "2",
        "--relation",
        "add-remove",
    ]
    out = tmp_path / "out"
    whom = ["--unit", "who", "--max-records", "2"]
    for wrong in (whom[:2], whom[2:], ["--unit", "a", "--max-records", "2"], [*whom[:3], "0"]):
        assert main([*map(str, ask), "--out", str(out), *wrong]) != 0 and not out.exists()
        assert "p1" not in capsys.readouterr().err
    assert main([*map(str, ask), "--out", str(out), *whom]) == 0
    assert "protecting one who, of at most 2 records" in capsys.readouterr().out
    record = json.loads((out / "release.json").read_text())
    assert record["unit"] == {"column": "who", "max_records": 2}
    assert "all records of one who (at most 2 count) are added" in record["statement"]
    assert "one who, of at most 2 records" in (out / "report.html").read_text()
    for file in out.rglob("*"):
        assert not file.is_file() or b"p19" not in file.read_bytes()
    plain = tmp_path / "plain"
    assert main([*map(str, ask), "--out", str(plain)]) == 0
    record = json.loads((plain / "release.json").read_text())
    assert record["unit"] is None and "one record" in capsys.readouterr().out


def test_the_command_line_of_a_ledger(tmp_path, capsys):
    path, domain = visits(tmp_path), tmp_path / "d.json"
    domain.write_text(json.dumps(DOMAIN.to_dict()))
    init = ["ledger", "init", tmp_path / "l", path, "--domain", domain, "--name", "v", "--epsilon", "5"]
    init = [*map(str, init), "--relation", "replace-one"]
    assert main([*init, "--unit", "who"]) != 0 and "--max-records" in capsys.readouterr().err
    assert main([*init, "--unit", "nobody", "--max-records", "2"]) != 0
    assert not (tmp_path / "l").exists()
    capsys.readouterr()
    assert main([*init, "--unit", "who", "--max-records", "2", "--record-is", "visit", "--json"]) == 0
    account = json.loads(capsys.readouterr().out)["account"]
    assert account["definition"]["unit"] == {"column": "who", "max_records": 2} and account["unit"] == "visit"
    ask = ["perturb", path, "--domain", domain, "--each", "--epsilon", "4", "--relation", "replace-one"]
    ask = [
        *map(str, ask),
        "--ledger",
        str(tmp_path / "l"),
        "--useless",
        "answer",
        "--out",
        str(tmp_path / "out"),
    ]
    assert main([*ask, "--unit", "who", "--max-records", "3"]) != 0
    assert main(ask) == 0  # the account knows the unit
    record = json.loads((tmp_path / "out" / "release.json").read_text())
    assert record["unit"] == {"column": "who", "max_records": 2} and record["total"] == 40
    assert "all records of one who (at most 2 count)" in record["statement"]
    table = pj.local.load(tmp_path / "out" / "table")
    assert table.unit == UNIT and table.epsilon == 4
    assert float(table.column.distribution.epsilon_bound) <= 2
