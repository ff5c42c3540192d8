"""Rows drawn on the device follow the model as the host's do; one program serves every structure."""

import jax
import numpy as np
import pytest
import scipy.stats

import pgmjax as pj
from pgmjax._internal import jit
from pgmjax.inference.oracles.host import HostModel
from pgmjax.inference.plan.structure import Structure
from pgmjax.model import device_sampling, sampling
from tests import models


def host_model(structure, seed, zeros=0.2):
    tables = models.potentials(structure, seed=seed, zeros=zeros)
    return HostModel(Structure(*structure), tuple(tables)), models.joint(structure, tables)


def drawn(model, rows, seed, block_rows=device_sampling.BLOCK_ROWS):
    return [
        np.concatenate(part)
        for part in zip(*device_sampling.blocks(model, rows, seed, block_rows), strict=True)
    ]


def shares(columns, shape):
    cell = np.ravel_multi_index(columns, shape)
    return np.bincount(cell, minlength=np.prod(shape)).reshape(shape) / len(cell)


@pytest.mark.parametrize("name", models.STRUCTURES)
def test_marginals_lie_within_three_standard_errors_and_zeros_are_never_drawn(name):
    """Brute force on ten structures, over cliques and the joint; one right draw in 8,000 would fail."""
    structure = models.STRUCTURES[name]
    model, logits = host_model(structure, seed=1)
    rows = 20_000
    columns = drawn(model, rows, seed=4, block_rows=4096)
    everything = tuple(range(len(structure[0])))
    for variables in (everything, *(tuple(sorted(set(clique))) for clique in structure[1])):
        truth = models.marginal(logits, variables)
        share = shares([columns[v] for v in variables], truth.shape)
        assert (share[truth == 0] == 0).all()
        expected = 0.5 * np.sqrt(truth * (1 - truth) / rows).sum()  # at least the mean distance, by Jensen
        assert 0.5 * np.abs(share - truth).sum() <= expected + 3 / np.sqrt(2 * rows)


def test_the_search_is_that_of_the_host():
    """For the same positions the same codes, at the ends of cells too, some of probability 0."""
    generator = np.random.default_rng(0)
    for size in (1, 2, 7, 8, 9):
        weights = np.where(generator.random((5, size)) < 0.3, -np.inf, generator.normal(size=(5, size)))
        cumulated = sampling.cumulate(weights)
        group = np.repeat(np.arange(5), 3 * size)
        ends = cumulated.reshape(-1)
        position = np.concatenate([ends, np.nextafter(ends, 0), generator.random(5 * size)])
        position = np.clip(position.reshape(3, 5, size).swapaxes(0, 1).reshape(-1), 0, np.nextafter(1, 0))
        with jax.enable_x64(True):
            base = jax.numpy.asarray(group * size, "int32")
            found = device_sampling._inverse(
                jax.numpy.asarray(ends), base, np.int32(size), jax.numpy.asarray(position)
            )
        assert np.asarray(found).tolist() == sampling.inverse(cumulated, group, position).tolist()


def test_a_seed_repeats_and_another_differs():
    model, _ = host_model(models.STRUCTURES["loop"], seed=3)
    first, again, other = (np.array(drawn(model, 3000, seed, 1024)) for seed in (5, 5, 6))
    assert (first == again).all() and (first != other).any()
    large, next_to_it = (np.array(drawn(model, 3000, seed)) for seed in (2**32, 0))
    assert (large != next_to_it).any()  # all bits of a seed count


def test_blocks_are_independent_of_one_another():
    """Rows of equal place in neighbouring blocks, by the chi-square test of independence; level 1e-6."""
    model, logits = host_model(((3, 4), ((0, 1),)), seed=0, zeros=0.0)
    blocks = list(device_sampling.blocks(model, 40 * 1024, 7, 1024))
    assert len(blocks) == 40 and all(block[0].shape == (1024,) for block in blocks)
    cells = np.array([block[0] * 4 + block[1] for block in blocks])
    assert len({cell.tobytes() for cell in cells}) == 40
    pairs = np.zeros((12, 12))
    np.add.at(pairs, (cells[:-1].ravel(), cells[1:].ravel()), 1)
    assert scipy.stats.chi2_contingency(pairs).pvalue > 1e-6
    # within a row the variables are dependent as in the model: the test would see it
    table = shares([cells.ravel() // 4, cells.ravel() % 4], (3, 4)) * cells.size
    assert scipy.stats.chi2_contingency(table).pvalue < 1e-6
    assert models.marginal(logits, (0, 1)).min() > 0


def test_the_last_block_is_cut_and_no_row_is_lost():
    model, _ = host_model(models.STRUCTURES["chain"], seed=1)
    for rows in (0, 1, 1024, 1025, 5000):
        lengths = [len(block[0]) for block in device_sampling.blocks(model, rows, 0, 2048)]
        assert lengths == [2048] * (rows // 2048) + [rows % 2048] * (rows % 2048 > 0)


def test_equal_structures_share_one_program():
    structure = ((5, 3, 2, 6), ((0, 1, 2), (2, 3)))
    one, _ = host_model(structure, seed=1)
    drawn(one, 2000, 0)
    before = jit.cache_size(device_sampling._draw)
    another, _ = host_model(structure, seed=2)
    drawn(another, 1500, 9)
    assert jit.cache_size(device_sampling._draw) == before


def test_64_bit_numbers_are_allowed_only_while_it_draws():
    model, _ = host_model(models.STRUCTURES["chain"], seed=1)
    for block in device_sampling.blocks(model, 3000, 0, 1024):
        assert not jax.config.jax_enable_x64 and block[0].dtype == np.int32


def test_rows_of_a_model_and_what_the_device_does_not_have(monkeypatch):
    generator = np.random.default_rng(0)
    domain = pj.Domain({"a": 3, "b": 40, "c": 5})
    tables = {
        clique: 2 * generator.normal(size=domain.shape_of(clique)) for clique in [("a", "b"), ("b", "c")]
    }
    model = pj.GraphicalModel.from_potentials(domain, tables, total=5000.4)
    rows = model.sample(device=True)
    assert {codes.dtype for codes in rows.values()} == {np.dtype(np.int64)} and len(rows["a"]) == 5000
    assert all(
        check.standard_errors < 3 for check in model.check_rows(rows, [("a", "b"), ("b", "c"), ("a", "c")])
    )
    assert (model.sample()["b"] != rows["b"]).any()
    evidence = model.condition({"b": [3, 7]}).sample(500, seed=1, device=True)
    assert set(evidence["b"]) == {3, 7}
    with pytest.raises(ValueError, match="leave device=False"):
        model.sample(5, method="round", device=True)
    with pytest.raises(ValueError, match=r"method.*'magic'"):
        model.sample(5, method="magic", device=True)
    with pytest.raises(ValueError, match=r"seed.*0\.\."):
        model.sample(5, seed=2**63, device=True)
    monkeypatch.setattr(device_sampling, "MOST_CELLS", 300)
    with pytest.raises(ValueError, match=r"the tables of this model take .* leave device=False"):
        model.sample(5, device=True)
