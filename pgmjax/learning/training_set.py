"""What is learned together: attributes, their training queries, and the queries' vectors."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.learning.encodings import Cells, Encoding, Factors
from pgmjax.queries import Query
from pgmjax.queries.query import MAX_MATRIX_ENTRIES

UNIVERSES = ("auto", "joint", "cliques")
MAX_JOINT_CELLS = 1 << 12
"""Up to so many cells of all attributes one learner learns them all, unless another universe is asked for."""


@dataclasses.dataclass(frozen=True, eq=False)
class Lesson:
    """Attributes that one learner learns, and what it is taught.

    Attributes:
        clique: the attributes; the learner answers queries on some of them.
        queries: the training queries, on some or all of them.
        encodings: float64 [rows of all queries, dimensions].
        scales: what answers are divided by before they are learned from, float64 [rows of all queries]:
            1, but for weights of cells the largest weight of the query, so that encodings lie in -1..1.
    """

    clique: Clique
    queries: tuple[Query, ...]
    encodings: np.ndarray
    scales: np.ndarray

    @classmethod
    def of(cls, clique: Clique, queries: Sequence[Query], encoding: Encoding, domain: Domain) -> Lesson:
        """Return a lesson with its queries encoded.

        Raises:
            ValueError: queries that cannot be encoded, or different ones with the same vector.
        """
        tables = [encoding.encode(query, domain, clique) for query in queries]
        scaled = isinstance(encoding, Cells)
        scales = [max(1.0, float(np.abs(table).max())) if scaled else 1.0 for table in tables]
        encodings = np.concatenate([table / scale for table, scale in zip(tables, scales, strict=True)])
        _check_distinguished(encodings, clique, queries, encoding, domain)
        repeated = np.repeat(scales, [len(table) for table in tables])
        return cls(clique, tuple(queries), encodings, repeated)


def learned_together(
    asked: Sequence[Clique], domain: Domain, encoding: Encoding, universe: str = "auto"
) -> dict[Clique, tuple[Clique, ...]]:
    """Return for each learner's attributes the sets of attributes that it is trained on.

    Args:
        asked: the attributes of each query that is to be answered.
        domain: the attributes.
        encoding: of queries.
        universe: "joint" learns all attributes at once; "cliques" trains on each largest set of attributes
            by itself: one learner a set, or, with the encoding "factors", one for all; "auto" is "joint" up
            to `MAX_JOINT_CELLS` cells.

    Raises:
        ValueError: no such universe.

    Example:
        >>> domain = Domain({"a": 100, "b": 100, "c": 100})
        >>> learned_together([("b", "a"), ("a",), ("b", "c")], domain, Cells())
        {('a', 'b'): (('a', 'b'),), ('b', 'c'): (('b', 'c'),)}
    """
    checks.choice("universe", universe, UNIVERSES)
    named = {name for clique in asked for name in clique}
    everything = tuple(name for name in domain.attributes if name in named)
    if universe == "auto":
        universe = "joint" if domain.size(everything) <= MAX_JOINT_CELLS else "cliques"
    if universe == "joint":
        return {everything: (everything,)}
    sets = {frozenset(clique) for clique in asked}
    largest = [each for each in sets if not any(each < other for other in sets)]
    cliques = sorted(tuple(name for name in domain.attributes if name in each) for each in largest)
    if isinstance(encoding, Factors):
        return {everything: tuple(cliques)}
    return {each: (each,) for each in cliques}


def _check_distinguished(
    encodings: np.ndarray, clique: Clique, queries: Sequence[Query], encoding: Encoding, domain: Domain
) -> None:
    """Refuse an encoding under which two different training queries look the same."""
    if isinstance(encoding, Cells):
        return
    rows = sum(query.num_rows(domain) for query in queries)
    whole: Encoding = Cells() if rows * domain.size(clique) <= MAX_MATRIX_ENTRIES else Factors()
    apart = np.concatenate([whole.encode(query, domain, clique) for query in queries])
    different, seen = (len({row.tobytes() for row in table + 0.0}) for table in (apart, encodings))
    if seen < different:
        raise ValueError(
            f"the encoding {encoding.name!r} leaves training queries indistinguishable: {different:,} "
            f"different ones have {seen:,} vectors. Use the encoding 'cells', or another training."
        )
