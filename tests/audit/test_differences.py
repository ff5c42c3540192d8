"""Comparison of results: what a reader could tell apart differs, and nothing else does."""

import collections
import dataclasses
import decimal
import enum
import fractions
import functools
import pathlib
import types

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse

from pgmjax import mechanisms
from pgmjax.audit.compare import differences
from pgmjax.audit.mechanism import DOMAIN, WORKLOAD, AuditCase, neighbours
from pgmjax.data.domain import Domain
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.queries import marginal


class Plain:
    def __init__(self, value):
        self.value = value


class Agreeable(Plain):
    __hash__ = None

    def __eq__(self, other):
        return True


class Slotted:
    __slots__ = ("__hidden", "value")

    def __init__(self, value, hidden):
        self.value, self.__hidden = value, hidden


class Kept:
    @functools.cached_property
    def later(self):
        return object()


class Noted(dict):
    pass


class NotedFloat(float):
    pass


class NotedArray(np.ndarray):
    pass


@dataclasses.dataclass
class Record:
    a: int

    def __array__(self, dtype=None, copy=None):
        return np.zeros(1)


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


def noted(value, note):
    value.note = note
    return value


def moved(mapping):
    mapping.move_to_end("a")
    return mapping


def shown(value):
    return lambda: value


def frame(**more):
    columns = {
        "x": pd.Categorical(["a", "b"]),
        "t": pd.to_datetime(["2020-01-01", None]),
        "i": pd.array([1, None], dtype="Int64"),
        "p": pd.period_range("2020", periods=2),
    }
    return pd.DataFrame(columns, **more)


def loop(value):
    inside = [value]
    inside.append(inside)
    return inside


DIFFERENT = {
    "mask": (np.ma.array([1, 2], mask=[0, 1]), np.ma.array([1, 2], mask=[0, 0])),
    "number behind a mask": (np.ma.array([1, 2], mask=[0, 1]), np.ma.array([1, 3], mask=[0, 1])),
    "column names": (pd.DataFrame({"a": [1]}), pd.DataFrame({"b": [1]})),
    "column type": (pd.DataFrame({"a": [1]}), pd.DataFrame({"a": [1.0]})),
    "table's index": (frame(), frame(index=[1, 2])),
    "index": (pd.Series([1], index=[3]), pd.Series([1], index=[4])),
    "name of an index": (pd.Index([1], name="a"), pd.Index([1], name="b")),
    "Arrow table": (pa.table({"a": [1, None]}), pa.table({"a": [1, 2]})),
    "Arrow schema": (pa.schema({"a": pa.int8()}), pa.schema({"a": pa.int16()})),
    "Arrow metadata": (
        pa.table({"a": [1]}),
        pa.table({"a": [1]}).replace_schema_metadata({"n": "741"}),
    ),
    "own __array__": (Record(1), Record(2)),
    "no field": (Record(1), noted(Record(1), 3)),
    "attribute of a dict": (Noted(a=1), noted(Noted(a=1), 1)),
    "attribute of a float": (noted(NotedFloat(1), 1), noted(NotedFloat(1), 2)),
    "attribute of an array": (
        noted(np.zeros(1).view(NotedArray), 1),
        noted(np.zeros(1).view(NotedArray), 2),
    ),
    "attribute of an error": (ValueError("a"), noted(ValueError("a"), 1)),
    "hidden slot": (Slotted(1, 2), Slotted(1, 3)),
    "keys' types": ({1: 0}, {True: 0}),
    "keys' signs": ({0.0: 0}, {-0.0: 0}),
    "keys' order": (types.MappingProxyType({1: 0, 2: 0}), types.MappingProxyType({2: 0, 1: 0})),
    "moved keys": (collections.OrderedDict(a=1, b=1), moved(collections.OrderedDict(a=1, b=1))),
    "default": (collections.defaultdict(int), collections.defaultdict(list)),
    "counted zero": (collections.Counter(a=0), collections.Counter()),
    "set": ({1}, {1.0}),
    "set of tuples": (frozenset([(0.0,)]), frozenset([(-0.0,)])),
    "own __eq__": (Agreeable(1), Agreeable(2)),
    "exponent": (decimal.Decimal("1.0"), decimal.Decimal("1.00")),
    "sign of zero": (complex(0, 0.0), complex(0, -0.0)),
    "longest": (collections.deque([1], maxlen=2), collections.deque([1], maxlen=3)),
    "object array": (np.array([0.0, None], dtype=object), np.array([-0.0, None], dtype=object)),
    "NumPy scalar": (np.float64(0.0), np.float64(-0.0)),
    "fraction": (fractions.Fraction(1, 3), fractions.Fraction(2, 3)),
    "member": (Colour.RED, Colour.BLUE),
    "closure": (shown(1), shown(2)),
    "method": (Plain(1).__init__, Plain(2).__init__),
    "partial": (functools.partial(print, 1), functools.partial(print, 2)),
    "JAX array": (jnp.zeros(2), jnp.zeros(2).at[0].set(-0.0)),
    "JAX key": (jax.random.key(0), jax.random.key(1)),
    "sparse": (scipy.sparse.eye_array(2), 2 * scipy.sparse.eye_array(2)),
    "path": (pathlib.Path("a"), pathlib.Path("b")),
    "large integer": (10**5000, 10**5000 + 1),
    "cycle": (loop(1), loop(2)),
    "class": (int, float),
}

