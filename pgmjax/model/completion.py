"""Completing rows with some known cells.

The model is conditioned on the known cells before anything is summed: each distinct combination of
them becomes one slice of a smaller model over the unknown variables, and slices are eliminated
together. Known variables drop out, so a slice never needs larger tables than the model itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from pgmjax import random
from pgmjax.inference.oracles.host import HostModel
from pgmjax.inference.plan import junction_tree
from pgmjax.inference.plan.structure import Structure
from pgmjax.model import sampling

UNKNOWN = -1
_CELLS = 1 << 22  # of the largest table when slices are eliminated together


def complete(
    model: HostModel, known: Mapping[int, np.ndarray], seed: int, method: str = sampling.ROUND
) -> list[np.ndarray]:
    """Draw the unknown cells of rows given the known ones.

    Args:
        model: the distribution.
        known: codes [rows] of some variables, UNKNOWN for unknown cells.
        seed: for the generator.
        method: as in `model.sampling.draw`, by which rows with equal parents are allocated.

    Returns:
        Codes [rows] of each variable.

    Raises:
        ValueError: the known cells of some rows have probability zero; the message gives their number.
    """
    generator = random.generator(seed)
    (rows,) = {len(codes) for codes in known.values()}
    columns = [np.full(rows, UNKNOWN, np.int64) for _ in model.structure.sizes]
    for variable, codes in known.items():
        columns[variable][:] = codes
    for given, mine in list(_patterns(columns, rows)):
        part = [columns[v][mine] for v in range(len(columns))]
        for start in range(0, len(mine), sampling.BLOCK_ROWS):
            block = [codes[start : start + sampling.BLOCK_ROWS] for codes in part]
            _fill(model, block, given, generator, method)
        for column, codes in zip(columns, part, strict=True):
            column[mine] = codes
    return columns


def _patterns(columns: list[np.ndarray], rows: int) -> Iterator[tuple[list[int], np.ndarray]]:
    """Rows grouped by their set of known variables: (known variables, indices of the rows)."""
    bits = np.packbits(np.stack([codes >= 0 for codes in columns]), axis=0).T
    patterns, which = np.unique(bits, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        given = np.flatnonzero(np.unpackbits(pattern, count=len(columns))).tolist()
        yield given, np.flatnonzero(which.reshape(rows) == number)


def _fill(
    model: HostModel,
    block: list[np.ndarray],
    given: list[int],
    generator: np.random.Generator,
    method: str,
) -> None:
    """Fill the unknown variables of a block of rows in place; all rows have the same known variables."""
    known = set(given)
    unknown = [v for v in range(len(block)) if v not in known]
    rows = len(block[0])
    impossible = np.zeros(rows, bool)
    for table, clique in zip(model.tables, model.structure.cliques, strict=True):
        if known.issuperset(clique):
            impossible |= np.isneginf(table[tuple(block[v] for v in clique)])
    _refuse(int(impossible.sum()))
    if not unknown:
        return
    # only known variables that share a clique with an unknown one matter
    touching = [c for c in model.structure.cliques if not known.issuperset(c)]
    border = sorted({v for clique in touching for v in clique} & known)
    codes = np.stack([block[v] for v in border]) if border else np.zeros((1, rows), np.int64)
    slices, group = np.unique(codes, axis=1, return_inverse=True)
    group = group.reshape(rows)
    step = _slices_at_once(model, unknown, border)
    for first in range(0, slices.shape[1], step):
        part = slices[:, first : first + step]
        mine = np.flatnonzero((group >= first) & (group < first + part.shape[1]))
        drawn = _draw(model, unknown, border, part, group[mine] - first, generator, method)
        for v, values in zip(unknown, drawn, strict=True):
            block[v][mine] = values


def _slices_at_once(model: HostModel, unknown: list[int], border: list[int]) -> int:
    one = _sliced(model, unknown, border, np.zeros((max(len(border), 1), 1), np.int64)).structure
    plan = junction_tree.best_elimination(one, (len(unknown),))
    return max(_CELLS // max(one.cells(clique) for clique in plan.cliques), 1)


def _sliced(model: HostModel, unknown: list[int], border: list[int], slices: np.ndarray) -> HostModel:
    """The model over the unknown variables, with the slice index as the last variable."""
    number = {v: i for i, v in enumerate(unknown)}
    row = {v: i for i, v in enumerate(border)}
    last = len(unknown)
    tables: list[np.ndarray] = [np.zeros(slices.shape[1])]
    cliques: list[tuple[int, ...]] = [(last,)]
    for table, clique in zip(model.tables, model.structure.cliques, strict=True):
        free = tuple(number[v] for v in clique if v in number)
        if not free:
            continue
        if len(free) < len(clique):
            order = [v for v in clique if v not in number] + [v for v in clique if v in number]
            held = tuple(slices[row[v]] for v in order[: len(clique) - len(free)])
            table = table.transpose([clique.index(v) for v in order])[held]
            free = (last, *free)
        tables.append(table)
        cliques.append(free)
    sizes = (*(model.structure.sizes[v] for v in unknown), slices.shape[1])
    return HostModel(Structure(sizes, tuple(cliques)), tuple(tables))


def _draw(
    model: HostModel,
    unknown: list[int],
    border: list[int],
    slices: np.ndarray,
    group: np.ndarray,
    generator: np.random.Generator,
    method: str,
) -> list[np.ndarray]:
    """Codes [rows] of the unknown variables; `group` is the slice of each row."""
    small = _sliced(model, unknown, border, slices)
    last = len(unknown)
    *buckets, whole = small.buckets(last=(last,))
    possible = np.isfinite(whole.log_weights({})[0])
    _refuse(int((~possible[group]).sum()))
    columns = [group] * (last + 1)
    for conditional in sampling.conditionals(buckets, small.structure.sizes):
        key = conditional.keys(columns, len(group))
        columns[conditional.variable] = sampling.draw(conditional, key, generator, method)
    return columns[:-1]


def _refuse(number: int) -> None:
    if number:
        raise ValueError(
            f"the model gives the known cells of {number} rows probability zero: they cannot be completed."
        )
