import numpy as np
import pytest

from pgmjax import queries as q
from pgmjax.queries.spec import from_spec, row_names


@pytest.mark.parametrize(
    ("spec", "block"),
    [
        ("prefix", q.prefix()),
        ({"range": [2, 5]}, q.range(2, 5)),
        ({"moments": 2}, q.moments(2)),
        ({"moments": {"order": 2, "values": [1, 2]}}, q.moments(2, [1, 2])),
        ("mean", q.mean()),
        ({"mean": [0.5, 1]}, q.mean([0.5, 1])),
        (q.total(), q.total()),
    ],
)
def test_forms(spec, block):
    assert from_spec(spec) == block


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ("prefx", ValueError, "unknown query 'prefx'; the known ones are identity, total, prefix"),
        ("range", ValueError, "'range' needs arguments: write {'range': ...}"),
        ({"prefix": 1}, ValueError, "unknown query with arguments 'prefix'"),
        ({"range": 1}, ValueError, "written .*low, high"),
        ({"range": [1, 2], "point": 1}, ValueError, "one entry, its kind, got 2"),
        ({"moments": {"values": [1]}}, ValueError, "keys 'order' and 'values', got \\['values'\\]"),
        ({"moments": {"order": 1, "power": 2}}, ValueError, "got \\['order', 'power'\\]"),
        (3, TypeError, "a query is a word or a mapping.*got int"),
    ],
)
def test_bad_input(spec, error, message):
    with pytest.raises(error, match=message):
        from_spec(spec)


@pytest.mark.parametrize(
    "block",
    [
        q.identity(),
        q.point(2),
        q.subset([0, 3]),
        q.range(1, 3),
        q.ranges([(0, 1), (2, 2), (1, 4)]),
        q.all_ranges(),
        q.prefix(),
        q.compression([1, 0, 1, 2, 2]),
    ],
    ids=lambda block: block.kind,
)
def test_the_name_of_a_row_is_what_its_matrix_counts(block):
    found = np.zeros((block.rows(5), 5), int)
    for row, name in enumerate(row_names(block, list("abcde"))):
        codes = ["abcde".index(letter) for letter in name.replace(" to ", "|").split("|")]
        found[row, range(codes[0], codes[1] + 1) if " to " in name else codes] = 1
    assert (found == block.matrix(5)).all()


@pytest.mark.parametrize("block", [q.total(), q.mean(), q.moments(2), q.matrix(np.eye(5))])
def test_rows_that_count_all_or_have_weights_have_no_name(block):
    assert row_names(block, list("abcde")) == [None] * block.rows(5)


def test_a_group_of_no_codes_has_no_name():
    assert row_names(q.compression([0, 2, 2]), list("abc")) == ["a", None, "b|c"]
