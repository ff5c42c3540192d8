"""`pgmjax audit`: test the installed mechanisms and their noise."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from pgmjax import audit, mechanisms
from pgmjax.relation import Relation

_DELTA = "1e-6"


class AuditFailedError(RuntimeError):
    """An audit found a fault."""


def add_parser(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
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
        "--mechanism", default="all", choices=["all", *mechanisms.names()], help="which (default: all)"
    )
    parser.add_argument("--epsilon", default="1", metavar="E", help="what is claimed (1)")
    parser.add_argument(
        "--pairs", type=int, default=60, metavar="N", help="neighbouring tables to replay (60)"
    )
    parser.add_argument(
        "--runs", type=int, default=500, metavar="N", help="black-box runs a table (500); 0 makes none"
    )
    parser.add_argument("--mutants", action="store_true", help="also apply every seeded bug and list them")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Audit and print what was found; fails if something was."""
    if arguments.pairs < 1:
        raise ValueError(f"--pairs must be at least 1, got {arguments.pairs}.")
    if arguments.runs < 0 or arguments.runs == 1:
        raise ValueError(f"--runs must be at least 2, or 0 for none, got {arguments.runs}.")
    chosen = mechanisms.names()
    if arguments.mechanism != "all":
        chosen = {arguments.mechanism: chosen[arguments.mechanism]}
    audits = [
        audit.audit_mechanism(
            mechanism,
            relation,
            epsilon=arguments.epsilon,
            delta=delta,
            pairs=arguments.pairs,
            trials=arguments.runs,
            show_progress=False if sys.stderr is None else None,
        )
        for mechanism in chosen.values()
        for relation in Relation
        for delta in ("0", _DELTA)
    ]
    primitives = audit.audit_primitives()
    seeded = {each.name: audit.mutants.caught(each) for each in _mutants(arguments)}
    passed = all(each.passed for each in audits) and not any(primitives.values()) and all(seeded.values())
    if arguments.json:
        print(json.dumps(_record(passed, audits, primitives, seeded)))
    else:
        _print(audits, primitives, seeded)
    if not passed:
        raise AuditFailedError("The audit found faults.")


def _mutants(arguments: argparse.Namespace) -> list[audit.mutants.Mutant]:
    return [each for each in audit.mutants.ALL if arguments.mutants and each.scope != "queries"]


def _record(passed: bool, audits: Any, primitives: Any, seeded: Any) -> dict[str, Any]:
    record = {
        "passed": passed,
        "mechanisms": [each.to_dict() for each in audits],
        "primitives": {name: {"passed": fault is None, "fault": fault} for name, fault in primitives.items()},
    }
    if seeded:
        record["mutants"] = {name: {"caught": said is not None, "by": said} for name, said in seeded.items()}
    return record


def _print(audits: Any, primitives: Any, seeded: Any) -> None:
    print(audit.as_table(audits))
    print()
    width = max(map(len, [*primitives, *seeded]))
    for name, fault in primitives.items():
        print(f"{name.ljust(width)}  {'passed' if fault is None else f'FAILED: {fault}'}")
    if seeded:
        print("\nseeded bugs")
    for name, said in seeded.items():
        print(f"{name.ljust(width)}  {'MISSED' if said is None else f'caught: {said}'}")
