"""Rows whose marginals come near given tables, by chains that are steered towards them.

Every row is a chain. A sweep draws each attribute of a row given its others, from log-potentials that are
learned on the way: after each batch of rows they move by a share of log(wanted count / count of the rows),
until the rows have the wanted marginals. These are the steps of maximum likelihood with persistent chains,
with a pull beside them that makes up for what is lacking now. At last proposals are accepted that bring the
counts nearer and no others, which takes out most of the sampling error.

References:
    Geman and Geman 1984 for the draws; Tieleman 2008, "Training restricted Boltzmann machines using
    approximations to the likelihood gradient", for chains that go on while the potentials move.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax import random
from pgmjax._internal.jit import jit
from pgmjax._internal.progress import Progress
from pgmjax.data.domain import Clique, Domain

LEARNING = ((2 / 3, 0.3, 1.0), (1 / 3, 0.1, 4.0))
"""Shares of the sweeps, with the step of the potentials and the strength of the pull."""
SETTLING = (0.3, 0.3, 0.1, 0.1)
"""The share of a batch that may move at once in each of the last sweeps: its rows do not see each other."""
BATCHES, LEAST_BATCHES, BATCH, WORK = 1000, 20, 50, 3e8
"""The most and least batches of a sweep; fewer for few rows or many cells, which each batch reads."""
PSEUDO_COUNT = 0.5  # added to wanted and present counts, so that an empty cell has a logarithm
IMPOSSIBLE = -1e4


def steered(
    domain: Domain,
    cliques: Sequence[Clique],
    counts: Sequence[np.ndarray],
    start: dict[str, np.ndarray],
    seed: int,
    sweeps: int,
    bar: Progress,
) -> dict[str, np.ndarray]:
    """Move rows until their counts come near the wanted ones.

    Args:
        domain: the attributes.
        cliques: the attributes of each table.
        counts: wanted counts of each table; cells of 0 are avoided.
        start: codes [rows] of each attribute, in random order.
        seed: the same seed gives the same rows.
        sweeps: number of sweeps that learn the potentials, 1 or more.
        bar: advanced by each sweep, `sweeps` and those of `SETTLING`.

    Returns:
        Codes [rows] of each attribute.
    """
    codes = jnp.asarray(np.stack([start[name] for name in domain.attributes]), jnp.int32)
    layout = layout_of(domain, cliques)
    wanted = np.concatenate([*(np.ravel(table) for table in counts), [0.0]]).astype(np.float32)
    rows, cells = codes.shape[1], len(wanted)
    batch = -(-rows // max(LEAST_BATCHES, min(BATCHES, rows // BATCH, int(WORK / cells))))
    potentials = jnp.where(wanted > 0, 0.0, IMPOSSIBLE).at[-1].set(0.0)
    key = random.key(seed, jax)
    # less a little, so that rounding of the shares adds no sweep
    ends = [math.ceil(share * sweeps) for share in np.cumsum([part[0] for part in LEARNING]) - 1e-9]
    for sweep in range(sweeps):
        _, rate, pull = next(part for part, end in zip(LEARNING, ends, strict=True) if sweep < end)
        codes, potentials, key = _learn(batch, layout, wanted, codes, potentials, key, (rate, pull))
        bar.advance(1)
    for share in SETTLING:
        codes, key = _settle(batch, layout, wanted, codes, potentials, key, share)
        bar.advance(1)
    return dict(zip(domain.attributes, np.asarray(codes, np.int64), strict=True))


class TablesOfAttributes(NamedTuple):
    """Attributes of like size [n], each with its tables [k], as many for all; a table of one cell fills up.

    Attributes:
        place: number of each attribute [n].
        size: its number of codes [n].
        others: other attributes of each table [n, k, others].
        strides: steps of their codes among the table's rows [n, k, others]; 0 for none.
        first: the table's first row [n, k].
        cells: cell of each row and code in the vector of all tables [rows, codes], the last one for none.
        table: number of the table [n, k].
        stride: step of the attribute's own code in the vector [n, k].
    """

    place: Any
    size: Any
    others: Any
    strides: Any
    first: Any
    cells: Any
    table: Any
    stride: Any


class Layout(NamedTuple):
    """All tables in one vector, with one cell more that belongs to none.

    Attributes:
        offset: first cell of each table [tables + 1], the last for the cell of none.
        members: attributes of each table [tables + 1, most members].
        strides: steps of their codes [tables + 1, most members]; 0 for none.
        buckets: the attributes that have tables, by size.
    """

    offset: Any
    members: Any
    strides: Any
    buckets: tuple[TablesOfAttributes, ...]


def layout_of(domain: Domain, cliques: Sequence[Clique]) -> Layout:
    """Lay tables out so that the program of a sweep does not grow with their number."""
    number = {name: place for place, name in enumerate(domain.attributes)}
    tables = [tuple(number[name] for name in clique) for clique in cliques]
    sizes, most = domain.shape, max(map(len, tables))
    steps = [_strides([sizes[v] for v in table]) for table in tables]
    cells = [math.prod(sizes[v] for v in table) for table in tables]
    offset = np.cumsum([0, *cells])
    members, strides = np.zeros((2, len(tables) + 1, most), np.int32)
    for place, (table, step) in enumerate(zip(tables, steps, strict=True)):
        members[place, : len(table)], strides[place, : len(table)] = table, step
    held = {v: [t for t, table in enumerate(tables) if v in table] for v in range(len(sizes))}
    groups: dict[int, list[int]] = {}
    for v, mine in held.items():
        if mine:
            groups.setdefault((sizes[v] - 1).bit_length(), []).append(v)
    buckets = tuple(
        _bucket(group, sizes, tables, steps, offset, held, most) for _, group in sorted(groups.items())
    )
    return Layout(offset.astype(np.int32), members, strides, buckets)


def _bucket(
    group: list[int],
    sizes: Sequence[int],
    tables: list[tuple[int, ...]],
    steps: list[list[int]],
    offset: np.ndarray,
    held: dict[int, list[int]],
    most: int,
) -> TablesOfAttributes:
    """Lay out the tables of some attributes, each turned so that the attribute's codes are a row."""
    width, depth = max(sizes[v] for v in group), max(len(held[v]) for v in group)
    none = len(tables)
    others, strides = np.zeros((2, len(group), depth, max(most - 1, 1)), np.int32)
    first, stride = np.zeros((2, len(group), depth), np.int32)
    table = np.full((len(group), depth), none, np.int32)
    rows = [np.full((1, width), offset[-1])]
    count = 1
    for n, v in enumerate(group):
        for k, t in enumerate(held[v]):
            axis = tables[t].index(v)
            rest = [u for u in tables[t] if u != v]
            others[n, k, : len(rest)] = rest
            strides[n, k, : len(rest)] = _strides([sizes[u] for u in rest])
            first[n, k], stride[n, k], table[n, k] = count, steps[t][axis], t
            shape = [sizes[u] for u in tables[t]]
            cells = offset[t] + np.moveaxis(np.arange(math.prod(shape)).reshape(shape), axis, -1)
            turned = cells.reshape(-1, sizes[v])
            rows.append(np.pad(turned, ((0, 0), (0, width - sizes[v])), constant_values=offset[-1]))
            count += len(turned)
    named = np.array(group, np.int32), np.array([sizes[v] for v in group], np.int32)
    return TablesOfAttributes(
        *named, others, strides, first, np.concatenate(rows).astype(np.int32), table, stride
    )


