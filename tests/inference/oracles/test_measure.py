"""Measured rates explain the times that a clock was told to show; `pgmjax bench rates` keeps them."""

import json

import pytest

from pgmjax.cli import main
from pgmjax.inference.oracles import measure
from pgmjax.inference.oracles.contraction import Contraction
from pgmjax.inference.oracles.host_contraction import HostContraction, units
from pgmjax.inference.plan import cost, rates
from pgmjax.inference.plan.rates import HostRates, Rates
from pgmjax.inference.plan.structure import Structure

CHAIN = Structure((2,) * 4, ((0, 1), (1, 2), (2, 3)))
PAIR = Structure((400, 400), ((0, 1), (0,), (1,)))
SKEW = Structure((300, 4, 300), ((0, 1), (1, 2), (0, 2)))  # large enough to be a large product
CUBE = Structure((80, 80, 80), ((0, 1), (1, 2), (0, 2)))
DEVICE = {"launch": CHAIN, "exponential": PAIR, "cell": SKEW, "flop": CUBE}
HOST = {"step": CHAIN, "cell": PAIR, "flop": CUBE}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(measure, "_BUSY", 0.0)  # one call for each reading of the clock
    rates.forget()
    yield tmp_path / "pgmjax" / "rates.json"
    rates.forget()


class FakeClock:
    """Every call takes as long as the model's units at given rates, in the order in which they are timed."""

    def __init__(self, device, host, repeats):
        self.spans = []
        for rate, structure in DEVICE.items():
            oracle = Contraction.build(structure, fast=rate in ("cell", "flop"))
            compiling = (oracle.forecast.operations + measure.AROUND) * device.operation
            spent = cost.of_path(oracle.path).seconds(device)
            self.spans += [compiling] + [spent] * (1 + repeats)
        for structure in HOST.values():
            counted = units(HostContraction.build(structure).path)
            spent = sum(n * getattr(host, rate) for rate, n in counted.items())
            self.spans += [spent] * (1 + repeats)
        self.now, self.readings = 0.0, 0

    def __call__(self):
        self.readings += 1
        if self.readings % 2 == 0:
            self.now += self.spans.pop(0)
        return self.now


def test_rates_are_those_of_which_the_times_are_made():
    device = Rates(launch=3e-7, cell=2e-9, exponential=5e-10, flop=7e-12, operation=1e-3)
    host = HostRates(step=4e-6, cell=2e-8, flop=3e-10)
    clock = FakeClock(device, host, repeats=3)
    lines = list(measure.measure(repeats=3, device_models=DEVICE, host_models=HOST, clock=clock))
    assert not clock.spans
    found, on_host = measure.rates(lines)
    for expected, got in ((device, found), (host, on_host)):
        for name, value in rates._values(expected).items():
            # of a model that spends its time on one rate, the others are a small part
            assert getattr(got, name) == pytest.approx(value, rel=0.2), name


def test_the_command_prints_and_keeps_what_it_measured(capsys, cache, monkeypatch):
    monkeypatch.setattr(measure.measure, "__kwdefaults__", {
        **measure.measure.__kwdefaults__, "device_models": DEVICE, "host_models": HOST
    })  # fmt: skip
    assert main(["bench", "rates", "--repeats", "1"]) == 0
    head, *lines, last = map(json.loads, capsys.readouterr().out.splitlines())
    assert head == {"device": rates.device_key(), "host": rates.host_key()} and last == {"kept": str(cache)}
    assert [line["rate"] for line in lines] == [
        "operation", "launch", "exponential", "cell", "flop", "step", "cell", "flop"
    ]  # fmt: skip
    assert all(line["value"] > 0 for line in lines)
    assert rates.of_device().source == rates.of_host().source == rates.MEASURED
    assert rates.of_device().launch == lines[1]["value"] and rates.of_host().flop == lines[-1]["value"]
