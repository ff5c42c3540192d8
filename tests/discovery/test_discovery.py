"""Discovery on raw columns: what is found, that nothing leaks past the choke point, refusals, resumption."""

import datetime
import importlib

import numpy as np
import pandas as pd
import pytest

import pgmjax as pj
from pgmjax.data import encoding
from pgmjax.discovery import Discovery, Draft, OpenTable, probes
from pgmjax.discovery.discover import discover, first_look, stddev_of_use
from pgmjax.privacy.tape import Tape
from pgmjax.queries.workload import KWay

ADD, REPLACE = pj.Relation.ADD_REMOVE, pj.Relation.REPLACE_ONE
ROWS = 4000
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "age": RNG.integers(18, 90, ROWS),
        "price": [f"{value:.2f}".replace(".", ",") for value in RNG.gamma(2, 40, ROWS)],
        "when": [
            (datetime.date(2021, 1, 1) + datetime.timedelta(days=int(k))).strftime("%d.%m.%Y")
            for k in RNG.integers(0, 700, ROWS)
        ],
        "height": RNG.normal(0, 1, ROWS),
        "job": RNG.choice(["baker", "cook", "judge"], ROWS, p=[0.6, 0.3, 0.1]),
        "id": [f"person {k}" for k in range(ROWS)],
        "flat": ["same"] * ROWS,
    }
)


def search(frame, rho="0.5", relation=ADD, draft=None, backend=None, delta="1e-6", unit=None, **given):
    opened = OpenTable.from_frame(frame, None if draft is None else Draft(draft), unit=unit)
    unit_of = {"unit": given.pop("unit_of_budget", "rho")}
    budget = pj.privacy.Budget(rho, **unit_of, delta=delta if unit_of["unit"] == "rho" else None)
    table = pj.privacy.PrivateTable(first_look(opened), relation, budget, backend)
    stddev = stddev_of_use(budget.unit, budget.cap * 9, len(opened.draft.columns))
    return discover(table, opened, stddev), budget


def test_every_kind_of_column_is_read_as_it_is():
    found, budget = search(FRAME)
    domain = found.domain
    assert [*domain] == ["age", "price", "when", "height", "job", "flat"]
    assert "no value of it is shared" in found.left_out["id"]
    age, price, when = (domain.attribute(name) for name in ("age", "price", "when"))
    assert age.grid == 1 and age.bins[0] <= 18 and age.bins[-1] >= 90
    assert (price.grid, price.decimal) == (0.01, ",")
    assert (when.time, when.format, when.grid) == ("day", "%d.%m.%Y", 1)
    assert domain.attribute("height").grid is None
    assert domain.attribute("job").labels == ("baker", "cook", "judge")
    assert domain.attribute("flat").labels == ("same",)
    assert abs(found.records - ROWS) < 200
    assert budget.spent <= budget.cap and sum(e.delta for e in budget.events) <= budget.delta
    assert found.cost["events"]["keys"] == 3
    # the domain file reads back, and takes every row of the table
    again = pj.Domain(found.to_dict()["domain"])
    assert again == domain
    assert pj.Dataset.from_frame(domain, FRAME, rows_outside="drop").count() > 0.99 * ROWS


def test_bins_have_about_as_many_records_and_spikes_one_of_their_own():
    gain = np.where(RNG.random(ROWS) < 0.9, 0, RNG.integers(1000, 90_000, ROWS))
    found, _ = search(pd.DataFrame({"gain": gain}), rho="0.2")
    bins = found.domain.attribute("gain").bins
    assert bins[:2] == (0.0, 1.0) and bins[-1] > 60_000
    for unit_of_budget in ("rho", "epsilon"):
        found, _ = search(
            pd.DataFrame({"x": RNG.exponential(1.0, ROWS)}), rho="1", unit_of_budget=unit_of_budget,
            draft={"x": {"bins": "discover"}},
        )  # fmt: skip
        counts = pj.Dataset.from_frame(
            found.domain, pd.DataFrame({"x": RNG.exponential(1.0, ROWS)})
        ).marginals([("x",)])
        assert counts[0].max() < 0.4 * ROWS and found.domain["x"] >= 4


def test_columns_of_constants_infinities_and_a_million_texts():
    frame = pd.DataFrame(
        {
            "c": [7] * 2000,
            "inf": [np.inf, -np.inf] * 1000,
            "nan": [np.nan] * 2000,
            "t": [f"{k:09d}x" for k in range(2000)],
        }
    )
    found, _ = search(frame)
    assert found.domain.attribute("c").bins[0] <= 7 < found.domain.attribute("c").bins[-1]
    assert "t" in found.left_out and found.domain["inf"] >= 1
    constant = found.domain.attribute("c")
    assert set(constant.values(constant.encode([7] * 5), np.random.default_rng(0)).tolist()) == {7}


