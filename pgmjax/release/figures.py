"""The pictures, tables and explorer of the report: attributes, pairs, measured marginals, counts on demand.

Counts and intervals are those that the release reports elsewhere. Every function takes released numbers only:
measured (noisy) values, their standard deviations and fitted values.

The explorer answers questions offline: counts of any column or pair, with intervals. Its numbers lie in the
page as JSON, `explorer.js` shows them, and nothing is fetched.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pgmjax._internal import page
from pgmjax.data.attribute import Attribute
from pgmjax.data.domain import Clique
from pgmjax.data.population import Population
from pgmjax.measurements.linear import LinearMeasurement, other_queries
from pgmjax.model.graphical import GraphicalModel
from pgmjax.queries.blocks import AttributeQuery, Identity, Merge
from pgmjax.queries.query import kronecker, marginal
from pgmjax.release.accuracy import CountEstimates
from pgmjax.release.asked import AskedModel

MOST_ATTRIBUTES = 60
MOST_BARS = 120
MOST_ROWS = 16
"""Values up to which bars lie below each other, each with its name."""
MOST_VALUES = 24
"""Values drawn of an attribute that has too many of them, and no order."""
MOST_SIDE = 24
"""Rows and columns of a map; more would be too small to see and to point at."""
MOST_PAIRS = 6
LARGEST_PAIR = 40_000
"""Largest number of cells of a pair that is drawn."""
MOST_BYTES = 3_500_000
"""Size of the numbers in the page, in bytes of JSON."""
MOST_PAIRED = 200
"""Number of attributes up to which pairs that were not measured are offered."""
MOST_EXPLORED = 200_000
"""Largest number of cells of a pair that is offered."""


_CONTROLS = """<noscript><p class="warn">This section needs JavaScript. It loads nothing from the network:
all its numbers are in this file. The counts of single columns are in the tables below.</p></noscript>
<div class="controls">
<label>Column <select id="x-first"></select></label>
<label>by <select id="x-second"></select></label>
<label>Order <select id="x-order"><option value="count">largest first</option>
<option value="place">as in the domain</option></select></label>
<label>Only values with <input id="x-filter" type="search" placeholder="text"></label>
<button id="x-copy" type="button">Copy table</button>
<button id="x-picture" type="button">Copy picture</button>
<span id="x-done" role="status"></span>
</div>
<p id="x-sum" class="note"></p>
<div id="x-chart" class="picture"></div>
<p id="x-rest" class="note"></p>
<div class="tall scroll"><table id="x-table" class="cards"><thead></thead><tbody></tbody></table></div>
<p><button id="x-more" type="button" hidden>Show more</button></p>
"""


def one_way(model: AskedModel | GraphicalModel, estimates: CountEstimates) -> str:
    """Return the section with a picture of each attribute: counts, noisy ones and their intervals."""
    names = model.domain.attributes[:MOST_ATTRIBUTES]
    drawn = "".join(_one_way_picture(model, estimates, name) for name in names)
    left_out = len(model.domain) - len(names)
    verb = "attribute is" if left_out == 1 else "attributes are"
    more = page.notes(f"{left_out:,} further {verb} not drawn.") if left_out else ""
    key = """<p class="note"><span class="key"></span>count, the best answer of noisy counts and model
