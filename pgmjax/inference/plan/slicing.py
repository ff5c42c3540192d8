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
import itertools
import math

from pgmjax._internal.memory import readable_bytes
from pgmjax.inference.plan import contraction, elimination
from pgmjax.inference.plan.contraction import SHOWN, ContractionPath, Cost, of_path
from pgmjax.inference.plan.forecast import ModelTooLargeError
from pgmjax.inference.plan.structure import Structure, Variables

MAX_WORK = 10**13  # combined cells of all slices: minutes per call
# Besides the planner's own cost of a stored cell: paths that store less may need fewer slices.
_STORED = (contraction.STORED, 2000.0)
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
    cost: Cost
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

        Along these axes, slice `i` of a clique's table starts at `starts[i]` and has length `widths`. The
        marginal of a clique without sliced axes is the sum over all slices.
        """
        place = {v: n for n, v in enumerate(self.variables)}
        return tuple(
            tuple((axis, place[v]) for axis, v in enumerate(clique) if v in place)
            for clique in self.structure.cliques
        )

    @functools.cached_property
    def starts(self) -> tuple[tuple[int, ...], ...]:
        """For each slice, the first value of each sliced variable; the last variable varies fastest."""
        values = [
            range(0, self.structure.sizes[v], w) for v, w in zip(self.variables, self.widths, strict=True)
        ]
        return tuple(itertools.product(*values))

    def lines(self, fast: bool = False) -> list[str]:
        """The plan as lines of text.

        Args:
            fast: whether large products run as matrix products.

        Example:
            >>> structure = Structure((4, 6), ((0, 1),))
            >>> plan(structure, 10**6, min_slices=4).lines()[-1]
            'sliced: variable 0 4 values by 1; 1 times the combined cells of one run at once'
        """
        each = [
            f"variable {v} {self.structure.sizes[v]} values by {width}"
            for v, width in zip(self.variables, self.widths, strict=True)
        ]
        words = ", ".join(each[:SHOWN]) + (f" and {len(each) - SHOWN} more" if each[SHOWN:] else "")
        sliced = f"sliced: {words}; {self.overhead:.3g} times the combined cells of one run at once"
        return [*self.cost.lines(fast), *([sliced] if words else [])]


@functools.lru_cache(maxsize=64)
def plan(structure: Structure, max_bytes: int, min_slices: int = 1) -> SlicedPath:
    """Plan a contraction that fits in memory, with slices chosen by greedy search.

    Args:
        structure: the tables.
        max_bytes: memory that one call in float32 may take, inputs and their gradients included.
        min_slices: minimum number of slices (to share slices between devices).

    Returns:
        The plan with the shortest forecast time among those that fit; one slice if no slicing is needed.

    Raises:
        ModelTooLargeError: no slicing fits, or only one with too much work; the message gives the figures.
    """
    tried: list[SlicedPath] = []
    for stored in _STORED:
        whole = contraction.plan(structure, stored=stored)
        search = _Search(structure, max_bytes, min_slices, stored, tried[0].path if tried else whole)
        if not tried:
            tried.append(search.sliced(whole, {}))
            if 8 * structure.length > max_bytes:
                break  # slicing does not reduce the memory of the potentials and marginals
        tried.extend(search.run(whole))
        if any(search.fits(s) and s.slices == 1 for s in tried):
            break
    fitting = [s for s in tried if search.fits(s) and s.cost.exponentials <= MAX_WORK]
    if not fitting:
        least = min(tried, key=lambda s: (not search.fits(s), s.cost.peak))
        raise _refusal(tried[0], least, max_bytes, min_slices)
    return min(fitting, key=lambda s: s.cost.seconds())


@dataclasses.dataclass(frozen=True)
class _Search:
    """Greedy choice of sliced variables, for one path and then for a path replanned for the slices.

    Attributes:
        structure: the tables.
        max_bytes: memory of a call.
        min_slices: minimum number of slices.
        stored: cost of a stored cell, by which paths are planned.
        unsliced: the path with whose work that of all slices is compared.
    """

    structure: Structure
    max_bytes: int
    min_slices: int
    stored: float
    unsliced: ContractionPath

    def run(self, whole: ContractionPath) -> list[SlicedPath]:
        """The final plans of the search on the path itself, and on a path replanned for its slices."""
        first = self.widened(self.narrowed(self.sliced(whole, {})))
        widths = dict(zip(first.variables, first.widths, strict=True))
        if not widths:
            return [first]
        again = contraction.plan(first.path.structure, stored=self.stored)
        return [first, self.widened(self.narrowed(self.sliced(again, widths)))]

    def fits(self, sliced: SlicedPath) -> bool:
        """Return whether there are enough slices, and a call fits in memory."""
        return 4 * sliced.cost.peak <= self.max_bytes and sliced.slices >= self.min_slices

    def narrowed(self, now: SlicedPath) -> SlicedPath:
        """Slice further until it fits, each time by the best reduction of the peak per added time."""
        while not self.fits(now) and now.cost.exponentials <= MAX_WORK:
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
        found = {v for kept in tables[:_TABLES] for v in kept if sizes[v] > 1}
        return sorted(found or {v for c in path.structure.cliques for v in c if sizes[v] > 1})

    def sliced(self, path: ContractionPath, widths: dict[int, int]) -> SlicedPath:
        """A path with some variables sliced, and the cost of all slices."""
        sizes = list(self.structure.sizes)
        for v, width in widths.items():
            sizes[v] = width
        inner = dataclasses.replace(path, structure=Structure(tuple(sizes), self.structure.cliques))
        variables = tuple(v for v in sorted(widths) if widths[v] < self.structure.sizes[v])
        one = of_path(inner)
        slices = math.prod(self.structure.sizes[v] // widths[v] for v in variables)
        whole = one if slices == 1 else self._all_slices(one, inner.structure.length, slices)
        kept = tuple(widths[v] for v in variables)
        overhead = whole.exponentials / self.unsliced.work
        return SlicedPath(self.structure, variables, kept, inner, whole, overhead)

    def _all_slices(self, one: Cost, inputs: int, slices: int) -> Cost:
        """Cost of all slices; each reads its part of the inputs and adds to the gradients."""
        return dataclasses.replace(
            one,
            exponentials=slices * one.exponentials,
            summed=slices * one.summed,
            large=slices * one.large,
            carried=slices * (one.carried + inputs),
            moved=slices * (one.moved + 4 * inputs),
            peak=2 * self.structure.length + one.peak,
            slices=slices,
        )


def _narrower(size: int, width: int) -> int:
    """The next smaller divisor of `size`; 0 if none exists."""
    return next((w for w in range(width - 1, 0, -1) if size % w == 0), 0)


def _score(now: SlicedPath, option: SlicedPath) -> float:
    """Reduction of the log of the peak per increase of the log of the time."""
    gain = math.log(now.cost.peak / option.cost.peak)
    return gain / max(math.log(option.cost.seconds() / now.cost.seconds()), 1e-3)


def _refusal(whole: SlicedPath, least: SlicedPath, max_bytes: int, min_slices: int) -> ModelTooLargeError:
    words = ", ".join(f"variable {v}" for v in least.variables)
    inputs = 8 * whole.structure.length
    if inputs > max_bytes:
        why = f"Its potentials and marginals alone take {readable_bytes(inputs)}, so slicing does not help."
    elif not least.variables and least.cost.exponentials > MAX_WORK:
        why = f"One call takes {whole.cost.exponentials:,} combined cells, more than {MAX_WORK:,}."
    elif least.cost.exponentials > MAX_WORK:
        why = (
            f"Cut into {least.slices:,} slices over ({words}) it takes {least.cost.exponentials:,} "
            f"combined cells, more than {MAX_WORK:,}."
        )
    else:
        why = (
            f"Cut as far as it goes, into {least.slices:,} slices over ({words}), it needs "
            f"{readable_bytes(4 * least.cost.peak)}; at least {min_slices:,} slices were asked for."
        )
    return ModelTooLargeError(
        f"The model needs about {readable_bytes(4 * whole.cost.peak)} (contraction found by "
        f"{whole.path.method}, largest table {whole.path.largest:,} cells) and "
        f"{readable_bytes(max_bytes)} may be used. {why} Measure fewer or smaller cliques that "
        "overlap less, coarsen the bins of these attributes, or set max_bytes. "
        f"{elimination.bound_in_words(whole.structure)}",
        4 * whole.cost.peak,
    )
