"""Labels where codes go: a query asked by labels is the query asked by codes, wherever it meets a domain."""

import numpy as np
import pytest

import pgmjax as pj
from pgmjax import queries as q
from pgmjax.history import builders as conditions
from pgmjax.local.conditions import answer_conditions
from pgmjax.local.table import PerturbedTable, ResponseColumn
from pgmjax.privacy import Budget, PrivateTable, SeededBackend
from pgmjax.privacy.response import KaryResponse

DOMAIN = pj.Domain(
    {
        "cut": {"labels": ["Fair", "Good", "Ideal"], "missing": True},
        "Price": {"bins": [0, 10, 20, 50]},
        "year": {"labels": [2019, 2020]},
    }
)
BY_LABEL = q.kronecker(
    {
        "CUT": q.subset(["ideal", "missing", 0]),
        "price": q.ranges([("[0, 10)", "[10, 20)"), ("[10, 20)", q.Code(2))]),
        "year": q.point("2020"),
    }
)
BY_CODE = q.kronecker(
    {
        "cut": q.subset([2, 3, 0]),
        "Price": q.ranges([(q.Code(0), q.Code(1)), (q.Code(1), q.Code(2))]),
        "year": q.point(q.Code(1)),
    }
)
DATA = pj.Dataset.from_columns(DOMAIN, {"cut": [0, 2, 3, 2], "Price": [0, 1, 2, 1], "year": [1, 1, 1, 0]})


def model():
    rng = np.random.default_rng(0)
    tables = {("cut", "Price"): rng.normal(size=(4, 3)), ("Price", "year"): rng.normal(size=(3, 2))}
    return pj.GraphicalModel.from_potentials(DOMAIN, tables, total=100)


def test_a_query_over_a_domain_has_its_codes_and_names():
    bound = BY_LABEL.over(DOMAIN)
    assert bound == BY_CODE and BY_CODE.over(DOMAIN) is BY_CODE
    assert q.range("Good", "Ideal").over(DOMAIN.attribute("cut")) == q.range(1, 2)
    twice = q.WeightedSum([(2, BY_LABEL)]).over(DOMAIN)
    assert twice == q.WeightedSum([(2, BY_CODE)])
    dense = q.DenseMatrix(("CUT", "Year"), np.eye(8)).over(DOMAIN)
    assert dense.clique == ("cut", "year")


def test_what_takes_a_query_takes_labels():
    expected = model().answer(BY_CODE)
    np.testing.assert_array_equal(model().answer(BY_LABEL), expected)
    workload = pj.Workload([BY_LABEL, {"clique": ["cut"], "queries": {"cut": {"point": "Good"}}}])
    assert workload.over(DOMAIN) == pj.Workload([BY_CODE, q.kronecker({"cut": q.point(1)})])
    released = [
        pj.mechanisms.Marginals(
            epsilon=1, relation="add-remove", backend=SeededBackend(0, insecure=True)
        ).run(DATA, pj.Workload([["year"], asked]))
        for asked in (BY_LABEL, BY_CODE)
    ]
    assert released[0].measurements[1].query == BY_CODE
    values = [each.measurements[1].values.tolist() for each in released]
    assert values[0] == values[1]
    tables = [
        PrivateTable(DATA, "add-remove", Budget(1), SeededBackend(0, insecure=True)).measure(
            [asked], epsilons=[1]
        )
        for asked in (BY_LABEL, BY_CODE)
    ]
    assert tables[0][0].values.tolist() == tables[1][0].values.tolist()
    noisy = [pj.LinearMeasurement(each.clique, [[[3.0], [4.0]]], 1.0, each) for each in (BY_LABEL, BY_CODE)]
    fits = [pj.Estimator(progress=False).fit(DOMAIN, [each], total=9) for each in noisy]
    np.testing.assert_array_equal(fits[0].model.marginal(("cut",)), fits[1].model.marginal(("cut",)))
    bars = pj.uncertainty.error_bars(fits[0], [noisy[0]], [BY_LABEL, BY_CODE], method="linear")
    np.testing.assert_array_equal(bars[0].stddevs, bars[1].stddevs)


