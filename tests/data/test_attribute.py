"""Attributes: codes, labels, bins and missing values, and specifications that are refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmjax.data.attribute import Attribute

AGE = Attribute.from_spec("age", {"bins": [0, 20, 40, 65.5]})
SEX = Attribute.from_spec("sex", {"labels": ["Female", "Male"], "missing": "?"})
CODE = Attribute.from_spec("code", 4)


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (("", 2), ValueError, "name must not be empty"),
        ((3, 2), TypeError, "name must be a string, got int"),
        (("x", 2, ("a", "b"), (0.0, 1.0)), ValueError, "labels or bins, not both"),
        (("x", 3, ("a", "b")), ValueError, "size of attribute 'x' must be 2, got 3"),
        (("x", 2, None, (0.0, 1.0)), ValueError, "size of attribute 'x' must be 1, got 2"),
        (("x", 1, None, None, True), ValueError, "size of attribute 'x' must be 2, got 1"),
        (("x", 2, None, None, False, ("?",)), ValueError, "missing markers but no missing bucket"),
    ],
)
def test_bad_attributes_are_refused(arguments, kind, message):
    with pytest.raises(kind, match=message):
        Attribute(*arguments)


def test_attributes_are_values():
    assert hash(AGE) == hash(Attribute.from_spec("age", {"bins": [0, 20, 40, 65.5]}))
    assert Attribute.from_spec("age", {"bins": [0, 20, 40, 66]}) != AGE
    with pytest.raises(AttributeError):
        AGE.size = 3


def test_encode_and_decode():
    assert SEX.encode(["Male", "Female", None, "?", "", float("nan"), " Male "]).tolist() == [
        1,
        0,
        2,
        2,
        2,
        2,
        1,
    ]
    assert SEX.decode([1, 2, 0]).tolist() == ["Male", None, "Female"]
    assert AGE.encode([0, 19.999, 20, 65.5, "40"]).tolist() == [0, 0, 1, 2, 2]
    assert AGE.decode(np.array([0, 2])).tolist() == ["[0, 20)", "[40, 65.5]"]
    assert CODE.encode(np.array([3, 0], dtype=np.int16)).tolist() == [3, 0]
    assert CODE.encode(["3", "0"]).dtype == np.uint8
    assert CODE.decode([3, 0]).dtype == np.int64
    assert Attribute.from_spec("x", {"size": 2, "missing": True}).decode([0, 2]).tolist() == [0, None]
    assert Attribute.from_spec("x", {"labels": [10, 20]}).decode([1, 0]).dtype == np.int64
    assert Attribute.from_spec("x", {"labels": [True, "no", 3]}).decode([0, 1, 2]).tolist() == [True, "no", 3]


def test_names_of_codes():
    assert SEX.code_names() == ["Female", "Male", "missing"]
    assert AGE.code_names() == ["[0, 20)", "[20, 40)", "[40, 65.5]"]
    assert CODE.code_names() == ["0", "1", "2", "3"]
    big = Attribute.from_spec("x", {"bins": [-0.5, 1234567, 12345678]})
    assert big.code_names() == ["[-0.5, 1234567)", "[1234567, 12345678]"]
    odd = Attribute.from_spec("x", {"labels": ["missing", "there"], "missing": True})
    assert odd.code_names() == ["missing", "there", "(missing)"]


SECRETS = ["Zaphod", 424242, 424242.5, "424242"]


@pytest.mark.parametrize("values", [[secret] * 3 for secret in SECRETS] + [np.array([424242, -424242, 7])])
@pytest.mark.parametrize("attribute", [SEX, AGE, CODE])
def test_errors_count_rows_and_show_no_value(attribute, values):
    with pytest.raises((ValueError, TypeError), match=f"Attribute '{attribute.name}': ") as caught:
        attribute.encode(values)
    assert any(
        said in str(caught.value)
        for said in (
            "3 rows lie outside",
            "2 rows",
            "3 rows have a value",
            "3 rows hold text",
            "of type int",
            "of type float",
        )
    )
    assert "4242" not in str(caught.value) and "Zaphod" not in str(caught.value)
    assert caught.value.__context__ is None


def test_errors_say_what_to_do():
    with pytest.raises(
        ValueError, match=r"outside its bins \[0, 20\), \.\.\., \[40, 65.5\] \(clip: true counts them"
    ):
        AGE.encode([-1])
    with pytest.raises(
        ValueError, match=r"2 rows have no value and it has no missing bucket \(missing: true\)"
    ):
        AGE.encode([None, float("nan"), 3])
    with pytest.raises(ValueError, match=r"2 rows lie outside its codes 0\.\.3"):
        CODE.encode([4, -1, 3])
    with pytest.raises(ValueError, match=r"1 row holds text \(4 means the codes 0, 1, 2, 3: write code: \["):
        CODE.encode(["Femal", "1"])
    with pytest.raises(ValueError, match="1 row lies outside its 2 labels"):
        SEX.encode(["Femal"])
    with pytest.raises(TypeError, match=r"its values are of type datetime64\[D\], and it takes codes 0..3"):
        CODE.encode(np.array(["2020-01-01"], dtype="M8[D]"))
    with pytest.raises(TypeError, match="values must be a list or an array"):
        CODE.encode("1")
    with pytest.raises(ValueError, match="must be one-dimensional, got 2"):
        CODE.encode(np.zeros((2, 2), dtype=int))
    with pytest.raises(TypeError, match=r"'code'.*float64"):
        CODE.decode([1.0])
    with pytest.raises(ValueError, match=r"must lie in 0..3"):
        CODE.decode([4])
    with pytest.raises(ValueError, match=r"must lie in 0..3"):
        CODE.decode([-1])


# all that is let into names and labels
plain = st.characters(
    exclude_categories=["Cc", "Cs"],
    exclude_characters="\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069",
)
labels = st.lists(
    st.one_of(
        st.text(plain, max_size=4),
        st.integers(-9, 9),
        st.booleans(),
        st.floats(-9, 9).map(lambda x: round(x, 2)),
    ),
    min_size=1,
    max_size=6,
    unique_by=(lambda v: str(v).lower().strip(), lambda v: v),
)


@given(labels, st.data())
def test_labels_survive_encode_and_decode(labels, data):
    attribute = Attribute.from_spec("x", {"labels": labels, "missing": True})
    rows = data.draw(st.lists(st.sampled_from([*labels, None]), min_size=1))
    decoded = attribute.decode(attribute.encode(rows)).tolist()
    assert decoded == rows
    # as text, an empty field is a missing one unless it is a label
    texts = [str(row) for row in rows if row is not None]
    expected = [row for row in rows if row is not None]
    if texts:
        assert attribute.decode(attribute.encode(texts)).tolist() == expected


@pytest.mark.parametrize(
    ("spec", "size", "missing", "markers"),
    [
        (4, 4, False, ()),
        ({"size": 4}, 4, False, ()),
        ({"size": 5, "missing": True}, 6, True, ()),
        ({"size": 5, "missing": False}, 5, False, ()),
        ({"size": 5, "missing": 9}, 6, True, (9,)),
        ({"labels": ["a", "b"], "missing": "?"}, 3, True, ("?",)),
        ({"labels": [1, 2.5, True, "x"][:2], "missing": ["?", "NA"]}, 3, True, ("?", "NA")),
        ({"bins": [0, 1, 2]}, 2, False, ()),
        ({"bins": [0, 1, 2], "missing": True, "clip": True}, 3, True, ()),
    ],
)
def test_forms(spec, size, missing, markers):
    attribute = Attribute.from_spec("x", spec)
    assert (attribute.size, attribute.missing, attribute.missing_markers) == (size, missing, markers)
    assert Attribute.from_spec("x", attribute.to_spec()) == attribute


@pytest.mark.parametrize(
    ("spec", "kind", "message"),
    [
        ({}, ValueError, "must have one of size, labels, .* got none"),
        (
            {"size": 2, "labels": ["a", "b"]},
            ValueError,
            "must have one of size, labels, .* got both size and labels: leave out one",
        ),
        ({"size": 2, "sise": 2}, ValueError, "'sise'.*size"),
        ({"size": 0}, ValueError, "'size'.*0"),
        ({"size": 2.5}, TypeError, r"'size'.*2\.5"),
        ({"size": True}, TypeError, "true"),
        ({"size": 2, "clip": True}, ValueError, "'clip'.*size.*missing"),
        ({"bins": [0, 1], "clip": "yes"}, TypeError, "'clip'.*'yes'"),
        ({"labels": "a, b"}, TypeError, r"must be a list of texts, .* Write a list: labels: \[a, b\]"),
        ({"labels": {"a": [[1]]}}, TypeError, "'labels' of attribute 'x' must be a list of texts"),
        ({"labels": {"a": ["b"], "b": []}}, ValueError, "labels.*'x'"),
        ({"min": 0}, ValueError, r"lacks 'max'. Write, for example, x: {min: 0, max: 99}"),
        ({"min": 5, "max": 4}, ValueError, "'max' of attribute 'x' must be at least its min, 5, got 4"),
        ({"min": 0, "max": 10**12}, ValueError, "cells, more than 1,048,576: take a larger step"),
        ({"from": "2020-01-01"}, ValueError, "lacks 'to'"),
        ({"from": "1.1.2020", "to": "2020-12-31"}, ValueError, r"2024-12-31.*'1\.1\.2020'"),
        (
            {"from": "2020-02-01", "to": "2020-01-01"},
            ValueError,
            "'to' of attribute 'x' must not be before its from, 2020-02-01, got 2020-01-01",
        ),
        ({"from": "2020-01-01", "to": "2020-12-31", "step": "moon"}, ValueError, "second.*minute"),
        ({"dates": ["2020-01-01", "2020-01-01"]}, ValueError, "'dates'.*2020-01-01"),
        ({"bins": [0, 0.25, 1], "grid": 0.1}, ValueError, "must lie on its grid of 0.1"),
        (
            {"bins": [0, 1], "decimal": ";"},
            ValueError,
            "'decimal' of attribute 'x' must be a point or a comma in quotes, got",
        ),
        ({"bins": [0, 1], "decimal": ",", "thousands": ","}, ValueError, "must differ"),
        ({"bins": [0, 1], "within": [[0.5, 1]]}, ValueError, "a number at every lower edge"),
        ({"bins": "discover"}, ValueError, "'x'.*--discover"),
        ({"labels": 3}, TypeError, "'labels' of attribute 'x' must be a list of texts, .* got 3"),
        ({"labels": []}, ValueError, "got an empty list"),
        ({"labels": ["a", "a"]}, ValueError, "labels.*'x'"),
        ({"labels": [1, "1"]}, ValueError, "labels.*'x'"),
        ({"labels": ["a", "a "]}, ValueError, "labels.*'x'"),
        ({"labels": [1, True]}, ValueError, "labels.*'x'"),
        ({"labels": ["a", None]}, TypeError, "got nothing in place 2"),
        ({"labels": [1.0, float("nan")]}, ValueError, "got nan in place 2"),
        ({"labels": ["?", "a"], "missing": "?"}, ValueError, "both a value and a missing marker"),
        ({"size": 4, "missing": 3}, ValueError, "both a value and a missing marker"),
        (
            {"size": 4, "missing": {"a": 1}},
            TypeError,
            "'missing' of attribute 'x' must be true, false, or texts or numbers .* got a mapping of 1",
        ),
        ({"bins": [1]}, ValueError, "a list of two or more numbers, got a list of 1"),
        ({"bins": []}, ValueError, "a list of two or more numbers, got an empty list"),
        ({"bins": [0, 0, 1]}, ValueError, "'bins'.*'x'"),
        ({"bins": [0, float("nan")]}, ValueError, "two or more numbers, got nan in place 2"),
        ({"bins": [0, float("inf")]}, ValueError, "two or more numbers, got inf in place 2"),
        ({"bins": [0, "1"]}, TypeError, "'1'"),
        ({"bins": [False, True]}, TypeError, "got false in place 1"),
        ({"bins": 10}, TypeError, "must be a list of two or more numbers, got 10"),
        ("4", TypeError, "'4'.*x: 4"),
        (None, TypeError, "nothing"),
        (Attribute("y", 2), ValueError, "under the name 'x' calls itself 'y'"),
    ],
)
def test_bad_specs_are_refused(spec, kind, message):
    with pytest.raises(kind, match=message):
        Attribute.from_spec("x", spec)
