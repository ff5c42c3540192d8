"""The report's pictures: the numbers that they are drawn from, and what a browser makes of them."""

import html
import json
import re
import subprocess
import sys

import numpy as np
import pytest

import pgmjax as pj
from pgmjax._internal import page
from pgmjax.release import figures
from pgmjax.release.accuracy import NORMAL, CountEstimates
from tests.browser import Browser, needs_browser

HOSTILE = "</script><img src=x onerror=alert(1)><b>&\"'"
LONG = [f"Municipality of the northern border no. {k}" for k in range(9)]


def pictures(text):
    """The numbers of each picture of a section, and the cells of the table behind it."""
    found = []
    for figure in re.findall(r"<figure.*?</figure>", text, re.DOTALL):
        numbers = json.loads(re.search(r'<script type="application/json">(.*?)</script>', figure)[1])
        rows = re.findall(r"<tr>(<td.*?)</tr>", figure)
        found.append((numbers, [[*map(html.unescape, re.findall(r">([^<]*)</td>", row))] for row in rows]))
    return found


def measured(shape, stddev=4.0, seed=0):
    """A model with the noisy counts of one marginal of all attributes, each cell with independent noise."""
    domain = pj.Domain(shape)
    draw = np.random.default_rng(seed)
    exact = draw.integers(50, 400, domain.shape).astype(float)
    noisy = [pj.LinearMeasurement(domain.attributes, exact + draw.normal(0, stddev, exact.shape), stddev)]
    model = pj.GraphicalModel.from_potentials(domain, {domain.attributes: np.log(exact)}, exact.sum())
    return model, CountEstimates(domain, noisy), exact, noisy[0].values


def test_a_picture_and_its_table_hold_counts_noisy_counts_and_intervals():
    model, estimates, exact, noisy = measured({"a": {"labels": ["x", HOSTILE, "z"]}, "b": 5})
    ((drawn, rows), (second, _)) = pictures(figures.one_way(model, estimates))
    assert drawn["kind"] == second["kind"] == "rows" and drawn["names"] == ["x", HOSTILE, "z"]
    half = NORMAL * 4.0 * np.sqrt(5)
    sums = noisy.sum(axis=1)
    np.testing.assert_allclose(drawn["noisy"], sums, atol=0.051)
    np.testing.assert_allclose(drawn["low"], np.minimum(sums - half, exact.sum(axis=1)), atol=0.051)
    np.testing.assert_allclose(drawn["high"], np.maximum(sums + half, exact.sum(axis=1)), atol=0.051)
    np.testing.assert_allclose(drawn["counts"], exact.sum(axis=1), atol=0.051)
    for k, (name, count, seen, interval) in enumerate(rows):
        said = page.number(drawn["low"][k]), page.number(drawn["high"][k])
        assert (name, count) == (drawn["names"][k], page.number(drawn["counts"][k]))
        assert (seen, interval) == (page.number(drawn["noisy"][k]), " to ".join(said))


def test_neighbours_of_many_values_are_drawn_together_with_the_interval_of_their_sum():
    model, estimates, exact, noisy = measured({"a": {"bins": [*range(1001)]}})
    ((drawn, rows),) = pictures(figures.one_way(model, estimates))
    starts = np.arange(0, 1000, 9)
    assert drawn["kind"] == "columns" and len(drawn["names"]) == len(rows) == len(starts) == 112
    assert drawn["names"][0] == "[0, 1) … [8, 9)" and drawn["names"][-1] == "[999, 1000]"
    np.testing.assert_allclose(drawn["counts"], np.add.reduceat(exact, starts), atol=0.051)
    half = NORMAL * 4.0 * np.sqrt(np.diff(np.append(starts, 1000)))
    sums = np.add.reduceat(noisy, starts)
    np.testing.assert_allclose(drawn["noisy"], sums, atol=0.051)
    np.testing.assert_allclose(drawn["high"], np.maximum(sums + half, drawn["counts"]), atol=0.11)


def test_of_many_values_without_an_order_the_largest_are_drawn():
    model, estimates, exact, _ = measured({"a": 3000})
    text = figures.one_way(model, estimates)
    ((drawn, rows),) = pictures(text)
    order = np.argsort(-exact, kind="stable")
    assert drawn["names"] == [str(code) for code in order[:24]] and len(rows) == 25
    assert drawn["kind"] == "rows" and rows[-1][:2] == ["the other 2,976", f"{exact[order[24:]].sum():,.0f}"]
    assert f"the other 2,976 together: {rows[-1][1]}" in text


def test_a_map_holds_both_tables_and_sums_of_those_that_are_too_large():
    model, estimates, exact, noisy = measured({"a": {"bins": [*range(49)]}, "b": 3})
    ((drawn, rows),) = pictures(figures.two_way(model, estimates))
    assert drawn["axes"] == ["a", "b"] and len(drawn["rows"]) == 24 and drawn["columns"] == ["0", "1", "2"]
    for panel, whole in zip(drawn["panels"], (noisy, exact), strict=True):
        np.testing.assert_allclose(panel["values"], whole.reshape(24, 2, 3).sum(axis=1), atol=0.051)
    assert len(rows) == 72 and rows[4][:3] == ["[2, 3) … [3, 4)", "1", page.number(exact[2:4, 1].sum())]


