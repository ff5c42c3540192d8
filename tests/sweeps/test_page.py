"""The page: what it holds, that it needs no network, that names cannot break it."""

import datetime
import html.parser
import re
import xml.etree.ElementTree as ElementTree

import pytest

from pgmjax.sweeps import page
from pgmjax.sweeps.store import COLUMNS, ResultFile

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
    assert len(figures) == 2 * 4 * 2 and sum("hidden" not in each for each in figures) == 2 * 2
    lines = [attributes for tag, attributes in reader.tags if tag == "tr" and "data-m" in attributes]
    assert len(lines) == 5 and {line["data-m"] for line in lines} == {"aim", "<b>&\"'"}
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


def test_figures_stand_where_the_numbers_say(results):
    text = page.render(results)
    drawing = next(s for s in re.findall(r"<svg viewBox=.*?</svg>", text, re.DOTALL) if "trace" in s)
    root = ElementTree.fromstring(drawing)
    ticks = {t.text: t for t in root.iter("text") if t.get("class") == "tick"}
    up = [float(ticks[word].get("y")) for word in ("0.01", "0.02", "0.05")]
    assert up[0] > up[1] > up[2], "errors grow upwards"
    series = next(g for g in root.iter("g") if g.get("data-m") == "aim")
    points = [tuple(map(float, p.split(","))) for p in series.find("polyline").get("points").split()]
    # medians 0.04 at epsilon 0.5 and 0.01 at 2: to the right, and down by twice log(2) of the axis
    (left, high), (right, low) = points
    assert right > left and low - high == pytest.approx(2 * (up[0] - up[1]), abs=0.3)
    assert up[0] - 4 == pytest.approx(low, abs=0.2), "the label is 4 below its line"
    bar = series.find(".//path[@class='bar']").get("d")
    bars = [float(number) for number in re.fullmatch(r"M[\d.]+,([\d.]+)V([\d.]+)", bar).groups()]
    assert bars[0] > points[0][1] > bars[1], "from the lower quartile to the upper, round the median"


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
    with ResultFile(tmp_path / "e.duckdb") as opened, pytest.raises(ValueError, match="no result yet"):
        page.render(opened)
