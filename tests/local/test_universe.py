"""A product of attributes as one category."""

import numpy as np
import pytest

import pgmjax as pj
from pgmjax import local as co

DOMAIN = pj.Domain({"sex": 2, "age": 5, "race": 3})


def test_codes_are_row_major_and_come_back():
    universe = co.Universe(DOMAIN, ["race", "sex"])
    columns = {name: np.random.default_rng(0).integers(0, DOMAIN[name], 50) for name in ("race", "sex")}
    codes = universe.encode(columns)
    assert np.array_equal(codes, np.ravel_multi_index((columns["race"], columns["sex"]), (3, 2)))
    assert universe.size == 6 and tuple(universe.domain) == ("race", "sex")
    for name, column in universe.decode(codes).items():
        assert np.array_equal(column, columns[name])


def test_bytes_do_not_overflow():
    domain = pj.Domain({"a": 200, "b": 200, "c": 50000})
    universe = co.Universe(domain)
    top = {name: np.array([domain[name] - 1], np.uint16) for name in domain}
    assert universe.encode(top).tolist() == [universe.size - 1]


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: co.Universe("d"), TypeError, "Domain"),
        (lambda: co.Universe(pj.Domain({"a": 1})), ValueError, "2 to 2\\^31 cells, got 1"),
        (lambda: co.Universe(pj.Domain({"a": 2**16, "b": 2**16})), ValueError, "choose other"),
        (lambda: co.Universe(DOMAIN, ["height"]), ValueError, "height"),
        (lambda: co.Universe(DOMAIN).encode({"sex": [0]}), ValueError, "no column for the attribute 'age'"),
        (lambda: co.Universe(DOMAIN, ["sex"]).encode({"sex": [0.0]}), TypeError, "integer"),
        (lambda: co.Universe(DOMAIN, ["sex"]).encode({"sex": [0, 2]}), ValueError, r"outside 0\.\.1"),
        (
            lambda: co.Universe(DOMAIN, ["sex", "age"]).encode({"sex": [0], "age": [0, 1]}),
            ValueError,
            "equally",
        ),
        (lambda: co.Universe(DOMAIN, ["sex"]).column([0], "height"), ValueError, "height"),
    ],
)
def test_wrong_arguments_are_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()
