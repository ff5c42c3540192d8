"""Regression on Gaussian functions of the encoding, in its corrected form."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import scipy

from pgmjax._internal import checks
from pgmjax.learning.base import Examples, FittedLearner, Learner, encoded_queries
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

    def fit(self, encodings: Any, answers: Any, *, weights: Any = None, seed: int = 0) -> FittedGaussianBasis:
        """Learn from answered queries, as in `Learner.fit`; the seed draws the centres."""
        given = Examples.of(encodings, answers, weights)
        different = np.unique(given.encodings, axis=0)
        count = min(len(different), MAX_CENTRES if self.centres is None else self.centres)
        centres = different
        if count < len(different):
            centres = different[np.sort(generator(seed).choice(len(different), count, replace=False))]
        width = _width(centres) if self.width is None else self.width
        features, share = _features(given.encodings, centres, width), given.weights / given.weights.sum()
        # The constant is not penalised: it restores the means subtracted here.
        mean, told = share @ features, given.answers @ share
        slopes = ridge(features - mean, given.answers - told[:, None], given.weights, self.penalty)
        found = np.hstack([slopes, (told - slopes @ mean)[:, None]])
        return FittedGaussianBasis(self, centres, width, found if given.batched else found[0])

    def restore(self, arrays: Mapping[str, np.ndarray], dimensions: int) -> FittedGaussianBasis:
        """Return the fitted learner from the arrays of `FittedGaussianBasis.arrays`."""
        names = ("centres", "width", "coefficients")
        centres, width, found = (np.asarray(arrays.get(name, np.nan), np.float64) for name in names)
        shaped = centres.ndim == 2 and centres.shape[1] == dimensions and width.size == 1
        shaped = shaped and found.ndim in (1, 2) and found.shape[-1] == len(centres) + 1
        if not shaped or not all(np.isfinite(each).all() for each in (centres, width, found)) or width <= 0:
            raise ValueError(
                f"the learner {self.name!r} keeps `centres` [centres, {dimensions}], `width` > 0 and "
                "`coefficients` [centres + 1], all finite: these arrays are not its own."
            )
        return FittedGaussianBasis(self, centres, float(width.reshape(())), found)


@dataclasses.dataclass(frozen=True, eq=False)
class FittedGaussianBasis(FittedLearner):
    """Coefficients of Gaussian functions.

    Attributes:
        learner: the settings.
        centres: float64 [centres, dimensions].
        width: width of every function.
        coefficients: float64 [centres + 1] or [batch, centres + 1]; the last is the constant.
    """

    learner: GaussianBasis
    centres: np.ndarray
    width: float
    coefficients: np.ndarray

    def predict(self, encodings: Any) -> np.ndarray:
        """Return the sums of the Gaussian functions of the encodings times their coefficients."""
        rows = encoded_queries(encodings, self.centres.shape[1])
        return (
            self.coefficients[..., :-1] @ _features(rows, self.centres, self.width).T
            + self.coefficients[..., -1:]
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """Return centres, width and coefficients."""
        return {"centres": self.centres, "width": np.array(self.width), "coefficients": self.coefficients}


def _features(rows: np.ndarray, centres: np.ndarray, width: float) -> np.ndarray:
    return np.exp(-scipy.spatial.distance.cdist(rows, centres, "sqeuclidean") / (2 * width**2))


def _width(centres: np.ndarray) -> float:
    """Return the default width, which depends on the encodings only; 1 for a single centre."""
    if len(centres) == 1:
        return 1.0
    distances = scipy.spatial.distance.cdist(centres, centres)
    np.fill_diagonal(distances, np.inf)
    return float(NEIGHBOURS * np.median(distances.min(axis=1)))
