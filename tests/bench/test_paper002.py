"""The experiments of Wang, Ying and Zhang 2016 in bench/paper002: small runs, and figures that are known."""

import importlib
import json
import math
import os
import pathlib
import sys

import numpy as np
import pytest

FOLDER = pathlib.Path(__file__).parent.parent.parent / "bench" / "paper002"
MODULES = ("facebook", "scaling", "bounds", "bulk", "mwem", "harness", "blocks")
needs_graph = pytest.mark.skipif("PGMJAX_DATA" not in os.environ, reason="PGMJAX_DATA names no folder")


@pytest.fixture
def bench(monkeypatch):
    """The experiments' modules, found where a script finds them."""
    for folder in (FOLDER.parent, FOLDER):
        monkeypatch.syspath_prepend(str(folder))
    yield lambda name: importlib.import_module(name)
    for name in MODULES:
        sys.modules.pop(name, None)


def random_graph(vertices):
    return np.argwhere(np.triu(np.random.default_rng(0).random((vertices, vertices)) < 0.3, 1))


def test_halves_have_half_of_the_vertices(bench):
    halves = bench("facebook").half_cuts(np.random.default_rng(0), 21)
    assert halves.shape == (100, 21) and np.all(halves.sum(axis=1) == 10)


def test_both_ways_have_the_predicted_deviation(bench):
    """Errors of 100 cuts of 30 runs: own releases to 4 of their standard errors, all seeded."""
    facebook, edges = bench("facebook"), random_graph(40)
    deviation = math.sqrt(20 * 20 * math.e) / (math.e - 1)
    shared, own = [], []
    for run in range(30):
        generator = np.random.default_rng(run)
        halves = facebook.half_cuts(generator, 40)
        shared.append(facebook.one_release(edges, halves, run))
        own.append(facebook.own_releases(edges, halves, generator))
    own, shared = np.concatenate(own) / deviation, np.concatenate(shared) / deviation
    assert abs((own**2).mean() - 1) < 4 * math.sqrt(2 / 3000)
    # half of the variance is common to the 100 cuts of a run
    assert abs((shared**2).mean() - 1) < 4 * math.sqrt(2 * 0.25 / 30)


def test_batches_of_cuts(bench):
    errors = np.zeros(100)
    errors[[3, 17]] = [-2.0, 1.0]
    assert bench("facebook").worst(errors) == pytest.approx({1: 0.03, 10: 0.3, 100: 2.0})


@needs_graph
def test_the_facebook_graph_gives_the_known_row(bench, monkeypatch, capsys):
    facebook = bench("facebook")
    monkeypatch.setattr(sys, "argv", ["facebook.py", "--json", "--runs", "3", "--vertices", "577", "1154"])
    facebook.main()
    found = json.loads(capsys.readouterr().out)
    assert found["edges"] == [6307, 11210]
    assert found["predicted_sd"] == pytest.approx([0.0876, 0.0987], abs=1e-4)
    assert set(found["worst_error"]) == set(found["worst_error_one_release"]) == {"1", "10", "100"}


def test_scaling_stays_between_the_bounds(bench):
    scaling = bench("scaling")
    codes = np.random.default_rng(0).integers(0, 5, 4000)
    lines = [scaling.measure(codes[:rows], "indicator", runs=40, number=30) for rows in (500, 4000)]
    assert bench("blocks.paper002").slope(lines, "exact_variance") == pytest.approx(-1, abs=0.01)
    for line in lines:
        assert line["lower_bound"] < line["exact_variance"] <= line["worst_variance"] <= line["upper_bound"]
        # 40 runs of 30 queries with functions of their own: a fifth is more than 5 standard errors
        assert line["mean_square"] == pytest.approx(line["exact_variance"], rel=0.2)


def test_a_small_table_in_bulk(bench, monkeypatch, capsys):
    bulk = bench("bulk")
    monkeypatch.setattr(sys, "argv", ["bulk.py", "--rows", "20000", "--groups", "10", "--queries", "250"])
    bulk.main()
    line = json.loads(capsys.readouterr().out)
    assert line["secure"] is True and line["queries"] == 250
    # unseeded: queries share most of their noise, so only what would be wrong by an order is asked for
    assert line["worst_scaled_error"] < 12 and line["within_95"] > 0.5


def test_mwem_and_responses_answer_the_same_queries(bench):
    mwem = bench("mwem")
    stars, movies = np.random.default_rng(0).integers(0, 5, 3000), np.arange(3000) % 64
    line = mwem.worst(stars, movies, parts=2, number=5, seed=0)
    assert 0 < line["mwem-default"] < line["randomized-response"] < 0.5
    assert line["predicted_sd"] == pytest.approx(math.sqrt(12551 / 3000) * 0.012, rel=0.2)


def test_the_worst_of_the_databases_is_taken_and_the_mean_of_the_runs(bench):
    names = ("randomized-response", "mwem-paper", "mwem-default")
    lines = [
        {"heterogeneity": 1, "queries": 10, "run": run, "database": k, "predicted_sd": 0.1}
        | dict.fromkeys(names, error)
        for (run, k), error in {(0, 0): 0.2, (0, 1): 0.4, (1, 0): 0.6, (1, 1): 0.1}.items()
    ]
    (found,) = bench("blocks.paper002").mwem_worst(lines)
    assert found["mwem-paper"] == pytest.approx((0.4 + 0.6) / 2)
    assert found["standard_errors"]["mwem-paper"] == pytest.approx(0.1)
    assert (found["databases"], found["runs"]) == (2, 2)


def test_what_lacks_has_fewer_runs_where_there_are_many_parts(bench, tmp_path):
    mwem = bench("mwem")
    kept = mwem.harness.Results(tmp_path / "none.jsonl", ("heterogeneity", "queries", "run", "database"))
    asked = [*mwem.missing(kept, 10)]
    assert len(asked) == mwem.DATABASES * (6 * 10 + 2 * 3)
    assert {x["run"] for x in asked if x["heterogeneity"] == 64} == {0, 1, 2}
