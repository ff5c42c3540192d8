"""Approximate inference by belief propagation on a region graph, for structures too large for exact plans.

The memory and time of a sweep are those of the cliques' own tables, whatever loops they form. The results are
pseudo-marginals: tables that agree with one another where they overlap (up to the reported residual), but
need not be the marginals of any joint distribution.

All outer tables are one log vector `x`, with belief(region) proportional to exp(x). A step processes one
colour of inner regions, which touch different cells, and a sweep processes all colours in order.

- `agree` is for counting numbers of outer regions only. Every step replaces the marginals on the colour by
  their geometric mean, the exact minimum of the convex dual over these messages, so sweeps converge.
- `pass_messages` is for any counting numbers. A step solves the stationarity equations of the colour's
  messages. With Bethe's counting numbers it is belief propagation. Convergence is not guaranteed.

References:
    Yedidia, Freeman and Weiss (2005), Constructing free-energy approximations and generalized belief
    propagation algorithms, in particular section V; Wainwright, Jaakkola and Willsky (2005), A new class of
    upper bounds on the log partition function; Globerson and Jaakkola (2007), Approximate inference using
    conditional entropy decompositions; Meltzer, Globerson and Weiss (2009), Convergent message passing
    algorithms; Hazan and Shashua (2010), Norm-product belief propagation; McKenna, Pradhan, Sheldon and
    Miklau (2021), Relaxed marginal consistency for differentially private query answering.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
from jax import lax

from pgmjax._internal.jit import jit
from pgmjax.inference.ops import join, split
from pgmjax.inference.oracles import base
from pgmjax.inference.plan import regions
from pgmjax.inference.plan.forecast import Forecast, device_rates
from pgmjax.inference.plan.regions import Block, RegionGraph, RegionMaps, index_maps, region_graph
from pgmjax.inference.plan.structure import Structure

# Cells whose time one takes that a colour touches: gathering, two segment sums and scattering.
TOUCHED_SLOWDOWN = 25
USUAL_SWEEPS, OPERATIONS = 50, 150
TEMPERATURES, COOLING_SWEEPS = 12, 20
LEAST_SHARE = 0.05  # of the weights around an inner belief: lower bound on the divisor of its step

Vector = Any  # a JAX array, or a NumPy index map
Messages = tuple[jax.Array, ...]  # log-messages of each block [colours, edge cells]

jax.tree_util.register_dataclass(
    Block,
    data_fields=["cells", "of", "region", "edge", "weight", "number", "conditional"],
    meta_fields=["sizes"],
)
jax.tree_util.register_dataclass(
    RegionMaps,
    data_fields=["table", "weight", "source", "target", "own", "blocks", "uncovered"],
    meta_fields=["length"],
)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Beliefs:
    """The final state of belief propagation.

    Attributes:
        log_partition: an approximation, or an upper bound if the oracle's `bounds` is True (nats).
        marginals: pseudo-marginal of each clique (probabilities).
        residual: largest L1 distance between the marginal of an outer region on an inner one and the mean
            of the marginals of all outer regions that contain it (probability); 0 if they agree.
        sweeps: number of sweeps.
    """

    log_partition: jax.Array
    marginals: tuple[jax.Array, ...]
    residual: jax.Array
    sweeps: jax.Array


@dataclasses.dataclass(frozen=True)
class RegionOracle(base.Oracle):
    """Shared base of loopy and convex belief propagation.

    Attributes:
        maps: index maps with the counting numbers.
        agreeing: index maps for counting numbers of outer regions only, for bounds on the most likely state.
        graph: the region graph; None after a JAX transformation, as compiled programs depend only on the
            shapes of the index maps.
        damping: weight of the old message in each sweep, 0 <= damping < 1.
        tol: residual at which to stop (probability); less than 1e-6 may not be attainable in float32.
        max_sweeps: maximum number of sweeps.
    """

    maps: RegionMaps
    agreeing: RegionMaps
    graph: RegionGraph | None = None
    damping: Any = 0.3
    tol: Any = 1e-6
    max_sweeps: Any = 1000

    bounds: ClassVar[bool]
    _numbers: ClassVar[Any]  # the counting numbers of a region graph

    @classmethod
    def build(cls, structure: Structure, inner: str = "intersections", **settings: Any) -> Self:
        """Plan the region graph of a structure.

        Args:
            structure: sizes and cliques.
            inner: `intersections` or `attributes`; see `inference.plan.regions.region_graph`.
            settings: damping, tol, max_sweeps.
        """
        graph = region_graph(structure, inner)
        maps = index_maps(graph, cls._numbers(graph))
        return cls(maps, index_maps(graph, regions.cover(graph)), graph, **settings)

    @abc.abstractmethod
    def _value(self, outer: jax.Array, x: jax.Array, messages: Messages) -> jax.Array: ...

    def _sweep(self, x: jax.Array, messages: Messages) -> tuple[jax.Array, Messages, jax.Array]:
        return pass_messages(self.maps, x, messages, self.damping)

    def settle(
        self, x: jax.Array, messages: Messages = ()
    ) -> tuple[jax.Array, Messages, jax.Array, jax.Array]:
        """Sweep until the marginals agree or the sweeps run out.

        Args:
            x: log-tables of the outer regions, divided by their counting numbers and normalised.
            messages: the result of `no_messages`, or the messages of an earlier call.

        Returns:
            The tables, the messages, the residual as in `Beliefs`, and the number of sweeps.
        """

        def unsettled(state: tuple) -> jax.Array:
            return (state[2] > self.tol) & (state[3] < self.max_sweeps)

        def sweep(state: tuple) -> tuple:
            return (*self._sweep(state[0], state[1]), state[3] + 1)

        start = x, messages, jnp.asarray(jnp.inf, x.dtype), jnp.asarray(0)
        return lax.while_loop(unsettled, sweep, start)

    def _planned(self) -> RegionGraph:
        if self.graph is None:
            raise ValueError(
                "this oracle went through a JAX transformation: ask the one that build returned."
            )
        return self.graph

    @property
    def structure(self) -> Structure:
        """The model's sizes and cliques."""
        return self._planned().structure

    @property
    def forecast(self) -> Forecast:
        """The forecast cost of one call."""
        return forecast(self._planned())

    @property
    def details(self) -> tuple[str, ...]:
        """Further lines for a summary of its plan."""
        return (self._planned().summary(),)

    @jit
    def propagate(self, potentials: base.Potentials) -> Beliefs:
        """Run belief propagation until the marginals agree or the sweeps run out."""
        maps, vector = self.maps, join(potentials)
        outer = outer_tables(maps, vector)
        weight = jnp.asarray(maps.weight, outer.dtype)[maps.table]
        x = normalised(maps, outer / weight)
        x, messages, residual, done = self.settle(x, no_messages(maps, outer.dtype))
        beliefs = clique_marginals(maps, jnp.exp(normalised(maps, x)), len(vector))
        marginals = split(beliefs, [table.shape for table in potentials])
        log_partition = self._value(outer, x, messages) + maps.uncovered
        return Beliefs(log_partition, marginals, residual, done)

    def infer(self, potentials: base.Potentials) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        """Approximate log-partition (nats) and the pseudo-marginal of each clique (probabilities)."""
        found = self.propagate(potentials)
        return found.log_partition, found.marginals

    @jit
    def maximum(self, potentials: base.Potentials) -> jax.Array:
        """An upper bound on the largest sum of potentials over all joint states (nats)."""
        outer = outer_tables(self.agreeing, join(potentials))
        return assignment_bound(self.agreeing, outer, TEMPERATURES, COOLING_SWEEPS)


