"""The part of the report that answers questions offline, clicked through in a headless browser."""

import json

import numpy as np
import pytest

import pgmjax as pj
from pgmjax._internal import page
from pgmjax.release import figures, report
from pgmjax.release.accuracy import CountEstimates
from tests.browser import Browser, needs_browser

SHAPE = {
    "age": {"bins": [0, 20, 40, 60]},
    "job": {"labels": ["baker", "cook & co", "</script>"]},
    "code": 300,
}
DOMAIN = pj.Domain(SHAPE)


@pytest.fixture(scope="module")
def made():
    rng = np.random.default_rng(0)
    pair = rng.integers(50, 400, (3, 3))
    noisy = [
        pj.LinearMeasurement(("age", "job"), pair, 3.0),
        pj.LinearMeasurement(("code",), rng.integers(0, 20, 300), 4.0, noise="laplace"),
    ]
    model = pj.Estimator(progress=False).fit(DOMAIN, noisy, float(pair.sum())).model
    return model, CountEstimates(DOMAIN, noisy)


def test_numbers_are_those_of_the_model_and_the_answers(made):
    model, estimates = made
    noisy = estimates.measurements
    found = figures.explorer_numbers(model, estimates)
    assert [column["name"] for column in found["columns"]] == ["age", "job", "code"]
    pair = found["pairs"]["0,1"]
    # both tables tell the total; all else is told by one of them
    total = 1 / (1 / (9 * 9) + 1 / (300 * 16))
    assert pair["half"] == pytest.approx(2.12 * (9 * 8 / 9 + total / 81) ** 0.5, abs=0.01)
    assert found["one"][0]["half"] == pytest.approx(2.12 * (27 * 2 / 3 + total / 9) ** 0.5, abs=0.01)
    assert found["one"][2]["half"] == pytest.approx(2.12 * (16 * 299 / 300 + total / 300**2) ** 0.5, abs=0.01)
    sums = noisy[0].values.sum(), noisy[1].values.sum()
    best = (sums[0] / 81 + sums[1] / 4800) * total
    assert np.allclose(pair["noisy"], noisy[0].values.ravel() + (best - sums[0]) / 9, atol=0.051)
    assert np.allclose(pair["count"], model.marginal(("age", "job")).ravel(), atol=0.051)
    # one row of the pair, by its parts: the interval of a code of age
    parts = np.sqrt(np.dot(pair["parts"], [1 / 9, 2 / 3, 0, 0]))
    assert parts == pytest.approx(found["one"][0]["half"], abs=0.01)
    assert found["pairs"]["0,2"]["noisy"] is None and found["left_out"] == 0
    assert np.allclose(found["pairs"]["1,2"]["count"], model.marginal(("job", "code")).ravel(), atol=0.051)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_intervals_hold_the_count_as_often_as_they_say(noise):
    rng = np.random.default_rng(1)
    draws = rng.normal(0, 5, 40_000) if noise == "gaussian" else rng.laplace(0, 5 / 2**0.5, 40_000)
    domain = pj.Domain({"a": draws.size})
    noisy = [pj.LinearMeasurement(("a",), 1000 + draws, 5.0, noise=noise)]
    model = pj.GraphicalModel.from_potentials(domain, {("a",): np.zeros(draws.size)}, 1000.0 * draws.size)
    (table,) = figures.explorer_numbers(model, CountEstimates(domain, noisy))["one"]
    held = np.abs(np.array(table["noisy"]) - 1000) <= table["half"]
    assert abs(held.mean() - 0.95) < 0.005


def test_a_page_has_a_limit(made, monkeypatch):
    monkeypatch.setattr(figures, "MOST_BYTES", 8000)
    found = figures.explorer_numbers(*made)
    assert "0,1" in found["pairs"] and found["left_out"] == 2
    assert "2 pairs are left out, because the page would be too large" in figures.explorer(*made)


