"""Record and replay of everything that passes the choke point, to test that nothing leaks past it.

A mechanism is run on one table while a tape records each call: its public parameters, the exact
numbers and the values released for them. It is then run on a neighbouring table while the tape plays
the recorded releases back. With the noise frozen, everything public must repeat: the same calls with
the same parameters, exact numbers no further apart than the declared sensitivity, and a final result
that is identical bit for bit. Any difference is a leak, found without statistics.

This is a test, not a proof: it covers only the neighbours it is given. A tape holds exact private
numbers, and results made under one are never secure.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pgmjax._internal.checks import Error
from pgmjax.measurements.noise import DiscreteNoise
from pgmjax.privacy.response import ResponseDistribution
from pgmjax.privacy.selection import SelectionDistribution, ThresholdNoise
from pgmjax.privacy.sensitivity import Sensitivity

_NORMS = {"l1": "L1", "l2_squared": "squared L2", "linf": "maximum", "records": "records"}
_ACTIVE: contextvars.ContextVar[Tape | None] = contextvars.ContextVar("pgmjax_tape", default=None)


class NonInterferenceError(Error, AssertionError):
    """Something other than the released numbers depends on the private table."""


@dataclasses.dataclass(frozen=True, eq=False)
class Call:
    """One passage of exact numbers through the choke point.

    Attributes:
        kind: "laplace", "gaussian", "selection", "response", "threshold", "tree", "keys" or "public count".
        parameters: everything public that shapes the call; must be comparable.
        distribution: distribution of the release; None for public values.
        sensitivity: declared sensitivity of the exact numbers.
        exact: the private numbers, int64 [rows].
    """

    kind: str
    parameters: tuple[Any, ...]
    distribution: DiscreteNoise | SelectionDistribution | ResponseDistribution | ThresholdNoise | None
    sensitivity: Sensitivity
    exact: np.ndarray


def distance(norm: str, first: np.ndarray, second: np.ndarray) -> int:
    """Return the exact distance of integer vectors in the norm "l1", "l2_squared", "linf" or "records".

    Example:
        >>> distance("l2_squared", np.array([3, 0]), np.array([0, 1]))
        10
    """
    changed = np.flatnonzero(first != second)
    if norm == "records":
        return int(changed.size)
    # Python's integers: the square of a gap may exceed 64 bits
    gaps = [abs(int(first[i]) - int(second[i])) for i in changed]
    if norm == "linf":
        return max(gaps, default=0)
    return sum(gap ** (2 if norm == "l2_squared" else 1) for gap in gaps)


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
        self._distances: list[int] = []

    @property
    def replays(self) -> bool:
        """True if releases are being played back, so that no noise need be drawn."""
        return self._replays

    @property
    def calls(self) -> tuple[Call, ...]:
        """The recorded calls, with their exact private numbers."""
        return tuple(call for call, _ in self._calls)

    @property
    def releases(self) -> tuple[np.ndarray, ...]:
        """The released values of each call."""
        return tuple(released for _, released in self._calls)

    @property
    def distances(self) -> tuple[int, ...]:
        """The distance of each replayed call's exact numbers from the recorded ones, in its own norm."""
        return tuple(self._distances)

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
        self._position, self._replays, self._distances = 0, True, []
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
        """Return the release of a call: computed and recorded, or played back and checked."""
        if self._replays:
            return self._replay(call)
        released = release()
        # copied, as whoever holds the arrays may change them before the replay
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
        if (call.sensitivity, call.distribution, call.parameters) != (
            recorded.sensitivity,
            recorded.distribution,
            recorded.parameters,
        ):
            raise NonInterferenceError(
                f"{place} has other parameters than recorded: they depend on the table."
            )
        if call.exact.shape != recorded.exact.shape:
            raise NonInterferenceError(
                f"{place} has shape {call.exact.shape}, recorded was {recorded.exact.shape}: "
                "the shape depends on the table."
            )
        declared = call.sensitivity
        moved = distance(declared.norm, call.exact, recorded.exact)
        if not moved <= declared.value:
            raise NonInterferenceError(
                f"{place}: neighbouring tables are {moved} apart in {_NORMS[declared.norm]} distance, "
                f"declared sensitivity is {declared.value}."
            )
        self._distances.append(moved)
        return released.copy()


def active() -> Tape | None:
    """Return the tape of the enclosing `recording` or `replaying` block, if any."""
    return _ACTIVE.get()
