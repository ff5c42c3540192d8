"""One query of a workload, and its form in a workload file."""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from pgmjax.data.cliques import Clique
from pgmjax.queries import DenseMatrix, Product, Query, WeightedSum, as_query, marginal

_KEYS = ("clique", "queries", "matrix", "terms", "weight")


@dataclasses.dataclass(frozen=True)
class Entry:
    """One query of a workload.

    Attributes:
        query: what is asked.
        weight: how much it matters, an exact positive fraction.
    """

    query: Query
    weight: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        if not isinstance(self.query, Query):
            raise TypeError(f"a workload entry needs a query on a clique, got {type(self.query).__name__}.")
        object.__setattr__(self, "weight", _weight(self.weight))

    @property
    def clique(self) -> Clique:
        """The attributes of the query."""
        return self.query.clique

    def to_spec(self) -> Any:
        """Return the form of a workload file."""
        spec = self.query.to_spec()
        if self.weight != 1:
            spec["weight"] = _written(self.weight)
        return spec["clique"] if set(spec) == {"clique"} else spec


def as_entry(position: int, entry: Any) -> Entry:
    """Return an entry from itself, a query, a list of names or a mapping as in a workload file.

    Raises:
        TypeError: none of these; the message names the position.
        ValueError: malformed; the message names the position.
    """
    try:
        if isinstance(entry, Entry):
            return entry
        if isinstance(entry, Query):
            return Entry(entry)
        if isinstance(entry, list | tuple):
            return Entry(marginal(entry))
        if isinstance(entry, Mapping):
            return _from_mapping(entry)
    except (TypeError, ValueError) as error:
        raise type(error)(f"workload entry {position}: {error}") from error
    raise TypeError(
        f"workload entry {position}: expected a list of attribute names or a mapping with the keys "
        f"{', '.join(_KEYS)}, got {type(entry).__name__}."
    )


def _from_mapping(entry: Mapping[str, Any]) -> Entry:
    unknown = [key for key in entry if key not in _KEYS]
    if unknown:
        raise ValueError(f"unknown keys {unknown}; the known ones are {', '.join(_KEYS)}.")
    if "clique" not in entry:
        raise ValueError("the key 'clique' is missing: a list of attribute names.")
    given = [key for key in ("queries", "matrix", "terms") if key in entry]
    if len(given) > 1:
        raise ValueError(f"give one of 'queries', 'matrix' and 'terms', got {' and '.join(given)}.")
    return Entry(_query(entry["clique"], entry), entry.get("weight", Fraction(1)))


def _query(clique: Any, entry: Mapping[str, Any]) -> Query:
    if "matrix" in entry:
        return DenseMatrix(clique, _plain(entry["matrix"]))
    if "terms" in entry:
        return WeightedSum([_term(clique, term) for term in entry["terms"]])
    queries = _plain(entry.get("queries", {}))
    if not isinstance(queries, Mapping):
        raise TypeError(f"'queries' must map attribute names to blocks, got {type(queries).__name__}.")
    return as_query(clique, queries)


def _term(clique: Any, term: Any) -> tuple[float, Product]:
    if not isinstance(term, Mapping) or set(term) - {"coefficient", "queries"} or "coefficient" not in term:
        raise ValueError("a term of 'terms' has the keys 'coefficient' and 'queries'.")
    query = as_query(clique, _plain(term.get("queries", {})))
    assert isinstance(query, Product)
    return _plain(term["coefficient"]), query


def _plain(value: Any) -> Any:
    """Turn the decimals that a workload file was read with into floats."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _weight(value: Any) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, numbers.Real | Decimal | str):
        raise TypeError(f"weight must be a number, got {type(value).__name__}.")
    try:
        # The decimal that a float shows is what its writer meant: 0.1 is one tenth.
        weight = Fraction(repr(float(value))) if isinstance(value, float) else Fraction(value)  # type: ignore[arg-type]
    except (ValueError, OverflowError, ZeroDivisionError) as error:
        raise ValueError(f"weight must be a finite number > 0, got {value!r}.") from error
    if weight <= 0:
        raise ValueError(f"weight must be > 0, got {value!r}.")
    return weight


def _written(weight: Fraction) -> int | float | str:
    if weight.denominator == 1:
        return int(weight)
    return float(weight) if Fraction(repr(float(weight))) == weight else str(weight)