def neighbours():
    small = FRAME.iloc[:60].copy()
    small["job"] = ["a"] * 30 + ["b"] * 30
    without = small.drop(index=13)
    other = small.copy()
    other.loc[13, ["age", "height", "job", "price"]] = [9_999_999, 1e30, "secret", "x"]
    return small, without, other


@pytest.mark.parametrize("unit_of_budget", ["rho", "epsilon"])
def test_all_that_depends_on_the_table_passes_the_choke_point(unit_of_budget):
    small, without, other = neighbours()
    draft = (
        dict.fromkeys(small.columns, "discover")
        if unit_of_budget == "rho"
        else {"age": {"bins": "discover"}, "height": {"bins": "discover"}, "when": {"dates": "discover"}}
    )
    for relation, pair in ((ADD, (small, without)), (ADD, (without, small)), (REPLACE, (small, other))):
        shown, kept = Tape(), []
        for frame, run in zip(pair, (shown.recording, shown.replaying), strict=True):
            with run():
                found, _ = search(
                    frame, rho="50", relation=relation, draft=draft, unit_of_budget=unit_of_budget,
                    backend=pj.privacy.SeededBackend(1, insecure=True),
                )  # fmt: skip
                kept.append(found.to_dict())
        assert kept[0] == kept[1] and max(shown.distances) > 0


def test_a_whole_person_is_a_neighbour():
    frame = pd.DataFrame({"x": np.arange(40) % 7, "who": np.repeat(np.arange(10), 4)})
    unit = pj.Unit("who", 2)
    for backend in (pj.privacy.SeededBackend(1, insecure=True),):
        tape = Tape()
        with tape.recording():
            search(frame, rho="5", unit=unit, backend=backend)
        kept = [call.sensitivity.value for call in tape.calls]
        assert set(kept) == {4}  # two records, squared


def test_runs_under_one_budget():
    table = OpenTable.from_frame(FRAME.drop(columns=["id"]))
    mechanism = pj.mechanisms.Marginals(
        epsilon=4, delta="1e-6", relation=ADD, estimator=pj.Estimator(max_steps=50)
    )
    release = mechanism.run(table, KWay(1), discover=Discovery("0.2"))
    cap = pj.privacy.rho_for(4, "5e-7")
    assert release.spent.rho <= cap and release.spent.rho > 0.9 * cap
    share = pj.privacy.exact.exact("x", release.discovery["cost"]["rho"])
    assert 0 < share <= cap / 5 and release.discovery["cost"]["delta"] == "0.0000005"
    assert release.domain.attribute("job").labels == ("baker", "cook", "judge")
    pure = pj.mechanisms.Marginals(epsilon=4, relation=REPLACE, estimator=pj.Estimator(max_steps=50))
    numbers = OpenTable.from_frame(
        FRAME[["age", "height"]], Draft({"age": {"bins": "discover"}, "height": {"bins": "discover"}})
    )
    release = pure.run(numbers, KWay(2), discover=Discovery("1/4"))
    assert release.spent.epsilon == 4 and release.model.total == ROWS
    assert release.domain.attribute("age").missing  # under replace-one no row is left out


def test_refusals_come_before_any_spend():
    numbers = OpenTable.from_frame(FRAME[["age"]])
    mechanism = pj.mechanisms.Marginals(epsilon=1, relation=ADD)
    with pytest.raises(ValueError, match="discovery may cost"):
        mechanism.run(numbers, KWay(1))
    with pytest.raises(ValueError, match="goes with an OpenTable"):
        mechanism.run(
            pj.Dataset.from_columns(pj.Domain({"a": 2}), {"a": [0, 1]}), KWay(1), discover=Discovery("0.1")
        )
    for share in (0, 1, "1.5", -1, "nan"):
        with pytest.raises(ValueError):
            Discovery(share)
    labels = OpenTable.from_frame(FRAME[["job"]], Draft({"job": {"labels": "discover"}}))
    with pytest.raises(ValueError, match="cannot be found without a delta"):
        mechanism.run(labels, KWay(1), discover=Discovery("0.1"))
    for entry in ({"bins": "discover", "clip": True}, {"size": "discover"}):
        with pytest.raises(ValueError, match="and nothing else"):
            Draft({"x": entry})
    with pytest.raises(ValueError, match="at least one column"):
        Draft({})
    with pytest.raises(ValueError, match=r"'x'.*--discover"):
        pj.Domain({"x": {"bins": "discover"}})


