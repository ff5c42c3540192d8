"""What is promised about a table, checked before it is written down."""

from __future__ import annotations

import json
from typing import Any

from pgmjax._internal import checks
from pgmjax.data.relation import Relation
from pgmjax.privacy.exact import as_text, exact_delta, exact_epsilon
from pgmjax.privacy.ledger.meter import Meter

_LONGEST = 200
_MOST_ATTEMPTS = 10**6


def budget_row(
    name: str,
    *,
    epsilon: Any,
    delta: Any = 0,
    relation: Relation | str,
    measure: str | None = None,
    research: bool = False,
    max_attempts: int = 10,
) -> dict[str, Any]:
    """Return the row of a table's budget, all but its digest and time; see `Ledger.register`.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: numbers out of range, or a measure and a delta that do not go together.
    """
    cap, risk = exact_epsilon(epsilon), exact_delta(delta)
    meter = Meter.for_promise(measure if measure is not None else "zcdp" if risk else "pure", cap, risk)
    return {
        "account": word("name", name),
        "measure": meter.measure,
        "relation": Relation.parse(relation).value,
        "epsilon": as_text(cap),
        "delta": as_text(risk),
        "places": meter.places,
        "orders": json.dumps(meter.orders),
        "caps": json.dumps(meter.caps),
        "research": int(flag("research", research)),
        "max_attempts": checks.integer("max_attempts", max_attempts, low=1, high=_MOST_ATTEMPTS),
    }


def word(name: str, value: Any) -> str:
    """Return a name for the books: printable text on one line."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, got {type(value).__name__}.")
    if not (value.isprintable() and value.strip() == value and 1 <= len(value) <= _LONGEST):
        raise ValueError(
            f"{name} must be 1 to {_LONGEST} printable characters without white space around, got "
            f"{value[:50]!a}."
        )
    return value


def flag(name: str, value: Any) -> bool:
    """Return a bool; what only looks like one is refused."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be a bool, got {type(value).__name__}.")
    return value
