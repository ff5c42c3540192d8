"""Kinds of attributes in a domain file: against Python's own dates and decimals, and there and back."""

import csv
import datetime
import decimal
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import pgmjax as pj
from pgmjax.data.attribute import Attribute, code_of
from pgmjax.data.definition import TableDefinition

JANUARY = {"from": "2024-01-01", "to": "2024-01-31"}
SPECS = [
    {"bins": [0, 20, 65.5], "missing": True},
    {"bins": [0, 2, 5], "grid": 1, "clip": True},
    {"min": 0, "max": 123, "step": 5},
    {"min": -3, "max": 9},
    {"bins": [0, 0.3, 1], "grid": 0.1},
    {"from": "2020-01-01", "to": "2024-12-31", "step": "month"},
    {"from": "2020-01-15", "to": "2024-12-30", "step": "quarter"},
    {"from": "2020-01-01", "to": "2020-01-31", "step": "week"},
    {"from": "2020-01-01", "to": "2020-01-31", "step": 3},
    {"from": "2020-01-01T00:00:00", "to": "2020-01-31T23:59:59", "step": "hour"},
    {"dates": ["2020-01-01", "2020-05-05", "2021-01-01"], "format": "%d.%m.%Y", "missing": ["-"]},
    {"labels": ["a", "b"], "other": True, "missing": ["?"]},
    {"labels": {"M": ["M", "Homme"], "F": ["Femme"]}},
    {"bins": [0, 100, 1000], "decimal": ",", "thousands": "."},
    {"bins": [0, 10, 20], "grid": 1, "within": [[0, 1], [3, 5], [10, 2]]},
]


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_there_and_back(spec):
    attribute = Attribute.from_spec("x", spec)
    assert Attribute.from_spec("x", attribute.to_spec()) == attribute
    codes = np.random.default_rng(0).integers(0, attribute.size, 500)
    values = attribute.values(codes, np.random.default_rng(1))
    texts = [_text(attribute, value) for value in values.tolist()]
    assert (attribute.encode(texts) == codes).all()
    if attribute.format is None:
        assert (attribute.encode(values) == codes).all()
        assert (attribute.encode(values.tolist()) == codes).all()
    arrow = pj.Dataset.from_frame(
        pj.Domain({"x": attribute}), pa.table({"x": pa.array(values, from_pandas=True)})
    )
    assert arrow.marginals([("x",)])[0].tolist() == np.bincount(codes, minlength=attribute.size).tolist()
    assert len(set(attribute.code_names())) == attribute.size


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("discover", "is to be discovered: give a release a share"),
        ({"from": "9999-12-01", "to": "9999-12-31"}, "must end before 9999-12-31"),
        ({"from": "2020-01-01T00:00+02:00", "to": "2020-01-02"}, "without a time zone, got the text"),
        ({"from": "2020-01-01", "to": "2020-01-02", "step": "0 hours"}, 'such as "6 hours"'),
        ({"from": "2020-01-01", "to": "2020-12-31", "format": "%d.%m"}, "that names the year"),
        ({"from": "2020-01-01", "to": "2020-12-31", "format": "%"}, "a form of datetime.strptime"),
        ({"bins": [0, 1], "grid": 1e-300}, "at most 2\\*\\*53 steps"),
    ],
)
def test_refusals(spec, message):
    with pytest.raises(ValueError, match=message):
        Attribute.from_spec("x", spec)


@pytest.mark.parametrize("step", [10**400, "999999999 years", "999999999 days"])
def test_a_step_longer_than_the_dates_is_one_cell(step):
    assert Attribute.from_spec("x", {"from": "2020-01-01", "to": "2020-01-09", "step": step}).size == 1


