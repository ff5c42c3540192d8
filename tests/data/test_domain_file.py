"""Domain files: messages by line and column, the schema against the parser, the page's table of keys.

`python tests/data/test_domain_file.py` remakes the table of keys in docs/domain.md.
"""

import copy
import pathlib
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmjax as pj
from pgmjax.data import entry
from pgmjax.data.draft import Draft

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "domain.md"
TABLE = re.compile(r"(<!-- keys -->\n\n).*?(\n<!-- end of keys -->)", re.DOTALL)
GOOD = [
    3,
    2.0,
    ["cook", "judge"],
    [True, False],
    ["<18", 65],
    "discover",
    {"bins": "discover"},
    {"labels": "discover"},
    {"dates": "discover"},
    {"size": 2, "missing": ["?", -1]},
    {"labels": ["F", "M"], "missing": "?", "other": True},
    {"labels": {"F": ["f", 1], "M": "m", "X": None}},
    {"labels": [3, 2.5, True]},
    {"bins": [0, 1.5], "grid": 0.5, "within": [[0, 1], [1, 2]]},
    {"bins": [0, 10], "decimal": ",", "thousands": "."},
    {"min": 0, "max": 99, "step": 5, "clip": True, "missing": -9},
    {"from": "2020-01-01", "to": "2020-01-31", "step": "6 hours", "clip": True},
    {"from": "2020-01-01T08:00", "to": "2020-01-31T08:30:15", "step": "days"},
    {"dates": ["2020-01-01", "2021-01-01"], "format": "%d.%m.%Y", "missing": False},
]
BAD = [
    0,
    2.5,
    True,
    None,
    "text",
    "0-99",
    [],
    [0, 99],
    ["a", None],
    ["2024-01-01", "2025-01-01"],
    {},
    {"min": "discover"},
    {"bins": "discover", "clip": True},
    {"size": 2, "clip": True},
    {"size": 2, "labels": ["a", "b"]},
    {"size": "2"},
    {"labels": []},
    {"labels": "ab"},
    {"labels": [None]},
    {"labels": {}},
    {"labels": {"a": [["b"]]}},
    {"labels": ["a"], "other": "yes"},
    {"labels": ["a"], "missing": "no"},
    {"labels": ["a"], "missing": []},
    {"lables": ["a"]},
    {"bins": [0]},
    {"bins": [0, "1"]},
    {"bins": {"0": 1}},
    {"bins": [0, 1], "decimal": ";"},
    {"bins": [0, 1], "thousands": "_"},
    {"bins": [0, 1], "grid": 0},
    {"bins": [0, 1], "format": "%Y"},
    {"bins": [0, 1], "within": [[0]]},
    {"min": 0},
    {"max": 9},
    {"min": 0.5, "max": 3},
    {"min": 0, "max": 3, "step": 0},
    {"from": "2020-01-01"},
    {"from": "1.1.2020", "to": "2020-01-31"},
    {"from": "2020-01-01", "to": "2020-01-31", "step": "decade"},
    {"from": "2020-01-01", "to": "2020-01-31", "format": "DD.MM.YYYY"},
    {"dates": ["2020-01-01"]},
    {"dates": ["2020-01-01", "2021-01-01"], "missing": None},
]


@pytest.fixture(scope="module")
def validator():
    jsonschema = pytest.importorskip("jsonschema")
    schema = entry.json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def accepted(spec):
    try:
        draft = Draft({"a": spec})
    except (TypeError, ValueError) as error:
        assert "attribute 'a'" in str(error).lower()
        return False
    assert Draft(draft.to_dict()) == draft
    return True


@pytest.mark.parametrize("spec", [*GOOD, *BAD], ids=str)
def test_the_schema_and_the_parser_agree(validator, spec):
    assert accepted(spec) == validator.is_valid({"a": spec})


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_the_schema_refuses_nothing_that_the_parser_takes(validator, data):
    """One value or key of a good entry is changed: a parser that takes the result has a schema that does."""
    spec = copy.deepcopy(data.draw(st.sampled_from([each for each in GOOD if isinstance(each, dict)])))
    key = data.draw(st.sampled_from(sorted(entry.ALL_KEYS)))
    values = [
        None,
        True,
        0,
        1.5,
        -1,
        "x",
        "yes",
        "",
        ".",
        "%Y",
        "month",
        "2020-01-01",
        [],
        [0, 1],
        ["a"],
        {"a": []},
    ]
    spec[key] = data.draw(st.sampled_from(values))
    assert not accepted(spec) or validator.is_valid({"a": spec}), spec


