"""Cost forecast of a plan, and errors with figures before memory is allocated."""

from __future__ import annotations

import dataclasses

from pgmjax._internal.errors import Error
from pgmjax._internal.memory import available_bytes, readable_bytes, scientific
from pgmjax.inference.plan import rates

ORACLE_COPIES = 3  # of the potentials, in a call: as given, on the device, and marginals
_SMALL = 1 << 20  # bytes


QUESTION_SECONDS = 600.0  # longest forecast of a question that is answered unless more is allowed
SHARE = 0.8  # of the free memory, which the tables of a question may take


class ModelTooLargeError(Error, ValueError):
    """The forecast of a model exceeds the available memory, or that of a question the time it may take.

    Attributes:
        fits_in: memory (bytes) with which the same would be done in one piece; None if it is not known.
    """

    def __init__(self, message: str, fits_in: int | None = None):
        super().__init__(message)
        self.fits_in = fits_in


@dataclasses.dataclass(frozen=True)
class QuestionLimits:
    """Limits of one question to a fitted model.

    Attributes:
        max_bytes: memory; None for a share of what is free when the question is asked.
        max_seconds: forecast time on one core.
    """

    max_bytes: int | None = None
    max_seconds: float = QUESTION_SECONDS

    @property
    def bytes(self) -> int:
        """Memory that a question may take now, in bytes."""
        return int(SHARE * available_bytes()) if self.max_bytes is None else self.max_bytes

    def allow(self, need: int) -> bool:
        """Return whether a number of bytes may be taken."""
        if self.max_bytes is None and need <= _SMALL:
            return True  # to look at the free memory takes longer than so small a table
        return need <= self.bytes

    def require_cells(self, cells: int, what: str, copies: int = 3) -> None:
        """Raise an error if float64 tables do not fit.

        Args:
            cells: cells of the tables.
            what: description of them, for the message.
            copies: number of copies in memory at once.

        Raises:
            ModelTooLargeError: they do not fit.
        """
        need = 8 * copies * cells
        if not self.allow(need):
            raise _table_too_large(what, cells, need, self.bytes)


def _table_too_large(what: str, cells: int, need: int, limit: int) -> ModelTooLargeError:
    return ModelTooLargeError(
        f"{what} has {readable_cells(cells)} cells and needs about {readable_bytes(need)}; "
        f"{readable_bytes(limit)} is available. Ask for fewer attributes or a coarser query.",
        need,
    )


USUAL = QuestionLimits()


@dataclasses.dataclass(frozen=True)
class Forecast:
    """Cost of one inference call.

    Attributes:
        method: description of the plan, as text.
        largest: cells of the largest table.
        inputs: cells of all potentials together.
        cells: cells of the oracle's own tables in memory at the same time.
        work: number of exponentials, a measure of the time.
        largest_tables: variables and number of cells of the largest tables.
        operations: approximate number of operations to compile.
        seconds: approximate time of a call once compiled.
        kernels: approximate number of kernels of a call on a GPU, one after the other; 0 if it is not known.
    """

    method: str
    largest: int
    inputs: int
    cells: int
    work: int
    largest_tables: tuple[tuple[tuple[int, ...], int], ...]
    operations: int = 0
    seconds: float = 0.0
    kernels: int = 0

    @property
    def compile_seconds(self) -> float:
        """Approximate compile time of the first call (s)."""
        return rates.of_device().operation * self.operations

    @property
    def gpu_seconds(self) -> float:
        """Approximate time of a call on a GPU once compiled, if its kernels are known (s)."""
        by = rates.of_device()
        return by.launch * self.kernels + by.exponential * self.work + 1.5 * by.cell * self.cells

    def peak_bytes(self, itemsize: int, copies: int = ORACLE_COPIES) -> int:
        """Peak memory, in bytes.

        Args:
            itemsize: bytes per cell, 4 or 8.
            copies: number of copies of the potentials in memory besides the oracle's own tables. Default:
                those of one call; a solver needs more.
        """
        return (self.cells + copies * self.inputs) * itemsize


def readable_cells(count: int) -> str:
    """A number of cells as text: in digits, or in scientific notation from 10**15 on.

    Example:
        >>> readable_cells(53_000_000), readable_cells(6**40)
        ('53,000,000', '1.3e+31')
    """
    return f"{count:,}" if count < 10**15 else scientific(count)


def require_memory(forecast: Forecast, names: tuple[str, ...], need: int, limit: int) -> None:
    """Raise an error if the forecast of a model exceeds a limit.

    Args:
        forecast: the plan's forecast.
        names: attribute name of each variable.
        need: its peak memory, in bytes.
        limit: bytes that may be used.

    Raises:
        ModelTooLargeError: the limit is exceeded; the message gives the figures, the cliques that cause
            them and possible remedies.
    """
    if need <= limit:
        return
    causes = "; ".join(
        f"({', '.join(names[v] for v in variables)}) with {readable_cells(cells)} cells"
        for variables, cells in forecast.largest_tables
    )
    raise ModelTooLargeError(
        f"The model needs about {readable_bytes(need)} ({forecast.method}) and {readable_bytes(limit)} is "
        f"available. The largest tables: {causes}. Measure fewer or smaller cliques that overlap less, "
        "coarsen the bins of these attributes, or set max_bytes.",
        need,
    )


def require_cells(cells: int, what: str) -> None:
    """Raise an error if a float64 table does not fit in the host's memory.

    Args:
        cells: its cells; memory for three copies is required: the table, its exponential and one more.
        what: description of the table, for the message.

    Raises:
        ModelTooLargeError: the table does not fit.
    """
    need, limit = 24 * cells, available_bytes()
    if need > limit:
        raise _table_too_large(what, cells, need, limit)
