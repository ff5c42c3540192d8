"""Queries and priors written out over all cells in plain NumPy, without the factored form."""

import numpy as np

import pgmjax as pj
from pgmjax.history import ProductPrior
from pgmjax.history.rows import Rows
from pgmjax.queries import DenseMatrix, Product, WeightedSum, marginal, point, prefix, total
from pgmjax.queries import range as code_range

DOMAIN = pj.Domain({"a": 3, "b": 4, "c": 2, "d": 5})


def matrix_of(queries, domain=DOMAIN):
    """Every query applied to the marginal of every single cell: [rows, cells]."""
    names = domain.attributes
    cells = np.eye(domain.size()).reshape(domain.size(), *domain.shape)
    answers = []
    for cell in cells:
        row = []
        for query in queries:
            axes = [names.index(name) for name in query.clique]
            table = cell.sum(axis=tuple(k for k in range(len(names)) if k not in axes))
            table = table.transpose([sorted(axes).index(axis) for axis in axes])
            row.append(np.asarray(query.apply(table), float).reshape(-1))
        answers.append(np.concatenate(row))
    return np.array(answers).T


def prior_of(seed=0, domain=DOMAIN):
    """A random product prior, and its probabilities of all cells [cells]."""
    rng = np.random.default_rng(seed)
    marginals = {name: rng.dirichlet(np.ones(size)) for name, size in domain.sizes.items()}
    joint = np.ones(())
    for table in marginals.values():
        joint = np.multiply.outer(joint, table)
    return ProductPrior(domain, marginals), joint.reshape(-1)


def mixed_queries(seed=0):
    """Queries of all forms: products, sums over several sets of attributes, joint matrices, signs."""
    rng = np.random.default_rng(seed)
    several = WeightedSum(
        [
            (1, Product({"a": point(0), "b": total(), "c": total()})),
            (-2, Product({"a": total(), "b": prefix_row(4, 2), "c": point(1)})),
            (0.5, Product({"a": total(), "b": total(), "c": total()})),
        ]
    )
    return [
        marginal(["a", "b"]),
        Product({"d": prefix(), "b": code_range(1, 2)}),
        DenseMatrix(("d", "b"), rng.normal(size=(3, 20))),
        several,
        DenseMatrix(("c", "a", "d"), rng.integers(0, 2, size=(2, 30))),
        Product({"a": total()}),
        marginal(["d"]),
        DenseMatrix(("a", "b"), np.zeros((1, 12), int)),
    ]


def prefix_row(size, last):
    return code_range(0, last) if last < size - 1 else total()


def mixed_rows(seed=0):
    return Rows.of(mixed_queries(seed), DOMAIN)
