"""Regularisation of a fit: relative entropy to the product of the model's own one-way marginals.

A model that fits noisy answers as well as possible follows their noise. The product of its one-way marginals
is known far better than its larger tables, since each of its cells sums many. Hence a fit is pulled towards
that product, with a weight that grows as the noise falls.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.domain import Clique, Domain, marginal_of
from pgmjax.estimation.losses.linear import L2
from pgmjax.inference.plan.structure import MOST_CELLS
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.model.clique_vector import CliqueVector
from pgmjax.model.graphical import GraphicalModel, many_marginals
from pgmjax.queries import Product
from pgmjax.queries.blocks import AttributeQuery, Identity

SETTINGS = ("auto", "none")
EMPTY_CELL_SHIFT, MEAN_COUNT_SHARE = 1.5, 0.4
"""By the automatic weight a count e times the reference's is pulled by so many standard deviations of its
noise where cells are empty, and by fewer where the mean count is above the noise (see `weight_of`). Chosen on
the four tables of McKenna et al. 2019 (bench/paper004)."""
REFERENCE_FLOOR = 0.15
"""The least count of a value in the reference, in standard deviations of a cell's noise."""
MOST_PARTS, PART_STEPS, OVER_RELAXATION = 6, 50, 2.0
"""The reference is found in at most so many parts of the fit, of so many steps, with over-relaxed updates."""
REFERENCE_TOLERANCE = 0.1
"""The reference is found when its last update changes the loss by less than this share of the loss's standard
deviation under the noise."""
WEIGHT_FACTOR, MOST_REDUCTIONS, ERROR_RISE, SMALL_ERROR = 0.4, 3, 1.05, 0.3
"""The automatic weight is multiplied by the first, so many times at most, as long as that raises the
estimated error by no more than `ERROR_RISE`, since the estimate favours large weights. It stays where the
estimated error is below `SMALL_ERROR` standard deviations of a cell's noise: the pull does well, and the
estimate itself is uncertain by as much."""
RISK_GROUPS, FEWEST_CELLS = 20, 100
"""The estimated error is pooled over so many groups of cells and needs at least so many cells."""
PART_EXCESS = 0.3
"""Excess loss at which the parts of a fit before its last one end, in standard deviations of the loss under
the noise."""
FIRST_WEIGHT = 1e-9
"""Weight in the first part, in shares of the total."""
MOST_CODES = 2000
LARGEST = 1e12
"""The largest weight (records): beyond it a model is its reference, and float32 overflows."""

Reference = dict[str, np.ndarray]
"""Logarithm of each attribute's probabilities."""


@dataclasses.dataclass(frozen=True)
class Regularisation:
    """The pull of a fit: a weight times the relative entropy of its model to a reference.

    Attributes:
        weight: weight of the relative entropy (records; the relative entropy is in nats).
        divergence: relative entropy of the fitted model to the reference (nats).
        reference: the product of the model's one-way marginals, as they were found on the way.
        automatic: whether the weight was chosen from the noise.

    Example:
        >>> import pgmjax as pj
        >>> noisy = [pj.LinearMeasurement(("a", "b"), [[9.0, 1.0], [2.0, 8.0]], stddev=3.0)]
        >>> fit = pj.Estimator(regularisation=5.0).fit(pj.Domain({"a": 2, "b": 2}), noisy, total=20)
        >>> print(fit.regularisation)
        pulled towards the product of its one-way marginals: weight 5 records, distance 0.115 nats
        >>> fit.model.marginal(("a", "b")).round(1).tolist()
        [[7.9, 2.3], [3.0, 6.8]]

    References:
        Kullback (1959), Information Theory and Statistics, for the relative entropy to independence (total
        correlation). The weight and its choice are this library's own.
    """

    weight: float
    divergence: float
    reference: GraphicalModel = dataclasses.field(repr=False)
    automatic: bool = False

    def __str__(self) -> str:
        return (
            f"pulled towards the product of its one-way marginals: weight {self.weight:,.4g} records, "
            f"distance {self.divergence:.3g} nats"
        )


