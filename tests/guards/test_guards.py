"""What version 0.1.0 wrote still loads and says the same, wherever the modules lie by now.

`v0_1_0` holds one artefact of each kind, written by `make.py` of that version, and `expected.json.gz` what is
to be found in them.
"""

import gzip
import json
import pathlib
import pickle
import pickletools
import shutil
import sys

import numpy as np
import pytest

import pgmjax as pj
from pgmjax import mechanisms, sweeps
from pgmjax.cli import main

# What has no name in `pgmjax.__all__`: the command (the script `pgmjax`), and what docs/ names by its module.
from pgmjax.learning import predictor as predictor_folder
from pgmjax.privacy.ledger import IdempotencyConflict
from pgmjax.release import folder
from tests.guards import cases, facts

# pickles name the modules of 0.1.0, which say where they are now
pytestmark = pytest.mark.filterwarnings("ignore:pgmjax:DeprecationWarning")

KEPT = pathlib.Path(__file__).with_name("v0_1_0")
EXPECTED = json.loads(gzip.decompress((KEPT / "expected.json.gz").read_bytes()))
MECHANISMS = sorted(EXPECTED["releases"])
PICKLES = sorted(EXPECTED["pickles"])


def same(expected, found):
    told = facts.differences(expected, found)
    assert not told, "\n".join(told[:20])


def identical(expected, found):
    told = facts.exact_differences(expected, found)
    assert not told, "\n".join(told[:20])


def arrays(path):
    with np.load(path) as stored:
        return {name: stored[name] for name in stored.files}


def unpickled(path):
    return pickle.loads(path.read_bytes())


@pytest.fixture
def place(tmp_path):
    """A folder with copies of the artefacts' files, as an operator has them: keys are for the owner alone."""
    for path in KEPT.iterdir():
        if path.is_file():
            shutil.copyfile(path, tmp_path / path.name)
            (tmp_path / path.name).chmod(0o600)
    return tmp_path


@pytest.fixture
def books(place):
    with pj.privacy.Ledger.open(place / "budgets.ledger") as ledger:
        yield ledger


@pytest.fixture
def session_books(place):
    with pj.privacy.Ledger.open(place / "session.ledger") as ledger:
        yield ledger


def test_nothing_is_missing():
    """Every kind of artefact is there, of every mechanism and every learner that there was."""
    assert EXPECTED["version"] == "0.1.0"
    assert len(MECHANISMS) == 9 and set(MECHANISMS) <= set(pj.mechanisms.names())
    kinds = {path.name for path in KEPT.iterdir()}
    folders = {"history", "models", "perturbed", "pickles", "predictors", "releases"}
    files = {"budgets.ledger", "budgets.ledger.key", "session.ledger", "session.ledger.key"}
    files |= {
        "domain.json",
        "workload.json",
        "people.csv",
        "grid.toml",
        "sweep.duckdb.gz",
        "expected.json.gz",
    }
    assert kinds == folders | files
    assert sorted(path.stem for path in (KEPT / "pickles").iterdir()) == PICKLES and len(PICKLES) > 80


def test_a_table_s_files_are_read():
    domain, workload = pj.Domain.read(KEPT / "domain.json"), pj.Workload.read(KEPT / "workload.json")
    assert domain == cases.DOMAIN and domain.to_dict() == EXPECTED["tables"]["domain"]
    assert workload.to_list() == EXPECTED["tables"]["workload"] == cases.WORKLOAD.to_list()
    data = pj.Dataset.read(KEPT / "people.csv", domain)
    (found,), (known,) = (each.marginals([("a", "b", "c")]) for each in (data, cases.table()))
    assert np.array_equal(found, known)


