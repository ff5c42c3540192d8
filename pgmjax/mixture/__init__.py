"""Mixtures of products: the model of last resort, where no exact plan fits in memory.

`fit_mixture` fits a `MixtureModel` to noisy measurements over any cliques. Its memory grows with the measured
cells and not with how the cliques overlap; its fit has no certificate.
"""

from pgmjax.mixture.fit import MixtureFit, fit_mixture
from pgmjax.model.mixture import MixtureModel

__all__ = ["MixtureFit", "MixtureModel", "fit_mixture"]