def check(setting: Any, loss: Any) -> Any:
    """Return a setting, a text as it is listed; refuse one that the loss does not allow.

    Raises:
        TypeError: neither a text nor a number.
        ValueError: an unknown text, a number that is negative, infinite, NaN or above `LARGEST`, or one for a
            loss that is not l2.
    """
    if isinstance(setting, str):
        return checks.choice("regularisation", setting, SETTINGS, "a weight in records")
    if setting is None or isinstance(setting, bool):
        raise TypeError(f"regularisation must be 'auto', 'none' or a weight in records, got {setting}.")
    checks.number("regularisation", setting, at_least=0)
    if setting > LARGEST:
        raise ValueError(
            f"regularisation must be at most {LARGEST:g} records, got {setting:g}: a share of the number of "
            "records, such as a hundredth, is usual."
        )
    if setting > 0 and not is_known_for(loss):
        raise ValueError(
            "a weight of regularisation needs loss='l2', for which it is defined: leave it out or choose "
            "regularisation='none'."
        )
    return setting


def is_known_for(loss: Any) -> bool:
    """Return whether fits of a loss can be regularised."""
    return loss == "l2" or isinstance(loss, L2)


def noise_of(domain: Domain, rows: Sequence[LinearMeasurement]) -> tuple[float, float]:
    """Return the standard deviation of a cell's noise and the mean number of cells, over measured cliques.

    Both are means over all cells, so that the largest and noisiest tables decide. Cliques of one attribute do
    not count: they are their own product.

    Args:
        domain: the attributes.
        rows: noisy answers.

    Returns:
        Both numbers; 0 if no clique has two attributes.
    """
    precisions: dict[Any, float] = {}
    cells: dict[Any, float] = {}
    for number, one in enumerate(rows):
        if len(one.clique) > 1:
            variance, found = measured_cells(one, domain)
            key = frozenset(one.clique) if found == domain.size(one.clique) else number
            precisions[key] = precisions.get(key, 0.0) + 1 / variance
            cells[key] = found
    if not precisions:
        return 0.0, 0.0
    sizes = np.array(list(cells.values()))
    spreads = np.array(list(precisions.values())) ** -0.5
    return float(sizes @ spreads**2 / (sizes @ spreads)), float(sizes @ sizes / sizes.sum())


def weight_of(setting: float | str, domain: Domain, rows: Sequence[LinearMeasurement], total: float) -> float:
    """Return the weight of the relative entropy (records); 0 for none.

    A cell of noise s alone, whose count is e times the reference's, is moved by ``weight * s**2 / total``.
    The automatic weight makes that ``EMPTY_CELL_SHIFT * s**2 / (s + MEAN_COUNT_SHARE * m)``, with m the mean
    count of a cell.

    Args:
        setting: the weight, "auto" or "none".
        domain: the attributes.
        rows: noisy answers.
        total: the number of records (counts).
    """
    return _weight(setting, *noise_of(domain, rows), total)


def _weight(setting: float | str, spread: float, cells: float, total: float) -> float:
    if setting == "none" or spread == 0:
        return 0.0
    if not isinstance(setting, str):
        return float(setting)
    return EMPTY_CELL_SHIFT * total / (spread + MEAN_COUNT_SHARE * total / cells)


def usable(
    setting: float | str,
    loss: Any,
    domain: Domain,
    rows: Sequence[LinearMeasurement],
    total: float,
    max_steps: int,
) -> tuple[float, float]:
    """Return the weight of a fit (records), and the least probability of a value in a reference.

    The weight is 0 where a fit cannot be regularised. That is a loss other than l2, or a single step: a first
    part finds the product, a second is pulled. The least probability is a share of the noise.

    Args:
        setting: the weight, "auto" or "none".
        loss: the loss or its name.
        domain: the attributes.
        rows: noisy answers.
        total: the number of records (counts).
        max_steps: maximum number of steps of the fit.
    """
    if setting == "none" or max_steps < 2 or not is_known_for(loss):
        return 0.0, 0.0
    spread, cells = noise_of(domain, rows)
    return _weight(setting, spread, cells, total), REFERENCE_FLOOR * spread / total


