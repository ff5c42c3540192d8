"""Fitting a mixture of products to noisy measurements, without a certificate."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.progress import Progress
from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.estimation import losses, mixture_layout, start
from pgmjax.estimation.losses.base import BoundLoss
from pgmjax.estimation.losses.noise_level import noise_level
from pgmjax.estimation.mixture_descent import Descent, descend
from pgmjax.estimation.solvers.loop import Status, precision
from pgmjax.estimation.zeros import StructuralZeros
from pgmjax.inference.oracles.choose import memory_limit
from pgmjax.inference.plan.forecast import ModelTooLargeError, readable_bytes
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.total import estimate_total
from pgmjax.model.mixture import MixtureModel

MOST_COMPONENTS, FEWEST_COMPONENTS = 1000, 100
WORK = 2_000_000_000
"""Products of a component and a cell in a step, above which fewer components are the default."""

RATE = 0.1
_LOGITS = 9  # logits, the best, both moments, gradient, probabilities and their gradients at a step's peak
_CELLS = 6  # marginals as groups and in order, residuals, their gradients
_BATCH = 4  # both factors with what they are made of, forwards and backwards


@dataclasses.dataclass(frozen=True)
class MixtureFit:
    """The result of fitting a mixture.

    Attributes:
        model: the mixture with the least loss of all restarts.
        status: STALLED where the loss no longer falls (the rule), MAX_STEPS, NOISE_LEVEL where the fit was
            asked to stop there, CONVERGED only where a lower bound was given and is met, NOT_FINITE.
        steps: steps of that restart.
        loss: loss of the model's marginals, in float64, as `Fit.loss`.
        gap: `loss - lower_bound`, infinite without a lower bound: the problem is not convex, so that nothing
            certifies how far the loss is from the least that any model reaches.
        components: number of products.
        stationarity: Euclidean norm of the loss's gradient by the logits at the end (the loss's unit a nat).
    """

    model: MixtureModel
    status: Status
    steps: int
    loss: float
    gap: float
    components: int
    stationarity: float


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
    stop: str = "optimum",
    constraints: Sequence[StructuralZeros] = (),
    warm_start: MixtureModel | None = None,
    lower_bound: float | None = None,
    tol: float = 1e-4,
    max_bytes: int | None = None,
    progress: bool | None = None,
) -> MixtureFit:
    """Fit a mixture of products: for cliques that no exact plan fits in memory.

    Args:
        domain: the attributes.
        measurements: noisy linear answers.
        total: number of records (counts); None estimates it from the measurements.
        loss: as for `Estimator`.
        components: number of products; None is 1000, or fewer where cells are many or memory is short, or
            those of `warm_start`.
        restarts: starts, one after the other; the end with the least loss is kept.
        max_steps: steps of each at most.
        seed: of the random starts; the same seed gives the same model. Not noise: it protects nothing.
        dtype: `float32` or `float64` (on the device).
        stop: `optimum`, or `noise` as for `Estimator`.
        constraints: impossible values of single attributes.
        warm_start: a mixture over the same domain, in place of the first random start.
        lower_bound: what no model's loss is below, where that is known; it makes `gap` finite.
        tol: with a lower bound, stop when gap <= tol * max(1, loss).
        max_bytes: memory that the fit may use; None asks the device.
        progress: None shows a bar in terminals and notebooks, False never does.

    Raises:
        TypeError: things that are no measurements, constraints or mixture.
        ValueError: bad measurements, nothing that tells the total, constraints over several attributes.
        ModelTooLargeError: the forecast exceeds the memory (a ValueError).

    References:
        Aydore et al. 2021, algorithm 1 (all measured answers at once); Liu, Vietri and Wu 2021, Appendix C.

    Example:
        >>> m = LinearMeasurement(("a", "b"), [[30.0, 0.0], [0.0, 10.0]], stddev=1.0)
        >>> fit = fit_mixture(Domain({"a": 2, "b": 2}), [m], components=20)
        >>> fit.model.marginal(("b", "a")).round().tolist(), fit.gap
        ([[30.0, 0.0], [0.0, 10.0]], inf)
    """
    _check_settings(restarts, max_steps, dtype, stop, tol, lower_bound)
    if not isinstance(domain, Domain):
        raise TypeError(f"domain must be a Domain, got {type(domain).__name__}.")
    measurements = checks.several("measurements", measurements, "LinearMeasurement")
    for measurement in measurements:
        if not isinstance(measurement, LinearMeasurement):
            raise TypeError(f"measurements must be LinearMeasurement, got {type(measurement).__name__}.")
    allowed = start.allowed_values(domain, constraints)
    wanted = _wanted(domain, components, warm_start)
    level = noise_level(loss, measurements) if stop == "noise" else -math.inf
    total = estimate_total(domain, measurements)[0] if total is None else total
    floor = -math.inf if lower_bound is None else lower_bound

    def enough(value: float) -> Status | None:
        if value - floor <= tol * max(1.0, value):
            return Status.CONVERGED
        return Status.NOISE_LEVEL if value <= level else None

    with precision(dtype), Progress("fit_mixture", restarts * max_steps, progress) as bar:
        bound = losses.build(loss, domain, measurements, total, dtype)
        limit = memory_limit(max_bytes)
        number = _components(domain, bound.cliques, wanted, dtype, limit)
        plan = mixture_layout.layout(domain, bound.cliques, number, allowed)
        best: Descent | None = None
        for logits in start.starts(domain, number, restarts, seed, dtype, warm_start):
            end = descend(
                bound,
                plan,
                logits,
                rate=RATE,
                max_steps=max_steps,
                enough=enough,
                watch=lambda steps, value: bar.advance(steps, f"loss {value:.6g}"),
            )
            if best is None or end.loss < best.loss or math.isnan(best.loss):
                best = end
    assert best is not None
    model = start.model_of(domain, best.logits, float(total), bound.cliques, allowed)
    return _result(model, bound, best, floor)


def forecast_bytes(domain: Domain, cliques: Sequence[Clique], components: int, dtype: str) -> int:
    """Memory that a fit takes at its peak, in bytes, roughly and rather too much.

    Args:
        domain: the attributes.
        cliques: what was measured.
        components: number of products.
        dtype: of the device arrays.
    """
    cells, batch = mixture_layout.numbers(domain, cliques, components)
    logits = components * mixture_layout.Places.of(domain).cells
    return (_LOGITS * logits + _CELLS * cells + _BATCH * batch) * np.dtype(dtype).itemsize


def _components(domain: Domain, cliques: Sequence[Clique], wanted: int | None, dtype: str, limit: int) -> int:
    """The number of components, the default one such that the forecast fits; or a refusal with figures."""
    number = wanted
    if number is None:
        cells = sum(domain.size(clique) for clique in cliques)
        number = min(max(WORK // cells, FEWEST_COMPONENTS), MOST_COMPONENTS)
        while number > FEWEST_COMPONENTS and forecast_bytes(domain, cliques, number, dtype) > limit:
            number = max(number // 2, FEWEST_COMPONENTS)
    need = forecast_bytes(domain, cliques, number, dtype)
    if need > limit:
        raise ModelTooLargeError(
            f"the mixture of {number} components needs about {readable_bytes(need)} and "
            f"{readable_bytes(limit)} is available: measure smaller cliques, coarsen bins, or set components "
            "or max_bytes."
        )
    return number


def _wanted(domain: Domain, components: Any, warm_start: Any) -> int | None:
    """The number of components asked for, if any."""
    wanted = None if components is None else checks.integer("components", components, low=1)
    if warm_start is None:
        return wanted
    if not isinstance(warm_start, MixtureModel):
        raise TypeError(f"warm_start must be a MixtureModel, got {type(warm_start).__name__}.")
    if warm_start.domain != domain:
        raise ValueError("warm_start must be a model over the same domain.")
    if wanted not in (None, warm_start.components):
        raise ValueError(
            f"components must be {warm_start.components}, those of warm_start, or None, got {wanted}."
        )
    return warm_start.components


def _check_settings(restarts: Any, max_steps: Any, dtype: Any, stop: Any, tol: Any, lower_bound: Any) -> None:
    checks.integer("restarts", restarts, low=1)
    checks.integer("max_steps", max_steps, low=1)
    checks.choice("dtype", dtype, losses.base.DTYPES)
    checks.choice("stop", stop, ("optimum", "noise"))
    checks.number("tol", tol, at_least=0)
    if lower_bound is not None:
        checks.number("lower_bound", lower_bound)


def _result(model: MixtureModel, bound: BoundLoss, end: Descent, floor: float) -> MixtureFit:
    """The fit with its loss in float64, once the model's own marginals are known."""
    value = bound.exact([model.marginal(clique) / model.total for clique in bound.cliques])
    gap = max(value - floor, 0.0)
    return MixtureFit(model, end.status, end.steps, value, gap, model.components, end.stationarity)
