"""`pgmjax audit`: test the installed mechanisms and their noise."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from pgmjax import audit, mechanisms
from pgmjax.audit import process_mutants, processes, tables

_DELTA = "1e-6"


def add_parser(commands: Any, main: Callable[[Sequence[str]], int]) -> None:
    """Add the command to the parser's subcommands.

    Args:
        commands: the subcommands.
        main: runs any command, for `--processes`.
    """
    parser = commands.add_parser(
        "audit",
        help="test that mechanisms keep what they claim",
        description="Audit mechanisms on small made-up tables: by replay on neighbouring tables with frozen "
        "noise (L1) and by a black-box lower bound of epsilon from many runs (L3), under both neighbouring "
        "relations, with and without delta; and check the noise as it is installed. This is testing and no "
        "proof.",
        epilog="Example: pgmjax audit --mechanism all --json",
    )
    parser.add_argument(
        "--mechanism",
        default="all",
        type=_mechanisms,
        metavar="NAME",
        help=f"all (the default), {', '.join(mechanisms.names())}, or your own class as module:Class",
    )
    parser.add_argument("--epsilon", default="1", metavar="E", help="what is claimed (1)")
    parser.add_argument(
        "--pairs", type=int, default=60, metavar="N", help="neighbouring tables to replay (60)"
    )
    parser.add_argument(
        "--runs",
        type=int,
        metavar="N",
        help="black-box runs a table (2000, none where each fits a model); 0 makes none",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of tables and noise (0)")
    parser.add_argument("--mutants", action="store_true", help="also apply every seeded bug and list them")
    parser.add_argument(
        "--processes",
        action="store_true",
        help="instead of mechanisms: replay whole commands on neighbouring tables in files, and compare "
        "files, output, exit codes and the ledger's rows (about a minute)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run, main=main)


def run(arguments: argparse.Namespace) -> None:
    """Audit and print the findings; raises RuntimeError if there are faults."""
    if arguments.processes:
        _processes(arguments)
        return
    if arguments.pairs < 1:
        raise ValueError(f"--pairs must be at least 1, got {arguments.pairs}.")
    if arguments.runs is not None and (arguments.runs < 0 or arguments.runs == 1):
        raise ValueError(f"--runs must be at least 2, or 0 for none, got {arguments.runs}.")
    if arguments.seed < 0:
        raise ValueError(f"--seed must be at least 0, got {arguments.seed}.")
    audits = [
        audit.audit_mechanism(
            mechanism,
            relation,
            epsilon=arguments.epsilon,
            delta=delta,
            pairs=arguments.pairs,
            trials=arguments.runs,
            seed=arguments.seed,
            show_progress=False if sys.stderr is None else None,
        )
        for mechanism in arguments.mechanism
        for relation in mechanisms.relations(mechanism)
        for delta in ("0", _DELTA)
    ]
    primitives = audit.audit_primitives()
    seeded = {each.name: _caught(each) for each in audit.mutants.ALL if arguments.mutants}
    passed = all(each.passed for each in audits) and not any(primitives.values()) and all(seeded.values())
    if arguments.json:
        print(json.dumps(_record(passed, audits, primitives, seeded)))
    else:
        _print(audits, primitives, seeded)
    if not passed:
        raise RuntimeError("The audit found faults.")


def _processes(arguments: argparse.Namespace) -> None:
    """Replay commands and print the findings; raises RuntimeError if there are faults."""
    checked = {name: processes.fault_of(check) for name, check in tables.CHECKS.items()}
    found = {**audit.audit_processes(arguments.main), **checked}
    all_mutants = process_mutants.ALL if arguments.mutants else ()
    seeded = {each.name: audit.mutants.caught(each, arguments.main) for each in all_mutants}
    passed = not any(found.values()) and all(seeded.values())
    if arguments.json:
        record: dict[str, Any] = {"passed": passed, "processes": _verdicts(found)}
        if seeded:
            record["mutants"] = _catches(seeded)
        print(json.dumps(record))
    else:
        width = max(map(len, [*found, *seeded]))
        _print_verdicts(found, width)
        _print_catches(seeded, width)
    if not passed:
        raise RuntimeError("The audit found faults.")


def _mechanisms(text: str) -> list[type[Any]]:
    """The mechanism classes named by an argument."""
    known = mechanisms.names()
    if text == "all" or text in known:
        return list(known.values()) if text == "all" else [known[text]]
    module, colon, name = text.partition(":")
    if not (module and colon and name):
        raise argparse.ArgumentTypeError(
            f"invalid choice: {text!r} (choose from all, {', '.join(known)}, or write module:Class)"
        )
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        mechanism = getattr(importlib.import_module(module), name)
        audit.AuditCase(mechanism, mechanisms.relations(mechanism)[0])
    except Exception as error:  # user modules may raise anything
        raise argparse.ArgumentTypeError(f"{text}: {type(error).__name__}: {error}") from error
    return [mechanism]


def _caught(mutant: audit.mutants.Mutant) -> str | None:
    if mutant.scope == "queries":
        return audit.mutants.caught(mutant, mechanisms.Marginals)
    return audit.mutants.caught(mutant)


def _record(passed: bool, audits: Any, primitives: Any, seeded: Any) -> dict[str, Any]:
    record = {
        "passed": passed,
        "mechanisms": [each.to_dict() for each in audits],
        "primitives": _verdicts(primitives),
    }
    if seeded:
        record["mutants"] = _catches(seeded)
    return record


def _verdicts(found: dict[str, str | None]) -> dict[str, Any]:
    return {name: {"passed": fault is None, "fault": fault} for name, fault in found.items()}


def _catches(seeded: dict[str, str | None]) -> dict[str, Any]:
    return {name: {"caught": said is not None, "by": said} for name, said in seeded.items()}


def _print(audits: Any, primitives: Any, seeded: Any) -> None:
    print(audit.as_table(audits))
    print()
    width = max(map(len, [*primitives, *seeded]), default=0)
    _print_verdicts(primitives, width)
    _print_catches(seeded, width)


def _print_verdicts(found: dict[str, str | None], width: int) -> None:
    for name, fault in found.items():
        print(f"{name.ljust(width)}  {'passed' if fault is None else f'FAILED: {fault}'}")


def _print_catches(seeded: dict[str, str | None], width: int) -> None:
    if seeded:
        print("\nseeded bugs")
    for name, said in seeded.items():
        print(f"{name.ljust(width)}  {'MISSED' if said is None else f'caught: {said}'}")
