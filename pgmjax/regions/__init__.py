"""Estimation and answers from locally consistent tables, where no exact model fits in memory."""

from pgmjax.model.regions import RegionModel
from pgmjax.regions.fit import InconsistentWarning, LocalFit, fit_local

__all__ = ["InconsistentWarning", "LocalFit", "RegionModel", "fit_local"]
