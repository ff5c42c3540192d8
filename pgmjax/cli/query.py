"""`pgmjax query`: query a release or a perturbed table, which the folder's record tells apart.

A release answers from its model, a perturbed table by unbiased estimates. Neither costs any privacy.

`pgmjax mechanisms` lists the mechanisms and their options.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import itertools
import json
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax import mechanisms
from pgmjax._internal import checks
from pgmjax.cli import perturb, process
from pgmjax.cli.options.free import LEVEL
from pgmjax.data.cliques import Clique, as_clique
from pgmjax.data.domain import Domain
from pgmjax.data.population import Population
from pgmjax.local.answers import UnbiasedAnswers
from pgmjax.local.conditions import answer_cells, answer_conditions
from pgmjax.local.table import PerturbedTable
from pgmjax.measurements.inputs import Input, are_secure
from pgmjax.queries import Query, marginal
from pgmjax.queries import text as query_text
from pgmjax.release import accuracy, whole_table
from pgmjax.release import folder as release_folder
from pgmjax.release.accuracy import Reported
from pgmjax.release.folder import SavedRelease
from pgmjax.release.statement import not_secure
from pgmjax.release.whole_table import WholeTable

_OPEN = "what was measured does not determine it"
_IF_RIGHT = "if the model is right about what was not measured together"
_NO_INTERVAL = f"no interval, because {_OPEN}: it rests on {{}} alone"
_LACKING = {
    "laplace": "a bound of the model affects it, which laplace does not know",
    "bootstrap": "bootstrap tells bias from noise over 100 determined answers or more",
}
_LEARNED = "Answers are those of the trained model in predictor/ where it learned the attributes together."


def run(arguments: argparse.Namespace) -> None:
    """Compute the answers and print them."""
    if {"=", "==", "!=", "in"} & {*arguments.condition}:  # without quotes around it
        arguments.condition = [" ".join(arguments.condition)]
    if not pathlib.Path(arguments.folder).exists() and re.search("[=<>]", arguments.folder):
        raise ValueError(f"The folder stands before the conditions: pgmjax query DIR {arguments.folder!r}.")
    if not arguments.condition and not arguments.marginal:
        raise ValueError(
            "Give a condition such as 'sex=Male,age<30', or give --marginal with attribute names. "
            + _attributes_of(arguments.folder)
        )
    if arguments.condition and arguments.marginal:
        raise ValueError("Give either conditions or --marginal, not both.")
    _check_conditions(arguments.condition)
    draws = None if arguments.draws is None else checks.integer("--draws", arguments.draws, low=2)
    perturbed = perturb.read(arguments.folder)
    if perturbed is not None:
        if draws is not None or arguments.error_bars:
            named = "--draws" if draws is not None else "--error-bars"
            raise ValueError(f"{named} is for a release: each answer of a perturbed table has an interval.")
        if arguments.marginal:
            _perturbed_marginal(perturbed, arguments.marginal, arguments.json)
        else:
            _perturbed_conditions(perturbed, arguments.condition, arguments.json)
        _warn(perturbed.inputs)
        return
    saved = release_folder.opened(arguments.folder)
    if arguments.error_bars:
        if draws is not None:
            raise ValueError("--draws and --error-bars are two ways to an interval: give one of them.")
        _with_error_bars(saved, arguments)
    elif arguments.marginal:
        _marginal(saved, arguments.marginal, draws, arguments.json)
    else:
        _conditions(saved, arguments.condition, draws, arguments.json)
    _warn(saved.model.inputs)


def _attributes_of(folder: str) -> str:
    """Return which attributes a release or a perturbed table has, as a sentence; nothing if it is none."""
    with contextlib.suppress(ValueError):
        table = perturb.read(folder)
        domain = release_folder.opened(folder).model.domain if table is None else table.domain
        return f"{folder} has {', '.join(domain)}."
    return ""


def _check_conditions(texts: Sequence[str]) -> None:
    """Refuse what is no condition: a second folder.

    Raises:
        ValueError: a text is the name of a folder.
    """
    for text in texts:
        if "=" not in text and pathlib.Path(text).is_dir():
            raise ValueError(f"{text} is a folder, and one is queried at a time: ask each by itself.")


def _by_draws(
    saved: SavedRelease, queries: Sequence[Query], found: Sequence[Reported], draws: int | None
) -> list[np.ndarray | None]:
    """Return of each query the ends of intervals by draws [rows, 2], None where one is determined.

    Raises:
        ValueError: nothing that was measured tells of an attribute, or no draws can be made of the release.
    """
    open_ones = [
        k for k, each in enumerate(found) if not each.determined.all() and each.given_by == accuracy.MODEL
    ]
    ends: list[np.ndarray | None] = [None] * len(found)
    if draws is None or not open_ones:
        return ends
    sizes = [len(found[k].estimates) for k in open_ones]
    made = saved.estimate(
        lambda model: np.concatenate([np.ravel(model.answer(queries[k])) for k in open_ones]), draws
    )
    both = np.maximum(np.stack(made.interval, axis=-1), 0.0)
    for k, part in zip(open_ones, np.split(both, np.cumsum(sizes)[:-1]), strict=True):
        ends[k] = part
    return ends


def _warn(inputs: Sequence[Input]) -> None:
    """Say on standard error that answers must not be published, if so."""
    if not are_secure(inputs):
        process.say(not_secure(inputs))


def _facts(total: float, population: Population | None, inputs: Sequence[Input]) -> dict[str, Any]:
    """Return what answers are of and whether they may be published, for JSON."""
    described = None if population is None else population.to_dict()
    return {"total": total, "population": described, "secure": are_secure(inputs)}


def _conditions(saved: SavedRelease, texts: list[str], draws: int | None, as_json: bool) -> None:
    model, population = saved.model, saved.population
    asked = [query_text.conditions(text, model.domain, interpolate=True) for text in texts]
    found = [saved.report(each.query) for each in asked]
    estimates = [float(each.estimates[0]) for each in found]
    shares = [float(each.share(model.total)[0]) for each in found]
    ends = [_ends(each.intervals) for each in found]
    around = [_ends(each.shares) for each in found]
    drawn = _by_draws(saved, [each.query for each in asked], found, draws)
    wholes = [_whole(saved, each.query, one) for each, one in zip(asked, found, strict=True)]
    told = texts, estimates, ends, shares, around, found, asked, drawn, wholes
    if as_json:
        answers = [
            {
                "query": text,
                "estimate": n,
                "interval": interval,
                "share": share,
                "share_interval": near,
                "determined": interval is not None,
                "rests_on": accuracy.rests_on(interval is not None, one.given_by),
                "interpolated": list(condition.notes),
                **({} if draws is None else {"drawn_interval": None if ends is None else ends[0].tolist()}),
                **({} if not _is_counted(population) else {"whole_table": _first(whole)}),
            }
            for text, n, interval, share, near, one, condition, ends, whole in zip(*told, strict=True)
        ]
        print(json.dumps({**_facts(model.total, population, model.inputs), "answers": answers}))
        return
    rows = "rows" if population is None or population.max_weight is None else "in weight"
    for text, estimate, interval, share, near, one, condition, by_draws, whole in zip(*told, strict=True):
        said = _NO_INTERVAL.format(one.given_by)
        if by_draws is not None:
            low, high = by_draws[0]
            said = f"{LEVEL:.0%} interval of {draws} draws {low:,.1f} to {high:,.1f}, {_IF_RIGHT}"
        if interval is not None:
            said = f"{LEVEL:.0%} interval {interval[0]:,.1f} to {interval[1]:,.1f}"
        if near is not None:
            said += f", as a share {near[0]:.2%} to {near[1]:.2%}"
        print(f"{text}: {estimate:,.1f} of {model.total:,.1f} {rows} ({share:.2%}); {said}")
        if whole is not None:
            print(f"  {whole_table.in_words(whole.counts[0], whole.shares[0])}")
        for note in condition.notes:
            print(f"  {note} {query_text.NOT_COVERED}")
    if any(one.given_by == accuracy.LEARNER for one in found):
        print(_LEARNED)
    _print_facts(saved.record.get("facts"))
    _print_population(population, _codes_of(asked))


def _print_facts(facts: Sequence[str] | None) -> None:
    """Print what public facts the answers of a fit keep to."""
    if facts:
        print(f"Answers keep to {' and '.join(facts)}; intervals are of the noisy counts alone.")


def _with_error_bars(saved: SavedRelease, arguments: argparse.Namespace) -> None:
    """Print the answers to conditions, or the cells of a marginal, with error bars by one method."""
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
    numbers = zip(labels, *columns, strict=True)
    if arguments.json:
        answers = [
            {
                "query": label,
                "estimate": float(value),
                "stddev": _finite(stddev),
                "bias": _finite(bias),
                "interval": _ends(ends[None]),
                "determined": bool(sure),
            }
            for label, value, stddev, bias, ends, sure in numbers
        ]
        told = {"method": bars.method, "level": LEVEL, "answers": answers}
        print(json.dumps({**_facts(model.total, saved.population, model.inputs), **told}))
        return
    for label, value, stddev, bias, (low, high), sure in numbers:
        said = f"{label}: {value:,.1f}"
        said += f", standard error {stddev:,.1f}" * bool(np.isfinite(stddev))
        said += f" (of which bias {bias:,.1f})" * bool(bias > 0)
        interval = f"{LEVEL:.0%} interval {low:,.1f} to {high:,.1f}"
        lacking = f"no interval, because {_LACKING.get(bars.method) if sure else _OPEN}"
        print(f"{said}; {interval if np.isfinite(low) else lacking}")
    for each in asked:
        for note in each.notes:
            print(f"  {note} {query_text.NOT_COVERED}")
    print(f"Error bars by {bars.method}, of the model that was fitted to the noisy counts.")
    every: dict[str, Iterable[int]] = {name: range(model.domain[name]) for name in clique}
    _print_population(saved.population, _codes_of(asked) if asked else every)


def _finite(value: float) -> float | None:
    """Return a number as JSON has it, None if there is none."""
    return float(value) if np.isfinite(value) else None


def _is_counted(population: Population | None) -> bool:
    """Return whether a release counted what is left out of its table."""
    return population is not None and bool(population.left_out)


def _whole(saved: SavedRelease, query: Query, found: Reported) -> WholeTable | None:
    """Return the intervals of answers in the whole table; None if nothing bounds them."""
    population = saved.population
    if population is None or population.omitted is None or not found.determined.all():
        return None
    return whole_table.of_query(saved.estimates, population, query, found)


def _first(whole: WholeTable | None) -> dict[str, list[float]] | None:
    """Return the first of some intervals for JSON."""
    if whole is None:
        return None
    return {"interval": whole.counts[0].tolist(), "share_interval": whole.shares[0].tolist()}


def _ends(intervals: np.ndarray) -> list[float] | None:
    """Return the ends of the first of some intervals, None if it is not determined."""
    return intervals[0].tolist() if np.isfinite(intervals[0]).all() else None


def _codes_of(asked: Sequence[query_text.Conditions]) -> dict[str, set[int]]:
    """Return the codes that any of some conditions counts, for each attribute that one is on."""
    found: dict[str, set[int]] = {}
    for each in asked:
        for name, codes in each.codes.items():
            found.setdefault(name, set()).update(codes)
    return found


def _print_population(population: Population | None, codes: Mapping[str, Iterable[int]]) -> None:
    """Print what answers are of, with the cells among some codes that count other values too."""
    if population is None:
        print("All counts and shares are of the records that were counted for what was published.")
        return
    for line in population.of_cells(codes).sentences():
        print(line)


def _marginal(saved: SavedRelease, text: str, draws: int | None, as_json: bool) -> None:
    model, population = saved.model, saved.population
    clique = read_names(text, model.domain)
    shape = model.domain.shape_of(clique)
    names = [model.domain.attribute(name).code_names() for name in clique]
    found = saved.report(marginal(clique))
    sure = bool(found.determined.all())
    columns = {"estimate": found.estimates.reshape(shape)}
    told = [("", found.intervals), ("share_", found.shares)]
    if (whole := _whole(saved, marginal(clique), found)) is not None:
        told += [("whole_", whole.counts), ("share_of_whole_", whole.shares)]
    for kind, intervals in told:
        if np.isfinite(intervals).all():
            low, high = np.moveaxis(intervals, -1, 0).reshape(2, *shape)
            columns |= {f"{kind}low": low, f"{kind}high": high}
    (drawn,) = _by_draws(saved, [marginal(clique)], [found], draws)
    if drawn is not None:
        columns |= {f"drawn_{end}": drawn[:, k].reshape(shape) for k, end in enumerate(("low", "high"))}
    if as_json:
        values = dict(zip(clique, names, strict=True))
        rests_on = accuracy.rests_on(sure, found.given_by)
        record = {**_facts(model.total, population, model.inputs), "values": values}
        listed = {name: column.tolist() for name, column in columns.items()}
        print(json.dumps({**record, **listed, "determined": sure, "rests_on": rests_on}))
        return
    for line in _lines(clique, names, **columns):
        print("\t".join(line))
    if not sure:
        print(f"These counts have {_NO_INTERVAL.format(found.given_by)}.")
    if drawn is not None:
        print(f"drawn_low and drawn_high: ends of {LEVEL:.0%} intervals of {draws} draws, {_IF_RIGHT}.")
    if found.given_by == accuracy.LEARNER:
        print(_LEARNED)
    _print_population(population, {name: range(model.domain[name]) for name in clique})


def read_names(text: str, domain: Domain) -> Clique:
    """Return the attributes that a text such as `sex,"age, group"` names.

    Raises:
        ValueError: none is named, one is unknown, or one is named twice.
    """
    names = next(csv.reader([text], skipinitialspace=True), [])
    if len(names) == 1 and names[0] not in domain:
        parts = [part for part in re.split(r"[\s*+~:&/;|]+", text.strip()) if part]
        if len(parts) > 1 and set(parts) <= set(domain):
            raise ValueError(f"Expected names joined by commas, got {text!r}: write {','.join(parts)}.")
    return as_clique(domain, names)


def _lines(clique: Clique, names: list[list[str]], **columns: np.ndarray) -> Iterator[list[str]]:
    yield [*clique, *columns]
    for cell, *numbers in zip(itertools.product(*names), *map(np.ravel, columns.values()), strict=True):
        pairs = zip(columns, numbers, strict=True)
        yield [*cell, *(f"{n:.2%}" if name.startswith("share") else f"{n:.1f}" for name, n in pairs)]


def _perturbed_conditions(table: PerturbedTable, texts: list[str], as_json: bool) -> None:
    asked = [query_text.conditions(text, table.domain) for text in texts]
    codes = [each.codes for each in asked]
    answers = answer_conditions(table, codes, useless="answer").times(table.rows)
    low, high = _interval(answers)
    if as_json:
        listed = [
            {
                "query": text,
                "estimate": float(answers.value[i]),
                "stddev": float(answers.stddev[i]),
                "interval": [float(low[i]), float(high[i])],
                "share": float(answers.value[i] / table.rows),
                "share_interval": [float(low[i] / table.rows), float(high[i] / table.rows)],
                "useless": bool(answers.useless[i]),
            }
            for i, text in enumerate(texts)
        ]
        told = {**_facts(table.rows, table.population, table.inputs), "level": LEVEL}
        print(json.dumps({**told, "answers": listed}))
        return
    for i, text in enumerate(texts):
        count = f"{answers.value[i]:,.1f} of {table.rows:,} rows ({answers.value[i] / table.rows:.2%})"
        error = f"standard error {answers.stddev[i]:,.1f}"
        interval = f"{LEVEL:.0%} interval {low[i]:,.1f} to {high[i]:,.1f}"
        interval += f", as a share {low[i] / table.rows:.2%} to {high[i] / table.rows:.2%}"
        warning = " (useless: the noise may exceed the range of the answer)" if answers.useless[i] else ""
        print(f"{text}: {count}, {error}, {interval}{warning}")
    _print_population(table.population, _codes_of(asked))


def _perturbed_marginal(table: PerturbedTable, text: str, as_json: bool) -> None:
    clique = read_names(text, table.domain)
    names = [table.domain.attribute(name).code_names() for name in clique]
    answers = answer_cells(table, clique, useless="answer").times(table.rows)
    low, high = _interval(answers)
    if as_json:
        shape = table.domain.shape_of(clique)
        found = {
            "estimate": answers.value.reshape(shape).tolist(),
            "stddev": answers.stddev.reshape(shape).tolist(),
            "interval": np.stack([low, high], axis=-1).reshape(*shape, 2).tolist(),
        }
        values = dict(zip(clique, names, strict=True))
        told = {**_facts(table.rows, table.population, table.inputs), "level": LEVEL}
        print(json.dumps({**told, "values": values, **found}))
        return
    columns = {"estimate": answers.value, "stddev": answers.stddev, "low": low, "high": high}
    columns |= {"share_low": low / table.rows, "share_high": high / table.rows}
    for line in _lines(clique, names, **columns):
        print("\t".join(line))
    _print_population(table.population, {name: range(table.domain[name]) for name in clique})


def _interval(answers: UnbiasedAnswers) -> tuple[np.ndarray, np.ndarray]:
    """Return lower and upper ends, within the range of possible answers."""
    half = answers.half_width(LEVEL)
    low, high = (np.clip(answers.value + side * half, answers.low, answers.high) for side in (-1, 1))
    return low, high


def run_mechanisms(arguments: argparse.Namespace) -> None:
    """Print each mechanism's name, summary, supported relations and options."""
    found = {name: _describe(mechanism) for name, mechanism in mechanisms.names().items()}
    if arguments.json:
        print(json.dumps({"mechanisms": found}))
        return
    width = max(map(len, found))
    for name, about in found.items():
        print(f"{name:<{width}}  {about['summary']}")
        words = ", ".join(f"{option}={value}" for option, value in about["options"].items())
        print(f"{'':<{width}}    under {' or '.join(about['relations'])}; options: {words or 'none'}")


def _describe(mechanism: Any) -> dict[str, Any]:
    """Return a description of a mechanism; option defaults are written as on the command line."""
    defaults = mechanisms.options(mechanism).items()
    return {
        "summary": mechanism.summary,
        "relations": [relation.value for relation in mechanism.relations],
        "options": {
            name: str(value) if isinstance(value, str | Fraction) else json.dumps(value, default=str)
            for name, value in defaults
        },
    }
