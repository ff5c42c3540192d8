"""A release is a function of all its inputs: each mechanism, crossed with each way that an answer comes in.

Every way is tried with answers of secure noise and with answers of a source of somebody's own: the first
must be called secure, the second must not, in memory and in every file, and no account of secure noise may
take it.
"""

import contextlib
import itertools
import json
import shutil
from fractions import Fraction

import numpy as np
import pyarrow.parquet as parquet
import pytest

import pgmjax as pj
from pgmjax import mechanisms
from pgmjax.cli import main
from pgmjax.history import History
from pgmjax.job import Job
from pgmjax.measurements.inputs import MEASURED, PRIOR, START, Input, in_role, merged, to_list, with_inputs
from pgmjax.measurements.published import read_published
from pgmjax.mechanisms import RunFolder
from pgmjax.privacy import Ledger, SeededBackend, tape
from pgmjax.privacy.budget import Budget
from pgmjax.privacy.exact import as_text, exact
from pgmjax.privacy.ledger.journal import HeldTable, LedgerJournal
from pgmjax.privacy.opendp import OpenDPBackend
from pgmjax.release import folder as release_folder
from pgmjax.release.folder import SyntheticRows
from pgmjax.release.statement import Spent, of_epsilon, of_inputs

REPLACE = pj.Relation.REPLACE_ONE
DOMAIN = pj.Domain({"a": 2, "b": 3, "c": 2})
RNG = np.random.default_rng(5)
DATA = pj.Dataset.from_columns(DOMAIN, {name: RNG.integers(DOMAIN[name], size=300) for name in DOMAIN})
WORKLOAD = pj.Workload.all_kway(DOMAIN, 2)
FAST = pj.Estimator(max_steps=20, progress=False)
NAMES = sorted(mechanisms.names())
PLAIN = pj.mechanisms.Marginals(epsilon="0.01", relation=REPLACE, estimator=FAST)


class Own(OpenDPBackend):
    """A source of somebody's own that says nothing of itself: its seed is None, as that of secure noise."""

    def draw(self, distribution, size):
        return np.zeros(size, np.int64)


def mechanism(name, backend=None):
    kind = mechanisms.names()[name]
    delta = "0.000001" if name in ("aim", "dual-query") else 0
    given = {"epsilon": 4, "delta": delta, "relation": REPLACE, "estimator": FAST}
    return kind(**given, backend=backend, **kind.audited_with)


