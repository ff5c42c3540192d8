"""The durable account of what was spent on tables, across runs, processes and crashes.

`ledger.Ledger` is the way in; `journal` keeps a mechanism's run in it. The file is made by `new`, opened by
`file` and `connection`, laid out in `schema`, sealed by `chain` and checked by `verify`.
"""

from pgmjax.privacy.ledger.account import Account, ChargeRecord
from pgmjax.privacy.ledger.charge import Charge
from pgmjax.privacy.ledger.errors import AttemptsExhausted, IdempotencyConflict, LedgerError
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
    "Verification",
]
