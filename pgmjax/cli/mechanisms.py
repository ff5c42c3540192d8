"""`pgmjax mechanisms`: the mechanisms and their options, and a recommendation among them.

No table is taken: mechanisms are compared by public values alone.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from pgmjax import mechanisms
from pgmjax.cli import process
from pgmjax.cli.release import show_progress
from pgmjax.data.domain import Domain
from pgmjax.job import read_workload
from pgmjax.mechanisms.comparison import KINDS, MechanismComparison, MechanismErrors
from pgmjax.queries.workload import Workload


def run(arguments: argparse.Namespace) -> None:
    """Print each mechanism's name, summary, supported relations and options."""
    found = {name: _describe(mechanism) for name, mechanism in mechanisms.names().items()}
    width, said = max(map(len, found)), []
    for name, about in found.items():
        words = ", ".join(f"{option}={value}" for option, value in about["options"].items())
        said.append(f"{name:<{width}}  {about['summary']}")
        said.append(f"{'':<{width}}    under {' or '.join(about['relations'])}; options: {words or 'none'}")
    process.tell(arguments.json, {"mechanisms": found}, said)


def _describe(mechanism: Any) -> dict[str, Any]:
    """Return a description of a mechanism; option defaults are written as on the command line."""
    defaults = mechanisms.options(mechanism).items()
    return {
        "summary": mechanism.summary,
        "relations": [relation.value for relation in mechanism.relations],
        "options": {
            name: str(value) if isinstance(value, str | Fraction) else json.dumps(value, default=str)
            for name, value in defaults
        },
    }


def compare(arguments: argparse.Namespace) -> None:
    """Compare the mechanisms, and print the errors and the recommendation."""
    domain = Domain.read(arguments.domain)
    if arguments.workload is not None:
        workload = read_workload(arguments.workload, domain)
    else:
        workload = Workload.all_kway(domain, arguments.all_kway)
    try:
        found = mechanisms.compare(
            domain,
            workload,
            epsilon=arguments.epsilon,
            delta=arguments.delta,
            relation=arguments.relation,
            records=arguments.records,
            max_records=arguments.max_records,
            mechanisms=arguments.mechanisms,
            seeds=arguments.seeds,
            show_progress=show_progress(arguments),
            check=process.check,
        )
    except KeyboardInterrupt:
        raise KeyboardInterrupt("interrupted; no table was read and nothing was spent") from None
    # --json may also stand before `compare`
    process.tell(arguments.json or arguments.format == "json", found.to_dict(), _lines(found))


def _lines(found: MechanismComparison) -> Iterator[str]:
    """Yield the table of errors and what is recommended."""
    settings = found.settings
    whom = f", protecting units of {settings['max_records']} records" if "max_records" in settings else ""
    yield (
        f"Errors on simulated tables of {settings['records']:,} records, epsilon {settings['epsilon']}, "
        f"delta {settings['delta']}, {settings['relation']}{whom}. Mean and standard deviation over seeds "
        f"({settings['seeds']:,}); 0 is exact, 1 as wrong as answering 0."
    )
    rows = [("mechanism", *KINDS, "average", "seconds", "cells"), *map(_row, found.mechanisms)]
    rows.append(_row(found.one_way))
    products = [sum(each) / len(each) for each in found.product.values()]
    for name, errors in (("exact product", products), ("noisy counts", [*found.noisy_counts.values()])):
        if errors:
            average = sum(errors) / len(errors)
            rows.append((name, *(f"{each:.3g}" for each in errors), f"{average:.3g}", "", ""))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *cells in rows:
        right = (f"{cell:>{width}}" for cell, width in zip(cells, widths[1:], strict=True))
        yield "  ".join([f"{name:<{widths[0]}}", *right]).rstrip()
    yield "  one-way only: one-way marginals alone, measured with the whole budget"
    yield "  exact product: the product of the exact one-way marginals, as if attributes were independent"
    yield "  noisy counts: the workload's noisy counts without a model, exact expectation"
    for name, reason in found.refused.items():
        yield f"{name} does not run: {reason}"
    yield f"Recommended: {found.recommended or 'none'}. {found.reason}"
    yield (
        "No table was read. The simulated tables are not yours: on your table the errors are others, and the "
        "order of the mechanisms may be another one."
    )


def _row(each: MechanismErrors) -> tuple[str, ...]:
    errors = [f"{each.mean(kind):.3g}" for kind in KINDS]
    if len(next(iter(each.errors.values()))) > 1:
        errors = [
            f"{error} +- {round(each.spread(k), 9):.1g}" for error, k in zip(errors, KINDS, strict=True)
        ]
    return (each.name, *errors, f"{each.average:.3g}", f"{each.seconds:.2g}", f"{each.cells:,}")
