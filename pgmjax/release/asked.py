"""A fitted model of which each marginal is computed once, though several parts of a release ask for it."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pgmjax.data.domain import Clique, Domain
from pgmjax.inference.plan.forecast import ModelTooLargeError
from pgmjax.queries.query import Query

MOST_CELLS = 1_000_000
"""Largest number of cells of a marginal that is asked for as one table."""
_KEPT_CELLS = 20_000_000


class AskedModel:
    """A fitted model that keeps the marginals it was asked for, up to 160 MB of them.

    Args:
        model: a `GraphicalModel`, or another with `domain`, `total`, `marginal` and `answer`.

    Example:
        >>> from pgmjax.data.domain import Domain
        >>> from pgmjax.model.graphical import GraphicalModel
        >>> asked = AskedModel.of(GraphicalModel.from_potentials(Domain({"a": 2}), {}, total=6))
        >>> asked.marginal(("a",)) is asked.marginal(("a",))
        True
    """

    def __init__(self, model: Any):
        self.model = model
        self._kept: dict[Clique, np.ndarray] = {}
        self._room = _KEPT_CELLS

    @classmethod
    def of(cls, model: Any) -> AskedModel:
        """Return the model itself if it is one already."""
        return model if isinstance(model, cls) else cls(model)

    @property
    def domain(self) -> Domain:
        """The model's domain."""
        return self.model.domain

    @property
    def total(self) -> float:
        """The model's number of records."""
        return float(self.model.total)

    def marginal(self, clique: Sequence[str]) -> np.ndarray:
        """Return the model's counts of a clique [size of each attribute]."""
        return next(self.marginals([tuple(clique)]))[1]

    def answer(self, query: Query) -> np.ndarray:
        """Return the model's answer to a query (counts)."""
        if self.domain.size(query.clique) > MOST_CELLS:
            return np.asarray(self.model.answer(query))
        return query.apply(self.marginal(query.clique))

    def marginals(self, cliques: Sequence[Clique]) -> Iterator[tuple[Clique, np.ndarray]]:
        """Yield the counts of each clique; what is not kept comes from one pass over the model's tree."""
        found = self._computed([clique for clique in cliques if clique not in self._kept])
        for clique in cliques:
            if (table := self._kept.get(clique)) is None:
                # skips what was kept after this pass began
                table = next(table for name, table in found if name == clique)
                if table.size <= self._room:
                    self._room -= table.size
                    self._kept[clique] = table
            yield clique, table

    def _computed(self, cliques: Sequence[Clique]) -> Iterator[tuple[Clique, np.ndarray]]:
        if self._tree is not None:
            return iter(self._tree.marginals(cliques))
        return ((clique, np.asarray(self.model.marginal(clique))) for clique in cliques)

    @functools.cached_property
    def _tree(self) -> Any:
        """The calibrated tree; None if the model has none, or one that does not fit in memory."""
        try:
            return self.model.calibrate() if hasattr(self.model, "calibrate") else None
        except ModelTooLargeError:
            return None
