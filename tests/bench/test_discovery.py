"""Bins of raw tables side by side: the distances against closed forms, the public bins, lines of peers."""

import json
import pathlib
import sys
from types import SimpleNamespace

import numpy as np
import pytest

pd = pytest.importorskip("pandas")

ROOT = pathlib.Path(__file__).parent.parent.parent


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    return SimpleNamespace(main=__import__("discovery"), tables=__import__("discovery_tables"))


@pytest.fixture
def table(bench):
    """A spike at 0 with half of the rows, a time each hour, a word that goes with the spike."""
    rows = 1_000
    spike = np.where(np.arange(rows) % 2, np.arange(rows), 0)
    frame = pd.DataFrame(
        {
            "gain": spike,
            "when": pd.Timestamp("2013-01-01") + pd.to_timedelta(np.arange(rows), unit="h"),
            "word": np.where(spike > 0, "some", "none"),
        }
    )
    numbers = {
        "gain": bench.tables.Number(0, 1_023, "int"),
        "when": bench.tables.Number("2013-01-01", "2013-03-06", "time"),
    }
    return bench.tables.Table("small", frame, numbers, {"word": ["none", "some"]})


def test_distances_are_zero_of_the_rows_themselves_and_known_of_others(bench, table):
    judge = bench.main.Judge(table)
    same = judge.line(table.frame.sample(frac=1, random_state=0))
    assert [same[key] for key in bench.main.ERRORS] == [0] * 5
    other = table.frame.assign(gain=0, when=table.frame["when"] + pd.Timedelta(hours=10))
    found = judge.line(other)["columns"]
    assert found["word"] == [0, 0]
    # half of the rows have moved into the spike; 8 of them (1, 3, .., 15) were in its cell of the public grid
    assert found["gain"][:2] == pytest.approx([0.5, 0.492])
    assert found["gain"][2] == pytest.approx(250 / table.frame["gain"].std(ddof=0), abs=1e-4)
    assert found["when"][2] == pytest.approx(10 / np.arange(1_000).std(), abs=1e-4)


def test_a_missing_value_counts_as_the_lower_bound(bench, table):
    judge = bench.main.Judge(table)
    lost = judge.line(table.frame.assign(when=pd.NaT))["columns"]["when"]
    assert lost == judge.line(table.frame.assign(when=pd.Timestamp("2013-01-01")))["columns"]["when"]


def test_pairs_tell_what_single_columns_do_not(bench, table):
    drawn = table.frame.assign(word=np.where(table.frame["gain"] > 0, "none", "some"))
    judge = bench.main.Judge(table)
    assert judge.line(drawn)["one_way"] == 0
    pairs = judge.distances(drawn, "", 2)
    assert pairs["gain", "word"] == 1 and pairs["gain", "when"] == 0


def test_edges_of_ranks_lie_between_values_and_keep_a_spike_alone(bench, table):
    truth = table.frame["gain"].to_numpy(dtype=float)
    edges = bench.main.rank_edges(truth)
    assert not np.isin(edges, truth).any() and edges[0] == 0.5
    counts = np.bincount(np.searchsorted(edges, truth))
    assert counts[0] == 500 and counts[1:].max() <= 2 * 1_000 / bench.main.CELLS


def test_public_bins_of_integers_hold_whole_numbers(bench):
    assert bench.main.public_edges(1, 16, True).tolist() == list(range(1, 18))
    edges = bench.main.public_edges(17, 90, True)
    assert len(edges) == 33 and (edges == np.round(edges)).all() and edges[[0, -1]].tolist() == [17, 91]


@pytest.mark.parametrize("side", ["fixed", "discovery"])
def test_ours_stay_within_what_is_public_and_come_close_without_noise(bench, table, side):
    if side == "discovery":
        table = bench.tables.Table(
            table.name, table.frame.drop(columns="when"), {"gain": table.numbers["gain"]}, table.categories
        )
    rows = bench.main.OURS[side](table, 50.0, 1e-9, 0)
    assert list(rows) == list(table.frame) and len(rows) == 1_000
    gain = rows["gain"].to_numpy(dtype=float)
    assert (gain == np.round(gain)).all() and gain.min() >= 0 and gain.max() <= 1_023
    moved = bench.main.Judge(table).wasserstein(rows)
    assert moved["gain"] < 32 / table.frame["gain"].std()  # the width of a public bin


@pytest.mark.parametrize("side", ["fixed", "discovery"])
def test_values_are_spread_within_their_bins(bench, side):
    """They are not, if bins and places within them are drawn from the same stream."""
    up = np.tile(np.arange(1_024), 8)
    frame = pd.DataFrame({"up": up, "down": up[::-1]})
    table = bench.tables.Table("even", frame, dict.fromkeys(frame, bench.tables.Number(0, 1_023, "int")), {})
    rows = bench.main.OURS[side](table, 10.0, 1e-9, 3)
    # 64 cells of 128 rows: by chance a distance of 64 sqrt(2 / (64 pi 8192)) / 2 = 0.035, noise adds some;
    # one stream leaves a half of the cells empty: 0.5
    found = bench.main.Judge(table).line(rows)["columns"]
    assert max(found["up"][0], found["down"][0]) < 0.1


def test_a_peer_that_is_not_there_is_a_line_and_is_not_run_twice(bench, table, tmp_path, monkeypatch):
    out = tmp_path / "lines.jsonl"
    monkeypatch.setattr(bench.main, "load", lambda name, folder: table)
    options = SimpleNamespace(
        peer=[f"dpmm={sys.executable}"], tables=["small"], sides=["dpmm"], seeds=1, packages=None, out=out
    )
    for _ in range(2):
        bench.main.run(options)
    lines = [json.loads(text) for text in out.read_text().splitlines()]
    assert [line["epsilon"] for line in lines] == list(bench.main.EPSILONS)
    assert all("dpmm" in line["failed"] and {"machine", "commit", "peer"} <= set(line) for line in lines)
