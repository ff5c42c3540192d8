import gzip

import pytest

from pgmjax.data.text_file import TextFile, find_columns


def layout(tmp_path, text, names, header=True, name="t.csv"):
    path = tmp_path / name
    raw = text if isinstance(text, bytes) else text.encode("utf-8")
    path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return find_columns(TextFile(path, "." + name.split(".")[1]), names, header)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a,b,c\n1,2,3\n", (",", 3, {"c": 2, "a": 0})),
        ("\ufeffa , b,\tc\r\n1,2,3\r\n", (",", 3, {"c": 2, "a": 0})),
        ("c;x,y;a\n", (";", 3, {"c": 0, "a": 2})),
        ("a\tc\n", ("\t", 2, {"c": 1, "a": 0})),
        ("a|c", ("|", 2, {"c": 1, "a": 0})),
        ("a c\r1 2\r", (" ", 2, {"c": 1, "a": 0})),
        ('"a","x, y","c"\n', (",", 3, {"c": 2, "a": 0})),
        ("\n\r\na,c\n", (",", 2, {"c": 1, "a": 0})),
        ("a,b,b,c\n", (",", 4, {"c": 3, "a": 0})),
    ],
)
def test_headers(tmp_path, text, found):
    assert layout(tmp_path, text, ["c", "a"])[:3] == found


@pytest.mark.parametrize(
    ("text", "blank"),
    [
        ("a,c\n\n", 0),
        ("\na,c\n", 1),
        ("\r\n\n\r\na,c\n", 3),
        ("\ufeff\na,c\n", 1),
        ("\r\ra,c\r1,2\r", 2),
        ("\ufeff\ra,c\r1,2\r", 1),
    ],
)
def test_blank_lines_before_the_first_are_counted(tmp_path, text, blank):
    assert layout(tmp_path, text, ["c", "a"]) == (",", 2, {"c": 1, "a": 0}, blank + 1)


def test_compressed_and_tabbed(tmp_path):
    assert layout(tmp_path, "a,c\n", ["c", "a"], name="t.csv.gz") == (",", 2, {"c": 1, "a": 0}, 1)
    assert layout(tmp_path, "a,x\tc\n", ["c"], name="t.tsv") == ("\t", 2, {"c": 1}, 1)


def test_without_header_the_number_of_fields_tells(tmp_path):
    assert layout(tmp_path, "\n1, 2, 3\n", ["x", "y", "z"], header=False) == (
        ",",
        3,
        {"x": 0, "y": 1, "z": 2},
        1,
    )
    assert layout(tmp_path, "1,5;2,5\n", ["x", "y"], header=False)[0] == ";"
    assert layout(tmp_path, "1 2 3\n", ["x", "y", "z"], header=False)[0] == " "
    assert layout(tmp_path, "7\n", ["x"], header=False)[0] == ","


@pytest.mark.parametrize(
    ("text", "names", "header", "message"),
    [
        ("a,b\n", ["a", "c"], True, "no column named 'c', and needs one: correct the name in the domain"),
        ("a,b,a\n", ["b", "a"], True, "'a'"),
        ("1,2\n", ["x", "y", "z"], False, "2 columns where the domain has 3 attributes: without a header"),
        ("", ["a"], True, r"t\.csv"),
        ("\n\n", ["a"], True, r"t\.csv"),
    ],
)
def test_what_does_not_fit(tmp_path, text, names, header, message):
    with pytest.raises(ValueError, match=message):
        layout(tmp_path, text, names, header)


def test_no_record_is_quoted(tmp_path):
    with pytest.raises(ValueError) as caught:
        layout(tmp_path, "Zaphod,42\n", ["name", "age"])
    assert "Zaphod" not in str(caught.value) and "header=False" in str(caught.value)


def test_no_gzip(tmp_path):
    (tmp_path / "t.csv.gz").write_bytes(b"a,b\n")
    with pytest.raises(ValueError, match="gzip-compressed"):
        find_columns(TextFile(tmp_path / "t.csv.gz", ".csv"), ["a"], True)


def test_a_broken_quote_or_other_alphabet_is_no_crash(tmp_path):
    with pytest.raises(ValueError, match="no column named 'a'"):
        layout(tmp_path, '"a,b\n', ["a", "b"])
    with pytest.raises(ValueError, match=r"line 1.*UTF-8.*cp1252"):
        layout(tmp_path, "a,é\n".encode("latin-1"), ["a"])
