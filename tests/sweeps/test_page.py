"""The page: what it holds, that it needs no network, that names cannot break it."""

import datetime
import html
import html.parser
import json
import re

import pytest

from pgmjax.sweeps import page
from pgmjax.sweeps.store import COLUMNS, ResultFile
from tests.browser import Browser, needs_browser

pytest.importorskip("duckdb")
TIME = datetime.datetime(2026, 1, 2, 3, 4, 5)
RUN = {
    "run": "r1", "sweep": "s", "started": "2026-01-02T03:04:05+00:00", "host": "h", "system": "Linux-9",
    "processor": "Abacus 3000", "cores": 2, "memory_bytes": 8e9, "devices": ["1 x cpu"], "backend": "cpu",
    "versions": {"pgmjax": "9.9", "jax": "0.10"},
}  # fmt: skip


def row(table, label, epsilon, trial, **changes):
    made = dict.fromkeys(COLUMNS)
    error = 0.01 * (trial + 1) / epsilon
    made |= {
        "key": f"{table}{label}{epsilon}{trial}", "group_key": f"{table}{label}{epsilon}", "sweep": "s",
        "table_name": table, "records": 1000, "attributes": 3, "workload": "2-way", "entries": 3,
        "queries": 26, "mechanism": label, "label": label, "options": "{}", "epsilon": str(epsilon),
        "epsilon_value": epsilon, "delta": "0", "relation": "replace-one", "trial": trial,
        "seed": trial, "status": "done",
        "mean_absolute_share": error, "root_mean_square_share": 2 * error, "largest_share": 5 * error,
        "total_variation": 3 * error, "fit_status": "CONVERGED", "steps": 100, "seconds": 0.5 + trial,
        "first_seconds": 1.5, "run": "r1", "host": "h", "finished": TIME,
    }  # fmt: skip
    return made | changes


@pytest.fixture
def results(tmp_path):
    rows = [row("t", label, e, n) for label in ("aim", "<b>&\"'") for e in (0.5, 2.0) for n in range(3)]
    failed = {"status": "failed", "error": "Traceback\nValueError: <no>", "total_variation": None}
    rows.append(row("u", "aim", 0.5, 0, **failed, mean_absolute_share=None))
    with ResultFile(tmp_path / "r.duckdb") as opened:
        opened.add(rows)
        opened.add_run("r1", RUN)
        yield opened


