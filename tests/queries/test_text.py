"""Conditions as text against selections worked out by hand."""

import itertools
import math
import operator
import re

import numpy as np
import pytest

from pgmjax.data.domain import Domain
from pgmjax.queries import text as query_text

DOMAIN = Domain(
    {
        "age": {"bins": [0, 20, 30, 99], "missing": "?"},
        "sex": {"labels": ["Female", "Male"]},
        "income": 4,
        "income>50K": 2,
        "weeks": {"labels": [1, 2, 5]},
        "price": {"bins": [0, 1, 2], "clip": True},
        "state": {"labels": ["a,b", "White", "x|y", "in"]},
        "visits": {"size": 3, "missing": True},
    }
)

CASES = {
    "sex=Male": {"sex": (1,)},
    "sex == Male": {"sex": (1,)},
    "sex=Male,age<30": {"sex": (1,), "age": (0, 1)},
    "  sex = Male ,  age < 30 ": {"sex": (1,), "age": (0, 1)},
    "income>50K=1": {"income>50K": (1,)},  # a name that holds an operator
    "income>50K>=1": {"income>50K": (1,)},
    "income>2": {"income": (3,)},
    "'income>50K'=0": {"income>50K": (0,)},
    "age=[20, 30)": {"age": (1,)},
    "age=[30, 99]": {"age": (2,)},
    "age>=20": {"age": (1, 2)},
    "age>=0": {"age": (0, 1, 2)},
    "age<=99": {"age": (0, 1, 2)},
    "age<1000": {"age": (0, 1, 2)},
    "age>-5": {"age": (0, 1, 2)},
    "age>=20, age<30": {"age": (1,)},
    "age=missing": {"age": (3,)},
    "age=?": {"age": (3,)},
    "age!=?": {"age": (0, 1, 2)},
    "age != [0, 20)": {"age": (1, 2, 3)},
    "age in {[0, 20)|missing}": {"age": (0, 3)},
    "sex in {Male|Female}": {"sex": (0, 1)},
    "sex in{ Male | 'Female' }": {"sex": (0, 1)},
    "weeks<=2": {"weeks": (0, 1)},
    "weeks>1": {"weeks": (1, 2)},
    "weeks=5": {"weeks": (2,)},
    "weeks=5.0": {"weeks": (2,)},
    "price<1": {"price": (0,)},
    "price>=1": {"price": (1,)},
    "state='a,b'": {"state": (0,)},
    'state="x|y", sex=Male': {"state": (2,), "sex": (1,)},
    "state=in": {"state": (3,)},
    "visits<2": {"visits": (0, 1)},
    "visits>=1": {"visits": (1, 2)},  # the bucket of missing values lies above no number
    "visits!=0": {"visits": (1, 2, 3)},
    "visits=missing": {"visits": (3,)},
    "weeks in {1|5}, weeks in {2|5}": {"weeks": (2,)},
    # as it is written elsewhere
    "WHERE sex = 'Male' AND age >= 20 AND age < 30": {"sex": (1,), "age": (1,)},
    "(sex == 'Male') & (age < 30)": {"sex": (1,), "age": (0, 1)},
    "sex IN (Female, 'Male')": {"sex": (0, 1)},
    "sex in ['Male']": {"sex": (1,)},
    "weeks in {1,5}": {"weeks": (0, 2)},
    "state NOT IN (White, in)": {"state": (0, 2)},
    "weeks BETWEEN 2 AND 5 AND sex=Male": {"weeks": (1, 2), "sex": (1,)},
    "age IS NOT NULL; sex<>Male": {"age": (0, 1, 2), "sex": (0,)},
    "age \u2265 20, sex=\u201cMale\u201d": {"age": (1, 2), "sex": (1,)},
    "age=[20,30)": {"age": (1,)},
    "weeks.isin([1, 5])": {"weeks": (0, 2)},
    "(sex.isin(['Male'])) & (age < 30);": {"sex": (1,), "age": (0, 1)},
    "sex %in% c('Male', \"Female\")": {"sex": (0, 1)},
    "`sex` = 'Male'": {"sex": (1,)},
    "state in {a,b}": {"state": (0,)},  # a label with a comma stays one
}


@pytest.mark.parametrize("text", CASES, ids=str)
def test_selection(text):
    assert query_text.conditions(text, DOMAIN).codes == CASES[text]


