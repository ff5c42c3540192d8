"""The folder of a model of noisy answers that were published elsewhere: no table, no budget, no noise."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Sequence
from typing import Any

from pgmjax._internal import formats
from pgmjax._internal.files import reserve_folder
from pgmjax.estimation.constraints import kind_of
from pgmjax.estimation.estimator import Fit
from pgmjax.measurements import inputs
from pgmjax.measurements.inputs import Input
from pgmjax.measurements.published import Published
from pgmjax.model import row_file
from pgmjax.model.sampling import ROUND
from pgmjax.release import folder as release_folder
from pgmjax.release import tables
from pgmjax.release.asked import AskedModel
from pgmjax.release.report import render_fit
from pgmjax.release.statement import not_secure, of_inputs

_STATEMENT = (
    "The noisy answers were published elsewhere. This fit read no record, added no noise, and "
    "computed everything else from those answers."
)


def statement(told: Sequence[Input]) -> str:
    """Return what a fit promises, which is what its inputs do.

    Args:
        told: its inputs.
    """
    paid = [each for each in told if each.cost is not None]
    said = [_STATEMENT, of_inputs(told)]
    if not paid:
        said.insert(1, "Their publisher states what privacy they have.")
    elif len(paid) == 1:
        said.insert(1, f"They come from {paid[0].words}, and have the privacy that is stated there.")
    return " ".join(filter(None, (not_secure(told), *said)))


def write(
    published: Published,
    fit: Fit,
    out: str | os.PathLike[str],
    *,
    synthetic_rows: int | None = None,
    synthetic_format: str = "parquet",
    synthetic_seed: int = 0,
    method: str = ROUND,
    codes: bool = False,
    escape_formulas: bool = False,
    total_public: bool = False,
    facts: Sequence[Any] = (),
) -> pathlib.Path:
    """Write a fit to published answers as a folder.

    Args:
        published: the answers.
        fit: the fit.
        out: the folder to create; it must not exist.
        synthetic_rows: number of rows to draw. Default: the total, rounded, at most 10 million.
        synthetic_format: "parquet" or "csv".
        synthetic_seed: seed of the rows.
        method: "round" deals the rows evenly, "multinomial" draws them independently of one another.
        codes: write rows as codes of the domain instead of values.
        escape_formulas: in CSV, put an apostrophe before labels that a spreadsheet may take for formulas.
        total_public: whether the number of records was given, and not estimated.
        facts: constraints that the fit keeps to.

    Returns:
        The folder: `fit.json`, `model/`, `measurements.parquet`, `synthetic.parquet` (or `.csv`) and
        `report.html`.

    Raises:
        ValueError: the folder exists, or an argument is out of range; nothing is written.
    """
    release_folder.check_packages()
    row_file.check_escape(escape_formulas, synthetic_format)
    rows = min(round(fit.model.total), release_folder.MOST_ROWS) if synthetic_rows is None else synthetic_rows
    record = {
        **formats.FIT.heading(),
        "total": fit.model.total,
        "total_public": total_public,
        "absent": sum(published.absent),
        "facts": [f"{kind_of(each)} over {', '.join(each.clique)}" for each in facts],
        "fit": release_folder.record_of(fit),
        "synthetic": "codes" if codes else "values",
        "method": method,
        "secure": inputs.are_secure(fit.model.inputs),
        inputs.KEY: inputs.to_list(fit.model.inputs),
        "statement": statement(fit.model.inputs),
        **({} if published.population is None else {"population": published.population.to_dict()}),
        "versions": release_folder.versions(),
    }
    with reserve_folder(out) as folder:
        fit.model.save(folder / "model")
        path = folder / "measurements.parquet"
        tables.write_measurements(published.measurements, path, population=published.population)
        decode = False if codes else "values"
        synthetic = folder / f"synthetic.{synthetic_format}"
        fit.model.sample_to(
            synthetic,
            rows,
            synthetic_seed,
            method=method,
            decode=decode,
            show_progress=False,
            escape_formulas=escape_formulas,
        )
        page = render_fit(record, AskedModel.of(fit.model), published.measurements)
        (folder / "report.html").write_text(page, encoding="utf-8")
        (folder / release_folder.FIT_RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return pathlib.Path(out).absolute()
