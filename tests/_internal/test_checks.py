"""Messages of argument checks: what was expected and what came."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from pgmjax._internal import checks


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: checks.integer("rows", True), TypeError, "rows must be an integer, got bool"),
        (lambda: checks.integer("rows", 2.5), TypeError, "rows must be an integer, got float 2.5"),
        (
            lambda: checks.integer("rows", Fraction(3 * 10**17 + 1, 3)),
            TypeError,
            "got Fraction 300000000000000001/3",
        ),
        (
            lambda: checks.integer("rows", Fraction(10**400)),
            TypeError,
            "must be an integer, got Fraction 1000",
        ),
        (lambda: checks.integer("rows", Decimal("1e999999999")), TypeError, "got Decimal 1E"),
        (lambda: checks.integer("rows", Decimal("sNaN")), TypeError, "got Decimal sNaN"),
        (lambda: checks.integer("rows", -1, low=0), ValueError, "rows must be an integer >= 0, got -1"),
        (lambda: checks.integer("rows", 9, low=0, high=5), ValueError, r"in 0\.\.5, got 9"),
        (lambda: checks.integer("rows", 9, high=5), ValueError, "<= 5, got 9"),
        (lambda: checks.number("tol", "1"), TypeError, "tol must be a number, got str"),
        (lambda: checks.number("tol", True), TypeError, "tol must be a number, got bool"),
        (lambda: checks.number("tol", float("nan")), ValueError, "tol must be finite"),
        (lambda: checks.number("tol", 0, above=0), ValueError, "tol must be > 0, got 0"),
        (lambda: checks.number("tol", -1, at_least=0), ValueError, "tol must be >= 0, got -1"),
        (lambda: checks.number("tol", 2, below=1), ValueError, "tol must be < 1, got 2"),
        (lambda: checks.choice("loss", "l3", ("l1", "l2")), ValueError, "'l1', 'l2', got 'l3'"),
        (
            lambda: checks.optional("no_such_module_here", extra="tables"),
            ImportError,
            r"pip install 'pgmjax\[tables\]'",
        ),
    ],
)
def test_messages(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_good_values_come_back():
    assert checks.integer("rows", np.int64(3)) == 3
    for given in (1e6, np.float32(1e6), Decimal("1e6"), Fraction(10**6)):
        found = checks.integer("rows", given)
        assert found == 1_000_000 and type(found) is int
    assert checks.number("tol", np.float32(0.5), above=0, below=1) == 0.5
    assert checks.choice("loss", "l1", ("l1", "l2")) == "l1"
    assert checks.choice("solver", "Mirror-Descent", ("lbfgs", "mirror_descent")) == "mirror_descent"
    assert checks.optional("math", extra="x").pi > 3


@pytest.mark.parametrize("text", ["1e6", "1_000_000", " 1000000 ", "1000000.0", "+1E+6"])
def test_whole_numbers_in_text(text):
    assert checks.integer_of_text(text) == 1_000_000


@pytest.mark.parametrize("text", ["1.5", "1e-1", "", "x", "nan", "inf", "1,00", "1e999", "1e6x", "0x10"])
def test_text_that_is_no_whole_number(text):
    with pytest.raises(ValueError, match="expected a whole number such as 1000, 1_000 or 1e3, got "):
        checks.integer_of_text(text)


@pytest.mark.parametrize("text", ["1,000", "1.000", "20,000,000", "12.345"])
def test_text_that_may_be_thousands_or_a_fraction_is_refused(text):
    plain = text.replace(",", "").replace(".", "")
    with pytest.raises(ValueError, match=rf"may be thousands or a fraction: write {plain}(\D|$)"):
        checks.integer_of_text(text)


def test_a_name_in_another_case_is_meant_only_if_it_is_the_only_one():
    assert checks.same_word("AGE", ["age", "Sex"]) == "age" and checks.same_word(3, ["age"]) is None
    both = ["age", "Age"]
    assert checks.same_word("AGE", both) is None and checks.same_word("Age", both) == "Age"
    with pytest.raises(ValueError, match=r"got 'acelerated'\. Did you mean 'accelerated'\?"):
        checks.choice("solver", "acelerated", ("lbfgs", "accelerated"))


def test_nothing_is_written_over(tmp_path):
    assert checks.new_path(tmp_path / "new") == tmp_path / "new"
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    for there in (tmp_path, tmp_path / "link"):
        with pytest.raises(ValueError, match="already exists: give a new name, nothing is ever overwritten"):
            checks.new_path(there)


def test_several():
    assert checks.several("sizes", (n for n in [1, 2]), "integers") == (1, 2)
    assert checks.several("sizes", np.array([1, 2]), "integers") == (1, 2)
    assert checks.several("sizes", [], "integers") == ()


@pytest.mark.parametrize("value", [3, None, "12", b"12", {1: 2}, np.array(3), len])
def test_what_is_no_sequence(value):
    with pytest.raises(TypeError, match=r"^sizes must be a sequence of integers, got .*: give a list"):
        checks.several("sizes", value, "integers")


def broken():
    yield 1
    raise TypeError("of the caller's own")


def test_a_sequences_own_error_passes():
    with pytest.raises(TypeError, match=r"^of the caller's own$"):
        checks.several("sizes", broken(), "integers")


def test_an_integer_beyond_floats_is_not_finite():
    with pytest.raises(ValueError, match="x must be finite"):
        checks.number("x", 10**400)
