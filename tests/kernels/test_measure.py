"""What `pgmjax bench kernels` finds decides which kernels are on; the clock is told what to say."""

import json

import jax
import numpy as np
import pytest
import scipy.special

from pgmjax import kernels
from pgmjax._internal import device
from pgmjax.cli import main
from pgmjax.kernels import measure, switch

SMALL = {"small": (1, 8, 4, 8), "ragged": (2, 5, 3, 7)}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    switch._kept_for.cache_clear()
    yield tmp_path / "pgmjax" / "kernels.json"
    switch._kept_for.cache_clear()


@pytest.fixture
def card(monkeypatch):
    """A GPU by name; what stands in for kernels computes with XLA, as the device is a CPU in truth."""
    monkeypatch.setattr(device, "is_gpu", lambda name=None: (name or "gpu") == "gpu")
    monkeypatch.setattr(device, "kind", lambda: "Test Card 1")
    stand_ins = {name: (as_kernel(xla), xla, back) for name, (_, xla, back) in measure.FORMS.items()}
    monkeypatch.setattr(measure, "FORMS", stand_ins)
    return stand_ins


def as_kernel(function):
    return lambda *tables: function(*tables)


class FakeClock:
    """Each kernel, and each of XLA's forms, takes the time that it is told, in turn as they are timed."""

    def __init__(self, *seconds, repeats=1):
        self.now, self.ticks, self.seconds, self.readings = 0.0, 0, seconds, 2 * (1 + repeats)

    def __call__(self):
        form = self.ticks // self.readings % len(self.seconds)
        self.ticks += 1
        if self.ticks % 2 == 0:
            self.now += self.seconds[form]
        return self.now


def test_the_clock_decides_which_kernels_win(card, cache):
    clock = FakeClock(1.0, 2.0, 3.0, 2.0, 1.0, 1.0)  # faster, slower, a tie; kernel and XLA by turns
    lines = list(measure.measure(SMALL, repeats=1, clock=clock))
    won = measure.winners(lines)
    assert won == {"log_matmul_exp": True, "log_matmul_exp_backward": False, "log_sum_exp": False}
    assert [(line["kernel_ms"], line["xla_ms"]) for line in lines[:2]] == [(1000, 2000), (3000, 2000)]
    assert all(line["kernel_error"] == line["xla_error"] < 1e-6 for line in lines)
    assert not kernels.kernels_in_use("gpu")
    assert switch.keep(won) == cache
    assert kernels.kernels_in_use("gpu") and kernels.kernels_in_use("gpu", "log_matmul_exp")
    assert not kernels.kernels_in_use("gpu", "log_sum_exp") and not kernels.kernels_in_use("cpu")
    with kernels.using_kernels(False):
        assert not kernels.kernels_in_use("gpu", "log_matmul_exp")
    with kernels.using_kernels():
        assert kernels.kernels_in_use("gpu", "log_sum_exp")


def test_a_kernel_that_is_slower_at_one_shape_or_wrong_or_fails_has_not_won(card, monkeypatch):
    def wrong(left, right):
        return measure.xla_forward(left, right) + 0.01

    def fails(*tables):
        raise Exception("as Pallas raises")

    xla = measure.xla_forward
    forms = {"one": (as_kernel(xla), xla, False), "wrong": (wrong, xla, False), "fails": (fails, xla, False)}
    monkeypatch.setattr(measure, "FORMS", forms)
    # one, wrong, and XLA's form alone where the kernel fails; slower at the second shape
    clock = FakeClock(1.0, 2.0, 1.0, 2.0, 2.0, 3.0, 2.0, 1.0, 2.0, 2.0)
    lines = list(measure.measure(SMALL, repeats=1, clock=clock))
    assert [line["won"] for line in lines] == [True, False, False, False, False, False]
    assert lines[1]["kernel_error"] > measure.TOLERANCE and lines[2]["kernel_ms"] is None
    assert measure.winners(lines) == {"one": False, "wrong": False, "fails": False}


