"""What notebooks show: well-formed, escaped, without colours of its own, and with the numbers in it."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import pgmjax as pj
from pgmjax._internal import html as html_view


def parsed(html):
    return ElementTree.fromstring(html.replace("&ensp;", " "))


def cells(html):
    """The table's rows as text."""
    return [["".join(cell.itertext()) for cell in row] for row in parsed(html).iter("tr")]


def words(html):
    return " ".join("".join(parsed(html).itertext()).split())


def test_numbers_stand_right_and_words_left():
    html = html_view.card("T", {}, html_view.table(["name", "size"], [["a", 1200], ["b", None]], 2))
    assert cells(html) == [["name", "size"], ["a", "1,200"], ["b", ""]]
    look = [cell.get("style").rpartition(":")[2] for cell in parsed(html).iter("td")]
    assert look == ["left", "right", "left", "right"]


def test_long_tables_say_how_much_is_left_out():
    html = html_view.card("T", {}, html_view.table(["n"], ([i] for i in range(10**9)), 10**9))
    assert len(cells(html)) == html_view.MOST_ROWS + 1 and "and 999,999,970 more" in words(html)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (True, "yes"),
        (False, "no"),
        (12345, "12,345"),
        (10**15, "1e+15"),
        (1 / 3, "0.333333"),
        (None, ""),
        ("<", "<"),
    ],
)
def test_values_as_they_are_read(value, said):
    assert html_view.text(value) == said


@pytest.fixture(scope="module")
def shown(small_domain, small_release):
    """Everything that shows itself in a notebook."""
    model = small_release.model
    bars = pj.uncertainty.error_bars(
        small_release.fit, small_release.measurements, [("sex",), ("age", "income>50K, net")], method="linear"
    )
    batch = pj.Estimator(progress=False, max_steps=60).fit_batch(
        small_domain, [small_release.measurements] * 2
    )
    return {
        "Domain": small_domain,
        "GraphicalModel": model,
        "Fit": small_release.fit,
        "BatchFit": batch,
        "Release": small_release,
        "Workload": small_release.workload,
        "LinearMeasurement": small_release.measurements[0],
        "CalibratedModel": model.calibrate(),
        "ErrorBars": bars,
    }


GIVEN = ["Release", "Workload", "LinearMeasurement", "Domain"]
KINDS = [*GIVEN, "GraphicalModel", "Fit", "BatchFit", "CalibratedModel", "ErrorBars"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_view_is_well_formed_and_takes_the_pages_colours(shown, kind):
    html = shown[kind]._repr_html_()
    assert words(html).startswith(kind)
    looks = " ".join(element.get("style", "") for element in parsed(html).iter())
    assert "inherit" in looks or "<table" not in html
    assert not any(word in looks for word in ("#", "black", "white")) and "<script" not in html


def test_a_domain_lists_its_attributes_with_what_codes_stand_for(shown):
    rows = cells(shown["Domain"]._repr_html_())
    assert rows[1] == ["age", "5", "bins [0, 18), [18, 40), [40, 65), [65, 100]; the last: missing"]
    assert rows[2:4] == [["sex", "2", "Female, Male"], ["region", "3", "numbers from 0"]]
    assert rows[4] == ["income>50K, net", "2", "<no>, yes & more"]
    many = pj.Domain({"a": {"labels": [f"v{i}" for i in range(50)]}})
    assert cells(many._repr_html_())[1] == ["a", "50", "v0, v1, v2, v3, v4, …, v49"]


def test_a_measurement_shows_its_noisy_values(shown):
    measurement = shown["LinearMeasurement"]
    rows = cells(measurement._repr_html_())[1:]
    assert [int(row[1].replace(",", "")) for row in rows] == measurement.values.reshape(-1).tolist()
    uneven = pj.LinearMeasurement(("a",), [1.0, 2.0], [3.0, 4.0], {"a": "prefix"})
    assert "query: a: prefix" in words(uneven._repr_html_())
    assert [row[2] for row in cells(uneven._repr_html_())[1:]] == ["3", "4"]


def test_a_release_says_what_it_promises_and_lists_what_was_measured(shown):
    release = shown["Release"]
    said = words(release._repr_html_())
    assert release.statement() in said and "NOT FOR PUBLICATION" in said
    assert len(cells(release._repr_html_())) == len(release.measurements) + 1


def test_a_fit_and_a_batch_show_how_they_ended(shown):
    fit, batch = shown["Fit"], shown["BatchFit"]
    assert f"status {fit.status.name} steps {fit.steps:,} loss {fit.loss:,.6g}" in words(fit._repr_html_())
    rows = cells(batch._repr_html_())[1:]
    assert [row[2] for row in rows] == [f"{steps:,}" for steps in batch.steps]
    assert [float(row[3].replace(",", "")) for row in rows] == pytest.approx(batch.loss.tolist(), rel=1e-5)


def test_a_workload_lists_its_entries_with_their_queries(shown):
    rows = cells(shown["Workload"]._repr_html_())[1:]
    assert rows[0] == ["age, region", "every cell", "1"] and rows[3] == ["age, sex", "age: prefix", "2"]


def test_error_bars_without_interval_are_left_empty(shown):
    bars = shown["ErrorBars"]
    rows = cells(bars._repr_html_())[1:]
    assert [row[5] for row in rows] == ["yes" if d else "no" for d in bars.determined]
    for row, ends in zip(rows, bars.intervals, strict=True):
        assert [row[3] == "", row[4] == ""] == np.isnan(ends).tolist()


def test_a_calibrated_model_tells_its_junction_tree(shown):
    calibrated = shown["CalibratedModel"]
    assert repr(calibrated).startswith("CalibratedModel(4 attributes, junction tree of ")
    assert "cliques of the junction tree" in words(calibrated._repr_html_())
