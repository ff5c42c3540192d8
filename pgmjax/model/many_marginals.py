"""Marginals of a model over many cliques at once, for mechanisms that weigh many candidates a round."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from pgmjax.model.graphical import GraphicalModel


def many_marginals(model: GraphicalModel, cliques: Iterable[Sequence[str]]) -> list[np.ndarray]:
    """Expected counts of each of many cliques; far faster than asking `model.marginal` one by one.

    All tables are held at once; `model.calibrate().marginals(cliques)` streams them.

    Args:
        model: the model.
        cliques: attribute names of each; the axes of its table follow their order.

    Returns:
        For each clique counts [size of each attribute], float64, as `model.marginal` up to rounding.

    Raises:
        ValueError: an unknown or repeated attribute, or a table larger than memory.

    Example:
        >>> from pgmjax.data.domain import Domain
        >>> model = GraphicalModel.from_potentials(Domain({"a": 2, "b": 2}), {("a",): [0.0, 0.0]}, total=8)
        >>> [table.tolist() for table in many_marginals(model, [("b",), ("a", "b")])]
        [[4.0, 4.0], [[2.0, 2.0], [2.0, 2.0]]]
    """
    return [table for _, table in model.calibrate().marginals(cliques)]
