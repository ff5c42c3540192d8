"""What an audit of mechanisms and primitives found, as records and as a table."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from pgmjax.audit import primitives
from pgmjax.audit.mechanism import lower_bound, replay_mechanism
from pgmjax.privacy.amounts import as_text, exact_delta, exact_epsilon
from pgmjax.privacy.tape import NonInterferenceError
from pgmjax.relation import Relation

_COLUMNS = ("mechanism", "relation", "claimed", "L1 pairs", "calls", "L3 lower bound", "verdict")


@dataclasses.dataclass(frozen=True)
class MechanismAudit:
    """One line of an audit.

    Attributes:
        mechanism: its name.
        relation: which tables were neighbours.
        epsilon: what was claimed, exact, as text.
        delta: what was claimed, exact, as text.
        pairs: pairs of neighbouring tables that were replayed without fault.
        calls: passages of the choke point in a run.
        bound: lower bound of epsilon from black-box runs; None where none were made.
        trials: black-box runs on each of two tables.
        alpha: the probability that the bound is too high.
        fault: what was found, None if nothing.
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

    @property
    def passed(self) -> bool:
        """Whether nothing was found."""
        return self.fault is None

    def to_dict(self) -> dict[str, Any]:
        """Return the line for JSON."""
        return {**dataclasses.asdict(self), "passed": self.passed}


def audit_mechanism(
    mechanism: Any,
    relation: Relation | str,
    *,
    epsilon: Any = 1,
    delta: Any = 0,
    pairs: int = 60,
    trials: int = 500,
    alpha: float = 1e-6,
    seed: int = 0,
    show_progress: bool | None = None,
    **options: Any,
) -> MechanismAudit:
    """Audit a mechanism by replay (L1) and by black-box runs (L3).

    Args:
        mechanism: a class such as those of `pgmjax.mechanisms`, see `replay_mechanism`.
        relation: which tables are neighbours.
        epsilon: what it may spend.
        delta: 0 for pure differential privacy.
        pairs: pairs of neighbouring tables to replay.
        trials: black-box runs on each of two tables; 0 makes none.
        alpha: the probability that the lower bound is too high.
        seed: of tables and noise.
        show_progress: None shows a bar in terminals only, False never.
        options: more arguments of the mechanism.

    Example:
        >>> from pgmjax.audit import SelectAndMeasure
        >>> audit_mechanism(SelectAndMeasure, "add-remove", pairs=4, trials=0).passed
        True
    """
    relation = Relation.parse(relation)
    asked: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "seed": seed, **options}
    claimed = exact_epsilon(epsilon), exact_delta(delta)
    calls, bound, fault = 0, None, None
    try:
        calls = replay_mechanism(mechanism, relation, pairs=pairs, **asked).calls
        if trials:
            found = lower_bound(
                mechanism, relation, trials=trials, alpha=alpha, show_progress=show_progress, **asked
            )
            bound = found.value
            if bound > float(claimed[0]):
                fault = f"The black-box lower bound {bound:.3g} is above the epsilon that is claimed."
    except NonInterferenceError as error:
        fault = str(error)
    return MechanismAudit(
        mechanism=mechanism.name,
        relation=relation.value,
        epsilon=as_text(claimed[0]),
        delta=as_text(claimed[1]),
        pairs=pairs,
        calls=calls,
        bound=bound,
        trials=trials,
        alpha=alpha,
        fault=fault,
    )


def audit_primitives() -> dict[str, str | None]:
    """Check the installed secure noise: what each check found, None where nothing.

    The false-alarm level of each statistical check is `primitives.ALPHA`.
    """
    checks: dict[str, Callable[[], None]] = {
        "Laplace noise (L2)": lambda: primitives.noise_follows_its_law(unit="epsilon"),
        "Gaussian noise (L2)": lambda: primitives.noise_follows_its_law(unit="rho"),
        "permute-and-flip selection (L2)": primitives.selection_follows_its_law,
        "exponential selection (L2)": lambda: primitives.selection_follows_its_law(method="exponential"),
        "randomised response (L0, L2)": primitives.response_keeps_its_epsilon,
        "rho to epsilon and delta (L0)": primitives.conversions_hold,
        "budgets add up": primitives.budgets_add_up,
        "a failed query is paid": primitives.a_failed_query_is_paid,
        "bad numbers are refused": primitives.bad_numbers_are_refused,
    }
    return {name: _fault(check) for name, check in checks.items()}


def _fault(check: Callable[[], None]) -> str | None:
    try:
        check()
    except AssertionError as error:
        return str(error)
    return None


def as_table(audits: Sequence[MechanismAudit]) -> str:
    """Return audits as a table of text."""
    rows = [_COLUMNS, *(_row(audit) for audit in audits)]
    widths = [max(len(row[k]) for row in rows) for k in range(len(_COLUMNS))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


def _row(audit: MechanismAudit) -> tuple[str, ...]:
    delta = "" if audit.delta == "0" else f", delta {audit.delta}"
    bound = "not run" if audit.bound is None else f"{audit.bound:.3f} ({audit.trials} runs)"
    verdict = "passed" if audit.passed else f"FAILED: {audit.fault}"
    return (
        audit.mechanism,
        audit.relation,
        f"epsilon {audit.epsilon}{delta}",
        str(audit.pairs),
        str(audit.calls),
        bound,
        verdict,
    )
