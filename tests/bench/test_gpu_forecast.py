"""Counts of GPU programs, on texts whose kernels, loops and bytes are counted by hand."""

import importlib
import pathlib

import pytest

BENCH = pathlib.Path(__file__).parent.parent.parent / "bench"
pytestmark = pytest.mark.skipif(not BENCH.is_dir(), reason="the tests run apart from the source tree")
TEXT = """HloModule jit_f, is_scheduled=true

%fused_exp (p.0: f32[100,8], p.1: s32[]) -> f32[1,8] {
  %p.0 = f32[100,8]{1,0} parameter(0)
  %p.1 = s32[] parameter(1)
  %slice.0 = f32[1,8]{1,0} dynamic-slice(%p.0, %p.1, %p.1), dynamic_slice_sizes={1,8}
  ROOT %exp.0 = f32[1,8]{1,0} exponential(%slice.0)
}

%body (arg: (s32[], f32[100,8])) -> (s32[], f32[100,8]) {
  %arg = (s32[], f32[100,8]{1,0}) parameter(0)
  %i = s32[] get-tuple-element(%arg), index=0
  %x = f32[100,8]{1,0} get-tuple-element(%arg), index=1
  %fusion.0 = f32[1,8]{1,0} fusion(%x, %i), kind=kLoop, calls=%fused_exp
  %copy.0 = f32[100,8]{1,0} copy(%x)
  ROOT %tuple.0 = (s32[], /*index=1*/f32[100,8]{1,0}) tuple(%i, %copy.0)
}

%condition (arg.1: (s32[], f32[100,8])) -> pred[] {
  %arg.1 = (s32[], f32[100,8]{1,0}) parameter(0)
  %i.1 = s32[] get-tuple-element(%arg.1), index=0
  ROOT %less = pred[] compare(%i.1, %i.1), direction=LT
}

ENTRY %main (x.1: f32[100,8], i.2: s32[]) -> (s32[], f32[100,8]) {
  %x.1 = f32[100,8]{1,0} parameter(0)
  %i.2 = s32[] parameter(1)
  %start = (s32[], f32[100,8]{1,0}) tuple(%i.2, %x.1)
  ROOT %while.0 = (s32[], f32[100,8]{1,0}) while(%start), condition=%condition, body=%body KNOWN
}
"""
KNOWN = ', backend_config={"known_trip_count":{"n":"7"}}'
SLICED, COPIED, COMPARED = 4 + 2 * 4 * 8, 2 * 4 * 800, 1 + 2 * 4


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module


def program(bench, text, turns=1):
    hlo = bench("gpu_hlo")
    rates = hlo.Rates(bytes=1e12, exponentials=1e12, flops=1e13, launch=2.0, wait=100.0)
    return hlo.Program(text, rates, turns)


def test_a_loop_with_known_turns_multiplies_and_never_waits(bench):
    found = program(bench, TEXT.replace(" KNOWN", KNOWN)).total
    assert (found.kernels, found.host_syncs, found.exponentials) == (14, 0, 7 * 8)
    assert found.traffic == 7 * (SLICED + COPIED) and found.seconds == 14 * 2.0


def test_a_loop_that_the_host_decides_waits_in_every_turn(bench):
    found = program(bench, TEXT.replace(" KNOWN", ""), turns=5)
    assert (found.total.kernels, found.total.host_syncs) == (15, 5)
    assert found.total.traffic == 5 * (SLICED + COPIED + COMPARED)
    assert found.total.seconds == 5 * (3 * 2.0 + 100.0)
    assert [loop.turns for loop in found.loops] == [None] and found.loops[0].turn.kernels == 3
