"""The dual of maximum entropy: a concave function of one weight a row, with exact gradients.

``D(w) = w . pi - log Z(w) - conjugate(w)``, Z(w) = sum over cells of ``p0 exp(sum_i w_i f_i)``, is maximised;
its gradient is ``pi - p_w[f] - conjugate'(w)``. At every w the model p_w is primal feasible, and
``Q(p_w) - D(w)`` bounds how far both are from the optimum.

References:
    Chen, Zhou and Bhowmick 2012, Theorem 6 and equations 36 to 41.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.history.max_entropy.features import Features
from pgmjax.history.max_entropy.penalties import Penalty
from pgmjax.history.prior import ProductPrior
from pgmjax.inference import oracles
from pgmjax.inference.plan.structure import Structure


@dataclasses.dataclass(frozen=True, eq=False)
class Layout:
    """The cliques of a model: those of its features, and attributes that only the prior speaks of.

    Attributes:
        domain: the attributes.
        cliques: the features' cliques first, then single attributes.
        base: log-probabilities of the prior, each attribute's in one clique that holds it.
    """

    domain: Domain
    cliques: tuple[Clique, ...]
    base: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, features: Features, prior: ProductPrior) -> Layout:
        """Put the prior of every attribute into a clique."""
        domain = features.rows.domain
        cliques = list(features.cliques)
        tables = [np.zeros(domain.shape_of(clique)) for clique in cliques]
        for name in domain.attributes:
            probabilities = prior.marginal(name)
            at = next((i for i, clique in enumerate(cliques) if name in clique), None)
            if at is None and cliques and np.all(probabilities == probabilities[0]):
                continue  # uniform, and in no clique: it changes nothing
            if at is None:
                cliques.append((name,))
                tables.append(np.zeros(domain[name]))
                at = len(cliques) - 1
            with np.errstate(divide="ignore"):
                logs = np.log(probabilities)
            axis = cliques[at].index(name)
            tables[at] += logs.reshape([-1 if i == axis else 1 for i in range(tables[at].ndim)])
        return cls(domain, tuple(cliques), tuple(tables))

    @property
    def finite(self) -> bool:
        """Whether the prior holds every cell possible."""
        return all(bool(np.isfinite(table).all()) for table in self.base)

    def plan(self, oracle: str, dtype: str, max_bytes: int | None) -> oracles.Plan:
        """Plan inference on the cliques; refuses what does not fit (`ModelTooLargeError`)."""
        structure, attributes = Structure.named(self.domain.sizes, list(self.cliques))
        return oracles.plan(
            structure,
            attributes,
            oracle,
            itemsize=np.dtype(dtype).itemsize,
            max_bytes=max_bytes,
            finite=self.finite,
        )

    def tables(self, potentials: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the log-potentials of all cliques: the features' with the prior's."""
        rest = self.base[len(potentials) :]
        return [*(p + b for p, b in zip(potentials, self.base, strict=False)), *rest]


@dataclasses.dataclass(frozen=True, eq=False)
class Point:
    """Everything known at some weights.

    Attributes:
        weights: [rows].
        tables: log-potentials of every clique.
        marginals: their marginals (probabilities).
        answers: expected feature of every row [rows].
        value: the dual objective.
        gradient: its gradient [rows].
        divergence: relative entropy of the model to the prior (nats).
        primal: the primal objective, never below `value` but by rounding.
    """

    weights: np.ndarray
    tables: list[np.ndarray]
    marginals: list[np.ndarray]
    answers: np.ndarray
    value: float
    gradient: np.ndarray
    divergence: float
    primal: float

    @property
    def gap(self) -> float:
        """How far the primal and the dual objective can be from their optimum (nats)."""
        return max(self.primal - self.value, 0.0)


@dataclasses.dataclass(frozen=True, eq=False)
class Dual:
    """The dual problem, with exact inference.

    Attributes:
        features: the rows.
        layout: cliques and prior.
        targets: the noisy answers over the total [rows].
        penalty: the noise.
        plan: inference on the layout's cliques; None where there is none, and so no exact point.
    """

    features: Features
    layout: Layout
    targets: np.ndarray
    penalty: Penalty
    plan: oracles.Plan | None

    def at(self, weights: np.ndarray) -> Point:
        """Evaluate the dual, its gradient and the primal at weights within the box: one inference."""
        if self.plan is None:
            raise ValueError("this dual has no plan: its model does not fit in memory.")
        tables = self.layout.tables(self.features.potentials(weights))
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
    ) -> Point:
        """Put together what inference found."""
        log_partition += float(weights @ self.features.constants)
        conjugate, slope = self.penalty.conjugate(weights)
        residuals = self.targets - answers
        divergence = float(weights @ answers) - log_partition
        return Point(
            weights,
            tables,
            marginals,
            answers,
            value=float(weights @ self.targets) - log_partition - conjugate,
            gradient=residuals - slope,
            divergence=divergence,
            primal=divergence + self.penalty.value(residuals),
        )

    def scales(self, prior: ProductPrior) -> np.ndarray:
        """Return a step size for every weight [rows]: one over the root of its curvature at the prior."""
        means = self.features.rows.mean(prior)
        variances = np.maximum(self.features.squares(prior) - means**2, 0.0) + self.penalty.curvature
        largest = float(variances.max(initial=0.0))
        return np.asarray(1.0 / np.sqrt(np.maximum(variances, 1e-12 * largest if largest else 1.0)))
