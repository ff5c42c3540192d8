"""Sweeps: tables x workloads x mechanisms x epsilons x trials, resumable, with a page of their results.

Evaluation, not release: noise is seeded and errors are taken against the exact tables, so that nothing
of a sweep's results is private.
"""

from pgmjax.sweeps.grid import Grid
from pgmjax.sweeps.page import render
from pgmjax.sweeps.remote import on_ray
from pgmjax.sweeps.runner import Outcome, Progress, listing, run
from pgmjax.sweeps.store import ResultFile

__all__ = ["Grid", "Outcome", "Progress", "ResultFile", "listing", "on_ray", "render", "run"]