def _strides(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[k + 1 :]) for k in range(len(shape))]


def draw_codes(logs: jax.Array, key: Any) -> jax.Array:
    """Draw a code of each chain from conditional log-weights [chains, codes], by cumulative weights."""
    tops = jnp.max(logs, axis=1, keepdims=True)
    weights = jnp.exp(logs - jnp.where(jnp.isfinite(tops), tops, 0))
    ends = jnp.cumsum(weights, axis=1)
    at = random.uniforms(key, (len(logs),), jax) * ends[:, -1]  # in (0, end]: no cell of weight 0
    drawn = jnp.sum(ends < at[:, None], axis=1).astype(jnp.int32)
    return jnp.minimum(drawn, logs.shape[1] - 1)


def _proposed(bucket: TablesOfAttributes, turned: jax.Array, codes: jax.Array, n: Any, key: Any) -> jax.Array:
    """Draw the code of one attribute of a bucket in every chain, given the others [chains]."""
    rows = jnp.sum(bucket.strides[n][:, :, None] * codes[bucket.others[n]], axis=1) + bucket.first[n][:, None]
    logs = jnp.sum(turned[rows], axis=0)
    return draw_codes(jnp.where(jnp.arange(logs.shape[1]) < bucket.size[n], logs, -jnp.inf), key)


def swept(layout: Layout, turned: Sequence[jax.Array], codes: jax.Array, key: Any) -> jax.Array:
    """Draw each attribute of some chains that has tables, given its others.

    Args:
        layout: the tables.
        turned: the log-potentials of each bucket's cells.
        codes: codes [attributes, chains].
        key: key of the generator.
    """
    for bucket, tables in zip(layout.buckets, turned, strict=True):

        def each(
            n: Any, codes: jax.Array, bucket: TablesOfAttributes = bucket, tables: Any = tables
        ) -> jax.Array:
            place = bucket.place[n]
            drawn = _proposed(bucket, tables, codes, n, random.fold(key, place, jax))
            return codes.at[place].set(drawn)

        codes = jax.lax.fori_loop(0, len(bucket.place), each, codes)
    return codes


