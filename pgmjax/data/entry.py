"""The entry of an attribute in a domain file: its kinds, and the names and values of their cells.

A kind is a number of codes, labels, bins, a range of whole numbers, or dates. Ranges and dates are bins too:
of whole numbers, and of numbers of days or seconds since 1970-01-01.
"""

from __future__ import annotations

import datetime
import itertools
import math
import numbers
import re
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.encoding import Label, text_of

KINDS = ("size", "labels", "bins", "min", "from", "dates")
"""The keys by which the kinds of an entry are told apart."""
KEYS = {
    "size": ("size", "missing"),
    "labels": ("labels", "missing", "other"),
    "bins": ("bins", "missing", "clip", "grid", "decimal", "thousands", "within"),
    "min": ("min", "max", "step", "missing", "clip", "decimal", "thousands", "within"),
    "from": ("from", "to", "step", "missing", "clip", "format", "within"),
    "dates": ("dates", "missing", "clip", "format", "within"),
}
"""The keys of an entry by its kind."""
STEPS = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
"""The named steps of dates; a whole number is one of days, or of seconds where the ends have a time.
A text such as "6 hours" is a number of one of these."""

_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 7 * 86400}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_MOST_CELLS = 1 << 20
_STEP = re.compile(r"([0-9]{1,9}) *(" + "|".join(STEPS) + r")s?")
_EPOCH = datetime.datetime(1970, 1, 1)
_DAY = 86400


