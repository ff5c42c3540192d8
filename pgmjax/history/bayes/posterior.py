"""The posterior of tables given all answers, under a flat prior, by Gibbs sampling on the device.

The distribution of the estimate conditions on the best linear estimate alone. With Laplace noise the
individual answers are more informative: the posterior is proportional to the product of the noise densities
at y - H x. Laplace noise is Gaussian noise of random variance. The conditional of the precision is inverse
Gaussian, and given the variances x is Gaussian, so two draws alternate, in many chains.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax import random
from pgmjax._internal import checks
from pgmjax._internal.jit import jit
from pgmjax._internal.migration import Named
from pgmjax.history.bayes.blue import BestLinearUnbiased
from pgmjax.history.bayes.inference import Claim
from pgmjax.measurements.noise import CONTINUOUS

_LARGEST_RHAT = 1.05


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Posterior(Named):
    """Posterior draws of targets' true answers given all answers.

    Attributes:
        draws: draws [chains, steps, targets] (counts).
    """

    draws: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """The posterior means [targets] (counts)."""
        return np.asarray(self.draws.mean(axis=(0, 1)))

    @property
    def stddev(self) -> np.ndarray:
        """The posterior standard deviations [targets] (counts)."""
        return np.asarray(self.draws.std(axis=(0, 1)))

    @property
    def standard_error(self) -> np.ndarray:
        """The standard errors of the means [targets] (counts), from the spread between chains."""
        return np.asarray(self.draws.mean(axis=1).std(axis=0, ddof=1) / math.sqrt(len(self.draws)))

    @property
    def rhat(self) -> np.ndarray:
        """R-hat [targets]: the spread over all chains relative to that within one, near 1 if they agree."""
        steps = self.draws.shape[1]
        within = self.draws.var(axis=1, ddof=1).mean(axis=0)
        between = self.draws.mean(axis=1).var(axis=0, ddof=1)
        return np.asarray(np.sqrt((steps - 1) / steps + between / within))

    @property
    def mixed(self) -> bool:
        """Return whether the chains agree for every target."""
        return bool((self.rhat < _LARGEST_RHAT).all())

    def interval(self, level: float = 0.95, target: int = 0) -> tuple[float, float]:
        """Return the shortest interval that contains a share `level` of the draws (counts)."""
        level = checks.number("level", level, above=0, below=1)
        values = np.sort(self.draws[:, :, target].reshape(-1))
        number = math.ceil(level * len(values))
        widths = values[number - 1 :] - values[: len(values) - number + 1]
        first = int(np.argmin(widths))
        return float(values[first]), float(values[first + number - 1])

    def probability(self, claim: Claim, target: int = 0) -> tuple[float, float]:
        """Return the probability of a claim, and its standard error from the spread between chains."""
        values = self.draws[:, :, target]
        shares = ((values >= claim.low) & (values <= claim.high)).mean(axis=1)
        return float(shares.mean()), float(shares.std(ddof=1) / math.sqrt(len(shares)))

    def __repr__(self) -> str:
        chains, steps, targets = self.draws.shape
        return f"Posterior({targets:,} targets, {chains:,} chains of {steps:,} draws)"


def posterior(
    blue: BestLinearUnbiased,
    targets: Any,
    *,
    chains: int = 64,
    steps: int = 2000,
    burn_in: int = 200,
    seed: int = 0,
) -> Posterior:
    """Return draws of targets given all answers, under a flat prior over real tables.

    The discrete distributions enter by their own probabilities, continued between the integers, which are
    proportional to the continuous densities of the same scales.

    Args:
        blue: the answers, their queries and distributions.
        targets: a query, `Rows`, or entries [targets, cells], each estimable.
        chains: number of parallel chains, 2 or more.
        steps: number of draws per chain after burn-in.
        burn_in: number of initial draws of each chain that are discarded.
        seed: seed of the device's generator.

    Raises:
        NotEstimableError: (a ValueError) a target is not estimable, so it has no posterior under a flat
            prior.
        ValueError: the noise is correlated, or neither Laplace nor Gaussian.

    References:
        Andrews and Mallows 1974; Park and Casella 2008, "The Bayesian lasso", Section 2.
    """
    checks.refuse(
        (
            not blue.noise.independent,
            "the posterior needs independent noise; for Gaussian noise it is the estimate's own "
            "distribution.",
        ),
        (
            not all(distribution.noise in CONTINUOUS for distribution in blue.distributions),
            "the posterior is computed for Laplace and Gaussian noise only.",
        ),
    )
    chains, steps = checks.integer("chains", chains, low=2), checks.integer("steps", steps, low=2)
    burn_in = checks.integer("burn_in", burn_in, low=0)
    blue.combination(targets)  # raises if a target has no posterior
    vectors = blue.coordinates.of(targets)[0]
    basis = _basis(blue)
    scales = np.array([distribution.scale for distribution in blue.distributions])
    laplace = np.array([distribution.noise == "laplace" for distribution in blue.distributions])
    # the scales' own unit keeps numbers near 1
    rows, values = (blue.rows @ basis) / scales[:, None], (blue.values - blue.rows @ blue.estimate) / scales
    with jax.enable_x64(True):
        key = random.key(seed, jax)
        arguments = (rows, values, laplace, vectors @ basis)
        draws = np.asarray(_chains(key, arguments, chains, steps + burn_in))
    return Posterior(draws[burn_in:].transpose(1, 0, 2) + vectors @ blue.estimate)


def _basis(blue: BestLinearUnbiased) -> np.ndarray:
    """Return directions [coordinates, directions] that span what the rows see, in their own scale."""
    values, vectors = np.linalg.eigh(blue.information.inverse)
    kept = values > 1e-12 * values.max(initial=0)
    return np.asarray(vectors[:, kept] * np.sqrt(values[kept]))


@functools.partial(jit, static_argnums=(2, 3))
def _chains(key: Any, arguments: Any, chains: int, steps: int) -> Any:
    rows, values, laplace, targets = arguments
    directions = rows.shape[1]
    keys = random.split(key, steps + 1, jax)
    # overdispersed starting points
    start = 2 * random.normals(keys[0], (chains, directions), jax)

    def step(state: Any, one: Any) -> tuple[Any, Any]:
        first, second, third = random.split(one, 3, jax)
        residuals = jnp.abs(values - state @ rows.T)
        precisions = jnp.where(laplace, _inverse_gaussian(first, second, residuals), 1.0)
        information = jnp.einsum("md,cm,me->cde", rows, precisions, rows)
        factor = jnp.linalg.cholesky(information)
        linear = (precisions * values) @ rows
        mean = jax.scipy.linalg.cho_solve((factor, True), linear[..., None])[..., 0]
        noise = random.normals(third, (chains, directions), jax)
        # with information L L' this has the covariance of its inverse
        moved = jax.scipy.linalg.solve_triangular(factor, noise[..., None], trans=1, lower=True)[..., 0]
        state = mean + moved
        return state, state @ targets.T

    return jax.lax.scan(step, start, keys[1:])[1]


def _inverse_gaussian(first: Any, second: Any, residuals: Any) -> Any:
    """Return draws of mean 1 / residual and shape 1: the precision of a Laplace noise of scale 1.

    References:
        Michael, Schucany and Haas 1976.
    """
    # a residual of 0 would have an infinite precision
    mean = 1 / jnp.maximum(residuals, 1e-12)
    square = random.normals(first, residuals.shape, jax) ** 2
    # the smaller root, in a form without cancellation
    ratio = mean * square
    smaller = mean / (1 + 0.5 * ratio + jnp.sqrt(ratio + 0.25 * ratio * ratio))
    uniform = random.uniforms(second, residuals.shape, jax)
    return jnp.where(uniform * (mean + smaller) <= mean, smaller, mean * mean / smaller)
