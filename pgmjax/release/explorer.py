"""The part of the report that answers questions offline: counts of any column or pair, with intervals.

The numbers lie in the page as JSON, `explorer.js` shows them, and nothing is fetched. Only released or fitted
numbers are written.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from pgmjax._internal import page
from pgmjax.data.cliques import Clique
from pgmjax.data.population import Population
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.marginals import is_marginal
from pgmjax.model.graphical import GraphicalModel
from pgmjax.queries.product import marginal
from pgmjax.release.accuracy import CountEstimates
from pgmjax.release.asked import AskedModel

MOST_BYTES = 3_500_000
"""Size of the numbers in the page, in bytes of JSON."""
MOST_ATTRIBUTES = 200
"""Number of attributes up to which pairs that were not measured are offered."""
MOST_CELLS = 200_000
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


def section(
    model: AskedModel | GraphicalModel, estimates: CountEstimates, population: Population | None = None
) -> str:
    """Return the section of the report in which one chooses columns and sees their counts.

    Args:
        model: the fitted model.
        estimates: unbiased answers from the released noisy ones.
        population: what the counts are of; None: what was published elsewhere says that.
    """
    content = numbers(model, estimates, population)
    counted = "the records that were published" if population is None else population.phrase
    left_out = content["left_out"]
    more = page.notes(
        f"{left_out:,} pair{'s are' if left_out > 1 else ' is'} left out, because the page would be too "
        "large. The command pgmjax query prints what is left out."
        if left_out
        else ""
    )
    note = f"""Choose one column or two, and see how many records have each value. A count is the best
        answer of the noisy counts and the fitted model together. The interval beside it comes from the noisy
        counts alone: it contains the exact count, among {counted}, with 95 % probability. This holds for each
        line by itself. Where columns were not measured together, there is no interval, and the count rests on
        the model alone."""
    return page.section("Explore", f"{_CONTROLS}{more}{page.data(content, 'x-data')}", " ".join(note.split()))


def script() -> str:
    """Return the JavaScript that shows the section's numbers; without the section it does nothing."""
    return page.resource("pgmjax.release", "explorer.js")


def numbers(
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
        _table(estimates, clique, fitted) for clique, fitted in model.marginals([(name,) for name in names])
    ]
    room = MOST_BYTES - len(json.dumps([columns, one]))
    pairs: dict[str, Any] = {}
    asked = _pairs(model, estimates.measurements)
    for pair, fitted in model.marginals(asked):
        found = _table(estimates, pair, fitted)
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
        if is_marginal(measurement)
        for pair in itertools.combinations(measurement.clique, 2)
    }
    names = model.domain.attributes
    every = itertools.combinations(names, 2) if len(names) <= MOST_ATTRIBUTES else map(tuple, measured)
    found = [pair for pair in every if model.domain.size(pair) <= MOST_CELLS]
    return sorted(found, key=lambda pair: (frozenset(pair) not in measured, model.domain.size(pair)))


def _table(estimates: CountEstimates, clique: Clique, fitted: np.ndarray) -> dict[str, Any]:
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
