"""The script of ablations: what is left out is out while a figure is taken, and in again afterwards."""

import importlib
import pathlib

import pytest

BENCH = pathlib.Path(__file__).parent.parent.parent / "bench"
pytestmark = pytest.mark.skipif(not BENCH.is_dir(), reason="the tests run apart from the source tree")


@pytest.fixture
def ablations(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("ablations")


def test_a_row_compares_without_and_with(ablations):
    holder = type("Holder", (), {"price": 2.0})
    row = ablations.Row(
        *("a price", "another", "coins", lambda model: holder.price * len(model.sizes)),
        *(ablations.off((holder, "price", 3.0)), ("loops-60x90-0",)),
    )
    assert ablations.measured(row) == [("loops-60x90-0", 1.5)] and holder.price == 2.0
    text = ablations.page([(row, [("here", 1.0), ("there", 1.5)])])
    assert "| a price | another | coins | 1.5 | there | 1 of 2 |" in text


def test_every_row_still_finds_what_it_switches_off(ablations):
    for row in ablations.ROWS:
        with row.without():
            pass