together &ensp; <span class="key dot"></span>noisy count with its 95 % interval, from all noisy answers
about it. Tap a bar, or go through them with the Tab and arrow keys, to read its numbers.</p>"""
    return page.section("One attribute at a time", f'{key}\n<div class="plots">{drawn}</div>{more}')


def _one_way_picture(model: AskedModel | GraphicalModel, estimates: CountEstimates, name: str) -> str:
    attribute, fitted = model.domain.attribute(name), np.asarray(model.marginal((name,)), np.float64)
    shown = _coarsened(attribute, fitted, MOST_BARS, MOST_VALUES)
    cells = _cells(estimates, {name: shown}, shown.sums(fitted))
    sources = sum(each.query.is_identity and name in each.clique for each in estimates.measurements)
    others = other_queries(estimates.measurements, name)
    if sources:
        gathered = f"measured in {sources} marginal{'s' if sources > 1 else ''}"
    elif others:
        gathered = f"measured only through other queries ({', '.join(others)})"
    else:
        gathered = "not measured: the bars mean nothing, unless there is a prior"
    caption = f"{attribute.size:,} value{'s' * (attribute.size != 1)}, {gathered}"
    bars = {key: found if found is None else found[: shown.drawn] for key, found in cells.items()}
    if shown.drawn < len(shown.names):
        rest = page.number(cells["counts"][-1])
        caption += f". The {shown.drawn} largest are drawn; {shown.names[-1]} together: {rest}"
    kind = "columns" if MOST_ROWS < len(shown.names) == shown.drawn else "rows"
    drawing = {"kind": kind, "label": f"{name}: counts and noisy counts", "names": shown.names[: shown.drawn]}
    numbers = _numbers([name], [[each] for each in shown.names], cells)
    return page.picture(name, {**drawing, **bars}, numbers, caption)


@dataclasses.dataclass(frozen=True)
class _Coarse:
    """The values of an attribute as a picture shows them.

    Attributes:
        names: names of the groups of values.
        groups: the group of each value, int [size].
        drawn: how many groups are drawn as bars; what is left is the sum of all others.
    """

    names: list[str]
    groups: np.ndarray
    drawn: int

    @property
    def query(self) -> AttributeQuery:
        """The counts of the groups."""
        return Identity() if len(self.names) == len(self.groups) else Merge(self.groups)

    def sums(self, counts: np.ndarray, axis: int = 0) -> np.ndarray:
        """Return counts of values as counts of groups."""
        return self.query.apply(counts, axis, np)


def _coarsened(attribute: Attribute, fitted: np.ndarray, most: int, largest: int) -> _Coarse:
    """Group values: neighbours where they have an order, else all but the largest by their fitted counts."""
    names, size = attribute.code_names(), attribute.size
    if size <= most:
        return _Coarse(names, np.arange(size), size)
    if attribute.bins is not None:
        group = -(-size // most)
        runs = [names[at : at + group] for at in range(0, size, group)]
        ends = [run[0] if len(run) == 1 else f"{run[0]} … {run[-1]}" for run in runs]
        return _Coarse(ends, np.arange(size) // group, len(runs))
    groups = np.full(size, largest)
    groups[top := np.argsort(-fitted, kind="stable")[:largest]] = np.arange(largest)
    return _Coarse([*(names[code] for code in top), f"the other {size - largest:,}"], groups, largest)


def _cells(estimates: CountEstimates, shown: Mapping[str, _Coarse], fitted: np.ndarray) -> dict[str, Any]:
    """Return counts, noisy counts and 95 % intervals of groups of cells, rounded, for `pictures.js`.

    The last three are None if not all are determined.
    """
    query = kronecker({name: coarse.query for name, coarse in shown.items()})
    found = estimates.report(query, fitted)
    low, high = found.intervals.T
    told, drawn = found.determined.all(), {"noisy": found.noisy, "low": low, "high": high}
    cells = {key: rounded(values) if told else None for key, values in drawn.items()}
    return {"counts": rounded(found.estimates), **cells}


def _numbers(titles: Sequence[str], names: Sequence[Sequence[str]], cells: Mapping[str, Any]) -> str:
    """Return the table behind a picture of counts."""
    heads = {**dict.fromkeys(titles, ""), "count": "n"}
    columns: list[Iterable[str]] = [map(page.number, cells["counts"])]
    if cells["noisy"] is not None:
        heads |= {"noisy count": "n", "95 % interval": "n"}
        ends = zip(cells["low"], cells["high"], strict=True)
        columns += [
            map(page.number, cells["noisy"]),
            (f"{page.number(low)} to {page.number(high)}" for low, high in ends),
        ]
    rows = ([*name, *told] for name, *told in zip(names, *columns, strict=True))
    return page.table(heads, rows, cards=False)


def two_way(model: AskedModel | GraphicalModel, estimates: CountEstimates) -> str:
    """Return the section with maps of the largest measured pairs, or "" if there are none."""
    pairs = _largest_pairs(model, estimates.measurements)
    drawn = "".join(_two_way_picture(model, estimates, pair) for pair in pairs)
    if not drawn:
        return ""
    return page.section(
        "Pairs of attributes",
        f'<div class="pairs">{drawn}</div>',
        """The measured pairs with the most cells: noisy counts, and beside them the counts that this
        release reports, in the same colours. Colour grows with the square root of the count; negative noisy
        counts have that of 0. Of columns with many values, neighbours or rare values are drawn together.""",
    )


def _two_way_picture(
    model: AskedModel | GraphicalModel, estimates: CountEstimates, pair: tuple[str, str]
) -> str:
    table = np.asarray(model.marginal(pair), np.float64)
    down, across = (
        _coarsened(model.domain.attribute(name), table.sum(axis=1 - at), MOST_SIDE, MOST_SIDE - 1)
        for at, name in enumerate(pair)
    )
    cells = _cells(estimates, dict(zip(pair, (down, across), strict=True)), across.sums(down.sums(table), 1))
    if cells["noisy"] is None:
        return ""
    width = len(across.names)
    panels = [
        {"title": title, "values": [cells[key][at : at + width] for at in range(0, len(cells[key]), width)]}
        for title, key in (("noisy", "noisy"), ("count", "counts"))
    ]
    drawing = {
        "kind": "map", "label": f"{pair[0]} by {pair[1]}: noisy counts and counts", "axes": pair,
        "rows": down.names, "columns": across.names, "panels": panels,
    }  # fmt: skip
    names = [*itertools.product(down.names, across.names)]
    half = np.subtract(cells["high"], cells["low"]) / 2
    caption = f"{table.size:,} cells; typical half-width of an interval: {typical(half):,.4g}"
    return page.picture(f"{pair[0]} by {pair[1]}", drawing, _numbers(pair, names, cells), caption)


def _largest_pairs(
    model: AskedModel | GraphicalModel, measurements: Sequence[LinearMeasurement]
) -> list[tuple[str, str]]:
    """Pairs of attributes in a measured marginal, largest first, up to `LARGEST_PAIR` cells each."""
    found: dict[frozenset[str], tuple[str, str]] = {}
    for measurement in measurements:
        if measurement.query.is_identity:
            for pair in itertools.combinations(measurement.clique, 2):
                found.setdefault(frozenset(pair), pair)
    pairs = [pair for pair in found.values() if model.domain.size(pair) <= LARGEST_PAIR]
    return sorted(pairs, key=model.domain.size, reverse=True)[:MOST_PAIRS]


def measured(model: AskedModel | GraphicalModel, measurements: Sequence[LinearMeasurement]) -> str:
    """Return the section that lists every measurement with its noise and residual."""
    heads = {"attributes": "", "values": "n", "noise": "", "standard deviation": "n", "distance": "n"}
    rows = [
        (
            ", ".join(each.clique),
            f"{np.size(each.values):,}",
            each.noise,
            f"{typical(each.stddev):,.4g}",
            f"{_residual(model, each):.2f}",
        )
        for each in measurements
    ]
    return page.section(
        "What was measured",
        page.table(heads, rows),
        """The distance is that of the fitted counts from the noisy ones, in standard deviations of the
        noise (root mean square). It is about 1 if only noise is left, and less if the model can follow the
        noise.""",
    )


def _residual(model: AskedModel | GraphicalModel, measurement: LinearMeasurement) -> float:
    """Root mean square of (fitted - noisy) / stddev of one measurement."""
    fitted = np.ravel(model.answer(measurement.query))
    return typical((fitted - measurement.flat_values()) / measurement.row_stddevs())


def typical(values: np.ndarray | float) -> float:
    """Return the root mean square."""
    return math.sqrt(float(np.mean(np.square(np.asarray(values, dtype=np.float64)))))


def explorer(
    model: AskedModel | GraphicalModel, estimates: CountEstimates, population: Population | None = None
) -> str:
    """Return the section of the report in which one chooses columns and sees their counts.

    Args:
        model: the fitted model.
        estimates: unbiased answers from the released noisy ones.
        population: what the counts are of; None: what was published elsewhere says that.
    """
    content = explorer_numbers(model, estimates, population)
    counted = "the records that were published" if population is None else population.phrase
    left_out = content["left_out"]
    more = page.notes(
        f"{left_out:,} pair{'s are' if left_out > 1 else ' is'} left out, because the page would be too "
        "large. The command pgmjax query prints what is left out."
        if left_out
        else ""
    )
    return page.section(
        "Explore",
        f"{_CONTROLS}{more}{page.data(content, 'x-data')}",
        f"""Choose one column or two, and see how many records have each value. A count is the best
        answer of the noisy counts and the fitted model together. The interval beside it comes from the noisy
        counts alone: it contains the exact count, among {counted}, with 95 % probability. This holds for each
        line by itself. Where columns were not measured together, there is no interval, and the count rests on
        the model alone.""",
    )


def explorer_script() -> str:
    """Return the JavaScript that shows the section's numbers; without the section it does nothing."""
    return page.resource("pgmjax.release", "explorer.js")


