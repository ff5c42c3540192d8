"""How attributes are grouped, encoded and paid for, and when the noise exceeds any use."""

import math
from fractions import Fraction

import pytest

from pgmjax.data.domain import Domain
from pgmjax.mechanisms.randomized_response import check_useful, least_variance, universes

DOMAIN = Domain({"a": 3, "one": 1, "b": 20, "c": 2})


def test_attributes_by_themselves():
    found = universes(DOMAIN, ["c", "b"], "attributes", None, None, Fraction(1))
    assert found.groups == (("b",), ("c",)) and found.epsilons == (Fraction(1, 2),) * 2
    assert found.encodings == ("optimal-unary", "direct")


def test_all_together():
    found = universes(DOMAIN, ["c", "a"], "joint", "direct", None, Fraction(1))
    assert found.groups == (("a", "c"),) and found.epsilons == (1,)


def test_an_attribute_of_one_category_goes_with_another():
    for universe in ("attributes", "joint"):
        found = universes(DOMAIN, ["one", "c"], universe, None, None, Fraction(1))
        assert found.groups == (("one", "c"),)
    with pytest.raises(ValueError, match="has one category"):
        universes(DOMAIN, ["one"], "attributes", None, None, Fraction(1))


def test_shares():
    found = universes(DOMAIN, ["a", "c"], "attributes", None, {"a": Fraction(3)}, Fraction(1))
    assert found.epsilons == (Fraction(3, 4), Fraction(1, 4))
    with pytest.raises(ValueError, match="'b'"):
        universes(DOMAIN, ["a"], "attributes", None, {"b": Fraction(1)}, Fraction(1))
    with pytest.raises(ValueError, match="leave it out for universe="):
        universes(DOMAIN, ["a"], "joint", None, {"a": Fraction(1)}, Fraction(1))


@pytest.mark.parametrize("epsilon", ["1/10", "1", "2", "5", "2000"])
def test_the_encoding_of_least_variance(epsilon):
    """By the closed forms of both, on either side of the border."""
    exp = math.exp(min(float(Fraction(epsilon)), 300))
    for size in range(2, 1000, 7):
        direct, unary = (size - 2 + exp) / (exp - 1) ** 2, 4 * exp / (exp - 1) ** 2
        expected = "direct" if direct < unary else "optimal-unary"
        assert least_variance(size, Fraction(epsilon)) == expected
    assert least_variance(2**17, Fraction(1)) == "direct"


def test_a_universe_too_large_for_its_records():
    domain = Domain({"v": 1024})
    plan = universes(domain, ["v"], "joint", "direct", None, Fraction(1))
    predicted = plan.predicted_errors(domain, [("v",)], 48842)
    assert predicted["v",] == pytest.approx(1.35, abs=0.005)
    with pytest.raises(ValueError, match=r"48,842.*1\.35"):
        check_useful(predicted, 48842, Fraction(1), "refuse")
    check_useful(predicted, 48842, Fraction(1), "answer")
    check_useful(plan.predicted_errors(domain, [("v",)], 10**6), 10**6, Fraction(1), "refuse")
