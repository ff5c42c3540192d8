"""The dual of maximum entropy: a concave function of one weight per row, with exact gradients.

``D(w) = w . pi - log Z(w) - conjugate(w)``, Z(w) = sum over cells of ``p0 exp(sum_i w_i f_i)``, is maximised;
its gradient is ``pi - p_w[f] - conjugate'(w)``. At every w the model p_w is primal feasible, and
``Q(p_w) - D(w)`` bounds the distance of both from the optimum.

Features. A row of a history is a sum of terms, each a product of one vector per attribute. Terms on the same
attributes share a table: its log-potentials are the terms' outer products times their weights, and the
expected answers are the same products summed against the marginal. No row is ever expanded over the whole
domain.

Penalty. With n records, answers a, fractions pi = a / n and residuals r = pi - p[f], the negative
log-likelihood times alpha is ``sum_i beta_i abs(r_i)`` for Laplace noise, beta_i = alpha n / b_i, and
``alpha n^2 r' S^-1 r / 2`` for Gaussian noise of covariance S. Their conjugates are the box
``abs(w_i) <= beta_i`` and the ridge ``w' S w / (2 alpha n^2)``.

References:
    Chen, Zhou and Bhowmick 2012, Theorem 6 and equations 26 to 30 and 36 to 41.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np

from pgmjax.data.domain import Clique
from pgmjax.history.history import History
from pgmjax.history.kernel.inner_products import squared_norms
from pgmjax.history.prior import ProductPrior
from pgmjax.history.rows import Rows, TermGroup, VectorProducts, prior_over
from pgmjax.inference import oracles
from pgmjax.inference.plan.structure import Structure
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace

MAX_TABLE = 50_000_000
"""Cells of the largest table over the attributes of one term (400 MB)."""


@dataclasses.dataclass(frozen=True, eq=False)
class Dual:
    """The dual problem, with exact inference.

    Attributes:
        features: the rows and the prior.
        targets: the noisy answers over the total [rows].
        penalty: penalty for the noise.
        alpha: weight of the likelihood that is in the penalty.
        total: number of records (counts).
        plan: plan of inference on the features' cliques; None without exact inference.
    """

    features: Features
    targets: np.ndarray
    penalty: Penalty
    alpha: float
    total: float
    plan: oracles.Plan | None = None

    def at(self, weights: np.ndarray) -> DualPoint:
        """Evaluate the dual, its gradient and the primal at weights within the box: one inference."""
        assert self.plan is not None
        tables = self.features.tables(weights)
        log_partition, marginals = self.plan.infer(tables)
        marginals = [np.asarray(table, np.float64) for table in marginals]
        answers = self.features.answers(marginals[: len(self.features.groups)])
        return self.point(weights, tables, log_partition, marginals, answers)

    def point(
        self,
        weights: np.ndarray,
        tables: list[np.ndarray],
        log_partition: float,
        marginals: list[np.ndarray],
        answers: np.ndarray,
    ) -> DualPoint:
        """Assemble the point from the results of inference."""
        # terms without attributes have no table: they move log Z by themselves
        log_partition += float(weights @ self.features.constants)
        conjugate, slope = self.penalty.conjugate(weights)
        residuals = self.targets - answers
        divergence = float(weights @ answers) - log_partition
        return DualPoint(
            weights,
            tables,
            marginals,
            answers,
            value=float(weights @ self.targets) - log_partition - conjugate,
            gradient=residuals - slope,
            primal=divergence + self.penalty.value(residuals),
        )

    def scales(self) -> np.ndarray:
        """Return a step size for every weight [rows]: one over the root of its curvature at the prior."""
        rows, prior = self.features.rows, self.features.prior
        spreads = np.maximum(squared_norms(rows, prior) - rows.mean(prior) ** 2, 0.0)
        variances = spreads + self.penalty.curvature
        largest = float(variances.max(initial=0.0))
        # a row that is constant under the prior has no curvature to divide by
        return np.asarray(1.0 / np.sqrt(np.maximum(variances, 1e-12 * largest if largest else 1.0)))


@dataclasses.dataclass(frozen=True, eq=False)
class DualPoint:
    """The dual and primal quantities at some weights.

    Attributes:
        weights: [rows].
        tables: log-potentials of every clique.
        marginals: their marginals (probabilities).
        answers: expected feature of every row [rows].
        value: the dual objective.
        gradient: its gradient [rows].
        primal: the primal objective, at least `value` up to rounding.
    """

    weights: np.ndarray
    tables: list[np.ndarray]
    marginals: list[np.ndarray]
    answers: np.ndarray
    value: float
    gradient: np.ndarray
    primal: float


@dataclasses.dataclass(frozen=True, eq=False)
class Features:
    """All rows as features of one record, grouped by the attributes of their terms, and the prior.

    Attributes:
        rows: the rows.
        prior: the prior.
        groups: their terms grouped by attributes, excluding terms without attributes.
        constants: sum of the terms without attributes in each row [rows].
        cliques: the attributes of each group, then single attributes whose prior has no other place.
        base: log-probabilities of the prior, each attribute's in the first clique that contains it.
    """

    rows: Rows
    prior: ProductPrior
    groups: tuple[CliqueTerms, ...]
    constants: np.ndarray
    cliques: tuple[Clique, ...]
    base: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, rows: Rows, prior: ProductPrior | None = None) -> Features:
        """Group the terms of rows, and assign the prior of every attribute to a clique.

        Args:
            rows: the rows.
            prior: the prior. Default: the uniform one.

        Raises:
            ValueError: a term names attributes with more than `MAX_TABLE` cells together, or the prior is
                over another domain.
        """
        prior = prior_over(rows.domain, prior)
        constants: np.ndarray = np.zeros(rows.num_rows)
        groups = []
        for group in rows.groups:
            if group.attributes:
                groups.append(CliqueTerms.of(rows, group))
            else:
                owner = rows.owner[group.terms]
                constants = np.bincount(owner, rows.coefficients[group.terms], rows.num_rows)
        cliques = [group.clique for group in groups]
        for name, p in zip(rows.domain, prior.probabilities, strict=True):
            uniform = bool(cliques) and np.all(p == p[0])  # it has no effect where no clique holds it
            if not uniform and not any(name in clique for clique in cliques):
                cliques.append((name,))
        base: list[np.ndarray] = []
        left = dict(zip(rows.domain, prior.probabilities, strict=True))
        for clique in cliques:
            # a probability of 0 is to become -inf, so that its cells stay impossible
            with np.errstate(divide="ignore"):
                logs = [np.log(left.pop(name, np.ones(rows.domain[name]))) for name in clique]
            base.append(functools.reduce(np.add.outer, logs))
        return cls(rows, prior, tuple(groups), constants, tuple(cliques), tuple(base))

    def plan(self, oracle: str, dtype: str, max_bytes: int | None) -> oracles.Plan:
        """Plan inference on the cliques; raise `ModelTooLargeError` if it does not fit."""
        structure, attributes = Structure.named(self.rows.domain.sizes, list(self.cliques))
        return oracles.plan(
            structure,
            attributes,
            oracle,
            itemsize=np.dtype(dtype).itemsize,
            max_bytes=max_bytes,
            finite=all(bool(np.isfinite(table).all()) for table in self.base),
            compiled=True,
        )

    def tables(self, weights: np.ndarray) -> list[np.ndarray]:
        """Return the log-potentials of all cliques: the rows' with the prior's."""
        added = zip(self.potentials(weights), self.base, strict=False)
        return [*(table + base for table, base in added), *self.base[len(self.groups) :]]

    def potentials(self, weights: np.ndarray) -> list[np.ndarray]:
        """Return the log-potentials of every group, ``sum_i w_i f_i`` without the constants."""
        return [group.table(weights) for group in self.groups]

    def answers(self, marginals: list[np.ndarray]) -> np.ndarray:
        """Return the expected value of every row [rows] from the marginal of every group."""
        result = self.constants.copy()
        for group, marginal in zip(self.groups, marginals, strict=True):
            result += np.bincount(group.owner, group.means(marginal), len(result))
        return result


@dataclasses.dataclass(frozen=True, eq=False)
class CliqueTerms:
    """A group of terms over the same attributes.

    Attributes:
        clique: the attributes.
        owner: the row of each term [terms].
        coefficients: [terms].
        products: the products of each term's vectors.
    """

    clique: Clique
    owner: np.ndarray
    coefficients: np.ndarray
    products: VectorProducts

    @classmethod
    def of(cls, rows: Rows, group: TermGroup) -> CliqueTerms:
        """Return a group of a history's terms, if a table of its attributes is not too large."""
        clique = tuple(rows.domain.attributes[place] for place in group.attributes)
        if rows.domain.size(clique) > MAX_TABLE:
            raise ValueError(
                f"a query names {len(clique)} attributes at once with {rows.domain.size(clique):,} cells, "
                f"above the limit of {MAX_TABLE:,} for the table of one term: ask about fewer attributes, or "
                "integrate the history with KernelPCA, which needs no tables."
            )
        products = VectorProducts.of(rows, group.terms, group.attributes)
        return cls(clique, rows.owner[group.terms], rows.coefficients[group.terms], products)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the attributes."""
        return self.products.shape

    def table(self, weights: np.ndarray) -> np.ndarray:
        """Return the sum over terms of weight times product [size of each attribute]."""
        return self.products.table(weights[self.owner] * self.coefficients)

    def means(self, marginal: np.ndarray) -> np.ndarray:
        """Return each term's expected value under a marginal of the clique [terms]."""
        return self.products.sums(marginal) * self.coefficients


