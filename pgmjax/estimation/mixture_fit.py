"""Fits of a mixture of products to noisy measurements, without a certificate.

Each restart begins at random logits or at an earlier mixture, and runs Adam in compiled blocks of steps; the
learning rate is halved when the loss plateaus.

References:
    Kingma and Ba 2015, "Adam: a method for stochastic optimization", algorithm 1.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from pgmjax import random
from pgmjax._internal import checks
from pgmjax._internal.device import precision
from pgmjax._internal.jit import jit
from pgmjax._internal.memory import readable_bytes
from pgmjax._internal.progress import Progress
from pgmjax.data.domain import Clique, Domain, as_domain
from pgmjax.estimation import losses, mixture_layout
from pgmjax.estimation import regularisation as pulls
from pgmjax.estimation.constraints import StructuralZeros
from pgmjax.estimation.losses.base import BoundLoss
from pgmjax.estimation.mixture_layout import Logits, MixtureLayout, Places
from pgmjax.estimation.region_fit import RegionDivergence, counting_numbers
from pgmjax.estimation.regularisation import Regularisation
from pgmjax.estimation.solvers.stopping import Status, StoppingRule, excess_of
from pgmjax.inference.plan.forecast import ModelTooLargeError, memory_limit
from pgmjax.inference.plan.regions import region_graph
from pgmjax.inference.plan.structure import Structure
from pgmjax.measurements.inputs import of_measurements, with_inputs
from pgmjax.measurements.linear import LinearMeasurement, over_domain
from pgmjax.measurements.total import estimate_total
from pgmjax.model.mixture import MixtureModel


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["divergence", "place", "weight", "least"],
    meta_fields=[],
    drop_fields=["attributes", "noise_level"],
)
@dataclasses.dataclass(frozen=True, eq=False)
class MixturePull:
    """``weight * D(mu)``, with D the relative entropy to the product of mu's own one-way marginals.

    D is not convex in mu, since the product moves with it.

    Attributes:
        divergence: D over the regions of the loss's cliques.
        place: for each cell of the outer regions its position in the vector of all marginals.
        weight: of D (records).
        least: least probability of a value in the product.
        attributes: with their sizes, in the order of the divergence's variables; empty after a JAX
            transformation.
        noise_level: expected loss under the noise alone.
    """

    divergence: RegionDivergence
    place: Any
    weight: Any
    least: Any
    attributes: tuple[tuple[str, int], ...] = ()
    noise_level: float = -math.inf

    @classmethod
    def of(
        cls,
        cliques: Sequence[Clique],
        domain: Domain,
        weight: float,
        least: float,
        level: float,
    ) -> MixturePull:
        """Return the pull of a fit.

        Args:
            cliques: those of the loss.
            domain: the attributes.
            weight: weight of the relative entropy (records).
            least: least probability of a value in the product.
            level: expected loss under the noise alone.
        """
        structure, names = Structure.named(domain.sizes, cliques)
        graph = region_graph(structure)
        starts = np.cumsum([0, *map(structure.cells, structure.cliques)])
        place = [
            starts[structure.cliques.index(region)] + np.arange(structure.cells(region))
            for region in graph.outer
        ]
        divergence = RegionDivergence.of(graph, counting_numbers(graph))
        attributes = tuple(zip(names, structure.sizes, strict=True))
        at = np.concatenate(place).astype(np.int32)
        return cls(divergence, at, np.float64(weight), np.float64(least), attributes, level)

    def value(self, marginals: Any) -> Any:
        """Return the pull at all tables in one vector."""
        return jnp.asarray(self.weight, marginals.dtype) * self.distance(marginals)

    def distance(self, marginals: Any) -> Any:
        """Return D of all tables in one vector (nats)."""
        outer = marginals[self.place]
        logarithms = self.divergence.floored(outer, jnp.asarray(self.least, outer.dtype))
        return self.divergence.cross_entropy(outer, logarithms) - self.divergence.entropy(outer)

    def towards(self, marginals: Sequence[np.ndarray]) -> tuple[float, dict[str, np.ndarray]]:
        """Return D of some tables, and the logarithms of the product's probabilities by attribute."""
        vector = jnp.concatenate([jnp.ravel(table) for table in marginals])
        logs = np.asarray(self.divergence.floored(vector[self.place], self.least))
        names, sizes = zip(*self.attributes, strict=True)
        parts = np.split(logs, np.cumsum(sizes)[:-1])
        return float(self.distance(vector)), dict(zip(names, parts, strict=True))