ERRORS = {
    "": "empty",
    "   ": "empty",
    "sex=Male,": "ends with a comma",
    "height=3": "Unknown attribute 'height'; the model has age, sex",
    "'height'=3": "Unknown attribute 'height'",
    "sex": "'sex' alone is no condition: .* --marginal",
    "sex,age": "'sex' alone is no condition: .* --marginal",
    "mean(age)": "counts records and knows no mean",
    "P(sex=Male|age<30)": "A share among some of the records is one count over another",
    "sex Male": "Expected an operator .* behind 'sex'",
    "sex=": "value is missing",
    "sex=,age<30": "value is missing",
    "sex=mael": "'mael'.*'sex'.*'Male'",
    "sex in {Male|}": "A value is missing in",
    "sex in {Male": "closed by }",
    "sex in Male": "Expected an operator .*or in {a|b}.* behind 'sex'",
    "sex<Male": "words without an order",
    "sex<3": "words without an order",
    "age<x": "needs a number",
    "age<nan": "needs a number",
    "age<inf": "needs a number",
    "age<25": "25 cuts through a bin of 'age'; nearest edges: 20 and 30",
    "age<=30": "write age<30 for age<=30, or age>=30 for age>30",
    "age>20": "write age<20 for age<=20, or age>=20 for age>20",
    "age<99": "write age<=99",
    "age>=99": "write age<=99",
    "age=25": r"'25' is in .20, 30., a bin of 'age'.*as in age>=20,age<30\.",
    "price<=2": "2 cuts through a bin of 'price'; nearest edges: 1",
    "price>=0": "cuts through a bin of 'price'",
    "age<20,age>=20": "No value of 'age' satisfies",
    "income>3": "No value of 'income' satisfies",
    "income=4": "'4' is not a value of 'income'",
    "income=1.5": "is not a value of 'income'",
    "state='a,b' sex=Male": "Expected a comma before",
    "sex=Male OR age<30": "There is no OR of conditions",
    "sex=Male AND NOT (age<30)": "There is no NOT before a condition",
    "NOT sex=Male": "^There is no NOT before a condition: write sex!=Male.$",
    "age BETWEEN 20 AND 30": "not their upper: write age>=20,age<30.$",
    "age=20-30": "^A range is two conditions: write age>=20,age<30.$",
    "income=1..2": "^A range is two conditions: write income>=1,income<=2.$",
    "sex LIKE 'M%'": "There are no patterns",
    "weeks in [1, 5]": "for what lies between them",  # a list to some, and a range to others
    "SELECT count(*) WHERE sex=Male": "Write conditions alone",
    "age>1,000": "without a separator of thousands",
    ",age<30": "leave out a comma that has nothing before it",
}


@pytest.mark.parametrize("text", ERRORS, ids=repr)
def test_message(text):
    with pytest.raises(ValueError, match="(?s)" + ERRORS[text].replace("[", r"\[")):
        query_text.conditions(text, DOMAIN)


def test_answer_is_the_count_of_matching_cells():
    table = np.random.default_rng(0).integers(0, 50, (2, 4))  # axes: sex, age
    query = query_text.parse("sex=Male,age<30", DOMAIN)
    assert query.clique == ("sex", "age")
    assert np.ravel(query.apply(table)).tolist() == [table[1, :2].sum()]


def test_many_values_are_not_all_listed():
    domain = Domain({"n": 500, **{f"a{i}": 2 for i in range(40)}})
    with pytest.raises(ValueError, match=r"500 in all"):
        query_text.conditions("n=x", domain)
    with pytest.raises(ValueError, match=r"a28, \.\.\."):
        query_text.conditions("m=1", domain)


OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


@pytest.mark.parametrize("word", OPERATORS)
def test_a_bound_on_whole_numbers_counts_those_of_its_bin(word):
    """Every whole number of a bin is as likely: the share is that of the numbers that satisfy it."""
    edges = [0, 18, 36, 47, 48, 101]
    domain = Domain({"age": {"bins": edges, "grid": 1, "missing": True}})
    cells = [np.arange(low, high) for low, high in itertools.pairwise(edges)]
    for bound in range(1, 100):
        found = query_text.conditions(f"age{word}{bound}", domain, interpolate=True)
        expected = [OPERATORS[word](cell, bound).mean() for cell in cells]
        np.testing.assert_allclose(found.shares["age"], [*expected, 0.0])
        assert len(found.notes) == sum(0 < share < 1 for share in expected)
        if found.notes:
            with pytest.raises(ValueError, match=f"{bound} cuts through a bin of 'age'; nearest edges"):
                query_text.parse(f"age{word}{bound}", domain)
        else:
            assert query_text.parse(f"age{word}{bound}", domain) == found.query


