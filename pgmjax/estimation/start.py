"""The start of a fit: in closed form, or from an earlier model. Neither can make a fit wrong.

In closed form: the largest junction tree of measured cliques, in its product form.

If the measured cliques form a junction tree, the model with given marginals p_C that agree on their overlaps
is the product of all p_C over the product of all p_S, with S what each clique shares with those before it.
The marginals themselves are the best linear unbiased estimates from all measured tables, which agree exactly.
Where none of their cells is negative this is the optimum of the l2 loss for equal noise within each table;
else negative cells are raised to a small share of the noise and the fit begins near its optimum. Of cliques
with loops a tree is taken, and the others begin with potentials of 0.

Estimates come from the residual basis: a table on C is the sum over all S within C of a part that has mean 0
along each attribute of S; parts of different S have independent noise, so that each is averaged by its
precision.

From an earlier model, keeping all that the new cliques can represent.

A potential whose clique is a subset of a measured clique is added to that clique's: the distribution is then
the earlier one exactly, for any added cliques. A potential t over a clique O that is a subset of none (its
clique was split, or is no longer measured) is replaced by a sum s of tables over the intersections D of O
with the measured cliques. The earlier distribution is p(O) p(others | O), and replacing t by s changes only
its first factor, so the loss of information,

    KL(p || q) = KL(p(O) || q(O)),   q(O) proportional to exp(r + s),   r = log p(O) - t,

concerns a single table. It is minimal if q(O) has the marginals of p on every D, the limit of iterative
proportional fitting. Several such cliques are replaced independently of one another.

The certificate holds at any point, from any start.

References:
    Lauritzen (1996), Graphical Models, 4.4.1 (the product form); Xiao, He, Zhang and Kifer (2023), An Optimal
        and Scalable Matrix Mechanism for Noisy Marginals under Convex Loss Functions (the residual basis).
    Csiszar (1975), I-divergence geometry of probability distributions (iterative proportional fitting).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from pgmjax.data.domain import Clique, Domain, all_subsets, differing, first_holding, in_order, marginal_of
from pgmjax.inference import ops
from pgmjax.inference.oracles.host import HostModel
from pgmjax.inference.plan.forecast import ModelTooLargeError
from pgmjax.inference.plan.structure import Structure
from pgmjax.kernels.log_sum_exp import host_logsumexp
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.residual import MeasuredTable, ResidualAnswers
from pgmjax.model.graphical import GraphicalModel

LEAST_COUNT = 0.1  # standard deviations of its noise: the least count that a cell begins with
MOST_ATTRIBUTES = 8  # attributes of a clique; one of more has too many parts
SWEEPS = 100  # of proportional fitting; two suffice if the intersections form a tree
TOLERANCE = 1e-6  # nats: precise enough for a start


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
    measured = []
    for one in measurements:
        if len(one.clique) > MOST_ATTRIBUTES or not one.query.is_identity:
            continue
        shape, clique = domain.shape_of(one.clique), in_order(domain, one.clique)
        values = marginal_of(one.clique, one.flat_values().reshape(shape), clique)
        variances = marginal_of(one.clique, (one.row_stddevs() ** 2).reshape(shape), clique)
        values = values + variances * ((total - values.sum()) / variances.sum())
        precisions[clique] = precisions.get(clique, 0.0) + 1 / variances
        measured.append(MeasuredTable(clique, values, 1 / float(np.mean(1 / variances))))
    residuals = ResidualAnswers(domain, measured)
    ordered = [in_order(domain, clique) for clique in cliques]
    known = [place for place, clique in enumerate(ordered) if clique in precisions]
    for place, shared in _tree([ordered[place] for place in known]):
        clique = ordered[known[place]]
        estimate = _estimate(residuals, clique, total) / total
        table = _on_simplex(estimate, 1 / (precisions[clique] * total**2))
        logs = np.log(table)
        if shared:
            axes = [axis for axis, name in enumerate(clique) if name not in shared]
            logs -= np.log(table.sum(tuple(axes), keepdims=True))
        tables[known[place]] = marginal_of(clique, logs, cliques[known[place]])
    return tables


def _on_simplex(values: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """Return the nearest probabilities in units of the noise, none below a small share of it."""
    least = np.minimum(LEAST_COUNT * np.sqrt(variances), 0.5 / values.size)
    # where the multiplier lifts each cell off its least value, in falling order
    ends = np.sort(((values - least) / variances).reshape(-1))
    low, high = ends[0] - 1 / variances.min(), ends[-1]
    for _ in range(200):
        middle = (low + high) / 2
        above = np.maximum(values - middle * variances, least).sum() > 1
        low, high = (middle, high) if above else (low, middle)
    found = np.maximum(values - low * variances, least)
    return np.asarray(found / found.sum())


def _estimate(residuals: ResidualAnswers, clique: Clique, total: float) -> np.ndarray:
    """Return the estimated counts of a measured clique in the domain's order."""
    domain = residuals.domain
    cells = domain.size(clique)
    found = np.full(domain.shape_of(clique), total / cells)
    for names in all_subsets(clique):
        if names:
            residual, _ = residuals.residual(names)
            shape = [domain[name] if name in names else 1 for name in clique]
            found += (residual * (domain.size(names) / cells)).reshape(shape)
    return found


