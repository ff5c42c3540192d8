"""L1 of whole commands: with frozen noise, neighbours look the same to whoever asks.

Commands such as `pgmjax release` run on a table in files while a tape records what passes the choke point,
then on a neighbouring table while the recorded releases are played back. Everything must repeat byte for
byte: the files that are written and their names, standard output, standard error, exit codes, and the rows
of the ledger. `EXCEPTIONS` lists what may differ, and why. Acts of the table's holder, such as
`pgmjax ledger init`, come before, once for each table, and are not compared.

A case is a few command lines: `CASES` has those of the library, with successes and refusals, and another is
one more entry. This is a test, not a proof: it covers only these commands on these tables. It does not
observe running time, what is written outside the folder, or what another process does.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import functools
import io
import json
import pathlib
import re
import shlex
import shutil
import sqlite3
import tempfile
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.extras import arrow, parquet
from pgmjax.audit.compare import differences
from pgmjax.audit.replay import CannotAuditError, fault_of
from pgmjax.privacy.tape import Call, NonInterferenceError, Tape

Main: TypeAlias = Callable[[Sequence[str]], int]
_Record: TypeAlias = tuple[Any, ...]

_HELD: dict[str, Any] = {"a": {"labels": ["x", "y", "z"]}, "b": 2, "n": {"bins": [0, 10, 20, 30]}}
_DOMAINS = {
    "held": _HELD,
    "missing": {**_HELD, "a": {"labels": ["x", "y", "z"], "missing": True}},
    "merged": {**_HELD, "n": {"bins": [0, 20, 30]}},
    "strange": {**_HELD, "n": {"bins": [0, 15, 30]}},
    "other": {**_HELD, "income": 2},
}

_COLUMNS = ("a", "b", "n", "income")
_ROWS: tuple[_Record, ...] = (
    ("x", 0, 5, 0), ("x", 1, 15, 1), ("y", 0, 25, 0), ("y", 1, 5, 1),
    ("z", 0, 15, 0), ("x", 0, 25, 1), ("z", 1, 5, 0), ("x", 1, 15, 1),
)  # fmt: skip
_NEW: _Record = ("z", 1, 29, 0)
NEIGHBOURS: dict[str, tuple[tuple[_Record, ...], tuple[_Record, ...]]] = {
    "added last": (_ROWS, (*_ROWS, _NEW)),
    "added first": (_ROWS, (_NEW, *_ROWS)),
    "removed": (_ROWS, _ROWS[1:]),
    "replaced": (_ROWS, (_NEW, *_ROWS[1:])),
    "a number outside": (_ROWS, (*_ROWS, ("x", 0, 99, 1))),
    "a label outside": (_ROWS, (*_ROWS, ("w", 1, 5, 0))),
    "all outside": (_ROWS, (("w", 7, 99, 1), *_ROWS)),
    "replaced by one outside": (_ROWS, (("x", 0, 99, 1), *_ROWS[1:])),
}
"""Pairs of neighbouring tables, by how the second one differs."""

EXCEPTIONS = {
    "head": "the head of the ledger's chain seals the account, which has the keyed digest of the table",
    ".run.json": "the folder of an unfinished run has a digest of the table under a random key",
    "digest": "the ledger knows a table by its keyed digest, which is the holder's",
    "hash": "the rows of the ledger are chained from the keyed digest on",
    "created": "the time of the day",
    "key": "the ledger's file FILE.key is a random secret",
}
"""What may differ between neighbours, and why."""

_HEAD = re.compile(rb"(head\W{1,9})[0-9a-f]{64}")
_LEDGER = {  # what is compared of each table of the ledger
    "charge": "id, account, number, key, request_hash, events, secure, costs, totals",
    "attempt": "id, charge, answered",
    "answer": "id, charge, step, request_hash, payload",
    "chain": "seq, kind, row",
}


@dataclasses.dataclass(frozen=True)
class ProcessCase:
    """Commands that run one after the other on a table and on its neighbour.

    Attributes:
        name: of the case.
        commands: command lines without `pgmjax`. The words {table}, {domain}, {ledger} and {out} stand for
            paths in the folder of the run.
        exits: the exit code of each command on both tables.
        neighbours: which tables, a key of `NEIGHBOURS`.
        format: of the table's file, "csv" or "parquet".
        account: options of the holder's `pgmjax ledger init`; None for no ledger.
        held: the holder's domain.
        asked: the domain of whoever asks.

    Example:
        >>> ProcessCase("no such option", ["release {table} --wrong"], exits=[2]).relation
        'add-remove'
    """

    name: str
    commands: Sequence[str]
    exits: Sequence[int]
    neighbours: str = "added last"
    format: str = "csv"
    account: str | None = None
    held: str = "held"
    asked: str = "held"

    def __post_init__(self) -> None:
        checks.set_choice(self, "neighbours", tuple(NEIGHBOURS))
        checks.set_choice(self, "format", ("csv", "parquet"))
        for field in ("held", "asked"):
            checks.set_choice(self, field, tuple(_DOMAINS))
        if len(self.commands) != len(self.exits):
            raise ValueError(
                f"Each of the {len(self.commands)} commands needs its exit code, got {len(self.exits)}."
            )

    @property
    def relation(self) -> str:
        """The neighbouring relation of the two tables."""
        return "replace-one" if self.neighbours.startswith("replaced") else "add-remove"


def _release(options: str, ledger: bool = True, epsilon: str = "1") -> str:
    kept = "--ledger {ledger}" if ledger else ""
    return (
        f"release {{table}} --domain {{domain}} --all-kway 1 --epsilon {epsilon} --relation {{relation}} "
        f"--insecure-seed 3 --steps 3 --rows 9 --out {{out}} {kept} {options}"
    )


def _ask(condition: str, width: int = 9, cap: str = "1") -> str:
    return (
        f"session ask {{ledger}} {condition} --half-width {width} --table {{table}} --domain {{domain}} "
        f"--cap {cap} --relation {{relation}} --insecure-seed 3"
    )


_SESSION = [_ask("a=x"), _ask("a=x"), _ask("b=1 --json"), "session status {ledger} --json"]
_PERTURB = (
    "perturb {table} --domain {domain} --groups a,b --epsilon 1 --relation {relation} --insecure-seed 3 "
    "--out {out}"
)
_BUDGET = "--epsilon 3"

CASES: tuple[ProcessCase, ...] = (
    ProcessCase("marginals", [_release("", ledger=False)], [0], "added first"),
    ProcessCase("marginals, no ledger, to CSV", [_release("--synthetic csv", ledger=False)], [0], "replaced"),
    ProcessCase(
        "marginals in a ledger, asked twice",
        [_release(""), _release("--json", True).replace("{out}", "{out}2")],
        [0, 0],
        "removed",
        "parquet",
        _BUDGET,
    ),
    ProcessCase("mst in a ledger", [_release("--mechanism mst --json")], [0], "added last", "csv", _BUDGET),
    ProcessCase("mst", [_release("--mechanism mst", ledger=False)], [0], "replaced", "parquet"),
    ProcessCase("aim in a ledger", [_release("--mechanism aim")], [0], "removed", "csv", _BUDGET),
    ProcessCase("aim", [_release("--mechanism aim", ledger=False)], [0], "added first", "parquet"),
    ProcessCase(
        "a session",
        [*_SESSION, _ask("n<10"), "session export {ledger} --out {out}"],
        [0] * 6,
        "added first",
        "csv",
        _BUDGET,
    ),
    ProcessCase("a session under replace-one", _SESSION, [0] * 4, "replaced", "parquet", _BUDGET),
    ProcessCase(
        "rows outside are clipped",
        [_release(""), *_SESSION],
        [0] * 5,
        "a number outside",
        "csv",
        f"{_BUDGET} --rows-outside clip",
        asked="merged",
    ),
    ProcessCase(
        "rows outside are clipped, replace-one",
        [_release("--quiet"), *_SESSION],
        [0] * 5,
        "replaced by one outside",
        "parquet",
        f"{_BUDGET} --rows-outside clip",
    ),
    ProcessCase(
        "rows outside are missing",
        [_release(""), *_SESSION],
        [0] * 5,
        "a label outside",
        "parquet",
        f"{_BUDGET} --rows-outside missing",
        "missing",
        "missing",
    ),
    ProcessCase(
        "rows outside are dropped",
        [_release(""), *_SESSION],
        [0] * 5,
        "all outside",
        "csv",
        f"{_BUDGET} --rows-outside drop",
    ),
    ProcessCase(
        "the budget is exceeded",
        [_release("", epsilon="5"), _ask("a=x", cap="5")],
        [2, 2],
        "added last",
        "csv",
        _BUDGET,
    ),
    ProcessCase(
        "the budget is used up",
        [_ask("a=x", cap="2"), _release("", epsilon="2"), _ask("a=x --name two")],
        [0, 2, 0],
        "removed",
        "csv",
        _BUDGET,
    ),
    ProcessCase(
        "an answer is refused", [_ask("a=x"), _ask("b=1", 1, "1")], [0, 1], "removed", "csv", _BUDGET
    ),
    ProcessCase(
        "bad options",
        [_release("--option rounds=2"), _release("--weights income --max-weight 1"), _release("--nothing")],
        [2, 2, 2],
        "removed",
        "csv",
        _BUDGET,
    ),
    ProcessCase(
        "a domain that the account's does not give",
        [_release(""), _ask("a=x")],
        [2, 2],
        "a number outside",
        "csv",
        f"{_BUDGET} --rows-outside clip",
        asked="strange",
    ),
    ProcessCase(
        "an attribute that the account lacks",
        [_release(""), _ask("income=1")],
        [2, 2],
        "all outside",
        "parquet",
        f"{_BUDGET} --rows-outside drop",
        asked="other",
    ),
    ProcessCase("perturb", [_PERTURB], [0], "replaced"),
    ProcessCase(
        "perturb in a ledger", [f"{_PERTURB} --ledger {{ledger}}"], [0], "replaced", "parquet", _BUDGET
    ),
)
"""The cases of the library's commands; those of a command that is not installed are left out."""


