"""Estimation and answers from locally consistent tables, where no exact model fits in memory."""

from pgmjax.regions.fit import InconsistentWarning, LocalFit, fit_local
from pgmjax.regions.model import RegionModel

__all__ = ["InconsistentWarning", "LocalFit", "RegionModel", "fit_local"]
