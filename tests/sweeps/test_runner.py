"""Sweeps: every cell once, in whatever pieces; failures are rows; batches are what single runs are."""

import subprocess
import sys
import time

import numpy as np
import pytest

import pgmjax as pj
from pgmjax import mechanisms, sweeps
from pgmjax.mechanisms.measure_once import Marginals
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.sweeps import work
from pgmjax.sweeps.store import COLUMNS, ResultFile
from pgmjax.sweeps.work import MemoryForecast
from tests.sweeps.conftest import CIRCUMSTANCES

pytest.importorskip("duckdb")
LASTING = [name for name in COLUMNS if name not in CIRCUMSTANCES]
# noise of so small a budget is refused by the mechanism: a failure that needs no trick
FAILING = '[[mechanisms]]\nname = "randomized-response"\n'


def rows_of(path, columns=LASTING):
    with ResultFile(path, read_only=True) as results:
        return results.rows(columns)


def test_a_sweep_and_its_rows(write_grid, tmp_path):
    grid = sweeps.SweepGrid.read(write_grid())
    seen = []
    outcome = sweeps.run(grid, tmp_path / "r.duckdb", watch=seen.append)
    assert (outcome.total, outcome.ran, outcome.failed) == (4, 4, 0)
    assert [progress.done for progress in seen] == [2, 4] and seen[-1].left == 0
    rows = rows_of(tmp_path / "r.duckdb", tuple(COLUMNS))
    assert [(row["epsilon"], row["trial"]) for row in rows] == [
        ("1/3", 0),
        ("1/3", 1),
        ("0.5", 0),
        ("0.5", 1),
    ]
    for row in rows:
        assert row["status"] == "done" and row["error"] is None and row["batch"] == 2
        assert row["records"] == 300 and row["attributes"] == 3 and row["queries"] == 9
        assert 0 < row["mean_absolute"] < row["root_mean_square"] < row["largest"]
        assert row["mean_absolute_share"] == row["mean_absolute"] / 300
        assert 0 < row["total_variation"] < 1 and 0 < row["seconds"] <= row["first_seconds"]
        assert row["forecast_bytes"] > 0 and row["finished"] is not None
    assert len({row["mean_absolute"] for row in rows}) == 4, "trials have noise of their own"


def test_done_cells_are_never_run_again(write_grid, tmp_path, monkeypatch):
    path = write_grid()
    sweeps.run(sweeps.SweepGrid.read(path), tmp_path / "r.duckdb")
    before = rows_of(tmp_path / "r.duckdb", tuple(COLUMNS))
    monkeypatch.setattr(work, "run_group", None)
    again = sweeps.run(sweeps.SweepGrid.read(path), tmp_path / "r.duckdb")
    assert (again.total, again.ran) == (4, 0)
    assert rows_of(tmp_path / "r.duckdb", tuple(COLUMNS)) == before


