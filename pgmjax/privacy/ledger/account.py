"""A ledger's accounts: the budget of each table and the charges made to it, as stored in the file.

The promise for a table is checked before it is recorded, see `budget_row`.
"""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from fractions import Fraction
from typing import Any

from pgmjax._internal import checks
from pgmjax.data.definition import OpenDefinition, TableDefinition, instead_of_drop
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation, Unit, change
from pgmjax.privacy.exact import as_text, chosen_delta, exact, exact_delta, exact_epsilon
from pgmjax.privacy.ledger.database import keeps_figures
from pgmjax.privacy.ledger.meter import Meter

# every charge holds the sums up to it, so that the last one tells them all
_BUDGET_QUERY = (
    "SELECT budget.account, measure, relation, epsilon, delta, places, orders, caps, digest, research, "
    "max_attempts, budget.created, totals, COALESCE(number, 0) FROM budget LEFT JOIN charge ON "
    "charge.account = budget.account AND number = (SELECT MAX(number) FROM charge AS other WHERE "
    "other.account = budget.account)"
)
_CHARGE_QUERY = (
    "SELECT id, account, number, key, events, secure, costs, totals, created, (SELECT COUNT(*) FROM attempt "
    "WHERE attempt.charge = charge.id), (SELECT COUNT(*) FROM answer WHERE answer.charge = charge.id) FROM "
    "charge"
)

_LONGEST_WORD = 200
_MOST_ATTEMPTS = 10**6


@dataclasses.dataclass(frozen=True)
class ExactFigure:
    """A note that an exact figure about the people of an account was published; no budget covers it.

    Attributes:
        what: what was published and where, without its value.
        noted: time of the note, UTC.
    """

    what: str
    noted: str


@dataclasses.dataclass(frozen=True)
class Account:
    """The budget of one table, as it stood when it was asked for.

    Attributes:
        name: the account's name.
        measure: "pure" (epsilons are added), "zcdp" (rhos) or "renyi" (divergences at several orders).
        relation: which tables are neighbours.
        epsilon: the epsilon promised for all releases together.
        delta: the delta of the same promise; 0 with the measure "pure".
        cap: the total that may be charged, in epsilon (pure), rho (zcdp) or Renyi divergence at `order`.
        spent: the total charged so far, in the same unit.
        order: for a Renyi account, the order with the largest remaining share of its cap; otherwise None.
        research: whether insecure (repeatable) noise is accepted.
        max_attempts: number of attempts allowed for a charge without a new answer.
        charges: the number of charges.
        digest: the keyed digest of the table.
        created: when it was registered, UTC.
        definition: the table's, by its holder, or as it was found by the run of charge `found_by`; None
            until `Ledger.set_domain` gives it, or a run finds it. A correction replaces it.
        open: what the holder left to be discovered; None if nothing.
        found_by: number of the charge of the run that found the definition, or None.
        label_delta: the part of delta that is kept for the discovery of labels.
        unit: what one record is of, such as "person", in words, for the records; "" if nobody said. The
            unit of privacy is the definition's.
        versions: digests of further tables of the same people.
        exact: the exact figures about these people that were noted beside the releases, the oldest first.
    """

    name: str
    measure: str
    relation: Relation
    epsilon: Fraction
    delta: Fraction
    cap: Fraction
    spent: Fraction
    order: float | None
    research: bool
    max_attempts: int
    charges: int
    digest: str
    created: str
    definition: TableDefinition | None = None
    unit: str = ""
    versions: tuple[str, ...] = ()
    open: OpenDefinition | None = None
    found_by: int | None = None
    label_delta: Fraction = Fraction(0)
    exact: tuple[ExactFigure, ...] = ()
    _meter: Meter = dataclasses.field(init=False, repr=False, compare=False)
    _given: int | None = dataclasses.field(init=False, repr=False, compare=False)  # row of its definition

    @property
    def unit_of_privacy(self) -> Unit | None:
        """Whom all releases together protect: the records of a unit, or None for one record."""
        held = self.definition if self.open is None else self.open
        return None if held is None else held.unit

    @property
    def remaining(self) -> Fraction:
        """The part that may still be charged."""
        return self.cap - self.spent

    def statement(self) -> str:
        """Return the promise and the spending as sentences, for whoever is responsible for the data."""
        neighbours = change(self.unit_of_privacy, self.relation)
        promise = f"epsilon = {as_text(self.epsilon)}"
        if self.delta:
            promise += f" and delta = {as_text(self.delta)}"
        times = "no charge" if not self.charges else f"{self.charges} charge{'s' * (self.charges > 1)}"
        text = (
            f"Account {self.name}: all releases of this table together are differentially private with "
            f"{promise}. If {neighbours}, the probability of anything made from them changes at "
            f"most by a factor of exp({as_text(self.epsilon)})"
            f"{', up to delta' if self.delta else ''}. Of {self._counted()} {as_text(self.cap)}, "
            f"{as_text(self.spent)} is spent, in {times}, and {as_text(self.remaining)} is left."
        )
        if self.open is not None:
            text += f" {self._discovered(self.open)}"
        if self.unit:
            text += f" One record is of one {self.unit}."
        if number := len(self.exact):
            figures = "1 exact figure was" if number == 1 else f"{number} exact figures were"
            text += f" Beside them {figures} published, which no budget covers."
        if self.research:
            text += " For research: noise that can be repeated is let in, and such releases protect nobody."
        return text

    def _discovered(self, held: OpenDefinition) -> str:
        names = ", ".join(held.draft.open)
        if self.definition is not None:
            return f"Charge {self.found_by} found the domain of {names}."
        reserved = (
            f", for whose labels {as_text(self.label_delta)} of delta is kept" if self.label_delta else ""
        )
        return f"The domain of {names} is open{reserved}, until a run with --discover finds it."

    def _counted(self) -> str:
        if self.order is not None:
            return f"Renyi divergence at order {self.order:g} (the order with most left)"
        return {"pure": "epsilon", "zcdp": "rho"}[self.measure]

    def to_dict(self) -> dict[str, Any]:
        """Return the account with exact numbers as text, for JSON."""
        fields = [field.name for field in dataclasses.fields(self) if field.init]
        record = {name: getattr(self, name) for name in fields}
        record["definition"] = None if self.definition is None else self.definition.to_dict()
        if self.open is None:
            del record["open"], record["found_by"], record["label_delta"]
        else:
            record |= {"open": self.open.to_dict(), "label_delta": as_text(self.label_delta)}
        record["versions"] = list(self.versions)
        record["exact"] = [dataclasses.asdict(each) for each in self.exact]
        exact_numbers = ("epsilon", "delta", "cap", "spent", "remaining")
        record |= {name: as_text(getattr(self, name)) for name in exact_numbers}
        return {**record, "statement": self.statement(), "relation": self.relation.value}