def test_a_run_that_was_interrupted_finds_the_same(tmp_path, monkeypatch):
    table = OpenTable.from_frame(FRAME[["age", "job"]])
    mechanism = pj.mechanisms.Marginals(
        epsilon=2, delta="1e-6", relation=ADD, estimator=pj.Estimator(max_steps=20)
    )
    folder = pj.mechanisms.RunFolder(tmp_path / "run")
    monkeypatch.setattr(
        pj.mechanisms.Marginals, "execute", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    with pytest.raises(KeyboardInterrupt):
        mechanism.run(table, KWay(2), discover=Discovery("0.2"), folder=folder)
    kept = folder.answers
    folder.close()
    monkeypatch.undo()
    folder = pj.mechanisms.RunFolder(tmp_path / "run")
    first = mechanism.run(table, KWay(2), discover=Discovery("0.2"), folder=folder)
    assert kept > 3 and folder.answers == kept + 1
    folder.close()
    again = mechanism.run(
        table, KWay(2), discover=Discovery("0.2"), folder=pj.mechanisms.RunFolder(tmp_path / "run")
    )
    assert first.domain == again.domain and first.discovery == again.discovery
    assert (first.measurements[0].values == again.measurements[0].values).all()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("12", "number, 0 decimals"), ("-3.50", "number, 1 decimal"), ("1e5", "number, more decimals"),
        ("1,234.5", "number with thousands separators"), ("1,5", "decimal comma, 1 decimal"),
        ("1.234,56", "decimal comma, 2 decimals"), ("007", "text"), ("2024-02-30", "text"),
        ("2024-02-29", "date"), ("2024-02-29 10:30", "date and time"), ("29.02.2024", "day.month.year"),
        ("29/02/2024", "day/month/year"), ("02/29/2024", "month/day/year"),
        ("02/03/2024", "day or month first"),
        ("2024/02/29", "year/month/day"), ("?", "missing"), ("", "missing"), ("yes", "text"), (".", "text"),
    ],
)  # fmt: skip
def test_kinds_of_texts(text, kind):
    assert probes.KINDS[probes.kind_probe("x").coder.raw_code(text)] == kind


def test_magnitudes_by_logarithms():
    values = RNG.normal(0, 1, 500) * 10.0 ** RNG.integers(-4, 17, 500)
    codes = probes.magnitude_probe("x", encoding.Notation()).coder.raw_codes(values.tolist())
    edges = probes.magnitude_edges()
    assert ((edges[codes] <= values) & (values <= edges[codes + 1]))[np.abs(values) >= 2.0**-20].all()
    inside = np.abs(values) >= 2.0**-19
    assert (np.maximum(abs(edges[codes]), abs(edges[codes + 1]))[inside] <= 2 * np.abs(values[inside])).all()


@pytest.mark.parametrize("name", sorted(pj.mechanisms.names()))
def test_every_mechanism_keeps_within_the_rest_or_says_that_it_cannot(name):
    mechanism = pj.mechanisms.names()[name]
    relation = mechanism.relations[0]
    made = mechanism(
        epsilon=4, relation=relation, estimator=pj.Estimator(max_steps=20), **dict(mechanism.audited_with)
    )
    constant = FRAME[["age"]].assign(flag=[k % 2 for k in range(ROWS)])
    table = OpenTable.from_frame(constant, Draft({"age": {"bins": "discover"}, "flag": 2}))
    if not mechanism.discovers:
        with pytest.raises(ValueError, match="takes none, describe them"):
            made.run(table, KWay(1), discover=Discovery("0.3"))
        return
    release = made.run(table, KWay(2), discover=Discovery("0.3"))
    assert release.spent.epsilon <= 4 and "age" in release.domain
    assert release.discovery["cost"]["epsilon"] == "1.2"


def test_under_replace_one_every_value_has_a_place():
    odd = FRAME[["age"]].astype(object)
    odd.loc[5, "age"], odd.loc[6, "age"], odd.loc[7, "age"] = "unknown", None, 10**9
    table = OpenTable.from_frame(odd.astype(str), Draft({"age": {"bins": "discover"}}))
    mechanism = pj.mechanisms.Marginals(epsilon=8, relation=REPLACE, estimator=pj.Estimator(max_steps=20))
    release = mechanism.run(table, KWay(1), discover=Discovery("0.5"))
    assert release.model.total == ROWS  # the public number of records, none of them left out
    assert abs(release.measurements[0].values.sum() - ROWS) < 60


