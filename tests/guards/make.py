"""Write one artefact of each kind into a folder, with what is to be found in them: `python make.py FOLDER`.

`v0_1_0` was written by version 0.1.0. It is never written anew: it stands for what users have on their
disks. A later format is kept beside it, in a folder of its own.
"""

import contextlib
import gzip
import json
import os
import pathlib
import pickle
import platform
import sys
import tempfile
import types
import unittest.mock

HERE = pathlib.Path(__file__).resolve().parent
if "tests" not in sys.modules:  # run as a script; an installed package may have this name
    sys.modules["tests"] = types.ModuleType("tests")
    sys.modules["tests"].__path__ = [str(HERE.parent)]

import pgmjax as pj  # noqa: E402
from pgmjax import cli, sweeps  # noqa: E402
from pgmjax.learning import predictor as predictor_folder  # noqa: E402
from pgmjax.release import folder as release_folder  # noqa: E402
from pgmjax.sweeps import runner  # noqa: E402
from tests.guards import cases, facts, objects  # noqa: E402


def main(folder):
    folder.mkdir(parents=True)
    expected = {"version": pj.__version__}
    for write in (
        tables,
        models,
        releases,
        predictors,
        histories,
        perturbed,
        ledger,
        session,
        sweep,
        pickles,
    ):
        expected[write.__name__] = write(folder)
    expected["files"] = words_on_disk(folder)
    text = json.dumps(expected, sort_keys=True, separators=(",", ":"))
    (folder / "expected.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def tables(folder):
    """A table in a file with its domain and workload."""
    (folder / "people.csv").write_text(cases.csv_text(), encoding="utf-8", newline="\n")
    cases.DOMAIN.write(folder / "domain.json")
    cases.WORKLOAD.write(folder / "workload.json")
    return {"domain": cases.DOMAIN.to_dict(), "workload": cases.WORKLOAD.to_list()}


def models(folder):
    made = objects.fitted()
    expected = {}
    for name in ("GraphicalModel", "RegionModel", "MixtureModel"):
        made[name].save(folder / "models" / name)
        expected[name] = facts.of_model(pj.load(folder / "models" / name))
        assert not facts.differences(expected[name], facts.of_model(made[name]))
    return expected


def releases(folder):
    """A folder and a pickle of a release of every mechanism; the report is for eyes and is left out."""
    expected = {}
    for name in pj.mechanisms.names():
        made = cases.release(name)
        where = folder / "releases" / name
        where.parent.mkdir(exist_ok=True)
        release_folder.write(made, where, synthetic_rows=3, show_progress=False)
        (where / "report.html").unlink()
        where.with_suffix(".pickle").write_bytes(pickle.dumps(made, protocol=4))
        expected[name] = {
            "saved": facts.of_saved_release(release_folder.read(where)),
            "object": facts.of_object(made),
        }
    return expected


def predictors(folder):
    """A predictor of each learner, on disk and pickled."""
    expected = {}
    for name in cases.LEARNERS:
        learner = pj.learning.MLP(hidden=(4,), epochs=2) if name == "mlp" else name
        predictor = cases.release("mldp", learner=learner).predictor
        predictor_folder.write(predictor, folder / "predictors" / name)
        (folder / "predictors" / f"{name}.pickle").write_bytes(pickle.dumps(predictor, protocol=4))
        expected[name] = facts.of_predictor(predictor)
    return expected


def histories(folder):
    history = objects.rows_of()
    history.append(
        pj.LinearMeasurement.released(
            pj.queries.DenseMatrix(("a",), [[1, 0, 2]]), [31], pj.privacy.DiscreteGaussian(1.5)
        )
    )
    history.save(folder / "history")
    return facts.of_history(history)


def perturbed(folder):
    """Answers as categories and as bits."""
    expected = {}
    for encoding in ("direct", "optimal-unary", "symmetric-unary"):
        response = cases.mechanism("randomized-response", epsilon=2, encoding=encoding)
        made = response.perturb(cases.table(), ["a", "b"], row_order_is_public=True)
        made.save(folder / "perturbed" / encoding)
        expected[encoding] = facts.of_perturbed(made)
    return expected


def ledger(folder):
    """Three accounts, of each measure: a run finished, one stopped half way, one refused."""
    people, half, dear = ledger_accounts(folder / "budgets.ledger")
    with tempfile.TemporaryDirectory() as place:
        assert cli.main(cases.release_words(folder, pathlib.Path(place) / "one")) == 0
        finished = pj.load(pathlib.Path(place) / "one" / "model")
        measured = release_folder.read(pathlib.Path(place) / "one").measurements().to_pydict()
        receipt = facts.json_of(pathlib.Path(place) / "one" / "release.json")["ledger"]
    with pj.privacy.Ledger.open(folder / "budgets.ledger") as books:
        for run in (lambda: cases.interrupted(books, cases.stopping()), lambda: cases.refused(books)):
            with contextlib.suppress(KeyboardInterrupt, pj.privacy.BudgetExceeded):
                run()
                raise AssertionError("this run was to be stopped")
        told = facts.of_ledger(books)
    assert [account["name"] for account in told["accounts"]] == [people, half, dear]
    assert [len(told["charges"][name]) for name in (people, half, dear)] == [1, 1, 1]
    assert len(told["stored"][f"half {cases.KEY}"]) == 3
    assert not list(folder.glob("*-wal")), "a ledger is kept as one file"
    return {
        **told,
        "finished": {"model": facts.of_model(finished), "measured": measured, "receipt": receipt},
        "columns": facts.columns_of(folder / "budgets.ledger"),
        "hashes": facts.hashes_of(folder / "budgets.ledger"),
    }


def ledger_accounts(path):
    tables_of = [path.parent / "people.csv", cases.table(1), cases.table(2)]
    settings = [
        ("finished", {"epsilon": 1, "relation": "add-remove"}),
        ("half", {"epsilon": 2, "delta": "1e-6", "relation": "add-remove", "measure": "zcdp"}),
        ("refused", {"epsilon": 1, "delta": "1e-6", "relation": "replace-one", "measure": "renyi"}),
    ]
    with pj.privacy.Ledger.create(path) as books:
        for table, (name, setting) in zip(tables_of, settings, strict=True):
            books.register(name, digest=books.digest_of(table), research=True, **setting)
        cases.mixed(books)
    return [name for name, _ in settings]


def session(folder):
    """Questions answered, refused and free, a strategy bought; and a session whose last answer is missing."""
    path = folder / "session.ledger"
    with pj.privacy.Ledger.create(path) as books:
        data = cases.table()
        books.register(
            "people", epsilon=2, relation="add-remove", digest=books.digest_of(data), research=True
        )
        whole = cases.session(books)
        whole.buy(pj.queries.marginal(["a"]), "0.1")
        for query, width in ((cases.point("a", 1), 60), (cases.point("b", 0), 30), (cases.point("b", 0), 1)):
            whole.ask(query, half_width=width, delta=0.2)
        broken = cases.session(books, "broken")
        stopped = unittest.mock.patch.object(pj.privacy.SeededBackend, "draw", side_effect=KeyboardInterrupt)
        with contextlib.suppress(KeyboardInterrupt), stopped:
            broken.ask(cases.point("b", 1), half_width=30, delta=0.2)
            raise AssertionError("this question was to be stopped")
        expected = {
            "books": facts.of_ledger(books),
            "session": facts.of_session(whole),
            "broken": facts.of_session(pj.history.Session.read(books, "broken")),
            "history": facts.of_history(whole.history),
            "hashes": facts.hashes_of(path),
        }
    path.with_name(path.name + ".turn").unlink()
    return expected


def sweep(folder):
    """A sweep's results after half of its groups, written by a machine without a name."""
    (folder / "grid.toml").write_text(cases.GRID.lstrip(), encoding="utf-8")
    grid = sweeps.SweepGrid.read(folder / "grid.toml")
    seen = []

    def stop(progress):
        seen.append(progress)
        if len(seen) == 2:
            raise KeyboardInterrupt

    platform.node = lambda: "host"
    runner.facts = lambda: {"host": "host", "versions": release_folder.versions()}
    with tempfile.TemporaryDirectory() as place:
        path = pathlib.Path(place) / "sweep.duckdb"
        with contextlib.suppress(KeyboardInterrupt):
            sweeps.run(grid, path, watch=stop)
        # a database has pages of 256 KiB, most of them empty
        (folder / "sweep.duckdb.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
        with sweeps.ResultFile(path, read_only=True) as results:
            rows = facts.rows_of_sweep(results)
        sweeps.run(grid, path)
        with sweeps.ResultFile(path, read_only=True) as results:
            whole = facts.rows_of_sweep(results)
    return {"rows": rows, "whole": whole, "total": seen[-1].total}


def pickles(folder):
    """A pickle a file. Protocol 4 is what every Python that this library takes reads and writes."""
    expected = {}
    (folder / "pickles").mkdir()
    for name, thing in objects.every().items():
        (folder / "pickles" / f"{name}.pickle").write_bytes(pickle.dumps(thing, protocol=4))
        expected[name] = facts.of_object(thing)
    return expected


def words_on_disk(folder):
    """The names in every JSON file, and the words that stand for choices."""
    paths = sorted(folder.rglob("*.json"))
    return {path.relative_to(folder).as_posix(): facts.words_of(facts.json_of(path)) for path in paths}


if __name__ == "__main__":
    os.umask(0o022)
    main(pathlib.Path(sys.argv[1]))
