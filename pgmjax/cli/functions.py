"""Functions of a record, asked of a perturbed table: sums over all rows, a mean, the nearest proper answers.

A query must be on attributes that were perturbed together, each record's answer being one value of them all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax import job as jobs
from pgmjax.cli.history import row_names_of
from pgmjax.cli.options.shared import LEVEL
from pgmjax.cli.release import read_names
from pgmjax.data.domain import Domain
from pgmjax.history.rows import Rows
from pgmjax.local import PerturbedGraph, ProperEstimator, Universe, answer_queries
from pgmjax.local.answers import UnbiasedAnswers
from pgmjax.local.table import PerturbedTable, ResponseColumn
from pgmjax.queries import Product, Query, matrix

_MOST_CELLS = 1 << 24  # of functions whose achievable sums are looked through
_MOST_PARTS = 1000  # of one, of which a value may be a multiple


Told = tuple[dict[str, Any], list[str], tuple[str, ...]]
"""Answers for JSON, the same in words, and the attributes that were asked of."""


def of_workload(table: PerturbedTable, path: str, proper: bool) -> Told:
    """Return the sum of every query of a workload over all rows."""
    listed: list[dict[str, Any]] = []
    said: list[str] = []
    names: dict[str, None] = {}
    for entry in jobs.read_workload(path, table.domain).entries:
        answers, values = _sums(table, entry.query, proper)
        names |= dict.fromkeys(entry.query.clique)
        lines, words = _lines(row_names_of(entry.query, table.domain), answers, values)
        listed, said = listed + lines, said + words
    said.append(f"Sums over all {table.rows:,} rows; divide by them for means.")
    return {"level": LEVEL, "answers": listed}, said, tuple(names)


def of_mean(table: PerturbedTable, text: str, proper: bool) -> Told:
    """Return the mean of an attribute over all rows."""
    (name,) = read_names(text, table.domain)
    low, middle, high = table.domain.attribute(name).spans()
    if np.isnan(middle).any():
        raise ValueError(
            f"Not every value of {name} is a number, so that its mean is not one over all rows: ask for sums "
            "by --workload, with a number for each value."
        )
    sums, values = _sums(table, Product({name: matrix(middle[None])}), proper)
    answers = sums.times(1 / table.rows)
    ends = [float(end[0]) for end in interval(answers)]
    reach = float(np.maximum(high - middle, middle - low).max())
    value, spread = float(values[0]) / table.rows, float(answers.stddev[0])
    said = [
        f"mean of {name}: {value:,.6g} in {table.rows:,} rows, standard error {spread:,.4g}, {LEVEL:.0%} "
        f"interval {ends[0]:,.6g} to {ends[1]:,.6g}{noisy(answers, 0)}"
    ]
    if reach > 0:
        said.append(
            "  Values are taken in the middle of their bins, or where `within` has their mean. Elsewhere in "
            f"their bins they may move a mean by up to {reach:,.6g}, which no interval knows. Finer bins "
            "narrow it, with more noise."
        )
    if beyond := table.population.over(table.domain).beyond(name, range(len(middle))):
        said.append(f"  {beyond}")
    told = {"estimate": value, "stddev": spread, "interval": ends, "useless": bool(answers.useless[0])}
    return {"mean": name, "level": LEVEL, **told, "reach_within_bins": reach}, said, (name,)


def of_cuts(table: PerturbedTable, texts: Sequence[str], proper: bool) -> Told:
    """Return the numbers of edges between sets of vertices and all others, of a table of pairs."""
    vertices = (1 + math.isqrt(1 + 8 * table.rows)) // 2
    pairs = vertices * (vertices - 1) // 2
    if pairs != table.rows:
        raise ValueError(
            f"--cut is of a graph, whose rows are all pairs of its vertices, and {table.rows:,} is no number "
            f"of pairs: {vertices:,} vertices have {pairs:,}."
        )
    domain, ordered = table.domain, table.row_order == "table"
    edges = [each for each in table.columns if not each.unary and domain.size(each.attributes) == 2]
    if not ordered or len(table.columns) != 1 or not edges:
        raise ValueError(
            "--cut is of a graph: one column that says of each pair of vertices whether an edge joins them, "
            "0 or 1, perturbed with --row-order public and --encoding direct. This table has "
            f"{', '.join(domain)}, with rows {'in their own order' if ordered else 'sorted'}."
        )
    sets = np.zeros((len(texts), vertices), np.uint8)
    for row, text in zip(sets, texts, strict=True):
        row[_vertices(text, vertices)] = 1
    answers = PerturbedGraph.of(table, vertices).cuts(sets, useless="answer")
    values = np.rint(np.clip(answers.value, answers.low, answers.high)) if proper else answers.value
    listed, said = _lines([f"edges between {text} and all others" for text in texts], answers, values)
    return {"vertices": vertices, "level": LEVEL, "answers": listed}, said, tuple(domain)


def _lines(
    names: Iterable[str], answers: UnbiasedAnswers, values: np.ndarray
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return each answer for JSON and in words: the value to tell, and the interval of the unbiased one."""
    low, high = interval(answers)
    listed, said = [], []
    for k, name in enumerate(names):
        line = {"query": name, "estimate": float(values[k]), "stddev": float(answers.stddev[k])}
        ends = [float(low[k]), float(high[k])]
        listed.append({**line, "interval": ends, "useless": bool(answers.useless[k])})
        words = f"{name}: {values[k]:,.6g}, standard error {answers.stddev[k]:,.4g}"
        said.append(f"{words}, {LEVEL:.0%} interval {low[k]:,.6g} to {high[k]:,.6g}{noisy(answers, k)}")
    return listed, said


