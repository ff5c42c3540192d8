"""Completed rows follow the brute-force conditional of their unknown cells."""

import numpy as np
import pytest
import scipy.stats

import pgmjax as pj
from pgmjax.model import rows as model_rows
from tests import models


def model_of(name, zeros=0.0):
    structure = models.STRUCTURES[name]
    names = tuple("abcde"[: len(structure[0])])
    tables = models.potentials(structure, seed=5, zeros=zeros)
    cliques = [tuple(names[v] for v in clique) for clique in structure[1]]
    domain = pj.Domain(dict(zip(names, structure[0], strict=True)))
    model = pj.GraphicalModel.from_potentials(domain, dict(zip(cliques, tables, strict=True)))
    logits = models.joint(structure, tables)
    weights = np.exp(logits - logits.max())
    return model, names, weights / weights.sum()


@pytest.mark.parametrize("known", ["a", "b", "ac", "bd", "abd", "e"])
def test_known_columns_give_the_conditional(known):
    """Chi-square on the whole joint within each known combination, level 1e-6, seeded."""
    model, names, joint = model_of("wide")
    generator = np.random.default_rng(1)
    rows = 30_000
    columns = {name: generator.integers(model.domain[name], size=rows) for name in known}
    filled = model.complete(columns, seed=2)
    assert all((filled[name] == columns[name]).all() for name in known)
    table = np.zeros(model.domain.shape)
    np.add.at(table, tuple(filled[name] for name in names), 1)
    axes = tuple(i for i, name in enumerate(names) if name not in known)
    expected = joint / joint.sum(axis=axes, keepdims=True) * table.sum(axis=axes, keepdims=True)
    likely = expected >= 5
    statistic = ((table - expected)[likely] ** 2 / expected[likely]).sum()
    assert scipy.stats.chi2.sf(statistic, likely.sum()) > 1e-6


@pytest.mark.parametrize("cells", [1, 100, 1 << 22])
def test_rows_that_know_different_cells(cells, monkeypatch):
    """Rows of the model with a third of their cells lost and drawn anew are rows of the model again."""
    monkeypatch.setattr(model_rows, "_CELLS", cells)
    model, names, _ = model_of("loop", zeros=0.2)
    rows = model.sample(20_000, seed=0)
    generator = np.random.default_rng(3)
    holes = {name: np.where(generator.random(20_000) < 1 / 3, -1, rows[name]) for name in names}
    filled = model.complete(holes, seed=1)
    for name in names:
        assert (filled[name][holes[name] >= 0] == rows[name][holes[name] >= 0]).all()
    checks = model.check_rows(filled, [names, *model.potentials.cliques])
    assert all(check.standard_errors < 3 for check in checks)


def test_equal_rows_are_dealt_evenly_by_rounding():
    model, _, joint = model_of("chain")
    filled = model.complete({"a": np.ones(1000, np.int64)}, seed=0, method="round")
    share = joint[1].sum(axis=(1, 2)) / joint[1].sum()
    assert (np.abs(np.bincount(filled["b"], minlength=4) - 1000 * share) < 1).all()


def test_nothing_unknown_nothing_known_and_no_rows():
    model, names, _ = model_of("chain")
    rows = model.sample(50, seed=1)
    assert all((model.complete(rows)[n] == rows[n]).all() for n in names)
    blank = model.complete({"a": np.full(20_000, -1)}, seed=0)
    assert all(check.standard_errors < 3 for check in model.check_rows(blank))
    assert all(len(column) == 0 for column in model.complete({"b": []}).values())


def test_impossible_rows_are_counted():
    never = -np.inf
    tables = {("a", "b"): [[0, never], [never, 0]], ("b", "c"): [[0, never], [never, 0]]}
    model = pj.GraphicalModel.from_potentials(pj.Domain({"a": 2, "b": 2, "c": 2}), tables)
    with pytest.raises(ValueError, match="known cells of 2 rows probability zero"):
        model.complete({"a": [0, 0, 1], "c": [1, 0, 0]})
    with pytest.raises(ValueError, match="known cells of 1 rows probability zero"):
        model.complete({"a": [0, 1], "b": [1, 1]})
