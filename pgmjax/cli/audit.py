"""`pgmjax audit`: test the installed mechanisms and their noise."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from pgmjax import audit, mechanisms
from pgmjax._internal import checks

_DELTAS: tuple[Any, ...] = ("0", "1e-6")
_LONGEST = 10**6


@dataclasses.dataclass
class _Findings:
    """All that an audit found.

    Attributes:
        audits: a line for each mechanism, relation and delta.
        primitives: what each check of the installed noise found, None where nothing.
        searched: the largest privacy losses.
    """

    audits: Sequence[audit.MechanismAudit]
    primitives: dict[str, str | None]
    searched: Sequence[audit.LargestLoss] = ()

    @property
    def passed(self) -> bool:
        parts: list[Any] = [*self.audits, *self.searched]
        return all(each.passed for each in parts) and not any(self.primitives.values())


def run(arguments: argparse.Namespace) -> None:
    """Audit and print the findings; raises RuntimeError if there are faults."""
    if arguments.processes:
        if arguments.mechanism is not None:
            raise ValueError("--processes audits whole commands and takes no --mechanism: leave one out.")
        _processes(arguments)
        return
    _check(arguments)
    show = False if sys.stderr is None else None
    cases = [
        audit.AuditCase(mechanism, relation, arguments.epsilon, delta, arguments.seed)
        for mechanism in arguments.mechanism or list(mechanisms.names().values())
        for relation in mechanism.relations
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
    found = _Findings(audits, audit.audit_primitives())
    if arguments.seconds:
        each = arguments.seconds / len(cases)
        found.searched = [audit.largest_loss(case, seconds=each) for case in cases]
    if arguments.json:
        print(json.dumps(_record(found)))
    else:
        _print(found)
    if not found.passed:
        raise RuntimeError("The audit found faults.")


def _processes(arguments: argparse.Namespace) -> None:
    """Replay commands and print the findings; raises RuntimeError if there are faults."""
    found = audit.audit_processes(arguments.main)
    passed = not any(found.values())
    if arguments.json:
        print(json.dumps({"passed": passed, "processes": _verdicts(found)}))
    else:
        _print_verdicts(found)
    if not passed:
        raise RuntimeError("The audit found faults.")


def _check(arguments: argparse.Namespace) -> None:
    arguments.pairs = checks.integer("--pairs", arguments.pairs, low=1)
    arguments.seed = checks.integer("--seed", arguments.seed, low=0)
    if arguments.runs is not None and (arguments.runs < 0 or arguments.runs == 1):
        raise ValueError(f"--runs must be at least 2, or 0 for none, got {arguments.runs}.")
    if not 0 <= arguments.seconds <= _LONGEST:
        raise ValueError(f"--seconds must be at least 0 and at most {_LONGEST}, got {arguments.seconds}.")


def mechanisms_named(text: str) -> list[type[Any]]:
    """The mechanism classes named by an argument."""
    known = mechanisms.names()
    same = checks.same_word(text, ("all", *known))
    if same is not None:
        return [*known.values()] if same == "all" else [known[same]]
    module, colon, name = text.partition(":")
    if not (module and colon and name):
        raise argparse.ArgumentTypeError(
            f"invalid choice: {text!r} (choose from all, {', '.join(known)}, or write module:Class)"
        )
    if module.endswith(".py"):
        right = f"{module.removesuffix('.py').replace('/', '.')}:{name}"
        raise argparse.ArgumentTypeError(f"a module is named without .py: write {right}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        mechanism = getattr(importlib.import_module(module), name)
        audit.AuditCase(mechanism, mechanism.relations[0])
    except Exception as error:  # user modules may raise anything
        raise argparse.ArgumentTypeError(f"{text}: {type(error).__name__}: {error}") from error
    return [mechanism]


def _record(found: _Findings) -> dict[str, Any]:
    record: dict[str, Any] = {
        "passed": found.passed,
        "mechanisms": [each.to_dict() for each in found.audits],
        "primitives": _verdicts(found.primitives),
    }
    if found.searched:
        record["search"] = [each.to_dict() for each in found.searched]
    return record


def _verdicts(found: dict[str, str | None]) -> dict[str, Any]:
    return {name: {"passed": fault is None, "fault": fault} for name, fault in found.items()}


def _print(found: _Findings) -> None:
    print(audit.as_table(found.audits))
    print()
    _print_verdicts(found.primitives)
    if found.searched:
        print("\nlargest privacy loss found by the search")
        for each in found.searched:
            print(each)


def _print_verdicts(found: dict[str, str | None]) -> None:
    width = max(map(len, found), default=0)
    for name, fault in found.items():
        print(f"{name.ljust(width)}  {'passed' if fault is None else f'FAILED: {fault}'}")
