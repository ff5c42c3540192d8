"""Answers from a session's records: as they were given, by whichever process."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from pgmjax.history.session.session_answer import SessionAnswer
from pgmjax.history.session.state import SessionState


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
    """Return the answer that was given at a step, from it and the records before it.

    Free answers and refusals are those recorded: linear algebra may round the last digits otherwise
    elsewhere, and a demand that was just met would not be.
    """
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
    plain = (record["half_width"], record["delta"], Fraction(0), state.account.cost, state.secure)
    if record["kind"] == "refused":
        return SessionAnswer(step, "refused", None, None, None, *plain, reason=record["reason"])
    low, high = record["interval"]
    return SessionAnswer(step, "history", record["value"], (low, high), record["stddev"], *plain)


def paid(state: SessionState, records: list[dict[str, Any]], step: int) -> SessionAnswer:
    """Return the answer to what was bought at a step, in the state right after its noise."""
    bought, outcome = records[step], records[step + 1]
    if outcome["kind"] == "noise":
        return state.measured(step, bought, outcome)
    epsilon = Fraction(bought["epsilon"])
    plain = (bought["half_width"], bought["delta"], epsilon, state.account.cost, state.secure)
    reason = (
        "its noise could not be computed, as often as the account lets it be tried; its cost stays spent."
    )
    return SessionAnswer(step, "refused", None, None, None, *plain, reason=reason)
