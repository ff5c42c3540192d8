"""Errors of releases against brute force over the records."""

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.sweeps.work import Truth, total_variation

DOMAIN = pj.Domain({"a": 2, "b": 3, "c": 4})
WORKLOADS = {
    "marginals": pj.Workload([["a", "b"], ["c", "b"]]),
    "queries": pj.Workload([{"clique": ["b", "c"], "queries": {"c": "prefix"}}, ["a"]]),
}


@pytest.fixture(scope="module")
def columns():
    rng = np.random.default_rng(3)
    return {name: rng.integers(size, size=200) for name, size in DOMAIN.sizes.items()}


def counted(columns, clique):
    """The exact marginal, by hand."""
    table = np.zeros(DOMAIN.shape_of(clique))
    np.add.at(table, tuple(columns[name] for name in clique), 1)
    return table


@pytest.mark.parametrize("named", WORKLOADS)
def test_errors_are_those_of_brute_force(columns, named):
    workload = WORKLOADS[named]
    data = pj.Dataset.from_columns(DOMAIN, columns)
    release = pj.mechanisms.Marginals(
        epsilon=1, relation=pj.Relation.REPLACE_ONE, backend=SeededBackend(1, insecure=True)
    ).run(data, workload, show_progress=False)
    model = {clique: release.model.marginal(clique) for clique in workload.cliques}
    if named == "marginals":
        pairs = [(model[clique], counted(columns, clique)) for clique in workload.cliques]
    else:
        pairs = [
            (np.cumsum(model["b", "c"], axis=1), np.cumsum(counted(columns, ("b", "c")), axis=1)),
            (model["a",], counted(columns, ("a",))),
        ]
    distances = np.concatenate([np.ravel(np.abs(ours - true)) for ours, true in pairs])
    variations = [
        np.abs(model[clique] / 200 - counted(columns, clique) / 200).sum() / 2 for clique in workload.cliques
    ]
    truth = Truth.of(data, workload)
    errors = truth.errors(release)
    assert truth.records == 200 and errors["largest_share"] == errors["largest"] / 200
    assert errors["mean_absolute"] == pytest.approx(distances.mean(), rel=1e-9) and distances.mean() > 0
    assert errors["root_mean_square"] == pytest.approx(np.sqrt((distances**2).mean()), rel=1e-9)
    assert errors["largest"] == pytest.approx(distances.max(), rel=1e-9)
    assert errors["total_variation"] == pytest.approx(np.mean(variations), rel=1e-6)


def test_total_variation_of_disjoint_and_equal_tables():
    assert total_variation(np.array([3.0, 0.0]), np.array([0, 7])) == 1
    assert total_variation(np.array([1.0, 3.0]), np.array([2, 6])) == 0