@dataclasses.dataclass(frozen=True)
class ChargeRecord:
    """A recorded charge.

    Attributes:
        id: its number in the ledger.
        account: name of the account.
        number: its number in the account, from 1.
        key: the idempotency key.
        events: the events charged, as `Event.to_dict` gives them.
        secure: whether the noise is secure.
        cost: its cost, in the account's unit.
        total: the account's total including this charge, in the same unit.
        created: time of the charge, UTC.
        attempts: number of attempts.
        answers: number of stored answers.
    """

    id: int
    account: str
    number: int
    key: str
    events: tuple[dict[str, Any], ...]
    secure: bool
    cost: Fraction
    total: Fraction
    created: str
    attempts: int
    answers: int

    def to_dict(self) -> dict[str, Any]:
        """Return the charge with exact numbers as text, for JSON."""
        return {
            **dataclasses.asdict(self),
            "events": list(self.events),
            "cost": as_text(self.cost),
            "total": as_text(self.total),
        }


def accounts(connection: sqlite3.Connection, where: str = "", value: Any = None) -> list[Account]:
    """Return the accounts in the order of their registration.

    Args:
        connection: a connection in a transaction.
        where: name of the column to filter by, or "" for all accounts.
        value: the value that column must have.
    """
    condition = f" WHERE budget.{where} = :value" if where else ""
    if where == "digest":
        condition += " OR budget.account IN (SELECT account FROM version WHERE digest = :value)"
    found = connection.execute(f"{_BUDGET_QUERY}{condition} ORDER BY budget.id", {"value": value}).fetchall()
    return [_account(connection, row) for row in found]


