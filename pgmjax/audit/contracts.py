"""Non-statistical checks of promises: refused inputs, the order of operations, and rounding.

Each raises `primitives.AuditFailure` on a fault and otherwise returns None.
"""

from __future__ import annotations

import functools
import itertools
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax.audit.primitives import AuditFailure, must_refuse
from pgmjax.data.dataset import Dataset
from pgmjax.data.definition import TableDefinition
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.data.unit import Unit
from pgmjax.measurements.noise import DiscreteLaplace
from pgmjax.privacy.accounting import zcdp
from pgmjax.privacy.backend import NoiseBackend, default_backend
from pgmjax.privacy.budget import Budget
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.scores import Counts
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.privacy.tape import Tape
from pgmjax.queries import marginal

_DOMAIN = Domain({"a": 2})
_MANY = (1 << 18) + (1 << 12) + 7
_WIDE = 2.0**50  # the widest noise there is
_BY_CHANCE = 2  # numbers drawn again: more of them have a probability below 1e-15
_AWKWARD = (Fraction(1, 10), Fraction(1, 3), Fraction(3), Fraction(7, 5), Fraction(2, 7))


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


def scales_cover_their_budget(backend: NoiseBackend | None = None) -> None:
    """L0: scales, which are floats, are rounded so that no more than the exact budget is spent.

    Raises:
        AuditFailure: the exact cost of a scale is above the budget that it was made for.
    """
    source: Any = default_backend() if backend is None else backend
    for sensitivity, budget in itertools.product((1, 2, 3), _AWKWARD):
        costs = {
            "laplace": lambda scale, moved: moved / scale,
            "gaussian": lambda scale, moved: moved / (2 * scale**2),
            "permute_and_flip": lambda scale, moved: 2 * moved / scale,
            "exponential": lambda scale, moved: 2 * moved / scale,
        }
        for name, cost in costs.items():
            distribution = getattr(source, name)(sensitivity, budget)
            if cost(Fraction(distribution.scale), Fraction(sensitivity)) > budget:
                raise AuditFailure(
                    f"The scale that `{name}` gives for {budget} at sensitivity {sensitivity} is rounded "
                    "down: it costs more than that."
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


def large_draws_are_fresh(backend: NoiseBackend | None = None) -> None:
    """A draw of more than 2^18 numbers at once has no zero and no number again, at a scale at which none has.

    Raises:
        AuditFailure: it has; in noise as it ought to be that is less likely than 1e-9.
    """
    source = (default_backend() if backend is None else backend).restart()
    noise = source.draw(DiscreteLaplace(_WIDE), _MANY)
    if noise.shape != (_MANY,):
        raise AuditFailure(f"A draw of {_MANY:,} numbers gave {noise.shape}.")
    zeros = np.flatnonzero(noise == 0)
    if zeros.size:
        raise AuditFailure(
            f"{zeros.size:,} of {_MANY:,} numbers drawn at once are 0, the first in row {int(zeros[0]):,}."
        )
    again = _MANY - np.unique(noise).size
    if again > _BY_CHANCE:
        raise AuditFailure(f"{again:,} of {_MANY:,} numbers drawn at once were drawn before.")


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


def _table(relation: Relation, budget: Budget, backend: NoiseBackend | None = None) -> PrivateTable:
    return PrivateTable(Dataset.from_columns(_DOMAIN, {"a": [0, 1]}), relation, budget, backend)