PLACES = [
    (
        "age: {min: 0,\n  mox: 9}",
        "line 2, column 3: Attribute 'age' has the key 'mox', which is unknown. Did you mean max?",
    ),
    ("a: 3\nage: {min: 0, max: x}", "'max'"),
    ("age: 0-99", "age: {min: 0, max: 99}"),
    (
        "age: [0, 99]",
        "Write age: {min: 0, max: 99} for the whole numbers between them, or age: {bins: [0, 99]}",
    ),
    ("age: int", "Write age: {min: 0, max: 99}, for example: a domain file lists values and not types."),
    ("sex: F, M", "Write sex: {labels: [F, M]}."),
    ("sex: {F: [f], M: [m]}", "labels: [F, M]"),
    ("sex: {values: [F, M]}", "Did you mean labels?"),
    ("age: {bounds: [0, 99]}", "Did you mean min and max?"),
    ("age: {type: int}", "Write {min: 0, max: 99}, for example: a domain file lists values and not types."),
    ("age: {type: int, min: 0, max: 99}", "unknown. Leave it out."),
    ("height: {min: 0, max: 2, step: 0.01}", "bins: [1.4, 1.5, 1.6]"),
    ("sex: {labels: [F, M], clip: true}", "'clip'"),
    ("sex:\n  labels:\n  - F\n  - F\n", "'sex'"),
    ("sex: {labels: [F], missing: no}", "missing: false"),
    ("age: {min: 0, max: 010}", "'010'"),
    ("age: {min: 0, max: 1,000}", "line 1, column 22: .* A comma ends a value: write 1000 and not 1,000"),
    ("age: {min 0, max 99}", "Write a colon and a space behind a key"),
    ("x: {bins: [0, 10,\n 5]}", "line 2, column 2: 'bins' of attribute 'x' must increase, got 5 after 10."),
    ("x: {bins: [0, .inf]}", "clip: true for numbers beyond it"),
    ("age:\n\tmin: 0", "line 2, column 1: This is not YAML: .* Indent with spaces."),
    ("x: {labels: [>50K]}", "line 1, column 14: This is not YAML: .* put quotes around text such as >50K"),
    ("x: {labels_file: none.txt}", "line 1, column 5: Attribute 'x': there is no file of labels"),
    (
        "x: {labels_file: twice.txt}",
        r"line 1, column 5: .*twice\.txt.*'x'",
    ),
    (
        "born: {from: 2020, to: 2024}",
        "'from'.*'born'.*2024-12-31.*2020",
    ),
]


@pytest.mark.parametrize(("text", "message"), PLACES, ids=[text for text, _ in PLACES])
def test_a_message_names_file_line_column_attribute_and_key(tmp_path, text, message):
    (tmp_path / "twice.txt").write_text("A\nA\n", encoding="utf-8")
    (tmp_path / "d.yaml").write_text(text + "\n", encoding="utf-8")
    with pytest.raises((TypeError, ValueError)) as caught:
        Draft.read(tmp_path / "d.yaml")
    start, _, said = str(caught.value).partition("d.yaml, ")
    assert start.startswith("Domain file ") and said.startswith("line ")
    assert re.search(re.sub(r"([\[\]{}()?+])", r"\\\1", message), said), said


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "columns:\n  age: {min: 0, max: 9}\n  sex: [F, M]",
            "stand at the top: leave out what is around them, 'columns', and indent less",
        ),
        ("attributes: {age: {size: 3}}", "stand at the top: leave out what is around them, 'attributes'"),
        (
            "METADATA_SPEC_VERSION: V1\ncolumns: {age: {sdtype: numerical}}",
            "metadata of SDV.*domain draft TABLE",
        ),
        ("age: {sdtype: numerical}", "metadata of SDV"),
        ("tables: {people: {columns: {age: {sdtype: numerical}}}}", "metadata of SDV"),
        ("age:{bins: [0, 60]}", r"Put a space behind the colon, as in age: \{"),
    ],
)
def test_files_of_other_forms_are_recognised(tmp_path, text, message):
    (tmp_path / "d.yaml").write_text(text + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        Draft.read(tmp_path / "d.yaml")


def test_an_attribute_may_be_called_columns(tmp_path):
    (tmp_path / "d.yaml").write_text("columns: {labels: [Doric, Ionic]}\n", encoding="utf-8")
    assert Draft.read(tmp_path / "d.yaml").closed["columns"].labels == ("Doric", "Ionic")


def test_a_message_about_json_names_line_and_column(tmp_path):
    (tmp_path / "d.json").write_text(
        '{"a": ["x"],\n\t"b": {"labels": ["F"],\n\t\t"missing": "no"}}', encoding="utf-8"
    )
    with pytest.raises(ValueError, match=r"d\.json.*line 3.*'missing'.*'b'"):
        pj.Domain.read(tmp_path / "d.json")


def table_of_keys():
    """The table of keys for the page, one row for each key of a kind; keys of several kinds come last."""
    rows, shared = ["| entry | key | meaning | example |", "|---|---|---|---|"], {}
    for kind, keys in entry.KINDS.items():
        for name, key in keys.items():
            homes = [each for each, keys in entry.KINDS.items() if keys.get(name) is key]
            if len(homes) > 1:
                shared[name] = homes, key
            else:
                rows.append(_row(kind, name, key))
    return "\n".join([*rows, *(_row(", ".join(homes), name, key) for name, (homes, key) in shared.items())])


def _row(homes, name, key):

    return f"| {homes} | `{name}` | {key.said} | `{name}: {key.example}` |"


def test_the_page_has_the_keys():
    found = TABLE.search(PAGE.read_text(encoding="utf-8"))
    assert found and found[0] == f"{found[1]}{table_of_keys()}\n{found[2]}", (
        "run python tests/data/test_domain_file.py"
    )


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(
        TABLE.sub(lambda found: f"{found[1]}{table_of_keys()}\n{found[2]}", text), encoding="utf-8"
    )
