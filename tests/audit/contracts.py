"""Non-statistical checks of promises: refused inputs, the order of operations, and rounding.

Each raises `primitives.AuditFailure` on a fault and otherwise returns None. They look at code alone, the same
on every machine; what depends on the installed libraries is in `pgmjax.audit.primitives`.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax.audit.primitives import AuditFailure
from pgmjax.data.dataset import Dataset
from pgmjax.data.definition import TableDefinition
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation, Unit
from pgmjax.privacy.accounting import zcdp
from pgmjax.privacy.backend import NoiseBackend
from pgmjax.privacy.budget import Budget, BudgetExceeded
from pgmjax.privacy.opendp import default_backend
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.scores import Counts
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.privacy.tape import Tape
from pgmjax.queries import marginal

_DOMAIN = Domain({"a": 2})


def relations_do_not_mix() -> None:
    """A budget for one neighbouring relation is refused to tables of the other.

    Raises:
        AuditFailure: spends under both relations were added up.
    """
    for first, second in itertools.permutations(Relation):
        bound, used = Budget(1, relation=first), Budget(1)
        _table(first, used)
        for budget in (bound, used):
            what = f"a budget that counts under {first.value}, for a table under {second.value},"
            must_refuse(functools.partial(_table, second, budget), what, ValueError)


def units_do_not_mix() -> None:
    """A budget and an account that protect one unit are refused to tables that protect another.

    Raises:
        AuditFailure: spends on two units were added up.
    """
    units = (None, Unit("who", 2), Unit("who", 3), Unit("whose", 2))
    columns = {"a": [0, 1, 1], "who": [1, 1, 2], "whose": [1, 2, 2]}
    tables = [Dataset.from_columns(_DOMAIN, columns, unit=unit) for unit in units]
    relation = Relation.ADD_REMOVE
    for first, second in itertools.permutations(tables, 2):
        budget = Budget(1)
        PrivateTable(first, relation, budget, SeededBackend(0, insecure=True))
        what = f"a budget for {first.unit}, for a table that protects {second.unit},"
        make = functools.partial(PrivateTable, second, relation, budget, SeededBackend(0, insecure=True))
        must_refuse(make, what, ValueError)
        what = f"an account for {first.unit}, for a table that protects {second.unit},"
        must_refuse(
            functools.partial(second.under, TableDefinition(_DOMAIN, unit=first.unit)), what, ValueError
        )


def noise_comes_before_counts(backend: NoiseBackend | None = None) -> None:
    """The noise of counts and of scores is drawn before the table is read, so that timing reveals nothing.

    Raises:
        AuditFailure: the table is read before the noise is drawn.
    """
    happened: list[str] = []

    class Noting(Dataset):
        def marginals(self, cliques: Any) -> Any:
            happened.append("counts")
            return super().marginals(cliques)

    class Source:
        def __init__(self, inner: Any):
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        def restart(self) -> Source:
            return Source(self._inner.restart())

        def draw(self, distribution: Any, size: int) -> np.ndarray:
            happened.append("noise")
            return np.asarray(self._inner.draw(distribution, size))

    data = Noting.from_columns(_DOMAIN, {"a": [0, 1]})
    source: Any = Source(default_backend() if backend is None else backend)
    table = PrivateTable(data, Relation.ADD_REMOVE, Budget(2), source)
    table.measure([marginal(["a"])], epsilons=[1], show_progress=False)
    table.measure_scores(Counts(marginal(["a"])), epsilon=1)
    if happened != ["noise", "counts"] * 2:
        raise AuditFailure(
            f"Measurements and scores must draw noise, then read counts, but did {', '.join(happened)}."
        )


def bad_inputs_are_refused() -> None:
    """A delta outside its range, and codes outside the domain, are errors.

    Raises:
        AuditFailure: one of them was accepted.
    """
    deltas: list[Any] = [float("nan"), -0.5, 1, 2, True, "nan"]
    for delta in deltas:
        act = functools.partial(zcdp.rho_for, 1, delta)
        must_refuse(act, f"delta {delta!r}", (ValueError, TypeError))
    columns: list[Any] = [[0, 2], [-1, 0], [0.5, 1.0], [float("nan"), 1.0], [None, 1], [2**64, 0]]
    for codes in columns:
        read = functools.partial(Dataset.from_columns, _DOMAIN, {"a": codes})
        must_refuse(read, "a table with a code outside the domain", (ValueError, TypeError, OverflowError))


def decimals_are_exact() -> None:
    """A float is read as the decimal that it prints as: ten spends of 0.1 fit into 1, and not more.

    Raises:
        AuditFailure: it is read as the binary fraction nearest to it.
    """
    if Budget(0.1).cap != Fraction(1, 10):
        raise AuditFailure("A budget of 0.1 is not a tenth.")


def insecure_noise_says_so() -> None:
    """Check that results of repeatable noise, or made under a tape, are never marked secure.

    Raises:
        AuditFailure: such a result is marked secure.
    """
    seeded = _table(Relation.ADD_REMOVE, Budget(1), SeededBackend(1, insecure=True))
    tape = Tape()
    with tape.recording():
        taped = _table(Relation.ADD_REMOVE, Budget(1))
    if seeded.secure or taped.secure:
        raise AuditFailure("Noise that can be repeated is called secure.")


def heavy_records_are_refused() -> None:
    """A weight above the public bound is an error, at the latest before anything is spent.

    Raises:
        AuditFailure: a table with such a weight was measured, or the refusal cost something.
    """
    budget = Budget(1)

    def measure() -> None:
        data = Dataset.from_columns(_DOMAIN, {"a": [0, 1]}, weights=[1, 4], max_weight=3)
        table = PrivateTable(data, Relation.ADD_REMOVE, budget, SeededBackend(0, insecure=True))
        table.measure([marginal(["a"])], epsilons=[1], show_progress=False)

    must_refuse(measure, "a weight above the bound on weights", ValueError)
    if budget.spent:
        raise AuditFailure("A table with a weight above its bound was refused, but paid for.")


def budgets_add_up() -> None:
    """Arbitrarily small spends count, and ten tenths are one.

    Raises:
        AuditFailure: a spend vanished, or one beyond the cap was granted.
    """
    budget = Budget(1)
    for _ in range(10):
        budget.charge(Fraction(1, 10))
    must_refuse(lambda: budget.charge(Fraction(1, 10**30)), "a spend beyond the cap", BudgetExceeded)
    budget = Budget(1)
    budget.charge(1 - Fraction(1, 10**17))
    budget.charge(Fraction(1, 10**17))
    must_refuse(lambda: budget.charge(Fraction(1, 10**17)), "a tiny spend beyond the cap", BudgetExceeded)
    if budget.spent != 1:
        raise AuditFailure("A tiny spend vanished in rounding.")


def a_failed_query_is_paid() -> None:
    """A query whose table cannot be read stays charged, so that a failure reveals nothing for free.

    Raises:
        AuditFailure: it cost nothing, or the error reveals its cause.
    """

    class Failing(Dataset):
        def marginals(self, cliques: Any) -> Any:
            raise ValueError("code 741 found")

    failing = Failing.from_columns(Domain({"a": 2}), {"a": [0, 1]})
    budget = Budget(1)
    table = PrivateTable(failing, Relation.ADD_REMOVE, budget)
    try:
        table.measure([marginal(["a"])], epsilons=[Fraction(1, 2)], show_progress=False)
    except RuntimeError as error:
        if "741" in str(error) or error.__cause__ is not None or error.__context__ is not None:
            raise AuditFailure("The failure of a query shows what it failed at.") from None
    except ValueError:
        raise AuditFailure("The failure of a query passes on what the table's reader said.") from None
    if budget.spent != Fraction(1, 2):
        raise AuditFailure("A query that failed was not paid for.")


def bad_numbers_are_refused() -> None:
    """Budgets that are not finite and positive, and codes outside their universe, are errors.

    Raises:
        AuditFailure: one of them was accepted.
    """
    values: list[Any] = [float("nan"), float("inf"), 0, -1, True, "nan"]
    for value in values:
        must_refuse(functools.partial(Budget, value), f"epsilon {value!r}", (ValueError, TypeError))
    source = default_backend().restart()
    distribution = source.randomized_response(3, Fraction(1))
    for codes in ([3], [-1], [0, 1, 9]):
        act: Callable[[], Any] = functools.partial(source.respond, distribution, np.array(codes))
        must_refuse(act, "a category outside", ValueError)
    flip = source.permute_and_flip(1, Fraction(1))
    for scores in ([], [0.5], [float("nan")], [float("inf")]):
        act = functools.partial(source.choose, flip, np.array(scores))
        must_refuse(act, "scores that are no integers", (ValueError, TypeError))


def records_answer_once() -> None:
    """Responses are charged before they are read, can be read once, and are refused under ADD_REMOVE.

    Raises:
        AuditFailure: one of these does not hold.
    """
    data = Dataset.from_columns(Domain({"a": 3}), {"a": [0, 1, 2]})
    budget = Budget(1)
    table = PrivateTable(data, Relation.REPLACE_ONE, budget, SeededBackend(0, insecure=True))
    respond: Callable[..., Any] = functools.partial(table.respond, [["a"]], show_progress=False)
    responses = respond(epsilons=[1])
    if budget.spent != 1:
        raise AuditFailure("Responses that are not read yet were not paid for.")
    list(responses)
    must_refuse(lambda: list(responses), "a second answer for one charge", ValueError)
    must_refuse(functools.partial(respond, epsilons=["0.1"]), "a response beyond the cap", BudgetExceeded)
    either = PrivateTable(data, Relation.ADD_REMOVE, Budget(1), SeededBackend(0, insecure=True))
    must_refuse(
        lambda: either.respond([["a"]], epsilons=[1]), "randomised response under add-remove", ValueError
    )


def _table(relation: Relation, budget: Budget, backend: NoiseBackend | None = None) -> PrivateTable:
    return PrivateTable(Dataset.from_columns(_DOMAIN, {"a": [0, 1]}), relation, budget, backend)


def must_refuse(act: Callable[[], Any], what: str, errors: Any) -> None:
    """Raise `AuditFailure` unless `act` raises one of the given errors."""
    try:
        act()
    except errors:
        return
    raise AuditFailure(f"{what[0].upper()}{what[1:]} was accepted.")
