import pytest

from pgmjax import queries as q


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
    assert q.from_spec(spec) == block


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
        q.from_spec(spec)
