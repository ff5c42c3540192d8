"""`pgmjax mechanisms`: which mechanisms there are, and their options."""

from __future__ import annotations

import argparse
import json
from fractions import Fraction
from typing import Any

from pgmjax import mechanisms


def add_parser(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser("mechanisms", help="list the mechanisms", description="List the mechanisms.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Print name and summary of each, the relations under which it works, and its options."""
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
    """What is told of a mechanism; defaults as they are written on the command line."""
    defaults = mechanisms.options(mechanism).items()
    return {
        "summary": mechanism.summary,
        "relations": [relation.value for relation in mechanisms.relations(mechanism)],
        "options": {
            name: str(value) if isinstance(value, str | Fraction) else json.dumps(value, default=str)
            for name, value in defaults
        },
    }
