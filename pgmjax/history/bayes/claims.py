"""Claims about a true answer and how they fare against an estimate."""

from __future__ import annotations

import dataclasses
import math

from pgmjax.history.bayes.distribution import SumLaw


@dataclasses.dataclass(frozen=True)
class Claim:
    """That a true answer lies in low..high, both ends included, or, strictly, between them.

    Attributes:
        low: the lower end (counts); minus infinity for none.
        high: the upper end (counts).
        strict: whether the ends themselves are left out; it matters for discrete laws only.

    Example:
        >>> Claim(low=0.0).opposite
        Claim(low=-inf, high=0.0, strict=True)
    """

    low: float = -math.inf
    high: float = math.inf
    strict: bool = False

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
                raise ValueError(f"the {name} end of a claim must be a number or infinite, got {value!r}.")
        if self.low > self.high:
            raise ValueError("a claim's low end must not be above its high end.")

    @property
    def opposite(self) -> Claim | None:
        """The contrary claim, where it is one interval."""
        if self.low == -math.inf and self.high < math.inf:
            return Claim(low=self.high, strict=not self.strict)
        if self.high == math.inf and self.low > -math.inf:
            return Claim(high=self.low, strict=not self.strict)
        return None

    def within(self, law: SumLaw, value: float) -> float:
        """Return its probability, given an estimate and the law of its error."""
        if self.strict:
            outside = law.between(value - self.low, math.inf) if self.low > -math.inf else 0.0
            outside += law.between(-math.inf, value - self.high) if self.high < math.inf else 0.0
            return max(0.0, 1 - outside) if self.low < self.high else 0.0
        if self.low == -math.inf and self.high == math.inf:
            return 1.0
        return law.between(value - self.high, value - self.low)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """How a claim fared.

    Attributes:
        claim: the claim.
        probability: of the claim.
        level: what counts as established.
    """

    claim: Claim
    probability: float
    level: float

    @property
    def holds(self) -> bool | None:
        """True or False where the claim or its contrary reaches the level, None where neither does."""
        if self.probability >= self.level:
            return True
        return False if 1 - self.probability >= self.level else None

    @property
    def odds(self) -> float:
        """The claim's probability over its contrary's."""
        return math.inf if self.probability >= 1 else self.probability / (1 - self.probability)
