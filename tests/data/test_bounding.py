"""Bounded records of units: counted by hand, uniform, independent of other units, and the same in files."""

import collections
import itertools

import numpy as np
import pytest
from scipy import stats

from pgmjax.data import files
from pgmjax.data.bounding import LeftOut, left_out, records_of
from pgmjax.data.dataset import Dataset
from pgmjax.data.definition import TableDefinition
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation, Unit

pa = pytest.importorskip("pyarrow")
csv = pytest.importorskip("pyarrow.csv")
parquet = pytest.importorskip("pyarrow.parquet")

DOMAIN = Domain({"a": 4})
KEY = b"a secret of 16 bytes or more"


def kept(people, most, key=KEY):
    """Return the places of the records that count, by person, told by the library."""
    dropped = set(left_out([records_of(people)], most, key).within(0, len(people)).tolist())
    places = collections.defaultdict(list)
    for place, person in enumerate(people):
        if place not in dropped:
            places[person].append(place)
    return dict(places)


def test_as_many_records_count_as_the_bound_allows_and_nobody_loses_one_needlessly():
    generator = np.random.default_rng(0)
    people = [f"p{number}" for number in generator.integers(0, 40, 500)]
    had = collections.Counter(people)
    for most in (1, 3, 12, 500):
        left = kept(people, most)
        assert {person: len(places) for person, places in left.items()} == {
            person: min(number, most) for person, number in had.items()
        }


def test_every_choice_among_the_records_of_a_unit_is_as_likely():
    people = ["x", "other", "x", "x", "other", "x", "x"]
    seen = collections.Counter(
        tuple(kept(people, 2, number.to_bytes(16, "big"))["x"]) for number in range(4000)
    )
    choices = list(itertools.combinations([0, 2, 3, 5, 6], 2))
    assert set(seen) == set(choices)
    assert stats.chisquare([seen[choice] for choice in choices]).pvalue > 1e-6


def test_the_choice_of_one_unit_does_not_depend_on_the_others():
    alone = kept(["x"] * 6, 2)["x"]
    between = ["y", "x", "x", "z", "x", "y", "y", "x", "x", "y", "x"]
    mine = [place for place, person in enumerate(between) if person == "x"]
    assert [mine.index(place) for place in kept(between, 2)["x"]] == alone
    assert len({tuple(kept([person] * 6, 2)[person]) for person in map(str, range(40))}) > 10


def test_records_that_name_nobody_are_units_of_their_own():
    values = ["", None, float("nan"), "  ", "x", "x", " x ", np.nan, "NaN", "NaN"]
    dropped = left_out([records_of(values)], 1, KEY).within(0, len(values))
    assert len(dropped) == 3  # two of x and one of the person who is called NaN
    assert set(dropped) < {4, 5, 6, 8, 9}


def test_bits_of_records():
    some = LeftOut()
    places = np.random.default_rng(1).permutation(100_000)[:5000]
    for part in np.array_split(places, 7):
        some.add(part)
    assert some.number == 5000
    for first, rows in ((0, 100_000), (3, 8), (99_990, 40), (200_000, 10)):
        expected = sorted(place - first for place in places if first <= place < first + rows)
        assert some.within(first, rows).tolist() == expected


def sources(folder, people, codes):
    """Return one table in memory and in files of every kind."""
    unit = Unit("who", 2)
    frame = pa.table({"who": people, "a": codes})
    yield Dataset.from_columns(DOMAIN, {"a": codes, "who": people}, unit=unit)
    yield Dataset.from_frame(DOMAIN, frame, unit=unit)
    csv.write_csv(frame, folder / "t.csv")
    yield Dataset.read(folder / "t.csv", DOMAIN, unit=unit)
    (folder / "parts").mkdir()
    half = len(people) // 3
    parquet.write_table(frame.slice(0, half), folder / "parts" / "1.parquet", row_group_size=1000)
    parquet.write_table(frame.slice(half), folder / "parts" / "2.parquet", row_group_size=1000)
    yield Dataset.read(folder / "parts", DOMAIN, unit=unit)


@pytest.mark.parametrize("kind", ["text", "numbers"])
def test_files_and_memory_keep_the_same_records(tmp_path, kind):
    generator = np.random.default_rng(2)
    numbers = generator.integers(0, 45_000, 150_000)  # two batches
    people = numbers.tolist() if kind == "numbers" else [f"p {number}" for number in numbers]
    codes = generator.integers(0, 4, 150_000).astype(np.uint8)
    order = {}
    for data in sources(tmp_path, people, codes):
        records = np.concatenate([batch["a"] for batch in data.chosen_by(KEY).records(["a"])])
        snapshot = data.chosen_by(KEY).snapshot()
        assert snapshot.count() == len(records) and snapshot.unit == Unit("who", 2)
        assert (snapshot.marginals([["a"]])[0] == np.bincount(records, minlength=4)).all()
        order[len(order)] = records
    assert len(order[0]) == sum(min(n, 2) for n in collections.Counter(people).values())
    for other in order.values():
        assert (other == order[0]).all()


