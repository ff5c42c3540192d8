"""Contingency tables: keys become labels, marginals of both releases of OpenDP become measurements."""

import dataclasses
import datetime
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars
import pytest

import pgmjax as pj
from pgmjax.adapters.opendp import from_contingency_table


@dataclasses.dataclass
class Measurement:
    noisy_measurement: Any
    clique: tuple[str, ...]
    stddev: float
    query: Any = None


@dataclasses.dataclass(frozen=True)
class SelectPrefixQuery:
    """As `opendp.extras.mbi._utilities.SelectPrefixQuery` of OpenDP 0.16."""

    length: int

    def __call__(self, factor):
        return factor.datavector()[: self.length]


class Marginals:
    """As `opendp.extras.mbi.Marginals` of OpenDP 0.16."""

    def __init__(self, measurements):
        self.measurements = measurements

    def flatten(self):
        return list(self.measurements)


KEYS = {
    "sex": polars.Series("sex", [1, 2, None]),
    "age": polars.Series("age", ["(-inf, 20.0]", "(20.0, inf]"]),
    "job": polars.Series("job", ["clerk", "cook", None]),
}
ONES = Measurement(np.array([600, 400]), ("job",), 2.0, SelectPrefixQuery(2))
PAIRS = Measurement(np.arange(6.0) * 80, ("sex", "age"), 3.0)
TOTAL = Measurement(np.array([1200.0]), (), 2.0)


def table(marginals):
    return SimpleNamespace(keys=KEYS, marginals=marginals, cuts={}, thresholds={"job": 14})


@pytest.mark.parametrize(
    "marginals",
    [
        Marginals([ONES, PAIRS, TOTAL]),
        {("job",): ONES, ("sex", "age"): PAIRS, (): TOTAL},
        {("job",): [ONES], ("sex", "age"): [PAIRS], (): [TOTAL]},
    ],
    ids=["multimap", "dictionary", "dictionary of lists"],
)
def test_keys_and_marginals(marginals):
    pytest.importorskip("mbi")  # whose factors OpenDP's queries are asked of
    domain, (ones, pairs, total) = from_contingency_table(table(marginals))
    assert domain.to_dict() == {
        "sex": {"labels": [1, 2], "missing": True},
        "age": {"labels": ["(-inf, 20.0]", "(20.0, inf]"]},
        "job": {"labels": ["clerk", "cook"], "missing": True},
    }
    for measurement in (ones, pairs, total):
        measurement.validate(domain)
    assert ones.query.matrix(domain).tolist() == [[1, 0, 0], [0, 1, 0]] and ones.stddev == 2
    assert pairs.query == pj.queries.marginal(("sex", "age"))
    assert pj.estimate_total(domain, [total]) == (1200, 4)
    fit = pj.Estimator(progress=False).fit(domain, [ones, pairs, total])
    np.testing.assert_allclose(
        fit.model.marginal(("sex", "age")).reshape(-1), PAIRS.noisy_measurement, atol=10
    )
    assert fit.model.condition({"job": "cook"}).total == pytest.approx(400, abs=10)


def test_pure_releases_have_laplace_noise():
    assert from_contingency_table(table({(): TOTAL}), noise="laplace")[1][0].noise == "laplace"


@pytest.mark.parametrize(
    "keys, labels, missing",
    [
        ([None, "x", "y"], ("null", "x", "y"), False),
        ([datetime.date(2020, 1, 2), datetime.date(2021, 1, 2), None], ("2020-01-02", "2021-01-02"), True),
        ([True, False], (True, False), False),
        ([1, "1"], None, False),
        ([np.float64(0.5), np.float64(2.0)], (0.5, 2.0), False),
    ],
)
def test_keys_of_other_kinds(keys, labels, missing):
    domain, _ = from_contingency_table(SimpleNamespace(keys={"k": keys}, marginals={}))
    attribute = domain.attribute("k")
    assert (attribute.labels, attribute.missing, attribute.size) == (labels, missing, len(keys))


def test_what_is_no_contingency_table():
    with pytest.raises(TypeError, match="without keys and marginals"):
        from_contingency_table(object())
    with pytest.raises(TypeError, match="mapping of cliques"):
        from_contingency_table(SimpleNamespace(keys=KEYS, marginals=3))
