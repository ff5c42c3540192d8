"""The part of the report that answers questions offline: counts of any column or pair, with intervals.

The numbers lie in the page as JSON, `explorer.js` shows them, and nothing is fetched. Only released or fitted
numbers are written.
"""

from __future__ import annotations

import importlib.resources
import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pgmjax.data.cliques import Clique
from pgmjax.inference.plan.forecast import ModelTooLargeError
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.marginals import is_marginal, noisy_marginal
from pgmjax.model.graphical import GraphicalModel

MOST_BYTES = 3_500_000
"""Size of the numbers in the page, in bytes of JSON."""
MOST_ATTRIBUTES = 200
"""Number of attributes up to which pairs that were not measured are offered."""
NORMAL, LAPLACE = 1.96, 2.12
"""Half-width of a 95 % interval in standard deviations; an average of Laplace noise needs less than that."""
MOST_CELLS = 200_000
"""Largest number of cells of a pair that is offered."""


def section(model: GraphicalModel, measurements: Sequence[LinearMeasurement]) -> str:
    """Return the section of the report in which one chooses columns and sees their counts."""
    content = numbers(model, measurements)
    script = importlib.resources.files("pgmjax.release").joinpath("explorer.js").read_text(encoding="utf-8")
    data = json.dumps(content, separators=(",", ":"), ensure_ascii=True).replace("<", "\\u003c")
    left_out = content["left_out"]
    more = (
        f'<p class="note">{left_out:,} pairs are left out, because the page would be too large. '
        "pgmjax query prints them.</p>"
        if left_out
        else ""
    )
    return f"""<section id="explore">
<h2>Explore</h2>
<p class="note">Choose one column or two. Each line's interval, taken by itself, contains the count in
the table with 95 % probability. It is computed from the noisy counts alone. The fitted count uses everything
that was measured, so it may lie outside the interval.</p>
<noscript><p class="warn">This section needs JavaScript. It loads nothing from the network: all its numbers
are in this file.</p></noscript>
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
<div id="x-chart"></div>
<div class="tall scroll"><table id="x-table"><thead></thead><tbody></tbody></table></div>
<p><button id="x-more" type="button" hidden>Show more</button></p>{more}
<script type="application/json" id="x-data">{data}</script>
<script>
{script}</script>
</section>"""


def numbers(model: GraphicalModel, measurements: Sequence[LinearMeasurement]) -> dict[str, Any]:
    """Return the content of the explorer: every column, and as many pairs as there is room for.

    Args:
        model: the fitted model.
        measurements: the released noisy answers.

    Returns:
        `columns` (name, values), `one` and `pairs` (row-major: fitted, noisy, and half, the half-width of a
        95 % interval; noisy is None where the attributes were not measured together), `left_out`, the number
        of pairs that there is no room for. Pairs that were measured come first, and small ones.
    """
    names = model.domain.attributes
    columns = [{"name": name, "values": model.domain.attribute(name).code_names()} for name in names]
    one = [
        _table(model, measurements, clique, fitted)
        for clique, fitted in _marginals(model, [(name,) for name in names])
    ]
    room = MOST_BYTES - len(json.dumps([columns, one]))
    pairs: dict[str, Any] = {}
    asked = _pairs(model, measurements)
    for pair, fitted in _marginals(model, asked):
        found = _table(model, measurements, pair, fitted)
        room -= len(json.dumps(found))
        if room < 0:
            break
        pairs[",".join(str(names.index(name)) for name in pair)] = found
    left_out = len(names) * (len(names) - 1) // 2 - len(pairs)
    return {"total": model.total, "columns": columns, "one": one, "pairs": pairs, "left_out": left_out}


def _pairs(model: GraphicalModel, measurements: Sequence[LinearMeasurement]) -> list[Clique]:
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


def _marginals(model: Any, pairs: Sequence[Clique]) -> Iterator[tuple[Clique, np.ndarray]]:
    """Yield the model's counts of each pair, from one pass over its tree where that is possible."""
    try:
        yield from (model.calibrate().marginals(pairs) if hasattr(model, "calibrate") else ())
    except ModelTooLargeError:
        yield from ((pair, model.marginal(pair)) for pair in pairs)
        return
    if not hasattr(model, "calibrate"):
        yield from ((pair, model.marginal(pair)) for pair in pairs)


def _table(
    model: GraphicalModel, measurements: Sequence[LinearMeasurement], clique: Clique, fitted: np.ndarray
) -> dict[str, Any]:
    """Return one table as flat lists of rounded numbers."""
    noisy = noisy_marginal(model.domain, measurements, clique)
    if noisy is None:
        return {"fitted": _rounded(fitted), "noisy": None, "half": None}
    normal = all(each.noise == "gaussian" for each in measurements if set(clique) <= set(each.clique))
    half = _rounded((NORMAL if normal else LAPLACE) * noisy.stddevs, 2)
    same = all(number == half[0] for number in half)
    return {
        "fitted": _rounded(fitted),
        "noisy": _rounded(noisy.values),
        "half": half[0] if same else half,
    }


def _rounded(values: np.ndarray, digits: int = 1) -> list[float | int]:
    rounded = np.round(np.asarray(values, np.float64).reshape(-1), digits) + 0.0  # no -0.0
    return [int(value) if value == int(value) else float(value) for value in rounded.tolist()]
