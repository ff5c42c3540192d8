"""The report: what it says, that it opens without a network, and that it knows nothing of the table."""

import dataclasses
import html.parser
import inspect
import re

import numpy as np
import pytest

from pgmjax.data.relation import Unit
from pgmjax.release import figures, folder, report
from pgmjax.release import statement as report_text
from pgmjax.release.accuracy import CountEstimates


@pytest.fixture(scope="module")
def page(small_release):
    record = folder.describe(small_release)
    return report.render(record, small_release.model, small_release.estimates)


class Outline(html.parser.HTMLParser):
    """Open tags, for balance, and all attributes."""

    VOID = frozenset(["meta", "br", "hr", "img", "link", "input"])

    def __init__(self, page):
        super().__init__()
        self.open, self.links, self.tags = [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("href", "src", "xlink:href", "action")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_page_is_balanced_and_self_contained(page):
    outline = Outline(page)
    assert outline.open == []
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in outline.links)
    assert not {"link", "iframe", "img", "object", "form"} & set(outline.tags)
    assert page.count("http-equiv") == 1  # the page's own rule, which forbids to load anything
    assert "default-src 'none'" in page
    assert "http" not in page.replace("http-equiv", "") and "url(http" not in page and "@import" not in page


def test_sections_and_numbers(page, small_release):
    for heading in (
        "What is promised",
        "What was spent",
        "How well the model fits",
        "One attribute at a time",
    ):
        assert heading in page
    for heading in ("Pairs of attributes", "What was measured", "Query the release", "Made with"):
        assert heading in page
    assert "epsilon = 0.5" in page and "add-remove" in page
    assert small_release.fit.status.name in page
    assert (
        page.count("<figure>") == page.count("<details open>") == 4 + 2
    )  # four attributes; age by region, sex by region


def test_insecure_noise_is_said_at_the_top(page, small_release):
    assert page.index("Not for publication") < page.index("What is promised")
    record = {**folder.describe(small_release), "secure": True, "seed": None}
    quiet = report.render(record, small_release.model, small_release.estimates)
    assert "Not for publication." not in quiet


def test_names_are_escaped(page):
    assert "<no>" not in page and "&lt;no&gt;" in page and "yes &amp; more" in page


def test_light_dark_and_small_screens(page):
    assert "prefers-color-scheme: dark" in page and "max-width: 560px" in page and 'name="viewport"' in page


def test_nothing_has_a_width_that_a_phone_lacks(page):
    """Every table is in a box of its own or wraps, and no rule asks for 360 pixels."""
    style, body = page.split("</style>", 1)
    for rule in re.findall(r"[^{}]*\{[^{}]*\}", style):
        for name, size in re.findall(r"(?<![-\w])((?:min-)?width)\s*:\s*([\d.]+)px", rule):
            assert float(size) <= 360, (name, rule)
        for size in re.findall(r"minmax\(([\d.]+)px", rule):
            assert float(size) <= 360 / 2, rule
    boxed = re.findall(r'<div class="[^"]*scroll[^"]*"><table', body)
    wrapping = re.findall(r'<table class="named"', body)
    assert len(boxed) + len(wrapping) == body.count("<table")


def test_an_interval_wider_than_its_count_is_called_noise_and_no_zero_is_negative(small_release):
    record = folder.describe(small_release)
    column = {"attributes": ["id"], "verdict": "noise", "relative": 5.56, "small": 40.0, "moved": -0.0}
    column |= {"share_verdict": "coarse", "share": 0.2}
    record["accuracy"] = {"columns": [column], "tables": []}
    page = report.render(record, small_release.model, small_release.estimates)
    visible = re.sub(r"<[^>]*>", " ", page[page.index("<main>") :])
    assert "a typical count of id is noise" in visible and "556" not in visible and "-0.0" not in visible
    assert 'data-title="records moved">0.0 %<' in page


def test_nothing_that_makes_the_report_can_see_a_table(page):
    """Neither a table nor evaluation against one is among its imports, arguments or words."""
    for module in (report, figures, report_text, folder):
        source = inspect.getsource(module)
        assert "dataset" not in source.lower().replace("large data set", "") and "evaluate" not in source
    assert list(inspect.signature(report.render).parameters) == [
        "record",
        "model",
        "estimates",
        "failed",
    ]
    visible = re.sub(r"<[^>]*>", " ", page[page.index("<main>") :])
    assert not re.search(r"\b(error|true count)", visible, re.IGNORECASE)


def test_equal_releases_give_equal_pages(page, small_release):
    record = folder.describe(small_release)
    assert report.render(record, small_release.model, small_release.estimates) == page


def test_fit_column_is_the_residual_in_standard_deviations(small_release):
    measurement = small_release.measurements[0]
    fitted = small_release.model.answer(measurement.query)
    noisy = measurement.values.reshape(fitted.shape)
    expected = np.sqrt(np.mean((fitted - noisy) ** 2)) / float(measurement.stddev)
    assert figures._residual(small_release.model, measurement) == pytest.approx(expected)
    assert f">{expected:.2f}</td>" in figures.measured(small_release.model, [measurement])


