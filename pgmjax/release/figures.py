"""The drawn and listed parts of the report: attributes, pairs, measured marginals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from html import escape

import numpy as np

from pgmjax._internal.progress import Progress
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.marginals import is_marginal, noisy_marginal, other_queries
from pgmjax.model.graphical import GraphicalModel
from pgmjax.release import plots

MOST_ATTRIBUTES = 60
MOST_PAIRS = 6
LARGEST_PAIR = 40_000
"""The most cells a heat map is drawn for; finer ones could not be seen."""


def one_way(
    model: GraphicalModel, measurements: Sequence[LinearMeasurement], show_progress: bool | None
) -> str:
    """Return the section with a plot of each attribute, noisy beside fitted."""
    names = model.domain.attributes[:MOST_ATTRIBUTES]
    with Progress("drawing attributes", len(names), show_progress) as progress:
        figures = []
        for name in names:
            figures.append(_one_way_figure(model, measurements, name))
            progress.advance()
    left_out = len(model.domain) - len(names)
    more = f'<p class="note">{left_out:,} further attributes are not drawn.</p>' if left_out else ""
    return f"""<section>
<h2>One attribute at a time</h2>
<p class="note"><span class="key"></span>fitted count &ensp; <span class="key dot"></span>noisy count, with
two standard deviations of its noise each way. Where an attribute was not measured alone, its noisy counts
are the average, weighted by 1/variance, of the measured marginals that contain it; where it was measured
through other queries only, no noisy counts are drawn.</p>
<div class="plots">{"".join(figures)}</div>{more}
</section>"""


def _one_way_figure(model: GraphicalModel, measurements: Sequence[LinearMeasurement], name: str) -> str:
    noisy = noisy_marginal(model.domain, measurements, (name,))
    drawing = plots.one_way_svg(
        model.domain.attribute(name).code_names(),
        model.marginal((name,)),
        None if noisy is None else noisy.values,
        None if noisy is None else noisy.stddev,
        title=name,
    )
    others = other_queries(measurements, name)
    if noisy is not None:
        gathered = f"in {noisy.sources} measured marginal{'s' if noisy.sources > 1 else ''}"
    elif others:
        gathered = f"measured through other queries ({', '.join(others)})"
    else:
        gathered = "not measured: uniform"
    caption = f"{model.domain[name]:,} values, {escape(gathered)}"
    return f"<figure><h3>{escape(name)}</h3>{drawing}<figcaption>{caption}</figcaption></figure>\n"


def two_way(
    model: GraphicalModel, measurements: Sequence[LinearMeasurement], show_progress: bool | None
) -> str:
    """Return the section with heat maps of the largest measured pairs, or nothing where there is none."""
    pairs = _largest_pairs(model, measurements)
    with Progress("drawing pairs", len(pairs), show_progress) as progress:
        figures = []
        for pair in pairs:
            figures.append(_two_way_figure(model, measurements, pair))
            progress.advance()
    if not any(figures):
        return ""
    return f"""<section>
<h2>Pairs of attributes</h2>
<p class="note">The measured pairs with most cells: noisy counts on the left, fitted counts on the right, on
one scale. Colour grows with the square root of the count; negative noisy counts are drawn as 0.</p>
<div class="pairs">{"".join(figures)}</div>
</section>"""


def _two_way_figure(
    model: GraphicalModel, measurements: Sequence[LinearMeasurement], pair: tuple[str, str]
) -> str:
    noisy = noisy_marginal(model.domain, measurements, pair)
    if noisy is None:
        return ""
    rows, columns = (model.domain.attribute(name).code_names() for name in pair)
    drawing = plots.two_way_svg(rows, columns, noisy.values, model.marginal(pair), axis_names=pair)
    caption = f"{noisy.values.size:,} cells, noise stddev {typical(noisy.stddev):,.4g} a cell"
    title = f"{escape(pair[0])} by {escape(pair[1])}"
    return f"<figure><h3>{title}</h3>{drawing}<figcaption>{caption}</figcaption></figure>\n"


def _largest_pairs(model: GraphicalModel, measurements: Sequence[LinearMeasurement]) -> list[tuple[str, str]]:
    """The pairs with most cells inside a measured marginal, up to what a heat map can show."""
    found: dict[frozenset[str], tuple[str, str]] = {}
    for measurement in filter(is_marginal, measurements):
        for pair in itertools.combinations(measurement.clique, 2):
            found.setdefault(frozenset(pair), pair)
    pairs = [pair for pair in found.values() if model.domain.size(pair) <= LARGEST_PAIR]
    return sorted(pairs, key=model.domain.size, reverse=True)[:MOST_PAIRS]


def measured(model: GraphicalModel, measurements: Sequence[LinearMeasurement]) -> str:
    """Return the section that lists every measurement with its noise and how well it is met."""
    rows = "\n".join(_measured_row(model, measurement) for measurement in measurements)
    return f"""<section>
<h2>What was measured</h2>
<p class="note">Fit: root mean square of (fitted - noisy) / stddev. Noise alone leaves about 1, less where the
model is free to follow it.</p>
<div class="tall scroll"><table>
<thead><tr><th>attributes</th><th class="n">values</th><th>noise</th><th class="n">stddev</th>
<th class="n">fit</th></tr></thead>
<tbody>
{rows}
</tbody></table></div>
</section>"""


def _measured_row(model: GraphicalModel, measurement: LinearMeasurement) -> str:
    cells = [
        f"<td>{escape(', '.join(measurement.clique))}</td>",
        f'<td class="n">{np.size(measurement.values):,}</td>',
        f"<td>{escape(measurement.noise)}</td>",
        f'<td class="n">{typical(measurement.stddev):,.4g}</td>',
        f'<td class="n">{_residual(model, measurement):.2f}</td>',
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _residual(model: GraphicalModel, measurement: LinearMeasurement) -> float:
    """Root mean square of (fitted - noisy) / stddev over one measurement."""
    fitted = np.ravel(model.answer(measurement.query))
    return typical((fitted - measurement.flat_values()) / measurement.row_stddevs())


def typical(values: np.ndarray | float) -> float:
    """Return the root mean square."""
    return math.sqrt(float(np.mean(np.square(np.asarray(values, dtype=np.float64)))))
