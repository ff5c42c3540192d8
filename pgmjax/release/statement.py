"""The promise of several inputs together, in words: their sum, each with its cost, and what an epsilon means.

The words for an epsilon change at 1 and at 10. NIST SP 800-226 asks for such words (section 2.2: a large
epsilon may promise nothing) and leaves the numbers to policy; these are the tiers of Ponomareva et al. 2023.
Nothing is refused by them: which epsilon is acceptable is for the person responsible for the data to say.

References:
    NIST SP 800-226, "Guidelines for Evaluating Differential Privacy Guarantees"; Ponomareva et al. 2023, "How
    to DP-fy ML", section 5.2.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax.data.relation import AnyRelation, Relation
from pgmjax.data.unit import Unit
from pgmjax.measurements.inputs import Input, are_secure, digest_of
from pgmjax.measurements.transcript import Transcript
from pgmjax.privacy.exact import as_text, exact
from pgmjax.privacy.private_table import PrivateTable

STRONG, WEAK = 1, 10
"""Up to the first epsilon a guarantee is called strong, above the second weak: a policy, see the module."""
_LARGEST_FACTOR = 50  # exponents whose factor is still told as a number


@dataclasses.dataclass(frozen=True)
class Spent:
    """The cost of a release.

    Attributes:
        epsilon: epsilon of (epsilon, delta)-differential privacy, exact.
        delta: delta; 0 is pure differential privacy.
        rho: zero-concentrated (zCDP) parameter that was composed, if Gaussian noise was used.
    """

    epsilon: Fraction
    delta: Fraction
    rho: Fraction | None = None

    @classmethod
    def of(cls, inputs: Iterable[Input]) -> Spent:
        """Return what inputs cost together: epsilons and deltas add up, and rhos where each has one.

        It is a bound for any one unit, whether the inputs are about the same people or not.

        Raises:
            ValueError: an input cost something, and has no epsilon.

        References:
            Dwork and Roth 2014, Theorem 3.16 (basic composition).
        """
        costs = [each.cost for each in inputs if each.cost is not None]
        if any("epsilon" not in cost for cost in costs):
            raise ValueError(
                "An input has a rho without an epsilon, which depends on a delta: give the release that it "
                "is part of."
            )

        def total(name: str) -> Fraction:
            return sum((exact(name, cost.get(name, "0")) for cost in costs), Fraction(0))

        composed = bool(costs) and all("rho" in cost for cost in costs)
        return cls(total("epsilon"), total("delta"), total("rho") if composed else None)

    def to_dict(self) -> dict[str, str]:
        """Return the numbers as exact strings, such as "0.1" or "1/3"; rho only if it was used."""
        numbers = {"epsilon": self.epsilon, "delta": self.delta, "rho": self.rho}
        return {name: as_text(number) for name, number in numbers.items() if number is not None}

    def __str__(self) -> str:
        return ", ".join(f"{name} {text}" for name, text in self.to_dict().items())


def input_of(
    mechanism: str,
    table: PrivateTable,
    spent: Spent,
    numbers: Iterable[np.ndarray],
    played: Transcript | None,
    label_delta: str,
) -> Input:
    """Return what is to be said of the answers of a run wherever they go.

    Args:
        mechanism: its name.
        table: the private table, which knows the noise of its answers.
        spent: what they cost.
        numbers: the released numbers.
        played: the transcript of a game, which releases no numbers.
        label_delta: the part of delta that went to the search for labels.
    """
    unit = None if table.unit is None else table.unit.to_dict()
    told = digest_of(numbers, "" if played is None else json.dumps(played.to_dict()), table.run_mark)
    name, relation = f"a release by {mechanism!r}", table.relation.value
    return Input(name, table.secure, spent.to_dict(), label_delta, relation, unit, told)


def check_addable(inputs: Iterable[Input], relation: AnyRelation, unit: Unit | None) -> None:
    """Refuse inputs whose costs do not add up to one promise under a relation and a unit.

    Raises:
        ValueError: another relation or unit, or no epsilon.
    """
    wanted = Relation.parse(relation).value, None if unit is None else unit.to_dict()
    for each in inputs:
        if each.cost is None:
            continue
        if (each.relation, each.unit) != wanted:
            raise ValueError(
                f"{each.name} was made under {_whom(each.relation, each.unit)}, and this release is made "
                f"under {_whom(*wanted)}: their costs do not add up to one promise. Make both alike, or "
                "leave the earlier one out."
            )
        Spent.of([each])


def _whom(relation: str | None, unit: Any) -> str:
    if unit is None:
        return f"{relation} for one record"
    return f"{relation} for one {unit['column']} of at most {unit['max_records']} records"


def of_epsilon(epsilon: Fraction) -> str:
    """Return what an epsilon means for odds, and a warning if it is large.

    Example:
        >>> of_epsilon(Fraction(3)).partition(": ")[2]
        'odds of a guess about one unit may grow by that much. That is moderate protection.'
    """
    text = as_text(epsilon)
    much = f"{math.exp(epsilon):,.4g}" if epsilon < _LARGEST_FACTOR else "more than 10^21"
    said = f"The factor exp({text}) is {much}: odds of a guess about one unit may grow by that much."
    if epsilon <= STRONG:
        return f"{said} That is a strong guarantee."
    if epsilon <= WEAK:
        return f"{said} That is moderate protection."
    return (
        f"{said} WARNING: an epsilon above {WEAK} promises little. Such a result may tell almost surely "
        "whether somebody is in the table, or what their values are."
    )


def of_inputs(inputs: Sequence[Input]) -> str:
    """Return sentences that name each input with its cost; "" if there is nothing but one release."""
    paid = [each for each in inputs if each.cost is not None]
    public = [each for each in inputs if each.cost is None]
    said = []
    if len(paid) > 1:
        listed = "; ".join(f"{_role(each)}{each.words}" for each in paid)
        said.append(
            f"It was computed from {len(paid)} inputs, whose costs are added up here: {listed}. The sum is a "
            "bound also where they are about different people."
        )
    if public:
        listed = "; ".join(f"{_role(each)}{each.name}" for each in public)
        said.append(
            f"It also rests on what is taken to be public: {listed}. The guarantee does not cover how that "
            "was made."
        )
    risk = sum((exact("delta", each.label_delta) for each in inputs), Fraction(0))
    if risk:
        said.append(
            f"Of delta, {as_text(risk)} went to the search for labels: it is the probability that a rare "
            "label, which one unit alone has (such as a name), is found and shown in full."
        )
    return " ".join(said)


def _role(each: Input) -> str:
    return {"prior": "as prior, ", "start": "as a start, "}.get(each.role, "")


def not_secure(inputs: Sequence[Input]) -> str:
    """Return a warning that names the inputs whose noise protects nobody; "" if there is none."""
    if are_secure(inputs):
        return ""
    names = "; ".join(each.name for each in inputs if each.secure is False)
    return (
        f"NOT FOR PUBLICATION: the noise of {names} can be repeated, or is of a source of somebody's own, so "
        "that it protects nothing."
    )
