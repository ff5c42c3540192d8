"""Bit-for-bit comparison of two results in everything visible to a reader.

`parts_of` decomposes a value by its type and never calls the value's own `==`, `__array__` or a subclass's
iterator. Tables and arrays of other libraries are decomposed without importing these libraries.
"""

from __future__ import annotations

import array
import collections
import dataclasses
import datetime
import decimal
import enum
import functools
import inspect
import os
import pathlib
import re
import reprlib
import struct
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

BY_IDENTITY = (enum.Enum, type, types.BuiltinFunctionType, types.ModuleType, types.CodeType)
"""Types whose values are equal only if they are the same object."""

_BY_STATEMENT = 1 << 9  # the flag of classes that are made when a program runs

_NOTHING = object()

Part = tuple[str, Any]


def differences(first: Any, second: Any, name: str = "result") -> list[str]:
    """Return the names of the parts in which two results differ, arrays and floats bit for bit.

    Looks into dataclasses, attributes, slots, mappings (their keys in order, with their types), sequences,
    sets, arrays of NumPy and JAX, tables of pandas, Arrow and Polars, and functions; never uses the `==` of
    these objects. Values cached by `functools.cached_property` are ignored. Classes and enumeration members
    are equal only if they are the same object.

    Args:
        first: a result.
        second: the other result.
        name: name of the result in the names of its parts.

    Raises:
        TypeError: the contents of a part cannot be inspected, such as those of a generator.

    Example:
        >>> differences({"a": [1, 2.0]}, {"a": [1, -2.0]})
        ["result['a'][1]"]
        >>> differences({1: "a"}, {True: "a"})
        ['result (keys)']
    """
    return _walk(name, first, second, {})


def _walk(name: str, first: Any, second: Any, seen: dict[tuple[int, int], Any]) -> list[str]:
    """Compare iteratively; `seen` keeps visited pairs alive, so that cycles end and no id is reused."""
    found = []
    waiting = [(name, first, second)]
    while waiting:
        part, left, right = waiting.pop()
        if left is right or (id(left), id(right)) in seen:
            continue
        seen[id(left), id(right)] = left, right
        if type(left) is not type(right):
            found.append(f"{part} (type)")
            continue
        if isinstance(left, BY_IDENTITY):
            found.append(part)
            continue
        mine, other = parts_of(left), parts_of(right)
        outside = [
            part + label
            for (label, a), (_, b) in zip(mine.frame, other.frame, strict=True)
            if _walk("", a, b, seen)
        ]
        if outside:
            found.append(outside[0])
        elif mine.mark != other.mark or len(mine.inside) != len(other.inside):
            found.append(part)
        else:
            pairs = zip(reversed(mine.inside), reversed(other.inside), strict=True)
            waiting += [(part + label, a, b) for (label, a), (_, b) in pairs]
    return found


@dataclasses.dataclass(frozen=True)
class Parts:
    """The parts of a value, by name.

    Attributes:
        inside: each part with the suffix of its name.
        frame: parts that must agree before those inside can be compared one by one, such as shapes.
        mark: indivisible content, compared directly.
    """

    inside: tuple[Part, ...] = ()
    frame: tuple[Part, ...] = ()
    mark: str | bytes = ""

    def __add__(self, more: Parts) -> Parts:
        return Parts(self.inside + more.inside, self.frame + more.frame, self.mark or more.mark)


def parts_of(value: Any) -> Parts:
    """Return the parts of a value.

    Raises:
        TypeError: its contents cannot be inspected, as for generators and most classes written in C.
    """
    for base in type(value).__mro__:
        library = LIBRARIES.get(base.__module__.partition(".")[0])
        found = None if library is None else library(value)
        if found is not None:
            return found
    for kinds, take in _KINDS:
        if isinstance(value, kinds):
            return take(value) if type(value) in _WHOLE else take(value) + _attributes(value)
    if not all(map(_in_sight, type(value).__mro__)) or not _has_attributes(value):
        raise TypeError(
            f"A result holds a {type(value).__module__}.{type(value).__qualname__}, which shows nothing of "
            "what is in it, so that two runs cannot be compared: return arrays, numbers, texts, lists, dicts "
            "or dataclasses of these."
        )
    return _attributes(value)


