"""Sweeps: tables x workloads x mechanisms x epsilons x trials, resumable, with a page of their results.

For evaluation, not release: noise is seeded and errors are computed against the exact tables, so the results
of a sweep protect nobody.

- `grid`: the specification of a sweep; `fields` reads its keys, `tables` its tables. `cells`: its cells.
- `runner`: runs missing cells. `work` runs a group of trials, `remote` on Ray. `evaluate`: their errors.
- `store`: the results file. `summary`: medians and quartiles. `page`: the results page, with `figures`.
"""

from pgmjax.sweeps.grid import SweepGrid
from pgmjax.sweeps.page import render
from pgmjax.sweeps.remote import on_ray
from pgmjax.sweeps.runner import Outcome, SweepProgress, listing, run
from pgmjax.sweeps.store import ResultFile

__all__ = ["Outcome", "ResultFile", "SweepGrid", "SweepProgress", "listing", "on_ray", "render", "run"]
