"""The findings of an audit of mechanisms and primitives, as records and as a table."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from pgmjax._internal import checks
from pgmjax.audit import primitives
from pgmjax.audit.mechanism import UNIT, AuditCase, replay_case
from pgmjax.audit.replay import fault_of, in_words
from pgmjax.audit.smoke import NoMeasurementsError, bound_case
from pgmjax.data.relation import Relation
from pgmjax.privacy.exact import as_text

_COLUMNS = ("mechanism", "relation", "claimed", "L1 pairs", "of units", "calls", "L3 lower bound", "verdict")
_OF_UNITS = 4  # one pair of tables that differ in a whole unit for so many that differ in a record
_NOT_BY_DEFAULT = "L3 is not run: each run fits a model, so that enough of them take long. Give their number."
_POWERLESS = "These black-box runs have no power: a bound of 0 shows neither a fault nor that there is none."


@dataclasses.dataclass(frozen=True)
class MechanismAudit:
    """One line of an audit.

    Attributes:
        mechanism: its name.
        relation: the neighbouring relation.
        epsilon: the claimed epsilon, exact, as text.
        delta: the claimed delta, exact, as text.
        pairs: number of pairs of neighbouring tables replayed without a fault that differ in a record, or in
            what else the mechanism's own tables differ in.
        calls: calls of the choke point in a run; 0 if a fault prevented the count.
        bound: lower bound on epsilon from black-box runs; None if there were none.
        trials: black-box runs on each of two tables.
        alpha: the probability that the bound is too high.
        fault: the fault found; None if none.
        note: why there is no bound, or why it is not informative.
        unit_pairs: number of such pairs that differ in all records of a unit of privacy.
    """

    mechanism: str
    relation: str
    epsilon: str
    delta: str
    pairs: int
    calls: int
    bound: float | None
    trials: int
    alpha: float
    fault: str | None
    note: str | None = None
    unit_pairs: int = 0

    @property
    def passed(self) -> bool:
        """True if no fault was found."""
        return self.fault is None

    def to_dict(self) -> dict[str, Any]:
        """Return the line as a JSON-able dict."""
        return {**dataclasses.asdict(self), "passed": self.passed}


def audit_mechanism(
    mechanism: Any,
    relation: Relation | str,
    *,
    epsilon: Any = 1,
    delta: Any = 0,
    pairs: int = 60,
    trials: int | None = None,
    alpha: float = 1e-6,
    seed: int = 0,
    show_progress: bool | None = None,
    **options: Any,
) -> MechanismAudit:
    """Audit a mechanism by replay (L1) and by black-box runs (L3).

    Args:
        mechanism: a class such as those of `pgmjax.mechanisms`, see `AuditCase`.
        relation: the neighbouring relation.
        epsilon: the mechanism's budget.
        delta: 0 for pure differential privacy.
        pairs: number of pairs of neighbouring tables to replay that differ in a record. After them come a
            quarter as many that differ in all records of a unit, of which at most two count.
        trials: black-box runs on each of two tables; 0 for none. Default: 2,000, or none if each run
            would fit a model.
        alpha: the probability that the lower bound is too high.
        seed: seed of tables and noise.
        show_progress: None shows a bar in terminals only, False never.
        options: further arguments of the mechanism.

    Returns:
        One line; any error while the mechanism runs is reported as its `fault`.

    Raises:
        TypeError: the class cannot be audited, see `AuditCase`.
        ValueError: a number or the relation is invalid.

    Example:
        >>> from pgmjax.mechanisms import Marginals
        >>> audit_mechanism(Marginals, "add-remove", pairs=4, trials=0).passed
        True
    """
    case = AuditCase(mechanism, Relation.parse(relation), epsilon, delta, seed, options)
    made = 0 if trials is None else checks.integer("trials", trials, low=0)
    number = checks.integer("pairs", pairs, low=1)
    tables, of_units = _pairs(case, number), list[bool]()
    calls, bound, fault, note = 0, None, None, None
    try:
        calls = replay_case(case, _counted(tables, of_units)).calls
        if hasattr(mechanism, "neighbours"):
            made, note = 0, "L3 is not possible: its tables are no Dataset."
        elif trials != 0:
            found = bound_case(case, trials, 0, alpha=alpha, show_progress=show_progress)
            if found is None:
                note = _NOT_BY_DEFAULT
            else:
                bound, made = found.value, found.draws
                note = None if bound else _POWERLESS
                if found.exceeds(float(case.epsilon)):
                    fault = f"The black-box lower bound {bound:.3g} is above the epsilon that is claimed."
    except NoMeasurementsError as error:
        note = f"L3 is not possible: {error}"
    except Exception as error:  # one mechanism's failure must not cost the others' lines
        fault = in_words(error)
    return MechanismAudit(
        mechanism=mechanism.name,
        relation=case.relation.value,
        epsilon=as_text(case.epsilon),
        delta=as_text(case.delta),
        pairs=len(of_units) - sum(of_units),
        calls=calls,
        bound=bound,
        trials=made,
        alpha=alpha,
        fault=fault,
        note=note,
        unit_pairs=sum(of_units),
    )


def _pairs(case: AuditCase, number: int) -> Iterator[Any]:
    """Yield pairs of tables that differ in a record, then those that differ in a whole unit."""
    yield from case.tables(number)
    if not hasattr(case.mechanism, "neighbours"):
        yield from case.tables(-(-number // _OF_UNITS), unit=UNIT)


def _counted(pairs: Iterable[Any], of_units: list[bool]) -> Iterator[Any]:
    """Yield pairs of tables; when the next one is requested, note of the last whether it has a unit."""
    for pair in pairs:
        yield pair
        of_units.append(getattr(pair[0], "unit", None) is not None)


def audit_primitives() -> dict[str, str | None]:
    """Check the installed secure noise; return each check's fault, or None.

    The false-alarm level of each statistical check is `primitives.ALPHA`.
    """
    primitive_checks: dict[str, Callable[[], None]] = {
        "Laplace noise (L2)": lambda: primitives.noise_follows_its_distribution(unit="epsilon"),
        "Gaussian noise (L2)": lambda: primitives.noise_follows_its_distribution(unit="rho"),
        "published scores (L0, L2)": primitives.scores_follow_their_distribution,
        "permute-and-flip selection (L2)": primitives.selection_follows_its_distribution,
        "exponential selection (L2)": lambda: primitives.selection_follows_its_distribution(
            method="exponential"
        ),
        "responses of records (L0, L2)": primitives.responses_keep_their_epsilon,
        "rho to epsilon and delta (L0)": primitives.conversions_hold,
        "scales cover their budget (L0)": primitives.scales_cover_their_budget,
        "large draws are fresh": primitives.large_draws_are_fresh,
    }
    return {name: fault_of(check) for name, check in primitive_checks.items()}


def as_table(audits: Sequence[MechanismAudit]) -> str:
    """Return audits as a text table."""
    rows = [_COLUMNS, *(_row(audit) for audit in audits)]
    widths = [max(len(row[k]) for row in rows) for k in range(len(_COLUMNS))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


def _row(audit: MechanismAudit) -> tuple[str, ...]:
    delta = "" if audit.delta == "0" else f", delta {audit.delta}"
    verdict = "passed" if audit.passed else f"FAILED: {audit.fault}"
    return (
        audit.mechanism,
        audit.relation,
        f"epsilon {audit.epsilon}{delta}",
        str(audit.pairs),
        str(audit.unit_pairs),
        str(audit.calls),
        _bound(audit),
        verdict,
    )


def _bound(audit: MechanismAudit) -> str:
    if audit.bound is None:
        return "not run" if audit.note in (None, _NOT_BY_DEFAULT) else "not possible"
    shown = f"{audit.bound:.3f}" if audit.bound else "no power"
    return f"{shown} ({audit.trials:,} runs)"
