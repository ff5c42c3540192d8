"""`pgmjax fit`: one consistent model of noisy answers that were published elsewhere."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

from pgmjax import job as jobs
from pgmjax._internal import checks, files
from pgmjax.cli import process, release
from pgmjax.cli.typed import of_file
from pgmjax.data.domain import Domain
from pgmjax.estimation.constraints import FixedMarginal, read_constraints
from pgmjax.estimation.estimator import Fit
from pgmjax.measurements.published import Published, read_published
from pgmjax.release import folder as release_folder
from pgmjax.release import statement as report_text

_UNEXPLAINED_DEVIATIONS = (
    5.0  # standard deviations of a loss of squares, beyond which noise does not explain it
)


def run(arguments: argparse.Namespace) -> None:
    """Read, fit, write, and print where it lies."""
    if arguments.out is None:
        arguments.parser.error("the following arguments are required: --out")
    out = files.check_target(arguments.out)
    release_folder.check_packages()
    if arguments.stddev is not None and not 0 < arguments.stddev < math.inf:
        raise ValueError(
            f"--stddev must be finite and > 0, got {arguments.stddev:g}: it is the standard deviation of the "
            "noise that was added, in counts. Counts without noise are facts for a --constraints file."
        )
    rows = release.rows_of(arguments)
    domain = Domain.read(arguments.domain)
    earlier = None if arguments.prior is None else jobs.read_prior(arguments.prior, domain)
    given = {"stddev": arguments.stddev, "rounded_to": arguments.rounded_to}
    try:
        found = read_published(arguments.measurements, domain, **given)
    except ValueError as error:
        raise ValueError(of_file(arguments.measurements, error)) from error
    facts = [] if arguments.constraints is None else read_constraints(arguments.constraints)
    known = arguments.total is not None or any(isinstance(each, FixedMarginal) for each in facts)
    if not known and not found.tells_total:
        raise ValueError(
            "Every table lacks some cells, so the number of records cannot be estimated: add a row for each "
            "value, also for the missing one (0 where there are none), or give --total N."
        )
    estimator = dataclasses.replace(release.estimator_of(arguments), approximate=arguments.approximate)
    fit = estimator.fit(domain, found.measurements, arguments.total, constraints=facts, prior=earlier)
    _check_facts(facts, fit, found)
    release_folder.write_fit(found, fit, out, total_public=known, facts=facts, rows=rows)
    record = json.loads((out / release_folder.FIT_RECORD).read_text(encoding="utf-8"))
    release.tell(arguments, out, record, _lines(out, found, fit, domain, record))


def _check_facts(facts: Sequence[Any], fit: Fit, found: Published) -> None:
    """Say that facts and counts disagree by more than noise explains."""
    number = sum(each.values.size for each in found.measurements) - sum(found.absent)
    if facts and fit.loss > number / 2 + _UNEXPLAINED_DEVIATIONS * math.sqrt(number / 2):
        process.say(
            f"The facts and the noisy counts disagree: with them the loss is {fit.loss:,.0f}, and noise "
            f"explains about {number / 2:,.0f}. The model keeps to the facts: are they about the same "
            "records?"
        )


def _lines(
    out: pathlib.Path, found: Published, fit: Fit, domain: Domain, record: dict[str, Any]
) -> Iterator[str]:
    values = sum(measurement.values.size for measurement in found.measurements)
    absent = sum(found.absent)
    yield f"Model written to {out}"
    yield f"  report   {out / 'report.html'}"
    yield f"  query    {release.example(out, domain, (each.clique for each in found.measurements))}"
    numbers = (
        f"{checks.counted(values - absent, 'count', 'counts')}; "
        f"{checks.counted(absent, 'cell was', 'cells were')} not published"
    )
    yield f"  read     {checks.counted(len(found.measurements), 'table', 'tables')}, {numbers}"
    yield f"  fit      {report_text.end_of_fit(record)}"
    yield "No private table was read and no budget was spent."
    yield record["statement"]
