"""The features of maximum entropy against rows written out over the whole domain."""

import numpy as np
import pytest

from pgmjax import queries as q
from pgmjax.data.domain import Domain
from pgmjax.history import rows as rows_module
from pgmjax.history.max_entropy.dual import Features
from pgmjax.history.rows import Rows

DOMAIN = Domain({"a": 3, "b": 4, "c": 2})
QUERIES = {
    "range": [q.Product({"a": q.range(0, 1), "c": q.point(1)})],
    "marginal": [q.marginal(["c", "a"])],
    "prefix": [q.Product({"b": q.prefix(), "a": q.prefix()})],
    "moments": [q.Product({"b": q.moments(2), "a": q.mean()})],
    "joint": [q.DenseMatrix(("b", "a"), np.arange(24).reshape(2, 12) % 5 - 2)],
    "sum": [
        q.WeightedSum(
            [
                (2, q.Product({"a": q.point(0), "b": q.total()})),
                (-1, q.Product({"a": q.total(), "b": q.point(1)})),
            ]
        )
    ],
    "constant": [q.Product({"a": q.total()}), q.Product({"a": q.point(1)})],
    "three": [q.Product({"a": q.prefix(), "b": q.range(1, 2), "c": q.identity()})],
}
QUERIES["all"] = [query for several in QUERIES.values() for query in several]


def joint_table(groups, tables):
    """Tables of cliques added up over the whole domain."""
    result = np.zeros(DOMAIN.shape)
    for group, table in zip(groups, tables, strict=True):
        assert table.shape == DOMAIN.shape_of(group.clique)
        shape = [DOMAIN[name] if name in group.clique else 1 for name in DOMAIN.attributes]
        result += table.reshape(shape)  # cliques stand in the domain's order
    return result


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("block", [rows_module.MAX_BLOCK, 7])
def test_tables_are_the_weighted_rows_and_answers_their_means(name, block, monkeypatch):
    monkeypatch.setattr(rows_module, "MAX_BLOCK", block)
    rows = Rows.of(QUERIES[name], DOMAIN)
    found = Features.of(rows)
    matrix = rows.matrix()
    rng = np.random.default_rng(0)
    weights = rng.normal(size=rows.num_rows)
    exponent = joint_table(found.groups, found.potentials(weights)) + weights @ found.constants
    np.testing.assert_allclose(exponent.reshape(-1), weights @ matrix, atol=1e-12)
    joint = rng.dirichlet(np.ones(24)).reshape(DOMAIN.shape)
    marginals = [
        joint.sum(axis=tuple(k for k, n in enumerate(DOMAIN.attributes) if n not in clique))
        for clique in found.cliques
    ]
    np.testing.assert_allclose(found.answers(marginals), matrix @ joint.reshape(-1), atol=1e-12)


def test_cells_of_a_marginal_need_no_products():
    (group,) = Features.of(Rows.of(QUERIES["marginal"], DOMAIN)).groups
    assert all(group.products.selects)


def test_a_term_over_too_many_cells_is_refused():
    domain = Domain(dict.fromkeys("abcde", 100))
    query = q.Product({name: q.range(0, 3) for name in "abcde"})
    with pytest.raises(ValueError, match=r"5 attributes at once with 10,000,000,000 cells, above the limit"):
        Features.of(Rows.of([query], domain))