def forecast(graph: RegionGraph) -> Forecast:
    """Return the forecast cost of belief propagation on a region graph, before index maps are made."""
    structure = graph.structure
    touched = sum(structure.cells(graph.outer[holder]) for holders in graph.above for holder in holders)
    edge_cells = sum(
        len(holders) * structure.cells(part) for part, holders in zip(graph.inner, graph.above, strict=True)
    )
    largest = structure.largest(graph.outer)
    return Forecast(
        method="belief propagation on a region graph",
        largest=largest[0][1] if largest else 1,
        inputs=structure.length,
        cells=4 * touched + 10 * edge_cells + 10 * graph.cells,
        work=USUAL_SWEEPS * touched,
        largest_tables=largest,
        operations=OPERATIONS,
        seconds=USUAL_SWEEPS * touched * TOUCHED_SLOWDOWN * device_rates().cell,
    )


def _registered(kind: type) -> type:
    """Register an oracle class as a separate pytree node type.

    JAX compares the structures of dataclasses by their fields only. The classes here have equal fields, so
    two of them could share one compiled program. Hence each is registered separately.
    """
    names = ("maps", "agreeing", "damping", "tol", "max_sweeps")

    def build(_: None, leaves: Any) -> Any:
        return kind(**dict(zip(names, leaves, strict=True)))

    jax.tree_util.register_pytree_node(
        kind, lambda oracle: ([getattr(oracle, name) for name in names], None), build
    )
    return kind


