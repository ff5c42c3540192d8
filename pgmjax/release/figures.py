"""The figures and tables of the report: attributes, pairs, measured marginals.

Fitted values are drawn next to the noisy answers (`release.drawing`). Every function takes released numbers
only: measured (noisy) values, their standard deviations and fitted values.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from pgmjax._internal.progress import Progress
from pgmjax.data.cliques import Clique
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.marginals import is_marginal, other_queries
from pgmjax.model.graphical import GraphicalModel
from pgmjax.queries.product import marginal
from pgmjax.release import drawing
from pgmjax.release.accuracy import CountEstimates
from pgmjax.release.asked import AskedModel

MOST_ATTRIBUTES = 60
MOST_VALUES = 24
"""Values drawn of an attribute that has too many of them, and no order."""
MOST_PAIRS = 6
LARGEST_PAIR = 40_000
"""Largest number of cells drawn as a heat map; smaller cells would not be visible."""


def one_way(model: AskedModel | GraphicalModel, estimates: CountEstimates, show_progress: bool | None) -> str:
    """Return the section with a plot of each attribute, noisy and fitted counts together."""
    names = model.domain.attributes[:MOST_ATTRIBUTES]
    with Progress("drawing attributes", len(names), show_progress) as progress:
        figures = []
        for name in names:
            figures.append(_one_way_figure(model, estimates, name))
            progress.advance()
    left_out = len(model.domain) - len(names)
    verb = "attribute is" if left_out == 1 else "attributes are"
    more = f'<p class="note">{left_out:,} further {verb} not drawn.</p>' if left_out else ""
    return f"""<section>
<h2>One attribute at a time</h2>
<p class="note"><span class="key"></span>count of the fitted model &ensp; <span class="key dot"></span>noisy
count, with two standard deviations of its noise each way. A noisy count is the best unbiased one from all
measured marginals that contain the attribute. No noisy counts are drawn of an attribute that was measured
through other queries alone.</p>
<div class="plots">{"".join(figures)}</div>{more}
</section>"""


def _one_way_figure(model: AskedModel | GraphicalModel, estimates: CountEstimates, name: str) -> str:
    sources = _sources(estimates, (name,))
    noisy = _noisy(estimates, (name,)) if sources else None
    attribute = model.domain.attribute(name)
    counts: list[Any] = [
        model.marginal((name,)),
        *((None, None) if noisy is None else noisy),
    ]
    if attribute.bins is None and attribute.size > drawing.MOST_BARS:  # no order to group neighbours by
        svg, rest = _largest_svg(attribute.code_names(), *counts, title=name)
    else:
        svg, rest = drawing.bars(attribute.code_names(), *counts, title=name), ""
    others = other_queries(estimates.measurements, name)
    if noisy is not None:
        gathered = f"measured in {sources} marginal{'s' if sources > 1 else ''}"
    elif others:
        gathered = f"measured only through other queries ({', '.join(others)})"
    else:
        gathered = "not measured: all values are equally likely, unless there is a prior"
    size = model.domain[name]
    caption = f"{size:,} value{'s' * (size != 1)}, {escape(gathered)}{rest}"
    return f"<figure><h3>{escape(name)}</h3>{svg}<figcaption>{caption}</figcaption></figure>\n"


def _largest_svg(
    names: Sequence[str], fitted: np.ndarray, noisy: Any, stddev: Any, *, title: str
) -> tuple[str, str]:
    """Return a drawing of the values with the largest fitted counts, and what is to be said of the others."""
    order = np.argsort(-fitted, kind="stable")
    top, others = order[:MOST_VALUES], order[MOST_VALUES:]
    some, wide = (None if values is None else np.asarray(values)[top] for values in (noisy, stddev))
    svg = drawing.largest([names[code] for code in top], fitted[top], some, wide, title=title)
    said = f". The {len(top)} largest are drawn; the other {len(others):,} together: "
    said += f"{fitted[others].sum():,.0f} fitted"
    if noisy is not None:
        spread = 2 * math.sqrt(float(np.square(np.asarray(stddev)[others]).sum()))
        said += f", {np.asarray(noisy)[others].sum():z,.0f} ± {spread:,.0f} noisy"
    return svg, said


def two_way(model: AskedModel | GraphicalModel, estimates: CountEstimates, show_progress: bool | None) -> str:
    """Return the section with heat maps of the largest measured pairs, or "" if there are none."""
    pairs = _largest_pairs(model, estimates.measurements)
    with Progress("drawing pairs", len(pairs), show_progress) as progress:
        figures = []
        for pair in pairs:
            figures.append(_two_way_figure(model, estimates, pair))
            progress.advance()
    if not any(figures):
        return ""
    return f"""<section>
