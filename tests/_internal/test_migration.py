"""Names of mbi raise errors that say what is written here; nothing else about the classes changes."""

import copy
import doctest
import importlib
import operator
import pickle

import numpy as np
import pandas as pd
import pytest

import pgmjax as pj
from pgmjax._internal import migration

DOMAIN = pj.Domain({"a": 2, "b": 3})
NOISY = pj.LinearMeasurement(("a", "b"), np.ones((2, 3)), 1.0)
FRAME = pd.DataFrame({"sex": ["F"]})
DATA = pj.Dataset.from_columns(DOMAIN, {"a": [0, 1], "b": [2, 2]})
FIT = pj.Estimator(max_steps=5, progress=False).fit(DOMAIN, [NOISY], total=6)


@pytest.mark.parametrize(
    ("owner", "name", "here"),
    [
        (pj, "Factor", "an array: model.marginal(clique)"),
        (pj, "FactoredInference", "Estimator().fit(domain, measurements, total)"),
        (pj.Domain, "fromdict", "Domain({name: size})"),
        (DOMAIN, "config", "sizes"),
        (DOMAIN, "attrs", "attributes"),
        (pj.Dataset, "load", "Dataset.read(path, domain)"),
        (DATA, "project", "marginals([clique]) of a table"),
        (NOISY, "noisy_measurement", "values"),
        (pj.Estimator(), "estimate", "Estimator().fit(domain, measurements, total)"),
        (FIT, "project", "marginal(clique) of a model"),
        (FIT.model, "synthetic_data", "sample(rows, seed) of a model"),
        (FIT.model, "project", "marginal(clique) of a model"),
        (FIT.model, "datavector", "reshape(-1)"),
    ],
)
def test_a_name_of_mbi_is_answered_by_ours(owner, name, here):
    with pytest.raises(AttributeError) as caught:
        getattr(owner, name)
    assert here in str(caught.value) and "docs/migration.md" in str(caught.value)
    assert not hasattr(owner, name) and name not in dir(owner)


@pytest.mark.parametrize(
    ("owner", "name", "here"),
    [
        (pj.Domain, "load", r"Domain.read\(path\)"),
        (FIT, "marginal", r"fit.model.marginal\("),
        (FIT, "sample", r"fit.model.sample\("),
        (pj.Synthesizer, "create", "mechanism='mst'"),
        (pj.Dataset, "from_csv", r"Dataset.read\(path, domain\)"),
        (pj.Domain, "from_yaml", r"Domain.read\(path\)"),
        (pj.Domain, "from_public", "'from_public_data'"),
        (pj.Workload, "all_pairs", r"Workload.all_kway\(domain, 2\)"),
        (DATA, "shape", "domain.shape"),
        (FIT.model, "query", r"answer\('sex=F,age<30'\)"),
        (DOMAIN, "a", r"attribute\('a'\)"),
        (DATA, "a", r"marginals\(\[\('a',\)\]\)"),
        (FIT.model, "a", r"marginal\(\('a',\)\)"),
        (pj.learning.Ridge(), "predict", r"learn\(domain, measurements, learner\)"),
        (pj.history.History(DOMAIN, [NOISY]), "add", "returns a new history"),
        (pj.privacy.PrivateTable(DATA, "add-remove", pj.privacy.Budget(1)), "mean", r"mean\(\[9, 26.5"),
    ],
)
def test_a_name_that_another_class_has_is_answered_by_the_call(owner, name, here):
    with pytest.raises(AttributeError, match=here):
        getattr(owner, name)


@pytest.mark.parametrize(
    ("call", "write"),
    [
        (lambda: pj.history.Session(DATA, epsilon=1), r"Write Session.open\(ledger, data, cap=1"),
        (lambda: pj.history.KernelPCA(3), r"Write KernelPCA.of\(history, prior, total\)"),
        (lambda: pj.privacy.Budget(epsilon=1, delta=1e-6), r"here it is cap .* unit=\"renyi\""),
        (lambda: pj.Workload("a", "b"), r"Write Workload\(\[\("),
        (lambda: pj.Estimator(metric="L2"), "here it is loss"),
        (lambda: pj.Dataset.read("t.csv"), r"needs domain \(what values each column has"),
        (lambda: pj.Estimator().fit(DOMAIN, DATA), "measurements.*Dataset"),
        (lambda: pj.mechanisms.Mechanism(1, "add-remove"), r"not made by a call.* Write mechanisms.MST\("),
        (lambda: pj.model.Model(DOMAIN), r"Write Estimator\(\).fit\(domain, measurements\).model"),
    ],
)
def test_a_wrong_call_is_told_the_one_to_write(call, write):
    with pytest.raises(TypeError, match=write):
        call()