def estimated_error(
    domain: Domain,
    rows: Sequence[LinearMeasurement],
    cliques: Sequence[Clique],
    marginals: Sequence[np.ndarray],
    weight: float,
    total: float,
) -> float:
    """Return an estimate of a pulled model's mean absolute error, in standard deviations of a cell's noise.

    In groups of measured cells of like size, Stein's estimate ``d**2 - 1 + 2 h`` of the mean square error is
    averaged, with d the distance of the model from the noisy count in standard deviations and h how much the
    one follows the other. The mean of its root over the groups is near an absolute error, which small cells
    decide, where the mean square error would be decided by few large ones. For h that of a cell alone stands,
    ``c / (c + weight * s**2 / total)`` at count c with noise s: where tables overlap a model follows less.

    Args:
        domain: the attributes.
        rows: noisy answers; those that are no counts of cells are left out.
        cliques: those of the model's marginals; each measured clique is within one.
        marginals: the marginals (probabilities).
        weight: weight of the relative entropy (records).
        total: the number of records (counts).

    Returns:
        The estimate; infinity if fewer than `FEWEST_CELLS` cells were measured.

    References:
        Stein 1981, "Estimation of the mean of a multivariate normal distribution", Annals of Statistics 9.
    """
    sizes, squares, follows = [], [], []
    for one in rows:
        if len(one.clique) < 2 or not one.query.is_identity:
            continue
        place = next(k for k, clique in enumerate(cliques) if set(one.clique) <= set(clique))
        table = marginal_of(cliques[place], marginals[place], one.clique)
        spread, counts = one.row_stddevs(), total * table.reshape(-1) / table.sum()
        sizes.append(counts / spread)
        squares.append(((one.flat_values() - counts) / spread) ** 2)
        follows.append(counts / (counts + weight * spread**2 / total))
    if sum(map(len, sizes)) < FEWEST_CELLS:
        return math.inf
    order = np.argsort(np.concatenate(sizes), kind="stable")
    square, follow = np.concatenate(squares)[order], np.concatenate(follows)[order]
    parts = zip(np.array_split(square, RISK_GROUPS), np.array_split(follow, RISK_GROUPS), strict=True)
    risks = [(len(s), max(s.mean() - 1 + 2 * h.mean(), np.mean(h**2))) for s, h in parts]
    return sum(count * math.sqrt(risk) for count, risk in risks) / len(square)


def measured_cells(measurement: LinearMeasurement, domain: Domain) -> tuple[float, float]:
    """Return the noise of what a measurement counts, and into how many parts it divides the table.

    Where it determines all cells of its clique these are the mean variance of their least-squares estimates
    (counts squared) and their number. Otherwise a row is a coarse cell: the variance of a row's noise, and
    one over the mean share of the cells that a row sums. Blocks of more than 2,000 codes and larger queries
    that are no products count as the identity.

    Returns:
        Both numbers.
    """
    variance = 1 / float(np.mean(1 / measurement.row_stddevs() ** 2))
    query, cells = measurement.query, float(min(domain.size(measurement.clique), MOST_CELLS))
    if isinstance(query, Product):
        blocks = zip(query.clique, query.blocks, strict=True)
        facts = [_block(block, domain[name]) for name, block in blocks]
    else:
        facts = [(1.0, 1.0)] if cells > MOST_CODES else [_of_matrix(query.matrix(domain))]
    spread, share = (math.prod(each) for each in zip(*facts, strict=True))
    if math.isfinite(spread):
        return variance * spread, cells
    return variance, 1 / share if share > 0 else cells


@functools.lru_cache(maxsize=256)
def _block(block: AttributeQuery, size: int) -> tuple[float, float]:
    """Return a code's mean variance from answers with noise of variance 1, and a row's share of codes."""
    if isinstance(block, Identity) or size > MOST_CODES:
        return 1.0, 1 / size
    return _of_matrix(block.matrix(size))


