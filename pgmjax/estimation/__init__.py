"""Estimation of a model from measurements, with a certificate.

`estimator.Estimator` (`pgmjax.Estimator`) is the entry point; if no exact model fits in memory,
`fit_local` fits locally consistent tables and `fit_mixture` a mixture of products.

- `problem`, `fit`: what is to be fitted and what is known beside it, and one fit. `start`: where it begins.
- `losses`, `solvers`: objectives and optimisers; `solvers.loop` evaluates the float64 certificate.
  `batch`: many fits of one structure.
- `constraints`: public knowledge; `feasibility`: whether it can be met.
- `regularisation`: the pull of a fit towards independence, and its weight.
- `approximate` chooses between `region_fit` and `mixture_fit` (with `mixture_layout`). `views`: pictures.
"""

from typing import TYPE_CHECKING, Any

from pgmjax._internal import migration
from pgmjax._internal.device import DeviceError

if TYPE_CHECKING:
    from pgmjax.estimation.mixture_fit import fit_mixture
    from pgmjax.estimation.region_fit import InconsistentWarning, fit_local

__all__ = ["DeviceError", "InconsistentWarning", "fit_local", "fit_mixture"]


def _later() -> dict[str, Any]:
    """Return the approximate fits: few want them, and they import optax and the oracles of regions."""
    from pgmjax.estimation.mixture_fit import fit_mixture
    from pgmjax.estimation.region_fit import InconsistentWarning, fit_local

    return {"InconsistentWarning": InconsistentWarning, "fit_local": fit_local, "fit_mixture": fit_mixture}


migration.answer(globals(), _later)
