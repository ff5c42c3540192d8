"""The tables of a ledger and their rules, which hold for whoever writes to the file.

Rows are only ever added. Triggers refuse to change, delete or replace one, and refuse a charge that
does not add up or passes the cap; the code checks all that too, and `ledger_verify` afterwards.

Amounts are whole numbers of an account's unit, in JSON lists: one number for pure epsilon and rho,
one for each order of a Renyi account.
"""

from __future__ import annotations

import sqlite3

APPLICATION_ID = 0x50474D4C  # "PGML"
FORMAT = 1
LIMIT = 1 << 61  # caps stay below it; sums end at it, fit no cap, and two of them add up in 64 bits

_TABLES = """
CREATE TABLE ledger(
    id INTEGER PRIMARY KEY CHECK(id = 1), format INTEGER NOT NULL, name TEXT NOT NULL,
    key_check TEXT NOT NULL, created TEXT NOT NULL) STRICT;
CREATE TABLE budget(
    id INTEGER PRIMARY KEY, account TEXT NOT NULL UNIQUE,
    measure TEXT NOT NULL CHECK(measure IN ('pure', 'zcdp', 'renyi')),
    relation TEXT NOT NULL CHECK(relation IN ('add-remove', 'replace-one')),
    epsilon TEXT NOT NULL, delta TEXT NOT NULL,
    places INTEGER NOT NULL CHECK(places >= 12), orders TEXT NOT NULL, caps TEXT NOT NULL,
    digest TEXT NOT NULL UNIQUE, research INTEGER NOT NULL CHECK(research IN (0, 1)),
    max_attempts INTEGER NOT NULL CHECK(max_attempts >= 1), created TEXT NOT NULL) STRICT;
CREATE TABLE charge(
    id INTEGER PRIMARY KEY, account TEXT NOT NULL REFERENCES budget(account),
    number INTEGER NOT NULL, key TEXT NOT NULL, request_hash TEXT NOT NULL, events TEXT NOT NULL,
    secure INTEGER NOT NULL CHECK(secure IN (0, 1)), costs TEXT NOT NULL, totals TEXT NOT NULL,
    created TEXT NOT NULL, UNIQUE(account, key), UNIQUE(account, number)) STRICT;
CREATE TABLE attempt(
    id INTEGER PRIMARY KEY, charge INTEGER NOT NULL REFERENCES charge(id),
    answered INTEGER NOT NULL CHECK(answered >= 0), created TEXT NOT NULL) STRICT;
CREATE INDEX attempt_of ON attempt(charge, answered);
CREATE TABLE answer(
    id INTEGER PRIMARY KEY, charge INTEGER NOT NULL REFERENCES charge(id),
    step INTEGER NOT NULL CHECK(step >= 0), request_hash TEXT NOT NULL, payload BLOB NOT NULL,
    created TEXT NOT NULL, UNIQUE(charge, step)) STRICT;
CREATE TABLE chain(
    seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, row INTEGER NOT NULL, previous TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE, UNIQUE(kind, row)) STRICT;
"""

KINDS = ("ledger", "budget", "charge", "attempt", "answer")

# INSERT OR REPLACE deletes without a DELETE trigger, so that what it would replace is looked for here
_UNIQUE = {
    "ledger": "1",
    "budget": "id = NEW.id OR account = NEW.account OR digest = NEW.digest",
    "charge": "id = NEW.id OR (account = NEW.account AND (key = NEW.key OR number = NEW.number))",
    "attempt": "id = NEW.id",
    "answer": "id = NEW.id OR (charge = NEW.charge AND step = NEW.step)",
    "chain": "seq = NEW.seq OR hash = NEW.hash OR (kind = NEW.kind AND row = NEW.row)",
}

_KEPT = """
CREATE TRIGGER {table}_is_not_changed BEFORE UPDATE ON {table}
BEGIN SELECT RAISE(ABORT, 'a ledger is only added to'); END;
CREATE TRIGGER {table}_is_not_deleted BEFORE DELETE ON {table}
BEGIN SELECT RAISE(ABORT, 'a ledger is only added to'); END;
CREATE TRIGGER {table}_is_not_replaced BEFORE INSERT ON {table}
WHEN EXISTS (SELECT 1 FROM {table} WHERE {unique})
BEGIN SELECT RAISE(ABORT, 'a ledger is only added to'); END;
"""

_RULES = f"""
CREATE TRIGGER charge_adds_up BEFORE INSERT ON charge
WHEN NEW.number <> 1 + COALESCE((SELECT MAX(number) FROM charge WHERE account = NEW.account), 0)
  OR (SELECT COUNT(*) FROM json_each(NEW.costs))
    <> (SELECT COUNT(*) FROM budget, json_each(budget.caps) WHERE budget.account = NEW.account)
  OR (SELECT COUNT(*) FROM json_each(NEW.totals)) <> (SELECT COUNT(*) FROM json_each(NEW.costs))
  OR EXISTS (
    SELECT 1 FROM json_each(NEW.costs) AS cost JOIN json_each(NEW.totals) AS total ON total.key = cost.key
    WHERE cost.type <> 'integer' OR total.type <> 'integer' OR cost.value < 1 OR cost.value > {LIMIT}
      OR total.value <> MIN({LIMIT}, cost.value + COALESCE(
        (SELECT before.value FROM charge AS last, json_each(last.totals) AS before
         WHERE last.account = NEW.account AND last.number = NEW.number - 1 AND before.key = cost.key), 0)))
BEGIN SELECT RAISE(ABORT, 'the charge does not add up'); END;
CREATE TRIGGER charge_is_within_the_cap BEFORE INSERT ON charge
WHEN NOT EXISTS (
    SELECT 1 FROM budget, json_each(budget.caps) AS cap JOIN json_each(NEW.totals) AS total
        ON total.key = cap.key
    WHERE budget.account = NEW.account AND total.value <= cap.value AND total.value < {LIMIT})
BEGIN SELECT RAISE(ABORT, 'budget exceeded'); END;
CREATE TRIGGER charge_is_secure BEFORE INSERT ON charge
WHEN NEW.secure = 0 AND NOT EXISTS (SELECT 1 FROM budget WHERE account = NEW.account AND research = 1)
BEGIN SELECT RAISE(ABORT, 'noise that protects nobody'); END;
"""

SCHEMA = (
    _TABLES + "".join(_KEPT.format(table=table, unique=unique) for table, unique in _UNIQUE.items()) + _RULES
)


def statements() -> list[str]:
    """Return the schema statement by statement, to be run in one transaction."""
    found, rest = [], ""
    for piece in SCHEMA.split(";"):
        rest += piece + ";"
        if sqlite3.complete_statement(rest):
            found.append(rest.strip())
            rest = ""
    return found


def expected() -> dict[str, str]:
    """Return what the schema of a ledger must hold: the SQL of every table, index and trigger by name."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.executescript(SCHEMA)
        return present(connection)
    finally:
        connection.close()


def present(connection: sqlite3.Connection) -> dict[str, str]:
    """Return what the schema of a file holds, by name."""
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return dict(rows.fetchall())
