"""Rates come from what is kept of this machine, from data sheets, or are the defaults."""

import dataclasses
import json

import jax
import pytest

import pgmjax as pj
from pgmjax._internal import device
from pgmjax.inference.plan import rates
from pgmjax.inference.plan.rates import HostRates, Rates


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    rates.forget()
    yield tmp_path / "pgmjax" / "rates.json"
    rates.forget()


def card(monkeypatch, name):
    monkeypatch.setattr(device, "kind", lambda: name)
    monkeypatch.setattr(device, "platform", lambda: "gpu")


def test_defaults_then_the_data_sheet_then_what_is_kept(cache, monkeypatch):
    assert rates.of_device() == Rates() and rates.of_host() == HostRates()
    card(monkeypatch, "NVIDIA H200")
    rates.forget()
    sheet = rates.of_device()
    assert sheet.source == "data sheet of the H200" and 1 / sheet.flop == pytest.approx(67e12)
    measured, host = Rates(flop=1e-13), HostRates(step=1.0)
    assert rates.keep(measured, host) == cache
    assert rates.of_device() == dataclasses.replace(measured, source=rates.MEASURED)
    assert rates.of_host() == dataclasses.replace(host, source=rates.MEASURED)
    card(monkeypatch, "NVIDIA L4")  # another card: its data sheet, beside the same host
    rates.forget()
    assert rates.of_device().source == "data sheet of the L4" and rates.of_host().step == 1.0


def test_a_card_without_a_data_sheet_has_the_rates_of_a_t4_and_says_so(cache, monkeypatch):
    card(monkeypatch, "NVIDIA GB999")
    rates.forget()
    found = rates.of_device()
    assert found == dataclasses.replace(rates.of_card("Tesla T4"), source=rates.UNKNOWN)
    assert found != Rates(source=rates.UNKNOWN) and "T4" in found.source


def test_exponentials_of_an_h100_are_those_of_its_clock_and_multiprocessors():
    found = rates.of_card("NVIDIA H100 80GB HBM3")
    assert 1 / found.exponential == pytest.approx(16 * 132 * 1.98e9, rel=0.01)
    assert rates.of_card("another card") is None


def test_the_key_names_the_cores_of_a_cpu_and_the_versions(monkeypatch):
    monkeypatch.setattr(rates, "_cores", lambda: 3)
    assert rates.device_key() == f"cpu, jax {jax.__version__}, 3 cores"
    card(monkeypatch, "NVIDIA L4")
    assert rates.device_key() == f"NVIDIA L4, jax {jax.__version__}"


@pytest.mark.parametrize(
    "text", ["{", '{"format": "pgmjax:rates", "format_version": 1, "devices": {"cpu": {"launch": 0}}}']
)
def test_a_damaged_file_is_said_and_ignored(cache, caplog, text):
    cache.parent.mkdir()
    cache.write_text(text)
    with caplog.at_level("WARNING", logger="pgmjax"):
        assert rates.of_device() == Rates()
    assert "Kept measurements of rates are ignored" in caplog.text and "pgmjax bench rates" in caplog.text


def test_rates_of_another_version_of_the_library_are_not_taken(cache):
    rates.keep(Rates(), HostRates())
    kept = json.loads(cache.read_text())
    del kept["devices"][rates.device_key()]["launch"]
    cache.write_text(json.dumps(kept))
    rates.forget()
    assert rates.of_device().source == rates.DEFAULTS and rates.of_host().source == rates.MEASURED


def test_the_choice_of_an_oracle_and_its_summary_follow_the_rates():
    domain, cliques = pj.Domain(dict.fromkeys("abcd", 8)), [("a", "b"), ("b", "c"), ("c", "d")]
    chosen = {}
    for step in (1e-9, 1.0):  # NumPy that costs nothing, and NumPy that takes seconds a step
        rates.keep(Rates(), HostRates(step=step, cell=1e-15, flop=1e-15))
        plan = pj.Estimator(max_steps=10).plan(domain, cliques)
        chosen[step] = plan.oracle.name
        assert f"rates: {rates.MEASURED}" in plan.summary()
    assert chosen == {1e-9: "host", 1.0: "contraction"}
