"""Domains: from specifications, files and inference; what they refuse; sizes, subsets, equality."""

import datetime
import decimal
import json
import pickle
import unicodedata

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmjax.data.attribute import Attribute
from pgmjax.data.domain import Domain


def test_sizes_in_every_order():
    domain = Domain({"age": 85, "sex": 2, "race": {"labels": ["a", "b", "c"], "missing": True}})
    assert domain.attributes == ("age", "sex", "race") == tuple(domain)
    assert domain.shape == (85, 2, 4)
    assert domain.sizes == {"age": 85, "sex": 2, "race": 4}
    assert (len(domain), domain["race"], "sex" in domain, "height" in domain) == (3, 4, True, False)
    assert domain.size() == 680
    assert domain.size(("sex", "race")) == 8
    assert domain.size(()) == 1
    assert domain.shape_of(("race", "age")) == (4, 85)
    assert domain.project(("race", "age")).shape == (4, 85)
    assert domain.project(("race",)).attribute("race") is domain.attribute("race")
    assert repr(domain) == "Domain({age: 85, sex: 2, race: 4})"


def test_size_is_exact_beyond_64_bits():
    assert Domain({f"a{k}": 1000 for k in range(30)}).size() == 1000**30


def test_domains_are_values():
    one, same = Domain({"a": 2, "b": 3}), Domain({"a": {"size": 2}, "b": Attribute("b", 3)})
    assert one == same and hash(one) == hash(same) and len({one, same}) == 1
    assert one != Domain({"b": 3, "a": 2})
    assert one != Domain({"a": {"labels": [0, 1]}, "b": 3})
    assert pickle.loads(pickle.dumps(one)) == one
    with pytest.raises(AttributeError):
        one.shape = (1,)


@pytest.mark.parametrize(
    ("spec", "kind", "message"),
    [
        ({}, ValueError, "at least one attribute, got none"),
        (["age"], TypeError, "must be a mapping from attribute name to entry, got a list of 1"),
        ({"a": 0}, ValueError, "'size'.*0"),
        ({"a": -1}, ValueError, "got -1"),
        ({"a": True}, TypeError, "must be a number of codes, a list of labels, or a mapping, got true"),
        ({"a": 2.5}, TypeError, r"2\.5"),
        ({"a": None}, TypeError, "or a mapping, got nothing"),
        ({"": 2}, ValueError, "name"),
        ({1: 2}, TypeError, "name of an attribute comes first, a text, got int"),
    ],
)
def test_bad_domains_are_refused(spec, kind, message):
    with pytest.raises(kind, match=message):
        Domain(spec)


def test_unknown_attribute():
    domain = Domain({f"a{k}": 2 for k in range(20)})
    with pytest.raises(ValueError, match=r"'b'.* a0, a1, .*, a11 and 8 more"):
        domain["b"]
    with pytest.raises(ValueError, match="'b'"):
        domain.decode({"b": [0]})
    with pytest.raises(ValueError, match="'b'"):
        domain.project(("b",))


def test_numpy_sizes_become_ints():
    assert type(Domain({"a": np.int64(3)})["a"]) is int


def test_decode():
    domain = Domain({"a": {"labels": ["x", "y"]}, "b": 3})
    decoded = domain.decode({"b": [2, 0], "a": np.array([1, 0])})
    assert {name: column.tolist() for name, column in decoded.items()} == {"b": [2, 0], "a": ["y", "x"]}


# all that is let into names and labels
plain = st.characters(
    exclude_categories=["Cc", "Cs"],
    exclude_characters="\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069",
)
names = st.text(plain, min_size=1, max_size=6)
markers = st.sampled_from([False, True, "?", ["?", "n/a"], -99])
sizes = st.integers(1, 10**12)
edges = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=6, unique=True).map(
    sorted
)
texts = st.lists(
    st.one_of(st.text("abyesnoNYES01~#:-", max_size=5), st.integers(0, 9), st.booleans()),
    min_size=1,
    max_size=5,
    unique_by=(lambda v: str(v).lower().strip(), lambda v: v),
)
specs = st.one_of(
    sizes,
    st.fixed_dictionaries({"size": sizes, "missing": markers}),
    st.fixed_dictionaries({"labels": texts, "missing": markers}),
    st.fixed_dictionaries({"bins": edges, "missing": markers, "clip": st.booleans()}),
)


