"""Runs that must be refused: an account, a budget, a workload, an option or a table that does not do.

A refusal costs nothing and can be asked for again and again. So its class and its words, and what a ledger
says afterwards (charges, attempts, answers, the remainder), must not depend on the table by a single bit.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any
from unittest import mock

from pgmjax.audit.mechanism import AuditCase, short_fit
from pgmjax.data.dataset import Dataset
from pgmjax.data.relation import Relation
from pgmjax.privacy.budget import Budget
from pgmjax.privacy.ledger import Ledger
from pgmjax.queries import DenseMatrix, marginal
from pgmjax.queries.workload import Workload
from tests.audit.frontends import fresh_ledger, register

Run = Callable[[Any], Any]

_ACCOUNT = "audited"


def refusals(
    case: AuditCase, workload: Workload, options: Mapping[str, Sequence[Any]]
) -> Iterator[tuple[str, Run]]:
    """Yield runs that a mechanism must refuse, with the word for what is wrong; a few are there to succeed.

    Args:
        case: the mechanism and its claim.
        workload: that it can answer.
        options: its options with values that they may have.
    """
    run = inspect.signature(case.mechanism.run).parameters
    yield from (
        ("budget", functools.partial(_short, case, workload, share)) for share in ("1/1000", "1/2", "9/10")
    )
    if "ledger" in run:
        for settings in _ACCOUNTS:
            yield "ledger", functools.partial(_under_ledger, case, workload, settings)
    if not hasattr(case.mechanism, "neighbours"):
        yield "reading", functools.partial(_unreadable, case, workload)
        asked: list[Any] = [
            Workload([marginal(["nowhere"])]),
            Workload([DenseMatrix(["b"], [[0.5, 0.25]])]),
            Workload([DenseMatrix(["b"], [[1, 2, 3]])]),
            "no workload",
        ]
        for other in asked:
            yield "workload", functools.partial(_made_and_run, case, {}, other)
        if "estimator" in inspect.signature(case.mechanism).parameters:
            small = dataclasses.replace(short_fit(), max_bytes=1)
            yield "workload", functools.partial(_made_and_run, case, {"estimator": small}, workload)
    for name, values in options.items():
        yield "option", functools.partial(_made_and_run, case, {name: _outside(values[0])}, workload)


def _outside(value: Any) -> Any:
    """Return something that an option cannot be, if such a value can be told."""
    return -1 if isinstance(value, int) and not isinstance(value, bool) else -1.5


def _made_and_run(case: AuditCase, more: Mapping[str, Any], workload: Any, data: Any) -> Any:
    return dataclasses.replace(case, options={**case.options, **more}).make().run(data, workload)


class ShortBudget(Budget):
    """A budget that promises more than it has, so that a run is planned, begun, and refused on its way."""

    def __init__(self, whole: Budget, share: Any):
        super().__init__(whole.cap * Fraction(share), whole.unit)
        self._whole = whole.cap

    @property
    def cap(self) -> Fraction:
        """The promise."""
        return self._whole

    @property
    def remaining(self) -> Fraction:
        """The rest of the promise."""
        return self._whole - self._spent


def _short(case: AuditCase, workload: Any, share: str, data: Any) -> Any:
    true = case.mechanism

    def budget(self: Any) -> Budget:
        return ShortBudget(true.budget(self), share)

    short = type(true.__name__, (true,), {"budget": budget})
    return dataclasses.replace(case, mechanism=short).make().run(data, workload)


@contextlib.contextmanager
def _unreadable_tables() -> Iterator[None]:
    """Have every reading of a table's counts fail, in words that have the number of records in them."""

    def fail(self: Any, *given: Any) -> Any:
        raise ValueError(f"{self.count()} rows")

    with mock.patch.object(Dataset, "marginals", fail), mock.patch.object(Dataset, "records", fail):
        yield


def _unreadable(case: AuditCase, workload: Any, data: Dataset) -> Any:
    with _unreadable_tables():
        return case.make().run(data, workload)


@dataclasses.dataclass(frozen=True)
class _Account:
    """An account of the table.

    Attributes:
        cap: epsilon of the account, in parts of the run's; 0 for no account.
        runs: how often the mechanism is run, each time under a key of its own.
        research: whether noise that can be repeated is let in.
        other: whether it counts under the other relation.
        key: of all runs: they differ in epsilon then, if the table can be read.
        defined: whether it has the table's definition.
        readable: whether the table's counts can be read: each run that fails to is an attempt.
    """

    cap: int | Fraction = 1
    runs: int = 1
    research: bool = True
    other: bool = False
    key: str | None = None
    defined: bool = True
    readable: bool = True


_ACCOUNTS = (
    _Account(),  # enough
    _Account(cap=Fraction(1, 2)),
    _Account(runs=2),  # the second finds the account at its cap
    _Account(cap=0),
    _Account(research=False),
    _Account(other=True),
    _Account(defined=False),
    _Account(runs=3, key="one", readable=False),
    _Account(cap=3, runs=2, key="one"),
)


def _under_ledger(case: AuditCase, workload: Any, account: _Account, data: Any) -> Any:
    """Run under a ledger; return or raise what was told, with what the ledger says afterwards."""
    told: list[Any] = []
    failed: list[Exception] = []
    with fresh_ledger() as ledger:
        if account.cap:
            _register(ledger, case, account, data)
        for number in range(account.runs):
            other = account.key is not None and account.readable
            made = dataclasses.replace(case, epsilon=case.epsilon / (number + 1 if other else 1)).make()
            try:
                with contextlib.nullcontext() if account.readable else _unreadable_tables():
                    result = made.run(data, workload, ledger=ledger, key=account.key or f"run {number}")
            except Exception as error:
                failed.append(error)
                continue
            # what a release says of the ledger has the time in it
            told.append(result if isinstance(result, list | tuple | dict) else result.measurements)
        books = _books(ledger) if account.cap else None
    if failed:
        errors = "; ".join(f"{type(error).__name__}: {error}" for error in failed)
        raise RuntimeError(f"{errors}; {books}") from failed[-1]
    return told, books


def _register(ledger: Ledger, case: AuditCase, account: _Account, data: Any) -> None:
    relation = case.relation
    if account.other:
        relation = next(each for each in Relation if each is not relation)
    register(
        ledger,
        _ACCOUNT,
        data,
        defined=account.defined,
        epsilon=case.epsilon * account.cap,
        delta=case.delta,
        relation=relation,
        research=account.research,
    )


def _books(ledger: Ledger) -> tuple[Any, ...]:
    charges = [
        (each.key, each.events, each.cost, each.total, each.attempts, each.answers)
        for each in ledger.charges(_ACCOUNT)
    ]
    return ledger.account(_ACCOUNT).remaining, charges