def test_all_else_stays_as_it_was():
    for found in (pj, pj.Domain, DOMAIN, DATA, NOISY, FIT, FIT.model):
        with pytest.raises(AttributeError, match="no_such_thing") as caught:
            found.no_such_thing  # noqa: B018
        assert "migration" not in str(caught.value)
    assert copy.deepcopy(DOMAIN) == DOMAIN == pickle.loads(pickle.dumps(DOMAIN))


def test_what_was_spent_stays_spent():
    budget = pj.privacy.Budget(1)
    budget.charge("0.25")
    with pytest.raises(AttributeError, match="cannot be given back"):
        budget.spent = 0
    assert budget.spent == 0.25


def test_an_error_inside_a_property_is_told_as_it_is():
    class Thing(migration.Named):
        @property
        def shape(self):
            return [].nothing

    with pytest.raises(AttributeError, match="'list' object has no attribute 'nothing'"):
        Thing().shape  # noqa: B018


@pytest.mark.parametrize(
    ("package", "name", "said"),
    [
        ("pgmjax", "audit", "from pgmjax import audit"),
        ("pgmjax", "sweeps", "from pgmjax import sweeps"),
        ("pgmjax.mechanisms", "Aim", "'AIM'"),
        ("pgmjax.queries", "sum", "queries.mean"),
        ("pgmjax.privacy", "BudgetAccountant", "privacy.Ledger"),
        ("pgmjax", "Session", "pgmjax.history.Session"),
        ("pgmjax.privacy", "AIM", "pgmjax.mechanisms.AIM"),
        ("pgmjax.queries", "equals", "history.builders.equals"),
    ],
)
def test_a_package_answers_an_unknown_name(package, name, said):
    module = importlib.import_module(package)
    with pytest.raises(AttributeError, match=f"{package} has no '{name}'.*{said}"):
        module.__getattr__(name)  # as Python does where there is no such name; audit may be imported by now
    assert not hasattr(module, "__wrapped__") and not hasattr(module, "_private")


def test_a_package_that_is_answered_for_still_finds_its_modules():
    """Before a module is imported its package is asked for the name."""
    for package in ("privacy", "queries", "history", "local", "mechanisms", "model", "uncertainty"):
        found = importlib.import_module(f"pgmjax.{package}")
        assert all(hasattr(found, name) for name in found.__all__)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("from pgmjax import FactoredInference", r"here it is Estimator\(\).fit\("),
        ("from pgmjax.mechanisms import Aim", "'AIM'"),
        ("from pgmjax.privacy import zzz as z", "pgmjax.privacy has no 'zzz'"),
        ("from pgmjax.losses_ import L1", "No module named"),
    ],
)
def test_an_import_of_an_unknown_name_is_answered_in_our_words(line, said):
    with pytest.raises(ImportError, match=said):
        exec(line)


def test_other_ways_to_ask_a_module_stay_as_they_are():
    names = {}
    exec("from pgmjax.queries import *\nfrom pgmjax import release, plotting", names)
    assert {"marginal", "release", "plotting"} <= {*names}
    assert getattr(pj, "FactoredInference", None) is None and not hasattr(pj, "FactoredInference")
    for function in (pj.load, pj.local.respond, pj.queries.range, pj.history.builders.between):
        assert pickle.loads(pickle.dumps(function)) is function
    home = importlib.import_module("pgmjax.local.respondent")
    assert pj.local.respond is home.respond and home.respond.__globals__ is vars(home)
    assert [found for found in doctest.DocTestFinder().find(pj.Domain) if found.name == "Domain"]
    assert any(found.examples for found in doctest.DocTestFinder().find(home) if "respond" in found.name)