def explorer_numbers(
    model: AskedModel | GraphicalModel, estimates: CountEstimates, population: Population | None = None
) -> dict[str, Any]:
    """Return the content of the explorer: every column, and as many pairs as there is room for.

    Args:
        model: the fitted model.
        estimates: unbiased answers from the released noisy ones.
        population: what the counts are of. A cell that counts other values too says so after its name.

    Returns:
        `records` (the total, the variance of its noise, and half-widths in standard errors; null if not
        determined), `columns` (name, values), `one` and
        `pairs` (row-major: count, the one answer that is reported; noisy
        and half, an unbiased estimate and the half-width of its 95 % interval; parts, from which that of a
        sum of cells follows; noisy is None where the attributes were not measured together), `left_out`, the
        number of pairs that there is no room for.
        Pairs that were measured come first, and small ones.
    """
    model = AskedModel.of(model)
    names = model.domain.attributes
    columns = [{"name": name, "values": _values(model, name, population)} for name in names]
    one = [
        _explored(estimates, clique, fitted)
        for clique, fitted in model.marginals([(name,) for name in names])
    ]
    room = MOST_BYTES - len(json.dumps([columns, one]))
    pairs: dict[str, Any] = {}
    asked = _pairs(model, estimates.measurements)
    for pair, fitted in model.marginals(asked):
        found = _explored(estimates, pair, fitted)
        room -= len(json.dumps(found))
        if room < 0:
            break
        pairs[",".join(str(names.index(name)) for name in pair)] = found
    left_out = len(names) * (len(names) - 1) // 2 - len(pairs)
    records = None if estimates.records is None else [*estimates.records, estimates.width]
    return {
        "total": model.total,
        "records": records,
        "columns": columns,
        "one": one,
        "pairs": pairs,
        "left_out": left_out,
    }