SAME = {
    "plain object": lambda: Plain([1, {"a": 2.0}]),
    "slots": lambda: Slotted(1, 2),
    "object array": lambda: np.array([10**20, "a"], dtype=object),
    "texts": lambda: np.array(["a"]),
    "table": frame,
    "table of texts": lambda: pd.DataFrame({"a": ["xyz" + str(1)]}),
    "Arrow table": lambda: pa.table({"a": [1, 2.5, None], "b": ["x", None, "z"]}),
    "sparse": lambda: scipy.sparse.eye_array(2),
    "values": lambda: {1: 2}.values(),
    "not a number": lambda: [decimal.Decimal("nan"), float("nan"), np.float32("nan"), complex("nan")],
    "JAX key": lambda: jax.random.key(0),
    "JAX array": lambda: jnp.arange(3),
    "closure": lambda: shown([1]),
    "class": lambda: Record,
    "cycle": lambda: loop(1),
    "namespace": lambda: types.SimpleNamespace(a=1),
    "fraction": lambda: fractions.Fraction(1, 3),
    "set": lambda: {"b", "a", (1, 2)},
    "masked": lambda: np.ma.array([1, 2], mask=[0, 1]),
    "error": lambda: ValueError("a", 1),
}


@pytest.mark.parametrize("first, second", DIFFERENT.values(), ids=DIFFERENT)
def test_what_a_reader_can_tell_apart_differs(first, second):
    assert len(differences(first, second)) == 1
    assert len(differences([first], [second])) == 1
    assert differences(first, first) == []


@pytest.mark.parametrize("build", SAME.values(), ids=SAME)
def test_what_is_made_twice_is_the_same(build):
    assert differences(build(), build()) == []


def test_parts_are_named():
    first = {"a": [1, Plain(np.zeros(2))], "b": 1}
    second = {"a": [1, Plain(np.ones(2))], "b": 1.0}
    assert differences(first, second) == ["result['a'][1].value", "result['b'] (type)"]
    assert differences({"a": 1}, {"b": 1}, "release") == ["release (keys)"]


def test_what_is_only_kept_for_later_may_differ():
    first, second = Kept(), Kept()
    assert first.later is not second.later
    assert differences(first, second) == differences(first, Kept()) == []


def test_what_a_query_or_a_measurement_was_asked_before_is_no_difference():
    def made():
        return LinearMeasurement(("a",), [4, 6], 1.0, marginal(("a",)))

    domain, first, second = Domain({"a": 2}), made(), made()
    first.query.remembered("key", domain, lambda: 1)
    assert first.over(domain) is first and differences([first], [second]) == []


@pytest.mark.parametrize("build", [lambda: iter([1]), lambda: (i for i in [1]), object, lambda: zip([1])])
def test_what_is_out_of_sight_is_refused(build):
    with pytest.raises(TypeError, match=r"result.*arrays"):
        differences([build()], [build()])


def test_deep_nesting_is_no_problem():
    first, second = 0, 1
    for _ in range(5000):
        first, second = [first], [second]
    assert len(differences(first, second)) == 1


def test_equal_releases_do_not_differ():
    case = AuditCase(mechanisms.Marginals, "add-remove")
    data = next(iter(neighbours(DOMAIN, "add-remove")))[0]
    first, second = (case.make().run(data, WORKLOAD) for _ in range(2))
    assert differences(first, second) == []
