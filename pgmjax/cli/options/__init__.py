"""The options of each command: what a usage error needs, without JAX.

Each parser names the function that runs its command as "module:function", to be imported when it runs.
Choices that the library defines elsewhere are repeated here; a test compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pgmjax.cli.options import free, history, ledger, perturb, release, respond, session, similarities


def add_parsers(commands: Any, main: Callable[[Sequence[str]], int]) -> None:
    """Add all commands to the parser's subcommands.

    Args:
        commands: the subcommands.
        main: runs any command, for `pgmjax audit --processes`.
    """
    release.add_parser(commands)
    perturb.add_parser(commands)
    respond.add_parsers(commands)
    for add in (free.add_query, free.add_look, free.add_mechanisms, free.add_domain, free.add_fit):
        add(commands)
    ledger.add_parser(commands)
    session.add_parser(commands)
    history.add_parser(commands)
    similarities.add_parser(commands)
    free.add_audit(commands, main)
    free.add_bench(commands)