@pytest.mark.parametrize(
    ("call", "write"),
    [
        (lambda: pj.load(), r"load needs folder. Write load\(folder\)"),
        (
            lambda: pj.local.respond(DOMAIN, {}, epsilon=1),
            "local.respond has no argument 'epsilon': it is given where a mech",
        ),
        (
            lambda: pj.queries.range(1, 2, 3, 4),
            r"too many .* Write queries.kronecker.*range\(18, 64\)",
        ),
        (lambda: pj.history.builders.between("a"), "history.builders.between needs low, high"),
        (lambda: pj.local.Channel(3), r"Channel needs truth, .* Write Channel\(size, truth"),
        (lambda: pj.local.Channel.at(3), r"Channel.at needs epsilon \("),
        (lambda: pj.learning.MLP(layers=3), r"MLP has no argument 'layers'. Write MLP\(hidden="),
        (
            lambda: pj.Estimator.fit(DOMAIN, [NOISY]),
            r"called on the class: make one first, by Estimator\(...\)",
        ),
        (lambda: pj.Domain.size("a"), r"called on the class: make one first, by Domain\(\{"),
        (lambda: pj.history.KernelRidge.answer(), "called on the class"),
        (lambda: FIT.model.sample(5, random_state=1), r"GraphicalModel.sample has no .*: here it is seed"),
        (lambda: pj.mechanisms.AIM(1, "add-remove", unit=pj.Unit("a", 3)), "unit': it belongs to the table"),
        (lambda: pj.mechanisms.MST(1, "add-remove").run(DATA), r"MST.run needs workload"),
        (lambda: pj.mechanisms.MST(1, "add-remove").run(DATA, 2), r"write Workload.all_kway\(domain, 2\)"),
        (lambda: pj.mechanisms.MST(1, "add-remove", backend="opendp"), "leave it out for the secure noise"),
        (lambda: len(DATA), r"dataset.count\(\) is its number of records, which is private"),
        (lambda: DATA["a"], "gives no column back, as it is private"),
        (lambda: DOMAIN.__setitem__("x", 5), r"Domain\(\{\*\*domain.to_dict\(\)"),
        (lambda: [*FIT], "fit.model, fit.loss"),
        (lambda: bool(pj.history.builders.equals("a", 1)), "join conditions by &, |"),
        (lambda: pj.queries.point(1) & pj.queries.point(2), r"queries.subset\(\[1, 2\]\)"),
        (lambda: pj.queries.marginal(["a"]) | pj.queries.marginal(["b"]), "Conditions join, not queries"),
        (lambda: pj.StructuralZeros(("a", "b"), [(0, 1)]), r"mask\[tuple\(np.transpose\(cells\)\)\] = False"),
        (lambda: pj.history.KernelPCA.of([NOISY]), r"write History\(domain, measurements\)"),
        (
            lambda: pj.history.History(DOMAIN, [pj.queries.marginal(["a"])]),
            r"write LinearMeasurement\(clique",
        ),
        (lambda: pj.adapters.arrow.marginal_to_arrow(FIT, ("a",)), "model.*GraphicalModel.*Fit"),
        (lambda: pj.local.marginals_of(DATA, [("a",)]), "responses has to have 'groups', got Dataset"),
        (
            lambda: pj.Compression(DOMAIN, 3),
            "merged must be a mapping of attribute to the codes to merge, got int",
        ),
        (lambda: pj.queries.kronecker(a=pj.queries.total()), r"Write queries.kronecker\(\{\"age\":"),
        (lambda: pj.Workload([("a",)])[0], "workload.entries"),
        (lambda: pj.Attribute("a", {"min": 0}), r"Attribute.from_spec\(name, entry\)"),
        (
            lambda: pj.mechanisms.MST.run(DATA, pj.Workload([("a",)])),
            r"by mechanisms.MST\(1, \"add-remove\"\)",
        ),
        (lambda: pj.Estimator().fit([NOISY]), r"fit needs domain \(what values"),
        (lambda: pj.Workload.all_kway(2), r"all_kway needs domain \("),
        (lambda: pj.uncertainty.error_bars(FIT, [("a",)]), "error_bars needs measurements. Write"),
        (lambda: pj.privacy.PrivateTable(DATA, pj.privacy.Budget(1)), "PrivateTable needs relation"),
        (lambda: pj.privacy.PrivateTable("add-remove", pj.privacy.Budget(1)), "PrivateTable needs data"),
        (lambda: pj.Dataset.from_columns({"a": [1]}), "from_columns needs domain"),
        (lambda: pj.Dataset.from_frame(), "from_frame needs domain .*, frame. Write"),
        (lambda: pj.Dataset.read("t.csv", DOMAIN, sep=";"), "'sep': leave it out"),
        (lambda: FIT.model.condition(a=1), r"Write GraphicalModel\.condition\(\{'a': 1\}\)"),
        (lambda: pj.local.respond(DOMAIN, {"a": 1}), r"needs mechanism \(mechanisms.RandomizedResponse"),
        (lambda: pj.LinearMeasurement([5.0, 6.0], ("a",), 8.0), "the clique comes first"),
        (lambda: FIT.model.sample_to(10, "rows.csv"), r"write sample_to\(\"rows.csv\", 10\)"),
        (lambda: pj.Estimator().fit(DOMAIN, [NOISY], [pj.FixedMarginal(("a",), [2, 4])]), "constraints="),
        (lambda: pj.adapters.mbi.from_mbi(DOMAIN, [NOISY]), "pgmjax's own: write Estimator"),
        (lambda: FIT.model.answer(1), r"conditions such as 'a=0', names such as \('a',\)"),
        (lambda: pj.Synthesizer({"a": 2}), r"domain and frame go to fit\(frame, domain\)"),
        (lambda: FIT.model.sample(5, decode=True), r"codes become values by pandas.DataFrame\(domain.decode"),
        (lambda: DATA.marginals(("a", "b")), r"\[\('a', 'b'\)\]"),
        (lambda: FIT.model.calibrate().marginals(("a", "b")), r"\[\('a', 'b'\)\]"),
        (lambda: pj.Estimator().plan(DOMAIN, ("a", "b")), r"\[\('a', 'b'\)\]"),
        (lambda: FIT.model.calibrate().scores([("a",), [2, 4]]), r"write \{\('sex',\): \[520, 480\]\}"),
        (lambda: FIT.model.marginal("b"), r"\('b',\).*\('b', 'a'\)"),
        (lambda: pj.Attribute.from_spec({"size": 3}, "a"), r"dict.*Attribute\.from_spec\("),
        (lambda: pj.discovery.OpenTable.from_frame(DOMAIN, 3), "The frame comes first"),
        (lambda: pj.privacy.Budget(1, 1e-6), r'write Budget\(1, unit="renyi", delta=1e-06\)'),
        (lambda: pj.Domain({"sex": {"F", "M"}}), r'"labels": \["F", "M"\]\}\.$'),
        (
            lambda: pj.Synthesizer(epsilon=1, relation="add-remove").fit(FRAME, {"sex": {"F"}}),
            r'or "sex": "discover"\. Nothing was spent\.$',
        ),
        (lambda: pj.privacy.Budget(1).split(2), r"\[1, 1\]"),
        (lambda: pj.Estimator().fit(DOMAIN, [NOISY], callback=lambda: 0), "write lambda progress"),
    ],
)
def test_functions_classes_and_operators_are_told_what_to_write(call, write):
    with pytest.raises(TypeError, match=write):
        call()


