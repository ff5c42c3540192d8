"""The script of real networks: its reader, a network solved or refused."""

import gzip
import json
import pathlib

import numpy as np
import pytest

import pgmjax as pj

ROOT = pathlib.Path(__file__).parent.parent.parent
NETWORK = """network unknown {
}
variable rain {
  type discrete [ 2 ] { yes, no };
}
variable ground {
  type discrete [ 3 ] { dry, damp, <5_wet };
}
variable slip {
  type discrete [ 2 ] { yes, no };
}
variable shoes {
  type discrete [ 2 ] { good, bad };
}
variable alone {
  type discrete [ 4 ] { a, b, c, d };
}
probability ( rain ) {
  table 0.2, 0.8;
}
probability ( shoes ) {
  table 0.5, 0.5;
}
probability ( alone ) {
  table 0.1, 0.2, 0.3, 0.4;
}
probability ( ground | rain ) {
  (yes) 0.0, 0.25, 0.75;
  (no) 0.9, 0.1, 0.0;
}
probability ( slip | ground, shoes ) {
  (dry, good) 0.0, 1.0;
  (damp, good) 0.1, 0.9;
  (<5_wet, good) 0.2, 0.8;
  (dry, bad) 0.1, 0.9;
  (damp, bad) 0.3, 0.7;
  (<5_wet, bad) 0.6, 0.4;
}
"""


@pytest.fixture
def bif(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    return __import__("bif")


def test_a_network_is_read_as_it_stands(bif):
    labels, families = bif.read(NETWORK)
    assert labels["ground"] == ["dry", "damp", "<5_wet"]
    table = families["slip", "ground", "shoes"]
    assert table.shape == (2, 3, 2) and table[0, 2, 1] == pytest.approx(0.6)
    np.testing.assert_allclose(table.sum(axis=0), 1)


def test_evidence_has_its_probability(bif):
    model = bif.model(*bif.read(NETWORK))
    assert model.log_partition() == pytest.approx(0, abs=1e-14)
    assert np.exp(model.log_partition({"rain": 0, "ground": 2})) == pytest.approx(0.15)
    assert model.log_partition({"rain": 0, "ground": 0}) == -np.inf
    slip = 0.5 * (0.2 * (0.25 * 0.4 + 0.75 * 0.8) + 0.8 * (0.9 * 0.1 + 0.1 * 0.4))
    assert np.exp(model.log_partition({"slip": 0})) == pytest.approx(slip)
    assert model.condition({"slip": 0, "ground": [1, 2]}).total < slip


def test_a_table_that_lacks_a_row_is_refused(bif):
    with pytest.raises(ValueError, match="not whole"):
        bif.read(NETWORK.replace("  (no) 0.9, 0.1, 0.0;\n", ""))


def test_a_network_is_solved(tmp_path, run_script):
    (tmp_path / "rain.bif.gz").write_bytes(gzip.compress(NETWORK.encode()))
    line = json.loads(
        run_script(ROOT / "bench" / "networks.py", tmp_path, "--names", "rain", "--one", "--pairs", 3)
    )
    assert line["variables"] == 5 and set(line["seconds"]) == {"evidence", "singles", "pairs"}


def test_a_network_too_large_is_refused_with_figures(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    networks = __import__("networks")
    (tmp_path / "rain.bif").write_text(NETWORK)

    def refuse(*_):
        raise pj.ModelTooLargeError("needs 5 TiB")

    monkeypatch.setattr(networks.bif, "model", refuse)
    assert networks.solve(tmp_path / "rain.bif", None, 2, 3)["refused"] == "needs 5 TiB"
