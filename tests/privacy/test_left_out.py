"""What is left out of a table: exact numbers by pandas alone, their noise, cost and refusals."""

import json
from fractions import Fraction

import numpy as np
import pandas
import pytest

import pgmjax as pj
from pgmjax.audit import check_pairs
from pgmjax.cli import main
from pgmjax.data.population import BEYOND, OUTSIDE, UNITS
from pgmjax.privacy import Budget, PrivateTable, SeededBackend
from pgmjax.privacy.left_out import CountLeftOut, count_left_out
from pgmjax.queries.workload import KWay
from pgmjax.release import whole_table
from pgmjax.release.run_folder import RunFolder

DOMAIN = pj.Domain({"a": {"labels": ["x", "y"]}, "b": {"min": 0, "max": 9, "step": 5}})
KEY = b"the same in every store"
WORKLOAD = pj.Workload([["a"], ["b"]])


def frame(seed, rows=60, ids=25):
    """A small table in which values may be outside the domain, and ids missing."""
    rng = np.random.default_rng(seed)
    named = rng.integers(0, ids, rows).astype(str)
    return pandas.DataFrame(
        {
            "id": np.where(rng.random(rows) < 0.1, "", named),
            "a": rng.choice(["x", "y", "elsewhere"], rows, p=[0.6, 0.3, 0.1]),
            "b": rng.integers(0, 11, rows),
        }
    )


def truth(table, kept, largest=None):
    """Return the three numbers of the records that a choice leaves, by pandas alone."""
    outside = ~(table["a"].isin(["x", "y"]) & (table["b"] < 10))
    sizes = table[table["id"] != ""].groupby("id").size()
    beyond = (sizes - kept).clip(lower=0)
    cut = beyond if largest is None else beyond.clip(upper=largest - kept)
    return outside, int((sizes > kept).sum()), int(cut.sum())


def stored(table, kind, folder, unit):
    """Open the table as it lies in memory or in a file of some kind."""
    given = {"rows_outside": "drop", "unit": unit}
    if kind == "frame":
        return pj.Dataset.from_frame(DOMAIN, table, **given)
    path = folder / f"t.{kind}"
    table.to_csv(path, index=False) if kind == "csv" else table.to_parquet(path)
    return pj.Dataset.read(path, DOMAIN, **given)


@pytest.mark.parametrize("kind", ["frame", "csv", "parquet"])
@pytest.mark.parametrize("bound", [None, 1, 2])
def test_the_exact_numbers_are_those_of_pandas(kind, bound, tmp_path):
    for seed in range(4):
        table, unit = frame(seed), None if bound is None else pj.Unit("id", bound)
        data = stored(table, kind, tmp_path, unit).chosen_by(KEY)
        outside, units, beyond = truth(table, bound or len(table))
        for each in (data, data.snapshot(), data.recode(DOMAIN, {"a": [1, 0]}).snapshot()):
            dropped, of_units = each.left_out()
            # which records of a unit count is random, and every record is in one of three places
            assert dropped + sum(of_units) + each.count() == len(table)
            assert (len(of_units), sum(of_units)) == (units, beyond)
            assert dropped == outside.sum() if bound is None else dropped <= outside.sum()
        other = stored(table, "frame", tmp_path, unit).chosen_by(KEY)
        assert other.left_out()[0] == data.left_out()[0]


def test_all_records_may_be_dropped(tmp_path):
    table = frame(0).assign(a="elsewhere")
    (tmp_path / "t.csv").write_text(table.to_csv(index=False))
    data = pj.Dataset.read(tmp_path / "t.csv", DOMAIN, rows_outside="drop", unit=pj.Unit("id", 99))
    assert data.snapshot().left_out()[0] == len(table)


