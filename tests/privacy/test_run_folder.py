"""A run's folder: answers are there before they are used, and are played back for the same run alone."""

import os

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.mechanisms import AIM, Marginals
from pgmjax.privacy import Budget, PrivateTable, RunFolder, SeededBackend, TableChangedError
from pgmjax.privacy.run_folder import DeferredTable
from pgmjax.queries import marginal
from pgmjax.release import tables

DOMAIN = pj.Domain({"a": 2, "b": 3})
WORKLOAD = pj.Workload([["a", "b"]])


def records(shift=0):
    """A table of 90 records."""
    return pj.Dataset.from_columns(DOMAIN, {"a": [0, 1, 1] * 30, "b": [shift, 1, 2] * 30})


def forbid(*given, **more):
    raise AssertionError("the table was read")


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("mechanism", [Marginals, AIM])
def test_a_run_is_played_back_without_its_table(mechanism, relation, tmp_path, monkeypatch):
    run = mechanism(epsilon=1, relation=relation).run
    first = run(records(), WORKLOAD, keep=tmp_path / "run")
    monkeypatch.setattr(PrivateTable, "_records", forbid)
    again = run(DeferredTable(tmp_path / "run", forbid), WORKLOAD, keep=tmp_path / "run")
    kept = tables.read(tmp_path / "run" / "measurements.parquet")["value"].to_numpy()
    for release in (first, again):
        assert np.array_equal(np.concatenate([m.flat_values() for m in release.measurements]), kept)
    assert (
        again.spent == first.spent and str(again.spent) == "epsilon 1, delta 0"
    )  # charged as the first time


def test_an_answer_is_on_disk_before_it_is_used(tmp_path, monkeypatch):
    """Where the answer cannot be stored, nobody sees it."""
    with RunFolder(tmp_path) as folder:
        folder.bind({"asked": "a"}, records())
        table = PrivateTable(records(), "add-remove", Budget(1), journal=folder)

        def full(*given):
            raise OSError("disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(OSError, match="disk is full"):
                table.measure([marginal(["a"])], epsilons=["1/2"])
        assert folder.stored == 0 and os.listdir(tmp_path / "answers") == []


def test_a_part_of_an_answer_is_none(tmp_path):
    with RunFolder(tmp_path) as folder:
        folder.bind({"asked": "a"}, records())
        table = PrivateTable(records(), "add-remove", Budget(1), journal=folder)
        table.measure([marginal(["a"])], epsilons=[1])
    path = tmp_path / "answers" / "00000.npz"
    path.write_bytes(path.read_bytes()[:60])
    with RunFolder(tmp_path) as folder:
        folder.bind({"asked": "a"}, records())
        table = PrivateTable(records(), "add-remove", Budget(1), journal=folder)
        with pytest.raises(ValueError, match="is damaged: copy the folder again"):
            table.measure([marginal(["a"])], epsilons=[1])


OTHERS = [
    {"epsilon": 2},
    {"delta": "1e-6"},
    {"relation": "replace-one"},
    {"split": "weighted"},
    {"backend": SeededBackend(1, insecure=True)},
]


@pytest.mark.parametrize("change", OTHERS, ids=lambda change: next(iter(change)))
def test_another_run_is_refused(change, tmp_path, monkeypatch):
    settings = {"epsilon": 1, "relation": "add-remove"}
    Marginals(**settings).run(records(), WORKLOAD, keep=tmp_path)
    monkeypatch.setattr(PrivateTable, "_charge", forbid)
    with pytest.raises(ValueError, match="holds the answers to another request"):
        Marginals(**{**settings, **change}).run(records(), WORKLOAD, keep=tmp_path)
    with pytest.raises(ValueError, match="holds the answers to another request"):
        Marginals(**settings).run(records(), pj.Workload([["a"]]), keep=tmp_path)


def test_another_table_is_refused(tmp_path, monkeypatch):
    plain = Marginals(epsilon=1, relation="add-remove")
    plain.run(records(), WORKLOAD, keep=tmp_path)
    monkeypatch.setattr(PrivateTable, "_charge", forbid)
    with pytest.raises(TableChangedError, match="is not the one that the run in"):
        plain.run(records(1), WORKLOAD, keep=tmp_path)
    (tmp_path / ".table.json").unlink()
    with pytest.raises(ValueError, match="missing or damaged: the run's table cannot be recognised"):
        plain.run(records(), WORKLOAD, keep=tmp_path)


def test_another_question_at_a_step_is_refused(tmp_path, monkeypatch):
    for name in ("a", "b"):
        with RunFolder(tmp_path) as folder:
            folder.bind({"asked": "one"}, records())
            table = PrivateTable(records(), "add-remove", Budget(1), journal=folder)
            if name == "a":
                table.measure([marginal(["a"])], epsilons=[1])
                continue
            monkeypatch.setattr(PrivateTable, "_answer", forbid)
            with pytest.raises(ValueError, match=r"Answer 0 in .* is to another question"):
                table.measure([marginal(["b"])], epsilons=[1])


def test_a_folder_is_one_process_and_one_run(tmp_path):
    with RunFolder(tmp_path) as folder:
        with pytest.raises(ValueError, match="Another process works in"):
            RunFolder(tmp_path)
        with pytest.raises(ValueError, match="Bind the RunFolder"):
            folder.begin(self_of := object(), Budget(1), "add-remove", True)
        folder.bind({"asked": "a"}, records())
        with pytest.raises(ValueError, match="keeps one run"):
            folder.bind({"asked": "a"}, records())
        folder.begin(self_of, Budget(1), "add-remove", True)
        with pytest.raises(ValueError, match="keeps one run"):
            folder.begin(object(), Budget(1), "add-remove", True)
    RunFolder(tmp_path).close()


def test_a_release_is_no_place_for_a_run(tmp_path):
    (tmp_path / "release.json").write_text("{}")
    with pytest.raises(ValueError, match=r"has release\.json but no run\.json"):
        Marginals(epsilon=1, relation="add-remove").run(records(), WORKLOAD, keep=tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["release.json"]


def test_a_measurement_is_released_after_its_folder_is_closed(tmp_path):
    measured = Marginals(epsilon=1, relation="add-remove").measure(records(), WORKLOAD, keep=tmp_path)
    (tmp_path / "measurements.parquet").unlink()
    assert measured.release().measurements == measured.measurements
    assert not (tmp_path / "measurements.parquet").exists()
