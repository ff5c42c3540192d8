"""L1 of an audit: with the noise frozen, nothing public may differ between neighbouring tables.

A mechanism is run on a table while a tape records what passes the choke point, then on a neighbour
while the recorded releases are played back. Calls, parameters, shapes and results must repeat bit for
bit, and the exact numbers may lie no further apart than the declared sensitivity. What the calls cost
is worked out anew from sensitivities and noise scales and compared with what the result says was spent.

This is a test and no proof: it sees only the neighbours it is given, and only data that pass the choke
point. A tape holds exact private numbers: audit on made-up tables.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from pgmjax.laws import DiscreteGaussian, DiscreteLaplace
from pgmjax.privacy.selection import ExponentialMechanism
from pgmjax.privacy.tape import Call, NonInterferenceError, Tape

_Table = TypeVar("_Table")
_ROUNDING = 1e-9


def check_pair(run: Callable[[_Table], Any], first: _Table, second: _Table) -> Tape:
    """Run a mechanism on two neighbouring tables and check that only released numbers differ.

    Args:
        run: takes a table and returns the release.
        first: the table that is recorded.
        second: its neighbour, on which the recorded releases are played back.

    Returns:
        The tape, for a look at the calls.

    Raises:
        NonInterferenceError: as `Tape.replaying`, or the two results differ in any bit, or a release is
            not int64.
    """
    tape = Tape()
    with tape.recording():
        recorded = run(first)
    with tape.replaying():
        replayed = run(second)
    for number, (call, released) in enumerate(zip(tape.calls, tape.releases, strict=True), start=1):
        if released.dtype != np.int64 or call.exact.dtype != np.int64:
            raise NonInterferenceError(
                f"Call {number} ({call.kind}) released {released.dtype} for {call.exact.dtype}: noise on "
                "floating-point numbers shows which number it was added to; both must be int64."
            )
    found = differences(recorded, replayed)
    if found:
        raise NonInterferenceError(
            f"With frozen noise the results differ in {', '.join(found[:5])}: "
            "a private number got past the noise."
        )
    return tape


@dataclasses.dataclass(frozen=True)
class Replayed:
    """What an audit by replay has seen, all of it without fault.

    Attributes:
        pairs: the number of pairs of neighbouring tables.
        calls: the number of calls in a run, the most of all.
        epsilon: what the calls of a run cost in pure epsilon, the most of all; None where some have none.
        rho: what they cost in zCDP.
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
) -> Replayed:
    """Check a mechanism on many pairs of neighbouring tables.

    Args:
        run: takes a table and returns the release; must be deterministic but for its noise.
        neighbours: pairs of tables, such as `tables.neighbours` gives.
        epsilon: what the mechanism claims to spend in pure epsilon, None if it claims none.
        rho: what it claims to spend in zCDP, None if it claims none.

    Raises:
        NonInterferenceError: as `check_pair`, or the calls cost more than was claimed.
        ValueError: no pairs, or nothing passed the choke point, so that nothing was checked.

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
    for first, second in neighbours:
        tape = check_pair(run, first, second)
        pairs, calls = pairs + 1, max(calls, len(tape.calls))
        spent = cost(tape.calls)
        worst_rho = max(worst_rho, spent[1])
        if worst_epsilon is not None:
            worst_epsilon = None if spent[0] is None else max(worst_epsilon, spent[0])
    if not calls:
        raise ValueError(
            "Nothing passed the choke point, so that nothing was checked: give tables to run on."
        )
    _compare("epsilon", worst_epsilon, epsilon)
    _compare("rho", worst_rho, rho)
    return Replayed(pairs, calls, worst_epsilon, worst_rho)


def cost(calls: Iterable[Call]) -> tuple[float | None, float]:
    """Return what calls cost in all: pure epsilon (None where a call has none) and rho.

    Worked out from each call's sensitivity and noise scale alone, whatever was charged for it.

    Raises:
        NonInterferenceError: a law whose sensitivity is stated in another norm than it needs.
    """
    epsilon: float | None = 0.0
    rho = 0.0
    for call in calls:
        if call.law is None:
            continue
        norm = {DiscreteLaplace: "l1", DiscreteGaussian: "l2_squared"}.get(type(call.law), "linf")
        if call.sensitivity.norm != norm:
            raise NonInterferenceError(
                f"A {call.kind} call declares its sensitivity in {call.sensitivity.norm}, where its noise "
                f"needs {norm}."
            )
        if isinstance(call.law, DiscreteGaussian):
            epsilon = None
            rho += call.sensitivity.value / (2 * call.law.scale**2)
            continue
        pure = call.sensitivity.value / call.law.scale * (1 if norm == "l1" else 2)
        epsilon = None if epsilon is None else epsilon + pure
        rho += pure**2 / (8 if isinstance(call.law, ExponentialMechanism) else 2)
    return epsilon, rho


def _compare(unit: str, spent: float | None, claimed: Any) -> None:
    if claimed is None:
        return
    if spent is None or spent > float(claimed) * (1 + _ROUNDING):
        found = "no finite" if spent is None else f"{spent:.6g}"
        raise NonInterferenceError(
            f"The calls cost {found} {unit} by their sensitivities and noise scales, but only "
            f"{float(claimed):.6g} is claimed."
        )


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
