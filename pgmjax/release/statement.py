"""The promise of several inputs together, in words: their sum, each with its cost, and what an epsilon means.

The other sentences that describe a release stand here too, for report and command line.

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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.relation import AnyRelation, Relation, Unit
from pgmjax.estimation.estimator import MAX_ENTROPY
from pgmjax.measurements.inputs import PRIOR, Input, are_secure, digest_of, from_list
from pgmjax.measurements.transcript import Transcript
from pgmjax.privacy.exact import as_text, exact
from pgmjax.privacy.private_table import PrivateTable

STRONG, WEAK = 1, 10
"""Up to the first epsilon a guarantee is called strong, above the second weak: a policy, see the module."""
_LARGEST_FACTOR = 50  # exponents whose factor is still told as a number
_NEAR = 0.01


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


def is_large(delta: Fraction, records: float) -> bool:
    """Return whether a delta is not far below one over the number of records: above a tenth of it.

    A mechanism that publishes each record with probability delta would then be allowed.

    Example:
        >>> is_large(Fraction(1, 10**3), 1500), is_large(Fraction(1, 10**9), 1500)
        (True, False)
    """
    return 10 * delta * Fraction(max(records, 1.0)) > 1


def of_epsilon(epsilon: Fraction, delta: Fraction = Fraction(0), records: float = 1.0) -> str:
    """Return what an epsilon means for odds, and a warning if it or the delta is large.

    Args:
        epsilon: of the whole release.
        delta: of the whole release.
        records: how many there are, as it may be told.

    Example:
        >>> of_epsilon(Fraction(3)).partition(": ")[2]
        'odds of a guess about one unit may grow by that much. That is moderate protection.'
    """
    text = as_text(epsilon)
    much = f"{math.exp(epsilon):,.4g}" if epsilon < _LARGEST_FACTOR else "more than 10^21"
    said = f"The factor exp({text}) is {much}: odds of a guess about one unit may grow by that much."
    rating = checks.first_said(
        (
            is_large(delta, records),
            "WARNING: the delta is not far below 1 / (number of records): with that probability a "
            "mechanism may publish whole records, whatever epsilon is.",
        ),
        (epsilon <= STRONG, "That is a strong guarantee."),
        (epsilon <= WEAK, "That is moderate protection."),
        otherwise=f"WARNING: an epsilon above {WEAK} promises little. Such a result may tell almost surely "
        "whether somebody is in the table, or what their values are.",
    )
    return f"{said} {rating}"


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


def cost(record: Mapping[str, Any]) -> str:
    """Return a sentence stating the budget spent.

    Args:
        record: content of `release.json`; spent, relation, unit, weighted and secure are used.

    Example:
        >>> cost({"spent": {"epsilon": "1", "delta": "0"}, "relation": "add-remove", "secure": True})
        'Spent: epsilon = 1, delta = 0 under add-remove, protecting one record (the number of records is
        secret).'
    """
    spent = ", ".join(f"{name} = {value}" for name, value in record["spent"].items())
    number = "is secret" if record["relation"] == "add-remove" else "is public"
    if record.get("weighted"):
        number += ", their weights are secret"
    counted = " that count" if record.get("unit") and total_public(record) else ""
    warning = "" if record["secure"] else " Insecure noise: this release protects NOBODY; for research only."
    if exact("epsilon", record["spent"]["epsilon"]) > WEAK:
        warning += f" WARNING: an epsilon above {WEAK} promises little."
    if is_large(exact("delta", record["spent"].get("delta", 0)), record.get("total", 1.0)):
        warning += " WARNING: the delta is not far below 1 / (number of records)."
    if len(paid := [each for each in record.get("inputs", ()) if each["cost"] is not None]) > 1:
        warning += " The sum of: " + "; ".join(each.words for each in from_list(paid)) + "."
    whom = f"{record['relation']}, protecting {unit_name(record)}"
    return f"Spent: {spent} under {whom} (the number of records{counted} {number}).{warning}"


def promise(record: Mapping[str, Any]) -> list[str]:
    """Return the guarantee as paragraphs, for the person responsible for the data."""
    found = []
    if record.get("discovery"):
        found = [
            _plain("""The domain file left columns open. Finding their bins, labels and dates in the table was
            a part of the cost, so the guarantee covers them too.""")
        ]
    if any(each["role"] == PRIOR for each in record["inputs"]):
        found.append(
            _plain("""Where nothing was measured here, the model follows that of the earlier release: of all
            models that fit the noisy counts equally well, it is the nearest to it.""")
        )
    return [
        record["statement"],
        _protected(record) + _total(record),
        population(record),
        *found,
        _plain("""Everything else here, from the model to the synthetic rows, was computed from the noisy
            counts alone, so it costs no further privacy. The costs of several releases from the same table
            add up: their epsilons are summed, and their deltas."""),
        _plain("""The columns and their possible values, what was asked for and all settings are taken to be
            public. If somebody looked at the table to choose one of them, the guarantee does not cover that
            choice. Nor does it cover how long the computation took."""),
    ]


def unit_name(record: Mapping[str, Any]) -> str:
    """Return whom a release protects.

    Example:
        >>> unit_name({"unit": {"column": "person_id", "max_records": 4}}), unit_name({})
        ('one person_id, of at most 4 records', 'one record')
    """
    unit = record.get("unit")
    return "one record" if unit is None else f"one {unit['column']}, of at most {unit['max_records']} records"


def population(record: Mapping[str, Any]) -> str:
    """Return what all counts and shares of a release are of, and what may be left out or merged."""
    return " ".join(record["population"]["sentences"])


def _protected(record: Mapping[str, Any]) -> str:
    """Return sentences about the unit of privacy, with a space after them."""
    if record.get("unit") is None:
        return "The unit protected is one record. A person who has several records is protected less. "
    alone = f"A record whose {record['unit']['column']} is missing is protected by itself."
    return f"The unit protected is {unit_name(record)}. {alone} "


def total_public(record: Mapping[str, Any]) -> bool:
    """Return whether the total shown is the public number of records rather than an estimate."""
    return record["relation"] == "replace-one" and not record.get("weighted", False)


def total_name(record: Mapping[str, Any]) -> str:
    """Return the name of the total shown, such as `total weight (estimate)`.

    Example:
        >>> total_name({"relation": "replace-one", "weighted": False})
        'records'
    """
    name = "total weight" if record.get("weighted") else "records"
    if not record.get("population", {}).get("whole_table", True):
        name += " that counts" if record.get("weighted") else " that count"
    return name if total_public(record) else f"{name} (estimate)"


def _total(record: Mapping[str, Any]) -> str:
    """Return sentences about the number of records and their weights."""
    if total_public(record):
        counted = " that count" if record.get("unit") else ""
        return f"The number of records{counted} is not protected and is shown exactly."
    if not record.get("weighted"):
        return "The number of records is protected too: the number shown here is an estimate."
    number = (
        "protected too" if record["relation"] == "add-remove" else "taken to be public and not shown here"
    )
    return _plain(f"""Records have weights of at most {record["max_weight"]:,}, a bound that is public. The
        weights and their total are protected: the total weight shown here is an estimate. The number
        of records is {number}.""")


def spent_rows(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the rows of the budget table: parameter and exact value."""
    yield "epsilon that was asked for", record["epsilon"]
    yield "delta that was asked for", record["delta"]
    for name, value in record["spent"].items():
        yield f"{name} spent", value
    if record.get("discovery"):
        cost = record["discovery"]["cost"]
        parts = (f"{name} {cost[name]}" for name in ("epsilon", "rho", "delta") if cost.get(name, "0") != "0")
        yield "part spent on finding the domain", ", ".join(parts)
    for each in record["population"].get("left_out", ()):
        parts = (f"{name} {value}" for name, value in each["cost"].items())
        yield f"part spent on counting {each['kind']}", ", ".join(parts) or "nothing: it is public"
    yield "neighbouring tables", record["relation"]
    yield "unit of privacy", unit_name(record)
    if record.get("weighted"):
        yield "largest weight of a record", f"{record['max_weight']:,}"
    for each in from_list(record["inputs"]):
        yield f"input ({each.role})", each.words
    yield "noise", "secure" if record["secure"] else "NOT SECURE"
    if record.get("ledger"):
        kept = record["ledger"]
        yield "ledger", f"account {kept['account']}, charge {kept['charge']}"


