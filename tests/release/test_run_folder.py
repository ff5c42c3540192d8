"""A run's folder: nothing that was paid for is lost, drawn again or mixed with another run's."""

import itertools

import numpy as np
import pyarrow.parquet as parquet
import pytest

import pgmjax as pj
from pgmjax.mechanisms import RunFolder
from pgmjax.privacy import IdempotencyConflict, Ledger, PrivateTable
from pgmjax.privacy.opendp import OpenDPBackend

ADD = pj.Relation.ADD_REMOVE
RNG = np.random.default_rng(3)
DOMAIN = pj.Domain({"a": 3, "b": 4, "c": 2})
DATA = pj.Dataset.from_columns(DOMAIN, {name: RNG.integers(DOMAIN[name], size=200) for name in DOMAIN})
WORKLOAD = pj.Workload.all_kway(DOMAIN, 2)
FAST = pj.Estimator(max_steps=20, progress=False)


def mechanism(name, epsilon=2):
    made = {"marginals": pj.mechanisms.Marginals, "aim": pj.mechanisms.AIM, "mst": pj.mechanisms.MST}[name]
    return made(epsilon=epsilon, relation=ADD, estimator=FAST)


def stopped_after(monkeypatch, number, call):
    """Run until so many fits were made, and interrupt the next."""
    fit, fits = pj.Estimator.fit, []

    def counted(self, *given, **more):
        fits.append(1)
        if len(fits) > number:
            raise KeyboardInterrupt
        return fit(self, *given, **more)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(pj.Estimator, "fit", counted)
        call()


@pytest.mark.parametrize("in_a_ledger", [False, True])
@pytest.mark.parametrize(("name", "fits"), [("marginals", 0), ("mst", 0), ("aim", 1), ("aim", 3)])
def test_a_run_goes_on_where_it_stopped(tmp_path, monkeypatch, name, fits, in_a_ledger):
    with Ledger.create(tmp_path / "b.ledger") as ledger:
        ledger.register("t", epsilon=2, relation=ADD, digest=ledger.digest_of(DATA), domain=DOMAIN)
        more = {"ledger": ledger if in_a_ledger else None}
        begun = RunFolder(tmp_path / "run")
        stopped_after(monkeypatch, fits, lambda: mechanism(name).run(DATA, WORKLOAD, folder=begun, **more))
        begun.close()
        stored = {path.name: path.read_bytes() for path in (tmp_path / "run" / "answers").iterdir()}
        measured = parquet.read_table(tmp_path / "run" / "measurements.parquet")["value"].to_pylist()
        assert stored and measured
        draws, draw = [], OpenDPBackend.draw
        monkeypatch.setattr(
            OpenDPBackend, "draw", lambda self, *given: draws.append(given[1]) or draw(self, *given)
        )
        release = mechanism(name).run(DATA, WORKLOAD, folder=RunFolder(tmp_path / "run"), **more)
        values = np.concatenate([m.flat_values() for m in release.measurements]).tolist()
        assert values[: len(measured)] == measured and sum(draws) == len(values) - len(measured)
        assert all((tmp_path / "run" / "answers" / n).read_bytes() == kept for n, kept in stored.items())
        assert release.spent.epsilon <= 2 and len(ledger.charges("t")) == in_a_ledger


def test_a_folder_is_of_one_run_and_one_table(tmp_path):
    folder = RunFolder(tmp_path)
    mechanism("marginals").run(DATA, WORKLOAD, folder=folder)
    with pytest.raises(ValueError, match="Another process is using"):
        RunFolder(tmp_path)
    with pytest.raises(ValueError, match="holds the answers of another run"):
        mechanism("marginals", epsilon=3).run(DATA, WORKLOAD, folder=folder)
    rows = {name: np.append(RNG.integers(DOMAIN[name], size=200), 0) for name in DOMAIN}
    with pytest.raises(ValueError, match="are about another table"):
        mechanism("marginals").run(pj.Dataset.from_columns(DOMAIN, rows), WORKLOAD, folder=folder)
    assert (tmp_path / ".run.json").stat().st_mode & 0o077 == 0


def test_an_answer_is_on_disk_before_it_is_used(tmp_path, monkeypatch):
    folder, seen = RunFolder(tmp_path), []
    measure = PrivateTable.measure

    def watched(self, *given, **more):
        found = measure(self, *given, **more)
        seen.append(folder.answers)
        return found

    monkeypatch.setattr(PrivateTable, "measure", watched)
    mechanism("aim").run(DATA, WORKLOAD, folder=folder)
    assert seen[0] == 1 and all(one < two for one, two in itertools.pairwise(seen))


def test_an_answer_to_another_request_is_not_played_back(tmp_path):
    folder = RunFolder(tmp_path)
    journal = folder.journal(None)
    assert journal.answer({"ask": 1}, lambda: np.array([5])).tolist() == [5]
    again = folder.journal(None)
    assert again.holds({"ask": 1}) and not again.holds({"ask": 2})
    with pytest.raises(IdempotencyConflict, match="holds the answer to another request"):
        again.answer({"ask": 2}, lambda: np.array([6]))
    assert again.answer({"ask": 1}, lambda: np.array([6])).tolist() == [5]


def test_the_secret_of_a_run_does_not_follow_from_what_is_public(tmp_path):
    keys = []
    for name in "ab":
        folder = RunFolder(tmp_path / name)
        folder.bind({"mechanism": "MST"}, DATA)
        keys.append(folder.key())
    assert len(set(keys)) == 2 and min(map(len, keys)) == 32


def test_no_log_line_gives_the_number_of_records(tmp_path, caplog):
    rows = 7919  # in no other number of the run
    data = pj.Dataset.from_columns(DOMAIN, {name: np.zeros(rows, np.int64) for name in DOMAIN})
    caplog.set_level("DEBUG")
    for name in ("marginals", "mst", "aim"):
        mechanism(name, epsilon="0.01").run(data, WORKLOAD, folder=RunFolder(tmp_path / name))
    said = caplog.text.replace(",", "")
    assert "begun" in said and str(rows) not in said