def test_without_measurement_there_are_counts_alone():
    model, *_ = measured({"a": 3})
    ((drawn, rows),) = pictures(figures.one_way(model, CountEstimates(model.domain, [])))
    assert drawn["noisy"] is drawn["low"] is drawn["high"] is None and [len(row) for row in rows] == [2] * 3


SHAPES = {
    "hostile": {"labels": ["x", HOSTILE, "$5$"]},
    "long": {"labels": LONG},
    "ages": {"bins": [*range(60)]},
    "one": 1,
}


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    model, estimates, *_ = measured(SHAPES)
    sections = [figures.one_way(model, estimates), figures.two_way(model, estimates)]
    path = tmp_path_factory.mktemp("page") / "r.html"
    path.write_text(page.document(HOSTILE, sections), encoding="utf-8")
    return path


OUTSIDE = """[...document.querySelectorAll('.picture text')].filter(each => {
    const own = each.getBoundingClientRect(), all = each.closest('svg').getBoundingClientRect();
    return own.left < all.left - 1 || own.right > all.right + 1 || own.bottom > all.bottom + 2;
}).map(each => each.textContent)"""
OVERLAPS = """[...document.querySelectorAll('.picture svg')].flatMap(svg => {
    const boxes = [...svg.querySelectorAll('text')].map(e => [e.textContent, e.getBoundingClientRect()]);
    return boxes.flatMap(([a, one], k) => boxes.slice(k + 1).filter(([b, other]) =>
        one.left + 1 < other.right && other.left + 1 < one.right &&
        one.top + 3 < other.bottom && other.top + 3 < one.bottom)
        .map(([b]) => a + ' | ' + b)); })"""


@needs_browser
@pytest.mark.parametrize("width", [320, 400, 800, 1400])
def test_no_text_of_a_picture_is_cut_off_or_lies_on_another(shown, tmp_path, width):
    with Browser(shown, tmp_path / "profile", width) as reader:
        assert reader.ask("document.querySelectorAll('.picture svg').length") == 4 + 6
        assert reader.ask("document.documentElement.scrollWidth") <= width
        assert reader.ask(OUTSIDE) == [] and reader.ask(OVERLAPS) == []
        assert reader.ask("document.querySelectorAll('details[open]').length") == 0


@needs_browser
def test_bars_are_as_long_as_their_numbers_say_and_keys_read_them(shown, tmp_path):
    ((drawn, _), *_) = pictures(shown.read_text())
    with Browser(shown, tmp_path / "profile") as reader:
        first = "[...document.querySelector('.picture svg').querySelectorAll('.mark')]"
        number = "Number(mark.querySelector('TAG').getAttribute('NAME'))"
        width, *ends = (
            number.replace("TAG", tag).replace("NAME", name)
            for tag, name in (("rect:not(.hit)", "width"), ("line", "x1"), ("line", "x2"))
        )
        bars = reader.ask(f"{first}.map(mark => {width})")
        lines = reader.ask(f"{first}.map(mark => [{', '.join(ends)}])")
        scale = bars[0] / drawn["counts"][0]
        np.testing.assert_allclose(bars, scale * np.array(drawn["counts"]), atol=0.02)
        spans = scale * np.subtract(drawn["high"], drawn["low"])
        np.testing.assert_allclose(np.diff(lines)[:, 0], spans, atol=0.02)
        assert reader.ask(first + ".map(mark => mark.getAttribute('tabindex'))") == ["0", "-1", "-1"]
        reader.ask(first + "[0].focus()")
        press = (
            "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'KEY', bubbles: true}))"
        )
        reader.ask(press.replace("KEY", "ArrowDown"))
        said = reader.ask("document.querySelector('.said').textContent")
        assert said.startswith(f"{HOSTILE}: {page.number(drawn['counts'][1])}; noisy ")
        assert said == reader.ask("document.activeElement.querySelector('title').textContent")
        assert reader.ask(first + ".map(mark => mark.getAttribute('tabindex'))") == ["-1", "0", "-1"]
        reader.ask(press.replace("KEY", "End"))
        assert reader.ask(first + "[2] === document.activeElement")


@needs_browser
def test_no_name_becomes_a_part_of_the_page_and_no_other_script_runs(shown, tmp_path):
    with Browser(shown, tmp_path / "profile") as reader:
        assert reader.ask("document.querySelectorAll('img, b').length") == 0
        assert reader.ask("document.title") == HOSTILE
        reader.ask(
            "document.body.append(Object.assign(document.createElement('script'), {text: 'window.ran = 1'}))"
        )
        assert (
            reader.ask("window.ran") is None
            and reader.ask("performance.getEntriesByType('resource').length") == 0
        )


RELEASE = """import sys
sys.modules["matplotlib"] = None  # importing it fails
import numpy as np
import pgmjax as pj
data = pj.Dataset.from_columns(pj.Domain({"a": 2, "b": 3}), {"a": np.zeros(50, int), "b": np.ones(50, int)})
mechanism = pj.mechanisms.Marginals(epsilon=1, relation="add-remove")
mechanism.run(data, pj.Workload.of_marginals([("a", "b")])).save(sys.argv[1])
import pgmjax.sweeps.page
assert sum(name.startswith("matplotlib") for name in sys.modules) == 1
"""


def test_a_release_needs_no_matplotlib(tmp_path):
    subprocess.run([sys.executable, "-c", RELEASE, str(tmp_path / "out")], check=True)
    assert '<div class="picture">' in (tmp_path / "out" / "report.html").read_text()
