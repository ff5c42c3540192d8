"""Approximate inference by belief propagation on a region graph: for structures that no exact plan fits.

Memory and time of a sweep are those of the cliques' own tables, whatever loops they form. What comes out are
pseudo-marginals: tables that agree with one another where they overlap (to the residual that is
reported), which need not be those of any joint distribution.

References:
    Yedidia, Freeman and Weiss (2005), Constructing free-energy approximations and generalized belief
    propagation algorithms; Wainwright, Jaakkola and Willsky (2005), A new class of upper bounds on the log
    partition function; Globerson and Jaakkola (2007), Approximate inference using conditional entropy
    decompositions; McKenna, Pradhan, Sheldon and Miklau (2021), Relaxed marginal consistency for
    differentially private query answering.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, ClassVar, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from pgmjax._internal.jit import jit
from pgmjax.inference.ops.flat import join, split
from pgmjax.inference.oracles import base
from pgmjax.inference.oracles import region_sweeps as sweeps
from pgmjax.inference.plan import counting_numbers
from pgmjax.inference.plan.forecast import Forecast
from pgmjax.inference.plan.region_maps import RegionMaps, index_maps
from pgmjax.inference.plan.regions import RegionGraph, region_graph
from pgmjax.inference.plan.structure import Structure, Variables

# On two CPU cores, for each cell that a colour touches: gathering, two segment sums and scattering.
SECONDS_A_CELL = 2e-8
SWEEPS, OPERATIONS = 50, 150
TEMPERATURES, COOLING_SWEEPS = 12, 20

Kind = TypeVar("Kind", bound="RegionOracle")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Beliefs:
    """What belief propagation ends with.

    Attributes:
        log_partition: an approximation, or a bound from above where the oracle's `bounds` (nats).
        marginals: pseudo-marginal of each clique (probabilities).
        residual: largest L1 distance between the marginal of an outer region on an inner one and the
            mean of those of all its regions (probability); 0 where they agree.
        sweeps: sweeps done.
    """

    log_partition: jax.Array
    marginals: tuple[jax.Array, ...]
    residual: jax.Array
    sweeps: jax.Array


@dataclasses.dataclass(frozen=True)
class RegionOracle(base.Oracle):
    """What loopy and convex belief propagation share.

    Attributes:
        maps: index maps with the counting numbers.
        agreeing: index maps for messages of outer regions alone, for bounds on the most likely state.
        graph: the region graph, absent after a JAX transformation: compiled programs depend on the shapes
            of the index maps alone.
        damping: share of an old message that is kept in each sweep, 0 <= damping < 1.
        tol: residual to stop at (probability); rounding may not allow less than 1e-6 in float32.
        max_sweeps: sweeps at most.
    """

    maps: RegionMaps
    agreeing: RegionMaps
    graph: RegionGraph | None = None
    damping: Any = 0.3
    tol: Any = 1e-6
    max_sweeps: Any = 1000

    bounds: ClassVar[bool]

    @classmethod
    def build(cls: type[Kind], structure: Structure, inner: str = "intersections", **settings: Any) -> Kind:
        """Plan the region graph of a structure.

        Args:
            structure: sizes and cliques.
            inner: `intersections` or `attributes`; see `pgmjax.inference.plan.regions.region_graph`.
            settings: damping, tol, max_sweeps.
        """
        graph = region_graph(structure, inner)
        maps = index_maps(graph, cls._numbers(graph))
        return cls(maps, index_maps(graph, counting_numbers.cover(graph)), graph, **settings)

    @staticmethod
    @abc.abstractmethod
    def _numbers(graph: RegionGraph) -> counting_numbers.CountingNumbers: ...

    @abc.abstractmethod
    def _value(self, outer: jax.Array, x: jax.Array, messages: sweeps.Messages) -> jax.Array: ...

    def _sweep(self, x: jax.Array, messages: sweeps.Messages) -> tuple[jax.Array, sweeps.Messages, jax.Array]:
        return sweeps.pass_messages(self.maps, x, messages, self.damping)

    def settle(
        self, x: jax.Array, messages: sweeps.Messages = ()
    ) -> tuple[jax.Array, sweeps.Messages, jax.Array, jax.Array]:
        """Sweep until the marginals agree or the sweeps run out.

        Args:
            x: log-tables of the outer regions, over their counting numbers; they sum to 1.
            messages: what `region_sweeps.no_messages` gives, or those of an earlier call.

        Returns:
            The tables and messages, the residual as in `Beliefs` and the sweeps done.
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
        """What one call costs."""
        return forecast(self._planned())

    def propagate(self, potentials: base.Potentials) -> Beliefs:
        """Run belief propagation until the marginals agree or the sweeps run out."""
        return _propagate(self, tuple(potentials))

    def infer(self, potentials: base.Potentials) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        """Approximate log-partition (nats) and the pseudo-marginal of each clique (probabilities)."""
        found = self.propagate(potentials)
        return found.log_partition, found.marginals

    def log_partition(self, potentials: base.Potentials) -> jax.Array:
        """Approximate log of the sum over all joint states (nats); see `Beliefs`."""
        return self.propagate(potentials).log_partition

    def maximum(self, potentials: base.Potentials) -> jax.Array:
        """A bound from above on the largest sum of potentials that any joint state reaches (nats)."""
        return _maximum(self.agreeing, tuple(potentials))

    def log_marginal(self, potentials: base.Potentials, variables: Variables) -> jax.Array:
        """Log-probabilities of variables that lie within one clique [sizes of variables].

        Raises:
            ValueError: variables that no clique holds: belief propagation says nothing of them.
        """
        holder = next((i for i, c in enumerate(self.structure.cliques) if set(variables) <= set(c)), None)
        if holder is None:
            raise ValueError(
                "belief propagation has no belief about variables that lie within no clique: ask a "
                "tractable part of the model."
            )
        clique = self.structure.cliques[holder]
        table = self.propagate(potentials).marginals[holder]
        kept = [v for v in clique if v in variables]
        summed = table.sum(tuple(i for i, v in enumerate(clique) if v not in variables))
        return jnp.log(summed.transpose([kept.index(v) for v in variables]))


