"""Conditions count the records they hold for, in few terms."""

import functools
import itertools
import operator

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.history.builders import between, decomposed, equals, is_in
from pgmjax.history.rows import Rows

DOMAIN = pj.Domain({"a": 5, "b": 2, "c": 4, "e": 3})
CELLS = dict(zip(DOMAIN, np.indices(DOMAIN.shape).reshape(4, -1), strict=True))


def holds(condition):
    """Whether a condition holds in each cell."""
    return condition._over(DOMAIN, {})(CELLS)


def random_condition(rng, depth):
    if depth == 0 or rng.random() < 0.2:
        name = DOMAIN.attributes[rng.integers(4)]
        count = rng.integers(1, DOMAIN[name])
        return is_in(name, np.sort(rng.choice(DOMAIN[name], count, replace=False)).tolist())
    word = rng.integers(3)
    if word == 2:
        return ~random_condition(rng, depth - 1)
    first, second = random_condition(rng, depth - 1), random_condition(rng, depth - 1)
    return first & second if word else first | second


@pytest.mark.parametrize("seed", range(60))
def test_any_condition_counts_where_it_holds(seed):
    condition = random_condition(np.random.default_rng(seed), 4)
    truth = holds(condition)
    if truth.any():
        query = condition.query(DOMAIN)
        assert query.is_integral(DOMAIN)
        np.testing.assert_array_equal(Rows.of(query, DOMAIN).matrix()[0], truth)


def test_meaning_of_the_words():
    condition = (between("a", 1, 3) & ~equals("b", 1)) | is_in("e", [0, 2])
    a, b, e = CELLS["a"], CELLS["b"], CELLS["e"]
    np.testing.assert_array_equal(holds(condition), ((a >= 1) & (a <= 3) & (b != 1)) | (e != 1))


@pytest.mark.parametrize("seed", range(20))
def test_two_attributes_take_as_many_terms_as_the_rank_or_few_more(seed):
    table = np.random.default_rng(seed).integers(0, 2, size=(4, 6))
    terms = decomposed(table)
    np.testing.assert_array_equal(sum(n * np.multiply.outer(*vectors) for n, vectors in terms), table)
    assert np.linalg.matrix_rank(table) <= len(terms) <= 4


def binary(count):
    return pj.Domain({chr(97 + place): 2 for place in range(count)})


def terms_of(condition, domain):
    return len(condition.query(domain).factors(domain))


def test_well_known_conditions_take_few_terms():
    domain = binary(12)
    every = [equals(name, 1) for name in domain]
    assert terms_of(functools.reduce(operator.and_, every), domain) == 1
    assert terms_of(functools.reduce(operator.or_, every), domain) == 2
    assert terms_of(~functools.reduce(operator.or_, every), domain) == 1
    assert terms_of(equals("a", 1) | equals("a", 0), domain) == 1
    odd = functools.reduce(lambda x, y: (x & ~y) | (~x & y), every[:6])
    assert terms_of(odd, domain) <= 6
    three = [equals(x, 1) & equals(y, 1) & equals(z, 1) for x, y, z in itertools.combinations("abcde", 3)]
    assert terms_of(functools.reduce(operator.or_, three), domain) <= 10


def test_seven_attributes_are_sliced_along_one():
    domain = binary(7)
    rng = np.random.default_rng(0)
    table = rng.integers(0, 2, size=(2,) * 7)
    total = sum(n * functools.reduce(np.multiply.outer, vectors) for n, vectors in decomposed(table))
    np.testing.assert_array_equal(total, table)
    assert len(domain) == table.ndim


def test_codes_that_are_treated_alike_are_one_case():
    domain = pj.Domain({"age": 1000, "pay": 1000, "day": 1000})
    condition = (between("age", 3, 700) | between("pay", 10, 20)) & between("day", 0, 99)
    assert terms_of(condition, domain) == 2


def test_bad_conditions():
    with pytest.raises(ValueError, match="never holds: there is nothing to count"):
        (equals("a", 0) & equals("a", 1)).query(DOMAIN)
    with pytest.raises(ValueError, match=r"5.*'a'"):
        equals("a", 5).query(DOMAIN)
    with pytest.raises(ValueError, match="'z'"):
        equals("z", 0).query(DOMAIN)
    with pytest.raises(TypeError, match="joined with another one, got bool"):
        equals("a", 0) & True
    with pytest.raises(ValueError, match="subset"):
        is_in("a", [])
    wide = functools.reduce(operator.or_, [equals(f"x{i}", 1) for i in range(20)])
    domain = pj.Domain({f"x{i}": 2 for i in range(20)})
    with pytest.raises(ValueError, match="combinations of codes apart, above the limit"):
        wide.query(domain)