def test_conditions_and_evidence_take_labels():
    same = model().condition({"Cut": ["ideal", 0], "price": "[10, 20)"})
    other = model().condition({"cut": [2, 0], "Price": q.Code(1)})
    np.testing.assert_array_equal(same.marginal(("year",)), other.marginal(("YEAR",)))
    either = conditions.between("cut", "Good", "Ideal") | conditions.equals("Year", "2020")
    by_code = conditions.between("cut", 1, 2) | conditions.equals("year", 2020)
    assert either.query(DOMAIN) == by_code.query(DOMAIN)
    column = ResponseColumn(("cut",), "direct", KaryResponse(4, 0.25), 3, np.array([0, 3, 2, 1]))
    table = PerturbedTable(DOMAIN.project(("cut",)), (column,), 4, False, 0)
    answers = [
        answer_conditions(table, [asked], useless="answer").value
        for asked in ({"CUT": ["Ideal"]}, {"cut": [2]})
    ]
    np.testing.assert_array_equal(*answers)
    filled = model().complete({"cut": ["Ideal", None]}, seed=0)
    np.testing.assert_array_equal(filled["cut"], model().complete({"cut": [2, -1]}, seed=0)["cut"])
    merged = pj.Compression(DOMAIN, {"cut": ["Fair", "good"]})
    assert merged.domain == pj.Compression(DOMAIN, {"cut": [0, 1]}).domain


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda: BY_LABEL.matrix(DOMAIN), "'CUT'.*'cut'"),
        (lambda: q.kronecker({"cut": q.point("Ideal")}).apply(np.ones(4)), r"'Ideal'.*query\.over\(domain\)"),
        (lambda: q.point("Idael").over(DOMAIN.attribute("cut")), "Fair.*'Ideal'"),
        (lambda: q.range("Ideal", "Fair").over(DOMAIN.attribute("cut")), "range.*2.*0"),
        (lambda: q.subset(["Ideal", 2]).over(DOMAIN.attribute("cut")), "subset.*2.*1"),
        (lambda: q.point("15").over(DOMAIN.attribute("Price")), r"'15' is in \[10, 20\), a bin of"),
        (lambda: model().condition({"cut": 1, "CUT": 2}), "evidence names 'CUT', twice"),
        (lambda: model().marginal(("cut", "CUT")), r"\('cut', 'cut'\)"),
    ],
)
def test_what_labels_cannot_be_is_said(act, said):
    with pytest.raises(ValueError, match=said):
        act()


@pytest.mark.parametrize(
    ("act", "call"),
    [
        (lambda: pj.Dataset.from_frame({"a": [1]}, DOMAIN), r"Dataset\.from_frame\(domain, frame\)"),
        (lambda: pj.Dataset.from_columns({"a": [1]}, DOMAIN), r"Dataset\.from_columns\(domain, columns\)"),
        (lambda: pj.Dataset.read(DOMAIN, "t.csv"), r"Dataset\.read\(path, domain\)"),
        (lambda: pj.Estimator().fit([], DOMAIN), r"Estimator\(\)\.fit\(domain, measurements\)"),
        (lambda: pj.Estimator().plan([("cut",)], DOMAIN), r"Estimator\(\)\.plan\(domain, cliques\)"),
        (lambda: pj.estimate_total([], DOMAIN), r"estimate_total\(domain, measurements\)"),
        (lambda: pj.Workload.all_kway(2, DOMAIN), r"Workload\.all_kway\(domain, k\)"),
        (lambda: pj.history.History([], DOMAIN), r"History\(domain, measurements\)"),
        (
            lambda: pj.Synthesizer(epsilon=1, relation="add-remove").fit(DOMAIN, {"a": [1]}),
            r"synthesizer\.fit\(frame, domain\)",
        ),
        (
            lambda: pj.mechanisms.Marginals(epsilon=1, relation="add-remove").run(
                pj.Workload([["cut"]]), DATA
            ),
            r"mechanism\.run\(data, workload\)",
        ),
    ],
)
def test_arguments_in_another_order_are_told_apart_by_their_types(act, call):
    with pytest.raises(TypeError, match=f"write {call}"):
        act()


@pytest.mark.parametrize("block", [q.mean(), q.moments(2)])
def test_codes_that_are_no_quantities_are_not_summed(block):
    domain = pj.Domain(
        {"sex": ["F", "M"], "age": {"size": 3, "missing": True}, "rooms": 4, "pay": {"bins": [0, 9, 99]}}
    )
    for name, why in (("sex", "has labels"), ("age", "has a code for missing values")):
        with pytest.raises(ValueError, match=f"'{name}' {why}, whose codes are no quantities"):
            q.Product({name: block}).over(domain)
    with pytest.raises(ValueError, match=r"'pay' has bins, .* sum over the records; divided by their number"):
        q.Product({"pay": block}).over(domain)
    assert q.Product({"rooms": block}).over(domain).num_rows(domain) == block.rows(4)
    assert q.Product({"sex": q.mean([0, 1])}).over(domain).num_rows(domain) == 1


@pytest.mark.parametrize(
    "entry", [{"min": 18, "max": 20}, {"labels": [18, 19, 20]}, {"bins": [18, 19, 20, 21], "grid": 1}]
)
def test_codes_that_are_numbers_of_their_own_are_summed_as_these(entry):
    domain = pj.Domain({"age": entry})
    assert q.Product({"age": q.mean()}).over(domain).matrix(domain).tolist() == [[18, 19, 20]]
    assert q.Product({"age": q.moments(2)}).over(domain).matrix(domain)[1].tolist() == [324, 361, 400]
