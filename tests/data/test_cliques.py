import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmjax.data.domain import (
    Domain,
    all_subsets,
    as_clique,
    first_holding,
    in_order,
    marginal_of,
    maximal,
    same_attributes,
)

DOMAIN = Domain({"age": 3, "sex": 2, "income": 4})


def test_order_is_kept():
    assert as_clique(DOMAIN, ["sex", "age"]) == ("sex", "age")
    assert as_clique(DOMAIN, ("age",)) == ("age",)


@pytest.mark.parametrize(
    ("attributes", "kind", "message"),
    [
        ("age", TypeError, r"got the text 'age': write \('age',\)"),
        ((), ValueError, "at least one attribute, got an empty one"),
        (("age", "height"), ValueError, "'height'"),
        (("age", "sex", "age"), ValueError, "names an attribute twice"),
        (("age", 1), TypeError, "must hold attribute names, got int"),
        (3, TypeError, "must be a tuple of attribute names, got int"),
        ({"age", "sex"}, TypeError, "must be a tuple of attribute names, got set"),
    ],
)
def test_bad_cliques_are_refused(attributes, kind, message):
    with pytest.raises(kind, match=message):
        as_clique(DOMAIN, attributes)


def test_same_attributes():
    assert same_attributes(("a", "b"), ["b", "a"])
    assert not same_attributes(("a",), ("a", "b"))


def test_maximal_keeps_first_of_equals_and_order():
    cliques = [("c",), ("a",), ("b", "a"), ("a", "b"), ("c", "d"), ("e",)]
    assert maximal(cliques) == [("b", "a"), ("c", "d"), ("e",)]
    assert maximal([]) == []


@given(
    st.lists(st.lists(st.sampled_from("abcde"), min_size=1, max_size=4, unique=True).map(tuple), max_size=12)
)
def test_maximal_against_its_definition(cliques):
    kept = maximal(cliques)
    assert all(any(set(clique) <= set(other) for other in kept) for clique in cliques)
    assert not any(set(a) <= set(b) for a in kept for b in kept if a is not b)
    assert [clique for clique in cliques if clique in kept][:1] == kept[:1]


@pytest.mark.parametrize("part", [("income",), ("income", "age"), ("sex", "age", "income")])
def test_a_table_is_summed_to_its_part_in_the_order_asked_for(part):
    table = np.arange(24.0).reshape(3, 2, 4)
    letters = dict(zip(DOMAIN, "abc", strict=True))
    wanted = np.einsum("abc->" + "".join(letters[name] for name in part), table)
    assert (marginal_of(DOMAIN.attributes, table, part) == wanted).all()


@given(st.lists(st.sampled_from("abcde"), unique=True, max_size=5))
def test_subsets_are_all_of_them_once_and_keep_their_order(names):
    found = all_subsets(tuple(names))
    assert len(found) == len({frozenset(some) for some in found}) == 2 ** len(names)
    assert all(some == in_order(names, set(some)) for some in found)
    assert sorted(found, key=len) == found


def test_the_first_clique_that_holds_attributes():
    cliques = [("a", "b"), ("c", "b", "a"), ("a", "b", "c", "d")]
    assert [first_holding(cliques, wanted) for wanted in (("b",), ("a", "c"), "db", ("e",))] == [
        0,
        1,
        2,
        None,
    ]
