import pickle

import numpy as np
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
        (["age"], TypeError, "must be a mapping from attribute name to size, got list"),
        ({"a": 0}, ValueError, "size of attribute 'a' must be an integer >= 1, got 0"),
        ({"a": -1}, ValueError, "got -1"),
        ({"a": True}, TypeError, "must be an integer, got bool"),
        ({"a": 2.0}, TypeError, "must be an integer, got float"),
        ({"a": None}, TypeError, "must be an integer, got NoneType"),
        ({"": 2}, ValueError, "name must not be empty"),
        ({1: 2}, TypeError, "name must be a string, got int"),
    ],
)
def test_bad_domains_are_refused(spec, kind, message):
    with pytest.raises(kind, match=message):
        Domain(spec)


def test_unknown_attribute():
    domain = Domain({f"a{k}": 2 for k in range(20)})
    with pytest.raises(
        ValueError, match=r"'b' is not an attribute of the domain; there are a0, a1, .*, a11 and 8 more"
    ):
        domain["b"]
    with pytest.raises(ValueError, match="'b' is not an attribute"):
        domain.decode({"b": [0]})
    with pytest.raises(ValueError, match="'b', which is not an attribute"):
        domain.project(("b",))


def test_numpy_sizes_become_ints():
    assert type(Domain({"a": np.int64(3)})["a"]) is int


def test_decode():
    domain = Domain({"a": {"labels": ["x", "y"]}, "b": 3})
    decoded = domain.decode({"b": [2, 0], "a": np.array([1, 0])})
    assert {name: column.tolist() for name, column in decoded.items()} == {"b": [2, 0], "a": ["y", "x"]}


names = st.text(min_size=1, max_size=6)
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