def test_what_is_kept_is_of_one_device_and_one_version(card, cache, monkeypatch):
    switch.keep({"log_matmul_exp": True})
    monkeypatch.setattr(device, "kind", lambda: "Test Card 2")
    assert not kernels.kernels_in_use("gpu")
    switch.keep({"log_matmul_exp": False})
    found = json.loads(cache.read_text())["devices"]
    assert found[f"Test Card 1, jax {jax.__version__}"] == {"log_matmul_exp": True} and len(found) == 2
    assert [file.name for file in cache.parent.iterdir()] == ["kernels.json"]


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "\xff",
        "{}",
        '{"format": "pgmjax:kernels", "format_version": 2, "devices": {}}',
        '{"format": "pgmjax:kernels", "format_version": 1, "devices": {"Test Card 1": {"log_sum_exp": 1}}}',
        "[" * 100_000,
    ],
)
def test_a_corrupt_file_is_ignored_said_once_and_written_again(card, cache, caplog, text):
    cache.parent.mkdir()
    cache.write_bytes(text.encode("latin-1"))
    with caplog.at_level("WARNING", logger="pgmjax"):
        assert not kernels.kernels_in_use("gpu") and not kernels.kernels_in_use("gpu", "log_sum_exp")
    assert len(caplog.records) == 1 and "are ignored" in caplog.text and str(cache) in caplog.text
    switch.keep({"log_sum_exp": True})
    assert kernels.kernels_in_use("gpu", "log_sum_exp")


def test_the_host_computes_the_sums_that_scipy_computes(monkeypatch):
    monkeypatch.setattr(measure, "_CELLS", 40)  # two rows at a time
    (left, right, _, weight), truth, (by_left, by_right) = measure._case(2, 5, 3, 7)
    terms = np.float64(left)[:, :, :, None] + np.float64(right)[:, None]
    out = scipy.special.logsumexp(terms, axis=2)
    shares = np.exp(terms - out[:, :, None]) * np.float64(weight)[:, :, None]
    np.testing.assert_allclose(truth, out, rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(by_left, shares.sum(3), rtol=1e-12)
    np.testing.assert_allclose(by_right, shares.sum(1), rtol=1e-12)


def test_the_command_on_a_cpu_says_that_kernels_are_off_and_keeps_nothing(capsys, cache, monkeypatch):
    monkeypatch.setattr(measure, "SHAPES", SMALL)
    assert main(["bench", "kernels", "--repeats", "1"]) == 0
    head, *lines = map(json.loads, capsys.readouterr().out.splitlines())
    assert not head["kernels"] and "not a GPU" in head["note"] and len(lines) == 6
    assert all(line["kernel_ms"] is None and line["xla_ms"] > 0 and not line["won"] for line in lines)
    assert all(line["xla_error"] < 1e-6 for line in lines) and not cache.exists()


def test_the_command_on_a_card_keeps_named_shapes_alone(card, capsys, cache, monkeypatch):
    monkeypatch.setattr(measure, "SHAPES", SMALL)
    assert main(["bench", "kernels", "--shapes", "1x2x3x4", "--repeats", "1"]) == 0
    head, *lines = map(json.loads, capsys.readouterr().out.splitlines())
    assert "nothing is kept" in head["note"] and lines[0]["sizes"] == [1, 2, 3, 4] and not cache.exists()
    assert main(["bench", "kernels", "--repeats", "1"]) == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    kept = json.loads(cache.read_text())["devices"]
    assert last["kept"] == str(cache) and kept == {switch.this_device(): last["won"]}


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--shapes", "1x2x3"], "four whole numbers"),
        (["--shapes", "1x0x3x4"], "four whole numbers"),
        (["--shapes", "1x2x3x-4"], "four whole numbers"),
        (["--shapes", "9x99999x9999x9"], "1,000,000,000 terms"),
        (["--repeats", "0"], "from 1 to 10,000"),
        (["--repeats", "two"], "from 1 to 10,000"),
    ],
)
def test_bad_options_are_refused(options, why, capsys):
    assert main(["bench", "kernels", *options]) == 2
    assert why in capsys.readouterr().err