def test_a_status_is_compared_with_no_text():
    status = pj.Status.CONVERGED
    assert status == 0 and status == pj.Status(0) and status != pj.Status.STALLED
    assert operator.ne(status, 0) is False and {status: 1}[pj.Status(0)] == 1 and status in (0, 2)
    for compare in (operator.eq, operator.ne):
        for pair in ((status, "CONVERGED"), ("CONVERGED", status), (status, "STALLED"), ("", status)):
            with pytest.raises(TypeError, match=r"compare with pgmjax\.Status\.CONVERGED"):
                compare(*pair)


def test_an_object_of_the_right_kind_is_not_blamed_for_what_a_callback_asks_of_it():
    def callback(_):
        return DOMAIN.no_such_name

    estimator = pj.Estimator(progress=False, max_steps=60)
    with pytest.raises(AttributeError, match="no_such_name"):
        estimator.fit(DOMAIN, [NOISY], 6, callback=callback)


def test_one_constraint_is_a_list():
    fixed = pj.FixedMarginal(("a",), [2, 4])
    fit = pj.Estimator(progress=False).fit(DOMAIN, [NOISY], 6, constraints=fixed)
    assert np.allclose(fit.model.marginal(("a",)), [2, 4])


def test_what_can_be_taken_for_something_else_is_warned_of():
    with pytest.warns(UserWarning, match="potentials are logarithms"):
        pj.GraphicalModel.from_potentials(DOMAIN, {("a",): [0.4, 0.6]})
    with pytest.warns(UserWarning, match="a delta of 0.01 is large"):
        pj.mechanisms.MST(1, "add-remove", delta=0.01)
