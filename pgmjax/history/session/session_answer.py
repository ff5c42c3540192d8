"""What a session answers: a number with an interval and where it came from, or why there is none."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any

from pgmjax.privacy.exact import as_text


@dataclasses.dataclass(frozen=True)
class SessionAnswer:
    """The answer to one demand.

    Attributes:
        step: its number in the session's records.
        source: "history" (free), "measured" (paid for), or "refused".
        value: the estimate (counts); None where refused.
        interval: ends, included, of an interval that holds the true answer with probability 1 - delta, over
            the noise; None where refused. It does so for queries that were not chosen by looking at the noisy
            answers: one asked because an answer stands out misses more often.
        stddev: of the estimate's noise (counts); None where refused.
        half_width: what was demanded (counts).
        delta: what was demanded.
        epsilon: what the answer cost by itself; 0 where it was free or refused.
        system_cost: what all answers together cost afterwards, in epsilon.
        secure: whether the session's noise protects; where it can be repeated, nothing may be published.
        reason: why it was refused, else "".
    """

    step: int
    source: str
    value: float | None
    interval: tuple[float, float] | None
    stddev: float | None
    half_width: float
    delta: float
    epsilon: Fraction
    system_cost: Fraction
    secure: bool
    reason: str = ""

    @property
    def answered(self) -> bool:
        """Whether there is an answer."""
        return self.source != "refused"

    def to_dict(self) -> dict[str, Any]:
        """Return the answer for JSON, exact numbers as text."""
        return {
            **dataclasses.asdict(self),
            "interval": None if self.interval is None else list(self.interval),
            "epsilon": as_text(self.epsilon),
            "system_cost": as_text(self.system_cost),
        }

    def __str__(self) -> str:
        if self.value is None or self.interval is None:
            return f"refused: {self.reason}"
        low, high = self.interval
        paid = "free, from the history" if self.source == "history" else f"epsilon {as_text(self.epsilon)}"
        return f"{self.value:,.1f} in [{low:,.1f}, {high:,.1f}] with {1 - self.delta:g} ({paid})" + (
            "" if self.secure else "; repeatable noise, for research only"
        )
