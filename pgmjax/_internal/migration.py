"""Names that users of mbi know: the usual AttributeError, with the name to use here (docs/migration.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pgmjax._internal import checks

_COUNTS = "marginal(clique) of a model, and marginals([clique]) of a table"
MBI: Mapping[str, str] = {
    "Factor": "an array: model.marginal(clique)",
    "FactoredInference": "Estimator().fit(domain, measurements, total)",
    "MarkovRandomField": "GraphicalModel",
    "MirrorDescent": "Estimator(solver='mirror_descent')",
    "mirror_descent": "Estimator(solver='mirror_descent')",
    "estimate": "Estimator().fit(domain, measurements, total)",
    "fromdict": "Domain({name: size})",
    "config": "sizes",
    "attrs": "attributes",
    "canonical": "project(clique)",
    "marginalize": "project(clique) of the other attributes",
    "supports": "set(clique) <= set(domain)",
    "load": "Dataset.read(path, domain)",
    "synthetic": "sample(rows, seed) of a model",
    "synthetic_data": "sample(rows, seed) of a model",
    "project": _COUNTS,
    "datavector": f"{_COUNTS}, then reshape(-1)",
    "compress": "recode(domain, codes), or Compression.forward(measurement)",
    "decompress": "Compression.backward(model), then sample",
    "noisy_measurement": "values",
    "krondot": "answer(query)",
    "calculate_many_marginals": "calibrate().marginals(cliques)",
    "cliques": "potentials.cliques",
}
"""What stands here for a name of mbi."""
_OTHERS: Mapping[str, str] = {
    "marginal": _COUNTS,
    "sample": "sample(rows, seed) of a model",
    "model": "release.model",
    "generate": "fit(frame, domain), then sample(n)",
    "transform": "fit(frame, domain), then sample(n)",
    "fit_transform": "fit(frame, domain), then sample(n)",
    "fit": "Synthesizer(epsilon=..., relation=...).fit(frame, domain)",
    "synthesize": "Synthesizer(epsilon=..., relation=...).fit(frame, domain)",
    "query": "query(text) of a Synthesizer, or pgmjax query on the command line",
    "read_csv": "Dataset.read(path, domain)",
    "from_frame": "from_public_data(frame), if anybody may see the table",
    "columns": "attributes",
    "encode": "Dataset.from_frame(domain, frame)",
}
"""What stands here for a name that one may expect."""


def missing(owner: str, name: str, known: Iterable[str] = ()) -> AttributeError:
    """Return the error for an attribute that an owner does not have, of those that are known.

    Example:
        >>> missing("Domain", "fromdict")
        AttributeError("Domain has no 'fromdict': here it is Domain({name: size}); see docs/migration.md.")
    """
    here = f": here it is {MBI[name]}; see docs/migration.md" if name in MBI else ""
    here = here or (f": here it is {_OTHERS[name]}" if name in _OTHERS else "")
    meant = "" if here else checks.did_you_mean(name, known)
    return AttributeError(f"{owner} has no {name!r}{here}.{meant}", name=name)


class _Named(type):
    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any:
            raise missing(cls.__name__, name)


class Named(metaclass=_Named):
    """Base of classes whose unknown attributes are answered by `missing`."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in MBI or name in _OTHERS:
                raise missing(type(self).__name__, name)
            # raises what it has raised, also from inside a property
            return object.__getattribute__(self, name)