def _holding(
    connection: sqlite3.Connection, account: str, row: tuple[int, str, str] | None
) -> dict[str, Any]:
    """Return what an account's holder, and a discovery, said of the table: fields of `Account`.

    Args:
        connection: a connection in a transaction.
        account: its name.
        row: as `last_definition` returns it.
    """
    query = "SELECT digest FROM version WHERE account = ? ORDER BY id"
    fields: dict[str, Any] = {
        "versions": tuple(digest for (digest,) in connection.execute(query, (account,))),
        "exact": _figures(connection, account),
    }
    if row is None:
        return fields
    record, fields["unit"] = json.loads(row[1]), row[2]
    fields["label_delta"] = exact("label_delta", record["label_delta"])
    if "draft" not in record:
        return {**fields, "definition": TableDefinition.from_dict(record)}
    query = "SELECT definition, charge FROM discovery WHERE draft = ?"
    found = connection.execute(query, (row[0],)).fetchone()
    if found is not None:
        fields |= {"definition": TableDefinition.from_dict(json.loads(found[0])), "found_by": found[1]}
    return {**fields, "open": OpenDefinition.from_dict(record)}


def _figures(connection: sqlite3.Connection, account: str) -> tuple[ExactFigure, ...]:
    if not keeps_figures(connection):
        return ()
    query = "SELECT what, created FROM exact_figure WHERE account = ? ORDER BY id"
    return tuple(ExactFigure(*row) for row in connection.execute(query, (account,)))


def last_definition(connection: sqlite3.Connection, account: str) -> tuple[int, str, str] | None:
    """Return number, text and unit of the definition that an account has, the last one that was given."""
    query = "SELECT id, definition, unit FROM definition WHERE account = ? ORDER BY id DESC LIMIT 1"
    found: tuple[int, str, str] | None = connection.execute(query, (account,)).fetchone()
    return found


def rests_on_definition(connection: sqlite3.Connection, account: str) -> bool:
    """Return whether an answer was released by the definition of an account: any but those that found it."""
    query = (
        "SELECT 1 FROM answer JOIN charge ON charge.id = answer.charge WHERE charge.account = ? AND NOT "
        "EXISTS (SELECT 1 FROM discovery WHERE discovery.charge = charge.id AND answer.step < "
        "discovery.answers)"
    )
    return connection.execute(query, (account,)).fetchone() is not None


def charges(connection: sqlite3.Connection, account: Account, key: str | None = None) -> list[ChargeRecord]:
    """Return the charges of an account, oldest first, or the one of a key if there is one."""
    condition = "" if key is None else " AND key = :key"
    query = f"{_CHARGE_QUERY} WHERE account = :account{condition} ORDER BY number"
    rows = connection.execute(query, {"account": account.name, "key": key})
    return [_charge(row, account._meter) for row in rows.fetchall()]


def _account(connection: sqlite3.Connection, row: tuple[Any, ...]) -> Account:
    name, measure, relation, epsilon, delta, places, orders, caps, digest, research, tries, created = row[:12]
    meter = Meter(measure, places, tuple(json.loads(orders)), tuple(json.loads(caps)))
    totals = (0,) * len(meter.caps) if row[12] is None else tuple(json.loads(row[12]))
    place = meter.telling(totals)
    given = last_definition(connection, name)
    account = Account(
        name=name,
        measure=measure,
        relation=Relation.parse(relation),
        epsilon=exact("epsilon", epsilon),
        delta=exact("delta", delta),
        cap=meter.amount(meter.caps[place]),
        spent=meter.amount(totals[place]),
        order=meter.orders[place] if meter.orders else None,
        research=bool(research),
        max_attempts=tries,
        charges=row[13],
        digest=digest,
        created=created,
        **_holding(connection, name, given),
    )
    checks.set_fields(account, _meter=meter, _given=None if given is None else given[0])
    return account


def _charge(row: tuple[Any, ...], meter: Meter) -> ChargeRecord:
    costs, totals = json.loads(row[6]), json.loads(row[7])
    place = meter.telling(totals)
    return ChargeRecord(
        id=row[0],
        account=row[1],
        number=row[2],
        key=row[3],
        events=tuple(json.loads(row[4])),
        secure=bool(row[5]),
        cost=meter.amount(costs[place]),
        total=meter.amount(totals[place]),
        created=row[8],
        attempts=row[9],
        answers=row[10],
    )


