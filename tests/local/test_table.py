"""Perturbed tables: in memory and in files alike, read back as they were, damaged ones refused."""

import json
import os
from fractions import Fraction

import numpy as np
import pytest

from pgmjax import local
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.mechanisms import RandomizedResponse
from pgmjax.privacy.seeded import SeededBackend

DOMAIN = Domain({"a": 3, "b": 2})
ROWS = 500


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return Dataset.from_columns(DOMAIN, {"a": rng.integers(0, 3, ROWS), "b": rng.integers(0, 2, ROWS)})


def made(data, out=None, **options):
    mechanism = RandomizedResponse(2, "replace-one", backend=SeededBackend(4, insecure=True), **options)
    return mechanism.perturb(data, row_order_is_public=True, out=out)


@pytest.mark.parametrize("encoding", ["direct", "optimal-unary", "symmetric-unary"])
@pytest.mark.parametrize("universe", ["joint", "attributes"])
def test_saved_and_loaded(data, tmp_path, encoding, universe):
    """Written while it is made, saved afterwards, or kept: the same answers."""
    options = {"encoding": encoding, "universe": universe}
    kept = made(data, **options)
    written = made(data, out=tmp_path / "written", **options)
    kept.save(tmp_path / "saved")
    loaded = local.load(tmp_path / "saved")
    assert sorted(os.listdir(tmp_path / "saved")) == sorted(os.listdir(tmp_path / "written"))
    for other in (written, loaded):
        assert (other.domain, other.rows, other.epsilon) == (DOMAIN, ROWS, 2)
        assert (other.secure, other.seed, repr(other)) == (False, 4, repr(kept))
        for one, two in zip(kept.columns, other.columns, strict=True):
            assert (one.attributes, one.distribution, one.epsilon) == (
                two.attributes,
                two.distribution,
                two.epsilon,
            )
            assert np.array_equal(one.answers, two.answers)
            assert isinstance(two.answers, np.memmap)
    first = kept.marginal(("b", "a"))
    assert np.array_equal(first.sums, loaded.marginal(("b", "a")).sums)
    assert first.estimate().shape == (2, 3)


def test_one_column_is_what_the_estimators_take(data):
    table = made(data, universe="joint")
    assert table.distribution.size == 6 and table.codes.shape == (ROWS,) and table.codes.dtype == np.uint8
    assert table.column.epsilon == 2
    with pytest.raises(ValueError, match="2 columns of answers, not one"):
        _ = made(data).codes
    with pytest.raises(ValueError, match="are bits of the encoding 'optimal-unary'"):
        _ = made(data, universe="joint", encoding="optimal-unary").distribution


def test_measurements_for_an_estimator(data):
    measured = made(data).measurements([("a",), ("a", "b")])
    assert [m.clique for m in measured] == [("a",), ("a", "b")]
    assert all(m.values.sum() == ROWS and m.noise == "response" for m in measured)


def test_blocks_cover_all_rows(data):
    table = made(data, encoding="optimal-unary")
    parts = list(table.blocks(rows=128))
    assert [len(part[0]) for part in parts] == [128, 128, 128, 116]
    assert np.array_equal(np.concatenate([part[0] for part in parts]), table.columns[0].part(0, ROWS))


def damage(folder, change):
    record = json.loads((folder / "perturbed.json").read_text())
    change(record)
    (folder / "perturbed.json").write_text(json.dumps(record))


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda r: r.pop("rows"), "'rows'"),
        (lambda r: r.update(rows=3), "do not fit"),
        (lambda r: r["columns"][0].update(size=2), "do not fit"),
        (lambda r: r["columns"][0].update(epsilon="1/1000"), "costs more than"),
        (lambda r: r["columns"][0].update(encoding="optimal-unary"), r"\('a',\)"),
        (lambda r: r.update(format="other"), r"perturbed\.json"),
        (lambda r: r.update(format_version=9), "version 9"),
    ],
)
def test_damaged_tables_are_refused(data, tmp_path, change, words):
    made(data, out=tmp_path / "t")
    damage(tmp_path / "t", change)
    with pytest.raises(ValueError, match=words):
        local.load(tmp_path / "t")


def test_missing_parts_are_refused(data, tmp_path):
    with pytest.raises(ValueError, match=r"perturbed\.json"):
        local.load(tmp_path)
    made(data, out=tmp_path / "t")
    (tmp_path / "t" / "answers-1.npy").unlink()
    with pytest.raises(ValueError, match=r"answers-1\.npy"):
        local.load(tmp_path / "t")


def test_categories_that_are_not_there_are_refused_when_counted(data, tmp_path):
    made(data, out=tmp_path / "t")
    answers = np.load(tmp_path / "t" / "answers-0.npy")
    answers[5] = 200
    np.save(tmp_path / "t" / "answers-0.npy", answers)
    with pytest.raises(ValueError, match="are damaged"):
        local.load(tmp_path / "t").marginal(["a"])


def test_the_epsilon_is_exact(data):
    table = RandomizedResponse(
        "1/3", "replace-one", share={"a": 2}, backend=SeededBackend(0, insecure=True), useless="answer"
    ).perturb(data, row_order_is_public=True)
    assert [column.epsilon for column in table.columns] == [Fraction(2, 9), Fraction(1, 9)]
    assert all(column.distribution.epsilon_bound <= column.epsilon for column in table.columns)
