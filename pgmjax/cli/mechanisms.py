"""`pgmjax mechanisms`: which mechanisms there are."""

from __future__ import annotations

import argparse
import json
from typing import Any

from pgmjax import mechanisms


def add_parser(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser("mechanisms", help="list the mechanisms", description="List the mechanisms.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Print name and summary of each."""
    found = {name: mechanism.summary for name, mechanism in mechanisms.names().items()}
    if arguments.json:
        print(json.dumps({"mechanisms": found}))
        return
    width = max(map(len, found))
    for name, summary in found.items():
        print(f"{name:<{width}}  {summary}")