@pytest.mark.parametrize("kind", sorted(EXPECTED["models"]))
def test_a_saved_model(kind, tmp_path):
    model = pj.load(KEPT / "models" / kind)
    assert type(model) is getattr(pj, kind, None) or type(model).__name__ == kind
    same(EXPECTED["models"][kind], facts.of_model(model))
    model.save(tmp_path / "again")
    written, kept = (facts.json_of(f / "model.json") for f in (tmp_path / "again", KEPT / "models" / kind))
    identical(facts.without_versions(kept), facts.without_versions(written))
    one, two = arrays(KEPT / "models" / kind / "model.npz"), arrays(tmp_path / "again" / "model.npz")
    assert list(one) == list(two) and all(np.array_equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_release_s_folder(name):
    saved = folder.read(KEPT / "releases" / name)
    expected, found = EXPECTED["releases"][name]["saved"], facts.of_saved_release(saved)
    same(expected, found)
    for part in ("measurements", "answers", "synthetic", "record"):
        identical(expected[part], found[part])


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_release_s_folder_is_asked_by_the_command(name, capsys):
    assert main(["query", str(KEPT / "releases" / name), "--marginal", "a,b", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    expected = EXPECTED["releases"][name]["saved"]["model"]
    same(expected["marginals"]["a,b"], np.ravel(answer["estimate"]).tolist())
    assert answer["total"] == expected["total"]


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_pickled_release_is_described_in_the_old_words(name):
    """Its measured values are the same to the last digit, and `release.json` is made of it anew."""
    release = unpickled(KEPT / "releases" / f"{name}.pickle")
    expected = EXPECTED["releases"][name]
    assert isinstance(release, pj.Release) and release.mechanism == name
    same(facts.in_todays_words(expected["object"]), facts.of_object(release))
    fields = facts.in_todays_words(expected["object"]["content"])["fields"]
    identical(fields["measurements"], facts.content(release.measurements))
    record = facts.without_versions(folder.describe(release))
    assert record.pop("unit") is None  # one record, which 0.1.0 did not say
    assert len(record.pop("accuracy")["columns"]) == len(release.domain)
    identical(facts.without_versions(expected["saved"]["record"]), record)
    transcript = None if release.transcript is None else release.transcript.to_dict()
    same(expected["saved"]["transcript"], transcript)


@pytest.mark.parametrize("name", sorted(EXPECTED["predictors"]))
def test_a_predictor(name, tmp_path):
    kept = KEPT / "predictors" / name
    predictor = predictor_folder.read(kept)
    same(EXPECTED["predictors"][name], facts.of_predictor(predictor))
    # scikit-learn's usual parameters are written down too after a pickle, whose numbers are other objects
    answers = {key: told for key, told in EXPECTED["predictors"][name].items() if key != "learners"}
    same(answers, facts.of_predictor(unpickled(kept.with_name(f"{name}.pickle"))))
    predictor_folder.write(predictor, tmp_path / "again")
    identical(facts.json_of(kept / "predictor.json"), facts.json_of(tmp_path / "again" / "predictor.json"))


def test_a_history(tmp_path):
    history = pj.history.History.load(KEPT / "history")
    same(EXPECTED["histories"], facts.of_history(history))
    history.save(tmp_path / "again")
    kept, written = (facts.json_of(f / "history.json") for f in (KEPT / "history", tmp_path / "again"))
    identical(*({**facts.without_versions(each), "arrays": None} for each in (kept, written)))


@pytest.mark.parametrize("encoding", sorted(EXPECTED["perturbed"]))
def test_a_perturbed_table(encoding, tmp_path):
    kept = KEPT / "perturbed" / encoding
    table = pj.local.load(kept)
    same(EXPECTED["perturbed"][encoding], facts.of_perturbed(table))
    table.save(tmp_path / "again")
    written = facts.json_of(tmp_path / "again" / "perturbed.json")
    identical(facts.without_versions(facts.json_of(kept / "perturbed.json")), facts.without_versions(written))


def spent(ledger, name):
    account = ledger.account(name)
    return account.spent, account.charges


def test_the_books_are_as_they_were(books, place, capsys):
    expected = EXPECTED["ledger"]
    identical({key: expected[key] for key in facts.of_ledger(books)}, facts.of_ledger(books))
    books.verify(expected["head"]).raise_if_bad()
    assert {account.measure for account in books.accounts()} == {"pure", "zcdp", "renyi"}
    assert main(["ledger", "verify", str(place / "budgets.ledger"), "--head", expected["head"]]) == 0
    capsys.readouterr()
    assert main(["ledger", "show", str(place / "budgets.ledger"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["accounts"]
    listed = [{**each, "charges": expected["charges"][each["name"]]} for each in expected["accounts"]]
    same(listed, told)


def test_a_new_ledger_has_all_that_the_old_one_has(tmp_path):
    pj.privacy.Ledger.create(tmp_path / "new.ledger").close()
    old, new = EXPECTED["ledger"]["columns"], facts.columns_of(tmp_path / "new.ledger")
    assert all(entry in new["schema"] for entry in old["schema"]) and new["numbers"][1] == 2
    assert facts.columns_of(KEPT / "budgets.ledger") == old


def test_events_in_the_books_are_read_as_events(books):
    (charge,) = books.charges("refused")
    assert [pj.privacy.read_event(event) for event in charge.events] == cases.mixed_events()
    assert [event.to_dict() for event in cases.mixed_events()] == list(charge.events)


def test_the_finished_run_is_free_and_gives_the_same_answers(place, books):
    """By the command, under the name that follows from its request."""
    before, expected = spent(books, "finished"), EXPECTED["ledger"]["finished"]
    again = [*cases.release_words(place, place / "again"), "--regularisation", "none"]
    assert main(again) == 0  # the answers are those that were paid; the fit is the one of that version
    saved = folder.read(place / "again")
    identical(expected["measured"], saved.measurements().to_pydict())
    assert saved.record["ledger"] == {**expected["receipt"], "head": books.head()}
    assert spent(books, "finished") == before and books.head() == EXPECTED["ledger"]["head"]
    model = facts.of_model(saved.model)
    assert facts.words_of(model) == facts.words_of(expected["model"])
    # a fit is made anew from the stored answers, in float64
    for pair, table in expected["model"]["marginals"].items():
        np.testing.assert_allclose(model["marginals"][pair], table, rtol=1e-6)


def stored(ledger, name, key):
    return [[step, payload.hex()] for step, payload in ledger.charge(name, key).stored()]


def test_the_interrupted_run_goes_on_under_its_key(books):
    before, kept = spent(books, "half"), EXPECTED["ledger"]["stored"][f"half {cases.KEY}"]
    assert stored(books, "half", cases.KEY) == kept and len(kept) == 3
    release = cases.interrupted(books)
    after = stored(books, "half", cases.KEY)
    assert after[: len(kept)] == kept and len(after) == 5
    assert release.ledger["key"] == cases.KEY and spent(books, "half") == before
    first = facts.array_of(bytes.fromhex(kept[0][1]))
    assert np.array_equal(first, np.ravel(release.measurements[0].values)), (
        "the stored answer is the one shown"
    )
    again = cases.interrupted(books)
    identical(facts.content(release.measurements), facts.content(again.measurements))
    assert stored(books, "half", cases.KEY) == after and spent(books, "half") == before
    assert books.verify().ok


def test_requests_have_the_digests_of_old(books, place):
    """What was asked is asked again in other books: the same words make the same digests."""
    other = place / "other.ledger"
    expected = EXPECTED["ledger"]["hashes"]
    assert facts.hashes_of(place / "budgets.ledger") == expected
    with pj.privacy.Ledger.create(other) as ledger:
        for table, account in ((cases.table(1), "half"), (cases.table(2), "refused")):
            kept = books.account(account)
            ledger.register(
                account,
                epsilon=kept.epsilon,
                delta=kept.delta,
                relation=kept.relation,
                measure=kept.measure,
                digest=ledger.digest_of(table),
                research=True,
                domain=table.domain,
                other_people=True,
            )
        cases.mixed(ledger)
        with pytest.raises(KeyboardInterrupt):
            cases.interrupted(ledger, cases.stopping())
    found = facts.hashes_of(other)
    assert sorted(found["charges"]) == sorted(row for row in expected["charges"] if row[0] != "finished")
    finished = 2  # the number of its charge
    assert {row[2] for row in found["answers"]} == {r[2] for r in expected["answers"] if r[0] != finished}


def test_the_refused_run_stays_refused(books):
    """For want of a domain first, which an account of 0.1.0 does not have, and of budget then."""
    before = facts.of_ledger(books)
    with pytest.raises(ValueError, match="has no domain yet, and takes no new run"):
        cases.refused(books)
    assert facts.of_ledger(books) == before
    head, spent_before = books.head(), spent(books, "refused")
    books.set_domain("refused", cases.table(2).domain)
    with pytest.raises(pj.privacy.BudgetExceeded, match="is left in account 'refused'"):
        cases.refused(books)
    assert spent(books, "refused") == spent_before
    books.verify(head).raise_if_bad()


def test_a_charge_of_many_events_is_found_again(books):
    before = spent(books, "refused")
    charge, answer = cases.mixed(books)
    assert answer == b"17" and charge.id == 1 and spent(books, "refused") == before
    with pytest.raises(IdempotencyConflict):
        books.reserve(
            "refused", "mixed", {"ask": "b"}, cases.mixed_events(), relation="replace-one", secure=False
        )


def test_a_session_is_read_and_goes_on(session_books, place, capsys):
    expected = EXPECTED["session"]
    identical(expected["books"], facts.of_ledger(session_books))
    session = pj.history.Session.read(session_books)
    same(expected["session"], facts.of_session(session))
    same(expected["history"], facts.of_history(session.history))
    assert {answer.source for answer in session.answers()} == {"measured", "history", "refused"}
    opened = cases.session(session_books)
    same(expected["session"], facts.of_session(opened))
    free = opened.ask(cases.point("a", 1), half_width=60, delta=0.2)
    assert free.source == "history" and str(opened.cost) == expected["session"]["cost"]
    assert main(["session", "status", str(place / "session.ledger"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["answers"]) == len(expected["session"]["answers"]) + 1
    assert [(a.key, a.cost) for a in session_books.charges("people")] == [
        ("session session", session.cap),
        ("session broken", session.cap),
    ]


def test_a_session_s_missing_answer_is_computed_at_no_further_cost(session_books):
    expected = EXPECTED["session"]["broken"]
    broken = pj.history.Session.read(session_books, "broken")
    same(expected, facts.of_session(broken))
    with pytest.raises(ValueError, match="paid for is still to be computed"):
        broken.ask(cases.point("b", 1), half_width=30, delta=0.2)
    opened = cases.session(session_books, "broken")
    assert (
        str(opened.cost) == expected["cost"] and len(list(opened.answers())) == len(expected["answers"]) + 1
    )
    assert opened.ask(cases.point("b", 1), half_width=30, delta=0.2).source == "history"
    assert session_books.account("people").spent == 2 * opened.cap


def rows_of(path):
    with sweeps.ResultFile(path, read_only=True) as results:
        return facts.rows_of_sweep(results)


def as_of_the_version_that_wrote_it(monkeypatch):
    """Cells are known by a digest of the version too: another version runs them all again, by design."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "pgmjax" and "__version__" in vars(module):
            monkeypatch.setattr(module, "__version__", EXPECTED["version"])


def test_a_half_done_sweep_goes_on(place, monkeypatch):
    as_of_the_version_that_wrote_it(monkeypatch)
    path, expected = place / "sweep.duckdb", EXPECTED["sweep"]
    path.write_bytes(gzip.decompress((KEPT / "sweep.duckdb.gz").read_bytes()))
    identical(expected["rows"], rows_of(path))
    usual = mechanisms.options
    monkeypatch.setattr(
        mechanisms, "options", lambda kind: {k: 100 if k == "steps" else v for k, v in usual(kind).items()}
    )
    outcome = sweeps.run(sweeps.SweepGrid.read(place / "grid.toml"), path)
    missing = expected["total"] - len(expected["rows"])
    assert (outcome.total, outcome.ran, outcome.failed) == (expected["total"], missing, 0) and missing
    found = {row["key"]: row for row in rows_of(path)}
    assert sorted(found) == sorted(row["key"] for row in expected["whole"])
    for row in expected["rows"]:
        identical(row, found[row["key"]])
    lasting = (
        "group_key",
        "seed",
        "label",
        "options",
        "status",
        "relation",
        "epsilon",
        "queries",
        "workload",
    )
    for row in expected["whole"]:
        identical([row[name] for name in lasting], [found[row["key"]][name] for name in lasting])
    again = sweeps.run(sweeps.SweepGrid.read(place / "grid.toml"), path)
    assert again.ran == 0


@pytest.mark.parametrize("name", PICKLES)
def test_a_pickle(name):
    path = KEPT / "pickles" / f"{name}.pickle"
    same(facts.in_todays_words(EXPECTED["pickles"][name]), facts.of_object(unpickled(path)))


def test_pickles_name_classes_that_are_the_public_ones():
    """A class that is loaded by its old place is the same object as the one of today."""
    for name in ("Domain", "Dataset", "Fit", "GraphicalModel", "Estimator", "LinearMeasurement", "Workload"):
        assert type(unpickled(KEPT / "pickles" / f"{name}.pickle")) is getattr(pj, name)
    assert unpickled(KEPT / "pickles" / "Status.pickle") == list(pj.Status)
    kept = unpickled(KEPT / "pickles" / "Relation.pickle")
    assert all(one is two for one, two in zip(kept, pj.Relation, strict=True))
    assert unpickled(KEPT / "pickles" / "Domain.pickle") == cases.DOMAIN
    assert unpickled(KEPT / "pickles" / "Events.pickle") == cases.mixed_events()
    assert type(unpickled(KEPT / "pickles" / "History.pickle")) is pj.history.History
    assert type(unpickled(KEPT / "pickles" / "MixtureModel.pickle")) is pj.model.MixtureModel
    assert type(unpickled(KEPT / "pickles" / "RegionModel.pickle")) is pj.model.RegionModel


def modules_in(path):
    """The modules of this library that a pickle names."""
    words = [
        argument for _, argument, _ in pickletools.genops(path.read_bytes()) if isinstance(argument, str)
    ]
    return {
        word for word in words if word.partition(".")[0] == "pgmjax" and word.replace(".", "").isidentifier()
    }


def test_pickles_carry_old_places():
    """Or they would prove nothing."""
    for path in (KEPT / "pickles").iterdir():
        assert modules_in(path), f"{path.name} names no module of the library"
    named = set().union(*(modules_in(path) for path in KEPT.rglob("*.pickle")))
    assert len(named) > 60 and all(name.count(".") for name in named)


def test_choices_keep_their_words():
    assert {relation.value for relation in pj.Relation} == {"add-remove", "replace-one"}
    assert set(MECHANISMS) <= set(pj.mechanisms.names())
    statuses = EXPECTED["pickles"]["Status"]["content"]
    assert facts.content(list(pj.Status))[: len(statuses)] == statuses