def fit_rows(record: Mapping[str, Any], values: int) -> Iterator[tuple[str, str]]:
    """Yield the rows of the fit table: name and value."""
    fit = record["fit"]
    yield "status", fit["status"]
    yield "steps", f"{fit['steps']:,}"
    yield "loss", number(fit["loss"])
    yield "gap", number(fit["gap"])
    if pull := fit.get("regularisation"):
        yield "pull towards independence", f"as strong as {number(pull['weight'])} records"
    yield "noisy values fitted", f"{values:,}"


def certificate(record: Mapping[str, Any], values: int) -> list[str]:
    """Return paragraphs that explain the numbers of the fit.

    Args:
        record: content of `release.json`.
        values: number of noisy values that were fitted.
    """
    loss, gap = record["fit"]["loss"], record["fit"]["gap"]
    said = [record["fit"]["meaning"]] if "meaning" in record["fit"] else []
    if record["fit"].get("method") == MAX_ENTROPY:
        said.append(
            _plain("""The model is the distribution of maximum entropy. Its loss is the relative entropy to
                the uniform distribution plus a weight times the distance from the noisy answers, in nats. The
                gap bounds how far this sum is from its least value. It does not say how close the model is to
                the table.""")
        )
        return [*said, *filter(None, [ending(record)])]
    if pull := record["fit"].get("regularisation"):
        said.append(
            _plain(f"""The model was pulled towards the product of its own one-way marginals, so that it
                follows less of the noise. The fit minimised the loss plus {number(pull["weight"])} times the
                relative entropy to that product, which is {number(pull["divergence"])} nats for the model.
                The gap bounds how far this sum is from its least value: {number(gap)}.""")
        )
    elif loss is not None and gap is not None:
        floor = number(max(loss - gap, 0.0))
        said.append(
            _plain(f"""The gap is a certified bound: no distribution, whatever its structure, has a loss below
                {floor}. More steps could lower the loss by at most {number(min(gap, loss))}.""")
        )
    if ended := ending(record):
        said.append(ended)
    half = f"{values / 2:,.0f}"
    said.append(
        _plain(f"""The loss says how far the model is from the noisy answers: it is half the sum of squared
            distances, each in standard deviations of the noise. If the distances were noise alone, the loss
            would be about {half}, half the number of noisy values. It is lower if the model follows a part
            of the noise. It would be much higher if the noisy answers contradicted one another by more than
            noise does. It does not say how close the model is to the table.""")
    )
    return said


