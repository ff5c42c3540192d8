import json

import pytest

from pgmjax.data.domain import Domain


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
        ("d.json", '{"a": 2, "a": 3}', ValueError, "'a' is given twice: give each name once"),
        ("d.yml", "a: 2\na: 3\n", ValueError, "'a' is given twice: give each name once"),
        ("d.json", "{a: 2}", ValueError, "Expecting property name"),
        ("d.yaml", "a: [1, 2\n", ValueError, "not YAML"),
        ("d.yaml", "? [a, b]\n: 2\n", TypeError, "names must be strings, got list: put them in quotes"),
        ("d.yaml", "2020: 2\n", TypeError, "names must be strings, got int: put them in quotes"),
        ("d.yaml", "", TypeError, "must be a mapping from attribute name to size, got NoneType"),
        ("d.json", "[1]", TypeError, "must be a mapping from attribute name to size, got list"),
        ("d.json", "{}", ValueError, "at least one attribute"),
        (
            "d.json",
            '{"a": 2.5}',
            TypeError,
            "Domain file .*d.json: The size of attribute 'a' must be an integer",
        ),
        (
            "d.yaml",
            "a: {labels: [2020-01-01]}",
            TypeError,
            "got date .in YAML, put dates and the like in quotes",
        ),
        ("d.toml", "a = 2", ValueError, "must end in .json, .yaml or .yml, got '.toml'"),
        ("d", "a = 2", ValueError, "must end in .json, .yaml or .yml, got 'no ending'"),
    ],
)
def test_bad_files_are_refused(tmp_path, name, text, kind, message):
    with pytest.raises(kind, match=message):
        Domain.read(write(tmp_path, name, text))


def test_bytes_that_are_no_text(tmp_path):
    (tmp_path / "d.json").write_bytes(b'{"\xe9": 2}')
    with pytest.raises(ValueError, match=r"Domain file .*d\.json"):
        Domain.read(tmp_path / "d.json")


def test_no_such_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"d\.json"):
        Domain.read(tmp_path / "d.json")


def test_writing_another_kind_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"must end in \.json"):
        Domain({"a": 2}).write(tmp_path / "d.txt")