@given(st.dictionaries(names, specs, min_size=1, max_size=4), st.sampled_from(["json", "yaml", "yml"]))
def test_round_trips(tmp_path_factory, spec, kind):
    domain = Domain(spec)
    assert Domain(domain.to_dict()) == domain
    path = tmp_path_factory.mktemp("domain") / f"d.{kind}"
    domain.write(path)
    again = Domain.read(path)
    assert again == domain and repr(again.to_dict()) == repr(domain.to_dict())
    for name in domain:
        attribute = domain.attribute(name)
        if attribute.size < 100:
            codes = np.arange(attribute.size)
            if attribute.bins is None:
                assert attribute.encode(attribute.decode(codes)).tolist() == codes.tolist()
            assert len(set(attribute.code_names())) == attribute.size


def test_flat_form_stays_flat():
    spec = {"a": 2, "b": {"labels": ["x"], "missing": ["?"]}, "c": {"size": 3, "missing": True}}
    assert Domain(spec).to_dict() == spec


def test_only_the_named_helper_infers_and_it_warns():
    with pytest.warns(UserWarning, match="write the domain of a private table by hand"):
        domain = Domain.from_public_data({"a": [3, 1, 3]})
    assert domain.to_dict() == {"a": {"labels": [1, 3]}}


def write(tmp_path, name, text):
    path = tmp_path / name
    path.write_bytes(text.encode("utf-8"))
    return path


def test_flat_and_rich_json(tmp_path):
    path = write(tmp_path, "d.json", '\ufeff{"age": 85, "sex": {"labels": ["F", "M"], "missing": "?"}}')
    assert Domain.read(path).sizes == {"age": 85, "sex": 3}
    assert Domain.read(str(path)) == Domain.read(path)


def test_yaml_words_that_are_no_bools(tmp_path):
    path = write(tmp_path, "d.yaml", "no:\n  labels: [yes, No, on, off, n]\nb: {labels: [true, False]}\n")
    domain = Domain.read(path)
    assert domain.attribute("no").labels == ("yes", "No", "on", "off", "n")
    assert domain.attribute("b").labels == (True, False)


def test_written_json_is_one_line_an_attribute(tmp_path):
    domain = Domain({"a": 2, "b": {"labels": ["ü", "M"]}})
    domain.write(tmp_path / "d.json")
    lines = (tmp_path / "d.json").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 4
    assert json.loads("".join(lines)) == {"a": 2, "b": {"labels": ["ü", "M"]}}


@pytest.mark.parametrize(
    ("name", "text", "kind", "message"),
    [
        ("d.json", '{"a": 2, "a": 3}', ValueError, r"d.json, line 1, column 10: 'a' is given twice: give"),
        ("d.yml", "a: 2\na: 3\n", ValueError, "line 2, column 1: 'a' is given twice: give each name once"),
        ("d.json", "{a: 2}", ValueError, "line 1, column 2: This is not JSON: Expecting property name"),
        ("d.yaml", "a: [1, 2\n", ValueError, "line 2.*1.*YAML"),
        ("d.yaml", "? [a, b]\n: 2\n", TypeError, "line 1, column 3: Names must be texts, got a list"),
        ("d.yaml", "", ValueError, "must describe each attribute, got nothing"),
        ("d.json", "[1]", ValueError, "must describe each attribute, got a list of 1"),
        ("d.json", "{}", ValueError, "must describe each attribute, got nothing"),
        ("d.json", '{"a": 2.5}', TypeError, r"d\.json.*line 1.*2.*'size'.*'a'"),
        ("d.yaml", "a: {labels: [x, null]}", TypeError, "line 1.*17.*nothing"),
        ("d.toml", "a = 2", ValueError, ".json, .yaml or .yml.*'.toml'"),
        ("d", "a = 2", ValueError, ".json, .yaml or .yml"),
    ],
)
def test_bad_files_are_refused(tmp_path, name, text, kind, message):
    with pytest.raises(kind, match=message):
        Domain.read(write(tmp_path, name, text))


def test_bytes_that_are_no_text(tmp_path):
    (tmp_path / "d.json").write_bytes(b'{"\xe9": 2}')
    with pytest.raises(ValueError, match=r"d\.json"):
        Domain.read(tmp_path / "d.json")


def test_no_such_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"d\.json"):
        Domain.read(tmp_path / "d.json")


def test_writing_another_kind_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"\.json"):
        Domain({"a": 2}).write(tmp_path / "d.txt")


COLUMNS = {
    "code": [3, 1, 3, None],
    "word": ["b", "a", None, "b"],
    "flag": [True, False, True, True],
    "size": [1.5, 2.5, 9.5, 1.5],
    "old": [10, 20, 30, 50],
}
KINDS = {
    "lists": dict,
    "pandas": pandas.DataFrame,
    "polars": polars.DataFrame,
    "arrow": pyarrow.table,
}