class Reader(html.parser.HTMLParser):
    """Collects tags, and checks that they close in order."""

    VOID = ("meta", "input", "br")

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.words = [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def test_the_page_holds_what_was_found(results):
    text = page.render(results)
    reader = Reader(text)
    words = " ".join(reader.words)
    assert "Sweep s" in words and "Not private." in words
    # medians and quartiles of 0.02, 0.04, 0.06
    assert "0.04" in words and "0.03 \N{EN DASH} 0.05" in words
    assert "Abacus 3000, 2 cores, 8 GB" in words and "pgmjax 9.9, jax 0.10" in words
    assert "ValueError: <no>" in words and "Not done" in words
    figures = [attributes for tag, attributes in reader.tags if tag == "figure"]
    assert len(figures) == 4 * 2 and sum("hidden" not in each for each in figures) == 2
    table = text[text.index('id="numbers"') :].split("</table>")[0]
    lines = [re.findall(r">([^<]*)</td>", line) for line in re.findall(r"<tr><td.*?</tr>", table)]
    assert len(lines) == 5 and {line[2] for line in lines} == {"aim", html.escape("<b>&\"'")}
    selects = [attributes["data-key"] for tag, attributes in reader.tags if tag == "select"]
    assert selects == ["t", "w", "e", "metric"]


def test_nothing_is_loaded_from_anywhere(results):
    text = page.render(results)
    assert not re.search(r"https?:|//[a-z]|@import|url\(|\bfetch\b|XMLHttp", text)
    for tag, attributes in Reader(text).tags:
        assert not {"src", "href"} & set(attributes), tag
    assert "prefers-color-scheme: dark" in text


def test_names_cannot_break_the_page(results):
    text = page.render(results)
    assert "<b>" not in text and "&lt;b&gt;&amp;" in text


def first_picture(text):
    return json.loads(
        re.search(r'<figure.*?<script type="application/json">(.*?)</script>', text, re.DOTALL)[1]
    )


def test_pictures_hold_the_medians_and_quartiles(results):
    drawn = first_picture(page.render(results))
    assert drawn["axes"] == ["epsilon", "seconds a trial"]
    other, aim = drawn["series"]
    assert (other["name"], aim["name"], other["colour"], aim["colour"]) == ("<b>&\"'", "aim", 0, 1)
    # errors 0.01, 0.02, 0.03 over epsilon, and seconds 0.5, 1.5, 2.5
    assert [point["label"] for point in aim["points"]] == ["0.5", "2.0"]
    assert [point["at"] for point in aim["points"]] == [[[e] * 3, [1.0, 1.5, 2.0]] for e in (0.5, 2.0)]
    for point, epsilon in zip(aim["points"], (0.5, 2.0), strict=True):
        assert point["up"] == pytest.approx([0.015 / epsilon, 0.02 / epsilon, 0.025 / epsilon])


@needs_browser
@pytest.mark.parametrize("width", [400, 1400])
def test_a_reader_chooses_what_is_shown(results, tmp_path, width):
    (tmp_path / "s.html").write_text(page.render(results), encoding="utf-8")
    with Browser(tmp_path / "s.html", tmp_path / "profile", width) as reader:
        assert reader.ask("document.documentElement.scrollWidth") <= width
        marks = "document.querySelector('figure:not([hidden]) svg').querySelectorAll('.mark').length"
        assert reader.ask(marks) == 2 * 4  # two mechanisms, two epsilons, against epsilon and time
        places = reader.ask("[...document.querySelectorAll('figure polyline')].slice(0, 1)"
                            ".map(each => each.getAttribute('points'))")  # fmt: skip
        (left, high), (right, low) = ([float(v) for v in place.split(",")] for place in places[0].split())
        assert left < right and high < low  # a larger epsilon has a smaller error
        reader.choose("[data-key=e]", "2.0")
        assert reader.ask(marks) == 2 * 2
        reader.ask("document.querySelector('.chip input').click()")
        assert reader.ask(marks) == 2
        rows = "[...document.querySelectorAll('#numbers tbody tr:not([hidden])')]"
        rows += ".map(row => row.cells[3].textContent)"
        assert reader.ask(rows) == ["2.0"]
        reader.choose("[data-key=e]", "")
        reader.choose("[data-key=metric]", "total_variation")
        assert "total variation" in reader.ask(
            "document.querySelector('figure:not([hidden]) figcaption').textContent"
        )
        reader.ask("document.getElementById('all').click()")
        reader.ask("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert reader.ask(marks) == 2 * 4
        for _ in range(2):
            reader.ask("document.querySelectorAll('#numbers th button')[3].click()")
        assert reader.ask(rows) == ["2.0", "2.0", "0.5", "0.5", "0.5"]


def test_several_sweeps_in_a_file(results):
    results.add([row("t", "mst", 1.0, 0, sweep="other")])
    with pytest.raises(ValueError, match="holds several sweeps, name one of: other, s"):
        page.render(results)
    assert "Sweep other" in page.render(results, "other")
    with pytest.raises(ValueError, match="holds no sweep 'no'"):
        page.render(results, "no")


def test_groups_that_differ_in_something_else_are_told_apart(results):
    results.add([row("t", "aim", 0.5, 0, key="z", group_key="z", seed=9)])
    assert "aim #2" in page.render(results)


def test_an_empty_file_has_no_page(tmp_path):
    with ResultFile(tmp_path / "e.duckdb") as opened, pytest.raises(ValueError, match=r"e\.duckdb"):
        page.render(opened)
