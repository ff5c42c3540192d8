"""Saved models come back bit for bit; corrupt and foreign files are refused."""

import json

import numpy as np
import pytest

import pgmjax as pj


@pytest.fixture
def saved(tmp_path):
    domain = pj.Domain({"a": {"labels": ["x", "y"]}, "b": 3})
    m = pj.LinearMeasurement(("a", "b"), np.arange(6.0).reshape(2, 3) + 5, 1.0)
    zeros = pj.StructuralZeros(("b",), [True, False, True])
    model = pj.Estimator().fit(domain, [m], constraints=[zeros]).model
    model.save(tmp_path / "model")
    return model, tmp_path / "model"


def test_round_trip(saved):
    model, folder = saved
    loaded = pj.load(folder)
    assert loaded.domain == model.domain and loaded.total == model.total
    for clique in (("a",), ("b", "a")):
        assert (loaded.marginal(clique) == model.marginal(clique)).all()
    assert loaded.log_partition() == model.log_partition()
    assert sorted(p.name for p in folder.iterdir()) == ["model.json", "model.npz"]


def rewrite(folder, **changes):
    description = json.loads((folder / "model.json").read_text())
    description.update(changes)
    (folder / "model.json").write_text(json.dumps(description))


def resave(folder, **changes):
    with np.load(folder / "model.npz") as arrays:
        contents = dict(arrays)
    np.savez_compressed(folder / "model.npz", **{**contents, **changes})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "model.json").write_text("{"), "JSON"),
        (lambda f: (f / "model.json").write_text("[1]"), "not a model of pgmjax"),
        (lambda f: rewrite(f, format="other"), "not a model of pgmjax"),
        (lambda f: rewrite(f, format_version=99), "99"),
        (lambda f: rewrite(f, total=float("nan")), "not finite"),
        (lambda f: rewrite(f, total=-1), "not finite"),
        (lambda f: rewrite(f, domain={"a": 2, "b": 4}), "shape"),
        (lambda f: rewrite(f, potentials=[["a", "z"]]), "corrupt"),
        (lambda f: (f / "model.npz").write_bytes(b"PK junk"), "corrupt"),
        (lambda f: (f / "model.npz").write_bytes(b""), "corrupt"),
        (lambda f: rewrite(f, total=10**400), "corrupt"),
        (lambda f: (f / "model.json").write_text("[" * 100_000), "JSON"),
        (lambda f: resave(f, marginal_0=-np.ones((2, 3)) / 6), "not probabilities"),
        (lambda f: resave(f, marginal_0=np.full((2, 3), np.nan)), "not probabilities"),
        (lambda f: resave(f, potential_0=np.full((2, 3), -np.inf)), "no possible cell"),
        (lambda f: np.savez(f / "model.npz", potential_0=np.array([object()])), "corrupt"),
    ],
)
def test_corrupt_or_foreign(saved, damage, message):
    _, folder = saved
    damage(folder)
    with pytest.raises(ValueError, match=message):
        pj.load(folder)


def test_missing_files(tmp_path, saved):
    with pytest.raises(FileNotFoundError, match=r"folder .*nowhere"):
        pj.load(tmp_path / "nowhere")
    (saved[1] / "model.npz").unlink()
    with pytest.raises(FileNotFoundError, match=r"no model\.npz"):
        pj.load(saved[1])


def test_any_flipped_bit_is_an_error_or_harmless(saved):
    _, folder = saved
    whole = (folder / "model.npz").read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(len(whole), size=150):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(rng.integers(8))
        (folder / "model.npz").write_bytes(damaged)
        try:
            assert np.isfinite(pj.load(folder).marginal(("a",))).all()
        except ValueError as error:
            assert "corrupt" in str(error)