def test_steps_of_several_units_by_the_calendar():
    spec = {"from": "2020-01-31", "to": "2021-01-30", "step": "5 months"}
    assert Attribute.from_spec("x", spec).to_spec() == {
        "dates": ["2020-01-31", "2020-06-01", "2020-11-01", "2021-01-31"]
    }
    attribute = Attribute.from_spec("x", {"from": "2020-02-28", "to": "2020-03-01", "step": "6 hours"})
    hours = pd.date_range("2020-02-28", "2020-03-01T23:59:59", freq="h")
    assert attribute.encode(hours.to_numpy()).tolist() == [k // 6 for k in range(72)]


@pytest.mark.parametrize("label", ["1e3", "1E30", "1.50", "+1", ".5", "-0"])
@pytest.mark.parametrize("form", ["x: {{labels: [a, {}]}}", "x: [a, {}]", "x: {{size: 9, missing: {}}}"])
def test_a_label_that_is_another_number_is_named(tmp_path, label, form):
    (tmp_path / "d.yaml").write_text(f"a: 2\n{form.format(label)}\n", encoding="utf-8")
    with pytest.raises(
        ValueError, match=rf"line 2, column .*: {re.escape(label)} without quotes is the number"
    ):
        pj.Domain.read(tmp_path / "d.yaml")


def test_yaml_labels_are_what_is_written(tmp_path):
    """What YAML 1.1 takes for bools, octal and sexagesimal numbers and dates is text."""
    words = ["no", "yes", "on", "0123", "010", "1_000", "12:30", "1:30.5", "0x1F", "2020-01-01", "n", "NA"]
    text = f"x: {{labels: [{', '.join(words)}, 17, 1.5, '1e3'], missing: [n/a, -9]}}\n2020: 2\nno: 3\n"
    (tmp_path / "d.yaml").write_text(text, encoding="utf-8")
    domain = pj.Domain.read(tmp_path / "d.yaml")
    assert domain.to_dict()["x"] == {"labels": [*words, 17, 1.5, "1e3"], "missing": ["n/a", -9]}
    assert domain.attributes == ("x", "2020", "no")
    assert domain.attribute("x").encode(["0123", datetime.date(2020, 1, 1), "17.0"]).tolist() == [3, 9, 12]
    domain.write(tmp_path / "again.yaml")
    assert pj.Domain.read(tmp_path / "again.yaml") == domain


def test_yaml_numbers_and_merged_mappings(tmp_path):
    """Exponents are numbers; `<<` takes over keys, which those beside it override, the first base first."""
    text = """
age: &age {min: 0, max: 1e2, step: 5, missing: true}
years: {<<: *age, max: 120}
other: {<<: [{step: 2}, *age], max: 9}
income: {bins: [0, 1e3, .5e6, 2.5E+6], grid: 1e-2}
same: *age
"""
    (tmp_path / "d.yaml").write_text(text, encoding="utf-8")
    assert pj.Domain.read(tmp_path / "d.yaml") == pj.Domain(
        {
            "age": {"min": 0, "max": 100, "step": 5, "missing": True},
            "years": {"min": 0, "max": 120, "step": 5, "missing": True},
            "other": {"min": 0, "max": 9, "step": 2, "missing": True},
            "income": {"bins": [0, 1000, 500_000, 2_500_000], "grid": 0.01},
            "same": {"min": 0, "max": 100, "step": 5, "missing": True},
        }
    )
    (tmp_path / "d.yaml").write_text("a: 2\nb: {<<: 3}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"line 2, column 5: << must stand before an alias of a mapping"):
        pj.Domain.read(tmp_path / "d.yaml")


def test_a_set_has_no_order_and_is_refused():
    for spec in ({"a", "b"}, {"labels": {"a", "b"}}):
        with pytest.raises(TypeError, match="set"):
            Attribute.from_spec("x", spec)


def test_short_forms_mean_what_they_say():
    forms = {
        "list": (["cook", "judge"], {"labels": ["cook", "judge"]}),
        "flags": ([True, False], {"labels": [True, False]}),
        "mixed": (["<18", 65], {"labels": ["<18", 65]}),
        "set": ({"labels": {"F": None, "M": None}}, {"labels": ["F", "M"]}),
        "one spelling": (
            {"labels": {"F": "female", "M": "male"}},
            {"labels": {"F": ["female"], "M": ["male"]}},
        ),
        "array": ({"labels": np.arange(3)}, {"labels": [0, 1, 2]}),
        "dates": ({"from": datetime.date(2024, 1, 1), "to": np.datetime64("2024-01-31")}, JANUARY),
        "million": ({"size": 1e6}, 1_000_000),
    }
    for name, (short, long) in forms.items():
        assert Attribute.from_spec("x", short) == Attribute.from_spec("x", long), name


@pytest.mark.parametrize(
    ("labels", "turned"),
    [
        ({1: "male", 2: "female"}, "{male: 1, female: 2}"),
        ({"1": "male", "2": "female"}, "{male: 1, female: 2}"),
    ],
)
def test_numbers_with_one_text_each_are_read_neither_way(labels, turned):
    with pytest.raises(ValueError, match=f"either way. If the table holds the numbers, write {turned}"):
        Attribute.from_spec("sex", {"labels": labels})
    told = Attribute.from_spec("sex", {"labels": {key: [text] for key, text in labels.items()}})
    assert told.encode(["female", "male", 2]).tolist() == [1, 0, 1]
    turned_round = Attribute.from_spec("sex", {"labels": {text: key for key, text in labels.items()}})
    assert turned_round.labels == ("male", "female") and turned_round.encode([2, 1]).tolist() == [1, 0]
    assert Attribute.from_spec("x", told.to_spec()).labels == told.labels


def test_numbers_with_the_same_text_are_told_together():
    with pytest.raises(ValueError, match=r"write \{young: \[1, 2\], old: 3\}"):
        Attribute.from_spec("x", {"labels": {1: "young", 2: "young", 3: "old"}})
    assert Attribute.from_spec("x", {"labels": {"young": [1, 2], "old": 3}}).encode([2, 3]).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"min": 0, "max": 120, "bins": 12}, "a number of equal cells of whole numbers is min, max and step"),
        ({"min": 1.4, "max": 2.1}, r"Numbers with decimals have bins, .* grid: 0.01"),
        ({"labels": ["F", None]}, "write missing: true beside the labels"),
        ([{"name": "age"}, {"name": "sex"}], "A domain is one mapping from the name of each column"),
    ],
)
def test_an_entry_of_another_form_is_told_what_to_write(spec, said):
    with pytest.raises((TypeError, ValueError), match=said):
        Attribute.from_spec("x", spec)