def test_another_key_keeps_others_and_one_table_keeps_its_own():
    codes = np.arange(400) % 4
    data = Dataset.from_columns(DOMAIN, {"a": codes, "who": ["x"] * 400}, unit=Unit("who", 100))
    assert (data.marginals([["a"]])[0] == data.marginals([["a"]])[0]).all()
    seen = {tuple(data.chosen_by(bytes([n]) * 16).marginals([["a"]])[0]) for n in range(20)}
    assert len(seen) > 5 and all(sum(counts) == 100 for counts in seen)


@pytest.mark.parametrize("where", ["memory", "csv"])
def test_the_choice_is_made_before_rows_outside_are_dropped(tmp_path, where):
    """The choice does not depend on the domain: what it keeps is dropped afterwards, or not."""
    people = ["x", "y", "x", "x", "y", "x", "z"] * 5
    codes = [0, 9, 9, 1, 2, 3, 9] * 5
    unit, frame = Unit("who", 4), pa.table({"who": people, "a": codes})
    if where == "csv":
        csv.write_csv(frame, tmp_path / "t.csv")
        data = Dataset.read(tmp_path / "t.csv", DOMAIN, rows_outside="drop", unit=unit)
    else:
        data = Dataset.from_frame(DOMAIN, frame, rows_outside="drop", unit=unit)
    stay = sorted(place for places in kept(people, 4).values() for place in places)
    expected = np.bincount([codes[place] for place in stay if codes[place] < 4], minlength=4)
    held = data.under(TableDefinition(DOMAIN, rows_outside="drop", unit=unit))
    for each in (data, held, data.recode(DOMAIN, {})):
        assert (each.chosen_by(KEY).marginals([["a"]])[0] == expected).all()


def test_a_record_that_does_not_fit_is_found_whether_it_counts_or_not(tmp_path):
    (tmp_path / "t.csv").write_text("who,a\n" + "x,0\n" * 50 + "x,77\n")
    for number in range(8):
        data = Dataset.read(tmp_path / "t.csv", DOMAIN, unit=Unit("who", 1)).chosen_by(bytes([number]) * 16)
        with pytest.raises(ValueError, match="1 row") as failure:
            data.validate()
        assert "77" not in str(failure.value)


def test_one_choice_for_several_encodings_of_a_table():
    people = ["x", "y", "x", "x", "y", "x", "z"] * 5
    frame = pa.table({"who": people, "a": [0, 9, 9, 1, 2, 3, 9] * 5})
    unit, wide = Unit("who", 4), Domain({"a": 10})
    first = Dataset.from_frame(wide, frame, unit=unit).chosen_by(KEY)
    counts = first.marginals([["a"]])[0]
    dropped = Dataset.from_frame(DOMAIN, frame, rows_outside="drop", unit=unit).as_old_as(first)
    assert (dropped.chosen_by(KEY).marginals([["a"]])[0] == counts[:4]).all()


def test_a_choice_is_not_kept_for_files_that_changed(tmp_path):
    (tmp_path / "t.csv").write_text("who,a\nx,0\ny,1\n")
    data = Dataset.read(tmp_path / "t.csv", DOMAIN, unit=Unit("who", 1)).chosen_by(KEY)
    assert data.marginals([["a"]])[0].tolist() == [1, 1, 0, 0]
    (tmp_path / "t.csv").write_text("who,a\n" + "x,0\n" * 30 + "y,1\n" * 30)
    assert data.marginals([["a"]])[0].sum() == 2


def test_a_record_to_be_dropped_that_the_bound_leaves_out_is_no_error(tmp_path):
    (tmp_path / "t.csv").write_text("who,a\n" + "x,0\n" * 50 + "x,77\n")
    held = TableDefinition(DOMAIN, rows_outside="drop", unit=Unit("who", 1))
    for number in range(8):  # which of the 51 records counts depends on the key
        data = Dataset.read(tmp_path / "t.csv", DOMAIN).under(held).chosen_by(bytes([number]) * 16)
        assert data.snapshot().marginals([["a"]])[0][0] <= 1


