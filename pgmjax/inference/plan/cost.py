"""Cost of a contraction, computed from its path: work, bytes moved, peak memory, program size."""

from __future__ import annotations

import dataclasses
import functools

from pgmjax._internal import device
from pgmjax._internal.memory import readable_bytes
from pgmjax.inference.plan import rates
from pgmjax.inference.plan.path import ContractionPath, MatrixProduct, Step
from pgmjax.inference.plan.rates import Rates
from pgmjax.inference.plan.structure import Structure

# Compiled operations of a step with its gradient, used to estimate the compile time.
REDUCTION_OPERATIONS = 6
PRODUCT_OPERATIONS = 16
# Workspace of a step, in addition to its tables: the exponentials of both operands and of the result.
WORKSPACE = 1
SHOWN = 4
# A step is a large product if its union has at least LARGE cells, and each side at least SIDE (measured on
# plans with unions to 1e9 cells: sides of 4 instead of 8 save a tenth to a third of the time and memory).
LARGE, SIDE = 300_000, 4
# Off a CPU its method takes about 14 launches more than a plain step. In their time, 35 µs, a card moves a
# union of ten million cells three times (forecast); it is stored then, so that the bound is lower.
LARGE_ELSEWHERE = 1 << 22


@dataclasses.dataclass(frozen=True)
class Dimensions:
    """A product `C[batch, left, right] = sum over summed of A[batch, left, summed] B[batch, summed, right]`.

    Attributes:
        step: number of the step in its path.
        batch: cells of the variables that all three tables share.
        left: cells of the variables in the left table and the result.
        summed: cells of the variables that are summed.
        right: cells of the variables in the right table and the result.
        form: form that the executor uses (`exact`, `guarded`, ...); empty if not yet decided.
    """

    step: int
    batch: int
    left: int
    summed: int
    right: int
    form: str = ""

    @property
    def union(self) -> int:
        """Cells of both tables combined: exponentials of the exact form."""
        return self.batch * self.left * self.summed * self.right

    @property
    def tiled(self) -> bool:
        """True if the union exceeds all three tables, so that it must never be stored."""
        return min(self.left, self.summed, self.right) > 1

    def large(self, least: int, side: int) -> bool:
        """True if the executor runs it as a large product: at least so many cells, and such sides."""
        return self.union >= least and min(self.left, self.summed, self.right) >= side

    def __str__(self) -> str:
        form = f", {self.form}" if self.form else ""
        return f"{self.batch:,} x [{self.left:,}, {self.summed:,}] x [{self.summed:,}, {self.right:,}]{form}"


@dataclasses.dataclass(frozen=True)
class Cost:
    """Cost of one call: a value and its gradient with respect to every input.

    Values are for one forward pass (`exponentials`) or for the forward and backward pass together (all
    others). They are computed from sizes; nothing is measured.

    Attributes:
        method: name of the method that found the path.
        exponentials: cells of all combined tables, one exponential each in the exact form, forward.
        flops: of all products, if run as matrix products, forward and backward.
        moved: cells that are read and written, forward and backward.
        inputs: cells of the input tables (and of their gradients).
        stored: cells of all step results, which are kept from the forward to the backward pass.
        largest: cells of the largest step result.
        peak: cells in memory at the peak: inputs, gradients, results still needed and workspace.
        operations: approximate number of compiled operations.
        products: the products that never store their union, most work first.
        slices: number of runs of the path (1: not sliced).
        summed: cells of the combined tables of all steps but large products.
        large: cells of the combined tables of large products.
        carried: cells of the tables of large products, and of the inputs of each slice, if there are several.
    """

    method: str
    exponentials: int
    flops: int
    moved: int
    inputs: int
    stored: int
    largest: int
    peak: int
    operations: int
    products: tuple[Dimensions, ...] = ()
    slices: int = 1
    summed: int = 0
    large: int = 0
    carried: int = 0

    def peak_bytes(self, itemsize: int = 4) -> int:
        """Peak memory, in bytes.

        Args:
            itemsize: bytes per cell.
        """
        return self.peak * itemsize

    def seconds(self, by: Rates | None = None, exact: bool = False) -> float:
        """Forecast time of one call, once compiled (s).

        Args:
            by: rates of the machine. Default: those of the device at hand.
            exact: run all products in exact log-space form, none as a matrix product.
        """
        by = by or rates.of_device()
        return float(sum(count * getattr(by, rate) for rate, count in self.units(exact).items()))

    def units(self, exact: bool = False) -> dict[str, int]:
        """Units of work of one call, by the name of their rate in `Rates`.

        A cell of a combined table takes three exponentials: one forward, one backward for each operand. A
        large product takes three matrix products, and its tables are transformed as often.

        Args:
            exact: as for `seconds`.
        """
        return {
            "launch": self.slices * self.operations,
            "exponential": 3 * (self.summed + (self.large if exact else 0)),
            "flop": 0 if exact else 6 * self.large,
            "cell": 3 * self.carried,
        }

    def with_forms(self, forms: dict[int, str]) -> Cost:
        """The same cost with the forms chosen by the executor: form of a product by its step number."""
        products = tuple(dataclasses.replace(p, form=forms.get(p.step, p.form)) for p in self.products)
        return dataclasses.replace(self, products=products)

    def lines(self, itemsize: int = 4) -> list[str]:
        """The costs as lines of text.

        Args:
            itemsize: bytes per cell.

        Example:
            >>> from pgmjax.inference.plan import contraction
            >>> path = contraction.plan(Structure((2, 3, 4), ((0, 1), (1, 2), (2, 0))))
            >>> print(of_path(path).lines()[1])
            24 combined cells + 6 of reductions, 144 flops as matrix products
        """
        tiled = self.slices * sum(p.union for p in self.products)
        times = f", in {self.slices:,} slices" if self.slices > 1 else ""
        lines = [
            f"contraction found by {self.method}{times}",
            f"{tiled:,} combined cells + {self.exponentials - tiled:,} of reductions, "
            f"{self.flops:,} flops as matrix products",
            f"largest result {self.largest:,} cells; {readable_bytes(self.moved * itemsize)} moved; "
            f"{readable_bytes(self.peak_bytes(itemsize))} at the peak",
            f"about {self.operations:,} compiled operations",
        ]
        lines += [f"  product {p}" for p in self.products[:SHOWN]]
        if len(self.products) > SHOWN:
            lines.append(f"  and {len(self.products) - SHOWN} smaller products")
        return lines


