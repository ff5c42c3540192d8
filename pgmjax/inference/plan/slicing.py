"""Slicing: run a contraction several times over parts of some variables, so that it fits in memory.

The sum over all joint states is the sum over slices, each of which restricts a few variables to a part of
their values. Tables over a sliced variable become smaller, but tables without one are recomputed in each
slice. A part is a range of values whose length divides the variable's size.

References:
    Chen, Zhang, Huang, Newman and Shi, Classical simulation of intermediate-size quantum circuits,
    arXiv:1805.01450 (2018). Gray and Kourtis, Hyper-optimized tensor network contraction, Quantum 5,
    410 (2021), section 4.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

from pgmjax._internal import checks
from pgmjax._internal.memory import readable_bytes
from pgmjax.inference.plan import contraction, cost, elimination
from pgmjax.inference.plan.forecast import ModelTooLargeError
from pgmjax.inference.plan.path import ContractionPath
from pgmjax.inference.plan.search import CellCosts
from pgmjax.inference.plan.structure import Structure, Variables

MAX_WORK = 10**13  # combined cells of all slices: minutes per call
# Besides the planner's own weights, paths that store less are tried, as they may need fewer slices.
_WEIGHTS = (contraction.WEIGHTS, CellCosts(union=1.0, stored=2000.0))
_TABLES = 3


@dataclasses.dataclass(frozen=True)
class SlicedPath:
    """A contraction that is run once for each slice.

    Attributes:
        structure: the whole model.
        variables: the sliced variables; empty if everything fits at once.
        widths: number of values of each sliced variable in a slice, a divisor of the variable's size.
        path: the contraction of one slice: the same cliques, with widths as the sizes of sliced variables.
        cost: cost of all slices together; `peak` includes the full inputs and gradients and one slice.
        overhead: combined cells of all slices divided by those of the unsliced path.
    """

    structure: Structure
    variables: Variables
    widths: tuple[int, ...]
    path: ContractionPath
    cost: cost.Cost
    overhead: float

    @property
    def parts(self) -> tuple[int, ...]:
        """Number of parts of each sliced variable."""
        return tuple(self.structure.sizes[v] // w for v, w in zip(self.variables, self.widths, strict=True))

    @property
    def slices(self) -> int:
        """Number of slices."""
        return math.prod(self.parts)

    @property
    def axes(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Sliced axes of each clique: the axis, and the index of its variable in `variables`.

        Along these axes, slice `i` of a clique's table starts at `starts(i)` and has length `widths`. The
        marginal of a clique without sliced axes is the sum over all slices.
        """
        place = {v: n for n, v in enumerate(self.variables)}
        return tuple(
            tuple((axis, place[v]) for axis, v in enumerate(clique) if v in place)
            for clique in self.structure.cliques
        )

    def starts(self, index: int) -> tuple[int, ...]:
        """First value of each sliced variable in a slice; the last variable varies fastest."""
        found: list[int] = []
        for parts, width in zip(reversed(self.parts), reversed(self.widths), strict=True):
            index, part = divmod(index, parts)
            found.append(part * width)
        return tuple(reversed(found))

    def lines(self, itemsize: int = 4, names: Sequence[str] | None = None) -> list[str]:
        """The plan as lines of text.

        Args:
            itemsize: bytes per cell.
            names: attribute name of each variable.

        Example:
            >>> structure = Structure((4, 6), ((0, 1),))
            >>> plan(structure, 10**6, min_slices=4).lines(names=("a", "b"))[-1]
            'sliced: a 4 values by 1; 1 times the combined cells of one run at once'
        """
        each = [
            f"{names[v] if names else f'variable {v}'} {self.structure.sizes[v]} values by {width}"
            for v, width in zip(self.variables, self.widths, strict=True)
        ]
        left = len(each) - cost.SHOWN
        words = ", ".join(each[: cost.SHOWN]) + (f" and {left} more" if left > 0 else "")
        sliced = f"sliced: {words}; {self.overhead:.3g} times the combined cells of one run at once"
        return [*self.cost.lines(itemsize), *([sliced] if words else [])]