MOST_COMPONENTS, FEWEST_COMPONENTS = 1000, 100
WORK = 2_000_000_000
"""Components times cells per step, above which the default number of components is reduced."""

RATE = 0.1  # initial learning rate (nats per step)

# Copies held at the peak of a step.
_LOGITS = 9  # logits, the best, both moments, gradient, probabilities and their gradients
_CELLS = 6  # marginals as groups and in order, residuals, their gradients
_PULLED = 30  # with a pull: regions and their parts, their logarithms, gradients and places
_BATCH = 4  # both factors with their inputs, forwards and backwards

BLOCK = 25
"""Steps between two evaluations of the loss."""

SETTLED = 0.02
"""Relative decrease of the loss per block below which the rate is halved."""

_HALVINGS = 8
_ADAM = optax.scale_by_adam(eps=1e-16)  # gradients are those of the loss over its start, and may be small

LEAST = 16.0
"""Nats below the row maximum at which logits of a warm start are clipped, so that they can recover."""


@dataclasses.dataclass(frozen=True)
class MixtureFit:
    """The result of fitting a mixture.

    Attributes:
        model: the mixture with the least objective of all restarts.
        status: STALLED once the loss no longer falls (the usual case), MAX_STEPS, WITHIN_NOISE if what is
            left to gain from here seems to be less than noise hides, CONVERGED only if a lower bound was
            given and is met in float64, NOT_FINITE.
        steps: steps of that restart.
        loss: loss of the model's marginals, in float64, as in `Fit.loss`.
        gap: objective - `lower_bound`, infinite without a lower bound: the problem is not convex, so there is
            no certificate of optimality. The objective is the loss, plus the pull if there is one.
        components: number of products.
        stationarity: Euclidean norm of the final gradient by the logits (the loss's unit per nat).
        regularisation: what the fit was pulled towards, and how much; None if it was not.
    """

    model: MixtureModel
    status: Status
    steps: int
    loss: float
    gap: float
    components: int
    stationarity: float
    regularisation: Regularisation | None = None


def fit_mixture(
    domain: Domain,
    measurements: Sequence[LinearMeasurement],
    total: float | None = None,
    *,
    loss: Any = "l2",
    components: int | None = None,
    restarts: int = 1,
    max_steps: int = 2000,
    seed: int = 0,
    dtype: str = "float32",
    constraints: Sequence[StructuralZeros] = (),
    warm_start: MixtureModel | None = None,
    lower_bound: float | None = None,
    tol: float | None = 1e-4,
    max_bytes: int | None = None,
    progress: bool | None = None,
    regularisation: float | str = "none",
) -> MixtureFit:
    """Fit a mixture of products, for cliques too large for any exact plan.

    Args:
        domain: the attributes.
        measurements: noisy linear answers.
        total: number of records (counts). Default: estimated from the measurements.
        loss: as in `Estimator`.
        components: number of products. Default: that of `warm_start`, else 1000, or fewer for many cells or
            little memory.
        restarts: number of starts, run in sequence; the result of least loss is kept.
        max_steps: maximum number of steps per start.
        seed: of the random starts; the same seed gives the same model. Not a source of privacy noise.
        dtype: `float32` or `float64` (on the device).
        constraints: impossible values of single attributes.
        warm_start: a mixture over the same domain that replaces the first random start.
        lower_bound: a known lower bound on the loss of any model; it makes `gap` finite.
        tol: with a lower bound, stop when gap <= tol * max(1, loss). None for what noise makes invisible, as
            in `Estimator`: that needs no bound.
        max_bytes: memory limit of the fit; None for that of the device.
        progress: None for a progress bar in terminals and notebooks, False for no bar.
        regularisation: as in `Estimator`; the relative entropy is approximated over the measured cliques (see
            `estimation.region_fit`), exactly so if they form a junction tree.

    Raises:
        TypeError: arguments that are not measurements, constraints or a mixture.
        ValueError: bad measurements, a total that cannot be estimated, constraints over several attributes.
        ModelTooLargeError: the forecast exceeds the memory (a ValueError).

    References:
        Aydore et al. 2021, algorithm 1 (all measured answers at once); Liu, Vietri and Wu 2021, Appendix C.

    Example:
        >>> m = LinearMeasurement(("a", "b"), [[30.0, 0.0], [0.0, 10.0]], stddev=1.0)
        >>> fit = fit_mixture(Domain({"a": 2, "b": 2}), [m], components=20)
        >>> fit.model.marginal(("b", "a")).round().tolist(), fit.gap
        ([[30.0, 0.0], [0.0, 10.0]], inf)
    """
    restarts = checks.integer("restarts", restarts, low=1)
    max_steps = checks.integer("max_steps", max_steps, low=1)
    dtype = checks.choice("dtype", dtype, losses.base.DTYPES)
    if tol is not None:
        checks.number("tol", tol, at_least=0)
    floor = -math.inf if lower_bound is None else checks.number("lower_bound", lower_bound)
    loss = losses.setting(loss)
    regularisation = pulls.check(regularisation, loss)
    domain = as_domain(domain, "fit_mixture(domain, measurements)", measurements)
    measurements = over_domain(domain, measurements)
    allowed = allowed_values(domain, constraints)
    wanted = _wanted(domain, components, warm_start)
    total = estimate_total(domain, measurements)[0] if total is None else total
    weight, least = pulls.usable(regularisation, loss, domain, measurements, total, max_steps)
    level = loss.noise_level(measurements)
    rule = StoppingRule.of(tol, max_steps, math.sqrt(level))
    with precision(dtype), Progress("fit_mixture", restarts * max_steps, progress) as bar:
        bound = loss.bind(domain, measurements, total, dtype)
        pull = MixturePull.of(bound.cliques, domain, weight, least, level) if weight > 0 else None
        number = _components(domain, bound.cliques, pull is not None, wanted, dtype, memory_limit(max_bytes))
        plan = mixture_layout.layout(domain, bound.cliques, number, allowed)
        best: Descent | None = None
        for logits in starts(domain, number, restarts, seed, dtype, warm_start):
            end = _descend_in_parts(bound, pull, plan, logits, rule, floor, bar)
            if best is None or end.loss < best.loss or math.isnan(best.loss):
                best = end
    assert best is not None
    model = model_of(domain, best.logits, float(total), bound.cliques, allowed)
    return _result(with_inputs(model, of_measurements(measurements)), bound, pull, best, floor, rule)