def fields_of_spec(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the attribute that a mapping describes; see `Attribute.from_spec`."""
    if "discover" in [value for value in spec.values() if isinstance(value, str)]:
        refuse_open(name)
    kinds = [key for key in KINDS if key in spec]
    if len(kinds) != 1:
        raise ValueError(
            f"Attribute {name!r} must have one of size, labels, bins, dates, min and max, and from "
            f"and to, got "
            f"{kinds or [*spec]}."
        )
    unknown = [key for key in spec if key not in KEYS[kinds[0]]]
    if unknown:
        raise ValueError(f"Attribute {name!r} has unknown keys {unknown}: expected {list(KEYS[kinds[0]])}.")
    missing, markers = _missing(name, spec.get("missing", False))
    fields: dict[str, Any] = {"missing": missing, "missing_markers": markers}
    for key in ("clip", "other"):
        if not isinstance(spec.get(key, False), bool):
            kind = type(spec[key]).__name__
            raise TypeError(f"{key!r} of attribute {name!r} must be true or false, got {kind}.")
        fields[key] = spec.get(key, False)
    for key in ("grid", "decimal", "thousands", "format"):
        fields.update({key: spec[key]} if key in spec else {})
    if "within" in spec:
        pairs = _listed(name, "within", spec["within"])
        fields["within"] = tuple(_listed(name, "pairs in 'within'", pair) for pair in pairs)
    fields.update(_of_kind(name, kinds[0], spec))
    fields["size"] += missing
    return fields


def refuse_open(name: str) -> NoReturn:
    """Refuse an entry that says "discover", where an attribute is to be made of it."""
    raise ValueError(
        f"Attribute {name!r} is to be discovered: give a release a share of its budget for that (pgmjax "
        "release --discover 0.1, or Mechanism.run(discover=...) on an OpenTable), or describe it."
    )


def _of_kind(name: str, kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return size and labels, or bins, of an entry of some kind."""
    if kind == "size":
        return {"size": checks.integer(f"The size of attribute {name!r}", spec["size"], low=1)}
    if kind == "labels":
        return _labelled(name, spec)
    if kind == "bins":
        bins = _listed(name, "bins", spec["bins"])
        return {"bins": bins, "size": max(len(bins) - 1, 1)}
    if kind == "min":
        bins = range_edges(name, spec)
        return {"bins": bins, "size": len(bins) - 1, "grid": 1}
    edges, time = date_edges(name, spec)
    return {"bins": edges, "size": len(edges) - 1, "time": time, "grid": 1}


def _listed(name: str, what: str, values: Any) -> tuple[Any, ...]:
    if isinstance(values, (str, Mapping)) or not isinstance(values, Iterable):
        raise TypeError(f"The {what} of attribute {name!r} must be a list.")
    return tuple(values)


def _labelled(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    groups = spec["labels"]
    labels = tuple(groups) if isinstance(groups, Mapping) else _listed(name, "labels", groups)
    fields: dict[str, Any] = {"labels": labels, "size": max(len(labels), 1) + bool(spec.get("other", False))}
    if isinstance(groups, Mapping):
        spellings = [_listed(name, f"spellings of {label!r}", group) for label, group in groups.items()]
        fields["spellings"] = tuple(
            tuple(spelling for spelling in group if text_of(spelling) != text_of(label))
            for label, group in zip(labels, spellings, strict=True)
        )
        fields["spellings"] = fields["spellings"] if any(fields["spellings"]) else ()
    return fields


def range_edges(name: str, spec: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the edges of a range of whole numbers: min, min + step, ..., max + 1.

    Example:
        >>> range_edges("age", {"min": 0, "max": 11, "step": 5})
        (0, 5, 10, 12)
    """
    if "max" not in spec:
        raise ValueError(f"Attribute {name!r} has min and no max: a range of whole numbers has both.")
    low = checks.integer(f"The min of attribute {name!r}", spec["min"])
    high = checks.integer(f"The max of attribute {name!r}", spec["max"], low=low)
    step = checks.integer(f"The step of attribute {name!r}", spec.get("step", 1), low=1)
    _check_cells(name, (high - low) // step + 1)
    return (*range(low, high + 1, step), high + 1)


def _check_cells(name: str, cells: int) -> None:
    if cells > _MOST_CELLS:
        raise ValueError(
            f"Attribute {name!r} would have {cells:,} cells, more than {_MOST_CELLS:,}: take a larger step."
        )


def date_edges(name: str, spec: Mapping[str, Any]) -> tuple[tuple[int, ...], str]:
    """Return the edges of dates and their unit: days since 1970-01-01, or seconds if a time is given.

    Example:
        >>> date_edges("day", {"from": "1970-01-01", "to": "1970-03-31", "step": "month"})
        ((0, 31, 59, 90), 'day')
    """
    if "dates" in spec:
        moments = [_moment(name, "dates", value) for value in _listed(name, "dates", spec["dates"])]
        return _in_unit(moments, any(time for _, time in moments))
    if "to" not in spec:
        raise ValueError(f"Attribute {name!r} has from and no to: dates have both.")
    (first, early), (last, late) = _moment(name, "from", spec["from"]), _moment(name, "to", spec["to"])
    timed = early or late
    step = spec.get("step", 1)
    if last < first:
        raise ValueError(f"The dates of attribute {name!r} end before they begin.")
    if last > datetime.datetime.max - datetime.timedelta(seconds=_DAY):
        raise ValueError(f"The dates of attribute {name!r} must end before 9999-12-31.")
    past = last + datetime.timedelta(seconds=1 if timed else _DAY)  # the first moment beyond the end
    count, unit = _step(name, step, timed)
    edges = [*_stepped(name, first, past, count, unit), past]
    return _in_unit([(edge, timed) for edge in edges], timed or unit in ("second", "minute", "hour"))


def _step(name: str, step: Any, timed: bool) -> tuple[int, str]:
    """Return a step of dates as a number of one of `STEPS`."""
    if not isinstance(step, str):
        unit = "second" if timed else "day"
        return checks.integer(f"The step of attribute {name!r}", step, low=1), unit
    found = _STEP.fullmatch(step if step[:1].isdigit() else f"1 {step}")
    if found is None or not int(found[1]):
        raise ValueError(
            f"The step of attribute {name!r} must be a whole number, one of {', '.join(STEPS)}, or a number "
            'of these, such as "6 hours".'
        )
    return int(found[1]), found[2]


def _stepped(
    name: str, first: datetime.datetime, past: datetime.datetime, count: int, unit: str
) -> Iterable[datetime.datetime]:
    if unit in _MONTHS:
        months, step = 12 * first.year + first.month - 1, count * _MONTHS[unit]
        last = 12 * past.year + past.month - 1
        _check_cells(name, (last - months) // step + 1)
        later = (datetime.datetime(month // 12, month % 12 + 1, 1) for month in range(months, last + 1, step))
        yield from (first, *(edge for edge in later if first < edge < past))
        return
    seconds, length = count * _SECONDS[unit], int((past - first).total_seconds())
    _check_cells(name, length // seconds + 1)
    yield from (first + datetime.timedelta(seconds=passed) for passed in range(0, length, seconds))


def _moment(name: str, what: str, value: Any) -> tuple[datetime.datetime, bool]:
    """Return a date of an entry, and whether it has a time of day."""
    if isinstance(value, datetime.datetime):
        return _without_zone(name, what, value), True
    if isinstance(value, datetime.date):
        return datetime.datetime(value.year, value.month, value.day), False
    if not isinstance(value, str):
        raise TypeError(
            f"{what!r} of attribute {name!r} must be dates such as 2024-12-31, got {type(value).__name__}."
        )
    try:
        found = datetime.datetime.fromisoformat(value.strip())
    except ValueError:
        raise ValueError(
            f"{what!r} of attribute {name!r} must be dates in ISO form, such as 2024-12-31 or "
            f"2024-12-31T08:00."
        ) from None
    return _without_zone(name, what, found), ":" in value or len(value.strip()) > 10


def _without_zone(name: str, what: str, moment: datetime.datetime) -> datetime.datetime:
    if moment.tzinfo is not None:
        raise ValueError(
            f"{what!r} of attribute {name!r} must be without a time zone: moments with a zone are counted in "
            "UTC, so give it in UTC."
        )
    return moment


def _in_unit(moments: Iterable[tuple[datetime.datetime, bool]], seconds: bool) -> tuple[tuple[int, ...], str]:
    found = [round((moment - _EPOCH).total_seconds()) for moment, _ in moments]
    return tuple(found if seconds else (second // _DAY for second in found)), "second" if seconds else "day"


def _missing(name: str, value: Any) -> tuple[bool, tuple[Label, ...]]:
    if isinstance(value, bool):
        return value, ()
    if isinstance(value, (list, tuple)):
        return bool(value), tuple(value)
    if isinstance(value, (str, int, float)):
        return True, (value,)
    raise TypeError(f"'missing' of attribute {name!r} must be true, a marker or a list of markers.")


def checked_labels(name: str, what: str, values: Iterable[Any]) -> tuple[Label, ...]:
    """Return labels or markers, after checking that they are distinct scalars."""
    values = tuple(values)
    if not values:
        raise ValueError(f"The {what} of attribute {name!r} must not be empty.")
    for value in values:
        if not isinstance(value, (str, bool, int, float)):
            raise TypeError(
                f"The {what} of attribute {name!r} must be text, numbers or bools, got "
                f"{type(value).__name__} (in YAML, put dates and the like in quotes)."
            )
        if isinstance(value, str):
            checks.plain_text(f"The {what} of attribute {name!r}", value)
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"The {what} of attribute {name!r} must be finite (missing: true reads NaN).")
    if len({text_of(value) for value in values}) < len(values) or len(set(values)) < len(values):
        raise ValueError(f"The {what} of attribute {name!r} must differ from one another, also as text.")
    return values


def checked_bins(name: str, edges: Iterable[Any]) -> tuple[float, ...]:
    """Return the edges of bins, after checking that they are finite and increasing."""
    edges = tuple(edges)
    for edge in edges:
        if isinstance(edge, bool) or not isinstance(edge, numbers.Real):
            raise TypeError(f"The bins of attribute {name!r} must be numbers, got {type(edge).__name__}.")
    values = tuple(float(edge) for edge in edges)
    increasing = all(low < high for low, high in itertools.pairwise(values))
    if len(values) < 2 or not increasing or not all(map(math.isfinite, values)):
        raise ValueError(f"The bins of attribute {name!r} must be two or more finite edges, increasing.")
    return values


def check_notation(attribute: Any) -> None:
    """Check how the values of an attribute are written, and on which grid its bins lie.

    Raises:
        TypeError: a field has the wrong type.
        ValueError: fields that do not go together, or edges off the grid.
    """
    said = f"of attribute {attribute.name!r}"
    bins = attribute.bins
    if bins is None and (attribute.grid is not None or attribute.time is not None or attribute.within):
        raise ValueError(f"grid, dates and within {said} go with bins, and it has none.")
    if (attribute.other or attribute.spellings) and attribute.labels is None:
        raise ValueError(f"other and spellings {said} go with labels, and it has none.")
    if attribute.spellings:
        _check_spellings(attribute)
    if attribute.grid is not None:
        grid = checks.number(f"The grid {said}", attribute.grid, above=0)
        steps = np.asarray(bins) / grid
        if np.abs(steps).max() > 1 << 53:
            raise ValueError(f"The bins {said} must have at most 2**53 steps of its grid of {grid:g}.")
        if (np.abs(steps - np.rint(steps)) > 1e-6 * np.maximum(1, np.abs(steps) * 1e-6)).any():
            raise ValueError(f"The bins {said} must lie on its grid of {grid:g}.")
    if attribute.time is not None:
        object.__setattr__(
            attribute, "time", checks.choice(f"time {said}", attribute.time, ("day", "second"))
        )
    for key in ("decimal", "thousands", "format"):
        value = getattr(attribute, key)
        if value is not None and not isinstance(value, str):
            raise TypeError(f"{key!r} {said} must be text, got {type(value).__name__}.")
    if attribute.format is not None:
        if attribute.time is None:
            raise ValueError(f"'format' {said} is that of dates, and it has none.")
        _check_format(said, attribute.format)
    if (attribute.decimal, attribute.thousands) != (".", "") and (bins is None or attribute.time is not None):
        raise ValueError(f"'decimal' and 'thousands' {said} go with numbers in bins.")
    checks.choice(f"'decimal' {said}", attribute.decimal, (".", ","))
    checks.choice(f"'thousands' {said}", attribute.thousands, ("", ",", ".", " ", "'", "\u00a0", "\u202f"))
    if attribute.decimal == attribute.thousands:
        raise ValueError(f"'decimal' and 'thousands' {said} must differ.")
    if attribute.within:
        _check_within(attribute)


def _check_format(said: str, form: str) -> None:
    """Refuse a form of dates from which no date can be read."""
    try:
        known = datetime.datetime.strptime(datetime.datetime(2001, 2, 3, 4, 5, 6).strftime(form), form)
    except (ValueError, re.error):
        known = None
    if known is None or known.year != 2001:
        raise ValueError(
            f"'format' {said} must be a form of datetime.strptime that names the year, such as %d.%m.%Y."
        )


def _check_spellings(attribute: Any) -> None:
    assert attribute.labels is not None
    everything = [*attribute.labels, *itertools.chain(*attribute.spellings)]
    if len(attribute.spellings) != len(attribute.labels):
        raise ValueError(f"Attribute {attribute.name!r} must have spellings for each of its labels.")
    checked_labels(attribute.name, "labels and their spellings", everything)


def _check_within(attribute: Any) -> None:
    assert attribute.bins is not None
    said = f"'within' of attribute {attribute.name!r}"
    if any(len(pair) != 2 for pair in attribute.within):
        raise ValueError(f"{said} must be pairs of a number and a share.")
    starts = [checks.number(f"a number of {said}", start) for start, _ in attribute.within]
    shares = [checks.number(f"a share of {said}", share) for _, share in attribute.within]
    if any(a >= b for a, b in itertools.pairwise(starts)) or min(shares) < 0 or sum(shares) <= 0:
        raise ValueError(f"{said} must have increasing numbers and shares that are not all 0.")
    if not set(attribute.bins[:-1]) <= set(starts) or starts[-1] >= attribute.bins[-1]:
        raise ValueError(f"{said} must have a number at every lower edge of the bins and none beyond them.")


def kind_of_attribute(attribute: Any) -> dict[str, Any]:
    """Return the keys of an entry that say of which kind an attribute is."""
    if attribute.labels is not None:
        if not attribute.spellings:
            return {"labels": list(attribute.labels)}
        groups = zip(attribute.labels, attribute.spellings, strict=True)
        return {"labels": {label: [label, *spellings] for label, spellings in groups}}
    if attribute.bins is None:
        return {"size": attribute.size - attribute.missing}
    if attribute.time is not None:
        return _dated(attribute)
    if attribute.grid is None:
        return {"bins": list(attribute.bins)}
    edges = [int(edge) if float(edge).is_integer() else edge for edge in attribute.bins]
    if attribute.grid == 1:
        spec = {"min": edges[0], "max": edges[-1] - 1, "step": edges[1] - edges[0]}
        if range_edges(attribute.name, spec) == tuple(edges):
            return spec if spec["step"] > 1 else {"min": edges[0], "max": edges[-1] - 1}
    return {"bins": edges, "grid": attribute.grid}


def _dated(attribute: Any) -> dict[str, Any]:
    """Return dates by their ends and step if they have one, otherwise by their edges."""
    edges = [int(edge) for edge in attribute.bins]
    texts = [moment_text(edge, attribute.time) for edge in edges]
    last = moment_text(edges[-1] - 1, attribute.time)
    second = 1 if attribute.time == "second" else _DAY
    width = edges[1] - edges[0]
    names = {seconds: name for name, seconds in _SECONDS.items() if name != "second"}
    possible = [names.get(width * second, width), *_MONTHS]
    for step in possible:
        spec = {"from": texts[0], "to": last, "step": step}
        days = (edges[-1] - edges[0]) * second / _DAY
        if step in _MONTHS and not days / (31 * _MONTHS[step]) <= len(edges) <= days // 27 + 2:
            continue  # edges of that step would be more, or fewer
        if step not in _MONTHS and len(edges) != -(-(edges[-1] - edges[0]) // width) + 1:
            continue
        if date_edges(attribute.name, spec) == (tuple(edges), attribute.time):
            return spec
    return {"dates": texts}


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