def written(made):
    return page.document("t", [figures.explorer(*made)], scripts=[figures.explorer_script()])


def test_a_name_cannot_end_the_script(made):
    text = written(made)
    assert text.count("</script>") == text.count("<script") == 3 and "\\u003c/script>" in text


@needs_browser
def test_a_reader_clicks_through(made, tmp_path):
    (tmp_path / "r.html").write_text(written(made), encoding="utf-8")
    model = made[0]
    with Browser(tmp_path / "r.html", tmp_path / "profile") as reader:
        rows = "[...document.querySelectorAll('#x-table tbody tr')]"
        rows += ".map(row => [...row.cells].map(cell => cell.textContent))"
        assert [row[0] for row in reader.ask(rows)] == [
            DOMAIN.attribute("age").code_names()[code] for code in np.argsort(-model.marginal(("age",)))
        ]
        reader.choose("#x-second", "1")
        reader.choose("#x-order", "place")
        reader.choose("#x-filter", "COOK")
        found = reader.ask(rows)
        assert [row[1] for row in found] == ["cook & co"] * 3
        shown = figures.explorer_numbers(*made)["pairs"]["0,1"]
        low, high = shown["noisy"][1] - shown["half"], shown["noisy"][1] + shown["half"]
        assert found[0][3] == " to ".join(f"{end:.0f}" if end >= 100 else f"{end:.1f}" for end in (low, high))
        assert reader.ask("document.querySelector('#x-sum').textContent").startswith("3 lines, in total")
        reader.choose("#x-second", "2")
        reader.choose("#x-filter", "")
        assert "the model alone" in reader.ask(rows)[0][3]
        assert (
            len(reader.ask(rows)) == 100 and reader.ask("document.querySelector('#x-more').click()") is None
        )
        assert len(reader.ask(rows)) == 200
        reader.ask(
            "window.copied = null; Object.defineProperty(navigator, 'clipboard', {value: {writeText: "
            "text => { window.copied = text; return Promise.resolve(); }}})"
        )
        reader.choose("#x-first", "1")
        reader.choose("#x-second", "")
        reader.ask("document.querySelector('#x-copy').click()")
        lines = reader.ask("window.copied").split("\n")
        assert lines[0] == "job\tcount\tlow\thigh" and len(lines) == 4
        reader.ask("document.querySelector('#x-picture').click()")
        assert reader.ask("window.copied").startswith("<svg") and "var(--" not in reader.ask("window.copied")
        assert reader.ask("document.querySelector('#x-done').textContent") == "Picture copied."
        assert reader.ask("performance.getEntriesByType('resource').length") == 0  # nothing was fetched


CUT_OFF = """[...document.querySelectorAll('main *')].filter(each => !each.closest('svg') &&
    !each.matches('select, input') && each.clientWidth && each.scrollWidth > each.clientWidth + 1)
    .map(each => each.tagName + ' ' + each.className + ' ' + each.textContent.slice(0, 40))"""


@needs_browser
@pytest.mark.parametrize("width", [400, 1400])
def test_nothing_is_cut_off_on_a_phone_or_wider_than_a_window(made, tmp_path, width):
    record = {
        "statement": "s",
        "total": 1.0,
        "absent": 0,
        "versions": {},
        "fit": {"status": "CONVERGED", "steps": 1, "loss": 1.0, "gap": 0.1},
    }
    (tmp_path / "r.html").write_text(
        report.render_fit(json.loads(json.dumps(record)), made[0], made[1].measurements), encoding="utf-8"
    )
    with Browser(tmp_path / "r.html", tmp_path / "profile", width) as reader:
        assert reader.ask("document.documentElement.scrollWidth") <= reader.ask("window.innerWidth")
        assert reader.ask("window.innerWidth") == width
        assert reader.ask(CUT_OFF) == []
        reader.ask("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        assert reader.ask(CUT_OFF) == []
        assert reader.ask("document.querySelectorAll('.plots svg').length") == 3