def test_an_interrupt_loses_nothing_and_is_no_failure(write_grid, tmp_path):
    grid = sweeps.SweepGrid.read(write_grid())
    sweeps.run(grid, tmp_path / "whole.duckdb")

    def stop(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweeps.run(grid, tmp_path / "r.duckdb", watch=stop)
    assert len(rows_of(tmp_path / "r.duckdb")) == 2
    assert sweeps.run(grid, tmp_path / "r.duckdb").ran == 2
    assert rows_of(tmp_path / "r.duckdb") == rows_of(tmp_path / "whole.duckdb")


def test_an_interrupt_that_a_library_turned_into_an_error_is_no_failure(write_grid, tmp_path, monkeypatch):
    def lost(self, *words, **settings):
        raise RuntimeError("a callback failed")

    def check():
        raise KeyboardInterrupt

    monkeypatch.setattr(Marginals, "measure", lost)
    with pytest.raises(KeyboardInterrupt):
        sweeps.run(sweeps.SweepGrid.read(write_grid()), tmp_path / "r.duckdb", check=check)
    assert rows_of(tmp_path / "r.duckdb") == []


def test_failures_are_rows_with_their_traceback(write_grid, tmp_path):
    text = write_grid().read_text().replace('[0.5, "1/3"]', '["0.01"]') + FAILING
    grid, seen = sweeps.SweepGrid.read(write_grid(text)), []
    outcome = sweeps.run(grid, tmp_path / "r.duckdb", watch=seen.append)
    assert (outcome.total, outcome.ran, outcome.failed) == (4, 4, 2)
    bad = [row for row in rows_of(tmp_path / "r.duckdb") if row["status"] != "done"]
    assert [row["label"] for row in bad] == ["randomized-response"] * 2
    assert all(row["error"].startswith("Traceback") and "too large" in row["error"] for row in bad)
    assert all(row["status"] == "failed" and row["mean_absolute"] is None for row in bad)
    assert len(seen[-1].failures) == 2
    assert sweeps.run(grid, tmp_path / "r.duckdb").ran == 0


def test_failed_cells_are_tried_again_when_asked(write_grid, tmp_path, monkeypatch):
    grid = sweeps.SweepGrid.read(write_grid())
    with monkeypatch.context() as patch:
        patch.setattr(Marginals, "measure", lambda *words, **settings: 1 / 0)
        assert sweeps.run(grid, tmp_path / "r.duckdb").failed == 4
    assert "ZeroDivisionError" in rows_of(tmp_path / "r.duckdb")[0]["error"]
    outcome = sweeps.run(grid, tmp_path / "r.duckdb", retry_failed=True)
    assert (outcome.ran, outcome.failed) == (4, 0)
    sweeps.run(grid, tmp_path / "whole.duckdb")
    assert rows_of(tmp_path / "r.duckdb") == rows_of(tmp_path / "whole.duckdb")


def test_a_forecast_that_fails_is_a_failure_of_its_cells_only(write_grid, tmp_path, monkeypatch):
    honest = work.forecast

    def forecast(group, domain):
        return 1 / 0 if group.content["epsilon"] == "1/3" else honest(group, domain)

    monkeypatch.setattr(work, "forecast", forecast)
    outcome = sweeps.run(sweeps.SweepGrid.read(write_grid()), tmp_path / "r.duckdb")
    assert (outcome.ran, outcome.failed) == (4, 2)
    for row in rows_of(tmp_path / "r.duckdb"):
        assert (row["status"] == "failed") == (row["epsilon"] == "1/3")
        assert row["status"] == "done" or "ZeroDivisionError" in row["error"]


def test_what_will_not_fit_in_memory_is_not_started(write_grid, tmp_path, monkeypatch):
    monkeypatch.setattr(work, "forecast", lambda group, domain: MemoryForecast(None, "It needs 3 TB."))
    monkeypatch.setattr(Marginals, "measure", None)
    outcome = sweeps.run(sweeps.SweepGrid.read(write_grid()), tmp_path / "r.duckdb")
    assert outcome.failed == 4
    assert {(row["status"], row["error"]) for row in rows_of(tmp_path / "r.duckdb")} == {
        ("refused", "It needs 3 TB.")
    }


@pytest.mark.parametrize(("name", "options"), [("marginals", {}), ("hdmm", {"strategy": "identity"})])
def test_a_batch_is_what_single_runs_are(write_grid, tmp_path, name, options):
    text = (
        write_grid().read_text().replace('"marginals"', f'"{name}"').replace("all_kway = 1", "all_kway = 2")
    )
    text += "".join(f'options = {{ {option} = "{value}" }}\n' for option, value in options.items())
    grid = sweeps.SweepGrid.read(write_grid(text))
    sweeps.run(grid, tmp_path / "r.duckdb")
    rows = rows_of(tmp_path / "r.duckdb")
    domain = pj.Domain.read(tmp_path / "domain.json")
    data = pj.Dataset.read(tmp_path / "people.csv", domain)
    workload = pj.Workload.all_kway(domain, 2)
    for row in rows:
        alone = mechanisms.names()[name](
            epsilon=row["epsilon"],
            relation=pj.Relation.REPLACE_ONE,
            backend=SeededBackend(row["seed"], insecure=True),
            **options,
        ).run(data, workload, show_progress=False)
        tables = data.marginals(workload.cliques)
        distances = [np.abs(a - t.ravel()) for a, t in zip(alone.answers(), tables, strict=True)]
        # both have a certificate of 1e-4 of their loss, and float32 rounding on the way there
        assert row["mean_absolute"] == pytest.approx(np.concatenate(distances).mean(), rel=2e-3)
        assert row["loss"] == pytest.approx(alone.fit.loss, rel=1e-3)


KILLED = """
import sys
from pgmjax import sweeps
sweeps.run(sweeps.SweepGrid.read(sys.argv[1]), sys.argv[2], watch=lambda progress: print("+", flush=True))
print("end", flush=True)
"""


@pytest.mark.slow
def test_a_sweep_killed_again_and_again_ends_with_the_rows_of_an_undisturbed_one(write_grid, tmp_path):
    text = write_grid().read_text().replace('[0.5, "1/3"]', "[0.3, 0.5, 0.7, 1, 2, 3]") + FAILING
    text += '[[mechanisms]]\nname = "mwem"\noptions = { rounds = [1, 2] }\n'
    path = write_grid(text)
    sweeps.run(sweeps.SweepGrid.read(path), tmp_path / "whole.duckdb")
    rng, kills, ended = np.random.default_rng(11), 0, False
    command = [sys.executable, "-c", KILLED, str(path), str(tmp_path / "r.duckdb")]
    while not ended:
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            if kills < 3:  # a while after some group has been stored, at no particular place
                for _ in range(int(rng.integers(1, 5))):
                    child.stdout.readline()
                time.sleep(float(rng.uniform(0, 0.3)))
                child.kill()
                kills += 1
            ended = child.stdout.read().endswith("end\n")
    whole = rows_of(tmp_path / "whole.duckdb")
    assert kills == 3 and len(whole) == 48 and rows_of(tmp_path / "r.duckdb") == whole
