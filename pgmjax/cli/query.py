"""`pgmjax query`: query a release or a perturbed table, which the folder's record tells apart.

A release answers from its model, a perturbed table by unbiased estimates. Neither costs any privacy.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import pathlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.cli import functions, perturb, process
from pgmjax.cli.options.shared import LEVEL
from pgmjax.cli.release import read_names, warn_if_insecure
from pgmjax.data.attribute import Code
from pgmjax.data.domain import Clique, Domain
from pgmjax.data.population import Population, sentences_of
from pgmjax.local import PerturbedTable, answer_cells, answer_conditions
from pgmjax.local.answers import UnbiasedAnswers
from pgmjax.measurements.inputs import are_secure
from pgmjax.queries import Query, marginal
from pgmjax.queries import text as query_text
from pgmjax.release import accuracy, whole_table
from pgmjax.release import folder as release_folder
from pgmjax.release.analysis import Answer
from pgmjax.release.means import Means

_OPEN = "what was measured does not determine it"
_IF_RIGHT = "if the model is right about what was not measured together"
_NO_INTERVAL = f"no interval, because {_OPEN}: it rests on {{}} alone"
_LACKING = {
    "laplace": "a bound of the model affects it, which laplace does not know",
    "bootstrap": "bootstrap tells bias from noise over 100 determined answers or more",
}
_Answered = tuple[dict[str, Any], list[str], dict[str, Iterable[int]]]
"""Answers for JSON, the same in words, and the codes of each attribute that was asked for."""
_LEARNED = (
    "Answers are those of the trained model in predictor/ where it learned the attributes together: they "
    "need not add up to the total. Tables, draws and means are those of the graphical model."
)


def run(arguments: argparse.Namespace) -> None:
    """Compute the answers and print them."""
    if {"=", "==", "!=", "in"} & {*arguments.condition}:  # without quotes around it
        arguments.condition = [" ".join(arguments.condition)]
    _check(arguments)
    if arguments.draws is not None:
        arguments.draws = checks.integer("--draws", arguments.draws, low=2)
    source: Any = perturb.read(arguments.folder)
    if source is not None:
        _check_perturbed(arguments)
        total, inputs = source.rows, source.inputs
        ways: Any = (
            (arguments.mean or arguments.workload or arguments.cut, _perturbed_functions),
            (arguments.marginal, _perturbed_marginal),
            (True, _perturbed_conditions),
        )
    else:
        source = release_folder.opened(arguments.folder)
        _check_release(arguments)
        total, inputs = source.model.total, source.model.inputs
        ways = (
            (arguments.mean, _means),
            (arguments.error_bars, _with_error_bars),
            (arguments.marginal, _marginal),
            (True, _conditions),
        )
    answered = next(way for given, way in ways if given)
    told, said, codes = answered(source, arguments)
    population = source.population
    facts = {
        "total": total,
        "population": None if population is None else population.to_dict(),
        "secure": are_secure(inputs),
    }
    # what answers are of, with the cells among those asked for that count other values too
    said += sentences_of(None if population is None else population.of_cells(codes))
    process.tell(arguments.json, {**facts, **told}, said)
    warn_if_insecure(inputs)


def _check(arguments: argparse.Namespace) -> None:
    """Refuse what cannot be asked together."""
    folder = arguments.folder
    ways = arguments.marginal, arguments.mean, arguments.workload, arguments.cut
    alone = "--workload" if arguments.workload else "--cut"
    nothing = not arguments.condition and not any(ways)
    others = [
        text for text in arguments.condition if text and "=" not in text and pathlib.Path(text).is_dir()
    ]
    checks.refuse(
        (
            not pathlib.Path(folder).exists() and re.search("[=<>]", folder),
            f"The folder stands before the conditions: pgmjax query DIR {folder!r}.",
        ),
        (
            arguments.by and not arguments.mean,
            "--by names the groups of a mean: give --mean NAME too. Counts by group are a marginal: "
            f"--marginal {arguments.by}.",
        ),
        (
            nothing and pathlib.Path(folder).exists(),
            "Give a condition such as 'sex=Male,age<30', or give --marginal or --mean with attribute names. "
            + (_attributes_of(folder) if nothing else ""),
        ),
        (
            arguments.condition and arguments.marginal,
            "Give either conditions or --marginal, not both. Names of one marginal are joined by commas, as "
            "in --marginal age,sex.",
        ),
        (
            (arguments.workload or arguments.cut) and (len([*filter(None, ways)]) > 1 or arguments.condition),
            f"{alone} stands alone: it says all that is asked.",
        ),
        (
            arguments.mean and (arguments.marginal or arguments.error_bars),
            "--mean stands without --marginal and --error-bars: its groups are named by --by, and its "
            "intervals are there already.",
        ),
        (
            arguments.error_bars and arguments.draws is not None,
            "--draws and --error-bars are two ways to an interval: give one of them.",
        ),
        (others, f"{''.join(others[:1])} is a folder, and one is queried at a time: ask each by itself."),
    )


def _check_perturbed(arguments: argparse.Namespace) -> None:
    """Refuse what a perturbed table cannot be asked."""
    named = "--draws" if arguments.draws is not None else "--error-bars"
    checks.refuse(
        (
            arguments.mean and (arguments.condition or arguments.by),
            "Of a perturbed table --mean is of all rows, without conditions and --by: ask for the counts of "
            f"--marginal {arguments.mean}, or for sums by --workload.",
        ),
        (
            arguments.draws is not None or arguments.error_bars,
            f"{named} is for a release: each answer of a perturbed table has an interval.",
        ),
    )


def _check_release(arguments: argparse.Namespace) -> None:
    """Refuse what a release or a fit is not asked."""
    named = "--cut" if arguments.cut else "--workload" if arguments.workload else "--proper"
    checks.refuse(
        (
            arguments.workload or arguments.proper or arguments.cut,
            f"{named} is for a perturbed table: a release answers the workload that it was made for, in its "
            "answers.parquet, and any query from its model.",
        ),
    )


def _attributes_of(folder: str) -> str:
    """Return which attributes a release or a perturbed table has, as a sentence; nothing if it is none."""
    with contextlib.suppress(ValueError):
        table = perturb.read(folder)
        domain = release_folder.opened(folder).model.domain if table is None else table.domain
        return f"{folder} has {', '.join(domain)}."
    return ""


def _by_draws(
    saved: release_folder.SavedRelease,
    queries: Sequence[Query],
    are_open: Sequence[bool],
    draws: int | None,
) -> list[np.ndarray | None]:
    """Return of each query the ends of intervals by draws [rows, 2], None where one is determined.

    Raises:
        ValueError: nothing that was measured tells of an attribute, or no draws can be made of the release.
    """
    open_ones = [k for k, is_open in enumerate(are_open) if is_open]
    ends: list[np.ndarray | None] = [None] * len(queries)
    if draws is None or not open_ones:
        return ends
    sizes = [queries[k].num_rows(saved.model.domain) for k in open_ones]
    made = saved.estimate(
        lambda model: np.concatenate([np.ravel(model.answer(queries[k])) for k in open_ones]), draws
    )
    both = np.maximum(np.stack(made.interval, axis=-1), 0.0)
    for k, part in zip(open_ones, np.split(both, np.cumsum(sizes)[:-1]), strict=True):
        ends[k] = part
    return ends


def _conditions(saved: release_folder.SavedRelease, arguments: argparse.Namespace) -> _Answered:
    model, population, draws = saved.model, saved.population, arguments.draws
    texts = arguments.condition
    asked = [query_text.conditions(text, model.domain, interpolate=True) for text in texts]
    found = [saved.query(text) for text in texts]
    open_ones = [not each.determined and each.given_by == accuracy.MODEL for each in found]
    drawn = _by_draws(saved, [each.query for each in asked], open_ones, draws)
    answers, said = [], []
    for text, one, by_draws in zip(texts, found, drawn, strict=True):
        answers.append(_answer(text, one, population))
        if draws is not None:
            answers[-1]["drawn_interval"] = None if by_draws is None else by_draws[0].tolist()
        words = _NO_INTERVAL.format(one.given_by)
        if by_draws is not None:
            low, high = by_draws[0]
            words = f"{LEVEL:.0%} interval of {draws} draws {low:,.1f} to {high:,.1f}, {_IF_RIGHT}"
        if one.determined:
            words = f"{LEVEL:.0%} interval {one.low:,.1f} to {one.high:,.1f}"
        if one.share_low is not None:
            words += f", as a share {one.share_low:.2%} to {one.share_high:.2%}"
        of = f"of {model.total:,.1f} {_counted(population)} ({one.share:.2%})"
        said.append(f"{text}: {one.estimate:,.1f} {of}; {words}")
        if one.whole is not None:
            said.append(f"  {whole_table.in_words(*one.whole)}")
        said += [f"  {note} {query_text.NOT_COVERED}" for note in one.interpolated]
    if any(one.given_by == accuracy.LEARNER for one in found):
        said.append(_LEARNED)
    if facts := saved.record.get("facts"):
        said.append(f"Answers keep to {' and '.join(facts)}; intervals are of the noisy counts alone.")
    return {"answers": answers}, said, _codes_of(asked)


def _answer(text: str, one: Answer, population: Population | None) -> dict[str, Any]:
    """Return an answer for JSON."""
    told = {
        "query": text,
        "estimate": one.estimate,
        "interval": [one.low, one.high] if one.determined else None,
        "share": one.share,
        "share_interval": None if one.share_low is None else [one.share_low, one.share_high],
        "determined": one.determined,
        "interpolated": list(one.interpolated),
        "rests_on": accuracy.rests_on(one.determined, one.given_by),
    }
    if population is not None and population.left_out:
        named = ("interval", "share_interval")
        whole = None if one.whole is None else dict(zip(named, map(list, one.whole), strict=True))
        told["whole_table"] = whole
    return told


def _with_error_bars(saved: release_folder.SavedRelease, arguments: argparse.Namespace) -> _Answered:
    """Return the answers to conditions, or the cells of a marginal, with error bars by one method."""
    model = saved.model
    clique: Clique = ()
    asked: list[query_text.Conditions] = []
    if arguments.marginal:
        clique = read_names(arguments.marginal, model.domain)
        queries: list[Query] = [marginal(clique)]
        names = list(itertools.product(*(model.domain.attribute(each).code_names() for each in clique)))
        labels = [",".join(map("=".join, zip(clique, cell, strict=True))) for cell in names]
    else:
        asked = [query_text.conditions(text, model.domain, interpolate=True) for text in arguments.condition]
        queries, labels = [each.query for each in asked], arguments.condition
    bars = saved.error_bars(queries, method=arguments.error_bars, level=LEVEL)
    columns = bars.values, bars.stddevs, bars.biases, bars.intervals, bars.determined
    answers, said = [], []
    for label, value, stddev, bias, ends, sure in zip(labels, *columns, strict=True):
        answer = {
            "query": label,
            "estimate": float(value),
            "stddev": checks.finite(stddev),
            "bias": checks.finite(bias),
        }
        answers.append({**answer, "interval": _ends(ends), "determined": bool(sure)})
        words = f"{label}: {value:,.1f}"
        words += f", standard error {stddev:,.1f}" * bool(np.isfinite(stddev))
        words += f" (of which bias {bias:,.1f})" * bool(bias > 0)
        interval = f"{LEVEL:.0%} interval {ends[0]:,.1f} to {ends[1]:,.1f}"
        lacking = f"no interval, because {_LACKING.get(bars.method) if sure else _OPEN}"
        said.append(f"{words}; {interval if np.isfinite(ends[0]) else lacking}")
    said += [f"  {note} {query_text.NOT_COVERED}" for each in asked for note in each.notes]
    said.append(f"Error bars by {bars.method}, of the model that was fitted to the noisy counts.")
    told = {"method": bars.method, "level": LEVEL, "answers": answers}
    return told, said, _codes_of(asked) if asked else _every_code(model.domain, clique)


def _ends(interval: np.ndarray) -> list[float] | None:
    """Return the ends of an interval, None if it is not determined."""
    return interval.tolist() if np.isfinite(interval).all() else None


def _codes_of(asked: Sequence[query_text.Conditions]) -> dict[str, Iterable[int]]:
    """Return the codes that any of some conditions counts, for each attribute that one is on."""
    found: dict[str, list[int]] = {}
    for each in asked:
        for name, codes in each.codes.items():
            found.setdefault(name, []).extend(codes)
    return dict(found)


def _every_code(domain: Domain, clique: Clique) -> dict[str, Iterable[int]]:
    return {name: range(domain[name]) for name in clique}


def _marginal(saved: release_folder.SavedRelease, arguments: argparse.Namespace) -> _Answered:
    domain, draws = saved.model.domain, arguments.draws
    clique = read_names(arguments.marginal, domain)
    shape = domain.shape_of(clique)
    names = [domain.attribute(name).code_names() for name in clique]
    found = saved.report(marginal(clique))
    sure = bool(found.determined.all())
    columns = {"estimate": found.estimates.reshape(shape)}
    ends = [("", found.intervals), ("share_", found.shares)]
    population = saved.population
    if sure and population is not None and population.omitted is not None:
        whole = whole_table.of_query(saved.estimates, population, marginal(clique), found)
        ends += [("whole_", whole.counts), ("share_of_whole_", whole.shares)]
    for kind, intervals in ends:
        if np.isfinite(intervals).all():
            low, high = np.moveaxis(intervals, -1, 0).reshape(2, *shape)
            columns |= {f"{kind}low": low, f"{kind}high": high}
    is_open = not sure and found.given_by == accuracy.MODEL
    (drawn,) = _by_draws(saved, [marginal(clique)], [is_open], draws)
    if drawn is not None:
        columns |= {f"drawn_{end}": drawn[:, k].reshape(shape) for k, end in enumerate(("low", "high"))}
    told: dict[str, Any] = {"values": dict(zip(clique, names, strict=True))}
    told |= {name: column.tolist() for name, column in columns.items()}
    told |= {"determined": sure, "rests_on": accuracy.rests_on(sure, found.given_by)}
    notes = []
    if not sure:
        notes.append(f"These counts have {_NO_INTERVAL.format(found.given_by)}.")
    if drawn is not None:
        notes.append(
            f"drawn_low and drawn_high: ends of {LEVEL:.0%} intervals of {draws} draws, {_IF_RIGHT}."
        )
    if found.given_by == accuracy.LEARNER:
        notes.append(_LEARNED)
    return told, [*_lines(clique, names, **columns), *notes], _every_code(domain, clique)


def _means(saved: release_folder.SavedRelease, arguments: argparse.Namespace) -> _Answered:
    """Return the means of an attribute in groups, one table for each condition."""
    domain, draws = saved.model.domain, arguments.draws
    (name,) = read_names(arguments.mean, domain)
    groups = () if arguments.by is None else read_names(arguments.by, domain)
    answers: list[Any] = []
    said: list[str] = []
    codes = _every_code(domain, (name, *groups))
    for text in arguments.condition or [None]:
        found = saved.mean(name, groups, text, draws)
        answers.append(
            {
                "condition": text,
                "groups": [dict(zip(groups, each, strict=True)) for each in found.groups],
                "means": [checks.finite(value) for value in found.estimates],
                "intervals": [_ends(ends) for ends in found.intervals],
                "determined": found.determined.tolist(),
                "records": found.records.tolist(),
                "reach_within_bins": [checks.finite(value) for value in found.reach],
            }
        )
        said += _lines_of_means(found, text, draws, _counted(saved.population))
        if text is not None:
            codes |= query_text.conditions(text, domain, interpolate=True).codes
    return {"mean": name, "by": list(groups), "answers": answers}, said, codes


def _counted(population: Population | None) -> str:
    return "rows" if population is None or population.max_weight is None else "in weight"


def _lines_of_means(found: Means, text: str | None, draws: int | None, of: str) -> Iterator[str]:
    where = f" where {text}" * (text is not None)
    if found.by:
        yield f"Mean of {found.name}{where}, with its {LEVEL:.0%} interval:"
        yield "\t".join([*found.by, of, "mean", "low", "high"])
    for group, mean, ends, number in zip(
        found.groups, found.estimates, found.intervals, found.records, strict=True
    ):
        if found.by:
            cells = (f"{each:,.6g}" if np.isfinite(each) else "-" for each in (mean, *ends))
            yield "\t".join([*group, f"{number:,.1f}", *cells])
            continue
        interval = f"{LEVEL:.0%} interval {ends[0]:,.6g} to {ends[1]:,.6g}"
        known = interval if np.isfinite(ends[0]) else _NO_INTERVAL.format(accuracy.MODEL)
        yield f"mean of {found.name}{where}: {mean:,.6g} over {number:,.1f} {of}; {known}"
    there = found.records > 0
    if not found.determined[there].all():
        given = f"those of {draws} draws hold {_IF_RIGHT}"
        told = given if draws else "none is given, unless by --draws 100"
        yield f"  Where what was measured does not determine a mean it has no other interval: {told}."
    widest = float(np.nanmax(found.reach, initial=0.0))
    if widest > 0:
        yield (
            "  Values are taken to lie in their bins as in synthetic rows, evenly or as `within` says. "
            f"Elsewhere in their bins they may move a mean by up to {widest:,.6g}, which no interval knows. "
            "Finer bins narrow it."
        )
    yield from (f"  {note}" for note in found.notes)


def _lines(clique: Clique, names: list[list[str]], **columns: np.ndarray) -> Iterator[str]:
    yield "\t".join([*clique, *columns])
    for cell, *numbers in zip(itertools.product(*names), *map(np.ravel, columns.values()), strict=True):
        pairs = zip(columns, numbers, strict=True)
        numbers = [f"{n:.2%}" if name.startswith("share") else f"{n:.1f}" for name, n in pairs]
        yield "\t".join([*cell, *numbers])


def _perturbed_conditions(table: PerturbedTable, arguments: argparse.Namespace) -> _Answered:
    texts = arguments.condition
    asked = [query_text.conditions(text, table.domain) for text in texts]
    codes = [{name: [*map(Code, found)] for name, found in each.codes.items()} for each in asked]
    answers = answer_conditions(table, codes, useless="answer").times(table.rows)
    values = _estimates(answers, table, arguments)
    low, high = functions.interval(answers)
    shares = values / table.rows
    listed, said = [], []
    for i, text in enumerate(texts):
        near = [float(low[i] / table.rows), float(high[i] / table.rows)]
        answer = {"query": text, "estimate": float(values[i]), "stddev": float(answers.stddev[i])}
        answer |= {"interval": [float(low[i]), float(high[i])], "share": float(shares[i])}
        listed.append({**answer, "share_interval": near, "useless": bool(answers.useless[i])})
        count = f"{values[i]:,.1f} of {table.rows:,} rows ({shares[i]:.2%})"
        error = f"standard error {answers.stddev[i]:,.1f}"
        interval = f"{LEVEL:.0%} interval {low[i]:,.1f} to {high[i]:,.1f}"
        interval += f", as a share {near[0]:.2%} to {near[1]:.2%}"
        said.append(f"{text}: {count}, {error}, {interval}{functions.noisy(answers, i)}")
    return {"level": LEVEL, "answers": listed}, said, _codes_of(asked)


def _perturbed_marginal(table: PerturbedTable, arguments: argparse.Namespace) -> _Answered:
    clique = read_names(arguments.marginal, table.domain)
    names = [table.domain.attribute(name).code_names() for name in clique]
    answers = answer_cells(table, clique, useless="answer").times(table.rows)
    values = _estimates(answers, table, arguments)
    low, high = functions.interval(answers)
    shape = table.domain.shape_of(clique)
    told = {
        "level": LEVEL,
        "values": dict(zip(clique, names, strict=True)),
        "estimate": values.reshape(shape).tolist(),
        "stddev": answers.stddev.reshape(shape).tolist(),
        "interval": np.stack([low, high], axis=-1).reshape(*shape, 2).tolist(),
    }
    columns = {"estimate": values, "stddev": answers.stddev, "low": low, "high": high}
    columns |= {"share_low": low / table.rows, "share_high": high / table.rows}
    return told, [*_lines(clique, names, **columns)], _every_code(table.domain, clique)


def _estimates(answers: UnbiasedAnswers, table: PerturbedTable, arguments: argparse.Namespace) -> np.ndarray:
    """Return unbiased counts, or by --proper the nearest that a table may have."""
    return functions.nearest(answers.value, table.rows) if arguments.proper else answers.value


def _perturbed_functions(table: PerturbedTable, arguments: argparse.Namespace) -> _Answered:
    """Return the mean of an attribute, the cuts of a graph, or the sums of any linear queries."""
    if arguments.mean:
        told, said, names = functions.of_mean(table, arguments.mean, arguments.proper)
    elif arguments.cut:
        told, said, names = functions.of_cuts(table, arguments.cut, arguments.proper)
    else:
        told, said, names = functions.of_workload(table, arguments.workload, arguments.proper)
    return told, said, _every_code(table.domain, names)