@pytest.mark.filterwarnings("ignore:This domain shows")
@pytest.mark.parametrize("kind", KINDS)
def test_labels_and_bins(kind):
    domain = Domain.from_public_data(KINDS[kind](COLUMNS), bins={"size": 4, "old": [0, 25, 60]})
    assert domain.attribute("code").labels == (1, 3) and domain.attribute("code").missing
    assert domain.attribute("word").labels == ("a", "b") and domain.attribute("word").missing
    assert domain.attribute("flag").labels == (False, True)
    assert domain.attribute("size").bins == (1.5, 3.5, 5.5, 7.5, 9.5)
    assert domain.attribute("old").bins == (0, 25, 60)


@pytest.mark.filterwarnings("ignore:This domain shows")
def test_one_number_of_bins_for_all_numbers():
    domain = Domain.from_public_data({"a": [0, 4], "b": ["x", "y"], "c": [7, 7]}, bins=2)
    assert domain.to_dict() == {
        "a": {"bins": [0, 2, 4]},
        "b": {"labels": ["x", "y"]},
        "c": {"bins": [7, 7.5, 8]},
    }


@pytest.mark.filterwarnings("ignore:This domain shows")
def test_columns_of_many_values():
    start = datetime.datetime(2020, 2, 28, 23, tzinfo=datetime.timezone(datetime.timedelta(hours=-2)))
    columns = {
        "whole": [*range(-7, 200)],
        "halves": [k / 2 for k in range(207)],
        "price": [decimal.Decimal(k) / 100 for k in range(207)],
        "word": ["b", "a", "a"] + [f"w{k}" for k in range(103)] + ["c"] * 101,
        "day": [datetime.date(2020, 1, 1) + datetime.timedelta(k) for k in range(207)],
        "moment": [start] * 207,
    }
    domain = Domain.from_public_data(columns, max_labels=50)
    found = domain.to_dict()
    assert found["whole"] == {"min": -10, "max": 199, "step": 5}
    assert found["halves"] == {"bins": [5 * k for k in range(22)]}
    assert found["price"] == {"bins": [k / 20 for k in range(43)]}
    assert found["word"]["other"] and {"a", "c"} <= {*found["word"]["labels"]}
    assert len(found["word"]["labels"]) == 50
    assert found["day"] == {"from": "2020-01-01", "to": "2020-07-25", "step": "month"}
    assert found["moment"] == {"from": "2020-02-29", "to": "2020-02-29", "step": "day"}
    assert domain.attribute("moment").encode([start]).tolist() == [0]


@pytest.mark.filterwarnings("ignore:This domain shows")
@pytest.mark.parametrize("seed", range(20))
def test_a_domain_fits_the_table_that_it_was_taken_from(seed):
    rng = np.random.default_rng(seed)
    most = int(rng.integers(1, 60))
    size = 10.0 ** rng.integers(-8, 9)
    columns = {
        "real": (rng.normal(size=300) * size + rng.integers(-9, 9)).tolist(),
        "whole": (rng.integers(-300, 300, 300) * rng.integers(1, 10**6)).tolist(),
        "cents": (rng.integers(0, 10**5, 300) / 100).tolist(),
    }
    domain = Domain.from_public_data(columns, max_labels=most)
    for name, values in columns.items():
        assert domain[name] <= max(most, 2)
        assert {*domain.attribute(name).encode(values).tolist()} <= {*range(domain[name])}


@pytest.mark.filterwarnings("ignore:This domain shows")
@pytest.mark.parametrize(
    ("frame", "arguments", "message"),
    [
        ({"a": [None, None]}, {}, "'a' holds no value: say its domain by hand"),
        ({"a": [1, 2]}, {"max_labels": 0}, "max_labels.*0"),
        ({"a": ["x"]}, {"bins": {"a": 3}}, "'a' does not hold numbers only, so it cannot have bins"),
        ({"a": [1]}, {"bins": {"b": 3}}, r"bins names \['b'\], which are not columns"),
        ({"a": [1, 2]}, {"bins": 0}, "'a'.*0"),
        ({1: [1, 2]}, {}, "must have names that are strings, each once"),
        (pandas.DataFrame([[1, 2]], columns=["a", "a"]), {}, "must have names that are strings, each once"),
    ],
)
def test_what_cannot_be_inferred(frame, arguments, message):
    with pytest.raises(ValueError, match=message):
        Domain.from_public_data(frame, **arguments)


def test_names_that_look_the_same_are_one(tmp_path):
    composed, apart = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))
    for other in (apart, f"{composed} "):
        with pytest.raises(ValueError, match=r"attributes 1 and 2\) differ only in white space or in how"):
            Domain({composed: 2, other: 3})
    domain = Domain({composed: 2, "b": 3})
    assert domain[apart] == 2 and domain.attribute(apart).name == composed
    assert domain.size((apart, "b")) == 6
    with pytest.raises(ValueError, match="'b'"):
        domain.attribute("B")