def audit_processes(main: Main, cases: Iterable[ProcessCase] = CASES) -> dict[str, str | None]:
    """Replay cases; return the first difference of each, or None.

    Args:
        main: runs a command, given its arguments, and returns its exit code, as `pgmjax.cli.main` does.
        cases: the cases; those of a command that `main` does not know are left out.

    Example:
        >>> from pgmjax.cli import main
        >>> audit_processes(main, [ProcessCase("usage", ["release {table} --wrong"], [2])])
        {'usage': None}
    """
    found: dict[str, str | None] = {}
    known: dict[str, bool] = {}
    for case in cases:
        for command in {line.split()[0] for line in case.commands} - set(known):
            known[command] = _quietly(main, [command, "--help"])[0] == 0
        if not all(known[line.split()[0]] for line in case.commands):
            continue
        found[case.name] = fault_of(functools.partial(replay_process, main, case))
    return found


def replay_process(main: Main, case: ProcessCase) -> Tape:
    """Check that with frozen noise the commands of a case do the same on a table and on its neighbour.

    Args:
        main: as for `audit_processes`.
        case: the commands and the tables.

    Returns:
        The tape, to inspect the calls.

    Raises:
        NonInterferenceError: something that one who asks can see differs; the message names the first such
            thing, and no value of it.
        CannotAuditError: the holder's commands fail, or the commands end with other exit codes than the
            case says, on both tables alike.
    """
    tape = _DrawingTape()
    with tempfile.TemporaryDirectory() as name:
        side = pathlib.Path(name) / "side"  # one path for both tables, which is then no difference
        first, second = NEIGHBOURS[case.neighbours]
        recorded = _side(main, case, first, side, tape.recording())
        try:
            replayed = _side(main, case, second, side, tape.replaying())
        except NonInterferenceError as fault:
            raise NonInterferenceError(tape.fault or str(fault)) from None
    if tape.fault is not None:  # a command may have turned it into a message of its own
        raise NonInterferenceError(tape.fault)
    for name in {**recorded, **replayed}:
        if recorded.get(name) != replayed.get(name):
            raise NonInterferenceError(
                f"With frozen noise {_named(name, recorded.get(name), replayed.get(name))}: a private number "
                "got past the noise."
            )
    for place, expected in enumerate(case.exits):
        ended = recorded[f"the exit code of command {place + 1}"]
        if ended != expected:
            said = recorded[f"the standard error of command {place + 1}"].decode().strip()
            raise CannotAuditError(
                f"Command {place + 1} ends with {ended} instead of {expected} on both tables, so that this "
                f"is not the case that was meant: {said}"
            )
    return tape


