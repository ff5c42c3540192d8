"""Sums over responses for many cliques in one pass over their blocks."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.local.factor import Factor
from pgmjax.local.marginals import ResponseMarginal
from pgmjax.privacy.response import ResponseLaw

_ENTRIES = 1 << 23  # of the largest array that a step makes of a block


class Tally:
    """What responses say of some cliques, added up block by block.

    Args:
        domain: the domain of the records.
        groups: the groups of attributes that were answered for.
        laws: the law of each group's answers.
        cliques: lists of attributes, each of which lies in one of the groups.

    Raises:
        ValueError: a clique with an attribute that no group has.
    """

    def __init__(
        self,
        domain: Domain,
        groups: Sequence[Clique],
        laws: Sequence[ResponseLaw],
        cliques: Sequence[Clique],
    ):
        self._domain = domain
        self._groups = tuple(groups)
        self._laws = tuple(laws)
        self._parts = [(clique, parts_of(self._groups, clique)) for clique in cliques]
        self._factors = [factors_of(domain, self._groups, self._laws, clique) for clique in cliques]
        self._sums = [
            np.zeros([factor.size + 1 for factor in factors], np.int64) for factors in self._factors
        ]
        self.rows = 0

    def add(self, block: Sequence[np.ndarray]) -> None:
        """Take in the answers of some records: for each group categories [rows] or bits [rows, size]."""
        rows = len(block[0])
        self.rows += rows
        numbers = functools.cache(lambda group, part: self._numbers(block[group], group, part))
        for sums, (_, parts) in zip(self._sums, self._parts, strict=True):
            answers = [numbers(group, part) for group, part in parts]
            if all(answer.ndim == 1 for answer in answers):
                _count_codes(sums, answers)
            else:
                _count_products(sums, answers, rows)

    def marginals(self) -> list[ResponseMarginal]:
        """Return what was added up, one marginal a clique."""
        return [
            ResponseMarginal(self._domain, clique, self.rows, factors, sums.copy())
            for (clique, _), factors, sums in zip(self._parts, self._factors, self._sums, strict=True)
        ]

    def _numbers(self, answers: np.ndarray, group: int, part: Clique) -> np.ndarray:
        """Answers of a group as cells of some of its attributes [rows], or as sums of bits [rows, cells]."""
        names = self._groups[group]
        if part == names:
            return answers
        shape = self._domain.shape_of(names)
        if answers.ndim == 1:
            digits = np.unravel_index(answers.astype(np.intp), shape)
            kept = tuple(digits[names.index(name)] for name in part)
            return np.ravel_multi_index(kept, self._domain.shape_of(part))
        order = [name for name in names if name in part]
        gone = tuple(axis for axis, name in enumerate(names, start=1) if name not in part)
        merged = answers.reshape(len(answers), *shape).sum(axis=gone, dtype=np.int32)
        return merged.transpose(0, *(1 + order.index(name) for name in part)).reshape(len(answers), -1)


def parts_of(groups: Sequence[Clique], clique: Clique) -> tuple[tuple[int, Clique], ...]:
    """Return the groups that a clique's attributes lie in, each with those attributes in the clique's order.

    Raises:
        ValueError: an attribute that no group has.
    """
    group_of = {name: number for number, group in enumerate(groups) for name in group}
    for name in clique:
        if name not in group_of:
            raise ValueError(
                f"There are no responses about {name!r}, only about {', '.join(map(repr, group_of))}."
            )
    numbers = dict.fromkeys(group_of[name] for name in clique)
    return tuple((number, tuple(n for n in clique if group_of[n] == number)) for number in numbers)


def factors_of(
    domain: Domain, groups: Sequence[Clique], laws: Sequence[ResponseLaw], clique: Clique
) -> tuple[Factor, ...]:
    """Return how the groups that a clique's attributes lie in answer about them.

    Raises:
        ValueError: an attribute that no group has.
    """
    return tuple(Factor.of(laws[group], domain, part) for group, part in parts_of(groups, clique))


def _count_codes(sums: np.ndarray, answers: Sequence[np.ndarray]) -> None:
    inner = tuple(size - 1 for size in sums.shape)
    codes = answers[0].astype(np.intp)
    for answer, size in zip(answers[1:], inner[1:], strict=True):
        codes = codes * size + answer
    table = np.bincount(codes, minlength=int(np.prod(inner))).reshape(inner)
    for axis in range(table.ndim):
        table = np.concatenate([table, table.sum(axis=axis, keepdims=True)], axis=axis)
    sums += table


def _count_products(sums: np.ndarray, answers: Sequence[np.ndarray], rows: int) -> None:
    """Add up products of the answers' numbers, with a 1 behind each record's numbers."""
    if len(answers) == 1:
        sums[:-1] += answers[0].sum(axis=0, dtype=np.int64)
        sums[-1] += rows
        return
    step = max(1, min(_ENTRIES, rows * sums.size) // sums.size)
    for start in range(0, rows, step):
        parts = [
            _spread(answer[start : start + step], size - 1)
            for answer, size in zip(answers, sums.shape, strict=True)
        ]
        left = parts[0]
        for part in parts[1:-1]:
            left = (left[:, :, None] * part[:, None, :]).reshape(len(left), -1)
        added = left.T @ parts[-1]  # of whole numbers below 2^53: exact
        sums += np.rint(added).astype(np.int64).reshape(sums.shape)


def _spread(answer: np.ndarray, size: int) -> np.ndarray:
    """Numbers of each cell and a 1, float64 [rows, size + 1]."""
    numbers = np.ones((len(answer), size + 1))
    if answer.ndim == 1:
        numbers[:, :-1] = 0
        numbers[np.arange(len(answer)), answer.astype(np.intp)] = 1
    else:
        numbers[:, :-1] = answer
    return numbers
