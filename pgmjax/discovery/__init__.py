"""Discovery of domains: bins, labels and dates of columns that nobody described, found under the budget.

- `discover`: the search, column by column. `open_table`: a table some of whose columns are not described.
- `probes`: public encodings of raw values, which the choke point counts. `sketch`: bins from noisy counts.

Elsewhere: labels above a threshold and the shape of a tree (`pgmjax.privacy.partition`), drafts of a
domain file (`pgmjax.data.draft`), the definition that a ledger's account gets (`pgmjax.privacy.ledger`).
"""

from pgmjax._internal import migration
from pgmjax.data.draft import Draft
from pgmjax.discovery.discover import Discovery, NothingFound
from pgmjax.discovery.open_table import OpenTable

__all__ = [
    "Discovery",
    "Draft",
    "NothingFound",
    "OpenTable",
]

migration.answer(globals())
