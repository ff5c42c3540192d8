"""Inference control: to decline further questions once the answers make somebody too sure of something."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from pgmjax._internal import checks
from pgmjax.history.bayes.blue import Blue
from pgmjax.history.bayes.claims import Claim, Verdict


class DeclinedError(ValueError):
    """A question was declined because a claim that is watched is too sure already.

    Attributes:
        verdicts: of the claims that are.
    """

    def __init__(self, message: str, verdicts: tuple[Verdict, ...]) -> None:
        super().__init__(message)
        self.verdicts = verdicts


@dataclasses.dataclass(frozen=True)
class InferenceControl:
    """Claims that nobody shall become sure of from the answers.

    What is declined depends on released answers only, so that a refusal tells nothing new about the table.

    Attributes:
        watched: pairs of a query of one row (as `Blue.answer` takes it) and a claim about its answer.
        level: the probability from which on a claim counts as known, in (0, 1).

    References:
        Xiao and Xiong 2012, Section 5.

    Example:
        >>> control = InferenceControl([([1.0], Claim(low=5.0))], level=0.9)
        >>> [len(control.passed(Blue.from_matrix([[1.0]], [y], 2.0))) for y in (6, 20)]
        [0, 1]
    """

    watched: Sequence[tuple[Any, Claim]]
    level: float = 0.95

    def __post_init__(self) -> None:
        checks.number("level", self.level, above=0, below=1)
        for pair in self.watched:
            if not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[1], Claim):
                raise TypeError("watched must hold pairs of a query and a Claim.")

    def passed(self, blue: Blue) -> tuple[Verdict, ...]:
        """Return the verdicts of the claims that reach the level; what is not estimable is not known."""
        verdicts = [
            blue.answer(target).test(claim, self.level)
            for target, claim in self.watched
            if bool(blue.is_estimable(target).all())
        ]
        return tuple(verdict for verdict in verdicts if verdict.holds)

    def check(self, blue: Blue) -> None:
        """Decline further questions where a claim reaches the level.

        Raises:
            DeclinedError: (a ValueError) how many claims do.
        """
        passed = self.passed(blue)
        if passed:
            raise DeclinedError(
                f"declined: {len(passed)} of {len(self.watched)} watched claims are known with probability "
                f"{self.level:g} or more from the answers so far. Answers that the history holds already may "
                "still be given.",
                passed,
            )
