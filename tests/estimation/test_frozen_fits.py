"""Forty fits kept as values with what was found once: losses stay within what was certified."""

import json
import pathlib

import pytest

import pgmjax as pj

KEPT = json.loads(pathlib.Path(__file__).with_name("frozen_fits.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: str(kept["seed"]))
def test_a_fit_finds_what_it_found(kept):
    domain = pj.Domain(kept["domain"])
    noisy = [
        pj.LinearMeasurement(tuple(clique), values, stddev) for clique, values, stddev in kept["measurements"]
    ]
    estimator = pj.Estimator(loss=kept["loss"], progress=False, **kept["settings"])
    found, before = estimator.fit(domain, noisy, total=kept["total"]), kept["found"]
    # two losses lie within the larger of their distances from the least one, as far as these are certified
    least = max(found.gap, before["gap"]) + 2e-6 * max(1.0, before["loss"])
    assert abs(found.loss - before["loss"]) <= least
    assert found.status.name == before["status"]
