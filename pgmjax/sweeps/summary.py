"""Medians and quartiles over the trials of each group of cells."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from pgmjax.sweeps.work import DONE

METRICS = {
    "mean_absolute_share": "mean absolute error, share of records",
    "root_mean_square_share": "root mean square error, share of records",
    "largest_share": "largest absolute error, share of records",
    "total_variation": "mean total variation of the workload's marginals",
}
NUMBERS = (*METRICS, "seconds", "first_seconds", "steps")


@dataclasses.dataclass(frozen=True)
class Quartiles:
    """Median and quartiles, by linear interpolation between order statistics."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Quartiles | None:
        """Return the quartiles of the finite values, or None if there are none.

        Example:
            >>> Quartiles.of([1, 2, None, 3, 4, 5])
            Quartiles(low=2.0, median=3.0, high=4.0)
        """
        there = [float(value) for value in values if value is not None and np.isfinite(value)]
        return cls(*map(float, np.percentile(there, (25, 50, 75)))) if there else None


@dataclasses.dataclass(frozen=True)
class Line:
    """Summary of a group of cells.

    Attributes:
        table: the table's name.
        workload: the workload's name.
        label: the mechanism with its options. A number is appended if the file holds several such groups that
            differ in something else (seed, estimator, version).
        epsilon: the budget, as exact text.
        epsilon_value: the same as a float.
        done: number of trials that succeeded.
        trials: number of trials that have a row.
        numbers: quartiles of each column in `NUMBERS`.
        statuses: number of fits that ended with each status.
    """

    table: str
    workload: str
    label: str
    epsilon: str
    epsilon_value: float
    done: int
    trials: int
    numbers: Mapping[str, Quartiles | None]
    statuses: Mapping[str, int]


def summarise(rows: Iterable[Mapping[str, Any]]) -> list[Line]:
    """Return a line for each group of cells, sorted by table, workload, label and epsilon."""
    grouped: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        grouped.setdefault(row["group_key"], []).append(row)
    seen: dict[tuple[Any, ...], int] = {}
    lines = []
    for members in sorted(grouped.values(), key=_place):
        first = members[0]
        place = tuple(first[name] for name in ("table_name", "workload", "label", "epsilon"))
        seen[place] = seen.get(place, 0) + 1
        label = first["label"] if seen[place] == 1 else f"{first['label']} #{seen[place]}"
        done = [row for row in members if row["status"] == DONE]
        statuses = [row["fit_status"] for row in done]
        lines.append(
            Line(
                first["table_name"],
                first["workload"],
                label,
                first["epsilon"],
                first["epsilon_value"],
                len(done),
                len(members),
                {name: Quartiles.of(row[name] for row in done) for name in NUMBERS},
                {status: statuses.count(status) for status in dict.fromkeys(statuses)},
            )
        )
    return lines


def _place(members: list[Mapping[str, Any]]) -> tuple[Any, ...]:
    names = ("table_name", "workload", "label", "epsilon_value", "finished", "group_key")
    return tuple(members[0][name] for name in names)