def _cells(layout: Layout, table: Any, codes: jax.Array) -> jax.Array:
    """Return the cell of each chain in some tables [tables, chains]."""
    members, strides = layout.members[table], layout.strides[table]
    return layout.offset[table][:, None] + jnp.sum(strides[:, :, None] * codes[members], axis=1)


def _added(layout: Layout, counts: jax.Array, codes: jax.Array, sign: float) -> jax.Array:
    """Add chains to the counts of all tables, one after another."""

    def one(table: Any, counts: jax.Array) -> jax.Array:
        return counts.at[_cells(layout, jnp.array([table]), codes)[0]].add(sign)

    return jax.lax.fori_loop(0, len(layout.offset) - 1, one, counts)


def _blocks(codes: jax.Array, batch: int) -> tuple[int, Any, Any]:
    """Return the number of batches, and functions that read and write one; the last may overlap another."""
    attributes, rows = codes.shape

    def read(codes: jax.Array, number: Any) -> jax.Array:
        return jax.lax.dynamic_slice(
            codes, (0, jnp.minimum(number * batch, rows - batch)), (attributes, batch)
        )

    def write(codes: jax.Array, block: jax.Array, number: Any) -> jax.Array:
        return jax.lax.dynamic_update_slice(codes, block, (0, jnp.minimum(number * batch, rows - batch)))

    return -(-rows // batch), read, write


@functools.partial(jit, static_argnums=0)
def _learn(
    batch: int, layout: Layout, wanted: Any, codes: jax.Array, potentials: jax.Array, key: Any, how: Any
) -> tuple[jax.Array, jax.Array, Any]:
    """One sweep that moves the potentials towards the wanted counts."""
    layout = jax.tree.map(jnp.asarray, layout)
    rate, pull = how
    number, read, write = _blocks(codes, batch)

    def one(turn: Any, state: Any) -> Any:
        codes, potentials, counts, key = state
        lack = jnp.log((wanted + PSEUDO_COUNT) / (counts + PSEUDO_COUNT)).at[-1].set(0.0)
        # a batch moves them by its part of the rate, and a sweep by all of it
        potentials = potentials + rate / number * lack
        steered = potentials + pull * lack
        key, mine = random.split(key, 2, jax)
        old = read(codes, turn)
        block = swept(layout, [steered[bucket.cells] for bucket in layout.buckets], old, mine)
        counts = _added(layout, _added(layout, counts, old, -1.0), block, 1.0)
        return write(codes, block, turn), potentials, counts, key

    counts = _added(layout, jnp.zeros(len(wanted), jnp.float32), codes, 1.0)
    codes, potentials, _, key = jax.lax.fori_loop(0, number, one, (codes, potentials, counts, key))
    return codes, potentials, key


@functools.partial(jit, static_argnums=0)
def _settle(
    batch: int, layout: Layout, wanted: Any, codes: jax.Array, potentials: jax.Array, key: Any, share: Any
) -> tuple[jax.Array, Any]:
    """One sweep whose draws are proposals: a share of those that lower the squared misses is accepted."""
    layout = jax.tree.map(jnp.asarray, layout)
    number, read, write = _blocks(codes, batch)
    turned = [potentials[bucket.cells] for bucket in layout.buckets]

    def one(turn: Any, state: Any) -> Any:
        codes, misses, key = state
        key, mine = random.split(key, 2, jax)
        state = read(codes, turn), misses
        for bucket, tables in zip(layout.buckets, turned, strict=True):

            def each(n: Any, state: Any, bucket: TablesOfAttributes = bucket, tables: Any = tables) -> Any:
                block, misses = state
                place = bucket.place[n]
                draws, mays = random.split(random.fold(mine, place, jax), 2, jax)
                proposed = _proposed(bucket, tables, block, n, draws)
                old = _cells(layout, bucket.table[n], block)
                new = old + bucket.stride[n][:, None] * (proposed - block[place])
                # half the change of the squared misses if one row moves from its old cell to the new one
                change = jnp.sum(jnp.where(new == old, 0.0, misses[new] - misses[old] + 1), axis=0)
                may = random.uniforms(mays, proposed.shape, jax) <= share
                taken = jnp.where((change < 0) & may, 1.0, 0.0)
                misses = misses.at[old].add(-taken[None]).at[new].add(taken[None])
                return block.at[place].set(jnp.where(taken > 0, proposed, block[place])), misses

            state = jax.lax.fori_loop(0, len(bucket.place), each, state)
        block, misses = state
        return write(codes, block, turn), misses, key

    codes, _, key = jax.lax.fori_loop(0, number, one, (codes, _added(layout, -wanted, codes, 1.0), key))
    return codes, key
