"""Models of regions on disk: what is read back is what was saved, and damage is told."""

import json

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.estimation.region_fit import fit_local
from pgmjax.model.clique_vector import CliqueVector
from pgmjax.model.regions import RegionModel

DOMAIN = pj.Domain({"a": 2, "b": {"labels": ["no", "yes"]}, "c": 3})


@pytest.fixture
def saved(tmp_path):
    noisy = [
        pj.LinearMeasurement(("a", "b"), [[30.0, 12.0], [9.0, 51.0]], 2.0),
        pj.LinearMeasurement(("b", "c"), [[20.0, 11.0, 8.0], [21.0, 30.0, 12.0]], 2.0),
        pj.LinearMeasurement(("c", "a"), [[25.0, 14.0], [8.0, 34.0], [10.0, 12.0]], 2.0),
    ]
    model = fit_local(DOMAIN, noisy, total=102, progress=False).model
    model.save(tmp_path / "m")
    return model, tmp_path / "m"


def test_what_is_read_back_is_what_was_saved(saved):
    model, folder = saved
    again = pj.load(folder)
    assert isinstance(again, RegionModel) and again.domain == model.domain
    for name in ("total", "residual", "loss", "gap"):
        assert getattr(again, name) == getattr(model, name)
    for clique in (("a", "b"), ("c", "b"), ("a", "b", "c")):
        assert (again.marginal(clique) == model.marginal(clique)).all()
    assert again.tractable().log_partition() == model.tractable().log_partition()


def test_a_loss_that_is_not_known_stays_so(tmp_path):
    table = CliqueVector((("a", "b"),), (np.full((2, 2), 0.25),))
    tmp_path = tmp_path / "m"
    RegionModel(DOMAIN, table, total=4.0, residual=0.0).save(tmp_path)
    again = pj.load(tmp_path)
    assert np.isnan([again.loss, again.gap]).all() and again.residual == 0
    json.loads((tmp_path / "model.json").read_text(), parse_constant=pytest.fail)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"total": -1}, "its total is not positive"),
        ({"marginals": [["a", "nobody"]]}, "'nobody'"),
        ({"format_version": 99}, "99"),
        ({"domain": None}, "domain"),
    ],
)
def test_damage_of_the_description_is_told(saved, change, said):
    _, folder = saved
    described = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps({**described, **change}))
    with pytest.raises(ValueError, match=said):
        pj.load(folder)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"marginal_0": np.full((2, 2), 0.5)}, "marginals"),
        ({"marginal_0": np.full((2, 2), np.nan)}, "marginals"),
        ({"marginal_0": np.ones((3, 2)) / 6}, "has shape"),
        ({"residual_loss_gap": np.zeros(2)}, "residual_loss_gap"),
        ({"residual_loss_gap": np.array([np.nan, 0, 0])}, "its residual is negative or not a number"),
    ],
)
def test_damage_of_the_tables_is_told(saved, change, said):
    _, folder = saved
    with np.load(folder / "model.npz") as arrays:
        np.savez(folder / "model.npz", **{**arrays, **change})
    with pytest.raises(ValueError, match=said):
        pj.load(folder)
