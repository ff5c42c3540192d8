"""Places for answers as they come, in memory or in files that may be larger than it."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from pgmjax.data.encoding import code_dtype
from pgmjax.local.column import ResponseColumn
from pgmjax.local.table import answers_name
from pgmjax.privacy.responding import Planned


class Storage:
    """Takes in blocks of responses one after another.

    Args:
        planned: the groups that are answered for.
        rows: how many records will answer.
        folder: where files are made; None keeps the answers in memory.
    """

    def __init__(self, planned: Sequence[Planned], rows: int, folder: pathlib.Path | None):
        self._planned = tuple(planned)
        self._filled = 0
        self._arrays = [_array(each, rows, folder, number) for number, each in enumerate(planned)]

    def add(self, block: Sequence[np.ndarray]) -> None:
        """Take in the answers of the next records."""
        stop = self._filled + len(block[0])
        for array, part in zip(self._arrays, block, strict=True):
            array[self._filled : stop] = np.packbits(part, axis=1) if part.dtype == np.bool_ else part
        self._filled = stop

    def columns(self) -> tuple[ResponseColumn, ...]:
        """Return what was taken in."""
        return tuple(
            ResponseColumn(each.attributes, each.encoding, each.law, each.event.epsilon, array)
            for each, array in zip(self._planned, self._arrays, strict=True)
        )

    def flush(self) -> None:
        """Have everything written to its files."""
        for array in self._arrays:
            if isinstance(array, np.memmap):
                array.flush()


def _array(planned: Planned, rows: int, folder: pathlib.Path | None, number: int) -> Any:
    size = planned.law.size
    shape = (rows, -(-size // 8)) if planned.bits else (rows,)
    dtype = np.dtype(np.uint8) if planned.bits else code_dtype(size)
    if folder is None:
        return np.zeros(shape, dtype)
    return np.lib.format.open_memmap(folder / answers_name(number), mode="w+", dtype=dtype, shape=shape)