class _DrawingTape(Tape):
    """A tape under which noise is drawn in the replay too, and dropped: whether it was drawn is told."""

    def __init__(self) -> None:
        super().__init__()
        self.fault: str | None = None

    @property
    def replays(self) -> bool:
        return False

    def passage(self, call: Call, release: Callable[[], np.ndarray]) -> np.ndarray:
        if super().replays:
            release()
        try:
            return super().passage(call, release)
        except NonInterferenceError as fault:
            self.fault = self.fault or str(fault)
            raise


def _side(
    main: Main,
    case: ProcessCase,
    rows: Iterable[_Record],
    folder: pathlib.Path,
    taped: contextlib.AbstractContextManager[Any],
) -> dict[str, Any]:
    """Run a case on one table; return everything that one who asks can see, by what it is called."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    words = {"table": str(folder / f"table.{case.format}"), "ledger": str(folder / "ledger")}
    words |= {"relation": case.relation, "out": str(folder / "out"), "domain": str(folder / "asked.json")}
    _write(pathlib.Path(words["table"]), list(rows))
    for name, domain in (("held", case.held), ("asked", case.asked)):
        (folder / f"{name}.json").write_text(json.dumps(_DOMAINS[domain]), encoding="utf-8")
    if case.account is not None:
        _registered(main, case, words)
    given = {each.name for each in folder.iterdir()} | {"ledger-wal", "ledger-shm"}
    seen: dict[str, Any] = {}
    with taped:
        for place, line in enumerate(case.commands):
            code, out, error = _quietly(main, [word.format(**words) for word in shlex.split(line)])
            seen[f"the exit code of command {place + 1}"] = code
            seen[f"the standard error of command {place + 1}"] = _masked("", error.encode())
            seen[f"the standard output of command {place + 1}"] = _masked("", out.encode())
    if case.account is not None:
        seen |= _ledger_rows(words["ledger"])
    for path in sorted(folder.rglob("*")):
        part = path.relative_to(folder)
        if part.parts[0] not in given:
            seen[f"the file {part}"] = _masked(path.name, path.read_bytes()) if path.is_file() else None
    return seen


def _registered(main: Main, case: ProcessCase, words: Mapping[str, str]) -> None:
    """Have the table's holder make its account."""
    line = "ledger init {ledger} {table} --name people --relation {relation} --research --domain"
    argv = [word.format(**words) for word in line.split()]
    argv += [str(pathlib.Path(words["table"]).parent / "held.json"), *shlex.split(case.account or "")]
    code, _, error = _quietly(main, argv)
    if code != 0:
        raise CannotAuditError(f"The holder's pgmjax ledger init fails: {error.strip()}")


