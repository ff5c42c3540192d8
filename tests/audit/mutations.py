"""A few things that go wrong in the library while a block runs, for tests of what the audit then says."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np

from pgmjax.data import bounding
from pgmjax.discovery import probes
from pgmjax.discovery.discover import _Search
from pgmjax.discovery.probes import FineCells
from pgmjax.privacy import measuring, partition
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.sensitivity import Sensitivity


@contextlib.contextmanager
def replaced(*changes: tuple[Any, str, Any]) -> Iterator[None]:
    """Change attributes, given as (owner, name, new value), while the block lasts."""
    with contextlib.ExitStack() as stack:
        for owner, name, new in changes:
            stack.enter_context(mock.patch.object(owner, name, new))
        yield


def true_total() -> Any:
    """The exact number of records where it is secret."""
    return replaced((PrivateTable, "public_total", lambda self: self._data.count()))


def _drawn(change: Callable[..., list[np.ndarray]]) -> Any:
    true = measuring.draw

    def draw(planned: Any, backend: Any, show_progress: Any) -> list[np.ndarray]:
        return change(true, planned, backend, show_progress)

    return replaced((measuring, "draw", draw))


def half_scale() -> Any:
    """Noise of half the scale that is stated."""
    return _rescaled(0.5)


def _rescaled(factor: float) -> Any:
    def change(true: Any, planned: Any, backend: Any, show: Any) -> list[np.ndarray]:
        scaled = [
            dataclasses.replace(each, distribution=type(each.distribution)(each.distribution.scale * factor))
            for each in planned
        ]
        return true(scaled, backend, show)

    return _drawn(change)


def no_noise() -> Any:
    """A corner case in which the noise is zero."""
    return _drawn(lambda true, planned, *rest: [np.zeros(each.rows, dtype=np.int64) for each in planned])


def unbounded_units() -> Any:
    """All records of a unit count."""
    return replaced((bounding, "left_out", lambda *given: bounding.LeftOut()))


def unscaled_unit() -> Any:
    """Sensitivities are those of one record where a unit has several."""
    return replaced((Sensitivity, "of_unit", lambda self, records: self))


def exact_tree() -> Any:
    """Nodes are split by their exact counts."""
    return _without_noise("_split")


def _without_noise(name: str) -> Any:
    true: Any = getattr(partition, name)

    def released(*given: Any) -> np.ndarray:
        quiet = (measuring, "fresh", lambda backend, distribution, size: np.zeros(size, dtype=np.int64))
        with replaced(quiet):
            return true(*given)

    return replaced((partition, name, released))


def true_bounds() -> Any:
    """The bounds of a column are those of its values, not those of noisy counts."""
    true = _Search.magnitudes

    def magnitudes(self: Any) -> None:
        true(self)
        edges = probes.magnitude_edges()
        for column in self._ordered():
            data = self._table.under([probes.magnitude_probe(column.name, column.reading)])
            there = np.flatnonzero(data.marginals([(column.name,)])[0][:-1])
            low, high = float(edges[there[0]]), float(edges[there[-1] + 1])
            column.fine = FineCells.over(low, high, column.step)

    return replaced((_Search, "magnitudes", magnitudes))
