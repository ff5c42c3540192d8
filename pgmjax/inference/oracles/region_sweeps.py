"""Sweeps of message passing over the inner regions of a region graph.

All outer tables are one log vector `x`, with belief(region) proportional to exp(x). A step handles one colour
of inner regions, which touch different cells, and a sweep all of them in order.

- `agree` is for counting numbers of outer regions alone: every step replaces the marginals on the colour by
  their geometric mean, which is the exact minimum of the convex dual over these messages: sweeps converge.
- `pass_messages` is for any counting numbers. A step solves the stationarity equations of the colour's
  messages. It is belief propagation where they are Bethe's; there is no promise that it converges.

References:
    Yedidia, Freeman and Weiss (2005), section V; Hazan and Shashua (2010), Norm-product belief
    propagation; Meltzer, Globerson and Weiss (2009), Convergent message passing algorithms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from pgmjax.inference.plan.region_maps import Block, RegionMaps

jax.tree_util.register_dataclass(
    Block,
    data_fields=["cells", "of", "region", "edge", "weight", "number", "conditional"],
    meta_fields=["sizes"],
)
jax.tree_util.register_dataclass(
    RegionMaps, data_fields=["table", "weight", "source", "target", "own", "blocks"], meta_fields=["length"]
)

Vector = Any  # a JAX array, or an index map that NumPy made
Messages = tuple[jax.Array, ...]  # for each block the log-messages [colours, edge cells]
SLOWEST = 0.05  # an inner belief's step is divided by no less than this share of the weights around it


def segment_max(values: Vector, of: Vector, count: int) -> Vector:
    """Largest value of each segment; segments stand in ascending order."""
    return jax.ops.segment_max(values, of, count, indices_are_sorted=True)


def segment_sum(values: Vector, of: Vector, count: int) -> Vector:
    """Sum of each segment; segments may stand in any order."""
    return jax.ops.segment_sum(values, of, count)


def segment_logsumexp(values: Vector, of: Vector, count: int) -> Vector:
    """Log-sum-exp of each segment; minus infinity where all of it is, or nothing."""
    top = segment_max(values, of, count)
    top = jnp.where(jnp.isfinite(top), top, 0)
    summed = jax.ops.segment_sum(jnp.exp(values - top[of]), of, count, indices_are_sorted=True)
    return jnp.log(summed) + top


def outer_tables(maps: RegionMaps, potentials: Vector) -> Vector:
    """Log-potentials of the outer regions [length] from those of all cliques."""
    return jnp.zeros(maps.length, potentials.dtype).at[maps.target].add(potentials[maps.source])


def clique_marginals(maps: RegionMaps, beliefs: Vector, length: int) -> Vector:
    """Marginals of all cliques [length] from the beliefs of the outer regions."""
    return jnp.zeros(length, beliefs.dtype).at[maps.source].add(beliefs[maps.target])


def log_scales(maps: RegionMaps, x: Vector) -> Vector:
    """Log-sum-exp of every outer table [tables]."""
    return segment_logsumexp(x, maps.table, len(maps.weight))


def normalised(maps: RegionMaps, x: Vector) -> Vector:
    """Outer log-tables that sum to 1; those without a possible cell stay as they are."""
    scale = log_scales(maps, x)
    return x - jnp.where(jnp.isfinite(scale), scale, 0)[maps.table]


def no_messages(maps: RegionMaps, dtype: Any) -> Messages:
    """Messages that say nothing."""
    return tuple(jnp.zeros(block.region.shape, dtype) for block in maps.blocks)


def _through(
    maps: RegionMaps, carry: Any, step: Callable[..., Any], messages: Messages | None = None
) -> tuple[Any, Messages]:
    """Run `step(carry, block, row, row's messages)` over all colours."""
    written = []
    for number, block in enumerate(maps.blocks):

        def one(carry: Any, scanned: tuple, block: Block = block) -> tuple[Any, Any]:
            row, message = scanned
            return step(carry, block, row, message)

        rows = jax.tree.map(jnp.asarray, block)
        carry, new = lax.scan(one, carry, (rows, None if messages is None else messages[number]))
        written.append(new)
    return carry, tuple(written)


def _taken(x: Vector, cells: Vector) -> Vector:
    return x.at[cells].get(mode="fill", fill_value=-jnp.inf)


def _put(x: Vector, cells: Vector, values: Vector) -> Vector:
    return x.at[cells].set(values, mode="drop")


def _distance(row: Block, sizes: tuple[int, int, int], found: Vector, mean: Vector) -> jax.Array:
    """Largest L1 distance between an outer region's marginal and the mean of those around it."""
    differences = jnp.where(row.weight > 0, jnp.abs(jnp.exp(found) - jnp.exp(mean)), 0)
    return jnp.max(segment_sum(differences, row.edge, sizes[2]))


