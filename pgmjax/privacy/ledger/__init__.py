"""The durable account of what was spent on tables, across runs, processes and crashes.

`ledger.Ledger` is the entry point; `journal` keeps a mechanism's run in it. `account` holds the budget and
charges of a table, in the units of `meter`. `charge` checks and records a charge, and stores its answers.
`database` is the SQLite file: location, tables, connections and transactions. `chain` seals the rows,
`verify` looks for damage, and `errors` defines the exceptions.
"""

from pgmjax.privacy.ledger.account import Account, ChargeRecord
from pgmjax.privacy.ledger.charge import Charge
from pgmjax.privacy.ledger.errors import AttemptsExhausted, IdempotencyConflict, LedgerError, NoLedgerError
from pgmjax.privacy.ledger.ledger import Ledger
from pgmjax.privacy.ledger.verify import Verification

__all__ = [
    "Account",
    "AttemptsExhausted",
    "Charge",
    "ChargeRecord",
    "IdempotencyConflict",
    "Ledger",
    "LedgerError",
    "NoLedgerError",
    "Verification",
]
