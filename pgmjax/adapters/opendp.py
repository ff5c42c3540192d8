"""OpenDP contingency tables: their keys as a domain, their marginals as measurements.

Any object with `keys` and `marginals` is accepted, so neither OpenDP nor mbi needs to be installed. To have
OpenDP fit its tables with this library, pass `adapters.mbi.estimate` as the `estimator` of its algorithms.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pgmjax._internal import checks, migration
from pgmjax.adapters.mbi import from_mbi
from pgmjax.data.attribute import Attribute
from pgmjax.data.domain import Domain
from pgmjax.measurements.linear import LinearMeasurement


def from_contingency_table(table: Any, noise: str = "gaussian") -> tuple[Domain, list[LinearMeasurement]]:
    """Return the domain and the noisy answers of an OpenDP `ContingencyTable`.

    The keys of a column become labels. A null key in last place becomes the missing bucket, which is where
    OpenDP also counts values that are not keys; a null elsewhere becomes a label `null`. Keys of other types
    (dates) become text, and so do the ranges of columns with cuts, which are open on the left.

    Args:
        table: object with `keys` (one series per column) and `marginals` (mbi measurements).
        noise: `gaussian` if the table was released under zCDP, `laplace` under pure differential privacy. The
            table itself only has standard deviations, those of the continuous distributions.

    Returns:
        The domain and the measurements, as released. Counts of keys that were discovered privately had to
        exceed a threshold, so they are slightly too large on average.

    Raises:
        TypeError: the object has no keys or no marginals.
        ValueError: the marginals do not fit the keys.

    Example:
        >>> from types import SimpleNamespace
        >>> ones = SimpleNamespace(noisy_measurement=[11, 2, 5], clique=("sex",), stddev=2.0)
        >>> table = SimpleNamespace(keys={"sex": ["F", "M", None]}, marginals={("sex",): ones})
        >>> domain, measurements = from_contingency_table(table)
        >>> domain.attribute("sex").labels, domain.attribute("sex").missing, measurements
        (('F', 'M'), True, [LinearMeasurement(('sex',), 3 values, stddev=2, noise='gaussian')])
    """
    missing = [name for name in ("keys", "marginals") if not hasattr(table, name)]
    if missing:
        raise TypeError(
            f"expected a ContingencyTable of OpenDP, got {type(table).__name__} without "
            f"{' and '.join(missing)}."
        )
    domain = Domain({name: _attribute(name, list(keys)) for name, keys in table.keys.items()})
    return from_mbi(domain, _flat(table.marginals), noise)


def _attribute(name: str, keys: list[Any]) -> Attribute:
    nulls = [place for place, key in enumerate(keys) if key is None]
    last = bool(nulls) and nulls[-1] == len(keys) - 1 and len(keys) > 1
    kept = keys[:-1] if last else keys
    labels = [_label(key) for key in kept]
    if len(set(map(str, labels))) < len(labels):
        return Attribute(name, len(keys))  # keys that are equal as text, such as 1 and "1"
    return Attribute(name, len(keys), tuple(labels), missing=last)


def _label(key: Any) -> str | int | float | bool:
    key = key.item() if isinstance(key, np.generic) else key
    if key is None:
        return "null"
    return key if isinstance(key, str | bool | int | float) else str(key)


def _flat(marginals: Any) -> list[Any]:
    """All measurements of a table, from OpenDP's own multimap or from a dictionary by clique."""
    if hasattr(marginals, "flatten"):
        return list(marginals.flatten())
    checks.kind(marginals, Mapping, "marginals must be a mapping of cliques to measurements")
    found: list[Any] = []
    for group in marginals.values():
        found.extend([group] if hasattr(group, "noisy_measurement") else group)
    return found


migration.answer(globals())
