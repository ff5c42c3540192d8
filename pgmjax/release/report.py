"""The report of a release as one HTML file that opens offline, in light and dark mode.

It is computed from released values only: the record of the budget spent, the noisy answers and the fitted
model. It has no access to the table, so it cannot contain errors against the true answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from pgmjax._internal import page
from pgmjax.data.population import Population
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.model.graphical import GraphicalModel
from pgmjax.model.sampling import INDEPENDENT
from pgmjax.privacy.exact import exact
from pgmjax.release import accuracy, assurance, figures
from pgmjax.release import statement as report_text
from pgmjax.release.accuracy import CountEstimates
from pgmjax.release.asked import AskedModel

_MOST_TABLES = 1000
_FIGURES = {"a typical count is within": "n", "small groups within": "n", "records moved": "n"}
_SHARES = {"verdict on shares": "", "a typical share is within": "n"}


def render(
    record: Mapping[str, Any],
    model: AskedModel | GraphicalModel,
    estimates: CountEstimates,
    *,
    failed: dict[str, Exception] | None = None,
) -> str:
    """Return the report as HTML text.

    Args:
        record: content of `release.json`.
        model: the fitted model.
        estimates: unbiased answers from the released noisy ones.
        failed: takes the errors of parts that cannot be made, by the names of the parts, in whose place a
            sentence stands; None raises them.
    """
    measurements, population = estimates.measurements, Population.from_dict(record["population"])
    values = sum(np.size(measurement.values) for measurement in measurements)

    def part(name: str, make: Callable[[], str]) -> str:
        try:
            return make()
        except Exception as error:
            if failed is None:
                raise
            failed[name] = error
            return page.section(name.capitalize(), "<p>This part of the report could not be made.</p>")

    sections = [
        _heading(record, model, len(measurements), values),
        part("accuracy", lambda: _accuracy(record)),
        page.section("What is promised", page.paragraphs(report_text.promise(record))),
        page.section("What was spent", page.named(report_text.spent_rows(record))),
        part("explorer", lambda: figures.explorer(model, estimates, population)),
        _certificate(record, values),
        part("attributes", lambda: figures.one_way(model, estimates)),
        part("pairs", lambda: figures.two_way(model, estimates)),
        part("measured tables", lambda: figures.measured(model, measurements)),
        part("answers to an evaluator", lambda: _assurance(record, estimates)),
        _asking(model, record),
        page.section("Made with", page.named(record["versions"].items())),
    ]
    return page.document("Release under differential privacy", sections, scripts=[figures.explorer_script()])


def render_fit(
    record: Mapping[str, Any], model: AskedModel | GraphicalModel, measurements: Sequence[LinearMeasurement]
) -> str:
    """Return the report of a model of answers that were published elsewhere, as HTML text.

    Args:
        record: content of `fit.json`.
        model: the fitted model.
        measurements: the published answers.
    """
    estimates = CountEstimates(model.domain, measurements, facts=bool(record.get("facts")))
    values = sum(np.size(measurement.values) for measurement in measurements)
    told = record.get("population")
    population = Population.from_dict(told) if told else None
    whose = [report_text.population(record)] if told else []
    tiles = {
        "records": f"{record['total']:,.0f}",
        "attributes": f"{len(model.domain):,}",
        "tables": f"{len(measurements):,}",
        "published numbers": f"{values - record['absent']:,}",
        "cells not published": f"{record['absent']:,}",
    }
    sections = [
        page.heading("A model of published numbers", "", tiles),
        page.section("What is promised", page.paragraphs([record["statement"], *whose])),
        figures.explorer(model, estimates, population),
        _certificate(record, values),
        figures.one_way(model, estimates),
        figures.two_way(model, estimates),
        page.section("Made with", page.named(record["versions"].items())),
    ]
    return page.document("A model of published numbers", sections, scripts=[figures.explorer_script()])


def _heading(
    record: Mapping[str, Any], model: AskedModel | GraphicalModel, measurements: int, values: int
) -> str:
    delta = "" if record["delta"] == "0" else f", δ = {record['delta']}"
    facts = {
        "privacy": f"ε = {record['epsilon']}{delta}",
        "neighbouring tables": record["relation"],
        "protected": report_text.unit_name(record),
        report_text.total_name(record): f"{record['total']:,.0f}",
        "attributes": f"{len(model.domain):,}",
        "measured queries": f"{measurements:,}",
        "noisy values": f"{values:,}",
    }
    source = f" Table: {escape(record['source'])}." if record.get("source") else ""
    counted = f"All counts and shares are of {escape(record['population']['phrase'])}."
    made = f"Mechanism {escape(record['mechanism'])}.{source} {counted}"
    above = f'<p class="sub">{made}</p>\n{_warning(record)}'
    return page.heading("Release under differential privacy", above, facts)


def _warning(record: Mapping[str, Any]) -> str:
    if record["secure"]:
        return ""
    told = "; ".join(each["name"] for each in record["inputs"] if each["secure"] is False)
    seed = "" if record["seed"] is None else f" (seed {record['seed']})"
    return f"""<p class="warn"><strong>Not for publication.</strong> Noise can be repeated{seed}