@_registered
@dataclasses.dataclass(frozen=True)
class LoopyBP(RegionOracle):
    """Loopy belief propagation: every region counts once (Bethe's entropy, or Kikuchi's).

    Exact if the cliques form a junction tree. Otherwise often close, but without guarantee: it need not
    converge, and its log-partition may be above or below the true one.

    Example:
        >>> oracle = LoopyBP.build(Structure((2, 2, 2), ((0, 1), (1, 2))))
        >>> value, marginals = oracle.infer([jnp.zeros((2, 2))] * 2)
        >>> f"{value:.4f}", [table.shape for table in marginals]
        ('2.0794', [(2, 2), (2, 2)])
    """

    bounds: ClassVar[bool] = False
    _numbers = staticmethod(regions.one_per_attribute)

    def _value(self, outer: jax.Array, x: jax.Array, messages: Messages) -> jax.Array:
        return free_energy(self.maps, outer, x)


@_registered
@dataclasses.dataclass(frozen=True)
class ConvexBP(RegionOracle):
    """Convex belief propagation: the mean of many trees' entropies, which is concave and a bound.

    Exact if the cliques form a junction tree. Otherwise the solution is unique, and `log_partition` is
    never below the true one, whether or not the messages have converged.

    Example:
        >>> oracle = ConvexBP.build(Structure((2, 2, 2), ((0, 1), (1, 2), (2, 0))))
        >>> value, _ = oracle.infer([jnp.zeros((2, 2))] * 3)
        >>> f"{value:.4f}"
        '2.0794'
    """

    bounds: ClassVar[bool] = True
    _numbers = staticmethod(regions.trees)

    def _value(self, outer: jax.Array, x: jax.Array, messages: Messages) -> jax.Array:
        return upper_bound(self.maps, outer, x, messages)


@_registered
@dataclasses.dataclass(frozen=True)
class CoverBP(RegionOracle):
    """Convex belief propagation with entropies of outer regions only, weighted to cover each attribute.

    Its messages converge for any potentials, without damping. `log_partition` is never below the true
    one (Shearer's lemma), but looser than that of `ConvexBP`. It is used for estimation over locally
    consistent tables, where the entropy serves as a distance, not as an approximation.

    Example:
        >>> oracle = CoverBP.build(Structure((2, 2, 2), ((0, 1), (1, 2))))
        >>> found = oracle.propagate([jnp.zeros((2, 2)), jnp.array([[0.0, 1.0], [0.0, 0.0]])])
        >>> middle = [float(table.sum(axis)[1]) for table, axis in zip(found.marginals, (0, 1))]
        >>> abs(middle[0] - middle[1]) < 1e-6, bool(found.log_partition >= jnp.log(6 + 2 * jnp.e))
        (True, True)
    """

    bounds: ClassVar[bool] = True
    _numbers = staticmethod(regions.cover)

    def _sweep(self, x: jax.Array, messages: Messages) -> tuple[jax.Array, Messages, jax.Array]:
        x, worst = agree(self.maps, x)
        return x, messages, worst

    def _value(self, outer: jax.Array, x: jax.Array, messages: Messages) -> jax.Array:
        weight = jnp.asarray(self.maps.weight, outer.dtype)
        start = log_scales(self.maps, outer / weight[self.maps.table])
        return jnp.sum(weight * (start + log_scales(self.maps, x)))


