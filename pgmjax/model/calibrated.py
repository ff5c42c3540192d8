"""A model made ready for many questions: its junction tree calibrated once, answers streamed.

Nothing is compiled, and nothing grows with the number of questions: a table is yielded and forgotten, and
the work that questions share is kept up to a number of bytes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pgmjax._internal import checks, html
from pgmjax.data.cliques import Clique, as_clique
from pgmjax.data.domain import Domain
from pgmjax.inference.oracles.host import CACHE_BYTES, HostModel, HostTree

DISTANCES: dict[str, Callable[[np.ndarray], Any]] = {
    "l1": lambda difference: np.abs(difference).sum(),
    "l2": lambda difference: np.sqrt(np.square(difference).sum()),
    "max": lambda difference: np.abs(difference).max(),
}


class CalibratedModel:
    """The result of `GraphicalModel.calibrate`; it holds the junction tree's tables twice.

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
        self._tree = HostTree(host, checks.integer("cache_bytes", cache_bytes, low=0))

    def log_partition(self) -> float:
        """Log of the sum of the exponentiated potentials over all cells of the domain (nats)."""
        return self._tree.calibration.log_partition

    def marginal(self, clique: Sequence[str]) -> np.ndarray:
        """Expected counts of some attributes [size of each], float64, axes in the order asked for.

        Raises:
            TypeError: a clique that is no tuple of names.
            ValueError: an unknown or repeated attribute, or a table larger than memory.
        """
        return self.total * self._probabilities(as_clique(self.domain, clique))

    def marginals(self, cliques: Iterable[Sequence[str]]) -> Iterator[tuple[Clique, np.ndarray]]:
        """Stream marginals: each table is worked out when it is asked for.

        Args:
            cliques: attribute names of each; may itself be a generator. Cliques that share their first
                attributes go fastest one after the other.

        Returns:
            An iterator over (clique, counts [size of each attribute]).

        Raises:
            TypeError: cliques that are one string.
            ValueError: when it is reached, a clique as in `marginal`.

        Example:
            >>> from pgmjax.model.graphical import GraphicalModel
            >>> model = GraphicalModel.from_potentials(Domain({"a": 2, "b": 3}), {}, total=6)
            >>> {clique: table.max() for clique, table in model.calibrate().marginals([("a",), ("b", "a")])}
            {('a',): np.float64(3.0), ('b', 'a'): np.float64(1.0)}
        """
        if isinstance(cliques, str):
            raise TypeError("cliques must be a list of tuples of attribute names, got one string.")
        return ((clique, self.marginal(clique)) for clique in _each(self.domain, cliques))

    def all_marginals(self, k: int) -> Iterator[tuple[Clique, np.ndarray]]:
        """Stream the marginals of every k attributes, in the domain's order.

        Args:
            k: attributes of each clique, at least 1 and at most those of the domain.

        Raises:
            TypeError: a k that is not an integer.
            ValueError: a k outside that range.
        """
        k = checks.integer("k", k, low=1, high=len(self.domain))
        return self.marginals(itertools.combinations(self.domain.attributes, k))

    def conditional(self, target: Sequence[str], given: Sequence[str]) -> np.ndarray:
        """The table P(target | given).

        Args:
            target: attribute names.
            given: attribute names, none of the target's.

        Returns:
            Probabilities [size of each given attribute, size of each target attribute]. They sum to 1 over
            the target; where the model holds the given values impossible they are all 0.

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
        return np.divide(table, sums, out=np.zeros_like(table), where=sums > 0)

    def conditionals(
        self, pairs: Iterable[tuple[Sequence[str], Sequence[str]]]
    ) -> Iterator[tuple[tuple[Clique, Clique], np.ndarray]]:
        """Stream conditional tables, each as `conditional` gives it.

        Args:
            pairs: (target, given) of each; may be a generator.

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
            tables: for each clique a table [size of each attribute], counts; a mapping, or pairs (clique,
                table), which may be a generator. Tables of private counts make the scores private too.
            distance: `l1` (sum of absolute differences), `l2` (root of the sum of squares) or `max`.

        Returns:
            For each clique the distance, in counts.

        Raises:
            ValueError: an unknown distance or attribute, or a table of another shape or not finite.

        Example:
            >>> from pgmjax.model.graphical import GraphicalModel
            >>> model = GraphicalModel.from_potentials(Domain({"a": 2}), {}, total=6)
            >>> model.calibrate().scores({("a",): [5, 1]})
            {('a',): 4.0}
        """
        measure = DISTANCES[checks.choice("distance", distance, tuple(DISTANCES))]
        pairs = tables.items() if isinstance(tables, Mapping) else tables
        result = {}
        for names, values in pairs:
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
        if table.shape != self.domain.shape_of(clique):
            raise ValueError(
                f"the table of {clique} must have shape {self.domain.shape_of(clique)}, got {table.shape}."
            )
        if not np.isfinite(table).all():
            raise ValueError(f"the table of {clique} must be finite.")
        return table


def _each(domain: Domain, cliques: Iterable[Sequence[str]]) -> Iterator[Clique]:
    for clique in cliques:
        yield as_clique(domain, clique)
