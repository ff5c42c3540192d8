"""A privacy budget: the limit on what may be spent on a table, and the spending so far."""

from __future__ import annotations

import collections
import math
import numbers
import os
import threading
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.migration import Named
from pgmjax.data.relation import Relation, Unit, change
from pgmjax.privacy.accounting import renyi
from pgmjax.privacy.accounting.events import Concentrated, Event, Pure, Record, check_relation
from pgmjax.privacy.exact import as_text, chosen_delta, exact, exact_epsilon, exact_rho, split

Cost = Fraction | int | float | str | Event | Iterable[Event]
"""A number in the budget's own unit, an event, or several events."""


class BudgetExceeded(checks.Error, ValueError):
    """A spend would exceed the cap. It is raised before any data is read and changes nothing."""


class SingleProcess(Named):
    """An object that spends in the process that made it, and of which there is one.

    After a fork both processes hold it, and what one of them spends the other does not see; so it is with a
    copy and with what a pickle gives back.

    Raises:
        TypeError: when it is copied or pickled.
    """

    def __init__(self) -> None:
        self._process = os.getpid()

    def _check_process(self) -> None:
        """Refuse to spend in another process.

        Raises:
            RuntimeError: this is not the process that made the object; nothing was spent.
        """
        if self._process != os.getpid():
            raise RuntimeError(
                f"A {type(self).__name__} spends in the process that made it, and this is another one, made "
                "by a fork: the two would spend the same budget twice. Make it in the process that uses it, "
                "and share what may be spent by a ledger. Nothing was spent."
            )

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            f"A {type(self).__name__} cannot be copied or pickled: the copy would spend the same budget once "
            "more. Hand over the object itself, and between processes share a ledger."
        )