def _descend_in_parts(
    bound: BoundLoss,
    pull: MixturePull | None,
    plan: MixtureLayout,
    logits: Logits,
    rule: StoppingRule,
    floor: float,
    bar: Progress,
) -> Descent:
    """Minimise the loss from one start; a pulled one first without its pull, down to the level of the noise.

    A pull from the start would keep components alike before they have followed anything. A weight of zero
    makes both parts one compiled program.
    """
    run = functools.partial(descend, bound, plan, floor=floor, bar=bar)
    if pull is None:
        return run(None, logits, rule)
    without = dataclasses.replace(pull, weight=np.zeros_like(pull.weight))
    few = dataclasses.replace(rule, max_steps=rule.max_steps // 2, noise_level=pull.noise_level)
    first = run(without, logits, few)
    end = run(pull, first.logits, dataclasses.replace(rule, max_steps=rule.max_steps - first.steps))
    return dataclasses.replace(end, steps=first.steps + end.steps)


def forecast_bytes(
    domain: Domain, cliques: Sequence[Clique], components: int, dtype: str, pulled: bool = False
) -> int:
    """Return a rough, conservative estimate of a fit's peak memory in bytes.

    Args:
        domain: the attributes.
        cliques: the measured cliques.
        components: number of products.
        dtype: type of the device arrays.
        pulled: whether the fit is regularised.
    """
    cells, batch = mixture_layout.numbers(domain, cliques, components)
    logits = components * mixture_layout.Places.of(domain).cells
    cells *= _CELLS + _PULLED if pulled else _CELLS
    return (_LOGITS * logits + cells + _BATCH * batch) * np.dtype(dtype).itemsize


def _components(
    domain: Domain, cliques: Sequence[Clique], pulled: bool, wanted: int | None, dtype: str, limit: int
) -> int:
    """Return the number of components, reduced by default to fit in memory, or refuse with the forecast."""
    number = wanted
    if number is None:
        cells = sum(domain.size(clique) for clique in cliques)
        number = min(max(WORK // cells, FEWEST_COMPONENTS), MOST_COMPONENTS)
        while number > FEWEST_COMPONENTS and forecast_bytes(domain, cliques, number, dtype, pulled) > limit:
            number = max(number // 2, FEWEST_COMPONENTS)
    need = forecast_bytes(domain, cliques, number, dtype, pulled)
    if need > limit:
        raise ModelTooLargeError(
            f"the mixture of {number} components needs about {readable_bytes(need)} and "
            f"{readable_bytes(limit)} is available: measure smaller cliques, coarsen bins, or set components "
            "or max_bytes."
        )
    return number


def _wanted(domain: Domain, components: Any, warm_start: Any) -> int | None:
    """Return the requested number of components, or None."""
    wanted = None if components is None else checks.integer("components", components, low=1)
    if warm_start is None:
        return wanted
    checks.kind(warm_start, MixtureModel, "warm_start must be a MixtureModel")
    if warm_start.domain != domain:
        raise ValueError("warm_start must be a model over the same domain.")
    if wanted not in (None, warm_start.components):
        raise ValueError(
            f"components must be {warm_start.components}, those of warm_start, or None, got {wanted}."
        )
    return warm_start.components


def _result(
    model: MixtureModel,
    bound: BoundLoss,
    pull: MixturePull | None,
    end: Descent,
    floor: float,
    rule: StoppingRule,
) -> MixtureFit:
    """Return the fit with the float64 loss of the model's own marginals."""
    tables = [model.marginal(clique) / model.total for clique in bound.cliques]
    value, divergence, pulled = bound.exact(tables), 0.0, None
    if pull is not None:
        with precision("float64"):
            nats, logs = pull.towards(tables)
        pulled = pulls.report(model.domain, model.total, float(pull.weight), max(nats, 0.0), logs)
        divergence = pulled.weight * pulled.divergence
    gap = max(value + divergence - floor, 0.0)
    status = rule.ending(end.status, value, gap)
    return MixtureFit(model, status, end.steps, value, gap, model.components, end.stationarity, pulled)


@dataclasses.dataclass(frozen=True, eq=False)
class Descent:
    """Result of one start.

    Attributes:
        logits: the best point at the end of a block.
        loss: the objective there, in the device's dtype.
        stationarity: Euclidean norm of the loss's gradient by the logits there (the loss's unit per nat).
        status: why it stopped.
        steps: steps done.
    """

    logits: Logits
    loss: float
    stationarity: float
    status: Status
    steps: int


def _evaluate(
    loss: BoundLoss, pull: MixturePull | None, layout: MixtureLayout, logits: Logits
) -> tuple[tuple[jax.Array, jax.Array], Logits]:
    """Return the objective, the loss alone, and the gradient of the objective by the logits."""

    def objective(point: Logits) -> tuple[jax.Array, jax.Array]:
        marginals = layout.marginals(point)
        alone = loss.flat(marginals)
        return alone if pull is None else alone + pull.value(marginals), alone

    return jax.value_and_grad(objective, has_aux=True)(logits)


def _run_block(
    loss: BoundLoss,
    pull: MixturePull | None,
    layout: MixtureLayout,
    logits: Logits,
    moments: Any,
    scale: Any,
    rate: Any,
    steps: Any,
) -> tuple[Logits, Any, jax.Array, jax.Array, jax.Array]:
    """Run some steps of Adam, then evaluate the objective, the loss alone, and the gradient's norm."""

    def step(_: Any, state: tuple[Logits, Any]) -> tuple[Logits, Any]:
        point, before = state
        _, gradient = _evaluate(loss, pull, layout, point)
        gradient = jax.tree.map(lambda each: each / scale, gradient)
        direction, after = _ADAM.update(gradient, before)
        return jax.tree.map(lambda x, d: x - rate * d, point, direction), after

    logits, moments = jax.lax.fori_loop(0, steps, step, (logits, moments))
    (value, alone), gradient = _evaluate(loss, pull, layout, logits)
    squares = [jnp.sum(jnp.square(each / scale)) for each in jax.tree.leaves(gradient)]
    return logits, moments, value, alone, jnp.sqrt(jnp.sum(jnp.stack(squares))) * scale


_block = jit(_run_block)


def descend(
    loss: BoundLoss,
    layout: MixtureLayout,
    pull: MixturePull | None,
    start: Logits,
    stop: StoppingRule,
    *,
    floor: float,
    bar: Progress,
) -> Descent:
    """Minimise the loss from one start.

    Args:
        loss: bound to the measurements, in the dtype of the start.
        layout: layout of the loss's cliques.
        pull: towards a product, or None.
        start: initial logits.
        stop: stopping rule.
        floor: lower bound on the loss; minus infinity if unknown.
        bar: progress bar.
    """
    kind = start[0].dtype.type
    *fixed, logits = jax.tree.map(jnp.asarray, (loss, pull, layout, start))
    moments, done, halvings = _ADAM.init(logits), 0, 0
    _, _, value, alone, norm = _block(*fixed, logits, moments, kind(1), kind(0), np.int32(0))
    best = Descent(logits, float(value), float(norm), Status.NOT_FINITE, 0)
    if not math.isfinite(best.loss):
        return best
    scale = kind(best.loss if best.loss > 0 else 1)
    lowest = float(alone)
    status = stop.status(best.loss, best.loss - floor, 0, False, alone=lowest)
    losses_so_far = [(0, best.loss)]
    while status is None:
        steps = min(BLOCK, stop.max_steps - done)
        logits, moments, value, alone, norm = _block(
            *fixed, logits, moments, scale, kind(RATE * 0.5**halvings), np.int32(steps)
        )
        done, now = done + steps, float(value)
        bar.advance(steps, f"loss {now:.6g}")
        if not now < best.loss * (1 - SETTLED):  # nor NaN
            halvings += 1
        if now < best.loss:
            best, lowest = Descent(logits, now, float(norm), Status.STALLED, done), float(alone)
        if not math.isfinite(now):
            logits, moments = best.logits, _ADAM.init(best.logits)
        losses_so_far.append((done, best.loss))
        excess, stalled = excess_of(losses_so_far), halvings > _HALVINGS
        status = stop.status(best.loss, best.loss - floor, done, stalled, excess=excess, alone=lowest)
    return dataclasses.replace(best, status=status, steps=done)


def starts(
    domain: Domain, components: int, restarts: int, seed: int, dtype: str, warm_start: MixtureModel | None
) -> Iterator[Logits]:
    """Yield initial logits per restart: standard Gaussian, with equal component weights.

    Args:
        domain: the attributes.
        components: number of products.
        restarts: number of starts.
        seed: the same seed gives the same starts. Not a source of privacy noise.
        dtype: type of the logits.
        warm_start: a mixture that replaces the first random start, or None.
    """
    generator = random.generator(seed)
    places = Places.of(domain)
    for number in range(restarts):
        weights = np.zeros(components)
        if number == 0 and warm_start is not None:
            weights = _raised(warm_start.log_weights)
            tables = {
                name: _raised(table) for name, table in zip(domain, warm_start.log_probabilities, strict=True)
            }
        else:
            tables = {name: generator.standard_normal((components, domain[name])) for name in domain}
        rows = places.stacked(tables, 0.0)
        yield weights.astype(dtype), tuple(table.astype(dtype) for table in rows)


def _raised(logs: np.ndarray) -> np.ndarray:
    return np.maximum(logs, logs.max(axis=-1, keepdims=True) - LEAST)


def allowed_values(domain: Domain, constraints: Sequence[StructuralZeros]) -> dict[str, np.ndarray]:
    """Return the mask of possible values of each constrained attribute, booleans [size].

    Raises:
        TypeError: not structural zeros.
        ValueError: zeros over several attributes, which a mixture cannot represent, or no possible value.
    """
    allowed: dict[str, np.ndarray] = {}
    for zeros in checks.several("constraints", constraints, "StructuralZeros"):
        checks.kind(zeros, StructuralZeros, "constraints must be StructuralZeros")
        zeros.zeros(domain)
        if len(zeros.clique) > 1:
            raise ValueError(
                f"a mixture of products keeps impossible values of single attributes only, got zeros over "
                f"{zeros.clique}: fit a graphical model, join these attributes into one, or leave them out."
            )
        (name,) = zeros.clique
        allowed[name] = zeros.allowed & allowed.get(name, True)
        if not allowed[name].any():
            raise ValueError(f"the constraints are infeasible: together they leave {name!r} no value.")
    return allowed


def model_of(
    domain: Domain, logs: Logits, total: float, cliques: Sequence[Any], allowed: Mapping[str, np.ndarray]
) -> MixtureModel:
    """Return the model of some logits, with impossible values of probability exactly 0."""
    places = Places.of(domain)
    weights, arrays = np.asarray(logs[0], np.float64), [np.asarray(table, np.float64) for table in logs[1]]
    rows = {}
    for name in domain:
        at, row = places.row[name]
        table = arrays[at][row][:, : domain[name]]
        rows[name] = np.where(allowed[name], table, -np.inf) if name in allowed else table
    return MixtureModel.from_logits(domain, weights, rows, total, cliques)
