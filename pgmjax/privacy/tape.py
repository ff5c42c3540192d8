"""Record and replay of everything that passes the choke point, to test that nothing leaks past it.

A mechanism is run on one table while a tape records each call: its public parameters, the exact
numbers and what was released for them. It is then run on a neighbouring table while the tape plays
the recorded releases back. With the noise frozen, everything public must repeat: the same calls with
the same parameters, exact numbers no further apart than the declared sensitivity, and a final result
that is the same bit for bit. Any difference is a leak, and it is found without statistics.

This is a test and no proof: it sees only the neighbours it is given. A tape holds exact private
numbers, and what is made under one is never secure.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np

_Table = TypeVar("_Table")
_ACTIVE: contextvars.ContextVar[Tape | None] = contextvars.ContextVar("pgmjax_tape", default=None)


class NonInterferenceError(AssertionError):
    """Something beside the released numbers depends on the private table."""


@dataclasses.dataclass(frozen=True, eq=False)
class Call:
    """One passage of exact numbers through the choke point.

    Attributes:
        kind: "laplace", "gaussian" or "public count".
        parameters: everything public that shapes the call; must be comparable.
        norm: 1 for the L1 distance, 2 for the squared L2 distance.
        bound: declared sensitivity in that unit, an exact integer.
        exact: the private numbers, int64 [rows].
    """

    kind: str
    parameters: tuple[Any, ...]
    norm: int
    bound: int
    exact: np.ndarray


def distance(norm: int, first: np.ndarray, second: np.ndarray) -> int:
    """Return the L1 distance (norm 1) or squared L2 distance (norm 2) of integer vectors, exactly.

    Example:
        >>> distance(2, np.array([3, 0]), np.array([0, 1]))
        10
    """
    changed = np.flatnonzero(first != second)
    gaps = (abs(int(first[i]) - int(second[i])) for i in changed)
    return sum(gap**norm for gap in gaps)


class Tape:
    """Records the calls of one run and plays their releases back in another.

    Example:
        >>> tape = Tape()
        >>> with tape.recording():
        ...     pass  # run on a table
        >>> with tape.replaying():
        ...     pass  # run on its neighbour; raises NonInterferenceError on any difference
    """

    def __init__(self) -> None:
        self._calls: list[tuple[Call, np.ndarray]] = []
        self._position = 0
        self._replays = False

    @property
    def replays(self) -> bool:
        """Whether releases are being played back, so that no noise need be drawn."""
        return self._replays

    @property
    def calls(self) -> tuple[Call, ...]:
        """The recorded calls, with their exact private numbers."""
        return tuple(call for call, _ in self._calls)

    @contextlib.contextmanager
    def recording(self) -> Iterator[Tape]:
        """Record every call made inside the `with` block, in this thread."""
        self._calls, self._replays = [], False
        token = _ACTIVE.set(self)
        try:
            yield self
        finally:
            _ACTIVE.reset(token)

    @contextlib.contextmanager
    def replaying(self) -> Iterator[Tape]:
        """Play the recorded releases back inside the `with` block, in this thread.

        Raises:
            NonInterferenceError: a call, its parameters, its shape, the number of calls or the
                distance of its exact numbers is not as recorded and declared.
        """
        self._position, self._replays = 0, True
        token = _ACTIVE.set(self)
        try:
            yield self
        finally:
            self._replays = False
            _ACTIVE.reset(token)
        if self._position < len(self._calls):
            raise NonInterferenceError(
                f"{self._position} calls were made where {len(self._calls)} were recorded: "
                "whether a call is made depends on the table."
            )

    def passage(self, call: Call, release: Callable[[], np.ndarray]) -> np.ndarray:
        """Return what is released for a call: made now and recorded, or played back and checked."""
        if self._replays:
            return self._replay(call)
        released = release()
        self._calls.append((dataclasses.replace(call, exact=call.exact.copy()), released.copy()))
        return released

    def _replay(self, call: Call) -> np.ndarray:
        place = f"Call {self._position + 1} ({call.kind})"
        if self._position >= len(self._calls):
            raise NonInterferenceError(
                f"{place} was not recorded: whether a call is made depends on the table."
            )
        recorded, released = self._calls[self._position]
        self._position += 1
        if call.kind != recorded.kind:
            raise NonInterferenceError(f"{place} was {recorded.kind}: the kind of call depends on the table.")
        if (call.norm, call.bound, call.parameters) != (recorded.norm, recorded.bound, recorded.parameters):
            raise NonInterferenceError(
                f"{place} has other parameters than recorded: they depend on the table."
            )
        if call.exact.shape != recorded.exact.shape:
            raise NonInterferenceError(
                f"{place} has shape {call.exact.shape}, recorded was {recorded.exact.shape}: "
                "the shape depends on the table."
            )
        moved = distance(call.norm, call.exact, recorded.exact)
        if not moved <= call.bound:
            unit = "L1" if call.norm == 1 else "squared L2"
            raise NonInterferenceError(
                f"{place}: neighbouring tables are {moved} apart in {unit} distance, "
                f"declared sensitivity is {call.bound}."
            )
        return released.copy()


def active() -> Tape | None:
    """Return the tape of the enclosing `recording` or `replaying` block, if any."""
    return _ACTIVE.get()


def check_pair(run: Callable[[_Table], Any], first: _Table, second: _Table) -> Tape:
    """Run a mechanism on two neighbouring tables and check that only released numbers differ.

    Args:
        run: takes a table and returns the release.
        first: the table that is recorded.
        second: its neighbour, on which the recorded releases are played back.

    Returns:
        The tape, for a look at the calls.

    Raises:
        NonInterferenceError: as `Tape.replaying`, or the two results differ in any bit.
    """
    tape = Tape()
    with tape.recording():
        recorded = run(first)
    with tape.replaying():
        replayed = run(second)
    found = differences(recorded, replayed)
    if found:
        raise NonInterferenceError(
            f"With frozen noise the results differ in {', '.join(found[:5])}: "
            "a private number got past the noise."
        )
    return tape


def differences(first: Any, second: Any, name: str = "result") -> list[str]:
    """Return the names of the parts in which two results differ, arrays and floats bit for bit.

    Looks into dataclasses, mappings, sequences and arrays; other objects are compared by `==`.
    """
    if type(first) is not type(second):
        return [name]
    if hasattr(first, "__array__"):
        left, right = np.asarray(first), np.asarray(second)
        same = left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()
        return [] if same else [name]
    if dataclasses.is_dataclass(first):
        parts = [field.name for field in dataclasses.fields(first)]
        pairs = [(f"{name}.{part}", getattr(first, part), getattr(second, part)) for part in parts]
    elif isinstance(first, Mapping):
        if list(first) != list(second):
            return [name]
        pairs = [(f"{name}[{key!r}]", first[key], second[key]) for key in first]
    elif isinstance(first, list | tuple):
        if len(first) != len(second):
            return [name]
        pairs = [
            (f"{name}[{i}]", left, right) for i, (left, right) in enumerate(zip(first, second, strict=True))
        ]
    elif isinstance(first, float):
        return [] if first.hex() == second.hex() else [name]
    else:
        return [] if first is second or bool(first == second) else [name]
    return [found for part, left, right in pairs for found in differences(left, right, part)]