or comes from a source of somebody's own, so whoever knows how can remove it: {escape(told)}. Such a release
protects nobody. It is for research that must be repeatable.</p>
"""


def _accuracy(record: Mapping[str, Any]) -> str:
    """The verdict on every column; nothing for records without one."""
    if not record.get("accuracy"):
        return ""
    rows = [
        (one["attributes"][0], one["verdict"], *_figures(one), *_shares(one))
        for one in record["accuracy"]["columns"]
    ]
    heads = {"column": "", "verdict": "", **_FIGURES, **_SHARES}
    told = page.paragraphs([*accuracy.lines(record["accuracy"]), report_text.population(record)])
    publish = """<p class="note">A count is within 5 % if its 95 % interval reaches 5 % of the count to each
side. If it reaches further than the count itself, the count is called noise. A column is good up to 10 %. It
is noise beyond 50 %, or if many records were moved: a model has no negative counts, so where noisy counts are
negative it takes records from other values. Where records may have been left out, no verdict on counts is
better than "not the whole table", however little noise they have, and shares have a verdict of their own. All
files of this folder follow from noisy answers and may be published. Do not publish a ledger, its key or a
file made with --holder-log.</p>"""
    tables = _tables(record["accuracy"]["tables"])
    return page.section("How good it is", f"{told}{page.table(heads, rows)}{tables}{publish}")


def _tables(tables: Sequence[Mapping[str, Any]]) -> str:
    """The verdict on every table of several columns, the worst first; nothing if there is none."""
    if not tables:
        return ""
    order = {verdict: -place for place, verdict in enumerate(accuracy.VERDICTS)}
    listed = sorted(tables, key=lambda one: order[one["verdict"]])
    misplaced = any(one.get("misplaced") for one in tables)
    wrong = {"in a wrong cell, by a noisy distance": "n"} if misplaced else {}
    heads = {"columns together": "", "verdict": "", **_FIGURES, **wrong, **_SHARES}
    rows = [
        (
            ", ".join(one["attributes"]),
            _verdict(one),
            *_figures(one),
            *([_misplaced(one)] if misplaced else []),
            *_shares(one),
        )
        for one in listed[:_MOST_TABLES]
    ]
    more = len(listed) - _MOST_TABLES
    rest = page.notes(f"{more:,} further tables are in release.json." if more > 0 else "")
    return f"<h3>Columns together</h3>{page.table(heads, rows)}{rest}"


def _verdict(one: Mapping[str, Any]) -> str:
    alone = one["verdict"] == accuracy.VERDICTS[-1]
    return f"{one['verdict']}: {accuracy.rests_on(False)}" if alone else str(one["verdict"])


def _figures(one: Mapping[str, Any]) -> list[str]:
    within, percent = accuracy.within, accuracy.percent
    return [_known(one["relative"], within), _known(one["small"], within), _known(one["moved"], percent)]


def _shares(one: Mapping[str, Any]) -> list[str]:
    return [one["share_verdict"], _known(one["share"], accuracy.within)]


def _misplaced(one: Mapping[str, Any]) -> str:
    """The share of records in a wrong cell of the model, where the mechanism published it with noise."""
    if not one.get("misplaced"):
        return "not published"
    low, high = one["misplaced"]
    return "unknown" if (low, high) == (0, 1) else f"{accuracy.percent(low)} to {accuracy.percent(high)}"


def _known(share: float | None, words: Callable[[float], str]) -> str:
    return "unknown" if share is None else words(share)


def _assurance(record: Mapping[str, Any], estimates: CountEstimates) -> str:
    """The hazards of NIST SP 800-226, with what this release answers to each."""
    told = assurance.of(record, estimates)
    heads = {"hazard": "", "section": "", "status": "", "evidence": "wide"}
    rows = [
        (f"{each['number']}. {each['title']}", each["section"], each["status"], each["evidence"])
        for each in told["hazards"]
    ]
    curve = [(f"{float(exact('delta', each['delta'])):g}", each["epsilon"]) for each in told["curve"]]
    words = page.paragraphs(
        [f"The hazards are those of {told['source']}. {assurance.NAME} has the same for programs."]
    )
    points = page.table({"delta": "n", "epsilon": "n"}, curve)
    return page.section(
        "Answers to an evaluator",
        f"{words}{page.table(heads, rows)}<h3>What a status means</h3>"
        f"{page.named(told['statuses'].items())}<h3>Epsilon at several deltas</h3>{points}",
    )


def _certificate(record: Mapping[str, Any], values: int) -> str:
    rows = report_text.fit_rows(record, values)
    words = page.paragraphs(report_text.certificate(record, values))
    beside = f'<div class="beside">{page.named(rows)}<div>{words}</div></div>'
    return page.section("How well the model fits the noisy answers", beside)


def _asking(model: AskedModel | GraphicalModel, record: Mapping[str, Any]) -> str:
    first = model.domain.attribute(model.domain.attributes[0])
    pair = model.domain.attributes[:2]
    commands = (
        f'pgmjax query DIR "{first.name}={first.code_names()[0]}"\n'
        f'pgmjax query DIR --marginal "{",".join(pair)}"'
    )
    python = (
        "import pgmjax as pj\n"
        'model = pj.load("DIR/model")\n'
        f"model.marginal({pair!r})   # counts, axes in this order\n"
        "rows = model.sample(1000, seed=0)   # synthetic rows, as codes of the domain\n"
        "model.domain.decode(rows)   # their labels, bins\n"
        'model.sample_to("rows.parquet", 1000, decode="values")   # as in the synthetic rows here'
    )
    values = "values: labels, numbers drawn within their bin, empty where missing"
    written = values if record.get("synthetic") == "values" else "codes of the domain"
    independent = record.get("method") == INDEPENDENT
    drawn = "independent of one another" if independent else "as close to the model as whole rows allow"
    shown = {name: assurance.FILES[name][0] for name in record.get("files", assurance.COMMON)}
    shown |= {name: f"{shown[name]}, as {written}; {drawn}" for name in shown if name.startswith("synthetic")}
    items = "".join(f"<li><code>{name}</code>: {words}</li>\n" for name, words in shown.items())
    by = record.get("answered_by", "engine")
    own = {
        "engine": "Answers come from the model",
        "learner": "Answers come from the trained model in predictor/ where it learned the attributes "
        "together, while the tables above show the fitted model. Answers",
    }
    least = f"The answers in answers.parquet are by {by} least squares. Other answers come from the model"
    return page.section(
        "Query the release",
        f"<p>DIR is the folder of this report. {own.get(by, least)} and cost no further "
        f"privacy.</p>\n<pre>{escape(commands)}</pre>\n<pre>{escape(python)}</pre>\n<ul>\n{items}</ul>",
    )