def plan(
    structure: Structure,
    max_bytes: int,
    *,
    itemsize: int = 4,
    output: Sequence[int] = (),
    min_slices: int = 1,
    max_work: int = MAX_WORK,
    find: str = "auto",
    names: Sequence[str] | None = None,
) -> SlicedPath:
    """Plan a contraction that fits in memory, with slices chosen by greedy search.

    Args:
        structure: the tables.
        max_bytes: memory that one call may take, inputs and their gradients included.
        itemsize: bytes per cell.
        output: variables to keep; they are never sliced.
        min_slices: minimum number of slices (to share slices between devices).
        max_work: maximum number of combined cells of all slices together.
        find: search method for paths, as in `inference.plan.contraction.plan`.
        names: attribute name of each variable, for error messages.

    Returns:
        The plan with the shortest forecast time among those that fit; one slice if no slicing is needed.

    Raises:
        ModelTooLargeError: no slicing fits, or only one with too much work; the message gives the figures.
    """
    max_bytes = checks.integer("max_bytes", max_bytes, low=1)
    itemsize = checks.integer("itemsize", itemsize, low=1)
    min_slices = checks.integer("min_slices", min_slices, low=1)
    max_cells = max_bytes // itemsize
    return _plan(
        structure, max_cells, itemsize, tuple(output), min_slices, max_work, find, tuple(names or ())
    )


@functools.lru_cache(maxsize=64)
def _plan(
    structure: Structure,
    max_cells: int,
    itemsize: int,
    output: Variables,
    min_slices: int,
    max_work: int,
    find: str,
    names: tuple[str, ...],
) -> SlicedPath:
    tried: list[SlicedPath] = []
    for weights in _WEIGHTS:
        whole = contraction.plan(structure, output, find=find, weights=weights)
        base = tried[0].cost.exponentials if tried else whole.work
        search = _Search(structure, output, max_cells, min_slices, find, max_work, weights, base)
        if not tried:
            tried.append(search.sliced(whole, {}))
            if 2 * search.inputs > max_cells:
                break  # slicing does not reduce the memory of the potentials and marginals
        tried.extend(search.run(whole))
        if any(_fits(s, max_cells, min_slices) and s.slices == 1 for s in tried):
            break
    fitting = [s for s in tried if _fits(s, max_cells, min_slices) and s.cost.exponentials <= max_work]
    if not fitting:
        raise _refusal(tried, max_cells, itemsize, min_slices, max_work, names)
    return min(fitting, key=lambda s: s.cost.seconds())


def _fits(sliced: SlicedPath, max_cells: int, min_slices: int) -> bool:
    return sliced.cost.peak <= max_cells and sliced.slices >= min_slices