def _in_sight(base: type) -> bool:
    """Return whether a class stores its state only in attributes, as those made by a class statement do."""
    made = bool(base.__flags__ & _BY_STATEMENT)
    return base is object or (made and not isinstance(vars(base).get("__new__"), types.BuiltinFunctionType))


def _has_attributes(value: Any) -> bool:
    return hasattr(value, "__dict__") or any("__slots__" in vars(base) for base in type(value).__mro__)


def _attributes(value: Any) -> Parts:
    """Return fields, `__dict__` and slots, without values cached by `cached_property`."""
    kept = getattr(value, "__dict__", {})
    inside = []
    for name in dict.fromkeys(_names(value)):
        if isinstance(inspect.getattr_static(type(value), name, None), functools.cached_property):
            continue
        held = kept[name] if name in kept else getattr(value, name, _NOTHING)
        if held is not _NOTHING:
            inside.append((f".{name}", held))
    return Parts(tuple(inside), ((" (attributes)", tuple(name for name, _ in inside)),))


def _names(value: Any) -> Iterator[str]:
    if dataclasses.is_dataclass(value):
        yield from (field.name for field in dataclasses.fields(value))
    for base in type(value).__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__"):
                hidden = name.startswith("__") and not name.endswith("__")
                yield f"_{base.__name__.lstrip('_')}{name}" if hidden else name
    yield from getattr(value, "__dict__", ())


def _function(value: Any) -> Parts:
    cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
    inside = [(f".{name}", cell) for name, cell in cells]
    defaults = [(".__defaults__", value.__defaults__), (".__kwdefaults__", value.__kwdefaults__)]
    return Parts((*inside, *defaults, (".__dict__", vars(value))), ((" (code)", value.__code__),))


def _cell(value: Any) -> Parts:
    try:
        return Parts((("", value.cell_contents),))
    except ValueError:  # a variable without a value yet
        return Parts()


def _mapping(items: Iterable[tuple[Any, Any]]) -> Parts:
    items = list(items)
    inside = tuple((f"[{reprlib.repr(key)}]", value) for key, value in items)
    return Parts(inside, ((" (keys)", [key for key, _ in items]),))


def _sequence(items: Iterable[Any]) -> Parts:
    return Parts(tuple((f"[{i}]", item) for i, item in enumerate(items)))


def _set(items: Iterable[Any]) -> Parts:
    return _sequence(sorted(items, key=lambda item: (type(item).__qualname__, repr(item))))


def _array(value: Any) -> Parts:
    plain = np.ndarray.view(value, np.ndarray) if isinstance(value, np.ndarray) else np.asarray(value)
    frame = ((" (dtype)", plain.dtype), (" (shape)", plain.shape))
    if plain.dtype.hasobject:
        return _sequence(plain.ravel().tolist()) + Parts(frame=frame)
    return Parts(frame=frame, mark=plain.tobytes())


_KINDS: tuple[tuple[Any, Callable[[Any], Parts]], ...] = (
    # the first that fits; subclasses of these add their attributes
    (types.FunctionType, _function),
    (types.MethodType, lambda value: _sequence((value.__func__, value.__self__))),
    (functools.partial, lambda value: _sequence((value.func, value.args, value.keywords))),
    (types.CellType, _cell),
    ((np.ndarray, np.generic), _array),
    (np.dtype, lambda value: Parts(((".metadata", value.metadata),), mark=repr(value))),
    (int, lambda value: Parts(mark=hex(int.__pos__(value)))),
    (float, lambda value: Parts(mark=struct.pack("<d", float.__pos__(value)))),
    (
        complex,
        lambda value: Parts(
            mark=struct.pack("<dd", complex.__pos__(value).real, complex.__pos__(value).imag)
        ),
    ),
    (str, lambda value: Parts(mark=str.__str__(value))),
    ((bytes, bytearray), lambda value: Parts(mark=bytes(memoryview(value)))),
    (
        array.array,
        lambda value: Parts(frame=((" (type)", value.typecode),), mark=bytes(memoryview(value).cast("B"))),
    ),
    (decimal.Decimal, lambda value: Parts(mark=decimal.Decimal.__repr__(value))),
    (
        (datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo),
        lambda value: Parts(mark=repr(value)),
    ),
    (re.Pattern, lambda value: _sequence((value.pattern, value.flags))),
    (pathlib.PurePath, lambda value: Parts(mark=os.fspath(value))),
    ((range, slice), lambda value: _sequence((value.start, value.stop, value.step))),
    (
        collections.defaultdict,
        lambda value: _mapping(dict.items(value)) + Parts(((".default_factory", value.default_factory),)),
    ),
    (collections.OrderedDict, lambda value: _mapping(collections.OrderedDict.items(value))),
    (dict, lambda value: _mapping(dict.items(value))),
    (types.MappingProxyType, lambda value: _mapping(value.items())),
    ((type({}.keys()), type({}.values()), type({}.items())), _sequence),
    (list, lambda value: _sequence(list.__iter__(value))),
    (tuple, lambda value: _sequence(tuple.__iter__(value))),
    (set, lambda value: _set(set.__iter__(value))),
    (frozenset, lambda value: _set(frozenset.__iter__(value))),
    (
        collections.deque,
        lambda value: (
            _sequence(collections.deque.__iter__(value)) + Parts(frame=((" (maxlen)", value.maxlen),))
        ),
    ),
    (BaseException, lambda value: Parts(((".args", value.args),))),
    (types.SimpleNamespace, lambda value: Parts()),
)