def test_a_date_in_another_form_is_told_the_form():
    day = Attribute.from_spec("day", {"from": "2024-01-01", "to": "2024-12-31"})
    with pytest.raises(ValueError, match=r"1 row.*2024-12-31"):
        day.encode(["03/14/2024"])


def test_a_label_called_other_is_not_the_code_of_others():
    attribute = Attribute.from_spec("x", {"labels": ["other", "b"], "other": True})
    assert attribute.values([0, 1, 2]).tolist() == ["other", "b", "(other)"]
    assert attribute.encode(attribute.values([0, 1, 2])).tolist() == [0, 1, 2]
    assert attribute.code_names() == ["other", "b", "(other)"]
    assert [code_of(attribute, each) for each in ("(other)", "other")] == [2, 0]
    with pytest.raises(ValueError, match=r"'c'.*'x'"):
        code_of(attribute, "c")


def _text(attribute, value):
    if value is None:
        return ""
    if attribute.format is not None:
        return value.strftime(attribute.format)
    return str(value).replace(".", attribute.decimal)


def test_ranges_of_whole_numbers_by_division():
    attribute = Attribute.from_spec("x", {"min": 18, "max": 99, "step": 7})
    values = np.arange(18, 100)
    assert (attribute.encode(values) == (values - 18) // 7).all()
    assert attribute.code_names()[:2] == ["18 to 24", "25 to 31"] and attribute.code_names()[-1] == "95 to 99"
    assert attribute.encode(["18.0", " 99 "]).tolist() == [0, 11]
    for beyond in (17, 100, "17.5", 24.5):
        with pytest.raises(ValueError, match=r"1 row.*bins"):
            attribute.encode([beyond])


def test_decimals_on_a_grid_are_those_that_are_written():
    attribute = Attribute.from_spec("x", {"bins": [0, 0.35, 1.15], "grid": 0.01})
    hundredths = np.arange(0, 115)
    wanted = [0 if n < 35 else 1 for n in hundredths]
    assert attribute.encode(hundredths / 100).tolist() == wanted
    assert attribute.encode([str(decimal.Decimal(int(n)) / 100) for n in hundredths]).tolist() == wanted
    drawn = attribute.values(np.repeat([0, 1], 4000), np.random.default_rng(0))
    assert {f"{value!r}" for value in drawn.tolist()} == {
        repr(round(n / 100, 2)) for n in hundredths.tolist()
    }


def test_months_by_the_calendar():
    attribute = Attribute.from_spec("x", {"from": "2019-02-10", "to": "2021-03-04", "step": "month"})
    days = [datetime.date(2019, 2, 10) + datetime.timedelta(days=k) for k in range(754)]
    wanted = [12 * (day.year - 2019) + day.month - 2 for day in days]
    assert days[-1] == datetime.date(2021, 3, 4)
    assert attribute.encode(days).tolist() == wanted
    assert attribute.encode(pd.to_datetime(days).to_numpy()).tolist() == wanted
    assert attribute.encode([f"{day}T13:05" for day in days]).tolist() == wanted
    assert attribute.code_names()[1] == "2019-03" and attribute.code_names()[0] == "2019-02-10 to 2019-02-28"
    with pytest.raises(ValueError, match=r"1 row.*bins.*1 row"):
        attribute.encode([days[0], datetime.date(2021, 3, 5), "4.3.2021"])


def test_times_with_a_zone_are_moments_in_utc():
    attribute = Attribute.from_spec(
        "x", {"from": "2020-01-01T00:00", "to": "2020-01-02T23:59", "step": "hour"}
    )
    east = datetime.timezone(datetime.timedelta(hours=2))
    moments = [datetime.datetime(2020, 1, 1, hour, 30, tzinfo=east) for hour in (2, 5, 23)]
    assert attribute.encode(moments).tolist() == [0, 3, 21]
    array = pa.array(moments, pa.timestamp("us", tz="+02:00"))
    data = pj.Dataset.from_frame(pj.Domain({"x": attribute}), pa.table({"x": array}))
    assert np.flatnonzero(data.marginals([("x",)])[0]).tolist() == [0, 3, 21]


def test_numbers_of_other_countries():
    attribute = Attribute.from_spec("x", {"bins": [0, 10, 1e4], "decimal": ",", "thousands": "."})
    assert attribute.encode(["9,99", "1.234,5", "1234,5", "10"]).tolist() == [0, 1, 1, 1]
    with pytest.raises(ValueError, match=r"'x'.*3 rows"):
        attribute.encode(["9.99", "1,234.5", "12.34,5"])


def test_spellings_and_other_values():
    attribute = Attribute.from_spec(
        "x", {"labels": {"M": ["M", "Homme", 1], "F": ["Femme"]}, "other": True, "missing": "?"}
    )
    given = ["M", "Homme", 1, "1", "F", "Femme", "femme", 7.5, "?", None, ["list"]]
    assert attribute.encode(given).tolist() == [0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 2]
    assert attribute.values([0, 1, 2, 3]).tolist() == ["M", "F", "other", None]
    assert attribute.code_names() == ["M", "F", "other", "missing"]


def test_values_lie_where_the_records_do():
    attribute = Attribute.from_spec(
        "x", {"bins": [0, 100, 200], "grid": 1, "within": [[0, 9], [10, 1], [100, 0]]}
    )
    drawn = attribute.values(np.repeat([0, 1], 20_000), np.random.default_rng(0))
    assert abs((drawn[:20_000] < 10).mean() - 0.9) < 5 * (0.09 / 20_000) ** 0.5
    assert abs(drawn[20_000:].mean() - 149.5) < 5 * 29 / 20_000**0.5  # a cell without shares is even


def test_a_registered_table_may_be_asked_in_coarser_dates_and_other_values():
    definition = TableDefinition(
        pj.Domain(
            {
                "day": {"from": "2020-01-01", "to": "2020-12-31", "step": "day"},
                "job": {"labels": ["a", "b", "c"], "other": True},
            }
        )
    )
    coarse = {
        "day": {"from": "2020-01-01", "to": "2020-12-31", "step": "month"},
        "job": {"labels": ["b"], "other": True},
    }
    tables = definition.tables(pj.Domain(coarse))
    assert tables["day"].tolist() == [
        (datetime.date(2020, 1, 1) + datetime.timedelta(days=k)).month - 1 for k in range(366)
    ]
    assert tables["job"].tolist() == [1, 0, 1, 1]
    with pytest.raises(ValueError, match=r"must have one in this domain .other: true"):
        definition.tables(pj.Domain({"job": {"labels": ["a", "b", "c"]}}))
    with pytest.raises(ValueError, match="as dates by the same steps"):
        definition.tables(pj.Domain({"day": {"bins": [18262, 18628]}}))


def test_labels_from_a_file(tmp_path):
    (tmp_path / "codes.txt").write_text("A01\n\n B02 \n", encoding="utf-8")
    (tmp_path / "d.yaml").write_text("icd: {labels_file: codes.txt, other: true}\n", encoding="utf-8")
    assert pj.Domain.read(tmp_path / "d.yaml") == pj.Domain(
        {"icd": {"labels": ["A01", "B02"], "other": True}}
    )
    (tmp_path / "codes.csv").write_text('name,code\n"a, b",A01\nc,B02\n', encoding="utf-8")
    (tmp_path / "c.yaml").write_text("icd: {labels_file: codes.csv, column: code}\n", encoding="utf-8")
    assert pj.Domain.read(tmp_path / "c.yaml") == pj.Domain({"icd": {"labels": ["A01", "B02"]}})
    (tmp_path / "c.yaml").write_text("icd: {labels_file: codes.csv}\n", encoding="utf-8")
    with pytest.raises(ValueError, match="has lines of several columns: say which holds the labels"):
        pj.Domain.read(tmp_path / "c.yaml")
    (tmp_path / "e.yaml").write_text("icd: {labels_file: codes.csv, column: sex}\n", encoding="utf-8")
    with pytest.raises(ValueError, match="one column named 'sex'"):
        pj.Domain.read(tmp_path / "e.yaml")
    (tmp_path / "e.yaml").write_text("icd: {labels_file: none.txt}\n", encoding="utf-8")
    with pytest.raises(ValueError, match="'icd'"):
        pj.Domain.read(tmp_path / "e.yaml")


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_labels_coarser_than_the_values(tmp_path, delimiter):
    rows = [
        ("LIBELLÉ", "COM", "DEP"),
        ("A; b", "01001", "01"),
        ("B, c", "2A004", "2A"),
        ("C|d", "01004", "01"),
    ]
    with (tmp_path / "cog.csv").open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows([*rows, ("D", "02", "02"), ("E", "", "03")])

    def read(keys):
        (tmp_path / "d.yaml").write_text(f"place: {{labels_file: cog.csv, {keys}}}\n", encoding="utf-8")
        return pj.Domain.read(tmp_path / "d.yaml").attribute("place")

    place = read("column: DEP, spellings: COM, other: true")
    assert place.labels == ("01", "2A", "02", "03")
    told = place.encode(["01004", "01001", "2A004", "02", "99999"])
    assert told.tolist() == [0, 0, 1, 2, 4]  # as the rows say, whatever separates them
    assert read("column: LIBELLÉ").labels == ("A; b", "B, c", "C|d", "D", "E")
    with pytest.raises(ValueError, match=r"spellings of attribute 'place' must differ .* got the text '01'"):
        read("column: COM, spellings: DEP")
    with pytest.raises(ValueError, match="'spellings' goes with 'column'"):
        read("spellings: COM")
    with pytest.raises(
        ValueError, match="must have one column named 'DEP' and one column named 'REG', and has"
    ):
        read("column: DEP, spellings: REG")
    (tmp_path / "cog.csv").write_text("COM;LIBELLÉ\n", encoding="cp1252")
    with pytest.raises(ValueError, match=r"cog\.csv is not text in UTF-8"):
        read("column: COM")
