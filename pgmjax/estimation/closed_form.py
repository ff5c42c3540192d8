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
    precisions: dict[Clique, np.ndarray] = {}
    parts: dict[Clique, tuple[np.ndarray, float]] = {}
    for one in measurements:
        if len(one.clique) > MOST or one.query != marginal(one.clique):
            continue
        clique, values, variances = _in_order(domain, one)
        values = values + variances * ((total - values.sum()) / variances.sum())
        precisions[clique] = precisions.get(clique, 0.0) + 1 / variances
        for names, part, precision in _parts(domain, clique, values, 1 / float(np.mean(1 / variances))):
            before, weight = parts.get(names, (0.0, 0.0))
            parts[names] = before + precision * part, weight + precision
    ordered = [tuple(name for name in domain if name in clique) for clique in cliques]
    known = [place for place, clique in enumerate(ordered) if clique in precisions]
    for place, shared in _tree([ordered[place] for place in known]):
        clique = ordered[known[place]]
        estimate = _estimate(domain, clique, parts, total) / total
        table = _on_simplex(estimate, 1 / (precisions[clique] * total**2))
        logs = np.log(table)
        if shared:
            axes = [axis for axis, name in enumerate(clique) if name not in shared]
            logs -= np.log(table.sum(tuple(axes), keepdims=True))
        tables[known[place]] = marginal_of(clique, logs, cliques[known[place]])
    return tables


def _in_order(domain: Domain, measurement: LinearMeasurement) -> tuple[Clique, np.ndarray, np.ndarray]:
    """Return clique, noisy counts and variances of a table, with the attributes in the domain's order."""
    own = measurement.clique
    clique, shape = tuple(name for name in domain if name in own), domain.shape_of(own)
    found = (measurement.flat_values(), measurement.row_stddevs() ** 2)
    values, variances = (marginal_of(own, each.reshape(shape), clique) for each in found)
    return clique, values, variances


def _on_simplex(values: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """Return the nearest probabilities in units of the noise, none below a small share of it."""
    least = np.minimum(LEAST * np.sqrt(variances), 0.5 / values.size)
    # where the multiplier lifts each cell off its least value, in falling order
    ends = np.sort(((values - least) / variances).reshape(-1))
    low, high = ends[0] - 1 / variances.min(), ends[-1]
    for _ in range(200):
        middle = (low + high) / 2
        above = np.maximum(values - middle * variances, least).sum() > 1
        low, high = (middle, high) if above else (low, middle)
    found = np.maximum(values - low * variances, least)
    return np.asarray(found / found.sum())


def _parts(
    domain: Domain, clique: Clique, table: np.ndarray, variance: float
) -> Iterator[tuple[Clique, np.ndarray, float]]:
    """Yield the attributes of every part of a table, the part itself and its precision."""
    for count in range(1, len(clique) + 1):
        for names in itertools.combinations(clique, count):
            part = marginal_of(clique, table, names)
            for axis in range(count):
                part = part - part.mean(axis, keepdims=True)
            yield names, part, domain.size(names) / (variance * domain.size(clique))


def _estimate(
    domain: Domain, clique: Clique, parts: dict[Clique, tuple[np.ndarray, float]], total: float
) -> np.ndarray:
    """Return the estimated counts of a clique in the domain's order, whose parts are all known."""
    cells = domain.size(clique)
    found = np.full(domain.shape_of(clique), total / cells)
    for count in range(1, len(clique) + 1):
        for names in itertools.combinations(clique, count):
            part, precision = parts[names]
            shape = [domain[name] if name in names else 1 for name in clique]
            found += (part / precision * (domain.size(names) / cells)).reshape(shape)
    return found


def _tree(cliques: Sequence[Clique]) -> Iterator[tuple[int, frozenset[str]]]:
    """Yield cliques that form junction trees, by their place, each with what it shares with those before.

    A clique can follow if one clique before it holds all that it shares with them. As the largest share comes
    first, all cliques of a junction tree are found (Prim's algorithm on the sizes of shares).
    """
    left, seen = dict(enumerate(map(frozenset, cliques))), set[str]()
    taken: list[frozenset[str]] = []
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
