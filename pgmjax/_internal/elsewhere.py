"""Names that users of other libraries know, and what is written here instead: errors that help, no aliases.

A class or method decorated with `told` raises the usual `AttributeError` or `TypeError` for a name in the
tables below, with what it is called here. Nothing is added: `dir`, `hasattr` and type checkers see no such
name.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

_T = TypeVar("_T", bound=Callable[..., Any])

_COUNTS = "marginals([clique]), exact and private: a model of noisy answers has marginal(clique)"
_MODEL = {
    "project": "marginal(clique): an array of counts",
    "datavector": "marginal(clique).reshape(-1)",
    "synthetic_data": "sample(rows, seed, method='round' or 'multinomial')",
    "krondot": "answer(query), with a query of pgmjax.queries",
    "calculate_many_marginals": "calibrate().marginals(cliques)",
    "supports": "set(clique) <= set(model.domain)",
    "cliques": "potentials.cliques",
}
ATTRIBUTES: Mapping[str, Mapping[str, str]] = {
    "Domain": {
        "fromdict": "Domain({name: size})",
        "config": "sizes",
        "attrs": "attributes",
        "axes": "attributes.index(name)",
        "marginalize": "project of the other attributes",
        "invert": "the names in attributes that are not in the clique",
        "canonical": "the names in attributes that are in the clique",
        "supports": "set(clique) <= set(domain)",
        "contains": "set(other) <= set(domain)",
        "intersect": "project of the attributes of both",
        "merge": "Domain({**one.to_dict(), **other.to_dict()})",
    },
    "Dataset": {
        "load": "Dataset.read(path, domain)",
        "synthetic": "model.sample(rows): a table of records is never made up",
        "project": _COUNTS,
        "datavector": _COUNTS,
        "drop": "a domain without the columns: Dataset.from_frame ignores the others",
        "df": "the frame that it was made of",
        "compress": "recode(domain, codes)",
        "decompress": "Compression.backward(model), then sample",
    },
    "LinearMeasurement": {"noisy_measurement": "values", "scale": "stddev, or distribution.scale"},
    "Estimator": {
        "estimate": "fit(domain, measurements, total)",
        "infer": "fit(domain, measurements, total)",
    },
    "Fit": {
        "project": "model.marginal(clique)",
        "synthetic_data": "model.sample(rows, seed)",
        "marginals": "model.marginals",
        "potentials": "model.potentials",
        "total": "model.total",
    },
    "GraphicalModel": _MODEL,
    "MixtureModel": {
        name: said for name, said in _MODEL.items() if name not in ("cliques", "calculate_many_marginals")
    },
    "RegionModel": {
        **{name: _MODEL[name] for name in ("project", "datavector", "krondot")},
        "synthetic_data": "tractable().sample(rows, seed)",
    },
    "pgmjax": {
        "Factor": "an array: model.marginal(clique)",
        "FactoredInference": "Estimator().fit(domain, measurements, total)",
        "MarkovRandomField": "GraphicalModel",
        "MirrorDescent": "Estimator(solver='mirror_descent')",
        "mirror_descent": "Estimator(solver='mirror_descent')",
    },
}
"""What stands here for an attribute of mbi's objects, by class (and by module for the top)."""

_SCALE = "stddev, which of Laplace noise is the scale times the square root of 2"
KEYWORDS: Mapping[str, Mapping[str, str]] = {
    "Domain": {"attributes": "one mapping, {name: size}", "attrs": "one mapping", "shape": "one mapping"},
    "Estimator": {
        "iters": "max_steps",
        "known_total": "total, an argument of fit",
        "warm_start": "warm_start, an argument of fit",
        "callback_fn": "callback, an argument of fit",
        "callback": "callback, an argument of fit",
        "log": "progress, or fit(callback=...)",
        "metric": "loss",
        "elim_order": "nothing: a plan is searched; see Estimator.plan",
        "structural_zeros": "constraints, an argument of fit: StructuralZeros",
    },
    "Estimator.fit": {
        "iters": "max_steps, an argument of Estimator",
        "tol": "tol, an argument of Estimator",
        "known_total": "total",
        "callback_fn": "callback",
        "potentials": "warm_start",
        "loss_fn": "loss, an argument of Estimator",
        "marginal_oracle": "oracle, an argument of Estimator",
        "engine": "solver, an argument of Estimator",
    },
    "LinearMeasurement": {"noisy_measurement": "values", "scale": _SCALE, "sigma": "stddev"},
    "ModelRows.sample": {"n": "rows", "num_rows": "rows"},
}
"""The same for keywords, by class or method."""

_FEWER = {"Domain": (1, "one mapping, such as Domain(dict(zip(attributes, shape)))")}


def attribute_error(owner: str, name: str) -> AttributeError | None:
    """Return the error for a name of an owner in the tables, None for any other.

    Example:
        >>> attribute_error("Domain", "fromdict")
        AttributeError("Domain has no 'fromdict', which mbi has: here it is Domain({name: size}).")
    """
    here = ATTRIBUTES.get(owner, {}).get(name)
    if here is None:
        return None
    return AttributeError(f"{owner} has no {name!r}, which mbi has: here it is {here}.")


def told(thing: _T) -> _T:
    """Let a class or a function say what the names of the tables are called here; a decorator.

    A dataclass is decorated above `dataclass`.
    """
    if inspect.isclass(thing):
        cls: Any = thing
        if cls.__name__ in ATTRIBUTES:
            cls.__getattr__ = _missing(cls.__name__)
        if cls.__name__ in KEYWORDS:
            cls.__init__ = _refusing(cls.__init__, cls.__name__)
        return thing
    told_function: Any = _refusing(thing, thing.__qualname__)
    return told_function


def _missing(owner: str) -> Callable[[Any, str], Any]:
    def __getattr__(self: Any, name: str) -> Any:
        error = attribute_error(owner, name)
        if error is not None:
            raise error
        return object.__getattribute__(self, name)  # raises what it has raised, also from inside a property

    return __getattr__


def _refusing(function: Callable[..., Any], owner: str) -> Callable[..., Any]:
    known, (most, instead) = KEYWORDS[owner], _FEWER.get(owner, (None, ""))

    @functools.wraps(function)
    def called(self: Any, *given: Any, **keywords: Any) -> Any:
        for name in known.keys() & keywords.keys():
            raise TypeError(f"{owner.split('.')[-1]} takes no {name!r}: here it is {known[name]}.")
        if most is not None and len(given) > most:
            raise TypeError(f"{owner} takes {instead}; got {len(given)} arguments.")
        return function(self, *given, **keywords)

    return called


class Telling(type):
    """The metaclass of classes of which users of other libraries know class methods."""

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any:
            """Raise what helps, or the usual error."""
            raise attribute_error(cls.__name__, name) or AttributeError(
                f"type object {cls.__name__!r} has no attribute {name!r}", name=name, obj=cls
            )
