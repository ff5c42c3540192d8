"""`pgmjax audit`: test the installed mechanisms and their noise."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from pgmjax import audit, mechanisms
from pgmjax._internal import checks
from pgmjax.cli import main, process
from pgmjax.data.relation import Relation

_DELTAS: tuple[Any, ...] = ("0", "1e-6")
_LONGEST = 10**6


def run(arguments: argparse.Namespace) -> None:
    """Audit and print the findings; raises RuntimeError if there are faults."""
    if arguments.processes:
        if arguments.mechanism is not None:
            raise ValueError("--processes audits whole commands and takes no --mechanism: leave one out.")
        found = audit.audit_processes(main)
        record = {"passed": not any(found.values()), "processes": _verdicts(found)}
        _tell(arguments, record, _in_words(found))
        return
    _check(arguments)
    try:
        named = mechanisms_named(arguments.mechanism or "all")
    except ValueError as error:
        arguments.parser.error(f"argument --mechanism: {error}")
    show = False if sys.stderr is None else None
    cases = [
        audit.AuditCase(mechanism, relation, arguments.epsilon, delta, arguments.seed)
        for mechanism in named
        for relation in getattr(mechanism, "relations", Relation)
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
    primitives = audit.audit_primitives()
    each = arguments.seconds / len(cases)
    searched = [audit.largest_loss(case, seconds=each) for case in cases if each]
    parts: list[Any] = [*audits, *searched]
    record = {
        "passed": all(part.passed for part in parts) and not any(primitives.values()),
        "mechanisms": [one.to_dict() for one in audits],
        "primitives": _verdicts(primitives),
        **({"search": [one.to_dict() for one in searched]} if searched else {}),
    }
    said = [audit.as_table(audits), "", *_in_words(primitives)]
    said += ["", "largest privacy loss found by the search", *map(str, searched)] if searched else []
    _tell(arguments, record, said)


def _tell(arguments: argparse.Namespace, record: dict[str, Any], lines: Iterable[str]) -> None:
    """Print the findings; raises RuntimeError if there are faults."""
    process.tell(arguments.json, record, lines)
    if not record["passed"]:
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
        raise ValueError(
            f"invalid choice: {text!r} (choose from all, {', '.join(known)}, or write module:Class)"
        )
    if module.endswith(".py"):
        right = f"{module.removesuffix('.py').replace('/', '.')}:{name}"
        raise ValueError(f"a module is named without .py: write {right}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = importlib.import_module(module)
        if not hasattr(found, name):
            classes = [
                each for each, kind in vars(found).items() if isinstance(kind, type) and each[:1] != "_"
            ]
            raise ValueError(f"{module} has no {name!r}: it has the classes {', '.join(classes) or 'none'}")
        mechanism = getattr(found, name)
        audit.AuditCase(mechanism, Relation.ADD_REMOVE)
    except ValueError as error:
        raise ValueError(f"{text}: {error}") from error
    except ModuleNotFoundError as error:
        if error.name != module:
            raise ValueError(f"{module} needs {error.name}, which is not installed") from error
        raise ValueError(
            f"there is no module {module!r}: {text} is the class {name} of a file {module}.py in this "
            "folder, or of an installed package"
        ) from error
    except Exception as error:  # user modules may raise anything
        raise ValueError(f"{text}: {type(error).__name__}: {error}") from error
    return [mechanism]


def _verdicts(found: dict[str, str | None]) -> dict[str, Any]:
    return {name: {"passed": fault is None, "fault": fault} for name, fault in found.items()}


def _in_words(found: dict[str, str | None]) -> Iterator[str]:
    width = max(map(len, found), default=0)
    for name, fault in found.items():
        yield f"{name.ljust(width)}  {'passed' if fault is None else f'FAILED: {fault}'}"
