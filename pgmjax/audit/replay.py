"""L1 of an audit: with the noise frozen, nothing public may differ between neighbouring tables.

A mechanism is run on a table while a tape records what passes the choke point, then on a neighbour
while the recorded releases are played back. Calls, parameters, shapes, results, errors, warnings and
printed output must repeat bit for bit, and the exact numbers may be no further apart than the declared
sensitivity. The cost of the calls is recomputed from sensitivities and noise scales and compared with the
claim.

This is a test, not a proof: it covers only the neighbours it is given. It does not observe what is written
to files, logs or a network, state kept on the mechanism or in its module, running time, or how often and in
which order a table is read. A tape holds exact private numbers: audit on made-up tables.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import warnings
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np

from pgmjax._internal.checks import Error
from pgmjax.audit.claims import check_claims
from pgmjax.audit.compare import differences
from pgmjax.privacy.tape import NonInterferenceError, Tape

_Table = TypeVar("_Table")
_FROZEN = "With frozen noise "
_LONGEST_CHAIN = 20
_NO_CALLS = (
    "Nothing went through privacy.PrivateTable, the one place where a table is read and noise is added: "
    "hand it the table, and read the table through it alone."
)


class CannotAuditError(Error, ValueError):
    """A mechanism cannot be audited: it fails on every table, or its noise cannot be observed."""


def in_words(error: BaseException) -> str:
    """Return what an audit says of an error: a finding as it is, any other with its class."""
    # a bare assert in what is audited has no words of its own
    finding = isinstance(error, Error) and isinstance(error, AssertionError | CannotAuditError)
    return str(error) if finding else f"{type(error).__name__}: {error}"


def fault_of(check: Callable[[], Any]) -> str | None:
    """Return the finding of a check, None if there is none; an error is a finding too."""
    try:
        check()
    except Exception as error:  # the other checks still have their say
        return in_words(error)
    return None


@dataclasses.dataclass(frozen=True)
class _Run:
    """The outcome of a run: a result or an error, with its warnings."""

    result: Any
    error: Exception | None
    said: dict[str, Any]


def _watched(run: Callable[[_Table], Any], table: _Table) -> _Run:
    streams = {"standard output": io.StringIO(), "standard error": io.StringIO()}
    result, raised = None, None
    with (
        warnings.catch_warnings(record=True) as caught,
        contextlib.redirect_stdout(streams["standard output"]),
        contextlib.redirect_stderr(streams["standard error"]),
    ):
        warnings.simplefilter("always")
        try:
            result = run(table)
        except NonInterferenceError:
            raise
        except Exception as error:
            raised = error
    said: dict[str, Any] = {name: stream.getvalue() for name, stream in streams.items()}
    said["warnings"] = [(each.category, str(each.message)) for each in caught]
    return _Run(result, raised, said)


@dataclasses.dataclass(frozen=True)
class ReplayedPair:
    """The outcome of a run on two neighbouring tables, the same on both.

    Attributes:
        tape: with the calls, and how far apart their exact numbers were.
        error: what both runs raised; None where both gave a result.
    """

    tape: Tape
    error: Exception | None


def _compared(
    run: Callable[[_Table], Any], first: _Table, second: _Table
) -> tuple[Tape, str | None, Exception | None]:
    """Record on one table, play back on the other.

    Returns:
        The tape; what differs, None if nothing; and the error that both raised, if they did.
    """
    tape = Tape()
    with tape.recording():
        recorded = _watched(run, first)
    replayed, stopped = None, None
    try:
        with tape.replaying():
            replayed = _watched(run, second)
    except NonInterferenceError as error:
        stopped = str(error)
    raised = recorded.error or (None if replayed is None else replayed.error)
    if raised is None:
        return tape, stopped or _changes(recorded, replayed, bool(tape.calls)), None
    kind = type(raised).__name__
    if replayed is None:
        return tape, f"It raises {kind} on one of two neighbours. On the other: {stopped}", None
    if _shown(recorded.error) == _shown(replayed.error):
        return tape, stopped or _changes(recorded, replayed, True), raised
    fault = f"It raises {kind} on one of two neighbours only: whether it fails depends on the table."
    if recorded.error is not None and replayed.error is not None:
        fault = "It raises an error on both neighbours, but not the same: errors show private numbers."
    return tape, fault, None


def _shown(error: BaseException | None) -> list[tuple[Any, ...]]:
    """Everything that a traceback shows of an error: type and words, with those of what it came from."""
    shown: list[tuple[Any, ...]] = []
    while error is not None and len(shown) < _LONGEST_CHAIN:
        shown.append((type(error), str(error), tuple(getattr(error, "__notes__", ()))))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return shown


def _changes(recorded: _Run, replayed: _Run | None, calls: bool) -> str | None:
    assert replayed is not None
    found = differences(recorded.result, replayed.result)
    said = [name for name, text in recorded.said.items() if differences(text, replayed.said[name])]
    places = ["the results differ in " + ", ".join(found[:5])] * bool(found)
    places += [f"what is written to {', '.join(said)} differs"] * bool(said)
    if not places:
        return None
    text = f"{_FROZEN}{' and '.join(places)}: a private number got past the noise."
    return text if calls else f"{text} {_NO_CALLS}"


def check_pair(run: Callable[[_Table], Any], first: _Table, second: _Table) -> Tape:
    """Run a mechanism on two neighbouring tables and check that only released numbers differ.

    Args:
        run: takes a table and returns the release.
        first: the table to record.
        second: its neighbour, on which the recorded releases are played back.

    Returns:
        The tape, to inspect the calls.

    Raises:
        NonInterferenceError: as for `Tape.replaying`; results, printed output or warnings differ in any
            bit; errors differ or are raised on one table only; or a release is not int64.
        CannotAuditError: it raises the same error on both tables (a ValueError).
        TypeError: as for `differences`.
    """
    outcome = check_outcome(run, first, second)
    if outcome.error is not None:
        raise CannotAuditError(
            f"The mechanism raises {type(outcome.error).__name__} on a table and on its neighbour, so that "
            f"it cannot be audited: {outcome.error}"
        ) from outcome.error
    return outcome.tape


def check_outcome(run: Callable[[_Table], Any], first: _Table, second: _Table) -> ReplayedPair:
    """Check that only released numbers differ between two tables, be it that a run is refused on both.

    Args:
        run: takes a table and returns the release.
        first: the table that is recorded.
        second: its neighbour, on which the recorded releases are played back.

    Raises:
        NonInterferenceError: as `check_pair`; or the errors of the two runs differ, in class or in any word
            that a traceback shows.
        TypeError: as `differences`.

    Example:
        >>> def refuse(table):
        ...     raise ValueError("no such query")
        >>> check_outcome(refuse, [1, 2], [1]).error
        ValueError('no such query')
    """
    tape, fault, error = _compared(run, first, second)
    if fault is not None:
        raise NonInterferenceError(fault)
    for number, (call, released) in enumerate(zip(tape.calls, tape.releases, strict=True), start=1):
        if released.dtype != np.int64 or call.exact.dtype != np.int64:
            raise NonInterferenceError(
                f"Call {number} ({call.kind}) released {released.dtype} for {call.exact.dtype}: noise on "
                "floating-point numbers shows which number it was added to; both must be int64."
            )
    return ReplayedPair(tape, error)


@dataclasses.dataclass(frozen=True)
class Replayed:
    """Counts of an audit by replay that found no fault.

    Attributes:
        pairs: the number of pairs of neighbouring tables.
        calls: the largest number of calls in a run.
        epsilon: the largest cost of a run in pure epsilon; None if some call has none.
        rho: the largest cost of a run in zCDP.
    """

    pairs: int
    calls: int
    epsilon: float | None
    rho: float


def check_pairs(
    run: Callable[[_Table], Any],
    neighbours: Iterable[tuple[_Table, _Table]],
    *,
    epsilon: Any = None,
    rho: Any = None,
    delta: Any = 0,
) -> Replayed:
    """Check a mechanism on many pairs of neighbouring tables, and that it repeats on the same table.

    Args:
        run: takes a table and returns the release; must be deterministic except for its noise.
        neighbours: pairs of tables, such as those of `mechanism.neighbours`.
        epsilon: the claimed epsilon; None for no claim.
        rho: the claimed rho; None for no claim.
        delta: if > 0, epsilon is that of (epsilon, delta), and the calls may meet it by their pure
            epsilon, their rho or their Renyi divergences.

    Raises:
        NonInterferenceError: as for `check_pair`, the run is not deterministic, or the calls cost more
            than claimed.
        CannotAuditError: as for `check_pair`, or nothing passed the choke point, so nothing was checked.
        ValueError: there are no pairs.
        TypeError: as for `differences`.

    Example:
        >>> import pgmjax as pj
        >>> from pgmjax.audit import neighbours
        >>> domain, relation = pj.Domain({"a": 3}), pj.Relation.ADD_REMOVE
        >>> def count(data):
        ...     table = pj.privacy.PrivateTable(data, relation, pj.privacy.Budget(1))
        ...     return table.measure([pj.queries.marginal(["a"])], epsilons=[1])[0].values
        >>> check_pairs(count, neighbours(domain, relation, pairs=8), epsilon=1)
        Replayed(pairs=8, calls=1, epsilon=1.0, rho=0.5)
    """
    pairs = calls = 0
    worst_epsilon: float | None = 0.0
    worst_rho = 0.0
    failed: CannotAuditError | None = None
    for first, second in neighbours:
        if not pairs:
            _check_repeats(run, first)
        pairs += 1
        try:
            tape = check_pair(run, first, second)
        except CannotAuditError as error:  # other neighbours may fail alone, which is a leak
            failed = failed or error
            continue
        calls = max(calls, len(tape.calls))
        spent = check_claims(tape.calls, first, epsilon, rho, delta)
        worst_rho = max(worst_rho, spent[1])
        if worst_epsilon is not None:
            worst_epsilon = None if spent[0] is None else max(worst_epsilon, spent[0])
    if not pairs:
        raise ValueError("No pairs of tables were given, so that nothing was checked: give tables to run on.")
    if failed is not None:
        raise failed
    if not calls:
        raise CannotAuditError(f"Nothing passed the choke point, so that nothing was checked. {_NO_CALLS}")
    return Replayed(pairs, calls, worst_epsilon, worst_rho)


def _check_repeats(run: Callable[[_Table], Any], table: _Table) -> None:
    """Refuse randomness besides the noise, which would be mistaken for a leak."""
    with Tape().recording():
        _watched(run, table)  # what happens in a first run only, such as a warning, is no randomness
    tape, fault, _ = _compared(run, table, table)
    if fault is not None:
        raise NonInterferenceError(
            "The mechanism is not deterministic: with frozen noise, two runs on one and the same table "
            f"differ ({fault.partition(':')[0].removeprefix(_FROZEN)}). Take all randomness from the "
            "backend, or seed it." + ("" if tape.calls else f" {_NO_CALLS}")
        )
