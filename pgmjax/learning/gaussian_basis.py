"""Regression on Gaussian functions of the encoding, in its corrected form."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import scipy

from pgmjax._internal import checks
from pgmjax.learning.base import Examples, Learner
from pgmjax.learning.linear import ridge
from pgmjax.random import generator

MAX_CENTRES = 1000
"""Default maximum number of centres."""
NEIGHBOURS = 2.0
"""The default width is this factor times the median distance between a centre and its nearest neighbour."""


@dataclasses.dataclass(frozen=True)
class GaussianBasis(Learner):
    """Ridge regression on phi_j(q) = exp(-|encoding(q) - centre_j|^2 / (2 width^2)) and a constant.

    The paper's equation 7 uses functions of the answers, which new queries do not have. Here they are
    functions of the encoding, fitted to the answers.

    Args:
        centres: number of centres, drawn without replacement from the distinct training encodings. Default:
            all, up to 1,000.
        width: width of every function, in units of the encoding. Default: twice the median distance between
            a centre and its nearest neighbour.
        penalty: penalty on the squares of all coefficients except the constant, > 0. Default: the one with
            the smallest leave-one-out error on the training answers.

    Raises:
        TypeError: a setting that is not a number.
        ValueError: no centre, or a width or penalty that is not > 0.

    References:
        Zhu et al. 2017, equation 7, corrected.

    Example:
        >>> rows = np.linspace(0, 1, 30)[:, None]
        >>> fitted = GaussianBasis(width=0.2).fit(rows, np.sin(6 * rows[:, 0]))
        >>> bool(abs(fitted.predict([[0.51]])[0] - np.sin(6 * 0.51)) < 0.01)
        True
    """

    centres: int | None = None
    width: float | None = None
    penalty: float | None = None

    name: ClassVar[str] = "gaussian-basis"

    def __post_init__(self) -> None:
        checks.set_integers(self, "centres", low=1, optional=True)
        for name in ("width", "penalty"):
            if getattr(self, name) is not None:
                checks.number(name, getattr(self, name), above=0)

    @property
    def linear(self) -> bool:
        """True if the penalty is given; an automatic one depends on the answers."""
        return self.penalty is not None

    def _learn(self, given: Examples, seed: Any) -> dict[str, Any]:
        """Fit the functions; the seed draws the centres."""
        different = np.unique(given.encodings, axis=0)
        count = min(len(different), MAX_CENTRES if self.centres is None else self.centres)
        centres = different
        if count < len(different):
            centres = different[np.sort(generator(seed).choice(len(different), count, replace=False))]
        width = _width(centres) if self.width is None else self.width
        features, share = _features(given.encodings, centres, width), given.weights / given.weights.sum()
        # The constant is not penalised: it restores the means subtracted here.
        mean, means = share @ features, given.answers @ share
        slopes = ridge(features - mean, given.answers - means[:, None], given.weights, self.penalty)
        constants = means - slopes @ mean
        return {"centres": centres, "width": width, "coefficients": slopes, "constants": constants}

    def _predict(self, learned: Mapping[str, Any], rows: np.ndarray) -> np.ndarray:
        features = _features(rows, learned["centres"], learned["width"])
        return np.asarray(learned["coefficients"] @ features.T + learned["constants"][:, None])

    def _shapes(self, dimensions: int) -> dict[str, tuple[int | str, ...]]:
        return {
            "centres": ("centres", dimensions),
            "width": (),
            "coefficients": ("batch", "centres"),
            "constants": ("batch",),
        }


def _features(rows: np.ndarray, centres: np.ndarray, width: float) -> np.ndarray:
    return np.exp(-scipy.spatial.distance.cdist(rows, centres, "sqeuclidean") / (2 * width**2))


def _width(centres: np.ndarray) -> float:
    """Return the default width, which depends on the encodings only; 1 for a single centre."""
    if len(centres) == 1:
        return 1.0
    distances = scipy.spatial.distance.cdist(centres, centres)
    np.fill_diagonal(distances, np.inf)
    return float(NEIGHBOURS * np.median(distances.min(axis=1)))