def _of_matrix(matrix: np.ndarray) -> tuple[float, float]:
    """Return the same of a matrix; the variance is infinite if its rows do not determine the codes."""
    size = matrix.shape[1]
    share = float(np.mean(np.abs(matrix).sum(1))) / size
    if np.linalg.matrix_rank(matrix) < size:
        return math.inf, share
    return float(np.trace(np.linalg.inv(matrix.T @ matrix))) / size, share


def report(
    domain: Domain,
    total: float,
    weight: float,
    divergence: float,
    logarithms: Reference,
    automatic: bool = False,
) -> Regularisation:
    """Return what a fit was pulled towards.

    Args:
        domain: the attributes.
        total: the number of records (counts).
        weight: weight of the relative entropy (records).
        divergence: relative entropy of the fitted model to the reference (nats).
        logarithms: of each attribute's probabilities in the reference.
        automatic: whether the weight was chosen from the noise.
    """
    tables = tuple(np.asarray(log, np.float64) for log in logarithms.values())
    logs = CliqueVector(tuple((name,) for name in logarithms), tables)
    return Regularisation(weight, divergence, GraphicalModel(domain, logs, total), automatic)


def one_way(cliques: Sequence[Clique], marginals: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """Return the probabilities of each attribute's values, from a model's marginals of cliques."""
    found: dict[str, np.ndarray] = {}
    for clique, table in zip(cliques, marginals, strict=True):
        for name in clique:
            if name not in found:
                found[name] = marginal_of(clique, table, (name,)) / table.sum()
    return found


def reference_of(model: GraphicalModel | None, cliques: Sequence[Clique], least: float) -> Reference:
    """Return the product of an earlier model's one-way marginals, as a first reference.

    Args:
        model: the earlier model.
        cliques: of the fit.
        least: least probability of a value.

    Returns:
        The reference; empty without a model, or if the model's cliques lack an attribute of the fit, about
        which it then knows nothing.
    """
    names = {name for clique in cliques for name in clique}
    if model is None or not names <= {name for clique in model.potentials.cliques for name in clique}:
        return {}
    singles = [(name,) for name in model.domain.attributes if name in names]
    return moved({}, one_way(singles, many_marginals(model, singles)), least)[0]


def moved(reference: Reference, shares: dict[str, np.ndarray], least: float) -> tuple[Reference, float]:
    """Return the product of one-way marginals as a reference, and how far it is from an earlier one.

    Fits towards a reference and updates of the reference alternate, which lowers the loss plus the weighted
    relative entropy to the product of the model's own one-way marginals. Steps of `OVER_RELAXATION` times the
    update need fewer rounds.

    Args:
        reference: the earlier reference; empty for the first.
        shares: probabilities of each attribute's values.
        least: least probability of a value.

    Returns:
        The new reference, and the relative entropy of the one-way marginals to the earlier one (nats).
    """
    found, distance = {}, 0.0
    for name, share in shares.items():
        log = _logarithm(share, least)
        if name in reference:
            distance += float(share @ (log - reference[name]))
            log = _logarithm(np.exp(reference[name] + OVER_RELAXATION * (log - reference[name])), least)
        found[name] = log
    return found, max(distance, 0.0) if reference else math.inf


def _logarithm(weights: np.ndarray, least: float) -> np.ndarray:
    shares = np.maximum(weights / weights.sum(), least)
    return np.log(shares / shares.sum())


def tables_of(
    reference: Reference, cliques: Sequence[Clique], shapes: Sequence[tuple[int, ...]]
) -> tuple[np.ndarray, ...]:
    """Return a reference as a table for each clique, whose sum is its logarithm."""
    tables, left = [], dict(reference)
    for clique, shape in zip(cliques, shapes, strict=True):
        table = np.zeros(shape)
        for axis, name in enumerate(clique):
            if name in left:
                table += left.pop(name).reshape([-1 if k == axis else 1 for k in range(len(shape))])
        tables.append(table)
    return tuple(tables)
