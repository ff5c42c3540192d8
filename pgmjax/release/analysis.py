"""Tables to analyse like real ones, drawn from the posterior of a release's noisy answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pgmjax._internal import checks
from pgmjax.estimation.estimator import Estimator
from pgmjax.measurements.inputs import MEASURED, Input
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.model.graphical import GraphicalModel
from pgmjax.model.row_file import decoded_rows
from pgmjax.model.sampling import INDEPENDENT
from pgmjax.uncertainty.posterior import draws_of


def drawn(
    model: Any,
    measurements: Sequence[LinearMeasurement],
    total: float | None,
    m: int,
    seed: int,
    rows: int | None,
    *,
    weighted: bool,
    inputs: Sequence[Input],
) -> Iterator[tuple[GraphicalModel, dict[str, Any]]]:
    """Yield the models of draws, and of each its rows as Arrow columns; refused before anything is drawn.

    Args:
        model: of the release.
        measurements: its noisy answers.
        total: the number of records if it is public, None if it is estimated.
        m: number of tables.
        seed: the same seed gives the same tables.
        rows: of each table, None for as many as its model has.
        weighted: whether records have weights.
        inputs: of the release.

    Raises:
        ValueError: m is below 2, rows below 1, records have weights, nothing was measured, or the model was
            also fitted to a prior or to public facts, which a draw would not know.
    """
    m = checks.integer("m", m, low=2)
    rows = None if rows is None else checks.integer("rows", rows, low=1)
    if weighted:
        raise ValueError("Records have weights, and tables to analyse are of records: leave weights out.")
    if not measurements or not isinstance(model, GraphicalModel):
        raise ValueError(
            "Tables to analyse need noisy counts and a graphical model fitted to them, and this release has "
            "none, so that nothing tells how far its model may be off: release with a mechanism that "
            "measures, such as marginals."
        )
    if others := sorted({each.name for each in inputs if each.role != MEASURED}):
        raise ValueError(
            f"The model was not fitted to noisy counts alone, but also to {others[0]!r}. Draws would not "
            "know it, and their intervals would be about another model: release without it."
        )
    plain = Estimator(regularisation="none", progress=False)
    return _drawn(draws_of(model, measurements, m, seed, estimator=plain, total=total), seed, rows)


def _drawn(
    models: Sequence[GraphicalModel], seed: int, rows: int | None
) -> Iterator[tuple[GraphicalModel, dict[str, Any]]]:
    for number, model in enumerate(models):
        count = max(1, round(model.total)) if rows is None else rows
        yield model, decoded_rows(model, count, seed + 1 + number, INDEPENDENT)
