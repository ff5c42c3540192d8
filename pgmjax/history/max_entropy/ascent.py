"""Ascent of the dual, with a certificate after every step: L-BFGS-B in the box, or steps of Newton's method.

Newton's steps are for inference that is expensive or impossible. The Hessian of the dual is minus the
covariance of the features, which a sample of cells estimates to a few per cent. Products with it read one
number per table and sampled cell, however many rows there are. Each step maximises the quadratic model in the
box, within a region where the distribution stays close. With exact gradients (`exactly`) a few inferences
achieve what first-order ascent needs hundreds for; with gradients from the chains themselves (`roughly`) no
inference is needed.

Where the structure does not fit in memory, many Markov chains on the device stand for inference.

A step draws one attribute given the others: its conditional log-probabilities are the sum of one row of
every table that holds it, so a step reads a few rows whatever the size of the domain. `draw` makes synthetic
rows, one from each chain.

References:
    Byrd, Lu, Nocedal and Zhu 1995, "A limited memory algorithm for bound constrained optimization".
    Geman and Geman 1984. Chen, Zhou and Bhowmick 2012, section 4.2. MacKay 2003, chapter 29.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from pgmjax import random
from pgmjax._internal.jit import jit
from pgmjax._internal.progress import Progress
from pgmjax.data.domain import Clique, Domain
from pgmjax.estimation.solvers.stopping import Status
from pgmjax.history.max_entropy.dual import Dual, DualPoint, Features
from pgmjax.model import region_rows
from pgmjax.model.graphical import GraphicalModel

BATCH = 50_000


@dataclasses.dataclass(frozen=True, eq=False)
class Chains:
    """The states of many chains.

    Attributes:
        domain: the attributes.
        cliques: the attributes of every table.
        layout: the same, for a sweep.
        codes: code of each attribute in each chain [attributes, chains], int32, on the device.
        key: key of the generator.
    """

    domain: Domain
    cliques: tuple[Clique, ...]
    layout: region_rows.Layout
    codes: jax.Array
    key: Any

    @classmethod
    def start(
        cls,
        domain: Domain,
        cliques: Sequence[Clique],
        probabilities: Sequence[np.ndarray],
        chains: int,
        seed: int,
    ) -> Chains:
        """Start chains at independent draws of every attribute.

        Args:
            domain: the attributes.
            cliques: the attributes of every table.
            probabilities: probabilities of every attribute's codes; those in no table keep their draws.
            chains: number of chains.
            seed: the same seed gives the same chains.
        """
        generator = random.generator(seed)
        ends = [np.cumsum(p) / np.sum(p) for p in probabilities]
        drawn = [np.searchsorted(end, generator.random(chains), side="right") for end in ends]
        last = [int(np.flatnonzero(p)[-1]) for p in probabilities]  # rounding must not pass a zero
        codes = np.stack([np.minimum(d, at) for d, at in zip(drawn, last, strict=True)]).astype(np.int32)
        layout = region_rows.layout_of(domain, cliques)
        return cls(domain, tuple(cliques), layout, jnp.asarray(codes), random.key(seed, jax))

    def swept(self, tables: Sequence[Any], sweeps: int = 1) -> Chains:
        """Return the chains after some sweeps over all attributes.

        Args:
            tables: log-potentials of every clique; minus infinity marks impossible cells.
            sweeps: number of sweeps.
        """
        # the last is the cell that belongs to no table
        potentials = np.concatenate([*(np.ravel(table) for table in tables), [0.0]]).astype(np.float32)
        codes, key = _sweep(self.layout, potentials, self.codes, self.key, sweeps)
        return dataclasses.replace(self, codes=codes, key=key)

    def shares(self) -> list[np.ndarray]:
        """Return the share of chains in every cell of every table."""
        sizes, number = map(self.domain.size, self.cliques), self.codes.shape[1]
        counts = [np.bincount(cells, minlength=n) for cells, n in zip(self.cells(), sizes, strict=True)]
        return [
            count.reshape(self.domain.shape_of(clique)) / number
            for count, clique in zip(counts, self.cliques, strict=True)
        ]

    def cells(self) -> list[np.ndarray]:
        """Return the cell index of each chain in every table [chains]."""
        codes = dict(zip(self.domain, np.asarray(self.codes), strict=True))
        return [
            np.ravel_multi_index([codes[name] for name in clique], self.domain.shape_of(clique))
            for clique in self.cliques
        ]


def draw(model: GraphicalModel, rows: int, seed: int, sweeps: int) -> dict[str, np.ndarray]:
    """Draw rows by as many chains, in batches.

    Args:
        model: the distribution; its cliques' marginals, where known, start the chains.
        rows: number of rows.
        seed: the same seed gives the same rows.
        sweeps: number of sweeps over all attributes, starting from independent attributes.

    Returns:
        Codes [rows] of each attribute.
    """
    domain, cliques = model.domain, model.potentials.cliques
    held = {name for clique in model.known_marginals.cliques for name in clique}
    starts = [
        model.marginal((name,)) / model.total if name in held else np.full(domain[name], 1.0 / domain[name])
        for name in domain.attributes
    ]
    parts = []
    for number, first in enumerate(range(0, rows, BATCH)):
        count = min(BATCH, rows - first)
        chains = Chains.start(domain, cliques, starts, count, seed + number)
        parts.append(np.asarray(chains.swept(model.potentials.tables, sweeps).codes, np.int64))
    every = np.concatenate([np.zeros((len(domain), 0), np.int64), *parts], axis=1)
    return dict(zip(domain.attributes, every, strict=True))


@jit
def _sweep(
    layout: region_rows.Layout, potentials: jax.Array, codes: jax.Array, key: Any, sweeps: Any
) -> tuple[jax.Array, Any]:
    layout = jax.tree.map(jnp.asarray, layout)
    turned = [potentials[bucket.cells] for bucket in layout.buckets]

    def one(_: Any, state: Any) -> Any:
        codes, key = state
        key, own = random.split(key, 2, jax)
        return region_rows.swept(layout, turned, codes, own), key

    return jax.lax.fori_loop(0, sweeps, one, (codes, key))


MEMORY = 20
RESTARTS = 5
SWEEPS = 2
"""Sweeps between two samples."""
PATH_SAMPLES = 10
"""Samples on the path from the prior to given weights."""
REACH = 1.0
"""Largest change of the distribution in one step, as the root of twice its divergence (nats)."""
MOST_PRODUCTS = 30
"""Maximum number of products with the covariance in one step."""


class Converged(StopIteration):
    """Raised within the search to stop it: the certificate is small enough."""


class AscentSearch:
    """The best point so far, with its stopping test; `steps` counts evaluations of the dual."""

    def __init__(self, dual: Dual, tol: float, bar: Progress | None = None) -> None:
        self._dual, self._tol, self._bar = dual, tol, bar
        self.best: DualPoint | None = None
        self.below = -math.inf
        self.highest = np.zeros(0)
        self.steps = 0

    @property
    def gap(self) -> float:
        """A bound on the best primal objective minus the optimum (nats); infinite before the first point."""
        return math.inf if self.best is None else max(self.best.primal - self.below, 0.0)

    def see(self, weights: np.ndarray) -> DualPoint:
        """Evaluate weights, keep the best.

        Raises:
            Converged: the gap is within the tolerance.
        """
        point = self._dual.at(weights)
        self.steps += 1
        if not math.isfinite(point.value):
            return point
        if point.value > self.below:
            self.below, self.highest = point.value, weights
        if self.best is None or point.primal < self.best.primal:
            self.best = point
        if self._bar is not None:
            self._bar.advance(1, f"gap {self.gap:.3g}")
        if self.gap <= self._tol * max(1.0, abs(self.best.primal)):
            raise Converged
        return point


def ascend(dual: Dual, start: np.ndarray, scales: np.ndarray, max_steps: int, search: AscentSearch) -> Status:
    """Maximise the dual.

    Args:
        dual: the problem.
        start: weights to start from, within the box [rows].
        scales: step size of each weight [rows].
        max_steps: maximum number of evaluations of the dual.
        search: evaluates points and keeps the best.
    """
    box = dual.penalty.box / scales

    def objective(scaled: np.ndarray) -> tuple[float, np.ndarray]:
        if search.steps >= max_steps:
            raise StopIteration
        # clip to the box, which rounding in the division may have left
        point = search.see(np.clip(scaled * scales, -dual.penalty.box, dual.penalty.box))
        return -point.value, -point.gradient * scales

    try:
        for _ in range(RESTARTS):
            before = search.gap
            scipy.optimize.minimize(
                objective,
                start / scales,
                method="L-BFGS-B",
                jac=True,
                bounds=np.stack([-box, box], axis=1),
                options={
                    "maxcor": MEMORY,
                    "maxiter": max_steps,
                    "maxfun": max_steps,
                    "ftol": 0.0,
                    "gtol": 0.0,
                },
            )
            start = search.highest
            if not search.gap < 0.9 * before:
                break
    except Converged:
        return Status.CONVERGED
    except StopIteration:
        return Status.MAX_STEPS
    return Status.STALLED


@dataclasses.dataclass(frozen=True, eq=False)
class Sample:
    """Cells drawn from a model, as the features see them.

    Attributes:
        features: the rows.
        cells: for every group of features, the index of each drawn cell [draws].
    """

    features: Features
    cells: list[np.ndarray]

    @functools.cached_property
    def means(self) -> np.ndarray:
        """The mean feature of every row [rows]."""
        return self.features.answers(self.shares())

    def shares(self) -> list[np.ndarray]:
        """Return the share of draws in every cell of every group's table."""
        return [table / len(self.cells[0]) for table in self._counts()]

    def curved(self, direction: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the covariance of the features times a direction [rows], and its square along it."""
        tables = self.features.potentials(direction)
        values = np.zeros(len(self.cells[0]))
        for table, cell in zip(tables, self.cells, strict=True):
            values += table.reshape(-1)[cell]
        values -= values.mean()
        weights = values / len(values)
        product = self.features.answers(self._counts(weights)) - self.features.constants
        return product, float(values @ weights)

    def _counts(self, weights: np.ndarray | None = None) -> list[np.ndarray]:
        """Return the draws in every cell of every group's table, or the sums of their weights."""
        return [
            np.bincount(cells, weights, math.prod(group.shape)).reshape(group.shape)
            for group, cells in zip(self.features.groups, self.cells, strict=True)
        ]


@dataclasses.dataclass(frozen=True, eq=False)
class Newton:
    """The constants of a Newton step.

    Attributes:
        dual: the problem; its plan is not used by `roughly`.
        scales: step size of each weight [rows].
        floors: curvature by each weight that one draw may miss [rows]: the square of its feature's largest
            entry.
        snapshots: number of samples of the chains that are combined into one.
    """

    dual: Dual
    scales: np.ndarray
    floors: np.ndarray
    snapshots: int = 4

    def sample(self, chains: Chains, weights: np.ndarray) -> tuple[Chains, Sample]:
        """Move the chains under the model of some weights and sample them."""
        tables = self.dual.features.tables(weights)
        groups = len(self.dual.features.groups)
        taken = []
        for _ in range(self.snapshots):
            chains = chains.swept(tables, SWEEPS)
            taken.append(chains.cells()[:groups])
        cells = [np.concatenate(parts) for parts in zip(*taken, strict=True)]
        return chains, Sample(self.dual.features, cells)

    def direction(self, sample: Sample, weights: np.ndarray, means: np.ndarray) -> tuple[np.ndarray, float]:
        """Maximise the quadratic model at some weights.

        Args:
            sample: sample that gives the curvature.
            weights: the point [rows].
            means: the expected feature of every row there [rows].

        Returns:
            The step [rows], and the size of the change in distribution: the root of the step's variance.
        """
        penalty = self.dual.penalty
        slope = self.dual.targets - means - penalty.conjugate(weights)[1]
        floors = self.floors / len(sample.cells[0])  # a cell that was never drawn has no curvature to see

        def model(scaled: np.ndarray) -> tuple[float, np.ndarray]:
            step = scaled * self.scales
            product, square = sample.curved(step)
            extra, of_extra = penalty.conjugate(step)
            hidden = floors * step
            value = 0.5 * (square + hidden @ step) + extra - slope @ step
            return value, (product + hidden + of_extra - slope) * self.scales

        ends = np.stack([-penalty.box - weights, penalty.box - weights], axis=1)
        found = scipy.optimize.minimize(
            model,
            np.zeros(len(weights)),
            method="L-BFGS-B",
            jac=True,
            bounds=ends / self.scales[:, None],
            options={"maxcor": 30, "maxiter": MOST_PRODUCTS, "maxfun": MOST_PRODUCTS},
        )
        step = found.x * self.scales
        return step, math.sqrt(sample.curved(step)[1] + float(floors @ step**2))

    def roughly(
        self, chains: Chains, weights: np.ndarray, steps: int
    ) -> tuple[Chains, np.ndarray, float, np.ndarray]:
        """Ascend by gradients of the chains alone, averaging the later half of the points.

        Args:
            chains: their last states.
            weights: the point to start from [rows].
            steps: number of steps.

        Returns:
            The chains, the mean of the later half of the points [rows], an estimate of log Z at the last
            point that was sampled, accumulated along the path, and that point [rows].
        """
        later = []
        chains, log_partition = self._along(chains, weights)
        before: Sample | None = None
        last = weights
        for number in range(steps):
            chains, sample = self.sample(chains, weights)
            if before is not None:  # log Z changes by the mean feature along the path
                log_partition += float(0.5 * (before.means + sample.means) @ (weights - last))
            before, last = sample, weights
            step, far = self.direction(sample, weights, sample.means)
            # steps shrink in the later half, whose points are averaged
            share = min(1.0, REACH / far if far else 1.0) / max(1, number + 2 - steps // 2)
            weights = self._clipped(weights + share * step)
            if number >= steps // 2:
                later.append(weights)
        return chains, np.mean(later, axis=0), log_partition, last

    def _along(self, chains: Chains, weights: np.ndarray) -> tuple[Chains, float]:
        """Move the chains from the prior to some weights; return them with log Z, 0 at the prior."""
        if not weights.any():
            return chains, 0.0
        means = []
        for number in range(PATH_SAMPLES + 1):
            chains, sample = self.sample(chains, weights * number / PATH_SAMPLES)
            means.append(float(sample.means @ weights))
        # d log Z / ds is the mean feature on the path: the trapezoidal rule
        return chains, (sum(means) - 0.5 * (means[0] + means[-1])) / PATH_SAMPLES

    def exactly(self, chains: Chains, start: np.ndarray, search: AscentSearch, max_steps: int) -> Status:
        """Ascend by exact gradients, one inference per step.

        Args:
            chains: their last states.
            start: the point to start from [rows].
            search: evaluates points and keeps the best.
            max_steps: maximum number of inferences.
        """
        reach = REACH
        try:
            point = search.see(self._clipped(start))
            while search.steps < max_steps and reach > 1e-3:
                chains, sample = self.sample(chains, point.weights)
                step, far = self.direction(sample, point.weights, point.answers)
                share = min(1.0, reach / far if far else 1.0)
                new = search.see(self._clipped(point.weights + share * step))
                if new.value > point.value:
                    point, reach = new, min(2 * reach, REACH)
                else:
                    # the sampled curvature does not hold that far: a shorter step from the same point
                    reach = 0.25 * min(reach, far)
        except Converged:
            return Status.CONVERGED
        return Status.MAX_STEPS if search.steps >= max_steps else Status.STALLED

    def _clipped(self, weights: np.ndarray) -> np.ndarray:
        return np.clip(weights, -self.dual.penalty.box, self.dual.penalty.box)
