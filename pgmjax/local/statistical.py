"""Statistical queries on perturbed codes: one function for all rows, for each group, or for every row.

Functions of groups are answered from a histogram per group, by products.

Queries on some attributes of a large universe are summed in closed form, without any array of its size.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.progress import Progress
from pgmjax.history.kernel.inner_products import squared_norms
from pgmjax.history.rows import Rows
from pgmjax.local.answers import Function, SufficientStatistics, UnbiasedAnswers, real_functions
from pgmjax.local.channel import Channel
from pgmjax.local.codes import PerturbedCodes, Universe, whole_numbers
from pgmjax.privacy.response import KaryResponse, checked_response
from pgmjax.queries import Query

_BLOCK_NUMBERS = 1 << 22
MAX_CELLS = 1 << 28
"""Largest total number of cells of histograms (2 GB)."""


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


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class GroupHistograms:
    """Counts of the answers per category in every group of rows.

    Attributes:
        distribution: the distribution of the answers.
        counts: int64 [groups, size].
    """

    distribution: KaryResponse
    counts: np.ndarray

    @property
    def channel(self) -> Channel:
        """The channel of the answers."""
        return Channel.of(checked_response(self.distribution))

    @property
    def groups(self) -> int:
        """The number of groups."""
        return len(self.counts)

    @property
    def rows(self) -> np.ndarray:
        """The number of rows of each group, int64 [groups]."""
        return self.counts.sum(axis=1)

    def unbiased(self) -> np.ndarray:
        """Return unbiased counts of true categories, float64 [groups, size]; some may be negative."""
        return self.channel.unbiased(self.counts)

    def answer(self, functions: Any, assignment: Any = None, *, useless: str = "refuse") -> UnbiasedAnswers:
        """Return estimates of the mean over all rows of each query's functions.

        Args:
            functions: values of the functions at every category. [queries, size]: one function per query,
                for all rows. [queries, groups, size]: one function per group. With an assignment, a list
                of functions [functions, size] to choose from.
            assignment: number of the function of each query on each group, int [queries, groups].
            useless: "refuse" answers that are too noisy, or "answer" them anyway.

        Raises:
            TypeError: functions that are not real numbers, or an assignment that is not of integers.
            ValueError: mismatched shapes, values that are not finite, or an assignment out of range.
            UselessAnswerError: some answers are too noisy.

        References:
            Wang, Ying and Zhang 2016, equations 17 and 18.

        Example:
            >>> from pgmjax.local.codes import PerturbedCodes
            >>> table = PerturbedCodes(KaryResponse(4, 0.25), np.array([0, 3, 3, 1]))
            >>> seen = group_histograms(table, groups=[0, 0, 1, 1])
            >>> seen.answer(np.eye(4)[:2], useless="answer").value.round(3).tolist()
            [0.25, 0.25]
        """
        functions = self._of_groups(functions, assignment)
        if assignment is not None:
            return self._assigned(functions, assignment, useless)
        if functions.ndim == 2:
            return GroupHistograms(self.distribution, self.counts.sum(axis=0, keepdims=True)).answer(
                functions[:, None, :], useless=useless
            )
        pieces = SufficientStatistics(self.channel, len(functions))
        pieces.rows = int(self.counts.sum())
        counts = self.counts.astype(np.float64)
        step = max(1, _BLOCK_NUMBERS // max(counts.size, 1))
        for start in range(0, len(functions), step):
            block = np.asarray(functions[start : start + step], dtype=np.float64)
            weighted = block * counts
            seen = weighted.sum(axis=-1)
            weighted *= block
            where = slice(start, start + len(block))
            pieces.add(where, self.rows, Function.of(block), seen, weighted.sum(axis=-1))
        return pieces.answers(useless)

    def _assigned(self, functions: np.ndarray, assignment: Any, useless: str) -> UnbiasedAnswers:
        """Answer queries by assignment; products are computed once for each function and group."""
        chosen = whole_numbers("assignment", assignment, len(functions), axes=2)
        if chosen.shape[1] != self.groups:
            raise ValueError(
                f"assignment must have the shape [queries, {self.groups} groups], got {chosen.shape}."
            )
        counts = self.counts.astype(np.float64)
        seen, squares = functions @ counts.T, functions**2 @ counts.T
        about = Function.of(functions)
        pieces = SufficientStatistics(self.channel, len(chosen))
        pieces.rows = int(self.counts.sum())
        step = max(1, _BLOCK_NUMBERS // max(self.groups, 1))
        every = np.arange(self.groups)
        for start in range(0, len(chosen), step):
            which = chosen[start : start + step]
            parts = (about.sums, about.squares, about.low, about.high)
            function = Function(*(part[which] for part in parts))
            where = slice(start, start + len(which))
            pieces.add(where, self.rows, function, seen[which, every], squares[which, every])
        return pieces.answers(useless)

    def _of_groups(self, functions: Any, assignment: Any) -> np.ndarray:
        array = real_functions(functions)
        size = self.distribution.size
        expected = f"[queries, {size}] or [queries, {self.groups} groups, {size}]"
        fits = array.ndim == 2 or (
            array.ndim == 3 and assignment is None and array.shape[1] in (1, self.groups)
        )
        if not fits or array.shape[-1] != size or not len(array):
            raise ValueError(f"functions must have the shape {expected}, got {array.shape}.")
        return array if array.ndim == 3 else array.astype(np.float64)

    def __repr__(self) -> str:
        return f"GroupHistograms({self.groups:,} groups of {self.distribution.size:,} categories)"


def group_histograms(
    table: Any,
    groups: Any = None,
    number: int | None = None,
    *,
    progress: bool | None = None,
) -> GroupHistograms:
    """Count the answers of every group of rows, block by block.

    Args:
        table: perturbed codes and their distribution; see `PerturbedCodes`.
        groups: the group of each row, which must be public: integers [rows], or a function of (first row,
            last row + 1) that returns them. Default: one group of all rows.
        number: number of groups; required if `groups` is a function. Default: the largest group plus one.
        progress: whether to show a progress bar. Default: in terminals and notebooks.

    Raises:
        TypeError: groups that are not integers.
        ValueError: too many cells, groups outside 0..number-1, not one group per row, or groups of a table
            whose rows are sorted.
    """
    perturbed = (PerturbedCodes.of if groups is None else PerturbedCodes.in_row_order)(table)
    distribution, size = perturbed.distribution, perturbed.distribution.size
    given = groups if groups is None or callable(groups) else np.asarray(groups)
    number = _number(given, number)
    if number * size > MAX_CELLS:
        raise ValueError(
            f"histograms of {number:,} groups over {size:,} categories have {number * size:,} cells, above "
            f"the limit of {MAX_CELLS:,}: use answer_queries or answer_rows, which write out no histogram."
        )
    counts = np.zeros(number * size, dtype=np.int64)
    rows = 0
    with Progress("histograms of groups", show=progress) as bar:
        for start, codes in perturbed.blocks():
            cells = codes
            if given is not None:
                where = _groups_of(given, start, codes.size, number)
                cells = where.astype(np.int64) * size + codes
            counts += np.bincount(cells, minlength=counts.size)
            rows += codes.size
            bar.advance(codes.size)
    if isinstance(given, np.ndarray) and len(given) != rows:
        raise ValueError(f"groups must name a group for each of the {rows:,} rows, got {len(given):,}.")
    return GroupHistograms(distribution, counts.reshape(number, size))


def _number(groups: Any, number: int | None) -> int:
    if groups is None:
        return 1
    if number is None and isinstance(groups, np.ndarray):
        return int(groups.max(initial=0)) + 1
    if number is None:
        raise ValueError("number must say how many groups there are where groups is a function.")
    return checks.integer("number", number, low=1)


def _groups_of(groups: Any, start: int, rows: int, number: int) -> np.ndarray:
    stop = start + rows
    given = groups[start:stop] if isinstance(groups, np.ndarray) else groups(start, stop)
    where = whole_numbers("groups", given, number)
    if len(where) != rows:
        raise ValueError(f"groups must name a group for each row: {rows:,} integers were expected here.")
    return where
