"""Choice of an approximate model when no exact plan fits in memory, or an exact fit would take hours."""

from __future__ import annotations

from typing import Any

from pgmjax._internal import device
from pgmjax.estimation import regularisation
from pgmjax.estimation.fit import Fit
from pgmjax.estimation.mixture_fit import fit_mixture
from pgmjax.estimation.problem import LONGEST, FitProblem
from pgmjax.estimation.region_fit import fit_local, plan_local
from pgmjax.inference.plan.forecast import ModelTooLargeError
from pgmjax.model.regions import METHOD

CONVEX, MIXTURE = METHOD, "mixture of products"


def fit(problem: FitProblem) -> Fit:
    """Fit as the estimator says; `True` is belief propagation if it fits in memory, else a mixture.

    Returns:
        The fit, whose method is `CONVEX` or `MIXTURE`.

    Raises:
        ValueError: fixed marginals or a prior, which only exact fits support.
        ModelTooLargeError: not even the approximation fits in memory.
    """
    settings, known = problem.estimator, problem.known
    if known.fixed or known.prior is not None:
        raise ValueError(
            "no exact plan fits in memory, and an approximate fit takes impossible cells only: leave out "
            "fixed marginals and the prior, or measure fewer or smaller cliques."
        )
    given = problem.domain, problem.measurements, problem.total
    shared = {
        "loss": settings.loss,
        "constraints": known.zeros,
        "max_steps": settings.max_steps,
        "tol": settings.tol,
        "max_bytes": settings.max_bytes,
        "progress": settings.progress,
        "regularisation": settings.regularisation,
    }
    if settings.approximate == "convex" or (settings.approximate is True and _regions_fit(problem)):
        found: Any = fit_local(*given, **shared)
        method = CONVEX
    else:
        found = fit_mixture(*given, dtype=settings.dtype, **shared)
        method = MIXTURE
    end = found.status, found.steps, found.loss, found.gap
    return Fit(found.model, *end, None, method=method, regularisation=found.regularisation)


def require_time(problem: FitProblem) -> None:
    """Raise an error if an exact fit is forecast to take more than `LONGEST` and `fit` can stand in for it.

    The forecast counts operations and is the same on every CPU. It does not hold on other devices, where
    nothing is raised.

    Raises:
        ModelTooLargeError: the exact fit would take too long, or does not fit in memory.
    """
    known, plan = problem.known, problem.plan()
    if plan.seconds <= LONGEST or not device.is_cpu() or known.fixed or known.prior is not None:
        return
    if problem.estimator.approximate != "convex" or _regions_fit(problem):
        raise ModelTooLargeError(
            f"{plan.calls:,} exact calls are forecast to take {plan.seconds / 3600:.2g} hours."
        )


def _regions_fit(problem: FitProblem) -> bool:
    settings, cliques = problem.estimator, [m.clique for m in problem.measurements]
    try:
        pulled = settings.regularisation != "none" and regularisation.is_known_for(settings.loss)
        plan_local(problem.domain, cliques, problem.known.zeros, settings.max_bytes, pulled)
    except ModelTooLargeError:
        return False
    return True
