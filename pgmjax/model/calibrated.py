"""Calibrated models: many queries answered from one calibration of the junction tree.

Nothing is compiled, and memory does not grow with the number of queries: tables are yielded one at a time,
and intermediate results shared by queries are cached up to a fixed number of bytes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pgmjax._internal import checks, html
from pgmjax.data.domain import Clique, Domain, as_clique, as_cliques
from pgmjax.inference.oracles.host import HostModel
from pgmjax.inference.oracles.host_tree import CACHE_BYTES, SlicedTree, tree_for
from pgmjax.model.base import NamedMarginals

BATCH_CELLS = 1 << 22  # cells of marginals that are computed together, if the model is in parts
DISTANCES: dict[str, Callable[[np.ndarray], Any]] = {
    "l1": lambda difference: np.abs(difference).sum(),
    "l2": lambda difference: np.sqrt(np.square(difference).sum()),
    "max": lambda difference: np.abs(difference).max(),
}


class CalibratedModel(NamedMarginals):
    """The result of `GraphicalModel.calibrate`.

    It stores the junction tree's tables. If they do not fit in memory, each question goes through parts of
    the model, and `marginals` answers many at once.

    Attributes:
        domain: the attributes.
        total: number of records (counts).

    Example:
        >>> from pgmjax.model.graphical import GraphicalModel
        >>> model = GraphicalModel.from_potentials(Domain({"a": 2, "b": 2}), {("a",): [0.0, 0.0]}, total=8)
        >>> [(pair, table.tolist()) for pair, table in model.calibrate().all_marginals(2)]
        [(('a', 'b'), [[2.0, 2.0], [2.0, 2.0]])]
    """

    def __init__(self, domain: Domain, host: HostModel, total: float, cache_bytes: int = CACHE_BYTES):
        self.domain = domain
        self.total = total
        self._number = {name: i for i, name in enumerate(domain.attributes)}
        self._tree = tree_for(host, checks.integer("cache_bytes", cache_bytes, low=0))

    def log_partition(self) -> float:
        """Log of the sum of the exponentiated potentials over all cells of the domain (nats)."""
        return self._tree.log_partition

    def marginals(self, cliques: Iterable[Sequence[str]]) -> Iterator[tuple[Clique, np.ndarray]]:
        """Stream marginals: each table is computed when it is requested.

        Args:
            cliques: attribute names of each; may be a generator. It is fastest to keep cliques with the
                same first attributes next to each other.

        Returns:
            An iterator over (clique, counts [size of each attribute]).

        Raises:
            TypeError: `cliques` is a single string.
            ValueError: as in `marginal`, when the iterator reaches an invalid clique.

        Example:
            >>> from pgmjax.model.graphical import GraphicalModel
            >>> model = GraphicalModel.from_potentials(Domain({"a": 2, "b": 3}), {}, total=6)
            >>> {clique: table.max() for clique, table in model.calibrate().marginals([("a",), ("b", "a")])}
            {('a',): np.float64(3.0), ('b', 'a'): np.float64(1.0)}
        """
        if isinstance(cliques, str):
            said = (
                "cliques must be a list of tuples of attribute names, got one string: write [('age', 'sex')]."
            )
            raise TypeError(said)
        if isinstance(cliques, tuple | list):
            return self._streamed(iter(as_cliques(self.domain, cliques)))
        return self._streamed(as_clique(self.domain, clique) for clique in cliques)

    def _streamed(self, cliques: Iterator[Clique]) -> Iterator[tuple[Clique, np.ndarray]]:
        while some := self._some(cliques):
            numbers = [tuple(self._number[name] for name in clique) for clique in some]
            for clique, table in zip(some, self._tree.marginals(numbers), strict=True):
                yield clique, self.total * table

    def _some(self, cliques: Iterator[Clique]) -> list[Clique]:
        """The next clique, or as many as have BATCH_CELLS together if each question goes through parts."""
        some = list(itertools.islice(cliques, 1))
        if isinstance(self._tree, SlicedTree):
            cells = 0
            while cells < BATCH_CELLS and (more := next(cliques, None)) is not None:
                some.append(more)
                cells += self.domain.size(more)
        return some

    def seconds(self, clique: Sequence[str]) -> float:
        """Forecast of the time that a marginal takes by `marginal`, on one core (s).

        Args:
            clique: attribute names, at least one.

        Raises:
            ValueError: an unknown or repeated attribute, or none.

        Example:
            >>> from pgmjax.model.graphical import GraphicalModel
            >>> model = GraphicalModel.from_potentials(Domain({"a": 2, "b": 2}), {})
            >>> model.calibrate().seconds(("a", "b")) < 1
            True
        """
        names = as_clique(self.domain, clique)
        if not names:
            raise ValueError("the forecast is of a marginal of at least one attribute: name one.")
        return self._tree.seconds(tuple(self._number[name] for name in names))

    def all_marginals(self, k: int) -> Iterator[tuple[Clique, np.ndarray]]:
        """Stream the marginals of all sets of k attributes, in the domain's order.

        Args:
            k: number of attributes per clique, from 1 to the number of attributes of the domain.

        Raises:
            TypeError: `k` is not an integer.
            ValueError: `k` is out of range.
        """
        k = checks.integer("k", k, low=1, high=len(self.domain))
        return self.marginals(itertools.combinations(self.domain.attributes, k))

    def conditional(self, target: Sequence[str], given: Sequence[str]) -> np.ndarray:
        """The table P(target | given).

        Args:
            target: attribute names.
            given: attribute names, disjoint from `target`.

        Returns:
            Probabilities [size of each given attribute, size of each target attribute]. They sum to 1 over
            the target, or are all 0 if the given values have probability zero.

        Raises:
            ValueError: an unknown or repeated attribute, or a table larger than memory.

        Example:
            >>> from pgmjax.model.graphical import GraphicalModel
            >>> logs = np.log([[0.1, 0.3], [0.3, 0.3]])
            >>> model = GraphicalModel.from_potentials(Domain({"a": 2, "b": 2}), {("a", "b"): logs})
            >>> model.calibrate().conditional(("b",), given=("a",)).round(6).tolist()
            [[0.25, 0.75], [0.5, 0.5]]
        """
        target, given = as_clique(self.domain, target), as_clique(self.domain, given)
        both = sorted(set(target) & set(given))
        if both:
            raise ValueError(f"a conditional table has {both} on both sides: leave them out of one.")
        table = self._probabilities((*given, *target))
        axes = tuple(range(len(given), table.ndim))
        sums = table.sum(axis=axes, keepdims=True)
        # where nobody has the given values, 0 and not 0 / 0
        return np.divide(table, sums, out=np.zeros_like(table), where=sums > 0)

    def conditionals(
        self, pairs: Iterable[tuple[Sequence[str], Sequence[str]]]
    ) -> Iterator[tuple[tuple[Clique, Clique], np.ndarray]]:
        """Stream conditional tables, each as returned by `conditional`.

        Args:
            pairs: (target, given) for each table; may be a generator.

        Returns:
            An iterator over ((target, given), probabilities).
        """
        return (((tuple(target), tuple(given)), self.conditional(target, given)) for target, given in pairs)

    def scores(
        self,
        tables: Mapping[Clique, Any] | Iterable[tuple[Sequence[str], Any]],
        distance: str = "l1",
    ) -> dict[Clique, float]:
        """Return the distances of the model's marginals from given tables.

        Args:
            tables: a table of counts [size of each attribute] for each clique, as a mapping or as (clique,
                table) pairs, which may be a generator. Scores of private tables are private too.
            distance: `l1` (sum of absolute differences), `l2` (root of the sum of squares) or `max`.

        Returns:
            The distance for each clique, in counts.

        Raises:
            ValueError: an unknown distance or attribute, or a table of the wrong shape or not finite.

        Example:
            >>> from pgmjax.model.graphical import GraphicalModel
            >>> model = GraphicalModel.from_potentials(Domain({"a": 2}), {}, total=6)
            >>> model.calibrate().scores({("a",): [5, 1]})
            {('a',): 4.0}
        """
        measure = DISTANCES[checks.choice("distance", distance, tuple(DISTANCES))]
        pairs = tables.items() if isinstance(tables, Mapping) else tables
        result = {}
        for pair in pairs:
            if not isinstance(pair, tuple | list) or len(pair) != 2 or isinstance(pair[0], str):
                raise TypeError(
                    "tables must be a mapping from cliques to tables, or pairs of the two, got "
                    f"{type(pair).__name__} in it: write {{('sex',): [520, 480]}}."
                )
            names, values = pair
            clique = as_clique(self.domain, names)
            result[clique] = float(measure(self.marginal(clique) - self._table(clique, values)))
        return result

    def __repr__(self) -> str:
        tree = self._tree.tree
        return (
            f"CalibratedModel({len(self.domain)} attributes, junction tree of {len(tree.cliques)} cliques "
            f"with {tree.cells:,} cells, total={self.total:,.1f})"
        )

    def _repr_html_(self) -> str:
        tree = self._tree.tree
        facts = {"attributes": len(self.domain), "total": float(self.total)}
        facts |= {"cliques of the junction tree": len(tree.cliques), "its cells": tree.cells}
        return html.card("CalibratedModel", facts)

    def _probabilities(self, clique: Clique) -> np.ndarray:
        return self._tree.marginal(tuple(self._number[name] for name in clique))

    def _table(self, clique: Clique, values: Any) -> np.ndarray:
        table = np.asarray(values, dtype=np.float64)
        checks.refuse(
            (
                table.shape != self.domain.shape_of(clique),
                f"the table of {clique} must have shape {self.domain.shape_of(clique)}, got {table.shape}.",
            ),
            (not np.isfinite(table).all(), f"the table of {clique} must be finite."),
        )
        return table
