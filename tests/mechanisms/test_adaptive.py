"""What adaptive mechanisms share: averages of repeated measurements, limits of memory."""

import itertools

import numpy as np
import pytest

from pgmjax.data.domain import Domain
from pgmjax.estimation.estimator import Estimator
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.noise import DiscreteLaplace
from pgmjax.mechanisms.adaptive import check_cells, merged
from pgmjax.queries import marginal

DOMAIN = Domain({"a": 2, "b": 3, "one": 1})


def test_merged_measurements_have_the_same_optimum():
    rng = np.random.default_rng(1)
    laws = [DiscreteLaplace(3.0), DiscreteLaplace(7.0), DiscreteLaplace(3.0), DiscreteLaplace(1.0)]
    cliques = [("a", "b"), ("b",), ("a", "b"), ("a", "b")]
    parts = [
        LinearMeasurement.released(marginal(c), rng.integers(0, 90, DOMAIN.size(c)), law)
        for c, law in zip(cliques, laws, strict=True)
    ]
    together = merged(DOMAIN, parts)
    assert [m.clique for m in together] == [("b",), ("a", "b")]

    def loss(measurements, table):
        marginals = {("a", "b"): table, ("b",): table.sum(axis=0)}
        parts = [(marginals[m.clique].reshape(-1) - m.flat_values()) / m.row_stddevs() for m in measurements]
        return 0.5 * sum(float(part @ part) for part in parts)

    tables = [rng.uniform(0, 100, (2, 3)) for _ in range(4)]
    differences = [loss(parts, table) - loss(together, table) for table in tables]
    for first, other in itertools.pairwise(differences):
        assert first == pytest.approx(other, rel=1e-9)


def test_a_limit_beyond_the_memory_is_refused():
    with pytest.raises(ValueError, match=r"max_cells = 1,000,000 cells would need about .* available"):
        check_cells(1_000_000, Estimator(max_bytes=1_000_000))
    check_cells(1000, Estimator(max_bytes=1_000_000))