<h2>Pairs of attributes</h2>
<p class="note">The measured pairs with the most cells: noisy counts, and those of the fitted model, in the
same colours. Colour grows with the square root of the count. Negative noisy counts are drawn as 0.</p>
<div class="pairs">{"".join(figures)}</div>
</section>"""


def _two_way_figure(
    model: AskedModel | GraphicalModel, estimates: CountEstimates, pair: tuple[str, str]
) -> str:
    noisy = _noisy(estimates, pair)
    if noisy is None:
        return ""
    values, stddevs = noisy
    rows, columns = (model.domain.attribute(name).code_names() for name in pair)
    svg = drawing.heat_maps(rows, columns, values, model.marginal(pair), axis_names=pair)
    caption = f"{values.size:,} cells; standard deviation of the noise of a cell: {typical(stddevs):,.4g}"
    title = f"{escape(pair[0])} by {escape(pair[1])}"
    return f"<figure><h3>{title}</h3>{svg}<figcaption>{caption}</figcaption></figure>\n"


def _noisy(estimates: CountEstimates, clique: Clique) -> tuple[np.ndarray, np.ndarray] | None:
    """Return unbiased counts of a marginal and their standard errors; None if they are not determined."""
    found = estimates.unbiased(marginal(clique))
    if found is None or not found.determined.all():
        return None
    shape = estimates.domain.shape_of(clique)
    return found.values.reshape(shape), found.stddevs.reshape(shape)


def _sources(estimates: CountEstimates, clique: Clique) -> int:
    """Return the number of measured marginals that contain a clique."""
    return sum(is_marginal(each) and set(clique) <= set(each.clique) for each in estimates.measurements)


def _largest_pairs(
    model: AskedModel | GraphicalModel, measurements: Sequence[LinearMeasurement]
) -> list[tuple[str, str]]:
    """Pairs of attributes in a measured marginal, largest first, up to `LARGEST_PAIR` cells each."""
    found: dict[frozenset[str], tuple[str, str]] = {}
    for measurement in filter(is_marginal, measurements):
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
    return f"""<section>
<h2>What was measured</h2>
<p class="note">The distance is that of the fitted counts from the noisy ones, in standard deviations of the
noise (root mean square). It is about 1 if only noise is left, and less if the model can follow the noise.</p>
{table(heads, rows)}
</section>"""


def table(heads: Mapping[str, str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table that scrolls by itself, and whose rows are cards on a narrow page.

    Args:
        heads: the titles of the columns with their class, `n` for numbers.
        rows: text of the cells.
    """
    top = "".join(f'<th class="{kind}">{escape(title)}</th>' for title, kind in heads.items())
    lines = "\n".join(
        "<tr>"
        + "".join(
            f'<td class="{kind}" data-title="{escape(title)}">{escape(cell)}</td>'
            for (title, kind), cell in zip(heads.items(), row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return f"""<div class="tall scroll"><table class="cards">
<thead><tr>{top}</tr></thead>
<tbody>
{lines}
</tbody></table></div>"""


def _residual(model: AskedModel | GraphicalModel, measurement: LinearMeasurement) -> float:
    """Root mean square of (fitted - noisy) / stddev of one measurement."""
    fitted = np.ravel(model.answer(measurement.query))
    return typical((fitted - measurement.flat_values()) / measurement.row_stddevs())


def typical(values: np.ndarray | float) -> float:
    """Return the root mean square."""
    return math.sqrt(float(np.mean(np.square(np.asarray(values, dtype=np.float64)))))
