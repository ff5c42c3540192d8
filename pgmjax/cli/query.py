"""`pgmjax query`: query a release or a perturbed table, which the folder's record tells apart.

A release answers from its model, a perturbed table by unbiased estimates. Neither costs any privacy.

`pgmjax mechanisms` lists the mechanisms and their options.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax import mechanisms
from pgmjax.cli import perturb
from pgmjax.cli.options.free import LEVEL
from pgmjax.data.cliques import Clique, as_clique
from pgmjax.data.domain import Domain
from pgmjax.local.answers import UnbiasedAnswers
from pgmjax.local.conditions import answer_cells, answer_conditions
from pgmjax.local.table import PerturbedTable
from pgmjax.model.base import Model
from pgmjax.queries import marginal
from pgmjax.queries import text as query_text
from pgmjax.release import accuracy
from pgmjax.release import folder as release_folder
from pgmjax.release.accuracy import CountEstimates

_NO_INTERVAL = "no interval, because what was measured does not determine it: it rests on the model alone"


def run(arguments: argparse.Namespace) -> None:
    """Compute the answers and print them."""
    if not arguments.condition and not arguments.marginal:
        raise ValueError(
            "Give a condition such as 'sex=Male,age<30', or give --marginal with attribute names."
        )
    if arguments.condition and arguments.marginal:
        raise ValueError("Give either conditions or --marginal, not both.")
    perturbed = perturb.read(arguments.folder)
    if perturbed is not None:
        if arguments.marginal:
            _perturbed_marginal(perturbed, arguments.marginal, arguments.json)
        else:
            _perturbed_conditions(perturbed, arguments.condition, arguments.json)
        return
    model, record = release_folder.model_in(arguments.folder)
    estimates = release_folder.estimates_in(arguments.folder, model, record)
    if arguments.marginal:
        _marginal(model, estimates, arguments.marginal, arguments.json)
    else:
        _conditions(model, estimates, arguments.condition, arguments.json)


def _conditions(model: Model, known: CountEstimates, texts: list[str], as_json: bool) -> None:
    asked = [query_text.parse(text, model.domain) for text in texts]
    found = [known.report(query, model.answer(query)) for query in asked]
    estimates = [float(each.estimates[0]) for each in found]
    ends = [each.intervals[0].tolist() if each.determined[0] else None for each in found]
    if as_json:
        answers = [
            {
                "query": text,
                "estimate": n,
                "interval": interval,
                "determined": interval is not None,
                "rests_on": accuracy.MODEL_ALONE if interval is None else accuracy.MEASURED,
            }
            for text, n, interval in zip(texts, estimates, ends, strict=True)
        ]
        print(json.dumps({"total": model.total, "answers": answers}))
        return
    for text, estimate, interval in zip(texts, estimates, ends, strict=True):
        said = _NO_INTERVAL
        if interval is not None:
            said = f"{LEVEL:.0%} interval {interval[0]:,.1f} to {interval[1]:,.1f}"
        print(f"{text}: {estimate:,.1f} of {model.total:,.1f} rows ({estimate / model.total:.2%}); {said}")


def _marginal(model: Model, known: CountEstimates, text: str, as_json: bool) -> None:
    clique = read_names(text, model.domain)
    shape = model.domain.shape_of(clique)
    names = [model.domain.attribute(name).code_names() for name in clique]
    found = known.report(marginal(clique), model.marginal(clique))
    table, sure = found.estimates.reshape(shape), bool(found.determined.all())
    low, high = np.moveaxis(found.intervals, -1, 0).reshape(2, *shape)
    if as_json:
        values = dict(zip(clique, names, strict=True))
        record = {"total": model.total, "values": values, "estimate": table.tolist()}
        ends = {"low": low.tolist(), "high": high.tolist()} if sure else {}
        rests_on = accuracy.MEASURED if sure else accuracy.MODEL_ALONE
        print(json.dumps({**record, **ends, "determined": sure, "rests_on": rests_on}))
        return
    columns = {"estimate": table, "low": low, "high": high} if sure else {"estimate": table}
    for line in _lines(clique, names, **columns):
        print("\t".join(line))
    if not sure:
        print(f"These counts have {_NO_INTERVAL}.")


def read_names(text: str, domain: Domain) -> Clique:
    """Return the attributes that a text such as `sex,"age, group"` names.

    Raises:
        ValueError: none is named, one is unknown, or one is named twice.
    """
    return as_clique(domain, next(csv.reader([text], skipinitialspace=True), []))


def _lines(clique: Clique, names: list[list[str]], **columns: np.ndarray) -> Iterator[list[str]]:
    yield [*clique, *columns]
    for cell, *numbers in zip(itertools.product(*names), *map(np.ravel, columns.values()), strict=True):
        yield [*cell, *(f"{number:.1f}" for number in numbers)]


def _perturbed_conditions(table: PerturbedTable, texts: list[str], as_json: bool) -> None:
    asked = [query_text.selection(text, table.domain) for text in texts]
    answers = answer_conditions(table, asked, useless="answer").times(table.rows)
    low, high = _interval(answers)
    if as_json:
        listed = [
            {
                "query": text,
                "estimate": float(answers.value[i]),
                "stddev": float(answers.stddev[i]),
                "interval": [float(low[i]), float(high[i])],
                "useless": bool(answers.useless[i]),
            }
            for i, text in enumerate(texts)
        ]
        print(json.dumps({"total": table.rows, "level": LEVEL, "answers": listed}))
        return
    for i, text in enumerate(texts):
        count = f"{answers.value[i]:,.1f} of {table.rows:,} rows ({answers.value[i] / table.rows:.2%})"
        error = f"standard error {answers.stddev[i]:,.1f}"
        interval = f"{LEVEL:.0%} interval {low[i]:,.1f} to {high[i]:,.1f}"
        warning = " (useless: the noise may exceed the range of the answer)" if answers.useless[i] else ""
        print(f"{text}: {count}, {error}, {interval}{warning}")


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
        print(json.dumps({"total": table.rows, "level": LEVEL, "values": values, **found}))
        return
    for line in _lines(clique, names, estimate=answers.value, stddev=answers.stddev, low=low, high=high):
        print("\t".join(line))


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
        "relations": [relation.value for relation in mechanisms.relations(mechanism)],
        "options": {
            name: str(value) if isinstance(value, str | Fraction) else json.dumps(value, default=str)
            for name, value in defaults
        },
    }
