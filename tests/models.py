"""Random models, and a brute-force reference in plain NumPy that shares no code with the library."""

import itertools

import numpy as np

STRUCTURES = {
    "chain": ((3, 4, 2, 5), ((0, 1), (1, 2), (2, 3))),
    "loop": ((3, 2, 4, 2), ((0, 1), (1, 2), (2, 3), (3, 0))),
    "star": ((4, 3, 2, 3), ((1, 0), (2, 0), (3, 0))),
    "triangle": ((3, 4, 2), ((0, 1), (1, 2), (2, 0))),
    "disconnected": ((3, 2, 4, 3), ((0, 1), (2,), (3, 2))),
    "nested": ((3, 2, 4), ((0, 1, 2), (1,), (2, 0))),
    "one": ((5,), ((0,),)),
    "size one": ((3, 1, 2), ((0, 1), (1, 2))),
    "wide": ((2, 3, 2, 2, 3), ((0, 1, 2), (2, 3, 4), (4, 0), (1, 3))),
    "repeated": ((3, 4), ((0, 1), (1, 0))),
}


def potentials(structure, seed=0, spread=1.0, zeros=0.0):
    """Random log-potentials; a share of the cells is minus infinity, cell 0 never."""
    sizes, cliques = structure
    rng = np.random.default_rng(seed)
    tables = []
    for clique in cliques:
        table = spread * rng.normal(size=[sizes[v] for v in clique])
        table[rng.random(table.shape) < zeros] = -np.inf
        table[(0,) * table.ndim] = spread * rng.normal()
        tables.append(table)
    return tables


def joint(structure, tables):
    """Sum of potentials of every cell [sizes], cell by cell."""
    sizes, cliques = structure
    result = np.zeros(sizes)
    for cell in itertools.product(*map(range, sizes)):
        result[cell] = sum(t[tuple(cell[v] for v in c)] for t, c in zip(tables, cliques, strict=True))
    return result


def marginal(logits, variables):
    """Probabilities of some variables, axes in the order asked for."""
    weights = np.exp(logits - logits.max())
    weights /= weights.sum()
    summed = weights.sum(axis=tuple(i for i in range(weights.ndim) if i not in variables))
    kept = [i for i in range(weights.ndim) if i in variables]
    return summed.transpose([kept.index(v) for v in variables])


def log_partition(logits):
    top = logits.max()
    return top + np.log(np.exp(logits - top).sum())
