"""Proportional fitting against the textbook's two-way table and a joint in NumPy."""

import numpy as np

from pgmjax.estimation import proportional
from pgmjax.inference.oracles.host import HostModel
from pgmjax.inference.plan.structure import Structure


def two_way(seed_table, rows, columns):
    """Deming and Stephan's own algorithm, on the table itself."""
    table = seed_table.copy()
    for _ in range(2000):
        table *= (rows / table.sum(1))[:, None]
        table *= columns / table.sum(0)
    return table


def test_two_way_table_from_its_margins():
    rng = np.random.default_rng(0)
    seed = rng.dirichlet(np.ones(12)).reshape(3, 4)
    rows, columns = rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(4))
    structure = Structure((3, 4), ((0,), (1,), (0, 1)))
    model = HostModel(structure, (np.zeros(3), np.zeros(4), np.log(seed)))
    fitted = proportional.fit(model, [0, 1], [rows, columns], 500)
    assert fitted.exact and not fitted.infeasible
    found = np.exp(fitted.model.log_sum((0, 1)) - fitted.model.log_partition)
    np.testing.assert_allclose(found, two_way(seed, rows, columns), rtol=1e-9)


def test_empty_cells_stay_empty_and_an_impossible_wish_is_a_proof():
    structure = Structure((2, 2), ((0,), (0, 1)))
    model = HostModel(structure, (np.zeros(2), np.array([[0.0, 0.0], [-np.inf, -np.inf]])))
    assert proportional.fit(model, [0], [np.array([1.0, 0.0])], 5).exact
    assert proportional.fit(model, [0], [np.array([0.5, 0.5])], 5).infeasible


def test_drift_is_a_proof_only_where_there_is_no_table():
    diagonal = np.where(np.eye(3, dtype=bool), 0.0, -np.inf)
    structure = Structure((3, 3), ((0,), (1,), (0, 1)))
    model = HostModel(structure, (np.zeros(3), np.zeros(3), diagonal))
    same, other = np.array([0.2, 0.3, 0.5]), np.array([0.2, 0.31, 0.49])
    assert proportional.fit(model, [0, 1], [same, same], 50).exact
    assert proportional.fit(model, [0, 1], [same, other], 50).infeasible
    # the corner of what is possible: potentials drift for ever, towards a table that exists
    upper = np.where(np.triu(np.ones((2, 2), bool)), 0.0, -np.inf)
    edge = HostModel(Structure((2, 2), ((0,), (1,), (0, 1))), (np.zeros(2), np.zeros(2), upper))
    half = np.array([0.5, 0.5])
    ended = proportional.fit(edge, [0, 1], [half, half], 400)
    assert not ended.infeasible and not ended.exact and ended.distance < 0.01