def test_files_that_change_during_the_search_end_it(tmp_path):
    path = tmp_path / "t.csv"
    FRAME[["age", "height"]].to_csv(path, index=False)
    table = OpenTable.read(path, Draft({"age": {"bins": "discover"}, "height": {"bins": "discover"}}))
    look = first_look(table)
    data = table.under([probes.kind_probe("age")], like=look)
    assert data.count() == ROWS
    FRAME[["age", "height"]].iloc[:100].to_csv(path, index=False)
    later = table.under([probes.kind_probe("age")], like=look)
    with pytest.raises(pj.privacy.TableChangedError):
        later.snapshot()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_all_steps_of_a_search_read_the_same_files(tmp_path, kind):
    """A link leads to other files while one step reads, and back again: each step looks for itself."""
    for name, rows in (("mine", FRAME[:600]), ("other", FRAME[600:1200])):
        (tmp_path / name).mkdir()
        table = rows[["age", "height", "job"]]
        if kind == "csv":
            table.to_csv(tmp_path / name / f"t.{kind}", index=False)
        else:
            table.to_parquet(tmp_path / name / f"t.{kind}")
    link = tmp_path / "link"

    def run(other):
        """Search and measure, while one opening of the table leads elsewhere; return how many there were."""
        table = OpenTable.read(link / f"t.{kind}")
        opener, seen = table._opener, []

        def opened(domain, **given):
            seen.append(domain)
            link.unlink()
            link.symlink_to(tmp_path / ("other" if len(seen) == other else "mine"))
            return opener(domain, **given)

        table._opener = opened
        backend = pj.privacy.SeededBackend(1, insecure=True)
        estimator = pj.Estimator(max_steps=5, progress=False)
        mechanism = pj.mechanisms.Marginals(20, ADD, delta="1e-6", backend=backend, estimator=estimator)
        mechanism.run(table, KWay(1), discover=Discovery("0.5"), show_progress=False)
        return len(seen)

    link.symlink_to(tmp_path / "mine")
    steps = run(other=None)
    assert steps >= 6  # a look, the kinds, magnitudes, cells, keys, and what was found
    for step in range(2, steps + 1):
        with pytest.raises(pj.privacy.TableChangedError):
            run(other=step)


def test_a_workload_that_the_found_domain_cannot_answer():
    table = OpenTable.from_frame(FRAME[["age", "id"]])
    mechanism = pj.mechanisms.Marginals(epsilon=4, delta="1e-6", relation=ADD)
    with pytest.raises(ValueError, match=r"The domain that was found, .* 'id'.* Its columns are age\."):
        mechanism.run(table, pj.Workload([["age", "id"]]), discover=Discovery("0.5"))
    with pytest.raises(ValueError, match="An open table takes unit and encoding, got weights"):
        OpenTable.from_frame(FRAME, weights="age", max_weight=3)


@pytest.mark.parametrize("form", ["%d.%m.%Y", "%Y-%m-%d", "%Y-%m-%d %H:%M"])
@pytest.mark.parametrize("delta", ["1e-6", 0])
def test_dates_at_the_ends_of_the_calendar(form, delta):
    """Dates that stand for no date: cells end where the calendar does, not at the next power of 2 of days."""
    days = [datetime.datetime(2021, 3, 1 + k % 28, 10, 30) for k in range(1500)]
    ends = [datetime.datetime(1, 1, 1, 8, 0), datetime.datetime(9999, 12, 31, 23, 59)] * 400
    texts = [day.strftime(form.replace("%Y", f"{day.year:04d}")) for day in days + ends]
    found, _ = search(
        pd.DataFrame({"when": texts}), rho="1", draft={"when": {"dates": "discover"}}, delta=delta or "1e-6",
        unit_of_budget="rho" if delta else "epsilon",
    )  # fmt: skip
    when = found.domain.attribute("when")
    assert found.domain.to_dict()["when"]["dates"][-1].startswith("9999-12-31")
    counts = pj.Dataset.from_frame(found.domain, pd.DataFrame({"when": texts})).marginals([("when",)])[0]
    assert counts[0] >= 400 and counts[: len(when.bins) - 1][-1] >= 400
    assert len(when.values(np.arange(len(when.bins) - 1), np.random.default_rng(0))) == len(when.bins) - 1
    assert pj.Domain(found.domain.to_dict()) == found.domain


def test_pieces_beyond_the_calendar_are_joined_at_its_ends():
    """None of their share is lost, whatever lies where: a sum over the pieces by hand."""
    pieces = [(-50.0, 0.1), (-20.0, 0.2), (0.0, 0.3), (40.0, 0.15), (300.0, 0.2), (500.0, 0.05)]
    search = importlib.import_module("pgmjax.discovery.discover")
    edges, joined = search._within_calendar([-64.0, 0.0, 64.0, 512.0], pieces, -10, 100)
    assert edges == [-10, 0.0, 64.0, 100]
    assert dict(joined) == pytest.approx({-10: 0.3, 0.0: 0.3, 40.0: 0.15, 99: 0.25})