class _Search:
    """Greedy choice of sliced variables, for one path and then for a path replanned for the slices."""

    def __init__(
        self,
        structure: Structure,
        output: Variables,
        max_cells: int,
        min_slices: int,
        find: str,
        max_work: int,
        weights: CellCosts,
        base: int,
    ):
        self.structure, self.output, self.base = structure, output, base
        self.max_cells, self.min_slices, self.max_work = max_cells, min_slices, max_work
        self.find, self.weights = find, weights
        self.inputs = sum(map(structure.cells, structure.cliques))

    def run(self, whole: ContractionPath) -> list[SlicedPath]:
        """The final plans of the search on the path itself, and on a path replanned for its slices."""
        first = self.widened(self.narrowed(self.sliced(whole, {})))
        widths = dict(zip(first.variables, first.widths, strict=True))
        if not widths:
            return [first]
        again = contraction.plan(first.path.structure, self.output, find=self.find, weights=self.weights)
        return [first, self.widened(self.narrowed(self.sliced(again, widths)))]

    def fits(self, sliced: SlicedPath) -> bool:
        return _fits(sliced, self.max_cells, self.min_slices)

    def narrowed(self, now: SlicedPath) -> SlicedPath:
        """Slice further until it fits, each time by the best reduction of the peak per added time."""
        while not self.fits(now) and now.cost.exponentials <= self.max_work:
            widths = dict(zip(now.variables, now.widths, strict=True))
            options = [
                self.sliced(now.path, {**widths, v: width})
                for v in self.candidates(now.path)
                if (width := _narrower(self.structure.sizes[v], now.path.structure.sizes[v]))
            ]
            if not options:
                break
            now = max(options, key=lambda s: _score(now, s))
        return now

    def widened(self, now: SlicedPath) -> SlicedPath:
        """Undo slicing that later choices made unnecessary."""
        if not self.fits(now):
            return now
        for v, width in zip(now.variables, now.widths, strict=True):
            widths = dict(zip(now.variables, now.widths, strict=True))
            size = self.structure.sizes[v]
            for wider in (w for w in range(size, width, -1) if size % w == 0):
                option = self.sliced(now.path, {**widths, v: wider})
                if self.fits(option) and option.cost.seconds() <= now.cost.seconds():
                    now = option
                    break
        return now

    def candidates(self, path: ContractionPath) -> list[int]:
        """Variables of the largest tables, whose slicing reduces the peak."""
        sizes = path.structure.sizes
        tables = sorted((s.kept for s in path.steps), key=lambda kept: -path.structure.cells(kept))
        found = {v for kept in tables[:_TABLES] for v in kept if sizes[v] > 1} - set(self.output)
        everything = {v for c in path.structure.cliques for v in c if sizes[v] > 1} - set(self.output)
        return sorted(found or everything)

    def sliced(self, path: ContractionPath, widths: dict[int, int]) -> SlicedPath:
        """A path with some variables sliced, and the cost of all slices."""
        sizes = list(self.structure.sizes)
        for v, width in widths.items():
            sizes[v] = width
        inner = dataclasses.replace(path, structure=Structure(tuple(sizes), self.structure.cliques))
        variables = tuple(v for v in sorted(widths) if widths[v] < self.structure.sizes[v])
        one = cost.of_path(inner)
        slices = math.prod(self.structure.sizes[v] // widths[v] for v in variables)
        whole = one if slices == 1 else self.all_slices(one, slices)
        kept = tuple(widths[v] for v in variables)
        return SlicedPath(self.structure, variables, kept, inner, whole, whole.exponentials / self.base)

    def all_slices(self, one: cost.Cost, slices: int) -> cost.Cost:
        """Cost of all slices; each reads its part of the inputs and adds to the gradients."""
        return dataclasses.replace(
            one,
            exponentials=slices * one.exponentials,
            flops=slices * one.flops,
            summed=slices * one.summed,
            large=slices * one.large,
            carried=slices * (one.carried + one.inputs),
            moved=slices * (one.moved + 4 * one.inputs),
            inputs=self.inputs,
            peak=2 * self.inputs + one.peak,
            slices=slices,
        )


def _narrower(size: int, width: int) -> int:
    """The next smaller divisor of `size`; 0 if none exists."""
    return next((w for w in range(width - 1, 0, -1) if size % w == 0), 0)


def _score(now: SlicedPath, option: SlicedPath) -> float:
    """Reduction of the log of the peak per increase of the log of the time."""
    gain = math.log(now.cost.peak / option.cost.peak)
    return gain / max(math.log(option.cost.seconds() / now.cost.seconds()), 1e-3)


def _refusal(
    tried: list[SlicedPath],
    max_cells: int,
    itemsize: int,
    min_slices: int,
    max_work: int,
    names: tuple[str, ...],
) -> ModelTooLargeError:
    whole, least = tried[0], min(tried, key=lambda s: (not _fits(s, max_cells, min_slices), s.cost.peak))
    words = ", ".join(names[v] if names else f"variable {v}" for v in least.variables)
    if 2 * whole.cost.inputs > max_cells:
        alone = readable_bytes(2 * whole.cost.inputs * itemsize)
        why = f"Its potentials and marginals alone take {alone}, so slicing does not help."
    elif not least.variables and least.cost.exponentials > max_work:
        why = f"One call takes {whole.cost.exponentials:,} combined cells, more than {max_work:,}."
    elif least.cost.exponentials > max_work:
        why = (
            f"Cut into {least.slices:,} slices over ({words}) it takes {least.cost.exponentials:,} "
            f"combined cells, more than {max_work:,}."
        )
    else:
        why = (
            f"Cut as far as it goes, into {least.slices:,} slices over ({words}), it needs "
            f"{readable_bytes(least.cost.peak * itemsize)}; at least {min_slices:,} slices were asked for."
        )
    return ModelTooLargeError(
        f"The model needs about {readable_bytes(whole.cost.peak * itemsize)} (contraction found by "
        f"{whole.path.method}, largest result {whole.cost.largest:,} cells) and "
        f"{readable_bytes(max_cells * itemsize)} may be used. {why} Measure fewer or smaller cliques that "
        "overlap less, coarsen the bins of these attributes, or set max_bytes. "
        f"{elimination.bound_in_words(whole.structure)}",
        whole.cost.peak * itemsize,
    )
