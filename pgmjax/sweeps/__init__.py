"""Sweeps: tables x workloads x mechanisms x epsilons x trials, resumable, with a page of their results.

For evaluation, not release: noise is seeded and errors are computed against the exact tables, so the results
of a sweep protect nobody.

- `grid`: the specification of a sweep with its tables, and its cells.
- `runner`: runs missing cells, here or on Ray. `work`: runs a group of trials. Their errors are there too.
- `store`: the results file. `page`: the results page.
"""

from pgmjax._internal import migration
from pgmjax.sweeps.grid import SweepGrid
from pgmjax.sweeps.page import render
from pgmjax.sweeps.runner import Outcome, SweepProgress, listing, on_ray, run
from pgmjax.sweeps.store import ResultFile

__all__ = ["Outcome", "ResultFile", "SweepGrid", "SweepProgress", "listing", "on_ray", "render", "run"]

migration.answer(globals())