def test_two_bounds_in_one_bin_count_what_is_between_them():
    domain = Domain({"x": {"bins": [0, 1, 2]}, "sex": {"labels": ["F", "M"]}})
    found = query_text.conditions("X>=1.25,sex=m,x<1.75", domain, interpolate=True)
    assert found.shares["x"].tolist() == [0, 0.5] and found.codes == {"x": (1,), "sex": (1,)}
    assert found.notes == (
        "Interpolated: 50 % of [1, 2] of 'x' is counted, as if its values were spread evenly.",
    )
    assert found.query.apply(np.array([[1, 2], [3, 40]])).item() == 20
    with pytest.raises(ValueError, match="No value of 'x' satisfies"):
        query_text.conditions("x<1.25,x>=1.75", domain, interpolate=True)


def test_a_bound_cuts_a_bin_as_synthetic_values_lie_in_it():
    within = [[0, 0.1], [4, 0.3], [10, 0.3], [15, 0.2], [18, 0.1]]
    domain = Domain({"x": {"bins": [0, 10, 20], "grid": 1, "within": within}})
    drawn = domain.attribute("x").values(np.repeat([0, 1], 40_000), np.random.default_rng(0)).reshape(2, -1)
    for bound in (2, 4, 7, 13, 15, 19):
        found = query_text.conditions(f"x<{bound}", domain, interpolate=True).shares["x"]
        assert np.abs(found - (drawn < bound).mean(axis=1)).max() < 5 * 0.5 / math.sqrt(40_000)


def test_dates_are_bounds_too():
    domain = Domain({"day": {"from": "2020-01-01", "to": "2020-12-31", "step": "month"}})
    exact = query_text.conditions("day<2020-03-01", domain)
    assert exact.codes == {"day": (0, 1)} and not exact.notes
    cut = query_text.conditions("day<=2020-02-10", domain, interpolate=True)
    np.testing.assert_allclose(cut.shares["day"][:3], [1, 10 / 29, 0])
    with pytest.raises(ValueError, match=r"2020-02-10 cuts .* edges: 2020-02-01 and 2020-03-01"):
        query_text.parse("day<2020-02-10", domain)
    with pytest.raises(ValueError, match="'day' < needs a date such as 2021-01-01, got 'May'"):
        query_text.parse("day<May", domain)


def test_a_label_may_begin_like_an_operator():
    """Adult's income is `<=50K` or `>50K`; what is no value is answered with what was meant."""
    domain = Domain({"income": ["<=50K", ">50K", "<1"], "age": {"min": 0, "max": 99, "step": 20}})
    for text, code in (("income=<=50K", 0), ("income=>50K", 1), ("income=<1", 2), ("income!=<1", None)):
        (chosen,) = query_text.conditions(text, domain).codes.values()
        assert [*chosen] == ([0, 1] if code is None else [code])
    for text, meant in (("age=>40", ">="), ("age=<40", "<=")):
        with pytest.raises(ValueError, match=f"write {meant}"):
            query_text.conditions(text, domain)


def test_edges_are_named_as_they_can_be_written():
    """With all digits, on a grid with those of the grid, and <= for a last bin that is closed."""
    domain = Domain(
        {
            "tenths": {"bins": [0, 0.1, 0.30000000000000004, 0.6], "grid": 0.1},
            "wide": {"bins": [0, 1_000_000, 1_250_001, 2_000_000]},
        }
    )
    with pytest.raises(ValueError, match=r"nearest edges: 0\.1 and 0\.3\."):
        query_text.parse("tenths<0.2", domain)
    with pytest.raises(ValueError, match=r"nearest edges: 1000000 and 1250001\."):
        query_text.parse("wide<1100000", domain)
    for value, written in (
        (1_100_000, "wide>=1000000,wide<1250001"),
        (1_500_000, "wide>=1250001,wide<=2000000"),
    ):
        with pytest.raises(ValueError, match=re.escape(f"as in {written}.")):
            query_text.parse(f"wide={value}", domain)
        assert query_text.parse(written, domain).num_rows(domain) == 1
