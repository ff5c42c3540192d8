"""Start of a fit in closed form: the largest junction tree of measured cliques, in its product form.

If the measured cliques form a junction tree, the model with given marginals p_C that agree on their overlaps
is the product of all p_C over the product of all p_S, with S what each clique shares with those before it.
The marginals themselves are the best linear unbiased estimates from all measured tables, which agree exactly.
Where none of their cells is negative this is the optimum of the l2 loss for equal noise within each table;
else negative cells are raised to a small share of the noise and the fit begins near its optimum. Of cliques
with loops a tree is taken, and the others begin with potentials of 0.

Estimates come from the residual basis: a table on C is the sum over all S within C of a part that has mean 0
along each attribute of S; parts of different S have independent noise, so that each is averaged by its
precision.

References:
    Lauritzen (1996), Graphical Models, 4.4.1 (the product form); Xiao, He, Zhang and Kifer (2023), An Optimal
        and Scalable Matrix Mechanism for Noisy Marginals under Convex Loss Functions (the residual basis).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from pgmjax.data.cliques import Clique, marginal_of
from pgmjax.data.domain import Domain
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.queries import marginal

LEAST = 0.1  # standard deviations of its noise: the least count that a cell begins with
MOST = 8  # attributes of a clique; one of more has too many parts


def closed_form(
    domain: Domain, cliques: Sequence[Clique], measurements: Sequence[LinearMeasurement], total: float
) -> list[np.ndarray]:
    """Return initial log-potentials.

    Args:
        domain: the attributes.
        cliques: the measured cliques, no two over the same attributes.
        measurements: noisy answers; those that are no counts of all cells of a clique are left out.
        total: the number of records (counts).

    Returns:
        For each clique finite log-potentials [size of each attribute], float64; 0 for one that is not in the
        tree.
    """
    tables = [np.zeros(domain.shape_of(clique)) for clique in cliques]
    spreads: dict[frozenset[str], float] = {}
    parts: dict[Clique, tuple[np.ndarray, float]] = {}
    for one in measurements:
        if len(one.clique) > MOST or one.query != marginal(one.clique):
            continue
        variance = 1 / float(np.mean(1 / one.row_stddevs() ** 2))
        key = frozenset(one.clique)
        spreads[key] = min(math.sqrt(variance), spreads.get(key, math.inf))
        for names, part, precision in _parts(domain, one, variance):
            before, weight = parts.get(names, (0.0, 0.0))
            parts[names] = before + precision * part, weight + precision
    known = [place for place, clique in enumerate(cliques) if frozenset(clique) in spreads]
    for place, shared in _tree([cliques[place] for place in known]):
        clique = cliques[known[place]]
        least = LEAST * spreads[frozenset(clique)] / total
        table = _estimate(domain, clique, parts, total) / total
        table = np.maximum(table, min(least, 1 / table.size))
        logs = np.log(table / table.sum())
        if shared:
            axes = [axis for axis, name in enumerate(clique) if name not in shared]
            logs -= np.log(np.exp(logs).sum(tuple(axes), keepdims=True))
        tables[known[place]] = logs
    return tables


def _parts(
    domain: Domain, measurement: LinearMeasurement, variance: float
) -> Iterator[tuple[Clique, np.ndarray, float]]:
    """Yield every part of a noisy table, with its attributes in the domain's order, and its precision."""
    clique = tuple(name for name in domain if name in measurement.clique)
    table = measurement.flat_values().reshape(domain.shape_of(measurement.clique))
    table = marginal_of(measurement.clique, table, clique)
    for count in range(1, len(clique) + 1):
        for names in itertools.combinations(clique, count):
            part = marginal_of(clique, table, names)
            for axis in range(count):
                part = part - part.mean(axis, keepdims=True)
            yield names, part, 1 / (variance * domain.size(clique) / domain.size(names))


def _estimate(
    domain: Domain, clique: Clique, parts: dict[Clique, tuple[np.ndarray, float]], total: float
) -> np.ndarray:
    """Return the estimated counts of a clique whose parts are all known."""
    ordered = tuple(name for name in domain if name in clique)
    cells = domain.size(clique)
    found = np.full(domain.shape_of(ordered), total / cells)
    for count in range(1, len(ordered) + 1):
        for names in itertools.combinations(ordered, count):
            part, precision = parts[names]
            shape = [domain[name] if name in names else 1 for name in ordered]
            found += (part / precision * (domain.size(names) / cells)).reshape(shape)
    return np.asarray(marginal_of(ordered, found, clique))


def _tree(cliques: Sequence[Clique]) -> Iterator[tuple[int, frozenset[str]]]:
    """Yield cliques that form junction trees, by their place, each with what it shares with those before.

    A clique can follow if one clique before it holds all that it shares with them. As the largest share comes
    first, all cliques of a junction tree are found (Prim's algorithm on the sizes of shares).
    """
    left, taken, seen = dict(enumerate(map(frozenset, cliques))), [], set[str]()
    while left:
        shares = {place: clique & seen for place, clique in left.items()}
        able = [p for p, share in shares.items() if share and any(share <= other for other in taken)]
        if not able:
            able = [place for place, share in shares.items() if not share][:1]
        if not able:
            return
        place = max(able, key=lambda p: (len(shares[p]), -p))
        yield place, frozenset(shares[place])
        taken.append(left.pop(place))
        seen |= taken[-1]