def test_a_unit_is_kept_by_other_codes_and_by_its_holder(tmp_path):
    (tmp_path / "t.csv").write_text("who,a\nx,0\nx,1\nx,2\ny,3\n")
    unit = Unit("who", 2)
    data = Dataset.read(tmp_path / "t.csv", DOMAIN, unit=unit)
    merged = data.recode(Domain({"a": 2}), {"a": [0, 0, 1, 1]})
    held = Dataset.read(tmp_path / "t.csv", DOMAIN).under(TableDefinition(DOMAIN, unit=unit))
    plain = Dataset.read(tmp_path / "t.csv", DOMAIN).recode(Domain({"a": 2}), {"a": [0, 0, 1, 1]})
    for each in (merged, merged.chosen_by(KEY), held, plain.under(TableDefinition(DOMAIN, unit=unit))):
        assert each.unit == unit and each.count() == 3 and each.snapshot().unit == unit
        assert "who" not in each.layout.values()


@pytest.mark.parametrize(
    ("act", "error", "said"),
    [
        (lambda: Unit("who", 0), ValueError, "max_records"),
        (lambda: Unit("who", True), TypeError, "max_records"),
        (lambda: Unit("who", 1.5), TypeError, "max_records"),
        (lambda: Unit("", 2), ValueError, "name"),
        (lambda: Unit(3, 2), TypeError, "string"),
        (lambda: read(unit=Unit("a", 2)), ValueError, "attribute of the domain"),
        (lambda: read(unit=Unit("w", 2), weights="w", max_weight=3), ValueError, "column of weights"),
        (lambda: read(unit=Unit("nobody", 2)), ValueError, "nobody"),
        (lambda: read(unit="who"), TypeError, "pgmjax.Unit"),
        (lambda: read(unit=Unit("who", 2), header=False), ValueError, "header"),
        (lambda: columns({"a": [0, 1]}), ValueError, "who"),
        (lambda: columns({"a": [0, 1], "who": [1]}), ValueError, "as many rows"),
        (lambda: columns({"a": [0, 1], "who": pa.array([[1], [2]])}), TypeError, "cast it to text"),
    ],
)
def test_what_is_refused_before_anything_is_read(tmp_path, monkeypatch, act, error, said):
    (tmp_path / "t.csv").write_text("who,a,w\nx,0,1\nx,1,2\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=said):
        act()


def read(**options):
    """Open a small table."""
    return Dataset.read("t.csv", DOMAIN, **options)


def columns(given):
    """Make a small table."""
    return Dataset.from_columns(DOMAIN, given, unit=Unit("who", 2))


def test_words_say_who_is_protected():
    unit = Unit("person_id", 4)
    assert unit.change(Relation.ADD_REMOVE).startswith(
        "all records of one person_id (at most 4 count) are added"
    )
    assert (
        unit.change(Relation.REPLACE_ONE)
        == "the values in all records of one person_id (at most 4 count) are changed"
    )
    assert Unit.from_dict(unit.to_dict()) == unit and Unit.from_dict(None) is None


def test_a_choice_of_records_that_are_all_dropped_is_no_error(tmp_path):
    """Whether it happens depends on the records: an error would tell."""
    path = tmp_path / "people.csv"
    path.write_text("a,person\n" + "99,x\n" * 60 + "0,x\n")
    domain = Domain({"a": 3})
    found = [
        Dataset.read(path, domain, unit=Unit("person", 1), rows_outside="drop").snapshot() for _ in range(3)
    ]
    assert all(each.marginals([["a"]])[0].sum() == each.count() <= 1 for each in found)


def test_records_are_left_out_in_the_order_in_which_they_are_numbered(tmp_path, monkeypatch):
    """A reader that may deliver batches in any order does so here."""
    unsettled = files.FileSource.unsettled

    def shuffled(self, names, ordered=False):
        found = list(unsettled(self, names, ordered=True))
        assert len(found) > 1
        return iter(found if ordered else found[::-1])

    rows = 6000
    codes = np.arange(rows) % 7
    (tmp_path / "t.csv").write_text("who,n\n" + "".join(f"{k // 3},{n}\n" for k, n in enumerate(codes)))
    domain, unit = Domain({"n": 7}), Unit("who", 1)
    memory = Dataset.from_columns(domain, {"n": codes, "who": np.arange(rows) // 3}, unit=unit)
    monkeypatch.setattr(files, "BATCH_ROWS", 2048)
    monkeypatch.setattr(files.FileSource, "unsettled", shuffled)
    stored = Dataset.read(tmp_path / "t.csv", domain, unit=unit)
    expected, found = (data.chosen_by(b"2" * 16).marginals([("n",)])[0] for data in (memory, stored))
    assert np.array_equal(found, expected)
