"""A number means one thing wherever a value is named: a value where values are numbers, else a code."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import pgmjax as pj
from pgmjax import queries as q
from pgmjax.history import builders
from pgmjax.learning.training_set import training_query, validation_query
from pgmjax.local import answer_conditions
from pgmjax.local.table import PerturbedTable, ResponseColumn
from pgmjax.privacy.response import KaryResponse
from pgmjax.queries.random import distinct_ranges, random_ranges
from pgmjax.queries.spec import from_spec

ENTRIES = {
    "labels from one": ({"labels": [1, 2, 3]}, [1, 2, 3]),
    "labels in no order": ({"labels": [1, 0, 3]}, [1, 0, 3]),
    "negative labels": ({"labels": [-1, 0, 1]}, [-1, 0, 1]),
    "labels with a fraction": ({"labels": [0.5, 1, 2.5]}, [0.5, 1, 2.5]),
    "whole numbers": ({"min": 17, "max": 19}, [17, 18, 19]),
    "a grid": ({"bins": [0, 0.5, 1, 1.5], "grid": 0.5}, [0, 0.5, 1]),
    "missing": ({"labels": [1, 2], "missing": True}, [1, 2]),
    "others": ({"labels": [1, 2], "other": True}, [1, 2]),
    "codes": (3, [0, 1, 2]),
}


def count(model, query):
    return float(model.answer(query)[0])


def readings(domain, value):
    """Yield what each way to name a value counts in a table with 10, 20 and 30 records of its codes."""
    model = pj.GraphicalModel.from_potentials(domain, {("x",): np.log([10.0, 20.0, 30.0])}, 60)
    kept = {"x": q.point(value)}
    yield "point", count(model, q.Product(kept))
    yield "subset", count(model, q.Product({"x": q.subset([value])}))
    yield "range", count(model, q.Product({"x": q.range(value, value)}))
    yield "ranges", count(model, q.Product({"x": q.ranges([(value, value)])}))
    yield "text", count(model, q.Product({"x": q.point(str(value))}))
    yield "a number of NumPy", count(model, q.Product({"x": q.point(np.float64(value))}))
    yield "equals", count(model, builders.equals("x", value).query(domain))
    yield "between", count(model, builders.between("x", value, value).query(domain))
    yield "evidence", model.condition({"x": value}).total
    workload = pj.Workload([q.Product(kept)]).over(domain)
    yield "workload", count(model, workload.entries[0].query)
    again = from_spec(workload.entries[0].query.to_spec()["queries"]["x"])
    yield "written and read", count(model, q.Product({"x": again}))
    allowed = pj.AllowedSet(("x",), [value]).zeros(domain).allowed
    yield "constraint", float(np.array([10, 20, 30])[allowed].sum())
    column = ResponseColumn(("x",), "direct", KaryResponse(3, 0.25), 0, np.repeat([0, 1, 2], [10, 20, 30]))
    table = PerturbedTable(domain, (column,), 60, False, 0)
    told = [
        answer_conditions(table, [{"x": [each]}], useless="answer").value[0] for each in (value, str(value))
    ]
    assert told[0] == told[1]


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_number_is_read_alike_everywhere(entry):
    spec, values = ENTRIES[entry]
    domain = pj.Domain({"x": spec})
    for code, value in enumerate(values):
        for said, found in readings(domain, value):
            assert found == pytest.approx(10 * (code + 1)), (said, value)
        data = pj.Dataset.from_frame(domain, pd.DataFrame({"x": [value]}))
        assert data.marginals([("x",)])[0][code] == 1
        assert q.Product({"x": q.point(q.Code(code))}).matrix(domain)[0, code] == 1


@pytest.mark.parametrize("entry", [name for name, (_, values) in ENTRIES.items() if values != [0, 1, 2]])
def test_what_is_no_value_is_refused_though_it_is_a_code(entry):
    spec, values = ENTRIES[entry]
    domain = pj.Domain({"x": spec})
    model = pj.GraphicalModel.from_potentials(domain, {("x",): np.zeros(3)}, 60)
    (wrong, *_) = [each for each in (0, 1, 2, 99) if each not in values]
    for act in (
        lambda: model.answer(q.Product({"x": q.point(wrong)})),
        lambda: model.condition({"x": wrong}),
        lambda: builders.equals("x", wrong).query(domain),
        lambda: pj.AllowedSet(("x",), [wrong]).zeros(domain),
    ):
        with pytest.raises(ValueError, match=f"{wrong}.*'x'"):
            act()


def test_a_code_is_no_number():
    assert q.point(q.Code(1)) != q.point(1) and hash(q.Code(1)) != hash(1)
    assert q.Code(1) == q.Code(1) and q.Code(1) != 1
    assert from_spec({"subset": [{"code": 0}, 2]}) == q.subset([q.Code(0), 2])


@pytest.mark.parametrize("spec", [{"min": 5, "max": 12}, {"labels": [3, 1, 2, 0, 7, 6, 5, 4]}])
def test_what_is_made_by_codes_stays_so_where_numbers_are_values(spec):
    numbered, plain = pj.Domain({"x": spec, "y": spec}), pj.Domain({"x": 8, "y": 8})
    made = [
        [
            *random_ranges(domain, 20, seed=0),
            distinct_ranges(domain, ("x",), 9, 1),
            training_query("tree", ("x", "y"), domain),
            validation_query(("x", "y"), domain),
            (~builders.equals("x", last)).query(domain),
        ]
        for domain, last in ((numbered, "12" if "min" in spec else 4), (plain, 7))
    ]
    for ours, theirs in zip(*made, strict=True):
        np.testing.assert_array_equal(ours.over(numbered).matrix(numbered), theirs.matrix(plain))


@pytest.mark.parametrize("code", [5, 99, -1])
def test_a_code_that_the_attribute_lacks_is_refused(code):
    domain = pj.Domain({"x": {"min": 1, "max": 5}, "y": 2})
    model = pj.GraphicalModel.from_potentials(domain, {("x", "y"): np.zeros((5, 2))})
    for ask in (
        lambda: q.Product({"x": q.point(q.Code(code))}).over(domain).check(domain),
        lambda: model.condition({"x": q.Code(code)}),
        lambda: model.log_partition({"x": q.Code(code)}),
    ):
        with pytest.raises(ValueError, match="'x'") as refused:
            ask()
        assert str(code) in str(refused.value)
