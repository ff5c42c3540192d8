"""Measured rates explain the times that a clock was told to show."""

import dataclasses
import importlib
import pathlib

import pytest

from pgmjax.inference.oracles.contraction import Contraction, HostContraction, host_units
from pgmjax.inference.plan.contraction import of_path
from pgmjax.inference.plan.forecast import HostRates, Rates
from pgmjax.inference.plan.structure import Structure

BENCH = pathlib.Path(__file__).parent.parent.parent / "bench"
pytestmark = pytest.mark.skipif(not BENCH.is_dir(), reason="the tests run apart from the source tree")
CHAIN = Structure((2,) * 4, ((0, 1), (1, 2), (2, 3)))
PAIR = Structure((400, 400), ((0, 1), (0,), (1,)))
SKEW = Structure((300, 4, 300), ((0, 1), (1, 2), (0, 2)))  # large enough to be a large product
CUBE = Structure((80, 80, 80), ((0, 1), (1, 2), (0, 2)))
DEVICE = {"launch": CHAIN, "exponential": PAIR, "cell": SKEW, "flop": CUBE}
HOST = {"step": CHAIN, "cell": PAIR, "flop": CUBE}


@pytest.fixture
def measure(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    found = importlib.import_module("machine_rates")
    monkeypatch.setattr(found, "_BUSY", 0.0)  # one call for each reading of the clock
    return found


class FakeClock:
    """Every call takes as long as the model's units at given rates, in the order in which they are timed."""

    def __init__(self, device, host, repeats, around):
        self.spans = []
        for rate, structure in DEVICE.items():
            oracle = Contraction.build(structure, fast=rate in ("cell", "flop"))
            compiling = (oracle.forecast.operations + around) * device.operation
            spent = of_path(oracle.path).seconds(device)
            self.spans += [compiling] + [spent] * (1 + repeats)
        for structure in HOST.values():
            counted = host_units(HostContraction.build(structure).path)
            spent = sum(n * getattr(host, rate) for rate, n in counted.items())
            self.spans += [spent] * (1 + repeats)
        self.now, self.readings = 0.0, 0

    def __call__(self):
        self.readings += 1
        if self.readings % 2 == 0:
            self.now += self.spans.pop(0)
        return self.now


def test_rates_are_those_of_which_the_times_are_made(measure):
    device = Rates(launch=3e-7, cell=2e-9, exponential=5e-10, flop=7e-12, operation=1e-3)
    host = HostRates(step=4e-6, cell=2e-8, flop=3e-10)
    clock = FakeClock(device, host, 3, measure.SOLVER_OPERATIONS)
    lines = list(measure.measure(repeats=3, device_models=DEVICE, host_models=HOST, clock=clock))
    assert not clock.spans
    found, on_host = measure.rates(lines)
    for expected, got in ((device, found), (host, on_host)):
        for name, value in dataclasses.asdict(expected).items():
            if name == "source":
                continue
            # of a model that spends its time on one rate, the others are a small part
            assert getattr(got, name) == pytest.approx(value, rel=0.2), name
