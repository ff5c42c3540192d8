"""Batched computation of all measured marginals of a mixture of products.

Attributes of one width share an array, and cliques of one combination of widths are one batched matrix
product over the components: some of a clique's attributes form the left factor, the others the right.
If there are many different sizes, they are padded to a few widths with impossible values. The tables come
out grouped and are reordered to the loss's vector by one gather.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax.data.domain import Clique, Domain

EXACT_WIDTHS = 6
"""Up to this many distinct sizes are not padded."""

WORKSPACE = 1 << 24
"""Maximum number of entries of the factors of one batch, unless a single clique exceeds it."""

Logits = tuple[
    Any, tuple[Any, ...]
]  # of the weights [components], of each width [attributes, components, width]


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["allowed", "members", "order", "inverse"],
    meta_fields=["widths", "splits"],
)
@dataclasses.dataclass(frozen=True, eq=False)
class MixtureLayout:
    """Array layout of a mixture fit; index arrays are leaves, so that equal shapes compile once.

    Attributes:
        widths: the widths of the arrays of logits (static).
        splits: for each group of cliques the widths of the left and right factors (static).
        allowed: for each width the mask of possible values [attributes, 1, width].
        members: for each group and attribute of its cliques the row in the width's array [batches, cliques].
        order: for each cell of the loss's vector its index in the groups' tables.
        inverse: for each cell of these its index in the loss's vector, or that vector's length for padding.
    """

    widths: tuple[int, ...]
    splits: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    allowed: tuple[Any, ...]
    members: tuple[tuple[Any, ...], ...]
    order: Any
    inverse: Any

    def log_probabilities(self, logits: Logits) -> Logits:
        """Return log-probabilities, minus infinity for impossible values (nats)."""
        weights, rows = logits
        masked = (jnp.where(a, r, -jnp.inf) for a, r in zip(self.allowed, rows, strict=True))
        return jax.nn.log_softmax(weights), tuple(jax.nn.log_softmax(table) for table in masked)

    def marginals(self, logits: Logits) -> jax.Array:
        """Return the marginals of all cliques in one vector, in the loss's order (probabilities)."""
        log_weights, logs = self.log_probabilities(logits)
        weights, rows = jnp.exp(log_weights), tuple(map(jnp.exp, logs))
        tables = [
            self._tables(weights, rows, split, members).reshape(-1)
            for split, members in zip(self.splits, self.members, strict=True)
        ]
        return _rearranged(jnp.concatenate(tables), self.order, self.inverse)

    def _tables(
        self,
        weights: jax.Array,
        rows: tuple[jax.Array, ...],
        split: tuple[tuple[int, ...], tuple[int, ...]],
        members: tuple[Any, ...],
    ) -> jax.Array:
        """Return the tables of one group, by batch [batches, cliques, left cells, right cells]."""
        left, right = split

        def batch(places: tuple[Any, ...]) -> jax.Array:
            chosen = [
                rows[self.widths.index(width)][place]
                for width, place in zip((*left, *right), places, strict=True)
            ]
            start = jnp.broadcast_to(weights[:, None], (len(places[0]), len(weights), 1))
            one = functools.reduce(_beside, chosen[: len(left)], start)
            other = functools.reduce(_beside, chosen[len(left) :], jnp.ones_like(start))
            return jnp.einsum("gka,gkb->gab", one, other, precision="highest")

        if len(members[0]) == 1:
            return batch(tuple(place[0] for place in members))
        return jax.lax.map(jax.checkpoint(batch), members)  # the backward pass recomputes the factors


def _beside(table: jax.Array, more: jax.Array) -> jax.Array:
    """Multiply in one more attribute's rows [cliques, components, cells times width]."""
    return (table[..., :, None] * more[..., None, :]).reshape(*table.shape[:2], -1)


@jax.custom_vjp
def _rearranged(values: jax.Array, order: Any, inverse: Any) -> jax.Array:
    """Reorder values; the backward pass is a gather too, faster than a scatter-add."""
    return values[order]


def _forward(values: jax.Array, order: Any, inverse: Any) -> tuple[jax.Array, Any]:
    return values[order], inverse


def _backward(inverse: Any, change: jax.Array) -> tuple[jax.Array, None, None]:
    return jnp.concatenate([change, jnp.zeros(1, change.dtype)])[inverse], None, None


_rearranged.defvjp(_forward, _backward)


def width_of(size: int, sizes: Sequence[int]) -> int:
    """Return the padded width of an attribute, given all sizes.

    Example:
        >>> [width_of(size, range(1, 40)) for size in (3, 5, 17, 33)]
        [3, 6, 24, 48]
    """
    if len(set(sizes)) <= EXACT_WIDTHS:
        return size
    power = 1 << (size - 1).bit_length()
    return power * 3 // 4 if power >= 4 and size <= power * 3 // 4 else power