def segment_max(values: Vector, of: Vector, count: int) -> Vector:
    """Largest value of each segment; segment numbers must be in ascending order."""
    return jax.ops.segment_max(values, of, count, indices_are_sorted=True)


def segment_logsumexp(values: Vector, of: Vector, count: int) -> Vector:
    """Log-sum-exp of each segment; minus infinity if all its values are, or if it is empty."""
    top = segment_max(values, of, count)
    top = jnp.where(jnp.isfinite(top), top, 0)
    summed = jax.ops.segment_sum(jnp.exp(values - top[of]), of, count, indices_are_sorted=True)
    return jnp.log(summed) + top


def outer_tables(maps: RegionMaps, potentials: Vector) -> Vector:
    """Log-potentials of the outer regions [length] from the potentials of all cliques."""
    return jnp.zeros(maps.length, potentials.dtype).at[maps.target].add(potentials[maps.source])


def clique_marginals(maps: RegionMaps, beliefs: Vector, length: int) -> Vector:
    """Marginals of all cliques [length] from the beliefs of the outer regions."""
    return jnp.zeros(length, beliefs.dtype).at[maps.source].add(beliefs[maps.target])


def log_scales(maps: RegionMaps, x: Vector) -> Vector:
    """Log-sum-exp of every outer table [tables]."""
    return segment_logsumexp(x, maps.table, len(maps.weight))


def normalised(maps: RegionMaps, x: Vector) -> Vector:
    """Outer log-tables normalised to sum to 1; tables without a possible cell are unchanged."""
    scale = log_scales(maps, x)
    return x - jnp.where(jnp.isfinite(scale), scale, 0)[maps.table]


def no_messages(maps: RegionMaps, dtype: Any) -> Messages:
    """Uniform messages (all zero in log space)."""
    return tuple(jnp.zeros(block.region.shape, dtype) for block in maps.blocks)


def _through(
    maps: RegionMaps, carry: Any, step: Callable[..., Any], messages: Messages | None = None
) -> tuple[Any, Messages]:
    """Run `step(carry, block, row, messages of the row)` over all colours."""
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
    """Largest L1 distance between an outer region's marginal and the mean over outer regions."""
    differences = jnp.where(row.weight > 0, jnp.abs(jnp.exp(found) - jnp.exp(mean)), 0)
    return jnp.max(jax.ops.segment_sum(differences, row.edge, sizes[2]))


def _mean(row: Block, sizes: tuple[int, int, int], tables: Vector) -> tuple[Vector, Vector]:
    """Weighted sum of the tables of all edges of each inner region, and the sum of weights [inner cells]."""
    weight = row.weight.astype(tables.dtype)
    total = jax.ops.segment_sum(jnp.where(weight > 0, weight * tables, 0), row.region, sizes[1])
    return total, jax.ops.segment_sum(weight, row.region, sizes[1])