def budget_row(
    name: str,
    *,
    epsilon: Any,
    delta: Any = 0,
    relation: Relation | str,
    measure: str | None = None,
    research: bool = False,
    max_attempts: int = 10,
    label_delta: Fraction = Fraction(0),
) -> dict[str, Any]:
    """Return the row of a table's budget without its digest and time; see `Ledger.register`.

    The cap is that of (epsilon, delta - label_delta).

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: a number is out of range, or the measure and delta are inconsistent.
    """
    cap, risk = exact_epsilon(epsilon), chosen_delta(delta)
    kind = measure if measure is not None else "zcdp" if risk else "pure"
    meter = Meter.for_promise(kind, cap, risk - label_delta)
    return {
        "account": word("name", name),
        "measure": meter.measure,
        "relation": Relation.parse(relation).value,
        "epsilon": as_text(cap),
        "delta": as_text(risk),
        "places": meter.places,
        "orders": json.dumps(meter.orders),
        "caps": json.dumps(meter.caps),
        "research": int(flag("research", research)),
        "max_attempts": checks.integer("max_attempts", max_attempts, low=1, high=_MOST_ATTEMPTS),
    }


def label_delta_of(domain: Any, delta: Any) -> Fraction:
    """Return the part of an account's delta that is kept for the discovery of labels: half, if any may be.

    Raises:
        ValueError: open columns may be text, and the account has no delta.
    """
    if not isinstance(domain, OpenDefinition) or not domain.draft.may_have_labels:
        return Fraction(0)
    risk = exact_delta(delta)
    if risk == 0:
        raise ValueError(
            "Labels of text cannot be found without a delta, and these open columns may be text: "
            f"{', '.join(domain.draft.maybe_text)}. Give the account a delta above 0, or say in the domain "
            "what they are, {bins: discover} for numbers."
        )
    return risk / 2


def definition_row(
    account: str, domain: Any, unit: Any, relation: Relation, label_delta: Fraction = Fraction(0)
) -> dict[str, Any]:
    """Return the row of a table's definition, all but its time; see `Ledger.set_domain`.

    Raises:
        TypeError: neither a domain nor a definition, or a unit that is no string.
        ValueError: a definition that does not go with the relation, or has another unit.
    """
    definition = TableDefinition(domain) if isinstance(domain, Domain) else domain
    if not isinstance(definition, TableDefinition | OpenDefinition):
        raise TypeError(
            f"domain must be a pgmjax.Domain or a privacy.TableDefinition, got {type(domain).__name__}."
        )
    if isinstance(unit, Unit):
        if definition.unit not in (None, unit):
            raise ValueError(
                f"The definition of the table has another unit, {definition.unit}: give one of them."
            )
        definition, unit = dataclasses.replace(definition, unit=unit), None
    if isinstance(definition, OpenDefinition):
        if definition.relation is not relation:
            raise ValueError(
                f"The definition of the table is for {definition.relation.value}, and the account is under "
                f"{relation.value}: give the same relation."
            )
    elif definition.rows_outside == "drop" and relation is Relation.REPLACE_ONE:
        raise ValueError(
            'rows_outside "drop" makes the number of records private, and replace-one makes it public: '
            f"{instead_of_drop(definition.domain)}."
        )
    text = json.dumps({**definition.to_dict(), "label_delta": as_text(label_delta)})
    return {"account": account, "definition": text, "unit": "" if unit is None else word("unit", unit)}


def still_defined(connection: sqlite3.Connection, account: Account) -> bool:
    """Return whether an account has the definition it had when it was read, or one that completes it."""
    given = last_definition(connection, account.name)
    if given is None or given[0] == account._given:
        return True
    return completes(account, {"definition": given[1]})


def completes(account: Account, row: dict[str, Any]) -> bool:
    """Return whether a row of a definition describes the open columns of an account, and changes no other."""
    record = json.loads(row["definition"])
    if account.open is None or account.found_by is not None or "draft" in record:
        return False
    wanted = TableDefinition.from_dict(record)
    try:
        return account.open.closed_by(wanted.domain) == wanted
    except ValueError:
        return False


def word(name: str, value: Any) -> str:
    """Return a checked name: printable text on one line."""
    then = "write digest=ledger.digest_of(table)" if name == "digest" else ""
    checks.kind(value, str, f"{name} must be a string", then)
    if not (value.isprintable() and value.strip() == value and 1 <= len(value) <= _LONGEST_WORD):
        raise ValueError(
            f"{name} must be 1 to {_LONGEST_WORD} printable characters without white space around, got "
            f"{value[:50]!a}."
        )
    return value


def flag(name: str, value: Any) -> bool:
    """Return a checked bool; any other type raises TypeError."""
    checks.kind(value, bool, f"{name} must be a bool")
    return value
