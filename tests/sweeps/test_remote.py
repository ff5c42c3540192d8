"""Sweeps on a Ray cluster of two workers, one of which is killed midway."""

import os
import pathlib
import signal
import time

import pytest

from pgmjax import sweeps
from pgmjax._internal import checks
from pgmjax.sweeps.store import COLUMNS, ResultFile
from tests.sweeps.conftest import CIRCUMSTANCES

EXACT = [
    name
    for name, kind in COLUMNS.items()
    if name not in CIRCUMSTANCES
    and not kind.startswith("DOUBLE")
    and name not in ("error", "steps", "fit_status")
]


def test_without_ray_the_extra_is_named(monkeypatch):
    def missing(module, extra):
        raise ImportError(f"{module} is not installed: run  pip install 'pgmjax[{extra}]'")

    monkeypatch.setattr(checks, "optional", missing)
    with pytest.raises(ImportError, match="pip install 'pgmjax\\[ray\\]'"):
        sweeps.on_ray("local")


@pytest.mark.parametrize("settings", [{"gpus": -1}, {"retries": -1}])
def test_bad_settings_are_refused(settings):
    pytest.importorskip("ray")
    with pytest.raises(ValueError, match="must be"):
        sweeps.on_ray("local", **settings)


def test_each_card_has_a_worker_and_each_mesh_its_cards(write_grid):
    from pgmjax.sweeps.runner import _gpus

    plain = write_grid().read_text()
    for text, cards in ((plain, 1), (plain + "[estimator]\ndevices = 4\n", 4)):
        grid = sweeps.SweepGrid.read(write_grid(text))
        jobs = [(group, group.cells) for group, _ in sweeps.listing(grid)]
        assert (_gpus({"CPU": 8.0, "GPU": 8.0}, jobs), _gpus({"CPU": 8.0}, jobs)) == (cards, 0)


@pytest.mark.slow
def test_a_cluster_that_loses_a_worker_ends_with_the_rows_of_an_undisturbed_sweep(write_grid, tmp_path):
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    text = write_grid().read_text().replace('[0.5, "1/3"]', "[0.3, 0.5, 0.7, 1, 2, 3]")
    text += '[[mechanisms]]\nname = "mwem"\noptions = { rounds = [1, 2] }\n'
    grid = sweeps.SweepGrid.read(write_grid(text))
    sweeps.run(grid, tmp_path / "whole.duckdb")
    killed = []

    def watch(progress):
        if not killed and progress.ran >= 8:
            killed.append(kill_a_busy_worker())

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    try:
        workers = sweeps.on_ray(cluster.address)
        outcome = sweeps.run(grid, tmp_path / "r.duckdb", workers=workers, watch=watch)
    finally:
        cluster.shutdown()
    assert killed and (outcome.total, outcome.ran, outcome.failed) == (36, 36, 0)
    whole, rows = (rows_of(tmp_path / name) for name in ("whole.duckdb", "r.duckdb"))
    assert [[row[name] for name in EXACT] for row in rows] == [[row[name] for name in EXACT] for row in whole]
    for ours, true in zip(rows, whole, strict=True):  # another process may round differently
        assert ours["mean_absolute"] == pytest.approx(true["mean_absolute"], rel=1e-3)


def rows_of(path):
    with ResultFile(path, read_only=True) as results:
        return results.rows()


def kill_a_busy_worker():
    """Kill a process of this test's cluster that is running a task, and return its number."""
    for _ in range(600):
        for entry in filter(str.isdigit, os.listdir("/proc")):
            if b"ray::_on_worker" in read(entry, "cmdline") and os.getpid() in ancestors(int(entry)):
                os.kill(int(entry), signal.SIGKILL)
                return int(entry)
        time.sleep(0.05)
    raise AssertionError("no worker was seen at work")


def ancestors(process):
    found = []
    while process > 1 and (status := read(process, "stat")):
        process = int(status.rpartition(b")")[2].split()[1])
        found.append(process)
    return found


def read(process, name):
    try:
        return pathlib.Path(f"/proc/{process}/{name}").read_bytes()
    except OSError:
        return b""