@pytest.mark.parametrize(("unit", "largest"), [(None, None), (2, None), (2, 4)])
@pytest.mark.parametrize("spending", ["epsilon", "rho"])
def test_noise_is_for_the_sensitivity_and_costs_what_it_says(unit, largest, spending):
    table = frame(1, rows=200)
    named = None if unit is None else pj.Unit("id", unit)
    data = pj.Dataset.from_frame(DOMAIN, table, rows_outside="drop", unit=named)
    settings, errors = CountLeftOut("0.5", largest), []
    _, units, beyond = truth(table, unit or 200, largest)
    for seed in range(400):
        budget = Budget(1, spending)
        private = PrivateTable(data, "add-remove", budget, SeededBackend(seed, insecure=True))
        found = count_left_out(private, settings, budget.cap * settings.share)
        dropped = private._records().left_out()[0]
        exact = {OUTSIDE: dropped, UNITS: units, BEYOND: beyond}
        errors.append([each.value - exact[each.kind] for each in found])
        assert budget.spent == Fraction(1, 2)
    moved = {OUTSIDE: unit or 1, UNITS: 1, BEYOND: (largest or 0) - (unit or 0)}
    part = 0.5 / len(found)
    for each, error in zip(found, np.transpose(errors), strict=True):
        size = moved[each.kind]
        scale = size / part if spending == "epsilon" else size / (2 * part) ** 0.5
        expected = 2**0.5 * scale if spending == "epsilon" else scale
        assert each.stddev == pytest.approx(expected, rel=0.2 if scale < 2 else 0.02)
        assert np.std(error) == pytest.approx(each.stddev, rel=0.2)
        assert abs(np.mean(error)) < 4 * each.stddev / 400**0.5
        assert np.mean(np.abs(error) <= each.half_width) > 0.92
    assert [each.kind for each in found] == [
        OUTSIDE,
        *([UNITS] if unit else []),
        *([BEYOND] if largest else []),
    ]


def test_under_replace_one_the_numbers_are_public_and_cost_nothing():
    table = frame(2)
    data = pj.Dataset.from_frame(
        pj.Domain({"a": {"labels": ["x", "y", "elsewhere"]}}), table, unit=pj.Unit("id", 2)
    )
    release = pj.mechanisms.Marginals(epsilon=1, relation="replace-one").run(
        data, pj.Workload([["a"]]), count_left_out="0.3", show_progress=False
    )
    assert [each.value for each in release.population.left_out] == list(truth(table, 2)[1:])
    assert release.measurements[0].distribution.scale == 4  # the share stays with the mechanism
    assert whole_table.records(release.estimates, release.population) == (60.0, 60.0)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("delta", [0, 1e-6])
@pytest.mark.parametrize("kind", ["marginals", "mst", "aim", "hdmm"])
def test_a_mechanism_that_counts_costs_no_more_than_it_claims(kind, delta, relation):
    """All that one person changes passes the choke point, and the account stays within epsilon."""
    rng, drop = np.random.default_rng(3), "drop" if relation == "add-remove" else None
    domain = pj.Domain({"a": 2, "b": 2})

    def table(mine):
        ids = [str(each) for each in rng.integers(0, 6, 14)] + ["me"] * len(mine)
        columns = {"a": [*rng.integers(0, 2, 14), *mine], "b": [0] * (14 + len(mine)), "id": ids}
        return pj.Dataset.from_columns(domain, columns, rows_outside=drop, unit=pj.Unit("id", 2))

    def pair(one, two):
        nonlocal rng
        rng = np.random.default_rng(3)
        first = table(one)
        rng = np.random.default_rng(3)
        return first, table(two)

    gone = [([], [0, 1, 1, 0, 0, 1]), ([], [5, 0, 7])] if drop else [([0, 0, 0], [1, 1, 1])]
    backend = SeededBackend(0, insecure=True)
    counting = CountLeftOut("0.2", 4 if drop else None)
    made = pj.mechanisms.names()[kind](1, relation, delta, backend=backend)
    workload = pj.Workload([["a"], ["b"], ["a", "b"]])
    check_pairs(
        lambda data: made.run(data, workload, count_left_out=counting, show_progress=False),
        [pair(*each) for each in gone],
        epsilon=1,
        delta=delta,
    )


DATA = {
    "whole": pj.Dataset.from_frame(DOMAIN, frame(0).assign(a="x", b=1)),
    "clipped": pj.Dataset.from_frame(DOMAIN, frame(0).assign(a="x"), rows_outside="clip"),
    "weighted": pj.Dataset.from_frame(
        DOMAIN, frame(0).assign(w=1), weights="w", max_weight=2, rows_outside="drop"
    ),
    "unit": pj.Dataset.from_frame(DOMAIN, frame(0), rows_outside="drop", unit=pj.Unit("id", 2)),
    "dropped": pj.Dataset.from_frame(DOMAIN, frame(0), rows_outside="drop"),
}


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("whole", "0.1", "Nothing is left out"),
        ("clipped", "0.1", "Nothing is left out"),
        ("weighted", "0.1", "have weights"),
        ("unit", 0, r"share between 0 and 1"),
        ("unit", "1", r"share between 0 and 1"),
        ("unit", 1.5, r"share between 0 and 1"),
        ("unit", CountLeftOut("0.1", 2), "above max_records, 2"),
        ("dropped", CountLeftOut("0.1", 9), "bounds the records of a unit"),
    ],
)
def test_what_cannot_be_counted_is_refused_before_anything_is_spent(name, settings, said, tmp_path):
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(ValueError, match=said):
        pj.mechanisms.Marginals(1, "add-remove").run(
            DATA[name], WORKLOAD, count_left_out=settings, folder=folder
        )
    assert not folder.begun and not folder.answers
    with pytest.raises(TypeError, match="count_left_out"):
        CountLeftOut(None)