@jit
def _propagate(oracle: RegionOracle, potentials: tuple[jax.Array, ...]) -> Beliefs:
    maps, vector = oracle.maps, join(potentials)
    outer = sweeps.outer_tables(maps, vector)
    weight = jnp.asarray(maps.weight, outer.dtype)[maps.table]

    x = sweeps.normalised(maps, outer / weight)
    x, messages, residual, done = oracle.settle(x, sweeps.no_messages(maps, outer.dtype))
    beliefs = sweeps.clique_marginals(maps, jnp.exp(sweeps.normalised(maps, x)), len(vector))
    marginals = split(beliefs, [table.shape for table in potentials])
    return Beliefs(oracle._value(outer, x, messages), marginals, residual, done)


@jit
def _maximum(maps: RegionMaps, potentials: tuple[jax.Array, ...]) -> jax.Array:
    return sweeps.assignment_bound(
        maps, sweeps.outer_tables(maps, join(potentials)), TEMPERATURES, COOLING_SWEEPS
    )


def forecast(graph: RegionGraph) -> Forecast:
    """What belief propagation on a region graph costs, known before it is laid out."""
    structure = graph.structure
    touched = sum(structure.cells(graph.outer[holder]) for holders in graph.above for holder in holders)
    edge_cells = sum(
        len(holders) * structure.cells(part) for part, holders in zip(graph.inner, graph.above, strict=True)
    )
    sizes = sorted(((structure.cells(region), region) for region in graph.outer), reverse=True)
    return Forecast(
        method="belief propagation on a region graph",
        largest=sizes[0][0] if sizes else 1,
        inputs=sum(map(structure.cells, structure.cliques)),
        cells=4 * touched + 10 * edge_cells + 10 * graph.cells,
        work=SWEEPS * touched,
        culprits=tuple((region, cells) for cells, region in sizes[:3]),
        operations=OPERATIONS,
        seconds=SWEEPS * touched * SECONDS_A_CELL,
        details=(graph.summary(),),
    )


