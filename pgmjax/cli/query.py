"""`pgmjax query`: query a release. The answers come from its model and cost no privacy.

`pgmjax mechanisms` lists the mechanisms and their options.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax import mechanisms
from pgmjax.data.cliques import as_clique
from pgmjax.model.base import Model
from pgmjax.queries import text as query_text
from pgmjax.release import folder as release_folder


def add_parser(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser(
        "query",
        help="ask a release: how many rows satisfy a condition, or a marginal",
        description="Ask a release. Answers come from its model: they cost no privacy, and are estimates.",
        epilog="Conditions are joined by commas: NAME=VALUE, !=, <, <=, >, >=, or NAME in {VALUE|VALUE}. A "
        "bound on a binned attribute must be one of its edges. Example: pgmjax query DIR 'sex=Male,age<30'",
    )
    parser.add_argument("folder", metavar="DIR", help="folder written by `pgmjax release`")
    parser.add_argument("condition", nargs="*", metavar="CONDITION", help="such as 'sex=Male,age<30'")
    parser.add_argument("--marginal", metavar="NAMES", help="all cells of attributes, such as age,income")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Compute the answers and print them."""
    if not arguments.condition and not arguments.marginal:
        raise ValueError("Give a condition such as 'sex=Male,age<30', or --marginal with attribute names.")
    if arguments.condition and arguments.marginal:
        raise ValueError("Give conditions or --marginal, not both.")
    model = release_folder.read(arguments.folder).model
    if arguments.marginal:
        _marginal(model, arguments.marginal, arguments.json)
    else:
        _conditions(model, arguments.condition, arguments.json)


def _conditions(model: Model, texts: list[str], as_json: bool) -> None:
    asked = [query_text.parse(text, model.domain) for text in texts]
    estimates = [float(np.ravel(model.answer(query))[0]) for query in asked]
    if as_json:
        answers = [{"query": text, "estimate": n} for text, n in zip(texts, estimates, strict=True)]
        print(json.dumps({"total": model.total, "answers": answers}))
        return
    for text, estimate in zip(texts, estimates, strict=True):
        print(f"{text}: {estimate:,.1f} of {model.total:,.1f} rows ({estimate / model.total:.2%})")


def _marginal(model: Model, text: str, as_json: bool) -> None:
    clique = as_clique(model.domain, next(csv.reader([text], skipinitialspace=True), []))
    table = model.marginal(clique)
    names = [model.domain.attribute(name).code_names() for name in clique]
    if as_json:
        values = dict(zip(clique, names, strict=True))
        print(json.dumps({"total": model.total, "values": values, "estimate": table.tolist()}))
        return
    for line in _lines(clique, names, table):
        print("\t".join(line))


def _lines(clique: tuple[str, ...], names: list[list[str]], table: np.ndarray) -> Iterator[list[str]]:
    yield [*clique, "estimate"]
    for cell, count in zip(itertools.product(*names), np.ravel(table), strict=True):
        yield [*cell, f"{count:.1f}"]


def add_mechanisms_parser(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser("mechanisms", help="list the mechanisms", description="List the mechanisms.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run_mechanisms)


def run_mechanisms(arguments: argparse.Namespace) -> None:
    """Print each mechanism's name, summary, supported relations and options."""
    found = {name: _describe(mechanism) for name, mechanism in mechanisms.names().items()}
    if arguments.json:
        print(json.dumps({"mechanisms": found}))
        return
    width = max(map(len, found))
    for name, about in found.items():
        print(f"{name:<{width}}  {about['summary']}")
        words = ", ".join(f"{option}={value}" for option, value in about["options"].items())
        print(f"{'':<{width}}    under {' or '.join(about['relations'])}; options: {words or 'none'}")


def _describe(mechanism: Any) -> dict[str, Any]:
    """Return a description of a mechanism; option defaults are written as on the command line."""
    defaults = mechanisms.options(mechanism).items()
    return {
        "summary": mechanism.summary,
        "relations": [relation.value for relation in mechanisms.relations(mechanism)],
        "options": {
            name: str(value) if isinstance(value, str | Fraction) else json.dumps(value, default=str)
            for name, value in defaults
        },
    }
