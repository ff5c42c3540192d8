"""Estimation of a consistent model from noisy measurements, with a certificate."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax

from pgmjax._internal import checks
from pgmjax._internal.migration import Named
from pgmjax._internal.progress import Progress
from pgmjax.data.domain import Clique, Domain, as_clique, as_cliques, as_domain
from pgmjax.estimation import losses, problem, regularisation, solvers
from pgmjax.estimation.constraints import Constraint, FixedMarginal
from pgmjax.estimation.fit import Fit, fit_steps
from pgmjax.estimation.losses.base import unique_cliques
from pgmjax.estimation.problem import FitProblem, FitProgress, SideInformation, listed, total_of
from pgmjax.estimation.solvers.loop import run_single
from pgmjax.inference import oracles
from pgmjax.inference.oracles.choose import check as check_oracle
from pgmjax.inference.oracles.contraction import HostContraction
from pgmjax.inference.plan.forecast import ModelTooLargeError
from pgmjax.measurements import inputs
from pgmjax.measurements.linear import LinearMeasurement, over_domain
from pgmjax.measurements.total import check_counts, estimate_total
from pgmjax.model.graphical import GraphicalModel

if TYPE_CHECKING:
    from pgmjax.estimation.batch import BatchFit

MAX_ENTROPY = "maximum entropy"
"""Method of a fit whose loss is that of `history.MaxEntropy` (nats)."""
CONTRADICTION, LEAST_EXPECTED = 10, 3.0  # times the expected loss, of at least so much: never by chance


@dataclasses.dataclass(frozen=True)
class Estimator(Named):
    """Fit graphical models to noisy measurements: post-processing, without access to the table.

    A prototype needs three settings, and the others can stay as they are:

    - `loss`: what a fit minimises, such as a function of your own.
    - `oracle`: what computes marginals, such as a class of your own.
    - `max_steps`: how long a fit may take. Between the rounds of a mechanism a few hundred steps are enough
      where each fit starts at the last one: ``fit(domain, measurements, warm_start=model)``.

    The page docs/own.md has a mechanism, a stopping rule, a loss and an oracle in at most 60 lines each.

    Attributes:
        loss: `l2`, `l1`, a `losses.Loss`, or any convex function of marginals in counts.
        solver: `auto` (accelerated), `accelerated`, `mirror_descent`, `dual_averaging`, `lbfgs`, or a
            configured solver.
        oracle: `auto` (the cheapest by forecast, compiling included), or one by name: `contraction`,
            `levels`, `chain`, `sliced`, `message_passing` (compiled), `host` (NumPy in float64, for one fit
            at a time), or a class of oracles. For the same fit again and again a compiled one may be faster.
        max_steps: maximum number of solver steps, >= 1.
        tol: stop when the certified gap is at most `tol * max(1, loss)`; above 0.01 it counts as 0.01. None
            for what noise makes invisible: the certified gap, or an estimate of the excess loss from its last
            fall, is at most 0.02 standard deviations of the loss under the noise, sqrt(m / 2) for l2 and m
            measured values (1e-4 for losses of which no noise level is known). An estimate is believed only
            if the loss is one that the noise explains. Such a fit ends as WITHIN_NOISE, or as CONVERGED if
            its gap is at most 0.01 max(1, loss).
        dtype: `float32` or `float64` (on the device; no global JAX flag is changed). The result of a
            float32 fit is evaluated in float64, which decides: the fit continues in float64, if memory
            allows, unless it is within the tolerance there, or stalled within 100 tolerances and 0.01.
            L-BFGS takes all its steps in float64, if memory allows.
        max_bytes: memory limit of a fit; None for that of the device.
        progress: None for a progress bar in terminals and notebooks, False for no bar.
        approximate: behaviour of `fit` if no exact plan fits in memory: False refuses; True uses convex
            belief propagation, or a mixture of products if its regions do not fit either; `convex` and
            `mixture` select one. They also step in if an exact fit is forecast to take more than an hour on
            a CPU (by operations, not by the clock), unless there are fixed marginals, a prior, a mesh or a
            callback. `Fit.method` reports the choice. `plan`, `fit_batch` and the mechanisms are exact or
            refuse.
        regularisation: "auto", "none" for the optimum of the loss, or a weight in records. With a weight the
            fit minimises the loss plus the weight times the relative entropy of the model to the product of
            its own one-way marginals, found on the way (see `Regularisation`); "auto" chooses the weight from
            the noise. Only the loss l2 has it; a `prior` switches it off. Then, and for
            other losses with "auto", `Fit.regularisation` is None. Approximate fits sum the relative entropy
            over regions (`estimation.region_fit`).
        devices: how many devices of this process share the rows of a batch, and a fit that only fits in
            memory slice by slice; everything else runs on one. A `mesh` comes before it.

    Example:
        >>> import pgmjax as pj
        >>> m = pj.LinearMeasurement(("a",), [30.0, 10.0], stddev=1.0)
        >>> fit = pj.Estimator().fit(pj.Domain({"a": 2, "b": 3}), [m], total=40)
        >>> fit.status.name, fit.model.marginal(("a",)).round(2).tolist()
        ('CONVERGED', [30.0, 10.0])
    """

    loss: Any = "l2"
    solver: Any = "auto"
    oracle: str | type[oracles.Oracle] = "auto"
    max_steps: int = 1000
    tol: float | None = None
    dtype: str = "float32"
    max_bytes: int | None = None
    progress: bool | None = None
    approximate: bool | str = False
    regularisation: float | str = "auto"
    devices: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.devices, str):
            raise TypeError("devices is how many share a fit; which kind they are JAX chooses (docs/gpu.md).")
        if isinstance(self.loss, Domain):
            raise TypeError("The domain is given to fit: write Estimator().fit(domain, measurements).")
        checks.set_integers(self, "max_steps", "devices", low=1)
        if self.tol is not None:
            checks.number("tol", self.tol, at_least=0)
        checks.set_integers(self, "max_bytes", low=1, optional=True)
        checks.kind(self.progress, bool | None, "progress must be True, False or None")
        checks.set_choice(self, "dtype", ("float32", "float64"))
        object.__setattr__(self, "oracle", check_oracle(self.oracle))
        if isinstance(self.solver, str):
            checks.set_choice(self, "solver", ("auto", *solvers.names()), "a Solver")
        if not solvers.build(self.solver).runs_on_host and self.oracle == HostContraction.name:
            raise ValueError(
                f"oracle='host' runs the solvers accelerated, mirror_descent and dual_averaging, got solver="
                f"{self.solver!r}: choose one of these, or oracle='auto'."
            )
        object.__setattr__(self, "loss", losses.check(self.loss))
        if not isinstance(self.approximate, bool):
            checks.set_choice(self, "approximate", ("convex", "mixture"), "True or False")
        object.__setattr__(self, "regularisation", regularisation.check(self.regularisation, self.loss))

    def plan(
        self,
        domain: Domain,
        cliques: Sequence[Clique],
        constraints: Sequence[Constraint] = (),
        *,
        prior: GraphicalModel | None = None,
        dtype: str | None = None,
        mesh: jax.sharding.Mesh | None = None,
        batch: bool = False,
    ) -> oracles.Plan:
        """Plan a fit of these cliques, or refuse it with its forecast. Uses no data.

        Args:
            domain: the attributes.
            cliques: the cliques to be measured.
            constraints: as in `fit`.
            prior: as in `fit`.
            dtype: type to plan for. Default: the estimator's.
            mesh: devices that share each inference, slice by slice.
            batch: plan for `fit_batch`, which runs compiled programs only.

        Raises:
            ValueError: an unknown or repeated attribute, a batch with `oracle="host"`, or fewer devices than
                the estimator asks for.
            ModelTooLargeError: the forecast exceeds the memory (a ValueError).
        """
        domain = as_domain(domain, "Estimator().plan(domain, cliques)", cliques)
        constraints = listed(constraints)
        fixed = [c.clique for c in constraints if isinstance(c, FixedMarginal)]
        measured = [*as_cliques(domain, cliques), *(as_clique(domain, clique) for clique in fixed)]
        zeros = tuple(z for z in (c.zeros(domain) for c in constraints) if z is not None)
        named = unique_cliques(measured) if fixed else measured
        known = SideInformation(zeros, prior=prior)
        return problem.plan(self, domain, named, known, dtype=dtype, mesh=mesh, batch=batch)

    def fit(
        self,
        domain: Domain,
        measurements: Sequence[LinearMeasurement],
        total: float | None = None,
        warm_start: GraphicalModel | None = None,
        constraints: Sequence[Constraint] = (),
        *,
        prior: GraphicalModel | None = None,
        prior_weight: float = 0.0,
        mesh: jax.sharding.Mesh | None = None,
        callback: Callable[[FitProgress], object] | None = None,
    ) -> Fit:
        """Estimate the model whose marginals fit the measurements best.

        Args:
            domain: the attributes.
            measurements: noisy linear answers.
            total: number of records (counts). Default: estimated from the measurements.
            warm_start: an initial model, with any cliques: see `estimation.start`.
            constraints: exact public knowledge: `StructuralZeros`, `AllowedSet`, `FunctionalDependency`,
                `FixedMarginal`. A fixed marginal determines the total; measurements are then optional.
            prior: a public model over the same domain. Among equally good fits the model of least relative
                entropy KL(model || prior) is selected; without a prior, the one of maximum entropy. Cells
                that are impossible under the prior stay so.
            prior_weight: minimise loss + prior_weight * KL(model || prior) (nats; the weight is in records
                for a loss that is a log-likelihood); 0 for the loss alone.
            mesh: devices that share each inference of this one fit, slice by slice; every process of
                the mesh makes the same call.
            callback: called after each block of 10 to 50 steps with a `FitProgress`: step, loss, gap and, if
                it asks for them, marginals and answers. If it returns True, the fit ends within another
                block, as if its steps had run out: a stopping rule of your own (docs/own.md, also for the
                fits of a mechanism). What it raises ends the fit and loses the model.

        Raises:
            TypeError: an argument has the wrong type.
            ValueError: bad measurements, a total that cannot be estimated, infeasible constraints (the
                message names the conflict), or a model that does not fit in memory. Numerical failure
                is not an error: see `Fit.status`.

        Example:
            >>> import pgmjax as pj
            >>> domain = pj.Domain({"age": 2, "drives": {"labels": ["no", "yes"]}})
            >>> public = [pj.FixedMarginal(("age",), [30, 70]), pj.AllowedSet(("age", "drives"),
            ...     [(0, "no"), (1, "no"), (1, "yes")])]
            >>> noisy = pj.LinearMeasurement(("drives",), [52.0, 46.0], stddev=5.0)
            >>> fit = pj.Estimator(dtype="float64").fit(domain, [noisy], constraints=public)
            >>> fit.model.marginal(("age", "drives")).round(1).tolist()
            [[30.0, 0.0], [23.0, 47.0]]
        """
        domain = as_domain(domain, "Estimator().fit(domain, measurements)", measurements)
        measurements = over_domain(domain, measurements)
        if callback is not None:
            checks.one_argument("callback", callback, "its step, loss and gap")
        known = self._known(domain, [warm_start], constraints, prior, prior_weight)
        noisy = list(measurements) or [_exact(one) for one in known.fixed]
        total = total_of(known.fixed, total)
        if total is None:
            total = estimate_total(domain, noisy)[0]
        elif noisy:
            check_counts(domain, noisy[0], float(total))
        stands_in = bool(self.approximate) and mesh is None and callback is None
        if stands_in:
            from pgmjax.estimation import approximate  # which takes a tenth of a second
        try:
            with Progress("fit", self.max_steps, self.progress) as bar:
                given = self, domain, tuple(noisy), float(total), known, bar
                asked = FitProblem(*given, mesh=mesh, callback=callback)
                if stands_in:
                    approximate.require_time(asked)
                found = run_single(fit_steps(asked, warm_start))
                _warn_of_contradictions(asked, found)
                return _of_inputs(found, noisy, known, warm_start)
        except ModelTooLargeError as refusal:
            if not stands_in:
                alone = "leave the mesh out" if mesh is not None else "leave the callback out"
                how = alone if self.approximate else "Estimator(approximate=True)"
                raise ModelTooLargeError(f"{refusal} Or fit an approximate model: {how}.") from None
        found = approximate.fit(asked)
        return _of_inputs(found, noisy, known, warm_start)

    def fit_batch(
        self,
        domain: Domain,
        measurements: Sequence[Sequence[LinearMeasurement]],
        totals: float | Sequence[float] | None = None,
        warm_start: GraphicalModel | Sequence[GraphicalModel] | None = None,
        constraints: Sequence[Constraint] = (),
        *,
        prior: GraphicalModel | None = None,
        prior_weight: float = 0.0,
        mesh: jax.sharding.Mesh | None = None,
    ) -> BatchFit:
        """Fit a batch of measurements of one structure: trials, epsilons, noise samples.

        Every row stops independently, with the model (to rounding), status and steps of a single fit of its
        measurements by the same compiled oracle; one that exhausts its precision (STALLED) may end some
        blocks of steps earlier or later. Programs are compiled once for all rows. Rows that together exceed
        `max_bytes` run one after another.

        Args:
            domain: the attributes.
            measurements: one list per row, with the same cliques and queries in the same order; values
                and standard deviations may differ.
            totals: number of records (counts), common or per row. Default: estimated per row.
            warm_start: an initial model for all rows, or one for each.
            constraints: as in `fit`, for all rows.
            prior: as in `fit`, for all rows.
            prior_weight: as in `fit`, for all rows.
            mesh: devices to share the rows, of this process or of several; each process calls this with
                the same arguments and gets all results. None for those of the estimator's `devices`.

        Returns:
            The fits in the order of the rows, with arrays [rows] of their status, steps, loss and gap.

        Raises:
            ValueError: see `fit`; also rows whose structures differ.

        Example:
            >>> import pgmjax as pj
            >>> rows = [[pj.LinearMeasurement(("a",), values, 1.0)] for values in ([30, 10], [5, 15])]
            >>> batch = pj.Estimator().fit_batch(pj.Domain({"a": 2}), rows)
            >>> [fit.model.marginal(("a",)).round(2).tolist() for fit in batch], batch.status.tolist()
            ([[30.0, 10.0], [5.0, 15.0]], [0, 0])
        """
        from pgmjax._internal import sharding
        from pgmjax.estimation import batch  # which single fits do without

        domain = as_domain(domain, "Estimator().fit_batch(domain, measurements)", measurements)
        rows = batch.same_structure(domain, measurements)
        starts = _starts(warm_start, len(rows))
        known = self._known(domain, starts, constraints, prior, prior_weight)
        mesh = sharding.of_devices(self.devices) if mesh is None else sharding.check(mesh)
        if not rows[0] and known.fixed:
            rows = [tuple(_exact(one) for one in known.fixed)] * len(rows)
        counts = batch.row_totals(domain, rows, total_of(known.fixed, None) if totals is None else totals)
        for total in counts:
            total_of(known.fixed, total)
        with Progress("fit_batch", self.max_steps * len(rows), self.progress) as bar:
            plans: dict[str, oracles.Plan] = {}
            problems = [
                FitProblem(self, domain, row, total, known, bar, batch=True, plans=plans)
                for row, total in zip(rows, counts, strict=True)
            ]
            found = batch.fit_all(problems, starts, mesh)
        triples = zip(found, rows, starts, strict=True)
        return batch.BatchFit(tuple(_of_inputs(one, row, known, start) for one, row, start in triples))

    def _known(
        self,
        domain: Domain,
        starts: Sequence[GraphicalModel | None],
        constraints: Sequence[Constraint],
        prior: GraphicalModel | None,
        prior_weight: float,
    ) -> SideInformation:
        for start in starts:
            asked = "warm_start must be a GraphicalModel"
            checks.kind(start, GraphicalModel | None, asked, "of a fit give fit.model")
        known = SideInformation.of(domain, constraints, prior, prior_weight)
        if prior is not None and not isinstance(self.regularisation, str) and self.regularisation > 0:
            raise ValueError(
                "prior and regularisation both pull a model: give the prior a prior_weight and leave "
                "regularisation out, or the reverse."
            )
        return known


def _starts(given: Any, rows: int) -> list[GraphicalModel | None]:
    """Return the initial model of each row, of one for all or one for each."""
    if not isinstance(given, list | tuple):
        return [given] * rows
    if len(given) != rows:
        raise ValueError(f"warm_start must be one model, or one for each of {rows} rows, got {len(given)}.")
    return list(given)


def _exact(fixed: FixedMarginal) -> LinearMeasurement:
    """Return a placeholder measurement for a fit with constraints only; feasible models meet it."""
    return LinearMeasurement(fixed.clique, fixed.counts, stddev=1.0)


def _of_inputs(
    found: Fit,
    measurements: Sequence[LinearMeasurement],
    known: SideInformation,
    warm_start: GraphicalModel | None,
) -> Fit:
    """Return a fit whose model says what it was computed from."""
    sources = [source for each in measurements for source in each.inputs]
    if known.prior is not None:
        sources += inputs.in_role(known.prior.inputs, inputs.PRIOR, "a prior")
    if warm_start is not None:
        sources += inputs.in_role(warm_start.inputs, inputs.START, "a first model")
    for each in known.fixed:
        name = f"a fixed marginal over {', '.join(each.clique)}"
        sources.append(inputs.Input(name, None, role=inputs.PUBLIC))
    return dataclasses.replace(found, model=inputs.with_inputs(found.model, inputs.merged(sources)))


def _warn_of_contradictions(problem: FitProblem, found: Fit) -> None:
    """Warn where even the best model is far from answers, in standard deviations of their noise."""
    level = problem.noise_level
    if level == 0 or problem.known.weight is not None:
        return
    least = found.loss - found.gap
    if least > CONTRADICTION * max(level, LEAST_EXPECTED):
        facts = " or with the constraints" if problem.known.zeros or problem.known.fixed else ""
        checks.warn(
            f"the answers do not go together{facts}: the best fit has a loss of {least:,.4g} or more, and "
            f"their noise explains about {level:,.4g}. Is a stddev too small, or of shares beside "
            f"counts{', or a mask of possible cells inverted' * bool(problem.known.zeros)}?"
        )
