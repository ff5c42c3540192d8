import pytest

from pgmjax.data.attribute import Attribute


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
        ({}, ValueError, "one of size, labels and bins, got \\[\\]"),
        (
            {"size": 2, "labels": ["a", "b"]},
            ValueError,
            "one of size, labels and bins, got \\['size', 'labels'\\]",
        ),
        ({"sise": 2}, ValueError, "unknown keys \\['sise'\\]: expected"),
        ({"size": 0}, ValueError, "size of attribute 'x' must be an integer >= 1, got 0"),
        ({"size": 2.0}, TypeError, "size of attribute 'x' must be an integer, got float"),
        ({"size": True}, TypeError, "must be an integer, got bool"),
        ({"size": 2, "clip": True}, ValueError, "no bins, so nothing to clip"),
        (
            {"bins": [0, 1], "clip": "yes"},
            TypeError,
            "'clip' of attribute 'x' must be true or false, got str",
        ),
        ({"labels": "ab"}, TypeError, "labels of attribute 'x' must be a list"),
        ({"labels": {"a": 1}}, TypeError, "labels of attribute 'x' must be a list"),
        ({"labels": 3}, TypeError, "labels of attribute 'x' must be a list"),
        ({"labels": []}, ValueError, "labels of attribute 'x' must not be empty"),
        ({"labels": ["a", "a"]}, ValueError, "must differ from one another"),
        ({"labels": [1, "1"]}, ValueError, "must differ from one another, also as text"),
        ({"labels": ["a", "a "]}, ValueError, "must differ from one another, also as text"),
        ({"labels": [1, True]}, ValueError, "must differ from one another"),
        ({"labels": ["a", None]}, TypeError, "must be text, numbers or bools, got NoneType"),
        ({"labels": [1.0, float("nan")]}, ValueError, "must be finite"),
        ({"labels": ["?", "a"], "missing": "?"}, ValueError, "both a value and a missing marker"),
        ({"size": 4, "missing": 3}, ValueError, "both a value and a missing marker"),
        (
            {"size": 4, "missing": {"a": 1}},
            TypeError,
            "'missing' of attribute 'x' must be true, a marker or a list",
        ),
        ({"bins": [1]}, ValueError, "two or more finite edges, increasing"),
        ({"bins": []}, ValueError, "two or more finite edges, increasing"),
        ({"bins": [0, 0, 1]}, ValueError, "two or more finite edges, increasing"),
        ({"bins": [0, float("nan")]}, ValueError, "two or more finite edges, increasing"),
        ({"bins": [0, float("inf")]}, ValueError, "two or more finite edges, increasing"),
        ({"bins": [0, "1"]}, TypeError, "bins of attribute 'x' must be numbers, got str"),
        ({"bins": [False, True]}, TypeError, "bins of attribute 'x' must be numbers, got bool"),
        ({"bins": 10}, TypeError, "bins of attribute 'x' must be a list"),
        ("4", TypeError, "size of attribute 'x' must be an integer, got str"),
        (None, TypeError, "size of attribute 'x' must be an integer, got NoneType"),
        (Attribute("y", 2), ValueError, "under the name 'x' calls itself 'y'"),
    ],
)
def test_bad_specs_are_refused(spec, kind, message):
    with pytest.raises(kind, match=message):
        Attribute.from_spec("x", spec)
