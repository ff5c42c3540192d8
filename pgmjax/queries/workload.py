"""What a release must answer: queries on cliques, each with a weight."""

from __future__ import annotations

import dataclasses
import itertools
import json
import pathlib
from collections.abc import Iterable, Mapping
from decimal import Decimal
from os import PathLike
from typing import Any

from pgmjax._internal import checks, html
from pgmjax.data.cliques import Clique, as_clique
from pgmjax.data.domain import Domain
from pgmjax.inference.plan.elimination import total_cells
from pgmjax.queries import DenseMatrix, Query, marginal
from pgmjax.queries.words import in_words
from pgmjax.queries.workload_entry import Entry, as_entry


@dataclasses.dataclass(frozen=True, init=False)
class Workload:
    """Queries with weights, at least one, none twice.

    The same query on the same attributes (in whatever order) may stand only once: a weight says
    that it matters more. Different queries may be asked of one clique.

    Args:
        entries: `Entry` objects, queries, or what a workload file's list holds.

    Raises:
        TypeError: an entry that is none of these.
        ValueError: no entry, one that stands twice, or a malformed one (its position is named).

    Example:
        >>> workload = Workload([["sex"], {"clique": ["age", "sex"], "queries": {"age": "prefix"}}])
        >>> workload.cliques, workload.num_queries(Domain({"age": 10, "sex": 2}))
        ((('sex',), ('age', 'sex')), 22)
    """

    entries: tuple[Entry, ...]

    def __init__(self, entries: Iterable[Any]) -> None:
        if isinstance(entries, str | Mapping) or not isinstance(entries, Iterable):
            raise TypeError(f"a workload is a list of entries, got {type(entries).__name__}.")
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
        if isinstance(cliques, str):
            raise TypeError("cliques must be a list of tuples of attribute names, got one string.")
        return cls([Entry(marginal(clique)) for clique in cliques])

    @classmethod
    def all_kway(cls, domain: Domain, k: int, max_cells: int | None = None) -> Workload:
        """Return all marginals of `k` attributes, or as many as fit a model of `max_cells` cells.

        With a limit, cliques are tried from the smallest on (ties in the domain's order) and each is
        kept if the junction tree of those kept, with it, holds at most `max_cells` cells. The choice
        depends on the domain alone.

        Args:
            domain: the attributes and their sizes.
            k: attributes a marginal, 1 up to their number.
            max_cells: the most cells of all cliques of the junction tree together.

        Raises:
            ValueError: k out of range, or no marginal fits.

        Example:
            >>> len(Workload.all_kway(Domain({"a": 2, "b": 3, "c": 4}), 2).entries)
            3
            >>> Workload.all_kway(Domain({"a": 2, "b": 3, "c": 4}), 2, max_cells=20).cliques
            (('a', 'b'), ('a', 'c'))
        """
        k = checks.integer("k", k, low=1, high=len(domain))
        cliques = list(itertools.combinations(domain.attributes, k))
        if max_cells is not None:
            cliques = _fitting(domain, cliques, checks.integer("max_cells", max_cells, low=1))
            if not cliques:
                raise ValueError(f"no {k}-way marginal has at most {max_cells:,} cells: raise max_cells.")
        return cls.of_marginals(cliques)

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Workload:
        """Read a workload file: a JSON list of entries.

        An entry is a list of attribute names (all cells of that marginal), or a mapping with `clique`
        and optionally `queries` (a block for each attribute, identity for those left out; see
        `queries.from_spec`), `matrix` or `terms` in its place, and `weight`. Numbers are read
        exactly: 0.1 is one tenth.

        Raises:
            ValueError: not JSON, not a list, an unknown key (the known ones are named), ...
        """
        text = pathlib.Path(path).read_text(encoding="utf-8")
        try:
            content = json.loads(text, parse_float=Decimal, parse_constant=_no_constant)
        except json.JSONDecodeError as error:
            raise ValueError(
                f"{path} is not JSON: {error.msg} (line {error.lineno}, column {error.colno})."
            ) from error
        if not isinstance(content, list):
            raise ValueError(f"{path} must hold a JSON list of entries, got a {type(content).__name__}.")
        return cls(content)

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The cliques of the entries, each set of attributes once, in order of appearance."""
        first = {frozenset(entry.clique): entry.clique for entry in reversed(self.entries)}
        return tuple(dict.fromkeys(first[frozenset(entry.clique)] for entry in self.entries))

    def num_queries(self, domain: Domain) -> int:
        """Return the number of answers of all entries."""
        return sum(entry.query.num_rows(domain) for entry in self.entries)

    def validate(self, domain: Domain) -> None:
        """Check every entry against a domain.

        Raises:
            ValueError: the position of the entry, and what does not fit.
        """
        for position, entry in enumerate(self.entries):
            try:
                entry.query.check(domain)
            except (TypeError, ValueError) as error:
                raise type(error)(f"workload entry {position}: {error}") from error

    def to_list(self) -> list[Any]:
        """Return the content of a workload file."""
        return [entry.to_spec() for entry in self.entries]

    def write(self, path: str | PathLike[str]) -> None:
        """Write a workload file; `Workload.read` gives an equal workload."""
        lines = ",\n  ".join(json.dumps(spec) for spec in self.to_list())
        pathlib.Path(path).write_text(f"[\n  {lines}\n]\n", encoding="utf-8")

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


def _no_constant(name: str) -> Any:
    raise ValueError(f"a workload file must hold finite numbers, got {name}.")


def _sorted(query: Query) -> Query:
    return query if isinstance(query, DenseMatrix) else query.reorder(tuple(sorted(query.clique)))


def _fitting(domain: Domain, cliques: list[Clique], max_cells: int) -> list[Clique]:
    index = {name: at for at, name in enumerate(domain.attributes)}
    kept: list[Clique] = []
    for clique in sorted(cliques, key=domain.size):
        trial = [tuple(index[name] for name in each) for each in [*kept, as_clique(domain, clique)]]
        if domain.size(clique) <= max_cells and total_cells(domain.shape, trial) <= max_cells:
            kept.append(clique)
    return kept
