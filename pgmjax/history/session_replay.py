"""Answers computed from a session's records: as they were given, by whichever process."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from pgmjax.history.demand import Demand
from pgmjax.history.session_answer import SessionAnswer
from pgmjax.history.session_state import SessionState, query_of


def written(answer: SessionAnswer) -> dict[str, Any]:
    """Return a free answer or a refusal as a record."""
    kind = "free" if answer.answered else "refused"
    return {
        "kind": kind,
        "value": answer.value,
        "interval": None if answer.interval is None else list(answer.interval),
        "stddev": answer.stddev,
        "reason": answer.reason,
    }


def replayed(state: SessionState, records: list[dict[str, Any]], step: int) -> SessionAnswer | None:
    """Compute the answer that was given at a step from the records before it."""
    record = records[step]
    if "half_width" not in record:
        return None
    if record["kind"] == "bought":
        if step + 1 == len(records):
            return None
        later = state.copy()
        for place in (step, step + 1):
            later.add(records[place], records[place - 1])
        return paid(later, records, step)
    demand = Demand(query_of(record), record["half_width"], record["delta"])
    plain = (demand.half_width, demand.delta, Fraction(0), state.account.cost)
    if record["kind"] == "refused":
        return SessionAnswer(step, "refused", None, None, None, *plain, reason=record["reason"])
    found = state.free(demand)
    if isinstance(found, str):
        raise ValueError(
            f"step {step} says it was free, and the history before it does not suffice: {found}."
        )
    known, ends = found
    return SessionAnswer(step, "history", known.value, ends, known.stddev, *plain)


def paid(state: SessionState, records: list[dict[str, Any]], step: int) -> SessionAnswer:
    """Return the answer to what was bought at a step, in the state right after its noise."""
    bought, outcome = records[step], records[step + 1]
    if outcome["kind"] == "noise":
        return state.measured(step, bought, outcome)
    plain = (bought["half_width"], bought["delta"], Fraction(bought["epsilon"]), state.account.cost)
    reason = (
        "its noise could not be computed, as often as the account lets it be tried; its cost stays spent."
    )
    return SessionAnswer(step, "refused", None, None, None, *plain, reason=reason)
