"""Rates come from the data sheet of a card, or are the defaults; nothing in the user's home changes them."""

import dataclasses

import pytest

import pgmjax as pj
from pgmjax._internal import device
from pgmjax.inference.plan import forecast
from pgmjax.inference.plan.forecast import HostRates, Rates


def card(monkeypatch, name):
    monkeypatch.setattr(device, "kind", lambda: name)
    monkeypatch.setattr(device, "platform", lambda: "gpu")


def test_defaults_then_the_data_sheet(monkeypatch):
    assert forecast.device_rates() == Rates() and HostRates() == forecast.HOST_RATES
    card(monkeypatch, "NVIDIA H200")
    sheet = forecast.device_rates()
    assert sheet.source == "data sheet of the H200" and 1 / sheet.flop == pytest.approx(67e12)
    assert HostRates() == forecast.HOST_RATES


def test_a_card_without_a_data_sheet_has_the_rates_of_a_t4_and_says_so(monkeypatch):
    card(monkeypatch, "NVIDIA GB999")
    found = forecast.device_rates()
    assert found == dataclasses.replace(forecast.of_card("Tesla T4"), source=forecast.UNKNOWN)
    assert found != Rates(source=forecast.UNKNOWN) and "T4" in found.source


def test_exponentials_of_an_h100_are_those_of_its_clock_and_multiprocessors():
    found = forecast.of_card("NVIDIA H100 80GB HBM3")
    assert 1 / found.exponential == pytest.approx(16 * 132 * 1.98e9, rel=0.01)
    assert forecast.of_card("another card") is None


def test_a_file_of_rates_in_the_home_folder_changes_no_plan(tmp_path, monkeypatch):
    """An earlier version kept measured rates there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "pgmjax").mkdir()
    (tmp_path / "pgmjax" / "rates.json").write_text("{")
    assert forecast.device_rates() == Rates() and HostRates() == forecast.HOST_RATES


def test_the_choice_of_an_oracle_and_its_summary_follow_the_rates(monkeypatch):
    domain, cliques = pj.Domain(dict.fromkeys("abcd", 8)), [("a", "b"), ("b", "c"), ("c", "d")]
    chosen = {}
    for step in (1e-9, 1.0):  # NumPy that costs nothing, and NumPy that takes seconds a step
        monkeypatch.setattr(
            forecast, "HOST_RATES", HostRates(step=step, cell=1e-15, flop=1e-15, source="a test")
        )
        plan = pj.Estimator(max_steps=10).plan(domain, cliques)
        chosen[step] = plan.oracle.name
        assert f"rates: {'a test' if step == 1e-9 else forecast.DEFAULTS}" in plan.summary()
    assert chosen == {1e-9: "host", 1.0: "contraction"}
