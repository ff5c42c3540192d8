"""Choice of an approximate model when no exact plan fits in memory, or an exact fit would take hours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pgmjax._internal import device
from pgmjax.data.domain import Domain
from pgmjax.estimation import regularisation
from pgmjax.estimation.fit import Fit
from pgmjax.estimation.mixture_fit import fit_mixture
from pgmjax.estimation.region_fit import fit_local, plan_local
from pgmjax.estimation.side_information import SideInformation
from pgmjax.inference import oracles
from pgmjax.inference.plan.forecast import ModelTooLargeError
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.model.regions import METHOD

CONVEX, MIXTURE = METHOD, "mixture of products"
LONGEST = 3600.0  # seconds: longest forecast of an exact fit on a CPU that an approximate one leaves alone


def fit(
    choice: bool | str,
    settings: Any,
    domain: Domain,
    measurements: Sequence[LinearMeasurement],
    total: float,
    known: SideInformation,
) -> Fit:
    """Fit by the named method; `True` for belief propagation if it fits in memory, else a mixture.

    Args:
        choice: `True`, `convex` or `mixture`.
        settings: the `Estimator`.
        domain: the attributes.
        measurements: noisy linear answers.
        total: number of records (counts).
        known: side information; impossible cells only.

    Returns:
        The fit, whose method is `CONVEX` or `MIXTURE`.

    Raises:
        ValueError: fixed marginals or a prior, which only exact fits support.
        ModelTooLargeError: not even the approximation fits in memory.
    """
    if known.fixed or known.prior is not None:
        raise ValueError(
            "no exact plan fits in memory, and an approximate fit takes impossible cells only: leave out "
            "fixed marginals and the prior, or measure fewer or smaller cliques."
        )
    shared = {
        "loss": settings.loss,
        "constraints": known.zeros,
        "max_steps": settings.max_steps,
        "tol": settings.tol,
        "max_bytes": settings.max_bytes,
        "progress": settings.progress,
        "regularisation": settings.regularisation,
    }
    if choice == "convex" or (choice is True and _regions_fit(settings, domain, measurements, known)):
        found: Any = fit_local(domain, measurements, total, **shared)
        method = CONVEX
    else:
        found = fit_mixture(domain, measurements, total, dtype=settings.dtype, **shared)
        method = MIXTURE
    end = found.status, found.steps, found.loss, found.gap
    return Fit(found.model, *end, None, method=method, regularisation=found.regularisation)


def require_time(
    choice: bool | str,
    settings: Any,
    domain: Domain,
    measurements: Sequence[LinearMeasurement],
    known: SideInformation,
    plan: oracles.Plan,
) -> None:
    """Raise an error if an exact fit is forecast to take more than `LONGEST` and `fit` can stand in for it.

    The forecast counts operations and is the same on every CPU. It does not hold on other devices, where
    nothing is raised.

    Args:
        choice: as for `fit`, and so are the next four.
        settings: the `Estimator`.
        domain: the attributes.
        measurements: noisy linear answers.
        known: side information.
        plan: of the exact fit.

    Raises:
        ModelTooLargeError: the exact fit would take too long.
    """
    if plan.seconds <= LONGEST or not device.is_cpu() or known.fixed or known.prior is not None:
        return
    if choice != "convex" or _regions_fit(settings, domain, measurements, known):
        raise ModelTooLargeError(
            f"{plan.calls:,} exact calls are forecast to take {plan.seconds / 3600:.2g} hours."
        )


def _regions_fit(
    settings: Any, domain: Domain, measurements: Sequence[LinearMeasurement], known: SideInformation
) -> bool:
    try:
        pulled = settings.regularisation != "none" and regularisation.is_known_for(settings.loss)
        plan_local(domain, [m.clique for m in measurements], known.zeros, settings.max_bytes, pulled)
    except ModelTooLargeError:
        return False
    return True
