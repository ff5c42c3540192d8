"""Statistical queries on perturbed codes: one function for all rows, or one for every row.

Queries on some attributes of a large universe are summed in closed form, without any array of its size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.history.kernel.inner_products import squared_norms
from pgmjax.history.rows import Rows
from pgmjax.local.answers import Function, SufficientStatistics, UnbiasedAnswers, real_functions
from pgmjax.local.codes import PerturbedCodes, Universe
from pgmjax.queries import Query

_BLOCK_NUMBERS = 1 << 22


def answer_queries(
    table: Any, universe: Universe, queries: Query | Iterable[Query] | Rows, *, useless: str = "refuse"
) -> UnbiasedAnswers:
    """Return answers to linear queries on cliques of the universe's attributes, as fractions of the rows.

    A product over attributes sums over the universe to the product of the attributes' sums; for example,
    a predicate on a set S of d bits sums to 2^(d - |S|). So the work does not grow with the number of cells.

    Args:
        table: perturbed codes of the universe's cells, and their distribution.
        universe: the attributes that the codes encode.
        queries: queries of `pgmjax.queries`; every row of each is one answer.
        useless: "refuse" answers that are too noisy, or "answer" them anyway.

    Raises:
        ValueError: a distribution of another size, or a query that does not fit the universe.
        UselessAnswerError: some answers are too noisy.

    References:
        Wang, Ying and Zhang 2016, the remark after Lemma 3.

    Example:
        >>> from pgmjax.local.codes import PerturbedCodes
        >>> from pgmjax.data.domain import Domain
        >>> from pgmjax.privacy.response import KaryResponse
        >>> from pgmjax.queries import Product, point
        >>> bits = Universe(Domain({f"b{k}": 2 for k in range(20)}))
        >>> table = PerturbedCodes(KaryResponse(bits.size, 0.01), np.zeros(100, dtype=np.int64))
        >>> both = Product({"b0": point(0), "b7": point(0)})
        >>> answer_queries(table, bits, both).value.round(4).tolist()
        [1.0076]
    """
    perturbed = PerturbedCodes.of(table)
    size = perturbed.distribution.size
    if size != universe.size:
        raise ValueError(
            f"the codes are of {size:,} categories and the universe has {universe.size:,} cells: "
            "give the universe that was perturbed."
        )
    rows = Rows.of(queries, universe.domain)
    pieces = SufficientStatistics(perturbed.channel, rows.num_rows)
    seen, squares = np.zeros(rows.num_rows), np.zeros(rows.num_rows)
    counts = np.zeros(universe.size, np.int64) if universe.size <= _BLOCK_NUMBERS else None
    for _, codes in perturbed.blocks():
        pieces.rows += codes.size
        if counts is not None:
            counts += np.bincount(codes, minlength=universe.size)
        else:
            _see(rows, universe, *np.unique(codes, return_counts=True), seen, squares)
    if counts is not None:
        cells = np.flatnonzero(counts)
        _see(rows, universe, cells, counts[cells], seen, squares)
    function = _about(rows)
    every = slice(0, rows.num_rows)
    pieces.add(every, np.array([pieces.rows]), function, seen[:, None], squares[:, None])
    return pieces.answers(useless)


def _see(
    rows: Rows,
    universe: Universe,
    cells: np.ndarray,
    counts: np.ndarray,
    seen: np.ndarray,
    squares: np.ndarray,
) -> None:
    """Add the sums over answers of the functions and of their squares."""
    step = max(1, _BLOCK_NUMBERS // max(rows.num_terms, 1))
    for start in range(0, len(cells), step):
        some = slice(start, start + step)
        decoded = np.stack(list(universe.decode(cells[some]).values()), axis=1)
        values = rows.evaluate(decoded)
        weights = counts[some].astype(np.float64)
        seen += weights @ values
        squares += weights @ values**2


def _about(rows: Rows) -> Function:
    """Return the summary of the functions over the universe, from one vector per attribute."""
    cells = rows.domain.size()
    parts = (cells * rows.mean(), cells * squared_norms(rows), *rows.extremes())
    return Function(*(part[:, None] for part in parts))


def answer_rows(
    table: Any, functions: Any, queries: int | None = None, *, useless: str = "refuse"
) -> UnbiasedAnswers:
    """Return estimates of means over rows of functions that differ from row to row.

    The order of the rows must be public, since each function is applied to the answer of a specific row.

    Args:
        table: perturbed codes and their distribution; see `PerturbedCodes`.
        functions: values at every category: an array [rows, size] (one query) or [queries, rows, size], or
            a function of (first row, last row + 1) that returns those rows' values, for functions that do
            not fit in memory.
        queries: number of queries; required if `functions` is a function, which then returns
            [queries, rows, size].
        useless: "refuse" answers that are too noisy, or "answer" them anyway.

    Raises:
        ValueError: shapes that do not fit the rows and categories, values that are not finite, or a table
            whose rows are sorted.
        UselessAnswerError: some answers are too noisy.

    References:
        Wang, Ying and Zhang 2016, equations 17 and 18.

    Example:
        >>> from pgmjax.local.codes import PerturbedCodes
        >>> from pgmjax.privacy.response import KaryResponse
        >>> table = PerturbedCodes(KaryResponse(2, 0.25), np.array([0, 1, 1]))
        >>> functions = np.array([[0, 1], [0, 2], [1, 0]])  # [rows, size]
        >>> answer_rows(table, functions, useless="answer").value.round(3).tolist()
        [0.667]
    """
    perturbed = PerturbedCodes.in_row_order(table)
    size = perturbed.distribution.size
    made, queries = _source(functions, queries)
    pieces = SufficientStatistics(perturbed.channel, queries)
    step = max(1, _BLOCK_NUMBERS // (queries * size))
    whole = slice(0, queries)
    for first, block in perturbed.blocks():
        for start in range(0, block.size, step):
            codes = block[start : start + step]
            begin = first + start
            values = _checked(made(begin, begin + codes.size), (queries, codes.size, size))
            at = np.broadcast_to(codes.astype(np.intp)[None, :, None], (queries, codes.size, 1))
            seen = np.take_along_axis(values, at, axis=-1)[..., 0]
            pieces.add(whole, np.ones(codes.size), Function.of(values), seen, seen**2)
            pieces.rows += codes.size
    given = pieces.rows if callable(functions) else np.shape(functions)[-2]
    if given != pieces.rows:
        raise ValueError(f"functions must have a row for each of {pieces.rows:,} answers, got {given:,}.")
    return pieces.answers(useless)


def _source(functions: Any, queries: int | None) -> tuple[Callable[[int, int], Any], int]:
    if callable(functions):
        if queries is None:
            raise ValueError("queries must say how many queries there are where functions is a function.")
        return functions, checks.integer("queries", queries, low=1)
    array = np.asarray(functions)
    if array.ndim == 2:
        array = array[None]
    if array.ndim != 3 or not len(array):
        raise ValueError(
            f"functions must have the shape [rows, size] or [queries, rows, size], got {array.shape}."
        )
    return (lambda start, stop: array[:, start:stop]), len(array)


def _checked(values: Any, shape: tuple[int, int, int]) -> np.ndarray:
    array = real_functions(values)
    if array.shape != shape:
        raise ValueError(f"functions must have the shape {shape} for these rows, got {array.shape}.")
    return array.astype(np.float64)
