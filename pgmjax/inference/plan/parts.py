"""Parts of a model: some values of some variables at a time, so that each part fits in memory.

Variables are halved, each time the one whose tables take the most, until the tables of an elimination order
fit. A part in which a variable has a single value is a model without that variable, with its own order.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator

import numpy as np

from pgmjax._internal.memory import readable_bytes
from pgmjax.inference.plan import elimination, forecast, junction_tree
from pgmjax.inference.plan.forecast import ModelTooLargeError, QuestionLimits, readable_cells
from pgmjax.inference.plan.junction_tree import Elimination
from pgmjax.inference.plan.structure import Structure, Variables

# To calibrate a cell of a junction tree takes the time of so many cells, a clique that of so many steps.
CELLS, STEPS = 2.3, 8
MOST_EXCESS = 30  # times the time allowed, above which no better order of a part is looked for


@dataclasses.dataclass(frozen=True)
class Division:
    """A structure, and how it is divided.

    Attributes:
        structure: the whole.
        widths: number of values of each divided variable in a part (fewer in its last part).
    """

    structure: Structure
    widths: dict[int, int]

    @property
    def count(self) -> int:
        """Number of parts."""
        return math.prod(-(-self.structure.sizes[v] // width) for v, width in self.widths.items())

    def __iter__(self) -> Iterator[dict[int, slice]]:
        """The values of each divided variable in a part; the largest part comes first."""
        ranges = [range(0, self.structure.sizes[v], width) for v, width in self.widths.items()]
        for starts in itertools.product(*ranges):
            ends = [start + width for start, width in zip(starts, self.widths.values(), strict=True)]
            yield dict(zip(self.widths, map(slice, starts, ends), strict=True))


_ASK_LESS = (
    "Ask for marginals of few attributes one at a time, condition on attributes that many others depend on, "
    "fit fewer or smaller cliques, or approximately (approximate=True), or allow more: "
    "model.within(max_bytes=..., max_seconds=...)."
)


def divide(
    structure: Structure,
    limits: QuestionLimits,
    output: Variables = (),
    stored: bool = True,
    remedy: str = _ASK_LESS,
) -> Division:
    """Divide a structure so that each part fits; a single part if the whole does.

    Args:
        structure: the model.
        limits: memory of a part, and time of all parts together.
        output: variables that are not divided, and eliminated last.
        stored: whether all tables of a part's elimination are in memory at once, as in a calibrated tree.
        remedy: what helps if it is too large, for the message.

    Raises:
        ModelTooLargeError: no division fits in the memory, or all parts take too long.
    """
    order = elimination.best(structure, output)
    fits = limits.allow(needed_bytes(structure, order, stored))
    if fits and seconds(structure, order) <= limits.max_seconds:
        return Division(structure, {})
    limit, left = limits.bytes, min(elimination.MOST_SECONDS, elimination.SEARCH_SHARE * limits.max_seconds)
    sizes, widths, tables = list(structure.sizes), dict[int, int](), _Tables(structure, order)
    while (v := tables.heaviest(sizes, output)) is not None:
        sizes[v] = widths[v] = -(-sizes[v] // 2)
        tables.narrow(v, sizes[v])
        found = Division(structure, dict(widths))
        if tables.bytes(stored) > limit:
            continue
        time = found.count * CELLS * forecast.HOST_RATES.cell * tables.cells.sum()
        if time < MOST_EXCESS * limits.max_seconds:
            part = _narrowed(structure, sizes, widths)
            inner = elimination.best(part, output, longest=left / 4)
            left -= inner.searched
            if needed_bytes(part, inner, stored) > limit:
                continue
            time = found.count * seconds(part, inner)
        if time > limits.max_seconds:
            divided = f"in {readable_cells(found.count)} parts {_time(time)}"
            raise _refusal(structure, order, limits, divided, remedy)
        return found
    raise _refusal(structure, order, limits, "in parts it does not fit either", remedy)


class _Tables:
    """Cells of the tables of an order while variables are narrowed."""

    def __init__(self, structure: Structure, order: Elimination):
        cliques = junction_tree.maximal_cliques(order)
        self.holding: list[list[int]] = [[] for _ in structure.sizes]
        for n, clique in enumerate(cliques):
            for v in clique:
                self.holding[v].append(n)
        self.cells = np.array([float(structure.cells(clique)) for clique in cliques])
        self.sizes = list(structure.sizes)

    def bytes(self, stored: bool) -> float:
        """About the memory that `needed_bytes` gives."""
        return 8 * (1.5 * self.cells.sum() if stored else 3 * self.cells.max())

    def narrow(self, v: int, size: int) -> None:
        """Give a variable fewer values."""
        self.cells[self.holding[v]] *= size / self.sizes[v]
        self.sizes[v] = size

    def heaviest(self, sizes: list[int], kept: Variables) -> int | None:
        """The variable whose division leaves the least memory; None if none can be divided."""
        free = [v for v, size in enumerate(sizes) if size > 1 and v not in kept and self.holding[v]]
        left = {v: self.cells[self.holding[v]].sum() * (sizes[v] // 2 / sizes[v]) for v in free}
        return max(free, key=left.__getitem__, default=None)


def _narrowed(structure: Structure, sizes: list[int], narrowed: dict[int, int]) -> Structure:
    """The structure of a part; a narrowed variable with a single value leaves its cliques."""
    cliques = tuple(
        tuple(v for v in clique if v not in narrowed or sizes[v] > 1) or clique[:1]
        for clique in structure.cliques
    )
    return Structure(tuple(sizes), cliques)


def needed_bytes(structure: Structure, order: Elimination, stored: bool = True) -> int:
    """Memory of an elimination, in bytes.

    Args:
        structure: the model.
        order: its order.
        stored: keep all tables and their separators, as a calibrated tree does.
    """
    cliques = junction_tree.maximal_cliques(order)
    tables = [structure.cells(clique) for clique in cliques]
    kept = 0
    if stored:
        kept = sum(n + n // structure.sizes[clique[0]] for n, clique in zip(tables, cliques, strict=True))
    return 8 * (kept + (2 if stored else 3) * max(tables, default=1))


def seconds(structure: Structure, order: Elimination) -> float:
    """Forecast of the time to calibrate the tree of an order, on one core."""
    cliques = junction_tree.maximal_cliques(order)
    by = forecast.HOST_RATES
    return sum(STEPS * by.step + CELLS * by.cell * structure.cells(clique) for clique in cliques)


def _refusal(
    structure: Structure, order: Elimination, limits: QuestionLimits, divided: str, remedy: str
) -> ModelTooLargeError:
    """An error that says what was found, what would be possible, and what would help."""
    need = needed_bytes(structure, order)
    return ModelTooLargeError(
        f"{elimination.bound_in_words(structure)} At once the model needs about {readable_bytes(need)} "
        f"(`fits_in`) and {_time(seconds(structure, order))}, {divided}; {readable_bytes(limits.bytes)} and "
        f"{_time(limits.max_seconds)} may be used. {remedy}",
        need,
    )


def _time(count: float) -> str:
    """A time as text, in seconds or hours."""
    return f"{count:.3g} s" if count < 7200 else f"{readable_cells(round(count / 3600))} hours"
