"""Run a sweep: cells missing from the results file are run group by group and stored at once.

The record of a run names the machine, its devices and the software versions.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import os
import pathlib
import platform
import time
import traceback
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax

from pgmjax._internal import checks, device, memory
from pgmjax.release import folder as release_folder
from pgmjax.sweeps import work
from pgmjax.sweeps.grid import Cell, Group, SweepGrid, Table, groups, load
from pgmjax.sweeps.store import ResultFile
from pgmjax.sweeps.work import MemoryForecast, Row, forecast

_MOST = 2**63 - 1  # largest value of a BIGINT column
_AHEAD = 4  # tasks in flight per core, so that no worker waits for the next
_CALLS = 100  # calls per worker; it is then replaced, since compiled programs hold memory
Job = tuple[Group, tuple[Cell, ...]]
Workers = Callable[[Sequence[Job], dict[str, Table]], Iterator[tuple[Group, list[Row], str]]]
"""Runs jobs in any order and yields, as each ends, its group, its rows and the host it ran on."""


def run(
    grid: SweepGrid,
    path: str | os.PathLike[str],
    *,
    retry_failed: bool = False,
    workers: Workers | None = None,
    watch: Callable[[SweepProgress], None] = lambda progress: None,
    check: Callable[[], None] = lambda: None,
) -> Outcome:
    """Run the cells that a results file does not hold yet, and store them.

    The trials of a group are run together and stored in one transaction. A run that is killed loses
    only its unfinished groups, and the next run continues from there. Cells that have a row are not run again
    (but see `retry_failed`).

    Args:
        grid: the sweep.
        path: the results file, created if missing. Several sweeps may share it, one after another.
        retry_failed: also rerun cells that failed or were refused.
        workers: runs the groups. Default: this process, one group after another.
        watch: called after each group.
        check: called before a failure is recorded; raises if the failure was caused by an interrupt.

    Raises:
        ImportError: DuckDB is not installed.
        RuntimeError: another process has the file open.
        ValueError: a table or workload does not fit the domain, or the file is not a results file.
    """
    start = time.perf_counter()
    checks.optional("duckdb", extra="tables")  # fail before tables are read
    tables = {spec.name: load(spec) for spec in grid.tables}
    listed = list(groups(grid, tables))
    with ResultFile(path) as results:
        keys = {cell.key for group in listed for cell in group.cells}
        known = {key: status for key, status in results.statuses().items() if key in keys}
        if retry_failed:
            known = {key: status for key, status in known.items() if status == work.DONE}
        lacking = [(group, tuple(cell for cell in group.cells if cell.key not in known)) for group in listed]
        jobs = [(group, cells) for group, cells in lacking if cells]
        ran, number = 0, uuid.uuid4().hex
        if jobs:
            results.add_run(number, {"run": number, "sweep": grid.name, "started": _now(), **facts()})
        for group, rows, host in (workers or _here(check))(jobs, tables):
            about = _about(grid, group, tables[group.table], number, host)
            results.add({**about, **row} for row in rows)
            known |= {row["key"]: row["status"] for row in rows}
            ran += len(rows)
            bad = tuple(row for row in rows if row["status"] != work.DONE)
            watch(SweepProgress(group, bad, len(known), len(keys), ran, time.perf_counter() - start))
    failed = sum(status != work.DONE for status in known.values())
    return Outcome(len(keys), ran, failed, time.perf_counter() - start)


def listing(grid: SweepGrid) -> Iterator[tuple[Group, MemoryForecast]]:
    """Yield the groups of a grid with their memory forecasts; nothing is run.

    Raises:
        ValueError: a table or workload does not fit the domain.
    """
    tables = {spec.name: load(spec) for spec in grid.tables}
    for group in groups(grid, tables):
        yield group, forecast(group, tables[group.table].domain)


@dataclasses.dataclass(frozen=True)
class SweepProgress:
    """The progress of a run.

    Attributes:
        group: the group that has just finished.
        failures: its rows that failed or were refused.
        done: number of cells of the grid that have a row, from this run or earlier ones.
        total: number of cells of the grid.
        ran: number of cells stored by this run.
        seconds: time since this run began (seconds).
    """

    group: Group
    failures: tuple[Row, ...]
    done: int
    total: int
    ran: int
    seconds: float

    @property
    def rate(self) -> float:
        """Cells per second in this run."""
        return self.ran / max(self.seconds, 1e-9)

    @property
    def left(self) -> float:
        """Estimated seconds remaining at this rate."""
        return (self.total - self.done) / max(self.rate, 1e-9)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The outcome of a run.

    Attributes:
        total: number of cells of the grid.
        ran: number of cells stored by this run.
        failed: number of cells of the grid that failed or were refused, in any run.
        seconds: duration of this run.
    """

    total: int
    ran: int
    failed: int
    seconds: float


def _here(check: Callable[[], None]) -> Workers:
    def work_here(jobs: Sequence[Job], tables: dict[str, Table]) -> Iterator[tuple[Group, list[Row], str]]:
        place = None
        for group, cells in jobs:
            if place not in (None, (group.table, group.workload)):
                jax.clear_caches()  # its programs are not needed again, and they hold memory
            place = (group.table, group.workload)
            yield group, work.run_group(group, cells, tables[group.table], check), platform.node()

    return work_here


def _about(grid: SweepGrid, group: Group, table: Table, run: str, host: str) -> dict[str, Any]:
    """Return the fields that all rows of a group share."""
    return {
        "group_key": group.key,
        "sweep": grid.name,
        "table_name": group.table,
        "records": table.data.count(),
        "attributes": len(table.domain),
        "workload": group.workload,
        "entries": len(group.asked),
        "queries": min(group.asked.num_queries(table.domain), _MOST),
        "mechanism": group.mechanism.name,
        "label": group.mechanism.label,
        "options": json.dumps(dict(group.mechanism.options), default=str),
        "epsilon": group.content["epsilon"],
        "epsilon_value": float(group.epsilon),
        "delta": group.content["delta"],
        "relation": grid.relation.value,
        "run": run,
        "host": host,
        "finished": datetime.datetime.now(datetime.UTC).replace(tzinfo=None),
    }


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def facts() -> dict[str, Any]:
    """Return the machine and software versions, for the record of a run."""
    devices = device.kinds()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "host": platform.node(),
        "system": platform.platform(),
        "processor": _processor(),
        "cores": cores,
        "memory_bytes": memory.total_bytes(),
        "devices": [f"{devices.count(kind)} x {kind}" for kind in dict.fromkeys(devices)],
        "backend": device.platform(),
        "versions": release_folder.versions(),
    }


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


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
    return max(group.grid.estimator.get("devices", 1) for group, _ in jobs) if resources.get("GPU") else 0


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
            rows, host = work.rows_of(cells, traceback.format_exc()), "lost"
        yield group, rows, host


def _on_worker(group: Group, cells: Sequence[Cell], table: Table) -> tuple[list[Row], str]:
    return work.run_group(group, cells, table), platform.node()