def _values(model: AskedModel | GraphicalModel, name: str, population: Population | None) -> list[str]:
    """Return the names of an attribute's cells, with the other values that they count."""
    also: dict[int, str] = {}
    for cell in () if population is None else population.merged:
        if cell.attribute == name and cell.code is not None:
            also[cell.code] = f"{also.get(cell.code, '')} (and {cell.also})"
    names = model.domain.attribute(name).code_names()
    return [value + also.get(code, "") for code, value in enumerate(names)]


def _pairs(model: AskedModel | GraphicalModel, measurements: Sequence[LinearMeasurement]) -> list[Clique]:
    """Return pairs of attributes that are small enough: those measured first, then by their size."""
    measured = {
        frozenset(pair)
        for measurement in measurements
        if measurement.query.is_identity
        for pair in itertools.combinations(measurement.clique, 2)
    }
    names = model.domain.attributes
    every = itertools.combinations(names, 2) if len(names) <= MOST_PAIRED else map(tuple, measured)
    found = [pair for pair in every if model.domain.size(pair) <= MOST_EXPLORED]
    return sorted(found, key=lambda pair: (frozenset(pair) not in measured, model.domain.size(pair)))


def _explored(estimates: CountEstimates, clique: Clique, fitted: np.ndarray) -> dict[str, Any]:
    """Return one table as flat lists of rounded numbers."""
    found = estimates.report(marginal(clique), fitted)
    counts = rounded(found.estimates)
    if not found.determined.all():
        return {"count": counts, "noisy": None, "half": None, "parts": None}
    half = rounded(estimates.width * found.stddevs, 2)
    same = all(number == half[0] for number in half)
    # the squared half-width of each part of a sum of cells, of unit length, where cells have such parts
    taus = estimates.variances_of_parts(clique)
    parts = None if taus is None else [float(f"{estimates.width**2 * tau:.6g}") for tau in taus]
    noisy = rounded(found.noisy)
    return {"count": counts, "noisy": noisy, "half": half[0] if same else half, "parts": parts}


def rounded(values: np.ndarray, digits: int = 1) -> list[float | int]:
    """Return numbers for JSON, whole ones as such."""
    found = np.round(np.asarray(values, np.float64).reshape(-1), digits) + 0.0  # no -0.0
    return [int(value) if value == int(value) else float(value) for value in found.tolist()]
