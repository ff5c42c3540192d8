"""Statistical queries with another function for every row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.local.answers import Answers
from pgmjax.local.channel import Channel
from pgmjax.local.codes import Perturbed, blocks, law_of
from pgmjax.local.pieces import Function, Pieces

_BLOCK_NUMBERS = 1 << 22


def answer_rows(
    table: Perturbed, functions: Any, queries: int | None = None, *, useless: str = "refuse"
) -> Answers:
    """Return answers to means over rows of functions that differ from row to row.

    The rows' order must be public: the functions say whose answer they are applied to.

    Args:
        table: perturbed codes and their law; see `PerturbedCodes`.
        functions: values at every category: an array [rows, size] (one query) or [queries, rows, size], or
            a function of (first row, last row + 1) that returns those rows' values, for tables whose
            functions do not fit in memory.
        queries: the number of queries; needed where `functions` is a function, which then returns
            [queries, rows, size].
        useless: "refuse" answers whose noise exceeds any use, or "answer" them too.

    Raises:
        ValueError: shapes that do not fit the rows and categories, or values that are not finite.
        UselessAnswerError: the noise exceeds any use.

    References:
        Wang, Ying and Zhang 2016, equations 17 and 18.

    Example:
        >>> from pgmjax.local.codes import PerturbedCodes
        >>> from pgmjax.privacy.response import RandomizedResponse
        >>> table = PerturbedCodes(RandomizedResponse(2, 0.25), np.array([0, 1, 1]))
        >>> functions = np.array([[0, 1], [0, 2], [1, 0]])  # [rows, size]
        >>> answer_rows(table, functions, useless="answer").value.round(3).tolist()
        [0.667]
    """
    law = law_of(table)
    size = law.size
    made, queries = _source(functions, queries)
    pieces = Pieces(Channel.of(law), queries)
    step = max(1, _BLOCK_NUMBERS // (queries * size))
    whole = slice(0, queries)
    for first, block in blocks(table):
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
    array = np.asarray(values)
    if array.dtype.kind not in "buif":
        raise TypeError(f"functions must hold real numbers, got {array.dtype}.")
    if array.shape != shape:
        raise ValueError(f"functions must have the shape {shape} for these rows, got {array.shape}.")
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise ValueError("functions must be finite: bounded row functions are what can be answered.")
    return array
