"""What the blocks share: newest lines, groups, medians, and figures as they are printed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness import Line, markdown, median

__all__ = ["Line", "by", "figure", "geometric", "last_code", "markdown", "median", "newest", "spread"]


def newest(lines: Iterable[Line], *keys: str) -> list[Line]:
    """Return the last line of each run, told apart by keys."""
    return list({tuple(line.get(key) for key in keys): line for line in lines}.values())


def by(lines: Iterable[Line], *keys: str) -> dict[tuple, list[Line]]:
    """Return the lines in groups with the same values of some keys, in the order of their first lines."""
    groups: dict[tuple, list[Line]] = {}
    for line in lines:
        groups.setdefault(tuple(line[key] for key in keys), []).append(line)
    return groups


def last_code(lines: Sequence[Line]) -> list[Line]:
    """Return the lines of the code that the last line measured."""
    return [line for line in lines if line["source"] == lines[-1]["source"]] if lines else []


def figure(value: float | None) -> str:
    """Return an error for a table."""
    return "-" if value is None else f"{value:.4f}" if value < 0.1 else f"{value:.3f}"


def geometric(values: Sequence[float]) -> float:
    """Return the geometric mean."""
    return math.exp(statistics.mean(map(math.log, values)))


def spread(line: Mapping[str, Any] | None) -> str:
    """Return a mean absolute error with its standard error."""
    return "-" if line is None else f"{line['mae']:.3g} ± {line['standard_error']:.1g}"