def test_a_run_goes_on_from_its_folder_with_the_same_numbers(tmp_path, monkeypatch):
    """Interrupted at its fit, the command takes up what it counted, at no further cost."""
    frame(4, rows=400, ids=300).to_csv(tmp_path / "t.csv", index=False)
    DOMAIN.write(tmp_path / "d.json")
    words = (
        f"release {tmp_path}/t.csv --domain {tmp_path}/d.json --all-kway 1 --epsilon 2 --relation add-remove"
    )
    words += f" --rows-outside drop --unit id --max-records 2 --out {tmp_path}/out --quiet"
    asked = [*words.split(), "--count-left-out", "0.25", "--largest-unit", "40"]
    fit = pj.Estimator.fit

    def interrupted(*given, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr(pj.Estimator, "fit", interrupted)
    assert main(asked) == 130
    stored = [np.load(path) for path in sorted((tmp_path / "out.partial" / "answers").iterdir())]
    monkeypatch.setattr(pj.Estimator, "fit", fit)
    assert main(["release", "--resume", f"{tmp_path}/out.partial", "--quiet"]) == 0
    record = json.loads((tmp_path / "out" / "release.json").read_text())
    told = record["population"]["left_out"]
    assert [each["value"] for each in told] == stored[0].tolist()
    assert record["spent"] == {"epsilon": "2", "delta": "0"}
    assert sum(Fraction(each["cost"]["epsilon"]) for each in told) == Fraction(1, 2)
    low, high = record["whole_table"]["records"]
    assert abs(400 - (low + high) / 2) < 2 * (high - low)  # four standard errors
    assert "Left out are, counted with noise" in record["statement"]
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Left out are, counted with noise" in page and "part spent on counting units" in page
    hazards = json.loads((tmp_path / "out" / "assurance.json").read_text())["hazards"]
    (row,) = [each for each in hazards if each["title"] == "Bounding contributions costs noise"]
    assert row["facts"]["left_out"] == told and "private" not in row["evidence"]


def test_a_dry_run_tells_the_cost_and_reads_nothing(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("id,a,b\n")
    DOMAIN.write(tmp_path / "d.json")
    words = (
        f"release {tmp_path}/t.csv --domain {tmp_path}/d.json --all-kway 1 --epsilon 2 --relation add-remove"
    )
    words += " --mechanism marginals --rows-outside drop --dry-run"
    assert main([*words.split(), "--count-left-out", "1/4"]) == 0
    said = capsys.readouterr().out
    assert "records outside the domain: epsilon 0.5, noise of standard deviation 2.799" in said
    # two marginals share what is left, 3/4 each
    assert "noise of standard deviation 1.84" in said
    for wrong, why in (
        (["--count-left-out", "0"], "share between 0 and 1"),
        (["--largest-unit", "4"], "goes with --count-left-out"),
    ):
        assert main([*words.split(), *wrong]) == 2 and why in capsys.readouterr().err
    assert (
        main(["fit", f"{tmp_path}/t.csv", "--domain", f"{tmp_path}/d.json", "--count-left-out", "0.1"]) == 2
    )


def test_after_discovery_what_the_found_domain_leaves_out_is_counted():
    """Shares of one budget: of discovery, of counting, and the rest; together no more than it."""
    table = frame(5, rows=3000, ids=2500).drop(columns="b")
    opened = pj.discovery.OpenTable.from_frame(table, unit=pj.Unit("id", 2))
    noise = SeededBackend(1, insecure=True)
    made = pj.mechanisms.Marginals(4, "add-remove", 1e-6, backend=noise)
    given = {"discover": pj.discovery.Discovery("0.4"), "show_progress": False}
    release = made.run(opened, KWay(1), count_left_out=CountLeftOut("0.2", 9), **given)
    kinds = [each.kind for each in release.population.left_out]
    assert kinds == [OUTSIDE, UNITS, BEYOND] and release.population.discovered
    costs = [Fraction(each.cost["rho"]) for each in release.population.left_out]
    whole = Fraction(release.spent.rho)
    assert sum(costs) == whole / 5
    low, high = whole_table.records(release.estimates, release.population)
    assert abs(3000 - (low + high) / 2) < 2 * (high - low)
    with pytest.raises(ValueError, match="leave nothing of it to measure with"):
        made.run(opened, KWay(1), count_left_out="0.6", **given)
    alone = pj.discovery.OpenTable.from_frame(table[["a"]])
    once = pj.mechanisms.Marginals(4, "replace-one", 1e-6, backend=noise)
    with pytest.raises(ValueError, match="Nothing is left out"):
        once.run(alone, KWay(1), count_left_out="0.1", **given)


def test_a_ledger_is_charged_once_and_gives_the_same_numbers_again(tmp_path):
    """The account's holder said what is dropped, and whoever asks counts it without naming that."""
    frame(6, rows=300).to_csv(tmp_path / "t.csv", index=False)
    DOMAIN.write(tmp_path / "d.json")
    made = f"ledger init {tmp_path}/b.ledger {tmp_path}/t.csv --domain {tmp_path}/d.json --name t --epsilon 3"
    made += " --relation add-remove --rows-outside drop --unit id --max-records 2"
    assert main(made.split()) == 0
    words = (
        f"release {tmp_path}/t.csv --domain {tmp_path}/d.json --all-kway 1 --epsilon 1 --relation add-remove"
    )
    words += f" --ledger {tmp_path}/b.ledger --count-left-out 0.25 --mechanism marginals --quiet"
    told = []
    for out in ("one", "two"):
        assert main([*words.split(), "--out", f"{tmp_path}/{out}"]) == 0
        told.append(json.loads((tmp_path / out / "release.json").read_text()))
    assert told[0]["population"]["left_out"] == told[1]["population"]["left_out"]
    assert [each["kind"] for each in told[0]["population"]["left_out"]] == [OUTSIDE, UNITS]
    assert told[0]["whole_table"]["records"] is None and "id" in told[0]["whole_table"]["why"]
    with pj.privacy.Ledger.open(tmp_path / "b.ledger") as ledger:
        assert ledger.account("t").remaining == 2
    # another share is another run
    assert main([*words.replace("0.25", "0.5").split(), "--out", f"{tmp_path}/three"]) == 0
    with pj.privacy.Ledger.open(tmp_path / "b.ledger") as ledger:
        assert ledger.account("t").remaining == 1


def test_a_table_that_memory_does_not_hold_is_read_again(tmp_path, monkeypatch):
    table = frame(7)
    data = stored(table, "csv", tmp_path, pj.Unit("id", 1)).chosen_by(KEY)
    expected = data.snapshot().left_out()
    monkeypatch.setattr("pgmjax.data.dataset.available_bytes", lambda: 0)
    found = data.snapshot()
    assert not found.in_memory
    assert found.left_out()[0] == expected[0] and (found.left_out()[1] == expected[1]).all()
    (tmp_path / "t.csv").write_text(table.head(5).to_csv(index=False))
    with pytest.raises(pj.privacy.TableChangedError):
        found.left_out()


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_an_error_of_reading_a_table_again_is_withheld(relation, monkeypatch):
    """Of a public number it went to whoever asked, with the row on which it was."""

    def failing(data):
        raise ValueError("row 3 has 2 fields: Smith;42")

    unit = pj.Unit("id", 1)
    data = pj.Dataset.from_frame(pj.Domain({"a": {"labels": ["x", "y", "elsewhere"]}}), frame(2), unit=unit)
    table = pj.privacy.PrivateTable(data, relation, pj.privacy.Budget(1))
    monkeypatch.setattr(pj.Dataset, "left_out", failing)
    with pytest.raises(pj.privacy.TableReadError, match="withheld") as caught:
        count_left_out(table, CountLeftOut("0.5"), 1)
    assert "Smith" not in str(caught.value)


def test_a_synthesizer_counts_and_its_answers_say_what_follows():
    table = frame(8, rows=2000, ids=1500)[["id", "b"]].assign(b=lambda t: t["b"].clip(upper=9))
    given = {"epsilon": 4, "relation": "add-remove", "unit": pj.Unit("id", 1), "insecure_seed": 2}
    synth = pj.Synthesizer(**given, count_left_out=CountLeftOut("0.2", 12))
    synth.fit(table, {"b": {"min": 0, "max": 9, "step": 5}}, show_progress=False)
    answer = synth.query("b<5")
    (low, high), (least, most) = answer.whole
    assert low <= (table["b"] < 5).sum() <= high and least <= (table["b"] < 5).mean() <= most
    assert f"Of the whole table: between {low:,.1f} and {high:,.1f} (95 %)" in str(answer)
    assert pj.Synthesizer(**synth.get_params()).count_left_out.share == Fraction(1, 5)
    with pytest.raises(ValueError, match=r"share between 0 and 1"):
        pj.Synthesizer(**given, count_left_out=2)
