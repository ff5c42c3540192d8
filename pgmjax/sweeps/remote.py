"""Run groups of a sweep as Ray tasks; their rows are returned to the one process that writes."""

from __future__ import annotations

import platform
import traceback
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pgmjax._internal import checks
from pgmjax.sweeps.cells import Cell, Group
from pgmjax.sweeps.runner import Job, Workers
from pgmjax.sweeps.tables import Table
from pgmjax.sweeps.work import FAILED, Row, run_group

_AHEAD = 4  # tasks in flight per core, so that no worker waits for the next
_CALLS = 100  # calls per worker; it is then replaced, since compiled programs hold memory


def on_ray(address: str, *, gpus: float | None = None, retries: int = 3) -> Workers:
    """Return workers that run groups on a Ray cluster.

    Args:
        address: address of an existing cluster ("auto" finds one on this machine), or "local" to start one
            here for the duration of the sweep.
        gpus: GPUs per task; with a fraction, tasks share a GPU. Default: on a cluster that has GPUs as many
            as the estimator's `devices`, so that each card has a worker of its own; elsewhere none.
        retries: how often a task is retried if its worker is lost, before its cells count as failed.

    Raises:
        ImportError: ray is not installed.
        ConnectionError: no cluster was found at the address.
    """
    ray = checks.optional("ray", extra="ray")
    if gpus is not None:
        checks.number("gpus", gpus, at_least=0)
    retries = checks.integer("retries", retries, low=0)

    def work_on_ray(jobs: Sequence[Job], tables: dict[str, Table]) -> Iterator[tuple[Group, list[Row], str]]:
        if not jobs:
            return
        quiet: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
        ray.init(address=address, log_to_driver=False, **quiet)
        try:
            each = _gpus(ray.cluster_resources(), jobs) if gpus is None else gpus
            task = ray.remote(num_gpus=each, max_retries=retries, max_calls=_CALLS)(_on_worker)
            stored = {name: ray.put(table) for name, table in tables.items()}
            yield from _collect(ray, task, jobs, stored)
        finally:
            ray.shutdown()

    return work_on_ray


def _gpus(resources: Mapping[str, float], jobs: Sequence[Job]) -> float:
    """Return the GPUs of a task where nobody says: those that its fits share, if the cluster has any."""
    return max(group.estimator.get("devices", 1) for group, _ in jobs) if resources.get("GPU") else 0


def _collect(ray: Any, task: Any, jobs: Sequence[Job], stored: dict[str, Any]) -> Iterator[Any]:
    """Keep the cluster busy and yield results in order of completion."""
    waiting = iter(jobs)
    running: dict[Any, Job] = {}
    most = _AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
    while True:
        while len(running) < most and (job := next(waiting, None)) is not None:
            running[task.remote(*job, stored[job[0].table])] = job
        if not running:
            return
        (ended, *_), _ = ray.wait(list(running))
        group, cells = running.pop(ended)
        try:
            rows, host = ray.get(ended)
        except ray.exceptions.RayError:  # the worker was lost on every retry
            rows, host = _lost(cells), "lost"
        yield group, rows, host


def _on_worker(group: Group, cells: Sequence[Cell], table: Table) -> tuple[list[Row], str]:
    return run_group(group, cells, table), platform.node()


def _lost(cells: Sequence[Cell]) -> list[Row]:
    error = traceback.format_exc()
    return [
        {"key": cell.key, "trial": cell.trial, "seed": cell.seed, "status": FAILED, "error": error}
        for cell in cells
    ]
