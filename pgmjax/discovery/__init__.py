"""Discovery of domains: bins, labels and dates of columns that nobody described, found under the budget."""

from pgmjax.data.draft import Draft
from pgmjax.discovery.discover import Discovery, Found, Purpose, discover, first_look
from pgmjax.discovery.open_table import OpenTable, key_column
from pgmjax.discovery.run import DiscoveryRun

__all__ = [
    "Discovery",
    "DiscoveryRun",
    "Draft",
    "Found",
    "OpenTable",
    "Purpose",
    "discover",
    "first_look",
    "key_column",
]
