"""Discovery of domains: bins, labels and dates of columns that nobody described, found under the budget."""

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
