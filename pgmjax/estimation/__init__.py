"""From measurements to a model with a certificate: losses, solvers, constraints, the fit itself.

`Estimator` (`pgmjax.Estimator`) is the entry; where no exact model fits in memory, `fit_local` fits locally
consistent tables and `fit_mixture` a mixture of products.
"""

from pgmjax.estimation.mixture_fit import MixtureFit, fit_mixture
from pgmjax.estimation.region_fit import InconsistentWarning, LocalFit, fit_local

__all__ = ["InconsistentWarning", "LocalFit", "MixtureFit", "fit_local", "fit_mixture"]
