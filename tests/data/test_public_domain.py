import pandas
import polars
import pyarrow
import pytest

from pgmjax.data.domain import Domain

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
@pytest.mark.parametrize(
    ("frame", "arguments", "message"),
    [
        ({"a": [None, None]}, {}, "'a' holds no value: say its domain by hand"),
        (
            {"a": list(range(200))},
            {},
            "'a' has more than 100 distinct values: give it bins or raise max_labels",
        ),
        ({"a": ["x"]}, {"bins": {"a": 3}}, "'a' does not hold numbers only, so it cannot have bins"),
        ({"a": [1]}, {"bins": {"b": 3}}, r"bins names \['b'\], which are not columns"),
        ({"a": [1, 2]}, {"bins": 0}, "number of bins of column 'a' must be an integer >= 1, got 0"),
        ({1: [1, 2]}, {}, "must have names that are strings, each once"),
        (pandas.DataFrame([[1, 2]], columns=["a", "a"]), {}, "must have names that are strings, each once"),
    ],
)
def test_what_cannot_be_inferred(frame, arguments, message):
    with pytest.raises(ValueError, match=message):
        Domain.from_public_data(frame, **arguments)
