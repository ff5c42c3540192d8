"""Synthetic rows of models that are too large to walk through: chains, each read once."""

from __future__ import annotations

import numpy as np

from pgmjax.history.max_entropy.chains import Chains
from pgmjax.model.graphical import GraphicalModel

BATCH = 50_000


def draw(model: GraphicalModel, rows: int, seed: int, sweeps: int) -> dict[str, np.ndarray]:
    """Draw rows by as many chains, in batches.

    Args:
        model: the distribution; its cliques' marginals, where known, start the chains.
        rows: how many.
        seed: the same seed gives the same rows.
        sweeps: over all attributes, from independent ones.

    Returns:
        For each attribute the codes [rows].
    """
    domain, cliques = model.domain, model.potentials.cliques
    held = {name for clique in model.marginals.cliques for name in clique}
    starts = [
        model.marginal((name,)) / model.total if name in held else np.full(domain[name], 1.0 / domain[name])
        for name in domain.attributes
    ]
    parts = []
    for number, first in enumerate(range(0, rows, BATCH)):
        count = min(BATCH, rows - first)
        chains = Chains.start(domain, cliques, starts, count, seed + number)
        parts.append(np.asarray(chains.swept(model.potentials.tables, sweeps).codes, np.int64))
    every = np.concatenate([np.zeros((len(domain), 0), np.int64), *parts], axis=1)
    return dict(zip(domain.attributes, every, strict=True))
