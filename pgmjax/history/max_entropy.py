"""The maximum-entropy integrator: one valid distribution from all noisy answers.

Among all distributions it takes the one closest to a prior that the noise makes likely:
``min KL(p, p0) - alpha log-likelihood(answers | p)``. The optimum is a graphical model with one weight a
row, and its dual is solved with exact gradients wherever inference fits in memory.

References:
    Chen, Zhou and Bhowmick 2012, "Integrating historical noisy answers", section 4.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from pgmjax import _checks, oracles
from pgmjax.clique_vector import CliqueVector
from pgmjax.history.ascent import Ending, Search, ascend
from pgmjax.history.dual import Dual, Layout, Point
from pgmjax.history.features import Features
from pgmjax.history.history import History
from pgmjax.history.penalties import Penalty, penalty_of
from pgmjax.history.prior import ProductPrior
from pgmjax.model import GraphicalModel
from pgmjax.progress import Progress
from pgmjax.solvers.loop import Status

PENALTIES = ("laplace", "gaussian")


@dataclasses.dataclass(frozen=True, eq=False)
class MaxEntropyFit:
    """The result of a maximum-entropy integration.

    Attributes:
        model: the distribution, times the total.
        weights: the dual weight of every row [rows]; minus or plus its box where a Laplace answer is not met.
        objective: relative entropy to the prior plus alpha times the penalty of the answers (nats).
        gap: certified bound on `objective - optimum` (nats).
        status: how the search ended.
        steps: inferences done.
        answers: the model's answers to the rows of the history (counts) [rows].
    """

    model: GraphicalModel
    weights: np.ndarray
    objective: float
    gap: float
    status: Status
    steps: int
    answers: np.ndarray


@dataclasses.dataclass(frozen=True)
class MaxEntropy:
    """Integrates a history of noisy answers into the most uncertain distribution that explains them.

    Post-processing: it sees noisy answers and never a table.

    Attributes:
        alpha: how much the likelihood of the answers counts against the entropy, > 0: towards 0 the
            result is the prior, towards infinity it fits the answers as closely as a distribution can.
        penalty: `laplace` or `gaussian`, the law of the noise; a history with a full covariance takes the
            second.
        prior: what is believed without any answer; None is the uniform distribution. Cells of probability
            0 stay impossible.
        oracle: as for `Estimator`.
        max_steps: inferences at most.
        tol: stop when gap <= tol * max(1, objective).
        dtype: of inference, `float64` or `float32`.
        max_bytes: memory that inference may use; None asks the device.
        progress: None shows a bar in terminals and notebooks, False never does.

    Example:
        >>> from pgmjax import Domain, LinearMeasurement
        >>> domain = Domain({"age": 3, "sex": 2})
        >>> history = History(domain, [LinearMeasurement(("sex",), [30, 70], stddev=1.0, noise="laplace")])
        >>> fit = MaxEntropy(alpha=10.0).fit(history, total=100)
        >>> fit.status.name, fit.model.marginal(("sex",)).round(3).tolist()
        ('CONVERGED', [30.0, 70.0])

    References:
        Chen, Zhou and Bhowmick 2012, equations 25 to 41.
    """

    alpha: float = 1.0
    penalty: str = "laplace"
    prior: ProductPrior | None = None
    oracle: str = "auto"
    max_steps: int = 1000
    tol: float = 1e-6
    dtype: str = "float64"
    max_bytes: int | None = None
    progress: bool | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", _checks.number("alpha", self.alpha, above=0))
        _checks.choice("penalty", self.penalty, PENALTIES)
        if not isinstance(self.prior, ProductPrior | None):
            raise TypeError(f"prior must be a ProductPrior, got {type(self.prior).__name__}.")
        _checks.choice("oracle", self.oracle, ("auto", *oracles.names()))
        _checks.integer("max_steps", self.max_steps, low=1)
        _checks.number("tol", self.tol, at_least=0)
        _checks.choice("dtype", self.dtype, ("float32", "float64"))

    def plan(self, history: History) -> oracles.Plan:
        """Plan the inference of a fit, or refuse it with figures; looks at queries only.

        Raises:
            ModelTooLargeError: the forecast exceeds the memory (a ValueError).
        """
        features, prior = self._parts(history)
        return Layout.of(features, prior).plan(self.oracle, self.dtype, self.max_bytes)

    def dual(self, history: History, total: float) -> Dual:
        """Return the dual problem, for solvers of one's own and for tests.

        Args:
            history: noisy answers.
            total: number of records (counts), public.
        """
        total = _checks.number("total", total, above=0)
        features, prior = self._parts(history)
        layout = Layout.of(features, prior)
        penalty = self._penalty(history, total)
        plan = layout.plan(self.oracle, self.dtype, self.max_bytes)
        return Dual(features, layout, history.values / total, penalty, plan)

    def fit(self, history: History, total: float, warm_start: Any = None) -> MaxEntropyFit:
        """Find the distribution.

        Args:
            history: noisy answers.
            total: number of records (counts), public: the paper's n.
            warm_start: weights to start from [rows], such as those of another fit; None starts at the prior.

        Raises:
            ValueError: a history without answers, a total that is not positive, weights of another
                number, or a model that does not fit in memory.
        """
        dual = self.dual(history, total)
        box = dual.penalty.box
        start = np.zeros(history.num_rows) if warm_start is None else np.array(warm_start, np.float64)
        if start.shape != (history.num_rows,) or not np.isfinite(start).all():
            raise ValueError(
                f"warm_start must be one finite weight a row, {history.num_rows:,}, got shape {start.shape}."
            )
        prior = self._prior(history)
        with Progress("max_entropy", self.max_steps, self.progress) as bar:
            search = Search(dual, self.tol, bar)
            end = ascend(dual, np.clip(start, -box, box), dual.scales(prior), self.max_steps, search)
        return finish(dual.layout, float(total), end)

    def _prior(self, history: History) -> ProductPrior:
        if not isinstance(history, History):
            raise TypeError(f"fit takes a History, got {type(history).__name__}.")
        if self.prior is not None and self.prior.domain != history.domain:
            raise ValueError(
                f"the prior must be over the history's domain {history.domain!r}, got one over "
                f"{self.prior.domain!r}."
            )
        return ProductPrior.uniform(history.domain) if self.prior is None else self.prior

    def _parts(self, history: History) -> tuple[Features, ProductPrior]:
        prior = self._prior(history)
        if not history.num_rows:
            raise ValueError("the history has no answers: there is nothing to integrate.")
        return Features.of(history.rows), prior

    def _penalty(self, history: History, total: float) -> Penalty:
        return penalty_of(history, self.penalty, self.alpha, total)


def finish(layout: Layout, total: float, end: Ending) -> MaxEntropyFit:
    """The model of the point where the search ended."""
    point: Point = end.point
    known = CliqueVector(layout.cliques, tuple(point.marginals))
    model = GraphicalModel(layout.domain, CliqueVector(layout.cliques, tuple(point.tables)), total, known)
    return MaxEntropyFit(
        model, point.weights, point.primal, end.gap, end.status, end.steps, total * point.answers
    )