def ending(record: Mapping[str, Any], limit: str = "--steps") -> str:
    """Return what it means that a fit ended too early, and what to do; "" for an optimum or an estimate.

    Args:
        record: content of `release.json`.
        limit: the name of the setting that ended it.

    Example:
        >>> ending({"fit": {"status": "CONVERGED", "steps": 9, "loss": 1.0, "gap": 0.0}})
        ''
    """
    fit = record["fit"]
    if fit["status"] in ("CONVERGED", "WITHIN_NOISE"):
        return ""
    if fit["loss"] is None or fit["gap"] is None:
        return "The fit ended without a bound on its distance from the best fit."
    share = fit["gap"] / max(fit["loss"], 1.0)
    if share <= _NEAR:
        return f"The fit is close to the best fit: its loss is at most {share:.2%} above the least possible."
    return (
        f"The fit may be far from the best fit: its loss of {number(fit['loss'])} may be "
        f"{number(fit['gap'])} above the least possible loss. The noisy answers are kept: pgmjax fit fits "
        f"them again, with more steps ({limit}) and at no cost."
    )


def end_of_fit(record: Mapping[str, Any]) -> str:
    """Return how a fit ended, in a sentence or a few words."""
    return ending(record) or f"complete after {record['fit']['steps']:,} steps"


def _plain(text: str) -> str:
    return " ".join(text.split())


def number(value: float | None) -> str:
    """Return a number of the fit as text; None (not finite) becomes `unknown`."""
    return "unknown" if value is None else f"{value:,.6g}"