def _registered(kind: type) -> type:
    data = ["maps", "agreeing", "damping", "tol", "max_sweeps"]
    return jax.tree_util.register_dataclass(kind, data_fields=data, meta_fields=[], drop_fields=["graph"])


@_registered
@dataclasses.dataclass(frozen=True)
class LoopyBP(RegionOracle):
    """Loopy belief propagation: every region counts once (Bethe's entropy, or Kikuchi's).

    Exact where the cliques form a junction tree. Elsewhere often close, with no promise: it need not
    converge, and its log-partition may lie on either side.

    Example:
        >>> oracle = LoopyBP.build(Structure((2, 2, 2), ((0, 1), (1, 2))))
        >>> value, marginals = oracle.infer([jnp.zeros((2, 2))] * 2)
        >>> f"{value:.4f}", [table.shape for table in marginals]
        ('2.0794', [(2, 2), (2, 2)])
    """

    bounds: ClassVar[bool] = False

    @staticmethod
    def _numbers(graph: RegionGraph) -> counting_numbers.CountingNumbers:
        return counting_numbers.one_per_attribute(graph)

    def _value(self, outer: jax.Array, x: jax.Array, messages: sweeps.Messages) -> jax.Array:
        return sweeps.free_energy(self.maps, outer, x)


@_registered
@dataclasses.dataclass(frozen=True)
class ConvexBP(RegionOracle):
    """Convex belief propagation: the mean of many trees' entropies, which is concave and a bound.

    Exact where the cliques form a junction tree. Elsewhere there is one answer, and `log_partition` is
    never below the true one, whether or not the messages have converged.

    Example:
        >>> oracle = ConvexBP.build(Structure((2, 2, 2), ((0, 1), (1, 2), (2, 0))))
        >>> value, _ = oracle.infer([jnp.zeros((2, 2))] * 3)
        >>> f"{value:.4f}"
        '2.0794'
    """

    bounds: ClassVar[bool] = True

    @staticmethod
    def _numbers(graph: RegionGraph) -> counting_numbers.CountingNumbers:
        return counting_numbers.trees(graph)

    def _value(self, outer: jax.Array, x: jax.Array, messages: sweeps.Messages) -> jax.Array:
        return sweeps.upper_bound(self.maps, outer, x, messages)


@_registered
@dataclasses.dataclass(frozen=True)
class CoverBP(RegionOracle):
    """Convex belief propagation with entropies of outer regions alone, weighted to cover each attribute.

    Its messages converge for any potentials, without damping; `log_partition` is never below the true
    one (Shearer's lemma) and looser than that of `ConvexBP`. Estimation over locally consistent
    tables runs on it, where the entropy is a measure of distance and no approximation.

    Example:
        >>> oracle = CoverBP.build(Structure((2, 2, 2), ((0, 1), (1, 2))))
        >>> found = oracle.propagate([jnp.zeros((2, 2)), jnp.array([[0.0, 1.0], [0.0, 0.0]])])
        >>> middle = [float(table.sum(axis)[1]) for table, axis in zip(found.marginals, (0, 1))]
        >>> abs(middle[0] - middle[1]) < 1e-6, bool(found.log_partition >= jnp.log(6 + 2 * jnp.e))
        (True, True)
    """

    bounds: ClassVar[bool] = True

    @staticmethod
    def _numbers(graph: RegionGraph) -> counting_numbers.CountingNumbers:
        return counting_numbers.cover(graph)

    def _sweep(self, x: jax.Array, messages: sweeps.Messages) -> tuple[jax.Array, sweeps.Messages, jax.Array]:
        x, worst = sweeps.agree(self.maps, x)
        return x, messages, worst

    def _value(self, outer: jax.Array, x: jax.Array, messages: sweeps.Messages) -> jax.Array:
        weight = jnp.asarray(self.maps.weight, outer.dtype)
        start = sweeps.log_scales(self.maps, outer / weight[self.maps.table])
        return jnp.sum(weight * (start + sweeps.log_scales(self.maps, x)))
