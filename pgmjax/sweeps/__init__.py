"""Sweeps: tables x workloads x mechanisms x epsilons x trials, resumable, with a page of their results.

Evaluation, not release: noise is seeded and errors are taken against the exact tables, so that a
sweep's results protect nobody.

- `grid`: a sweep as it is written down; `fields` takes its keys. `tables`: its tables. `cells`: its cells.
- `runner`: runs what is missing. `work` runs a group of trials, `remote` on Ray. `evaluate`: their errors.
- `store`: the file of results. `summary`: medians and quartiles. `page`: the page, with `figures`.
"""

from pgmjax._internal.moved import serve_old_names
from pgmjax.sweeps.grid import SweepGrid
from pgmjax.sweeps.page import render
from pgmjax.sweeps.remote import on_ray
from pgmjax.sweeps.runner import Outcome, SweepProgress, listing, run
from pgmjax.sweeps.store import ResultFile

__all__ = ["Outcome", "ResultFile", "SweepGrid", "SweepProgress", "listing", "on_ray", "render", "run"]

serve_old_names(__name__)
