"""The names of the cells of bins, and values in them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np


def moment_text(value: float, time: str | None) -> str:
    """Return the ISO form of days or seconds since 1970-01-01."""
    return str(np.array([int(value)]).astype("M8[D]" if time == "day" else "M8[s]")[0])


def names_of_cells(attribute: Any) -> list[str]:
    """Return the name of each cell of bins."""
    assert attribute.bins is not None
    pairs = list(itertools.pairwise(attribute.bins))
    if attribute.time is not None:
        return [_date_name(int(low), int(high), attribute.time) for low, high in pairs]
    if attribute.grid is not None:
        return [_grid_name(low, high, attribute.grid) for low, high in pairs]
    edges = [str(int(edge)) if edge.is_integer() else repr(edge) for edge in attribute.bins]
    names = [f"[{low}, {high})" for low, high in itertools.pairwise(edges)]
    names[-1] = names[-1][:-1] + "]"
    return names


def _grid_name(low: float, high: float, grid: float) -> str:
    places = places_of(grid)
    last = high - grid
    first, last_text = f"{low:.{places}f}", f"{last:.{places}f}"
    return first if first == last_text else f"{first} to {last_text}"


def places_of(grid: float) -> int:
    """Return the decimal places that values on a grid have.

    Example:
        >>> places_of(1), places_of(0.25), places_of(10)
        (0, 2, 0)
    """
    text = f"{grid:.12f}".rstrip("0")
    return len(text.partition(".")[2])


def _date_name(low: int, high: int, time: str) -> str:
    unit = "D" if time == "day" else "s"
    first, past, before = np.array([low, high, high - 1]).astype(f"M8[{unit}]")
    for coarse in ("Y", "M", "D"):
        whole = first.astype(f"M8[{coarse}]")
        if whole.astype(f"M8[{unit}]") == first and (whole + 1).astype(f"M8[{unit}]") == past:
            return str(whole)
    return str(first) if first == before else f"{first} to {before}"


def drawn(attribute: Any, codes: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
    """Return values [rows] in the cells of codes [rows]; see `Attribute.values`."""
    assert attribute.bins is not None
    cells = len(attribute.bins) - 1
    regular = np.minimum(codes, cells - 1).astype(np.int64)
    starts = np.array([start for start, _ in attribute.within] or attribute.bins[:-1], dtype=np.float64)
    ends = np.append(starts[1:], attribute.bins[-1])
    # the draws of a row depend on no other row: values are the same in blocks of any size
    grid = attribute.grid
    single = grid is not None and bool((np.rint((ends - starts) / grid) <= 1).all())
    uniform = np.zeros((len(codes), 1))
    if attribute.within or not single:
        uniform = _uniform(rng, attribute, (len(codes), 2 if attribute.within else 1))
    piece = _pieces(attribute, starts, regular, uniform[:, 0]) if attribute.within else regular
    low, high, offset = starts[piece], ends[piece], uniform[:, -1]
    if grid is None:
        values = np.minimum(low + offset * (high - low), np.nextafter(high, low))
    else:
        first, last = np.rint(low / grid).astype(np.int64), np.rint(high / grid).astype(np.int64)
        steps = first + np.minimum((offset * (last - first)).astype(np.int64), last - first - 1)
        values = steps if grid == 1 else np.round(steps * grid, places_of(grid))
        values = values.astype(np.int64) if float(grid).is_integer() else values
    if attribute.time is not None:
        values = values.astype("M8[D]" if attribute.time == "day" else "M8[s]")
    return values if not attribute.missing else _with_missing(values, codes == cells)


def _pieces(attribute: Any, starts: np.ndarray, codes: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Return for each row the piece of its cell, among all pieces, that a uniform number [rows] picks."""
    shares = np.array([share for _, share in attribute.within], dtype=np.float64)
    first = np.searchsorted(starts, attribute.bins or ())  # the first piece of each cell, and the end
    first[-1] = len(starts)
    masses = np.add.reduceat(shares, first[:-1])
    even = np.repeat(masses <= 0, np.diff(first))
    shares = np.where(even, 1.0, shares)
    below = np.append(0.0, np.cumsum(shares))
    low, high = below[first[codes]], below[first[codes + 1]]
    at = low + uniform * (high - low)
    piece = np.searchsorted(below, at, side="right") - 1
    return np.clip(piece, first[codes], first[codes + 1] - 1)


def _uniform(rng: np.random.Generator | None, attribute: Any, shape: tuple[int, int]) -> np.ndarray:
    if rng is None:
        raise ValueError(
            f"Attribute {attribute.name!r} has cells of several values: give values() a generator of random "
            "numbers, such as numpy.random.default_rng(0)."
        )
    return rng.random(shape)


def _with_missing(values: np.ndarray, missing: np.ndarray) -> np.ndarray:
    if values.dtype.kind == "M":
        return np.where(missing, np.datetime64("NaT"), values)
    found = values.astype(object)
    found[missing] = None
    return found
