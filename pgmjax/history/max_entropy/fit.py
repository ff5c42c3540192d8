"""The maximum-entropy integrator: one valid distribution from all noisy answers.

Among all distributions it takes the one closest to a prior that the noise makes likely:
``min KL(p, p0) - alpha log-likelihood(answers | p)``. The optimum is a graphical model with one weight per
row, and its dual is solved with exact gradients if inference fits in memory. If a single inference takes
seconds, chains estimate the curvature. If inference does not fit, the tables of the queries are fitted where
they overlap, by convex belief propagation, and chains draw rows only.

References:
    Chen, Zhou and Bhowmick 2012, "Integrating historical noisy answers", section 4.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.migration import Named
from pgmjax._internal.progress import Progress
from pgmjax.estimation import regularisation
from pgmjax.estimation.constraints import StructuralZeros
from pgmjax.estimation.region_fit import fit_local
from pgmjax.estimation.solvers.stopping import Status
from pgmjax.history.history import History, as_history
from pgmjax.history.kernel.inner_products import squared_norms
from pgmjax.history.max_entropy.ascent import AscentSearch, Chains, Newton, ascend, draw
from pgmjax.history.max_entropy.dual import Dual, Features, penalty_of
from pgmjax.history.prior import ProductPrior
from pgmjax.inference import oracles
from pgmjax.inference.plan.forecast import ModelTooLargeError
from pgmjax.measurements.inputs import of_measurements, with_inputs
from pgmjax.measurements.total import check_counts
from pgmjax.model import RegionModel, sampling
from pgmjax.model.clique_vector import CliqueVector
from pgmjax.model.graphical import GraphicalModel

PENALTIES = ("auto", "laplace", "gaussian")
SOLVERS = ("auto", "exact", "newton", "regions", "chains")
SLOW_SECONDS = 0.5
"""If an inference is forecast to take more than this many seconds, the curvature is sampled."""
LONG_SECONDS = 10.0
"""If it is forecast to take more than this many, `auto` fits regions instead."""
DEFAULT_ALPHA = 1.0
"""Alpha if nothing tells: no prior, and no query about several attributes."""
LEAST_TOLERANCE = 1e-4
"""The least tolerance of a fit of regions, and the usual one of a release, in shares of the loss."""
REFIT_RATIO = 1.5
"""Regions are fitted again if alpha is more than so many times what their one-way marginals ask for."""


@dataclasses.dataclass(frozen=True, eq=False)
class MaxEntropyFit:
    """The result of a maximum-entropy integration.

    Attributes:
        model: the distribution, times the total; tables of regions if no inference fits in memory.
        alpha: weight of the likelihood that was used.
        weights: dual weight of every row [rows]; at plus or minus its box for a Laplace answer that is not
            met.
        objective: relative entropy to the prior plus the penalty of the answers (nats). Without exact
            inference, an estimate of its dual, a lower bound. With regions the relative entropy is a sum over
            them.
        gap: certified bound on `objective - optimum` (nats), with regions over locally consistent tables;
            infinite with chains alone.
        status: how the search ended; always MAX_STEPS for chains alone, which have no stopping test.
        steps: number of inferences, or of steps of the chains without exact inference.
        answers: the model's answers to the rows of the history (counts) [rows].
    """

    model: GraphicalModel | RegionModel
    alpha: float
    weights: np.ndarray
    objective: float
    gap: float
    status: Status
    steps: int
    answers: np.ndarray

    def sample(
        self,
        rows: int | None = None,
        seed: int = 0,
        *,
        method: str | None = None,
        sweeps: int | None = None,
    ) -> dict[str, np.ndarray]:
        """Draw a synthetic table, from the model if exact sampling fits in memory, else from chains.

        Rows of regions are moved until their marginals come near the regions' (see `RegionModel.sample`).

        Args:
            rows: number of rows. Default: the rounded total. Any number is post-processing.
            seed: the same seed gives the same rows; it need not be secret.
            method: as in `GraphicalModel.sample`: "round", or "multinomial" for independent rows, which
                chains draw and regions do not. Default: the first, and the second for chains.
            sweeps: number of sweeps of each chain before its one row is read. Default: 100, and for
                regions, whose chains start from a forest of them, that of `RegionModel.sample`.

        Returns:
            Codes [rows] of each attribute.

        Raises:
            ValueError: an unknown method, or one that this model does not allow.
        """
        rows = round(self.model.total) if rows is None else checks.integer("rows", rows, low=0)
        method = None if method is None else checks.choice("method", method, sampling.METHODS)
        if isinstance(self.model, RegionModel):
            if method == sampling.INDEPENDENT:
                raise ValueError(
                    f"rows of regions are moved together and never independent: leave out method={method!r}, "
                    "or draw from model.tractable(), which has only some of the regions' marginals."
                )
            given: dict[str, Any] = {} if sweeps is None else {"sweeps": sweeps}
            return self.model.sample(rows, seed, **given)
        try:
            return self.model.sample(rows, seed, method=method)
        except ModelTooLargeError:
            if method == sampling.ROUND:
                raise
            sweeps = 100 if sweeps is None else checks.integer("sweeps", sweeps, low=1)
            return draw(self.model, rows, seed, sweeps)


@dataclasses.dataclass(frozen=True)
class MaxEntropy(Named):
    """Fits the distribution of maximum entropy to a history of noisy answers.

    This is post-processing: it uses noisy answers and never a table.

    Attributes:
        alpha: weight of the likelihood of the answers relative to the entropy, > 0. Towards 0 the result is
            the prior, towards infinity it fits the answers as closely as a distribution can. Default: chosen
            from the answers and their noise, see `fit.alpha_of`.
        penalty: `laplace` or `gaussian`; `auto` uses the distribution of the noise, which must be Gaussian
            for a full covariance and must not be mixed. It may differ from the noise if named explicitly.
            Regions take the Gaussian one, and `auto` is that for them.
        prior: the distribution before any answer. Default: uniform, and for regions the product of their own
            one-way marginals. Cells of probability 0 stay impossible.
        solver: `exact` is L-BFGS-B with exact gradients. `newton` uses exact gradients and curvature from
            chains, for slow inference. `regions` fits tables that agree where they overlap, if inference does
            not fit in memory, by `estimation.fit_local`. `chains` samples all gradients. `auto` takes the
            first that fits and is not slow.
        oracle: as in `Estimator`.
        max_steps: maximum number of inferences.
        tol: stop when gap <= tol * max(1, objective).
        dtype: type used by inference, `float64` or `float32`.
        max_bytes: memory that inference may use. Default: determined from the device.
        chains: number of parallel chains.
        chain_steps: number of steps with chains alone, 2 or more; `newton` starts where they end.
        seed: seed of the chains; no privacy noise is drawn from it.
        progress: False never shows a progress bar. Default: shown in terminals and notebooks.

    Example:
        >>> from pgmjax import Domain, LinearMeasurement
        >>> domain = Domain({"age": 3, "sex": 2})
        >>> history = History(domain, [LinearMeasurement(("sex",), [30, 70], stddev=1.0, noise="laplace")])
        >>> fit = MaxEntropy(alpha=10.0).fit(history, total=100)
        >>> fit.status.name, fit.model.marginal(("sex",)).round(3).tolist()
        ('CONVERGED', [30.0, 70.0])
        >>> MaxEntropy().fit(history, total=100).alpha  # one-way answers tell no other
        1.0

    References:
        Chen, Zhou and Bhowmick 2012, equations 25 to 41.
    """

    alpha: float | None = None
    penalty: str = "auto"
    prior: ProductPrior | None = None
    solver: str = "auto"
    oracle: str = "auto"
    max_steps: int = 1000
    tol: float = 1e-6
    dtype: str = "float64"
    max_bytes: int | None = None
    chains: int = 5000
    chain_steps: int = 16
    seed: int = 0
    progress: bool | None = None

    def __post_init__(self) -> None:
        if self.alpha is not None:
            object.__setattr__(self, "alpha", checks.number("alpha", self.alpha, above=0))
        checks.set_choice(self, "penalty", PENALTIES)
        checks.kind(self.prior, ProductPrior | None, "prior must be a ProductPrior")
        checks.set_choice(self, "oracle", ("auto", *oracles.names()))
        checks.set_integers(self, "max_steps", low=1)
        checks.number("tol", self.tol, at_least=0)
        checks.set_choice(self, "dtype", ("float32", "float64"))
        checks.set_choice(self, "solver", SOLVERS)
        checks.set_integers(self, "chains", "chain_steps", low=2)
        checks.set_integers(self, "seed", low=0)

    def plan(self, history: History) -> oracles.Plan:
        """Plan the inference of a fit from the queries alone.

        Raises:
            ModelTooLargeError: the forecast exceeds the memory (a ValueError).
        """
        return self._plan(self._features(history))

    def dual(self, history: History, total: float) -> Dual:
        """Return the dual problem, for custom solvers and tests.

        Args:
            history: noisy answers.
            total: number of records (counts), public.
        """
        problem = self._problem(history, total)
        return dataclasses.replace(problem, plan=self._plan(problem.features))

    def fit(self, history: History, total: float, warm_start: Any = None) -> MaxEntropyFit:
        """Fit the distribution.

        Args:
            history: noisy answers.
            total: number of records (counts), public: the paper's n.
            warm_start: weights to start from [rows], such as those of another fit. Default: start at the
                prior. Regions take none.

        Raises:
            ValueError: the history has no answers, the total is not positive, the number of weights is wrong,
                or the model does not fit in memory.
        """
        problem = self._problem(history, total)
        check_counts(history.domain, history.measurements[0], float(total))
        by_regions = self._by_regions(history)
        plan = self._feasible_plan(problem, by_regions)
        start = np.zeros(history.num_rows) if warm_start is None else np.array(warm_start, np.float64)
        if start.shape != (history.num_rows,) or not np.isfinite(start).all():
            raise ValueError(
                f"warm_start must be one finite weight a row, {history.num_rows:,}, got shape {start.shape}."
            )
        found = None
        if plan is None and by_regions:
            try:
                found = self._by_alpha_of_regions(history, problem)
            except ModelTooLargeError:
                if self.solver == "regions":
                    raise
        if found is None:
            found = self._ascended(history, dataclasses.replace(problem, plan=plan), start)
        inputs = of_measurements(history.measurements)
        return dataclasses.replace(found, model=with_inputs(found.model, inputs))

    def _ascended(self, history: History, dual: Dual, start: np.ndarray) -> MaxEntropyFit:
        """Maximise the dual, by exact gradients if it has a plan."""
        start = np.clip(start, -dual.penalty.box, dual.penalty.box)
        features, scales = dual.features, dual.scales()
        with Progress("max_entropy", self.max_steps, self.progress) as bar:
            search = AscentSearch(dual, self.tol, bar)
            quick = dual.plan is not None and not _takes(dual.plan, SLOW_SECONDS)
            if self.solver == "exact" or (self.solver == "auto" and quick):
                return _finish(dual, search, ascend(dual, start, scales, self.max_steps, search))
            floors = history.rows.largest() ** 2
            newton = Newton(dual, scales, floors)
            given = features.cliques, features.prior.probabilities, self.chains, self.seed
            chains = Chains.start(history.domain, *given)
            rough = newton.roughly(chains, start, self.chain_steps)
            if dual.plan is None:
                return _estimate(newton, *rough, self.chain_steps)
            return _finish(dual, search, newton.exactly(*rough[:2], search, self.max_steps))

    def _by_alpha_of_regions(self, history: History, problem: Dual) -> MaxEntropyFit:
        """Fit regions, once more if their one-way marginals ask for a far smaller alpha."""
        found = self._regions(history, problem.total, problem.alpha)
        if self.alpha is None and self.prior is None:
            # an exact fit is pulled towards uniform tables: what its product asks for is no weight for that
            better = alpha_of(history, _product(history, found.model), problem.total)
            if better * REFIT_RATIO < problem.alpha:
                return self._regions(history, problem.total, better)
        return found

    def _regions(self, history: History, total: float, alpha: float) -> MaxEntropyFit:
        """Fit tables that agree where they overlap, by the squared penalty."""
        prior = (
            None if self.prior is None else dict(zip(history.domain, self.prior.probabilities, strict=True))
        )
        possible = {} if prior is None else {name: p > 0 for name, p in prior.items() if not p.all()}
        found = fit_local(
            history.domain,
            history.measurements,
            total,
            constraints=[StructuralZeros((name,), mask) for name, mask in possible.items()],
            max_steps=self.max_steps,
            tol=max(self.tol, LEAST_TOLERANCE),
            max_bytes=self.max_bytes,
            progress=self.progress,
            regularisation=min(1 / alpha, regularisation.LARGEST),
            reference=prior,
        )
        queries = [measurement.query for measurement in history.measurements]
        answers = np.concatenate([np.ravel(found.model.answer(query)) for query in queries])
        variances = history.stddevs**2
        distance = 0.0 if found.regularisation is None else found.regularisation.divergence
        return MaxEntropyFit(
            found.model,
            alpha,
            # at the optimum the dual weights are the slope of the squared penalty
            alpha * total * (history.values - answers) / variances,
            alpha * found.loss + distance,
            alpha * found.gap,
            found.status,
            found.steps,
            answers,
        )

    def _problem(self, history: History, total: float) -> Dual:
        """Return the dual problem without a plan of inference."""
        as_history(history)
        total = checks.total(total)
        features = self._features(history)
        if not history.num_rows:
            raise ValueError("the history has no answers: there is nothing to integrate.")
        alpha = self.alpha if self.alpha is not None else alpha_of(history, self.prior, total)
        kind = "gaussian" if self.solver == "regions" else self.penalty
        penalty = penalty_of(history, kind, alpha, total)
        return Dual(features, history.values / total, penalty, alpha, total)

    def _features(self, history: History) -> Features:
        domain = as_history(history).domain
        if self.prior is not None and self.prior.domain != domain:
            raise ValueError(
                f"the prior must be over the history's domain {domain!r}, got one over {self.prior.domain!r}."
            )
        return Features.of(history.rows, self.prior)

    def _plan(self, features: Features) -> oracles.Plan:
        return features.plan(self.oracle, self.dtype, self.max_bytes)

    def _feasible_plan(self, problem: Dual, by_regions: bool) -> oracles.Plan | None:
        """Return the plan of exact inference; None if it is not wanted, or regions are better."""
        if self.solver in ("chains", "regions"):
            return None
        try:
            plan = self._plan(problem.features)
        except ModelTooLargeError:
            if self.solver != "auto":
                raise
            return None
        return None if self.solver == "auto" and by_regions and _takes(plan, LONG_SECONDS) else plan

    def _by_regions(self, history: History) -> bool:
        """Return whether regions can be fitted, for which the noise must be independent."""
        possible = self.penalty != "laplace" and history.covariance is None
        if self.solver == "regions" and not possible:
            raise ValueError(
                "solver='regions' takes the squared penalty of independent noise: leave out "
                "penalty='laplace' and a full covariance, or use solver='chains'."
            )
        return possible and self.solver in ("auto", "regions")


def alpha_of(history: History, prior: ProductPrior | None, total: float) -> float:
    """Return the alpha that the answers and their noise ask for.

    Under a prior of weight W (records) that maximum entropy stands for, the answers would scatter around the
    prior's by n**2 / W times the variance of a query under the prior, beside the noise. The scatter that is
    seen gives W by its mean, and alpha is 1 / W. Where cells of tables were measured most of them are near
    empty and few are far from the prior, so that a mean over all follows the noise. There the weight of
    `Estimator`'s regularisation is larger, and the larger one is taken.

    Args:
        history: the answers.
        prior: the prior, or the product of the one-way marginals that a fit of regions found; None if
            neither is known, for then the scatter tells nothing.
        total: the number of records (counts).

    References:
        Morris 1983, "Parametric empirical Bayes inference", for the prior's variance from the scatter.
    """
    weight = regularisation.weight_of("auto", history.domain, history.measurements, total)
    if prior is not None:
        weight = max(weight, _scatter_weight(history, prior, total))
    return 1 / min(weight, regularisation.LARGEST) if weight > 0 else DEFAULT_ALPHA


def _scatter_weight(history: History, prior: ProductPrior, total: float) -> float:
    """Return the prior's weight (records) at which the answers' mean scatter is what is seen.

    A scatter that noise explains would give any large weight: it counts as one standard deviation of that of
    noise.
    """
    variances = history.stddevs**2
    means = history.rows.mean(prior)
    spread = np.maximum(squared_norms(history.rows, prior) - means**2, 0.0)
    scatter = float(np.sum((history.values - total * means) ** 2 / variances)) - len(means)
    return total**2 * float(np.sum(spread / variances)) / max(scatter, math.sqrt(2 * len(means)))


def _product(history: History, model: GraphicalModel | RegionModel) -> ProductPrior:
    """Return the product of the one-way marginals of a fit, for the attributes that were asked about."""
    asked = {name for query in history.queries for name in query.clique}
    shares = {name: model.marginal((name,)) / model.total for name in asked}
    return ProductPrior(history.domain, {name: share / share.sum() for name, share in shares.items()})


def _takes(plan: oracles.Plan, seconds: float) -> bool:
    """Return whether an inference is forecast to take more than some seconds."""
    return plan.oracle.forecast.seconds > seconds


def _finish(dual: Dual, search: AscentSearch, status: Status) -> MaxEntropyFit:
    """Return the model at the point where the search ended."""
    point = search.best
    if point is None:
        raise FloatingPointError("the dual is not finite at its starting point")
    model = _model(dual, point.tables, point.marginals)
    answers = dual.total * point.answers
    return MaxEntropyFit(
        model, dual.alpha, point.weights, point.primal, search.gap, status, search.steps, answers
    )


def _estimate(
    newton: Newton, chains: Chains, weights: np.ndarray, log_partition: float, last: np.ndarray, steps: int
) -> MaxEntropyFit:
    """Return the model at the end of `roughly`, with marginals from a final, larger sample."""
    dual, newton = newton.dual, dataclasses.replace(newton, snapshots=4 * newton.snapshots)
    chains, sample = newton.sample(chains, weights)
    moved = weights - last
    log_partition += float(sample.means @ moved) - 0.5 * sample.curved(moved)[1]
    tables = dual.features.tables(weights)
    constants = float(weights @ dual.features.constants)
    point = dual.point(weights, tables, log_partition - constants, [], sample.means)
    model = _model(dual, tables, sample.shares() + chains.shares()[len(dual.features.groups) :])
    status, answers = Status.MAX_STEPS, dual.total * point.answers
    return MaxEntropyFit(model, dual.alpha, point.weights, point.value, math.inf, status, steps, answers)


def _model(dual: Dual, tables: list[np.ndarray], marginals: list[np.ndarray]) -> GraphicalModel:
    domain, cliques = dual.features.rows.domain, dual.features.cliques
    known = CliqueVector(cliques, tuple(marginals))
    return GraphicalModel(domain, CliqueVector(cliques, tuple(tables)), dual.total, known)
