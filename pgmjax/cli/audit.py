"""`pgmjax audit`: test the installed mechanisms and their noise."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from pgmjax import audit, mechanisms
from pgmjax.audit import frontends, identity, process_mutants, processes, report

_DELTAS: tuple[Any, ...] = ("0", "1e-6")
_MATRIX = 2 / 3  # of the time that is given; the rest is for the search
_LONGEST = 10**6


@dataclasses.dataclass
class _Findings:
    """All that an audit found.

    Attributes:
        audits: a line for each mechanism, relation and delta.
        primitives: what each check of the installed noise found, None where nothing.
        matrix: of settings and refusals, None if there was no time for it.
        searched: the largest privacy losses.
        coverage: the lines that matrix and primitives reached.
        seeded: what was said against each seeded bug, None where it was missed.
    """

    audits: list[audit.MechanismAudit]
    primitives: dict[str, str | None]
    matrix: audit.MatrixAudit | None = None
    searched: Sequence[audit.LargestLoss] = ()
    coverage: Sequence[audit.FileCoverage] = ()
    seeded: dict[str, str | None] = dataclasses.field(default_factory=dict)

    @property
    def passed(self) -> bool:
        parts: list[Any] = [*self.audits, *self.searched, *([] if self.matrix is None else [self.matrix])]
        return (
            all(each.passed for each in parts)
            and not any(self.primitives.values())
            and all(self.seeded.values())
        )


def run(arguments: argparse.Namespace) -> None:
    """Audit and print the findings; raises RuntimeError if there are faults."""
    if arguments.processes:
        _processes(arguments)
        return
    _check(arguments)
    show = False if sys.stderr is None else None
    chosen = arguments.mechanism or list(_known().values())
    cases = [
        audit.AuditCase(mechanism, relation, arguments.epsilon, delta, arguments.seed)
        for mechanism in chosen
        for relation in mechanisms.relations(mechanism)
        for delta in (_DELTAS if getattr(mechanism, "spends_delta", True) else _DELTAS[:1])
    ]
    audits = [
        audit.audit_mechanism(
            case.mechanism,
            case.relation,
            epsilon=case.epsilon,
            delta=case.delta,
            pairs=arguments.pairs,
            trials=arguments.runs,
            seed=case.seed,
            show_progress=show,
        )
        for case in cases
    ]
    watch = audit.LineCoverage() if arguments.coverage and arguments.seconds else None
    found = _Findings(audits, {})
    with contextlib.nullcontext() if watch is None else watch:
        found.primitives = audit.audit_primitives()
        if arguments.seconds:
            seconds = arguments.seconds * _MATRIX
            found.matrix = audit.audit_matrix(
                chosen, seconds=seconds, seed=arguments.seed, show_progress=show
            )
    if arguments.seconds:
        each = arguments.seconds * (1 - _MATRIX) / len(cases)
        found.searched = [audit.largest_loss(case, seconds=each) for case in cases]
    found.coverage = () if watch is None else watch.report()
    found.seeded = {mutant.name: _caught(mutant) for mutant in audit.mutants.ALL if arguments.mutants}
    if arguments.json:
        print(json.dumps(_record(found)))
    else:
        _print(found)
    if not found.passed:
        raise RuntimeError("The audit found faults.")


def _processes(arguments: argparse.Namespace) -> None:
    """Replay commands and print the findings; raises RuntimeError if there are faults."""
    checked = {name: processes.fault_of(check) for name, check in identity.CHECKS.items()}
    found = {**audit.audit_processes(arguments.main), **checked}
    every = process_mutants.ALL if arguments.mutants else ()
    seeded = {each.name: audit.mutants.caught(each, arguments.main) for each in every}
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


def _check(arguments: argparse.Namespace) -> None:
    if arguments.pairs < 1:
        raise ValueError(f"--pairs must be at least 1, got {arguments.pairs}.")
    if arguments.runs is not None and (arguments.runs < 0 or arguments.runs == 1):
        raise ValueError(f"--runs must be at least 2, or 0 for none, got {arguments.runs}.")
    if not 0 <= arguments.seconds <= _LONGEST:
        raise ValueError(f"--seconds must be at least 0 and at most {_LONGEST}, got {arguments.seconds}.")
    if arguments.seed < 0:
        raise ValueError(f"--seed must be at least 0, got {arguments.seed}.")


def _known() -> dict[str, type[Any]]:
    """Mechanisms and other front-ends by their names."""
    return {**mechanisms.names(), **frontends.names()}


def mechanisms_named(text: str) -> list[type[Any]]:
    """The mechanism classes named by an argument."""
    known = _known()
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


def _record(found: _Findings) -> dict[str, Any]:
    record: dict[str, Any] = {
        "passed": found.passed,
        "mechanisms": [each.to_dict() for each in found.audits],
        "primitives": _verdicts(found.primitives),
    }
    if found.matrix is not None:
        record["matrix"] = found.matrix.to_dict()
        record["search"] = [each.to_dict() for each in found.searched]
    if found.coverage:
        record["coverage"] = [{**dataclasses.asdict(each), "share": each.share} for each in found.coverage]
    if found.seeded:
        record["mutants"] = _catches(found.seeded)
    return record


def _verdicts(found: dict[str, str | None]) -> dict[str, Any]:
    return {name: {"passed": fault is None, "fault": fault} for name, fault in found.items()}


def _catches(seeded: dict[str, str | None]) -> dict[str, Any]:
    return {name: {"caught": said is not None, "by": said} for name, said in seeded.items()}


def _print(found: _Findings) -> None:
    print(audit.as_table(found.audits))
    print()
    width = max(map(len, [*found.primitives, *found.seeded]), default=0)
    _print_verdicts(found.primitives, width)
    if found.matrix is not None:
        _print_matrix(found.matrix)
        print("\nlargest privacy loss found by the search")
        for each in found.searched:
            print(each)
    if found.coverage:
        print("\nlines of privacy and mechanisms reached by the noise checks and the matrix")
        print(report.coverage_table(found.coverage))
    _print_catches(found.seeded, width)


def _print_verdicts(found: dict[str, str | None], width: int) -> None:
    for name, fault in found.items():
        print(f"{name.ljust(width)}  {'passed' if fault is None else f'FAILED: {fault}'}")


def _print_catches(seeded: dict[str, str | None], width: int) -> None:
    if seeded:
        print("\nseeded bugs")
    for name, said in seeded.items():
        print(f"{name.ljust(width)}  {'MISSED' if said is None else f'caught: {said}'}")


def _print_matrix(matrix: audit.MatrixAudit) -> None:
    print(f"\nmatrix: {sum(matrix.visited.values()):,} settings and refusals tried")
    for kind, number in matrix.visited.items():
        print(f"{number:7,}  {kind}")
    most = ", ".join(f"{name} {number:,}" for name, number in matrix.largest.items())
    print(f"largest outputs of a run whose numbers all have their own noise: {most}")
    for case, fault in matrix.faults:
        print(f"FAILED: {case}: {fault}")