@dataclasses.dataclass(frozen=True, eq=False)
class Places:
    """Positions of the attributes in a mixture's arrays.

    Attributes:
        widths: the widths of the arrays.
        row: for each attribute the index of its width and its row there.
        attributes: for each width its attributes.
    """

    widths: tuple[int, ...]
    row: Mapping[str, tuple[int, int]]
    attributes: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, domain: Domain) -> Places:
        """Return the positions of a domain's attributes."""
        width = {name: width_of(domain[name], domain.shape) for name in domain}
        widths = tuple(sorted(set(width.values())))
        attributes = tuple(tuple(name for name in domain if width[name] == w) for w in widths)
        row = {name: (at, i) for at, names in enumerate(attributes) for i, name in enumerate(names)}
        return cls(widths, row, attributes)

    @property
    def cells(self) -> int:
        """Number of logits per component, including its weight's."""
        return 1 + sum(w * len(names) for w, names in zip(self.widths, self.attributes, strict=True))

    def grouped(self, cliques: Sequence[Clique]) -> dict[tuple[int, ...], list[tuple[int, Clique]]]:
        """Return cliques of the same widths together: their numbers, and their attributes by width."""
        groups: dict[tuple[int, ...], list[tuple[int, Clique]]] = {}
        for number, clique in enumerate(cliques):
            by_width = tuple(sorted(clique, key=lambda name: self.widths[self.row[name][0]]))
            key = tuple(self.widths[self.row[name][0]] for name in by_width)
            groups.setdefault(key, []).append((number, by_width))
        return groups

    def stacked(self, tables: Mapping[str, np.ndarray], fill: float) -> tuple[np.ndarray, ...]:
        """Stack tables [..., size] of all attributes into padded arrays [attributes, ..., width]."""
        arrays = []
        for width, names in zip(self.widths, self.attributes, strict=True):
            padded = []
            for name in names:
                table = tables[name]
                more = [(0, 0)] * (table.ndim - 1) + [(0, width - table.shape[-1])]
                padded.append(np.pad(table, more, constant_values=fill))
            arrays.append(np.stack(padded))
        return tuple(arrays)


def layout(
    domain: Domain, cliques: Sequence[Clique], components: int, allowed: Mapping[str, np.ndarray]
) -> MixtureLayout:
    """Return the array layout of a fit.

    Args:
        domain: the attributes.
        cliques: the loss's cliques, in its order.
        components: number of products in the mixture.
        allowed: for constrained attributes the mask of possible values, booleans [size].
    """
    places = Places.of(domain)
    masks = {name: allowed.get(name, np.ones(domain[name], bool))[None] for name in domain}
    starts = np.cumsum([0, *(domain.size(clique) for clique in cliques)])
    splits, members, inverses = [], [], []
    for key, held in places.grouped(cliques).items():
        cut = split_of(key)
        splits.append((key[:cut], key[cut:]))
        size = batch_size(key, components, len(held))
        batches = -(-len(held) // size)
        rows = np.zeros((len(key), batches * size), np.int32)
        inverse = np.full((batches * size, *key), starts[-1], np.int32)
        for i, (number, names) in enumerate(held):
            rows[:, i] = [places.row[name][1] for name in names]
            cells = np.arange(starts[number], starts[number + 1]).reshape(domain.shape_of(cliques[number]))
            inside = tuple(slice(domain[name]) for name in names)
            inverse[i][inside] = cells.transpose([cliques[number].index(name) for name in names])
        members.append(tuple(row.reshape(batches, size) for row in rows))
        inverses.append(inverse.reshape(-1))
    inverse = np.concatenate(inverses)
    filled = np.flatnonzero(inverse < starts[-1])
    order = np.zeros(starts[-1], np.int32)
    order[inverse[filled]] = filled
    return MixtureLayout(
        places.widths, tuple(splits), places.stacked(masks, False), tuple(members), order, inverse
    )


def split_of(widths: Sequence[int]) -> int:
    """Return the number of attributes in the left factor that minimises the cells of both factors."""
    cuts = range(1, len(widths)) if len(widths) > 1 else (1,)
    return min(cuts, key=lambda cut: math.prod(widths[:cut]) + math.prod(widths[cut:]))


def batch_size(widths: Sequence[int], components: int, cliques: int) -> int:
    """Return the number of cliques per batch, for batches of nearly equal size within `WORKSPACE`."""
    cut = split_of(widths)
    one = components * (math.prod(widths[:cut]) + math.prod(widths[cut:]))
    batches = -(-cliques // max(WORKSPACE // one, 1))
    return -(-cliques // batches)


def numbers(domain: Domain, cliques: Sequence[Clique], components: int) -> tuple[int, int]:
    """Return the number of padded marginal cells, and of entries in the largest batch."""
    cells, largest = 0, 0
    for key, held in Places.of(domain).grouped(cliques).items():
        count = len(held)
        cut, size = split_of(key), batch_size(key, components, count)
        cells += -(-count // size) * size * math.prod(key)
        sides = math.prod(key[:cut]) + math.prod(key[cut:])
        largest = max(largest, size * (components * sides + math.prod(key)))
    return cells, largest