def _vertices(text: str, number: int) -> list[int]:
    """Return the vertices that a text such as "0,4,17" names.

    Raises:
        ValueError: one is no number of a vertex, or named twice; or these are all or none.
    """
    named = [each.strip() for each in text.split(",")]
    wrong = [each for each in named if not each.isdecimal() or int(each) >= number]
    if wrong or len(set(map(int, named))) < len(named) or len(named) == number:
        raise ValueError(
            f"--cut takes some vertices from 0 to {number - 1}, each once and not all, such as --cut 0,1: "
            f"got {text[:60]!r}."
        )
    return [int(each) for each in named]


def interval(answers: UnbiasedAnswers) -> tuple[np.ndarray, np.ndarray]:
    """Return lower and upper ends about unbiased answers, within the range of possible ones."""
    half = answers.half_width(LEVEL)
    low, high = (np.clip(answers.value + side * half, answers.low, answers.high) for side in (-1, 1))
    return low, high


def noisy(answers: UnbiasedAnswers, number: int) -> str:
    """Return a warning for an answer that noise drowns, or nothing."""
    return " (useless: the noise may exceed the range of the answer)" if answers.useless[number] else ""


def nearest(counts: np.ndarray, rows: int) -> np.ndarray:
    """Return the proper counts that are nearest to unbiased ones."""
    return np.rint(ProperEstimator([0, 1], rows=rows).nearest(counts / rows) * rows)


def _sums(table: PerturbedTable, query: Query, proper: bool) -> tuple[UnbiasedAnswers, np.ndarray]:
    """Return unbiased sums of a query's functions over all rows, and the estimates to tell."""
    column = _column(table, query)
    universe = Universe(table.domain, column.attributes)
    answers = answer_queries(column, universe, query, useless="answer").times(table.rows)
    if not proper:
        return answers, answers.value
    return answers, _proper_answers(query, universe.domain, answers.value, table.rows)


def _column(table: PerturbedTable, query: Query) -> ResponseColumn:
    """Return the answers about the group that has all attributes of a query."""
    asked = set(query.clique)
    found = [each for each in table.columns if asked <= set(each.attributes)]
    if not found:
        groups = "; ".join(",".join(group) for group in table.groups)
        raise ValueError(
            f"{','.join(query.clique)} were not perturbed together, and a function of a record is answered "
            f"from one group: {groups}. Conditions and --marginal may name attributes of several."
        )
    if found[0].unary:
        raise ValueError(
            f"The answers about {','.join(found[0].attributes)} are bits ({found[0].encoding}), and a "
            "function of a record needs those of --encoding direct. Ask for --marginal."
        )
    return found[0]


def _proper_answers(query: Query, domain: Domain, sums: np.ndarray, rows: int) -> np.ndarray:
    """Return the nearest sums that some table of these rows has."""
    asked = Rows.of(query, domain)
    if asked.num_rows * domain.size() > _MOST_CELLS:
        raise ValueError(
            f"--proper looks through functions of {_MOST_CELLS:,} cells in all, and not of more."
        )
    found = []
    for function, value in zip(asked.matrix(), sums, strict=True):
        values = np.unique(function)
        step = _step(values)
        try:
            found.append(ProperEstimator(values, rows, step or 1.0).nearest([value / rows])[0] * rows)
        except ValueError:
            raise ValueError(
                f"--proper goes through all sums of {rows:,} values with differences of {step:g}, and "
                "there are too many: leave it out, or write coarser values."
            ) from None
    return np.array(found)


def _step(values: Sequence[float] | np.ndarray) -> float:
    """Return the largest number of which all differences are multiples, as values are meant; 0 for none.

    They are fractions such as 1/3, if they are near ones; else what is written with all digits or twelve, by
    which a product such as 0.1 * 0.3 is 0.03: the largest step of these.
    """
    exact = [float(value) for value in values]
    fractions = [Fraction(value).limit_denominator(_MOST_PARTS) for value in exact]
    readings = [[Fraction(f"{value!r}") for value in exact], [Fraction(f"{value:.12g}") for value in exact]]
    if all(
        abs(each - value) <= 1e-12 * max(1.0, abs(value))
        for each, value in zip(fractions, exact, strict=True)
    ):
        readings.append(fractions)
    return max(map(_common, readings))


def _common(written: Sequence[Fraction]) -> float:
    gaps = [each - written[0] for each in written[1:]]
    scale = math.lcm(*(gap.denominator for gap in gaps))
    return math.gcd(*(int(gap * scale) for gap in gaps)) / scale