def _quietly(main: Main, argv: Sequence[str]) -> tuple[int, str, str]:
    out, error = io.StringIO(), io.StringIO()
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(error),
    ):
        warnings.simplefilter("always")  # otherwise a warning is shown in the first of the two runs only
        code = main(argv)
    return code, out.getvalue(), error.getvalue()


def _write(path: pathlib.Path, rows: Sequence[_Record]) -> None:
    if path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([_COLUMNS, *rows])
        return
    columns = dict(zip(_COLUMNS, map(list, zip(*rows, strict=True)), strict=True))
    parquet.write_table(arrow.table(columns), path)


def _ledger_rows(path: str) -> dict[str, list[Any]]:
    """Return what one who asks can see of a ledger's rows, without digests, hashes and times."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return {
            f"the ledger's table {table}": connection.execute(
                f"SELECT {columns} FROM {table} ORDER BY {columns.partition(',')[0]}"
            ).fetchall()
            for table, columns in _LEDGER.items()
        }


def _masked(name: str, content: bytes) -> bytes:
    """Return the content of a file or stream without what `EXCEPTIONS` lists."""
    if name == ".run.json":
        record = json.loads(content)
        return json.dumps({**record, "key": None, "table": None}).encode()
    return _HEAD.sub(rb"\1", content)


def _named(name: str, first: Any, second: Any) -> str:
    if first is None or second is None:
        return f"{name} is there for one of two neighbours only"
    if name.endswith(".json"):
        with contextlib.suppress(ValueError):
            places = differences(json.loads(first), json.loads(second), "record")
            return f"{name} differs" + (f" in {', '.join(places[:3])}" if places else "")
    return f"{name} differs"