def least_large() -> int:
    """The least number of cells of a large product's union on the device that programs run on."""
    return LARGE if device.is_cpu() else LARGE_ELSEWHERE


def large(path: ContractionPath) -> dict[int, MatrixProduct]:
    """The large products of a path on the device that programs run on, by step number."""
    return _large(path, least_large(), SIDE)


@functools.lru_cache(maxsize=256)
def _large(path: ContractionPath, least: int, side: int) -> dict[int, MatrixProduct]:
    found = ((n, path.product(step)) for n, step in enumerate(path.steps))
    return {
        n: product
        for n, product in found
        if product and dimensions(path.structure, n, product).large(least, side)
    }


def dimensions(structure: Structure, number: int, product: MatrixProduct) -> Dimensions:
    """Sizes of a product."""
    cells = structure.cells
    return Dimensions(
        number, cells(product.batch), cells(product.left), cells(product.summed), cells(product.right)
    )


@functools.lru_cache(maxsize=64)
def of_path(path: ContractionPath, backward: bool = True) -> Cost:
    """Cost of a path.

    Args:
        path: the path.
        backward: whether a backward pass follows, so that its peak counts gradients and stored results.
    """
    cells = path.structure.cells
    inputs = sum(map(cells, path.structure.cliques))
    found = [(n, path.product(step)) for n, step in enumerate(path.steps)]
    sized = [dimensions(path.structure, n, product) for n, product in found if product]
    tiled = [d for d in sized if d.tiled]
    of_large = [d for d in sized if d.step in large(path)]
    unions = sum(d.union for d in of_large)
    results = [cells(step.kept) for step in path.steps]
    read = sum(cells(path.variables(i)) for step in path.steps for i in step.operands)
    singles = len(path.steps) - len(sized)
    return Cost(
        method=path.method,
        exponentials=path.work,
        flops=6 * sum(d.union for d in tiled),
        # forward: read tables, write the result; backward: read both and the cotangent, write cotangents
        moved=3 * (read + sum(results)),
        inputs=inputs,
        stored=sum(results),
        largest=max(results, default=0),
        peak=_peak(path, inputs) if backward else inputs + _forward_peak(path),
        operations=REDUCTION_OPERATIONS * singles + PRODUCT_OPERATIONS * len(sized),
        summed=path.work - unions,
        large=unions,
        carried=sum(
            cells(path.steps[d.step].kept)
            + sum(cells(path.variables(i)) for i in path.steps[d.step].operands)
            for d in of_large
        ),
        products=tuple(sorted(tiled, key=lambda d: -d.union)),
    )


def _peak(path: ContractionPath, inputs: int) -> int:
    """Peak number of cells in memory during the forward and the backward pass.

    Inputs and their gradients count throughout, as a solver stores both. The backward pass frees a
    result and its cotangent after differentiating the step that produced it.
    """
    cells, first = path.structure.cells, len(path.structure.cliques)
    results = [cells(step.kept) for step in path.steps]
    alive = 2 * inputs + sum(results) + results[-1]
    peak = 0
    for result, step in zip(reversed(results), reversed(path.steps), strict=True):
        alive += sum(results[i - first] for i in step.operands if i >= first)
        peak = max(peak, alive + _workspace(path, step))
        alive -= 2 * result  # with its cotangent
    return peak


def _forward_peak(path: ContractionPath) -> int:
    """Peak number of cells of results during a forward pass alone: those still needed, the new one twice."""
    cells, first = path.structure.cells, len(path.structure.cliques)
    alive = peak = 0
    for step in path.steps:
        alive += cells(step.kept)
        peak = max(peak, alive + cells(step.kept))
        alive -= sum(cells(path.variables(i)) for i in step.operands if i >= first)
    return peak


def _workspace(path: ContractionPath, step: Step) -> int:
    tables = [*(path.variables(i) for i in step.operands), step.kept]
    return WORKSPACE * sum(map(path.structure.cells, tables))