def _tree(cliques: Sequence[Clique]) -> Iterator[tuple[int, frozenset[str]]]:
    """Yield cliques that form junction trees, by their place, each with what it shares with those before.

    A clique can follow if one clique before it holds all that it shares with them. As the largest share comes
    first, all cliques of a junction tree are found (Prim's algorithm on the sizes of shares).
    """
    left, seen = dict(enumerate(map(frozenset, cliques))), set[str]()
    taken: list[frozenset[str]] = []
    while left:
        chosen: tuple[int, frozenset[str]] | None = None  # the first of those with the largest share
        for place, clique in left.items():
            share = frozenset(clique & seen)
            able = not share or any(share <= other for other in taken)
            if able and (chosen is None or len(share) > len(chosen[1])):
                chosen = place, share
        if chosen is None:
            return
        yield chosen
        taken.append(left.pop(chosen[0]))
        seen |= taken[-1]


def starting_point(
    domain: Domain, cliques: Sequence[Clique], model: GraphicalModel | None
) -> list[np.ndarray]:
    """Return initial log-potentials.

    Args:
        domain: the attributes.
        cliques: the measured cliques, no two over the same attributes.
        model: an earlier model over the same domain, with any cliques and any total; None for the
            uniform distribution. Its impossible cells come from its constraints and are not carried over:
            they start with the mean weight of their table's possible cells.

    Returns:
        For each clique finite log-potentials [size of each attribute], float64.

    Raises:
        ValueError: a model over another domain.
    """
    tables = [np.zeros(domain.shape_of(clique)) for clique in cliques]
    if model is None:
        return tables
    if model.domain != domain:
        said = f"they differ in {differing(domain, model.domain)}"
        raise ValueError(f"warm_start must be a model over the same domain: {said}.")
    for number, clique in enumerate(model.potentials.cliques):
        if first_holding(cliques, clique) is not None:
            parts = {clique: model.potentials.tables[number]}
        else:
            parts = _replaced(model, number, _intersections(cliques, clique))
        for names, table in parts.items():
            holder = first_holding(cliques, names)
            assert holder is not None
            tables[holder] += ops.align(_finite(table), names, cliques[holder])
    return tables


def _intersections(cliques: Sequence[Clique], clique: Clique) -> list[Clique]:
    """Return the maximal nonempty intersections of a clique with the given cliques."""
    parts = {tuple(name for name in clique if name in other) for other in cliques} - {()}
    return sorted(part for part in parts if not any(set(part) < set(other) for other in parts))


def _replaced(model: GraphicalModel, number: int, parts: Sequence[Clique]) -> dict[Clique, np.ndarray]:
    """Return the tables over parts of a clique that best replace its potential."""
    clique, potential = model.potentials.cliques[number], model.potentials.tables[number]
    possible = potential > -np.inf
    others = _log_weight_of_others(model, number)
    others = np.where(possible, others, -np.inf)
    truth = others + np.where(possible, potential, 0.0)
    scale = host_logsumexp(truth, tuple(range(truth.ndim)))
    if not parts or not np.isfinite(scale):
        return {}
    return _fitted(clique, others, truth - scale, parts)


def _log_weight_of_others(model: GraphicalModel, number: int) -> np.ndarray:
    """Return the log-marginal of all other potentials, over the cells of one potential.

    If that does not fit in memory the other potentials are ignored.
    """
    structure, _ = Structure.named(model.domain.sizes, model.potentials.cliques)
    tables = list(model.potentials.tables)
    tables[number] = np.zeros_like(tables[number])
    try:
        return HostModel(structure, tuple(tables)).log_sum(structure.cliques[number])
    except ModelTooLargeError:
        return tables[number]


def _fitted(
    clique: Clique, others: np.ndarray, truth: np.ndarray, parts: Sequence[Clique]
) -> dict[Clique, np.ndarray]:
    """Return the tables whose sum, added to `others`, has the marginals of `truth` on every part."""
    gone = [tuple(i for i, name in enumerate(clique) if name not in part) for part in parts]
    wanted = [host_logsumexp(truth, axes) for axes in gone]
    found = [np.zeros_like(table) for table in wanted]
    guess = others
    for _ in range(SWEEPS):
        moved = 0.0
        for i, (part, axes) in enumerate(zip(parts, gone, strict=True)):
            known = wanted[i] > -np.inf
            now = host_logsumexp(guess, axes)
            change = np.where(known, wanted[i] - np.where(known, now, 0.0), 0.0)
            found[i] = found[i] + change
            guess = guess + ops.align(change, part, clique)
            moved = max(moved, float(np.sum(np.exp(wanted[i]) * np.abs(change))))
        if moved < TOLERANCE:
            break
    masked = (np.where(w > -np.inf, table, -np.inf) for w, table in zip(wanted, found, strict=True))
    return dict(zip(parts, masked, strict=True))


def _finite(table: np.ndarray) -> np.ndarray:
    """Return a log-table with impossible cells set to the mean weight of the others."""
    possible = table > -np.inf
    if possible.all():
        return table
    weights = host_logsumexp(table, tuple(range(table.ndim)))
    mean = weights - np.log(max(int(possible.sum()), 1))
    return np.where(possible, table, mean if np.isfinite(mean) else 0.0)