def _mean(row: Block, sizes: tuple[int, int, int], tables: Vector) -> tuple[Vector, Vector]:
    """Weighted sum of the tables of all edges of each inner region, and the weights' sum [inner cells]."""
    weight = row.weight.astype(tables.dtype)
    total = segment_sum(jnp.where(weight > 0, weight * tables, 0), row.region, sizes[1])
    return total, segment_sum(weight, row.region, sizes[1])


def agree(maps: RegionMaps, x: Vector) -> tuple[Vector, jax.Array]:
    """One sweep of geometric means.

    Args:
        maps: of counting numbers of which those of inner regions are 0.
        x: log-tables that sum to 1, or nearly [length].

    Returns:
        The tables after it, no longer quite normalised, and the largest L1 distance between marginals
        that ought to agree and their mean, as it was met on the way (probability).
    """

    def step(carry: tuple, block: Block, row: Block, _: None) -> tuple[tuple, None]:
        x, worst = carry
        cells = _taken(x, row.cells)
        found = segment_logsumexp(cells, row.of, block.sizes[0])
        total, weights = _mean(row, block.sizes, found)
        mean = (total / jnp.where(weights > 0, weights, 1))[row.region]
        change = jnp.where(jnp.isfinite(mean), mean - found, jnp.where(jnp.isfinite(found), -jnp.inf, 0))
        worst = jnp.maximum(worst, _distance(row, block.sizes, found, mean))
        return (_put(x, row.cells, cells + change[row.of]), worst), None

    return _through(maps, (x, jnp.zeros((), x.dtype)), step)[0]


def pass_messages(
    maps: RegionMaps, x: Vector, messages: Messages, damping: Any
) -> tuple[Vector, Messages, jax.Array]:
    """One sweep of belief propagation with any counting numbers.

    Args:
        maps: the index maps.
        x: log-tables, messages included, that sum to 1 [length].
        messages: log-messages from inner regions to outer ones, each over the latter's counting number.
        damping: share of the old message that is kept, 0 <= damping < 1.

    Returns:
        Tables and messages after it, and the largest L1 distance as in `agree`.
    """

    def step(carry: tuple, block: Block, row: Block, old: Vector) -> tuple[tuple, Vector]:
        x, worst = carry
        cells = _taken(x, row.cells)
        found = segment_logsumexp(cells, row.of, block.sizes[0])
        total, weights = _mean(row, block.sizes, found)
        mean = total / jnp.where(weights > 0, weights, 1)
        worst = jnp.maximum(worst, _distance(row, block.sizes, found, mean[row.region]))
        incoming = jnp.where(jnp.isfinite(found), found - old, found)
        share = weights + row.number.astype(x.dtype)
        slow = jnp.maximum(share, SLOWEST * weights)
        wanted, _ = _mean(row, block.sizes, incoming)
        alive = jnp.isfinite(mean)
        safe = jnp.where(alive, mean, 0)
        belief = safe + (jnp.where(alive, wanted, 0) - share * safe) / jnp.where(slow > 0, slow, 1)
        possible = alive[row.region] & (row.weight > 0)
        new = jnp.where(possible, belief[row.region] - incoming, -jnp.inf)
        top = segment_max(new, row.edge, block.sizes[2])
        new = jnp.where(possible, new - jnp.where(jnp.isfinite(top), top, 0)[row.edge], 0)
        new = damping * old + (1 - damping) * new
        change = jnp.where(possible, new - old, -jnp.inf)
        return (_put(x, row.cells, cells + change[row.of]), worst), jnp.where(possible, new, 0)

    (x, worst), written = _through(maps, (x, jnp.zeros((), x.dtype)), step, messages)
    return normalised(maps, x), written, worst


def free_energy(maps: RegionMaps, outer: Vector, x: Vector) -> jax.Array:
    """Expected potentials plus the approximate entropy: the log-partition that beliefs stand for (nats).

    Args:
        maps: the index maps.
        outer: log-potentials of the outer regions [length].
        x: log-beliefs that sum to 1 [length].
    """
    beliefs = jnp.exp(x)
    possible = beliefs > 0
    weight = jnp.asarray(maps.weight, x.dtype)[maps.table]
    value = jnp.sum(jnp.where(possible, beliefs * (outer - weight * x), 0))

    def step(value: jax.Array, block: Block, row: Block, _: None) -> tuple[jax.Array, None]:
        found = segment_logsumexp(_taken(x, row.cells), row.of, block.sizes[0])
        total, weights = _mean(row, block.sizes, found)
        mean = total / jnp.where(weights > 0, weights, 1)
        entropies = jnp.where((weights > 0) & jnp.isfinite(mean), -jnp.exp(mean) * mean, 0)
        return value + jnp.sum(row.number.astype(x.dtype) * entropies), None

    value, _ = _through(maps, value, step)
    possible_tables = jnp.isfinite(segment_max(x, maps.table, len(maps.weight)))
    return jnp.where(jnp.all(possible_tables), value, -jnp.inf)


