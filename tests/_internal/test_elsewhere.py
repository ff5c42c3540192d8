"""Names of mbi raise errors that say what is written here; nothing else about the classes changes."""

import copy
import functools
import inspect
import pickle

import numpy as np
import pytest

import pgmjax as pj
from pgmjax._internal import elsewhere

DOMAIN = pj.Domain({"a": 2, "b": 3})
NOISY = pj.LinearMeasurement(("a", "b"), np.ones((2, 3)), 1.0)


@functools.cache
def objects():
    fit = pj.Estimator(max_steps=5, progress=False).fit(DOMAIN, [NOISY], total=6)
    quick = {"max_steps": 5, "progress": False}
    return {
        "Domain": DOMAIN,
        "Dataset": pj.Dataset.from_columns(DOMAIN, {"a": [0, 1], "b": [2, 2]}),
        "LinearMeasurement": NOISY,
        "Estimator": pj.Estimator(),
        "Fit": fit,
        "GraphicalModel": fit.model,
        "MixtureModel": pj.estimation.fit_mixture(DOMAIN, [NOISY], 6, components=2, **quick).model,
        "RegionModel": pj.estimation.fit_local(DOMAIN, [NOISY], 6, **quick).model,
        "pgmjax": pj,
    }


PAIRS = [(owner, name) for owner, names in elsewhere.ATTRIBUTES.items() for name in names]


@pytest.mark.parametrize(("owner", "name"), PAIRS)
def test_an_attribute_of_mbi_says_what_it_is_called_here(owner, name):
    found = objects()[owner]
    said = elsewhere.ATTRIBUTES[owner][name]
    with pytest.raises(AttributeError) as caught:
        getattr(found, name)
    assert said in str(caught.value) and repr(name) in str(caught.value)
    assert not hasattr(found, name) and name not in dir(found) and name not in dir(type(found))
    assert getattr(found, name, None) is None


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda: pj.Domain.fromdict({"a": 2}), r"Domain\({name: size}\)"),
        (lambda: pj.Dataset.load("t.csv", "d.json"), r"Dataset\.read\(path, domain\)"),
        (lambda: pj.Dataset.synthetic(DOMAIN, 5), "never made up"),
    ],
)
def test_methods_of_classes_too(act, said):
    with pytest.raises(AttributeError, match=said):
        act()


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda: pj.Estimator(iters=100), "Estimator takes no 'iters': here it is max_steps"),
        (
            lambda: pj.Estimator().fit(DOMAIN, [NOISY], iters=5),
            "fit takes no 'iters': here it is max_steps",
        ),
        (lambda: pj.Estimator().fit(DOMAIN, [NOISY], known_total=6), "here it is total"),
        (lambda: pj.Estimator().fit(DOMAIN, [NOISY], callback_fn=print), "here it is callback"),
        (
            lambda: pj.LinearMeasurement(clique=("a",), noisy_measurement=[1, 2], stddev=1.0),
            "here it is values",
        ),
        (lambda: pj.LinearMeasurement(("a",), [1, 2], scale=1.0), "times the square root of 2"),
        (lambda: pj.Domain(["a", "b"], [2, 3]), r"Domain\(dict\(zip\(attributes, shape\)\)\); got 2"),
        (lambda: pj.Domain(attrs=["a"], shape=[2]), "one mapping"),
        (lambda: objects()["GraphicalModel"].sample(n=5), "sample takes no 'n': here it is rows"),
    ],
)
def test_a_keyword_of_mbi_says_what_it_is_called_here(act, said):
    with pytest.raises(TypeError, match=said):
        act()


def test_what_the_messages_name_is_there():
    """The first word of a remedy is a name that the object, its class or the top has."""
    owners = {name: type(found) for name, found in objects().items() if name != "pgmjax"}
    for owner, names in elsewhere.ATTRIBUTES.items():
        for said in names.values():
            word = said.replace("(", ".").replace(",", ".").replace(" ", ".").split(".")[0]
            places = [pj] if owner == "pgmjax" else [owners[owner], objects()[owner], pj]
            free = ("the", "set", "a", "an")
            assert word in free or any(hasattr(place, word) for place in places), (owner, said)
    for owner, names in elsewhere.KEYWORDS.items():
        first = {said.split(",")[0].split(" ")[0] for said in names.values()} - {"one", "nothing:"}
        known = {*inspect.signature(pj.Estimator).parameters, *inspect.signature(pj.Estimator.fit).parameters}
        known |= {*inspect.signature(pj.LinearMeasurement).parameters, "rows"}
        assert first <= known, (owner, first - known)


def test_all_else_stays_as_it_was():
    for name, found in objects().items():
        with pytest.raises(AttributeError, match="no_such_thing"):
            found.no_such_thing  # noqa: B018
        if name not in ("pgmjax",):
            assert copy.copy(found) is not None and type(found).__name__ == name
    again = pickle.loads(pickle.dumps(DOMAIN))
    assert again == DOMAIN and hash(again) == hash(DOMAIN)
    assert list(inspect.signature(pj.Domain).parameters) == ["spec"]
    assert "max_steps" in inspect.signature(pj.Estimator).parameters
    with pytest.raises(TypeError, match="unexpected keyword argument 'nope'"):
        pj.Estimator(nope=1)
    with pytest.raises(AttributeError, match="type object 'Domain' has no attribute 'nope'"):
        pj.Domain.nope  # noqa: B018


def test_an_error_inside_a_property_is_told_as_it_is():
    @elsewhere.told
    class Domain:
        @property
        def shape(self):
            return [].nothing

    with pytest.raises(AttributeError, match="'list' object has no attribute 'nothing'"):
        Domain().shape  # noqa: B018