def agree(maps: RegionMaps, x: Vector) -> tuple[Vector, jax.Array]:
    """One sweep of geometric means.

    Args:
        maps: index maps for counting numbers that are 0 for all inner regions.
        x: log-tables that sum to 1, at least approximately [length].

    Returns:
        The new tables, only approximately normalised, and the largest L1 distance met during the sweep
        between marginals that should agree and their mean (probability).
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
        x: normalised log-tables, messages included [length].
        messages: log-messages from inner to outer regions, divided by the outer region's counting number.
        damping: weight of the old message, 0 <= damping < 1.

    Returns:
        The new tables and messages, and the largest L1 distance as in `agree`.
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
        slow = jnp.maximum(share, LEAST_SHARE * weights)
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
    """Expected potentials plus the approximate entropy: the beliefs' estimate of the log-partition (nats).

    Args:
        maps: the index maps.
        outer: log-potentials of the outer regions [length].
        x: normalised log-beliefs [length].
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
    """An upper bound on the log-partition that holds for any messages, converged or not (nats).

    This is the dual of the concave problem, a sum of three terms: the weighted log-partitions of the outer
    regions; for each conditional entropy of a region given a part, the weighted largest excess of the
    region's log-marginal over the part's log-belief; and for parts with counting number 0, the largest
    remainder of their messages, which should cancel.

    Args:
        maps: index maps for counting numbers that sum conditional entropies.
        outer: log-potentials of the outer regions [length].
        x: log-beliefs; only used to see which cells are minus infinity [length].
        messages: log-messages, divided by the counting numbers of their outer regions.
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
        # an inner region is identified by its first edge
        first = jax.ops.segment_min(row.edge, row.region, block.sizes[1])
        left = jax.ops.segment_max(left, first, block.sizes[2])
        counted = (row.conditional > 0) & alive[row.region]
        excess = row.conditional.astype(x.dtype) * (found - belief[row.region])
        excess = segment_max(jnp.where(counted, excess, -jnp.inf), row.edge, block.sizes[2])
        finite = jnp.where(jnp.isfinite(left), left, 0) + jnp.where(jnp.isfinite(excess), excess, 0)
        return value + jnp.sum(finite), None

    return _through(maps, value, step, messages)[0]


def assignment_bound(maps: RegionMaps, outer: Vector, temperatures: int, sweeps: int, near: Any = 0) -> Any:
    """An upper bound on the largest sum of potentials over joint states (nats).

    For messages that cancel, the sum of the maxima of the outer tables is such a bound. Messages are
    optimised at decreasing temperatures, where the maximum is a log-sum-exp and `agree` converges. All
    bounds found are valid, and the smallest one is returned, with an allowance for rounding errors in the
    cancellation.

    Args:
        maps: index maps for counting numbers that are 0 for all inner regions.
        outer: log-potentials of the outer regions [length].
        temperatures: number of temperatures; each is the previous one divided by 10 ** 0.5.
        sweeps: number of sweeps at each temperature.
        near: log-beliefs near the solution as starting point [length]; 0 for uniform ones.
    """
    weight = jnp.asarray(maps.weight, outer.dtype)[maps.table]
    count = len(maps.weight)
    finite = jnp.isfinite(outer)
    spread = jnp.max(jnp.where(finite, jnp.abs(outer), 0), initial=0)
    spread = jnp.where(spread > 0, spread, 1)
    near = jnp.where(finite, jnp.maximum(near, -100.0), -jnp.inf)

    def cooler(k: jax.Array, carry: tuple) -> tuple:
        messages, best = carry
        scale = weight * spread * 10.0 ** (-0.5 * k.astype(outer.dtype))
        start = (outer + messages) / scale + near
        x = lax.fori_loop(0, sweeps, lambda _, x: agree(maps, x)[0], start)
        messages = jnp.where(jnp.isfinite(x), messages + (x - start) * scale, -jnp.inf)
        tops = segment_max(outer + messages, maps.table, count)
        size = jnp.sum(jnp.where(jnp.isfinite(tops), jnp.abs(tops), 0)) + spread
        rounding = 8 * jnp.finfo(outer.dtype).eps * temperatures * sweeps * size
        return messages, jnp.minimum(best, jnp.sum(tops) + rounding)

    start = jnp.zeros_like(outer), jnp.asarray(jnp.inf, outer.dtype)
    return lax.fori_loop(0, temperatures, cooler, start)[1]