_WHOLE = {kind for given, _ in _KINDS[:-2] for kind in (given if isinstance(given, tuple) else (given,))}


def _jax(value: Any) -> Parts | None:
    jax = sys.modules.get("jax")
    if jax is None or not isinstance(value, jax.Array):
        return None
    frame = ((" (dtype)", str(value.dtype)),)
    keys = jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)
    return Parts((("", np.asarray(jax.random.key_data(value) if keys else value)),), frame)


def _pandas(value: Any) -> Parts | None:
    pandas: Any = sys.modules["pandas"]
    if isinstance(value, pandas.DataFrame):
        columns = tuple((f"[{name!r}]", value.iloc[:, i].array) for i, name in enumerate(value.columns))
        frame = ((" (columns)", value.columns), (" (index)", value.index))
        return Parts((*columns, (".attrs", value.attrs)), frame)
    if isinstance(value, pandas.Series):
        frame = ((" (name)", value.name), (" (index)", value.index))
        return Parts((("", value.array), (".attrs", value.attrs)), frame)
    if isinstance(value, pandas.Index | pandas.api.extensions.ExtensionArray):
        names = list(value.names) if isinstance(value, pandas.Index) else None
        plain = np.asarray(value) if isinstance(value.dtype, np.dtype) else value.tolist()
        return Parts((("", plain),), ((" (names)", names), (" (dtype)", str(value.dtype))))
    if isinstance(value, pandas.Period | pandas.Interval):
        return Parts(mark=repr(value))
    return None


def _arrow(value: Any) -> Parts | None:
    arrow: Any = sys.modules["pyarrow"]
    if isinstance(value, arrow.Table | arrow.RecordBatch):
        columns = zip(value.schema.names, value.columns, strict=True)
        parts = tuple((f"[{name!r}]", column) for name, column in columns)
        return Parts(parts, ((" (schema)", value.schema),))
    if isinstance(value, arrow.Array | arrow.ChunkedArray):
        return Parts((("", value.to_pylist()),), ((" (type)", value.type),))
    if isinstance(value, arrow.Scalar):
        return Parts((("", value.as_py()),), ((" (type)", value.type),))
    if isinstance(value, arrow.Field | arrow.DataType):
        field = value if isinstance(value, arrow.Field) else arrow.field("", value)
        return Parts(mark=arrow.schema([field]).serialize().to_pybytes())
    if isinstance(value, arrow.Schema):
        return Parts(mark=value.serialize().to_pybytes())
    return None


def _polars(value: Any) -> Parts | None:
    if not hasattr(value, "to_arrow"):
        return None
    return Parts((("", value.to_arrow()),), ((" (name)", getattr(value, "name", None)),))


LIBRARIES: dict[str, Callable[[Any], Parts | None]] = {
    "jax": _jax,
    "jaxlib": _jax,
    "pandas": _pandas,
    "polars": _polars,
    "pyarrow": _arrow,
}
"""Decomposition functions by top-level module name; they return None for types they do not handle."""