@dataclasses.dataclass(frozen=True, eq=False)
class LaplacePenalty:
    """``sum_i beta_i abs(r_i)``; its conjugate is 0 in the box of the betas.

    Attributes:
        betas: alpha times total over the scale of the noise [rows].
    """

    betas: np.ndarray

    @property
    def box(self) -> np.ndarray:
        """The largest magnitude of every weight [rows]: the betas."""
        return self.betas

    @property
    def curvature(self) -> np.ndarray:
        """The conjugate's second derivative by every weight [rows]: it is flat in the box."""
        return np.zeros_like(self.betas)

    def value(self, residuals: np.ndarray) -> float:
        """Return the penalty of residuals (fractions of the total) [rows]."""
        return float(self.betas @ np.abs(residuals))

    def conjugate(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the conjugate at weights within the box, and its gradient [rows]."""
        return 0.0, np.zeros_like(weights)


@dataclasses.dataclass(frozen=True, eq=False)
class GaussianPenalty:
    """``r' S^-1 r / 2`` for the covariance S of the fractions over alpha.

    Attributes:
        covariance: variances [rows], or a whole matrix [rows, rows], over alpha times squared total.
    """

    covariance: np.ndarray

    @property
    def box(self) -> np.ndarray:
        """None, like those of `LaplacePenalty`."""
        return np.full(len(self.covariance), math.inf)

    @property
    def curvature(self) -> np.ndarray:
        """The variances."""
        return self.covariance if self.covariance.ndim == 1 else np.diag(self.covariance)

    def value(self, residuals: np.ndarray) -> float:
        """Return half the squared residuals in standard deviations."""
        if self.covariance.ndim == 1:
            return float(0.5 * np.sum(residuals**2 / self.covariance))
        return float(0.5 * residuals @ np.linalg.solve(self.covariance, residuals))

    def conjugate(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """Return half the weights' variance, and its gradient."""
        moved = self.covariance * weights if self.covariance.ndim == 1 else self.covariance @ weights
        return float(0.5 * weights @ moved), moved


Penalty = LaplacePenalty | GaussianPenalty
"""A convex penalty of residuals with its conjugate, a function of the weights."""


def penalty_of(history: History, kind: str, alpha: float, total: float) -> Penalty:
    """Return the penalty of a history's noise.

    Args:
        history: the answers.
        kind: `laplace`, `gaussian`, or `auto`, the distribution of the noise.
        alpha: weight of the likelihood relative to the entropy, > 0.
        total: number of records (counts).

    Raises:
        ValueError: a Laplace penalty with correlated noise, or `auto` with mixed distributions.
    """
    if kind == "auto":
        kind = _kind_of(history)
    if kind == "laplace":
        if history.covariance is not None:
            raise ValueError(
                "the Laplace penalty is for independent noise, and this history has a full covariance: use "
                "penalty='gaussian'."
            )
        scales = [
            distribution.scale if isinstance(distribution, DiscreteLaplace) else float(stddev) / math.sqrt(2)
            for distribution, stddev in zip(history.distributions, history.stddevs, strict=True)
        ]
        return LaplacePenalty(alpha * total / np.array(scales))
    if history.covariance is not None:
        return GaussianPenalty(np.asarray(history.covariance, np.float64) / (alpha * total**2))
    stddevs = [
        distribution.scale if isinstance(distribution, DiscreteGaussian) else float(stddev)
        for distribution, stddev in zip(history.distributions, history.stddevs, strict=True)
    ]
    return GaussianPenalty((np.array(stddevs) / total) ** 2 / alpha)


def _kind_of(history: History) -> str:
    kinds = sorted({measurement.noise for measurement in history.measurements})
    if len(kinds) == 1 and (history.covariance is None or kinds == ["gaussian"]):
        return kinds[0]
    said = "noise of a covariance" if history.covariance is not None else "independent noise"
    raise ValueError(
        f"the history has {said} of the distributions {', '.join(kinds)}, which no penalty is for: name the "
        "one to take, penalty='gaussian' by its variances, or, where it is independent, penalty='laplace'."
    )