def test_largest_pairs_come_first_and_huge_ones_are_left_out(small_release, monkeypatch):
    pairs = figures._largest_pairs(small_release.model, small_release.measurements)
    sizes = [small_release.domain.size(pair) for pair in pairs]
    assert sizes == sorted(sizes, reverse=True) and sizes == [
        15,
        6,
    ]  # not age by sex, of which only prefixes were measured
    monkeypatch.setattr(figures, "LARGEST_PAIR", 10)
    pairs = figures._largest_pairs(small_release.model, small_release.measurements)
    assert max(small_release.domain.size(pair) for pair in pairs) <= 10


def test_without_measured_pairs_the_section_is_left_out(small_release):
    single = CountEstimates(small_release.domain, [small_release.measurements[2]])
    assert figures.two_way(small_release.model, single) == ""
    assert "not measured: the bars mean nothing" in figures.one_way(small_release.model, single)


def test_only_what_is_in_no_measurement_is_called_uniform(small_release):
    cumulative = CountEstimates(small_release.domain, [small_release.measurements[3]])  # of age, by sex
    page = figures.one_way(small_release.model, cumulative)
    assert page.count("measured only through other queries (prefix)") == 2  # age and sex
    assert page.count("not measured: the bars mean nothing") == 2
    assert figures.two_way(small_release.model, cumulative) == ""


def test_many_attributes_are_cut_off_with_a_word(small_release, monkeypatch):
    monkeypatch.setattr(figures, "MOST_ATTRIBUTES", 3)
    assert "1 further attribute is not drawn" in figures.one_way(
        small_release.model, CountEstimates(small_release.domain, [])
    )


@pytest.mark.parametrize(
    ("relation", "word", "number"),
    [("add-remove", "protected too", "secret"), ("replace-one", "is not protected", "public")],
)
def test_promise_names_what_happens_to_the_number_of_records(relation, word, number, small_release):
    record = {**folder.describe(small_release), "relation": relation}
    text = " ".join(report_text.promise(record))
    assert word in text and "exp(0.5) is 1.649" in text and "add up" in text
    assert (
        f"under {relation}, protecting one record (the number of records is {number})."
        in report_text.cost(record)
    )


@pytest.mark.parametrize(
    ("relation", "weighted", "name", "words"),
    [
        ("add-remove", False, "records (estimate)", "the number shown here is an estimate"),
        ("replace-one", False, "records", "is shown exactly"),
        ("add-remove", True, "total weight (estimate)", "The number of records is protected too."),
        ("replace-one", True, "total weight (estimate)", "taken to be public and not shown here."),
    ],
)
def test_only_a_public_number_of_records_is_shown_as_exact(relation, weighted, name, words, small_release):
    changed = {"relation": relation, "weighted": weighted, "max_weight": 1500}
    record = {**folder.describe(small_release), **changed}
    page = report.render(record, small_release.model, small_release.estimates)
    assert f"<dt>{name}</dt>" in page and words in page
    assert ("weights of at most 1,500" in page) == weighted
    assert ("<th>largest weight of a record</th>" in page) == weighted
    assert ("their weights are secret" in report_text.cost(record)) == weighted


def test_certificate_reads_the_numbers(small_release):
    record = folder.describe(small_release)
    record["fit"] = {"status": "CONVERGED", "steps": 5, "loss": 120.0, "gap": 20.0}
    text = " ".join(report_text.certificate(record, 300))
    assert "loss below 100" in text and "lower the loss by at most 20" in text and "about 150" in text
    record["fit"] = {"status": "NOT_FINITE", "steps": 5, "loss": None, "gap": None}
    assert "certificate" not in " ".join(report_text.certificate(record, 300))
    assert dict(report_text.fit_rows(record, 300))["loss"] == "unknown"


def test_cost_sentence_warns_of_seeded_noise(small_release):
    sentence = report_text.cost(folder.describe(small_release))
    assert "epsilon = 0.5, delta = 0 under add-remove" in sentence and "NOBODY" in sentence


def test_gaussian_release_shows_rho(small_release):
    from fractions import Fraction

    (own,) = small_release.inputs
    own = dataclasses.replace(own, cost={"epsilon": "1", "delta": "0.000001", "rho": "0.02"})
    release = dataclasses.replace(small_release, delta=Fraction(1, 10**6), inputs=(own,))
    record = folder.describe(release)
    assert dict(report_text.spent_rows(record))["rho spent"] == "0.02"
    page = report.render(record, release.model, release.estimates)
    assert "δ = 0.000001" in page


def test_a_unit_of_privacy_is_said_wherever_the_guarantee_is(small_release):
    unit = Unit("person_id", 4)
    release = dataclasses.replace(small_release, unit=unit)
    record = folder.describe(release)
    assert record["unit"] == {"column": "person_id", "max_records": 4}
    page = report.render(record, release.model, release.estimates)
    for said in (page, report_text.cost(record), " ".join(report_text.promise(record))):
        assert "one person_id, of at most 4 records" in said
    assert "all records of one person_id (at most 4 count)" in release.statement()
    assert "has several records" not in page + release.statement()
