"""Workloads: the queries a release must answer, each on a clique and with a weight.

A `Workload` is listed entry by entry, read from a file, or made by rule: all marginals of some order, blocks
on attributes. `Entry` is one query with its weight.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import numbers
import pathlib
from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from os import PathLike
from typing import Any

import numpy as np

from pgmjax._internal import checks, html
from pgmjax._internal.files import parse_json, read_text
from pgmjax._internal.migration import Named, instead
from pgmjax.data.domain import Clique, Domain, as_domain
from pgmjax.data.entry import shown
from pgmjax.inference.plan.triangulation import fitting
from pgmjax.queries import DenseMatrix, Product, Query, WeightedSum, marginal
from pgmjax.queries.spec import as_query, in_words

_EXAMPLE = '[["age", "sex"], ["age", "job"]]'
_KEYS = ("clique", "queries", "matrix", "terms", "weight")


@dataclasses.dataclass(frozen=True)
class KWay:
    """All marginals of k attributes of a domain that is not known yet; see `Workload.all_kway`.

    Args:
        k: attributes per marginal, >= 1; all of them where a domain has fewer.
        max_cells: largest total number of cells of the junction tree's cliques. Default: no limit.

    Example:
        >>> KWay(2).over(Domain({"a": 2, "b": 3, "c": 4})).cliques
        (('a', 'b'), ('a', 'c'), ('b', 'c'))
    """

    k: int
    max_cells: int | None = None

    def __post_init__(self) -> None:
        checks.set_integers(self, "k", low=1)
        checks.set_integers(self, "max_cells", low=1, optional=True)

    def over(self, domain: Domain) -> Workload:
        """Return the workload over a domain."""
        return Workload.all_kway(domain, min(self.k, len(domain)), self.max_cells)

    def to_dict(self) -> dict[str, int | None]:
        """Return the numbers."""
        return {"all_kway": self.k, "max_cells": self.max_cells}


@dataclasses.dataclass(frozen=True, init=False)
class Workload(Named):
    """Queries with weights; at least one, without duplicates.

    The same query on the same attributes (in any order) may appear only once; use a weight to give it
    more importance. A clique may have several different queries.

    Args:
        entries: `Entry` objects, queries, or entries as in a workload file.

    Raises:
        TypeError: an entry that is none of these.
        ValueError: no entry, a duplicate, or a malformed entry (the message names its position).

    Example:
        >>> workload = Workload([["sex"], {"clique": ["age", "sex"], "queries": {"age": "prefix"}}])
        >>> workload.cliques, workload.num_queries(Domain({"age": 10, "sex": 2}))
        ((('sex',), ('age', 'sex')), 22)
    """

    entries: tuple[Entry, ...]

    __getitem__ = __iter__ = instead(
        "The parts of a workload are workload.entries: each has a clique and a query."
    )

    def __init__(self, entries: Iterable[Any]) -> None:
        if isinstance(entries, str | Mapping) or not isinstance(entries, Iterable):
            said = "a workload is Workload.all_kway(domain, 2), or a list such as [('age', 'sex'), ('job',)]"
            raise TypeError(f"{said}, got {type(entries).__name__}.")
        made = tuple(as_entry(position, entry) for position, entry in enumerate(entries))
        if not made:
            raise ValueError("a workload needs at least one entry, got none.")
        first: dict[Query, int] = {}
        for position, entry in enumerate(made):
            earlier = first.setdefault(_sorted(entry.query), position)
            if earlier != position:
                raise ValueError(
                    f"the query on {entry.clique} stands twice in the workload (entries {earlier} and "
                    f"{position}, counted from 0): keep one and give it a weight."
                )
        object.__setattr__(self, "entries", made)

    @classmethod
    def of_marginals(cls, cliques: Iterable[Any]) -> Workload:
        """Return the workload of all cells of each clique's marginal.

        Example:
            >>> Workload.of_marginals([("age", "sex"), ("age",)]).cliques
            (('age', 'sex'), ('age',))
        """
        listed = checks.several("cliques", cliques, "tuples of attribute names", "write [('age',)]")
        return cls([Entry(marginal(clique)) for clique in listed])

    @classmethod
    def all_kway(cls, domain: Domain, k: int, max_cells: int | None = None) -> Workload:
        """Return all marginals of `k` attributes, or as many as fit a model of `max_cells` cells.

        With a limit, cliques are tried from the smallest to the largest (ties in the domain's order). Each
        is kept if a junction tree of the kept cliques then has at most `max_cells` cells; so are all others
        whose attributes share one of its cliques in the end. The choice depends only on the domain.

        Args:
            domain: the attributes and their sizes.
            k: attributes per marginal, 1 up to their number.
            max_cells: largest total number of cells of the junction tree's cliques. Default: no limit.

        Raises:
            ValueError: k out of range, or no marginal fits.

        Example:
            >>> len(Workload.all_kway(Domain({"a": 2, "b": 3, "c": 4}), 2).entries)
            3
            >>> Workload.all_kway(Domain({"a": 2, "b": 3, "c": 4}), 2, max_cells=20).cliques
            (('a', 'b'), ('a', 'c'))
        """
        domain = as_domain(domain, "Workload.all_kway(domain, k)", k)
        k = checks.integer("k", k, low=1)
        if k > len(domain):
            raise ValueError(f"k must be at most the number of attributes, {len(domain)}, got {k}.")
        if max_cells is None:
            return cls.of_marginals(itertools.combinations(domain.attributes, k))
        limit = checks.integer("max_cells", max_cells, low=1)
        places = itertools.chain.from_iterable(itertools.combinations(range(len(domain)), k))
        cliques = np.fromiter(places, np.int32).reshape(-1, k)
        kept = cliques[fitting(domain.shape, cliques, limit)].tolist()
        if not kept:
            raise ValueError(f"no {k}-way marginal has at most {limit:,} cells: raise max_cells.")
        names = domain.attributes
        return cls.of_marginals([tuple(names[v] for v in clique) for clique in kept])

    @classmethod
    def of_blocks(cls, cliques: Iterable[Any], blocks: Mapping[str, Any]) -> Workload:
        """Return a workload that applies given blocks to attributes in every clique.

        Args:
            cliques: lists of attribute names.
            blocks: attribute name to block, or its workload-file form (`queries.prefix()`, "prefix", ...);
                the other attributes use the identity.

        Raises:
            TypeError: cliques that are one string, or an invalid block.
            ValueError: no clique, or an attribute of `blocks` that is in no clique.

        Example:
            >>> workload = Workload.of_blocks([("age", "sex"), ("sex",)], {"age": "prefix"})
            >>> workload.entries[0].to_spec()
            {'clique': ['age', 'sex'], 'queries': {'age': 'prefix'}}
        """
        checks.kind(blocks, Mapping, "blocks must map attribute names to blocks")
        listed = list(map(tuple, checks.several("cliques", cliques, "tuples of attribute names")))
        idle = [name for name in blocks if not any(name in clique for clique in listed)]
        if idle:
            raise ValueError(f"blocks are given for {idle}, which no clique holds: leave them out.")
        entries = [
            Entry(as_query(clique, {name: blocks[name] for name in clique if name in blocks}))
            for clique in listed
        ]
        return cls(entries)

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Workload:
        """Read a workload file: a JSON list of entries.

        An entry is a list of attribute names (all cells of that marginal), or a mapping with `clique`
        and optionally `weight` and one of `queries` (a block for each attribute, identity by default;
        see `queries.spec.from_spec`), `matrix` and `terms`. Weights are read as they are written: 0.1 is one
        tenth. Of a number with decimals up to 17 digits count; other weights are texts, such as "1/3".

        Raises:
            ValueError: not JSON, not a list, an unknown key (the message lists the known ones), ...
        """
        text = read_text(pathlib.Path(path))
        try:
            content = parse_json(text)
        except json.JSONDecodeError as error:
            quotes = "JSON takes double quotes: write" if "'" in text and '"' not in text else "Write"
            raise ValueError(
                f"{path} is not JSON: {error.msg} (line {error.lineno}, column {error.colno}). {quotes} "
                f"{_EXAMPLE}."
            ) from error
        except ValueError as error:
            raise ValueError(f"{path} is damaged: {error}") from error
        if not isinstance(content, list):
            got = shown(content)
            raise ValueError(f"{path} must hold a JSON list of entries, such as {_EXAMPLE}, got {got}.")
        return cls(content)

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The cliques of the entries, each set of attributes once, in order of appearance."""
        first = {frozenset(entry.clique): entry.clique for entry in reversed(self.entries)}
        return tuple(dict.fromkeys(first[frozenset(entry.clique)] for entry in self.entries))

    def num_queries(self, domain: Domain) -> int:
        """Return the total number of answers of all entries."""
        return sum(entry.query.num_rows(domain) for entry in self.entries)

    def over(self, domain: Domain) -> Workload:
        """Return the workload with every query over a domain, checked: see `Query.over`.

        Raises:
            ValueError: an entry does not fit; the message names its position.
        """
        found = []
        for position, entry in enumerate(self.entries):
            try:
                found.append(dataclasses.replace(entry, query=entry.query.over(domain)))
            except (TypeError, ValueError) as error:
                raise type(error)(f"workload entry {position}: {error}") from None
        return self if tuple(found) == self.entries else Workload(found)

    def to_list(self) -> list[Any]:
        """Return the content of a workload file."""
        return [entry.to_spec() for entry in self.entries]

    def write(self, path: str | PathLike[str]) -> None:
        """Write a workload file that does not exist yet; `Workload.read` gives an equal workload."""
        lines = ",\n  ".join(json.dumps(spec) for spec in self.to_list())
        checks.new_file(path).write_text(f"[\n  {lines}\n]\n", encoding="utf-8")

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        shown = ", ".join(" x ".join(entry.clique) for entry in self.entries[:4])
        more = f", ... {len(self.entries) - 4} more" if len(self.entries) > 4 else ""
        return f"Workload({len(self.entries)} entries: {shown}{more})"

    def _repr_html_(self) -> str:
        rows = ((", ".join(e.clique), in_words(e.query), str(e.weight)) for e in self.entries)
        listed = html.table(("attributes", "query", "weight"), rows, len(self.entries))
        return html.card("Workload", {"entries": len(self.entries)}, listed)


def _sorted(query: Query) -> Query:
    return query if isinstance(query, DenseMatrix) else query.reorder(tuple(sorted(query.clique)))


@dataclasses.dataclass(frozen=True)
class Entry:
    """One query of a workload.

    Attributes:
        query: the query on a clique.
        weight: its importance, an exact positive fraction.
    """

    query: Query
    weight: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        checks.kind(self.query, Query, "a workload entry needs a query on a clique")
        object.__setattr__(self, "weight", _weight(self.weight))

    @property
    def clique(self) -> Clique:
        """The attributes of the query."""
        return self.query.clique

    def to_spec(self) -> Any:
        """Return the workload-file form."""
        spec = self.query.to_spec()
        if self.weight != 1:
            spec["weight"] = _written(self.weight)
        return spec["clique"] if set(spec) == {"clique"} else spec


def as_entry(position: int, entry: Any) -> Entry:
    """Return an `Entry` from an `Entry`, a query, a list of names or a workload-file mapping.

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
        raise type(error)(f"workload entry {position}: {error}") from None
    raise TypeError(
        f"workload entry {position}: expected a list of attribute names or a mapping with the keys "
        f'{", ".join(_KEYS)}, got {type(entry).__name__}: write, for example, [["age", "sex"], ["job"]].'
    )


def _from_mapping(entry: Mapping[str, Any]) -> Entry:
    unknown = [key for key in entry if key not in _KEYS]
    if unknown:
        lacks = " The names of the attributes stand under clique." if "clique" not in entry else ""
        raise ValueError(f"unknown keys {unknown}; the known ones are {', '.join(_KEYS)}.{lacks}")
    if "clique" not in entry:
        raise ValueError("the key 'clique' is missing: a list of attribute names.")
    given = [key for key in ("queries", "matrix", "terms") if key in entry]
    if len(given) > 1:
        raise ValueError(f"give one of 'queries', 'matrix' and 'terms', got {' and '.join(given)}.")
    return Entry(_query(entry["clique"], entry), entry.get("weight", Fraction(1)))


def _query(clique: Any, entry: Mapping[str, Any]) -> Query:
    if "matrix" in entry:
        return DenseMatrix(clique, entry["matrix"])
    if "terms" in entry:
        return WeightedSum([_term(clique, term) for term in entry["terms"]])
    queries = entry.get("queries", {})
    checks.kind(queries, Mapping, "'queries' must map attribute names to blocks")
    return as_query(clique, queries)


def _term(clique: Any, term: Any) -> tuple[float, Product]:
    if not isinstance(term, Mapping) or set(term) - {"coefficient", "queries"} or "coefficient" not in term:
        raise ValueError("a term of 'terms' has the keys 'coefficient' and 'queries'.")
    query = as_query(clique, term.get("queries", {}))
    assert isinstance(query, Product)
    return term["coefficient"], query


def _weight(value: Any) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, numbers.Real | Decimal | str):
        raise TypeError(f"weight must be a number, got {type(value).__name__}.")
    try:
        checks.short_number("weight", value)
        # Use the decimal form of a float, as its author wrote it: 0.1 is one tenth.
        weight = Fraction(repr(float(value))) if isinstance(value, float) else Fraction(value)  # type: ignore[arg-type]
    except (ValueError, OverflowError, ZeroDivisionError) as error:
        raise ValueError(f"weight must be a finite number > 0, got {value!r:.80}.") from error
    if weight <= 0:
        raise ValueError(f"weight must be > 0, got {value!r:.80}.")
    return weight


def _written(weight: Fraction) -> int | float | str:
    if weight.denominator == 1:
        return int(weight)
    return float(weight) if Fraction(repr(float(weight))) == weight else str(weight)