class Budget(SingleProcess):
    """A privacy budget of one table: the cap, and the cost so far.

    Pure epsilons, zCDP rhos and Renyi divergences of one order add up even if later parameters depend on
    earlier answers, so one running sum against a fixed cap is a valid account. Units never mix: an event
    is counted by its cost in the budget's unit, and refused if it has none.

    Args:
        cap: the total that may be spent, an epsilon or a rho; for "renyi" the epsilon of (epsilon, delta).
        unit: "epsilon" (pure differential privacy), "rho" (zero-concentrated), or "renyi", the Renyi
            divergence at one order fixed at construction, which is the tightest for mixed kinds of noise.
        relation: the neighbouring relation. Default: that of the first table the budget is used for.
        delta: for unit "renyi", in (0, 1). For unit "rho" the sum of the deltas of events that hold up to
            one, such as `KeysEvent`; None allows none of them.

    Guarantees:
        Everything charged under one budget is together `cap`-DP (unit epsilon), `cap`-zCDP (unit rho; with a
        delta, delta-approximate `cap`-zCDP) or (cap, delta)-DP (unit renyi), under the neighbouring relation
        of the table it was charged for. Only the process that created it can spend it, and it cannot be
        copied.

    References:
        Rogers et al. 2016, "Privacy odometers and filters" (pure epsilon); Feldman and Zrnic 2021,
        "Individual privacy accounting via a Renyi filter" (rho, renyi).

    Example:
        >>> budget = Budget("0.3", relation=Relation.ADD_REMOVE)
        >>> for part in budget.split([1, 1, 1]):
        ...     budget.charge(part)
        >>> budget.remaining
        Fraction(0, 1)
    """

    def __init__(
        self,
        cap: Any,
        unit: str = "epsilon",
        *,
        relation: Relation | str | None = None,
        delta: Any = None,
    ):
        super().__init__()
        if isinstance(unit, float):
            raise TypeError(f'A delta goes with its unit: write Budget({cap}, unit="renyi", delta={unit}).')
        also = "" if isinstance(unit, str) else 'a delta stands as in Budget(1, unit="renyi", delta=1e-6)'
        unit = checks.choice("unit", unit, ("epsilon", "rho", "renyi"), also)
        if unit == "renyi" and delta is None:
            raise ValueError(
                "unit 'renyi' needs a delta, such as delta=1e-9: it counts towards (epsilon, delta)."
            )
        if unit == "epsilon" and delta is not None:
            raise ValueError(
                "delta goes with unit 'renyi', which counts towards (epsilon, delta), or with 'rho', for "
                "events that hold only up to a delta; unit 'epsilon' has none. Write, for example, "
                f"Budget({cap}, unit='renyi', delta={delta})."
            )
        self._unit = unit
        self._parent: Budget | None = None
        self._unit_of_privacy: Unit | None = None
        self._is_bound = False  # to a table
        self._delta = chosen_delta(delta) if delta is not None and unit == "rho" else Fraction(0)
        self._order, self._target = 0.0, ""
        if unit == "renyi":
            place = renyi.filter_order(cap, delta)
            self._order = float(renyi.ORDERS[place])
            self._cap = Fraction(float(renyi.caps(cap, delta)[place]))
            self._target = f"epsilon {as_text(exact_epsilon(cap))} and delta {as_text(chosen_delta(delta))}"
        else:
            self._cap = exact_epsilon(cap) if unit == "epsilon" else exact_rho(cap)
        self._spent = self._risked = Fraction(0)
        self._relation = None if relation is None else Relation.parse(relation)
        self._events: list[Event] = []
        self._lock = threading.Lock()

    @property
    def unit(self) -> str:
        """The unit of the cost: "epsilon", "rho" or "renyi"."""
        return self._unit

    @property
    def cap(self) -> Fraction:
        """The total that may be spent, in the unit; for "renyi" the divergence at its order, in nats."""
        return self._cap

    @property
    def spent(self) -> Fraction:
        """The total spent so far."""
        return self._spent

    @spent.setter
    def spent(self, value: Any) -> None:
        raise AttributeError("Spent budget cannot be given back: another Budget is a further spending.")

    @property
    def delta(self) -> Fraction:
        """The sum of the deltas that a budget in rho may spend beside it."""
        return self._delta

    @property
    def whole(self) -> Budget:
        """The budget of which this is a part, at last; itself, if of none."""
        return self if self._parent is None else self._parent.whole

    @property
    def remaining(self) -> Fraction:
        """The remaining budget."""
        return self._cap - self._spent

    @property
    def relation(self) -> Relation | None:
        """The neighbouring relation; None until a table is bound."""
        return self._relation

    @property
    def events(self) -> tuple[Event, ...]:
        """The events charged, in order."""
        return tuple(self._events)

    def bind(self, relation: Relation, unit: Unit | None = None) -> None:
        """Fix the neighbouring relation of the budget, and its unit of privacy.

        Raises:
            RuntimeError: called in another process than the one that created the budget.
            ValueError: the budget is for the other relation or unit; spends under two cannot be added.
        """
        self._check_process()
        if self._parent is not None:
            self._parent.bind(relation, unit)
        with self._lock:
            # a budget may have been charged before it has a relation
            for event in self._events:
                check_relation(event, relation)
            if self._relation is None:
                self._relation = relation
            if self._relation is not relation:
                raise ValueError(
                    f"This budget counts spends under the relation {self._relation.value}, but the table is "
                    f"used under {relation.value}: spends of the two cannot be added up. Use one relation, "
                    "or a budget of its own."
                )
            if self._is_bound and self._unit_of_privacy != unit:
                raise ValueError(
                    f"This budget counts spends on {self._unit_of_privacy or 'one record'}, and the "
                    f"table protects "
                    f"{unit or 'one record'}: spends on two units cannot be added up. Use a budget for each."
                )
            self._unit_of_privacy, self._is_bound = unit, True

    def split(self, weights: Sequence[Any]) -> tuple[Fraction, ...]:
        """Divide the remaining budget in proportion to weights; the parts sum to it exactly. Spends nothing.

        Returns:
            Epsilons or rhos. For unit "renyi" they are rhos, each of which costs order * rho.

        Raises:
            ValueError: nothing is left, there are no weights, or one is not positive and finite.
        """
        if self.remaining == 0:
            raise ValueError("There is nothing left of the budget to divide.")
        # of a Gaussian event with rho the divergence is order times rho, so that parts are told in rho
        whole = self.remaining / Fraction(self._order) if self._unit == "renyi" else self.remaining
        return split(whole, weights)

    def part(self, cap: Any, *, delta: Any = None) -> Budget:
        """Return a budget of its own within this one. Spends nothing.

        Args:
            cap: what the part may spend at most, in the same unit, epsilon or rho.
            delta: as for a budget; at most this one's.

        Returns:
            A budget whose every spend is one of this budget too.

        Raises:
            ValueError: the cap exceeds the rest of this budget, or its unit is "renyi".

        Example:
            >>> budget = Budget(1)
            >>> budget.part("0.1").charge("0.1")
            >>> budget.remaining
            Fraction(9, 10)
        """
        if self._unit == "renyi":
            raise ValueError("A budget of unit 'renyi' has no parts: charge it with events.")
        part = Budget(cap, self._unit, relation=self._relation, delta=delta)
        if part._cap > self.remaining or part._delta > self._delta:
            raise ValueError(
                f"A part may have at most the rest of a budget, {self._unit} "
                f"{as_text(self.remaining)}, and at "
                f"most its delta, got {as_text(part._cap)}."
            )
        part._parent = self
        return part

    def require(self, cost: Cost) -> None:
        """Check that a spend would fit, and spend nothing.

        Raises:
            BudgetExceeded: it would not.
            RuntimeError: another process than the one that made the budget.
        """
        self._check_process()
        self._check(self._as_events(cost))
        if self._parent is not None:
            self._parent.require(cost)

    def charge(self, cost: Cost) -> None:
        """Spend permanently: a charge stays even if the access it pays for fails afterwards.

        Raises:
            BudgetExceeded: the spend would exceed the cap; nothing was charged.
            RuntimeError: called in another process than the one that created the budget; nothing was charged.
        """
        self._check_process()
        events = self._as_events(cost)
        with self._lock:
            self._check(events)
            if self._parent is not None:
                # the whole first: what it refuses is not spent here either
                self._parent.charge(events)
            self._spent += self._sum(events)
            self._risked += sum(event.delta for event in events)
            self._events.extend(events)

    def statement(self) -> str:
        """Return the budget, the spending and the promise, for whoever is responsible for the data.

        Example:
            >>> budget = Budget(1, relation=Relation.ADD_REMOVE)
            >>> budget.charge(Fraction(1, 4))
            >>> print(budget.statement())
            Of epsilon 1 that may be spent on this table, 0.25 is spent, in 1 access (1 pure), and 0.75 is \
left. If one record is added to the table or removed from it, the probability of anything that was made from \
the answers so far changes at most by a factor of exp(0.25).
        """
        return f"{self._account()} {self._promise()}"

    def _account(self) -> str:
        kinds = collections.Counter(event.kind for event in self._events)
        listed = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
        accesses = f"{len(self._events)} access{'' if len(self._events) == 1 else 'es'}"
        made = f"in {accesses} ({listed})" if listed else "in no access"
        if self._unit == "renyi":
            share = float(self.spent / self.cap)
            return f"Of {self._target} that may be spent on this table, {share:.1%} is spent, {made}."
        return (
            f"Of {self._unit} {as_text(self.cap)} that may be spent on this table, {as_text(self.spent)} is "
            f"spent, {made}, and {as_text(self.remaining)} is left."
        )

    def _promise(self) -> str:
        if not self._events:
            return "Nothing has been promised about it yet."
        known, other = self._relation, "the table is replaced by a neighbour"
        neighbours = f"If {other if known is None else change(self._unit_of_privacy, known)}, "
        if self._unit == "renyi":
            return (
                f"{neighbours}the Renyi divergence of order {self._order:g} of what was made from the "
                f"answers so far is at most {float(self.spent):.6g}, well within {self._target}."
            )
        if self._unit == "epsilon":
            return (
                f"{neighbours}the probability of anything that was made from the answers so far changes at "
                f"most by a factor of exp({as_text(self.spent)})."
            )
        risk = f", but for a probability of {as_text(self._risked)}" if self._risked else ""
        return (
            f"{neighbours}what was made from the answers so far is protected by zero-concentrated "
            f"differential privacy with rho = {as_text(self.spent)}{risk}; pgmjax.privacy.epsilon_of says "
            "which epsilon that is for a delta."
        )

    def _as_events(self, cost: Cost) -> list[Event]:
        if isinstance(cost, str | numbers.Number):
            cost = exact("a spend", cost)
            if not cost > 0:
                raise ValueError(f"A spend must be > 0, got {as_text(cost)}.")
            if self._unit == "renyi":
                raise ValueError(
                    "A budget of unit 'renyi' is charged with events, such as GaussianEvent(rho)."
                )
            return [Pure(cost) if self._unit == "epsilon" else Concentrated(cost)]
        events: list[Any] = list(cost) if isinstance(cost, Iterable) else [cost]
        for event in events:
            checks.kind(
                event,
                Record,
                "A spend must be a number in the budget's unit, or events such as "
                "privacy.LaplaceEvent(epsilon)",
            )
        return events

    def _sum(self, events: Sequence[Event]) -> Fraction:
        if self._unit == "rho":
            return sum((event.rho for event in events), Fraction(0))
        if self._unit == "renyi":
            return sum((self._divergence(event) for event in events), Fraction(0))
        total = Fraction(0)
        for event in events:
            if event.epsilon is None:
                raise ValueError(
                    f"The budget counts pure epsilon, in which {event.kind} has no price: it is private only "
                    "up to a delta. Buy by epsilons, as in epsilons=[0.1], or open Budget(0.1, 'rho')."
                )
            total += event.epsilon
        return total

    def _divergence(self, event: Event) -> Fraction:
        """The Renyi divergence at the budget's order: a float rounded up, or the exact order * rho."""
        bound = float(event.renyi(np.array([self._order]))[0])
        exactly = Fraction(self._order) * event.rho
        return min(Fraction(bound), exactly) if math.isfinite(bound) else exactly

    def _check(self, events: Sequence[Event]) -> None:
        for event in events:
            if self._relation is not None:
                check_relation(event, self._relation)
        cost = self._sum(events)
        risk = self._risked + sum(event.delta for event in events)
        if risk > self._delta and self._unit == "rho":
            raise BudgetExceeded(
                f"This needs a delta of {as_text(risk)} beside rho in all, but the budget allows "
                f"{as_text(self._delta)}. Nothing was spent and no data was read."
            )
        if self._spent + cost > self._cap:
            if self._unit == "renyi":
                raise BudgetExceeded(
                    f"This needs {float(cost / self._cap):.4g} of {self._target}, but only "
                    f"{float(self.remaining / self._cap):.4g} of it is left. Nothing was spent and no data "
                    "was read."
                )
            raise BudgetExceeded(
                f"This needs {self._unit} {as_text(cost)}, but of {as_text(self._cap)} only "
                f"{as_text(self.remaining)} is left. Nothing was spent and no data was read."
            )

    def __repr__(self) -> str:
        if self._unit == "renyi":
            return f"Budget(renyi: {float(self._spent / self._cap):.1%} of {self._target} spent)"
        return f"Budget({self._unit}: {as_text(self._spent)} of {as_text(self._cap)} spent)"