def upper_bound(maps: RegionMaps, outer: Vector, x: Vector, messages: Messages) -> jax.Array:
    """A bound on the log-partition from above that holds for any messages, converged or not (nats).

    The dual of the concave problem: a region's share is its own log-partition; where its entropy is
    counted given a part, what its marginal there exceeds the part's belief by is added; and what the
    messages of a part without counting number leave of one another.

    Args:
        maps: of counting numbers with `bounds`.
        outer: log-potentials of the outer regions [length].
        x: log-beliefs, of which only matters which are minus infinity [length].
        messages: log-messages over the counting numbers of their outer regions.
    """
    weight = jnp.asarray(maps.weight, outer.dtype)

    def add(x: Vector, block: Block, row: Block, message: Vector) -> tuple[Vector, None]:
        return _put(x, row.cells, _taken(x, row.cells) + message[row.of]), None

    start = jnp.where(jnp.isfinite(x), outer / weight[maps.table], -jnp.inf)
    x, _ = _through(maps, start, add, messages)
    value = jnp.sum(weight * log_scales(maps, x))
    x = normalised(maps, x)

    def step(value: jax.Array, block: Block, row: Block, message: Vector) -> tuple[jax.Array, None]:
        found = segment_logsumexp(_taken(x, row.cells), row.of, block.sizes[0])
        sent, weights = _mean(row, block.sizes, message)
        alive = jnp.isfinite(_mean(row, block.sizes, found)[0]) & (weights > 0)
        number = row.number.astype(x.dtype)
        belief = -sent / jnp.where(number != 0, number, 1)
        left = jnp.where(alive & (number == 0), -sent, -jnp.inf)
        # an inner region is known by the first of its edges
        first = jax.ops.segment_min(row.edge, row.region, block.sizes[1])
        left = jax.ops.segment_max(left, first, block.sizes[2])
        counted = (row.conditional > 0) & alive[row.region]
        excess = row.conditional.astype(x.dtype) * (found - belief[row.region])
        excess = segment_max(jnp.where(counted, excess, -jnp.inf), row.edge, block.sizes[2])
        finite = jnp.where(jnp.isfinite(left), left, 0) + jnp.where(jnp.isfinite(excess), excess, 0)
        return value + jnp.sum(finite), None

    return _through(maps, value, step, messages)[0]


def assignment_bound(maps: RegionMaps, outer: Vector, temperatures: int, sweeps: int, base: Any = 0) -> Any:
    """A bound from above on the largest sum of potentials over joint states (nats).

    For messages that cancel, the sum of the maxima of the outer tables is one. They are sought at falling
    temperature, where the maximum is a log-sum-exp and `agree` converges; the least of the bounds is
    returned, and each of them holds. What rounding may leave of the cancelling is added.

    Args:
        maps: of counting numbers of which those of inner regions are 0.
        outer: log-potentials of the outer regions [length].
        temperatures: how many; each is the last over 10 ** 0.5.
        sweeps: at each temperature.
        base: log-beliefs near the answer to start from; 0 for uniform ones [length].
    """
    weight = jnp.asarray(maps.weight, outer.dtype)[maps.table]
    count = len(maps.weight)
    finite = jnp.isfinite(outer)
    spread = jnp.max(jnp.where(finite, jnp.abs(outer), 0), initial=0)
    spread = jnp.where(spread > 0, spread, 1)
    base = jnp.where(finite, jnp.maximum(base, -100.0), -jnp.inf)

    def cooler(k: jax.Array, carry: tuple) -> tuple:
        messages, best = carry
        scale = weight * spread * 10.0 ** (-0.5 * k.astype(outer.dtype))
        start = (outer + messages) / scale + base
        x = lax.fori_loop(0, sweeps, lambda _, x: agree(maps, x)[0], start)
        messages = jnp.where(jnp.isfinite(x), messages + (x - start) * scale, -jnp.inf)
        tops = segment_max(outer + messages, maps.table, count)
        size = jnp.sum(jnp.where(jnp.isfinite(tops), jnp.abs(tops), 0)) + spread
        rounding = 8 * jnp.finfo(outer.dtype).eps * temperatures * sweeps * size
        return messages, jnp.minimum(best, jnp.sum(tops) + rounding)

    start = jnp.zeros_like(outer), jnp.asarray(jnp.inf, outer.dtype)
    return lax.fori_loop(0, temperatures, cooler, start)[1]