def backend(secure):
    return None if secure else Own()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A release by each mechanism and source, and its folder; each is made once."""
    place, kept = tmp_path_factory.mktemp("made"), {}

    def make(name, secure):
        if (name, secure) not in kept:
            release = mechanism(name, backend(secure)).run(DATA, WORKLOAD)
            folder = place / f"{name}-{secure}"
            release.save(folder)
            kept[name, secure] = release, folder
        return kept[name, secure]

    return make


@pytest.fixture
def stop(monkeypatch):
    """Interrupt a run once it has stored so many answers, and give back how many there were."""
    store = RunFolder.store

    def stopped(number, call):
        stored = []

        def counted(self, *given):
            store(self, *given)
            stored.append(given)
            if len(stored) == number:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(RunFolder, "store", counted)
            with contextlib.suppress(KeyboardInterrupt):
                call()
        return len(stored)

    return stopped


def begun_by(source, name, place, stop, number):
    """Begin a run by a source, and interrupt it."""
    folder = RunFolder(place)
    if source == "tape":
        with tape.Tape().recording():
            stop(number, lambda: mechanism(name).run(DATA, WORKLOAD, folder=folder))
    else:
        own = {"secure": None, "own": Own()}[source]
        stop(number, lambda: mechanism(name, own).run(DATA, WORKLOAD, folder=folder))
    folder.close()


SOURCES = ("secure", "own", "tape")


@pytest.mark.parametrize(
    ("name", "first", "then", "number"), [*itertools.product(NAMES, SOURCES, SOURCES, (1, 99))]
)
def test_a_run_that_changes_its_source_is_as_secure_as_its_worst_answer(
    tmp_path, stop, name, first, then, number
):
    begun_by(first, name, tmp_path / "run", stop, number)
    before = {path.name for path in (tmp_path / "run" / "answers").iterdir()}
    assert before and all(path.endswith("-secure.npy") == (first == "secure") for path in before)
    folder = RunFolder(tmp_path / "run")
    if then == "tape":
        with tape.Tape().recording():
            release = mechanism(name).run(DATA, WORKLOAD, folder=folder)
        folder.close()
        assert not release.secure  # nothing that was made under a tape is
        return
    release = mechanism(name, None if then == "secure" else Own()).run(DATA, WORKLOAD, folder=folder)
    folder.close()
    names = [path.name for path in (tmp_path / "run" / "answers").iterdir()]
    each = all(path.endswith("-secure.npy") for path in names)
    assert each == (first == "secure" and (then == "secure" or before == set(names)))
    assert release.secure is each and all(i.secure is each for m in release.measurements for i in m.inputs)
    if release.measurements and name != "randomized-response":  # which counts, and measures nothing
        marks = parquet.read_schema(tmp_path / "run" / "measurements.parquet").metadata
        assert marks[b"secure"] == str(each).lower().encode()
    assert ("NOT FOR PUBLICATION" not in release.statement()) is each


@contextlib.contextmanager
def account_of(tmp_path, **more):
    """A ledger with the account of the table."""
    with Ledger.create(tmp_path / "b.ledger") as ledger:
        given = {"relation": REPLACE, "digest": ledger.digest_of(DATA), "domain": DOMAIN}
        ledger.register("t", **{"epsilon": 9, **more}, **given)
        yield ledger


@pytest.mark.parametrize(("name", "first", "number"), [*itertools.product(NAMES, ("own", "tape"), (1, 99))])
def test_a_ledger_takes_no_answer_that_protects_nobody(tmp_path, stop, name, first, number):
    begun_by(first, name, tmp_path / "run", stop, number)
    folder = RunFolder(tmp_path / "run")
    cap = {"epsilon": 50, "delta": "0.001"} if mechanism(name).budget().unit == "rho" else {"epsilon": 9}
    with account_of(tmp_path, **cap) as ledger:
        with pytest.raises(ValueError, match=r"'t'|run"):
            mechanism(name).run(DATA, WORKLOAD, folder=folder, ledger=ledger)
        assert ledger.account("t").spent == 0 and not ledger.charges("t") and ledger.verify().ok
    folder.close()


@pytest.mark.parametrize("research", [False, True])
def test_answers_of_a_folder_count_where_its_ledger_gets_them(tmp_path, research):
    """The two journals by themselves, whatever else a folder is bound to."""
    with account_of(tmp_path, research=research) as ledger:
        folder = RunFolder(tmp_path / "run")
        alone = folder.journal(None)
        alone.begin(alone, Budget(1), REPLACE, False)
        assert alone.answer({"step": 0}, lambda: np.array([5])) == [5] and alone.secure is False
        inner = LedgerJournal(ledger, HeldTable.of(ledger, DATA), "run", {"mechanism": "test"})
        both = folder.journal(inner)
        if not research:
            with pytest.raises(ValueError, match="'t'"):
                both.begin(both, Budget(1), REPLACE, True)
            assert not ledger.charges("t")
            return
        both.begin(both, Budget(1), REPLACE, True)
        for step, value in enumerate((5, 7)):  # the first is stored, the second is drawn now
            assert both.answer({"step": step}, lambda: np.array([7])) == [value] and both.secure is False
        assert [charge.secure for charge in ledger.charges("t")] == [False] and ledger.verify().ok


def test_answers_under_a_charge_for_insecure_noise_are_none_of_secure_noise(tmp_path):
    with account_of(tmp_path, research=True) as ledger:
        folder = RunFolder(tmp_path / "run")
        alone = folder.journal(None)
        alone.begin(alone, Budget(1), REPLACE, True)
        assert alone.answer({"step": 0}, lambda: np.array([5])) == [5] and alone.secure
        both = folder.journal(LedgerJournal(ledger, HeldTable.of(ledger, DATA), "run", {"mechanism": "test"}))
        both.begin(both, Budget(1), REPLACE, False)
        assert both.answer({"step": 0}, lambda: np.array([7])) == [5] and both.secure is False


def test_a_charge_for_secure_noise_is_for_no_other(tmp_path):
    with account_of(tmp_path) as ledger:
        journal = LedgerJournal(ledger, HeldTable.of(ledger, DATA), "run", {"mechanism": "test"})
        journal.begin(journal, Budget(1), REPLACE, True)
        with pytest.raises(ValueError, match="its source of noise has become another"):
            journal.begin(journal, Budget(1), REPLACE, False)


@pytest.mark.parametrize("secure", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_every_file_of_a_release_says_whether_it_is_secure(made, name, secure):
    release, folder = made(name, secure)
    own = release.inputs
    assert release.secure is secure and [each.role for each in own] == [MEASURED]
    record = json.loads((folder / "release.json").read_text())
    assert record["secure"] is secure and record["inputs"] == to_list(own)
    assert pj.load(folder / "model").inputs == own
    word, listed = str(secure).lower(), record["inputs"]
    for path in folder.glob("*.parquet"):
        marks = parquet.read_schema(path).metadata
        assert marks[b"secure"].decode() == word and json.loads(marks[b"inputs"]) == listed, path
    for path in folder.glob("transcript.json"):
        told = json.loads(path.read_text())
        assert told["secure"] is secure and told["inputs"] == listed
    if (folder / "predictor").exists():
        assert release_folder.read(folder).predictor().inputs == release.predictor.inputs == own
    assert ("Not for publication" in (folder / "report.html").read_text()) is not secure


def next_by_command(folder, tmp_path):
    rows = zip(*(RNG.integers(DOMAIN[name], size=50) for name in DOMAIN), strict=True)
    (tmp_path / "t.csv").write_text("a,b,c\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows))
    DOMAIN.write(tmp_path / "d.json")
    words = ["release", str(tmp_path / "t.csv"), "--domain", str(tmp_path / "d.json"), "--all-kway", "1"]
    words += ["--epsilon", "0.01", "--relation", "replace-one", "--from", str(folder), "--quiet"]
    assert main([*words, "--out", str(tmp_path / "next")]) == 0
    found = pj.load(tmp_path / "next")
    record = found.record
    return record["secure"], record["spent"], record["statement"], found.model.inputs


def next_by_job(folder, tmp_path):
    job = Job(records=DATA, domain=DOMAIN, epsilon="0.01", relation="replace-one", prior=folder)
    return of(job.run())


def next_by_prior(folder, tmp_path):
    return of(PLAIN.run(DATA, WORKLOAD).with_prior(pj.load(folder / "model")))


def next_by_prior_of_a_release(folder, tmp_path):
    return of(PLAIN.run(DATA, WORKLOAD).with_prior(pj.load(folder).model))


def of(release):
    return release.secure, release.spent.to_dict(), release.statement(), release.model.inputs


WAYS = (next_by_command, next_by_job, next_by_prior, next_by_prior_of_a_release)


@pytest.mark.parametrize(("name", "way", "secure"), [*itertools.product(NAMES, WAYS, (True, False))])
def test_what_follows_a_release_costs_both_and_is_secure_if_both_are(made, tmp_path, name, secure, way):
    release, folder = made(name, secure)
    found, spent, said, told = way(folder, tmp_path)
    assert found is secure and ("NOT FOR PUBLICATION" not in said) is secure
    assert Fraction(spent["epsilon"]) == release.spent.epsilon + Fraction("0.01")
    assert Fraction(spent["delta"]) == release.spent.delta
    assert f"epsilon = {spent['epsilon']}" in said and f"as prior, a release by {name!r}" in said
    assert [each.role for each in told] == [MEASURED, PRIOR]


@pytest.mark.parametrize("secure", [True, False])
@pytest.mark.parametrize("name", [name for name in NAMES if name != "dual-query"])
def test_answers_read_from_a_file_stay_what_they_are(made, tmp_path, name, secure):
    release, folder = made(name, secure)
    found = read_published(folder / "measurements.parquet", DOMAIN)
    assert found.secure is secure and found.inputs == release.inputs
    fit = FAST.fit(DOMAIN, found.measurements)
    assert fit.model.inputs == release.inputs
    out = release_folder.write_fit(found, fit, tmp_path / "fit", rows=SyntheticRows(5))
    record = json.loads((out / "fit.json").read_text())
    assert record["secure"] is secure and release.inputs[0].words in record["statement"]
    again = read_published(out / "measurements.parquet", DOMAIN)
    assert again.secure is secure and History(DOMAIN, again.measurements).secure is secure
    assert PLAIN.run(DATA, WORKLOAD).with_prior(release_folder.opened(out).model).secure is secure
    begun = FAST.fit(DOMAIN, [pj.LinearMeasurement(("a",), [3, 4], 1.0)], warm_start=pj.load(out / "model"))
    assert [(each.secure, each.role) for each in begun.model.inputs] == [(secure, START)]


def test_further_rows_say_what_they_cost(made, capsys):
    for secure in (True, False):
        _, folder = made("marginals", secure)
        assert main(["release", str(folder), "--add-rows", "5", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["secure"] is secure and told["spent"]["epsilon"] == "4"
        assert main(["release", str(folder), "--add-rows", "5"]) == 0
        assert ("NOBODY" in capsys.readouterr().out) is not secure


def test_a_perturbed_table_says_it_of_its_counts():
    for secure in (True, False):
        source = None if secure else SeededBackend(3, insecure=True)
        response = pj.mechanisms.RandomizedResponse(4, REPLACE, backend=source)
        table = response.perturb(DATA, ["a", "b"], row_order="sorted")
        (each,) = FAST.fit(DOMAIN, table.measurements([["a"]]), 300).model.inputs
        assert each.secure is secure and each.cost["epsilon"] == "4" and table.inputs == (each,)
        assert table.marginal(["a"]).measurement().inputs == (each,)


def test_perturbed_tables_of_one_kind_cost_each_for_itself():
    response = pj.mechanisms.RandomizedResponse(4, REPLACE, universe="joint")
    one, two = (response.perturb(DATA, ["a", "b", "c"], row_order="sorted") for _ in range(2))
    both = [*one.measurements([["a"]]), *two.measurements([["a"]]), *one.measurements([["a"]])]
    assert Spent.of(FAST.fit(DOMAIN, both, 300).model.inputs).epsilon == 8


def test_costs_of_other_people_or_another_relation_do_not_add_up(tmp_path, capsys):
    earlier = pj.mechanisms.Marginals(epsilon=1, relation="add-remove", estimator=FAST).run(DATA, WORKLOAD)
    earlier.save(tmp_path / "r")
    with pytest.raises(ValueError, match=r"made under add-remove for one record.*do not add up"):
        PLAIN.run(DATA, WORKLOAD).with_prior(earlier.model)
    job = Job(records=DATA, domain=DOMAIN, epsilon=1, relation="replace-one", prior=tmp_path / "r")
    with pytest.raises(ValueError, match="do not add up"):
        job.make(tmp_path / "next")  # before anything is spent
    assert not list(tmp_path.glob("next*"))


def test_an_account_that_names_a_unit_is_not_charged_for_what_does_not_add_up(tmp_path):
    earlier = pj.mechanisms.Marginals(epsilon=1, relation="add-remove", estimator=FAST).run(DATA, WORKLOAD)
    earlier.save(tmp_path / "r")
    path = tmp_path / "t.csv"
    path.write_text(
        "".join(f"{','.join(row)}\n" for row in [[*DOMAIN, "who"], ["0"] * len([*DOMAIN, "who"])])
    )
    job = Job(records=path, domain=DOMAIN, epsilon=1, relation="add-remove", prior=tmp_path / "r")
    assert job.earlier is not None  # for one record, as far as the job alone knows
    with Ledger.create(tmp_path / "l.ledger") as ledger:
        promise = {"epsilon": 3, "relation": "add-remove", "digest": ledger.digest_of(path)}
        ledger.register("t", domain=DOMAIN, unit=pj.Unit("who", 2), **promise)
        with pytest.raises(ValueError, match="do not add up"):
            job.run(ledger=ledger)
        assert ledger.account("t").charges == 0


def test_equal_answers_of_two_runs_cost_twice():
    """At so large an epsilon the noise is 0, so that all runs release the same numbers."""
    tiny = pj.Dataset.from_columns(pj.Domain({"a": 2}), {"a": [0, 1]})
    mechanism = pj.mechanisms.Marginals(epsilon=100, relation=REPLACE, estimator=FAST)
    runs = [mechanism.run(tiny, pj.Workload([["a"]]), show_progress=False) for _ in range(2)]
    assert len({each.measurements[0].values.tobytes() for each in runs}) == 1
    assert Spent.of(merged(*(each.inputs for each in runs))).epsilon == 200
    assert Spent.of(merged(runs[0].inputs, runs[0].measurements[0].inputs)).epsilon == 100
    table = pj.privacy.PrivateTable(tiny, REPLACE, Budget(200))
    asked = [table.measure([pj.queries.marginal(["a"])], epsilons=[100])[0] for _ in range(2)]
    assert Spent.of(merged(*(each.inputs for each in asked))).epsilon == 200
    answers = [
        pj.mechanisms.RandomizedResponse(50, REPLACE).perturb(tiny, ["a"], row_order="sorted") for _ in "12"
    ]
    assert Spent.of(merged(*(each.inputs for each in answers))).epsilon == 100


def test_an_input_that_comes_in_twice_is_one(made):
    release, _ = made("marginals", True)
    twice = release.with_prior(release.model)
    assert twice.spent == release.spent and len(twice.inputs) == 1
    other = mechanism("marginals").run(DATA, WORKLOAD)
    assert release.with_prior(other.model).spent.epsilon == 8  # the same request, and other answers


def test_public_facts_are_named(made):
    release, _ = made("marginals", True)
    prior = pj.GraphicalModel.from_potentials(DOMAIN, {("a",): [0.0, 1.0]})
    after = release.with_prior(prior)
    assert after.secure and after.spent == release.spent
    assert "also rests on what is taken to be public: as prior, a prior." in after.statement()
    fixed = pj.FixedMarginal(("a",), [100, 200])
    model = FAST.fit(DOMAIN, release.measurements, constraints=[fixed]).model
    assert [each.name for each in model.inputs] == ["a release by 'marginals'", "a fixed marginal over a"]


def test_sums_are_those_of_fractions():
    """Against sums written out: epsilons and deltas of all, rho only where every cost has one."""
    costs = [
        {"epsilon": "0.1", "delta": "0", "rho": "1/3"},
        {"epsilon": "1/3", "delta": "0.00001", "rho": "0.5"},
    ]
    inputs = [Input(f"r{k}", True, cost) for k, cost in enumerate(costs)]
    assert Spent.of(inputs) == Spent(Fraction(13, 30), Fraction(1, 10**5), Fraction(5, 6))
    assert Spent.of([*inputs, Input("p", True, {"epsilon": "1"})]).rho is None
    assert Spent.of([*inputs, Input("public", None)]) == Spent.of(inputs)
    with pytest.raises(ValueError, match="without an epsilon"):
        Spent.of([Input("r", True, {"rho": "1"})])
    assert merged(inputs, inputs) == tuple(inputs)


@pytest.mark.parametrize(
    ("epsilon", "words", "warns"),
    [
        ("1", "2.718", False),
        ("1.001", "moderate", False),
        ("10", "2.203e+04", False),
        ("10.001", "little", True),
    ],
)
def test_words_change_with_the_size_of_epsilon(epsilon, words, warns):
    said = of_epsilon(exact("epsilon", epsilon))
    assert words in said and ("WARNING" in said) is warns
    assert ("strong" in said) is (epsilon == "1")


def test_a_statement_says_what_the_delta_of_a_label_search_is():
    frame = {"name": ["ann"] * 150 + ["bob"] * 150}
    import pyarrow as pa

    job = Job(
        records=pa.table(frame),
        epsilon=8,
        delta="0.001",
        relation="add-remove",
        discovery=pj.discovery.Discovery("0.5"),
        workload=pj.queries.workload.KWay(1),
    )
    release = job.run()
    (own,) = release.inputs
    assert own.label_delta == as_text(Fraction("0.0005"))
    assert "Of delta, 0.0005 went to the search for labels" in release.statement()
    assert "probability that a rare label" in release.statement()
    assert of_inputs([Input("r", True, {"epsilon": "1"})]) == ""


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        [{}],
        [{"name": "\x1b[2J", "secure": True}],
        [{"name": "r", "secure": 1}],
        [{"name": "r", "secure": True, "cost": {"epsilon": "-1"}}],
        [{"name": "r", "secure": True, "cost": {"epsilon": 1}}],
        [{"name": "r", "secure": True, "relation": "none"}],
        [{"name": "r", "secure": True, "unit": {"column": "p", "max_records": "4"}}],
    ],
)
def test_a_model_without_a_word_of_its_inputs_is_refused(made, tmp_path, wrong):
    _, folder = made("marginals", True)
    shutil.copytree(folder / "model", tmp_path / "model")
    path = tmp_path / "model" / "model.json"
    record = json.loads(path.read_text())
    assert record.pop("inputs")
    path.write_text(json.dumps(record if wrong is None else {**record, "inputs": wrong}))
    with pytest.raises(ValueError, match="corrupt"):
        pj.load(tmp_path / "model")


def test_copies_share_what_they_hold():
    one = pj.LinearMeasurement(("a",), [1, 2], 1.0)
    told = in_role((), PRIOR, "a prior")
    two = with_inputs(one, told)
    assert two.values is one.values and one.inputs == () and two.inputs == told
