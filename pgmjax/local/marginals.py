"""Marginals from randomised responses: unbiased counts, their covariance, and a measurement.

`marginals_of` takes a perturbed table or a stream of responses, and sums them for cliques in one pass.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pgmjax._internal.migration import instead
from pgmjax._internal.progress import Progress
from pgmjax.data.domain import Clique, Domain, as_clique, marginal_of
from pgmjax.local.channel import Channel, predicted_error
from pgmjax.measurements.inputs import Input
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.privacy.responding import Block, Responses
from pgmjax.privacy.response import ResponseDistribution
from pgmjax.queries import Product, Query, WeightedSum, identity, matrix
from pgmjax.queries.blocks import AttributeQuery

LARGEST_COVARIANCE = 4096
NOISE = "response"
_LEAST_VARIANCE = 1e-12  # per record: if almost nobody lies, the difference in `_stddev` cancels

_ENTRIES = 1 << 23  # bound on the entries of an array in `_count_products`


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class ResponseMarginal:
    """Estimates of a clique's marginal from responses; post-processing that costs no further budget.

    Attributes:
        domain: the domain with the attributes' sizes.
        clique: the attributes, in the order of the tables' axes.
        rows: the number of records, public.
        factors: the channel of each group of attributes; together they cover the clique.
        sums: int64, one axis per factor, with an entry for each of its cells and a last one that leaves the
            factor out (the sums over the other factors alone). [-1, ..., -1] is `rows`.
        inputs: what it was computed from, with cost and security; () if nobody stated that.

    References:
        Wang, Blocki, Li and Jha 2017, Theorem 2 (estimates of pure protocols).

    Example:
        >>> from fractions import Fraction
        >>> from pgmjax.privacy.response import response_for
        >>> domain = Domain({"a": 2})
        >>> channel = Channel.of(response_for(2, Fraction(1)), domain, ("a",))
        >>> marginal = ResponseMarginal(domain, ("a",), 10, (channel,), np.array([7, 3, 10]))
        >>> marginal.estimate().round(2).tolist(), marginal.variance().round(2).tolist()
        ([9.33, 0.67], [9.21, 9.21])
    """

    domain: Domain
    clique: Clique
    rows: int
    factors: tuple[Channel, ...]
    sums: np.ndarray
    inputs: tuple[Input, ...] = ()

    __array__ = instead(
        "Responses are no counts yet: estimate() gives unbiased counts, and counts() how many gave each "
        "answer."
    )

    def counts(self) -> np.ndarray:
        """Return the number of answers for each cell, int64, in the shape of the clique."""
        return self._in_order(self.sums[(slice(-1),) * self.sums.ndim])

    def estimate(self) -> np.ndarray:
        """Return unbiased counts, float64, in the shape of the clique; some may be negative."""
        return self._in_order(self._unbiased()[(slice(-1),) * self.sums.ndim])

    def variance(self) -> np.ndarray:
        """Return unbiased estimates of the estimate's variances, in the shape of the clique.

        For a single attribute, the variance of a cell does not depend on the other cells: it is
        n d + (c - d - 1) x with the mean squares c and d of `Channel.unbiased_squares`. Estimates may be
        negative.
        """
        own, other = zip(*(factor.unbiased_squares for factor in self.factors), strict=True)
        unbiased = self._unbiased()
        return self._in_order(_contract(unbiased, own, other) - unbiased[(slice(-1),) * unbiased.ndim])

    def predicted_error(self) -> float:
        """Return a bound on an estimated fraction's standard deviation; see `channel.predicted_error`."""
        return predicted_error(self.factors, self.rows)

    def covariance(self, counts: np.ndarray | None = None) -> np.ndarray:
        """Return the covariance of the estimate, float64 [cells, cells], row-major in the clique's order.

        Args:
            counts: counts of a table, in the shape of the clique, for the exact covariance under that table.
                Default: an unbiased estimate from the responses.

        Raises:
            ValueError: more than 4096 cells, or counts of the wrong shape.
        """
        cells = math.prod(factor.size for factor in self.factors)
        if cells > LARGEST_COVARIANCE:
            raise ValueError(
                f"A covariance of {cells:,} cells is too large to write out: expected at most "
                f"{LARGEST_COVARIANCE:,}. Use variance(), or a smaller clique."
            )
        full = self._unbiased() if counts is None else _extended(self._factored(counts))
        known = full[(slice(-1),) * full.ndim]
        for axis, factor in enumerate(self.factors):
            full = _pairs(full, 2 * axis, factor)
        order = [*range(0, full.ndim, 2), *range(1, full.ndim, 2)]
        square = full.transpose(order).reshape(cells, cells) - np.diag(known.reshape(-1))
        place = self._in_order(np.arange(cells).reshape(known.shape)).reshape(-1)
        return square[np.ix_(place, place)]

    def query(self) -> Query:
        """Return the linear query that `counts` answer without bias, from the channels' matrices."""
        if all(len(factor.attributes) == 1 for factor in self.factors):
            blocks = {factor.attributes[0]: matrix(factor.matrix()) for factor in self.factors}
            return Product({name: blocks[name] for name in self.clique})
        ones = {name: matrix(np.ones((self.domain[name],) * 2)) for name in self.clique}
        terms = []
        for kept in itertools.product((True, False), repeat=len(self.factors)):
            chosen = list(zip(self.factors, kept, strict=True))
            coefficient = math.prod(factor.gap if keep else factor.other for factor, keep in chosen)
            keeps = {name: keep for factor, keep in chosen for name in factor.attributes}
            kept_or_summed: dict[str, AttributeQuery] = {
                name: identity() if keeps[name] else ones[name] for name in self.clique
            }
            terms.append((coefficient, Product(kept_or_summed)))
        return WeightedSum(terms)

    def measurement(self) -> LinearMeasurement:
        """Return the counts as a measurement for an estimator.

        The standard deviation of a count is that of its exact distribution (a sum of independent bits, one
        per record) for the estimated table, with negative counts set to 0. Correlations are ignored.
        """
        counts, stddev = self.counts().reshape(-1), self._stddev().reshape(-1)
        return LinearMeasurement(self.clique, counts, stddev, self.query(), NOISE, inputs=self.inputs)

    def _stddev(self) -> np.ndarray:
        """Return the standard deviations of the counts for the estimated table."""
        unbiased = self._unbiased()
        likely = np.maximum(unbiased[(slice(-1),) * unbiased.ndim], 0.0)
        total = likely.sum()
        likely = likely * (self.rows / total) if total > 0 else np.full(likely.shape, self.rows / likely.size)
        full = _extended(likely)
        own, other = zip(*(factor.squares for factor in self.factors), strict=True)
        squares = _contract(full, own, other)
        means = _contract(full, [f.truth**2 for f in self.factors], [f.other**2 for f in self.factors])
        return self._in_order(np.sqrt(np.maximum(squares - means, _LEAST_VARIANCE * self.rows)))

    def _unbiased(self) -> np.ndarray:
        """Return the sums with each factor's cells made unbiased; the last entry of each axis is kept."""
        table = self.sums.astype(np.float64)
        for axis, factor in enumerate(self.factors):
            along = np.moveaxis(table, axis, -1)  # a view
            along[..., :-1] = factor.unbiased(along[..., :-1], along[..., -1:])
        return table

    def _in_order(self, table: np.ndarray) -> np.ndarray:
        """Return a table [cells of each factor] in the shape of the clique."""
        names = [name for factor in self.factors for name in factor.attributes]
        split = table.reshape(self.domain.shape_of(names))
        return split.transpose([names.index(name) for name in self.clique])

    def _factored(self, counts: np.ndarray) -> np.ndarray:
        counts = np.asarray(counts, dtype=np.float64)
        shape = self.domain.shape_of(self.clique)
        if counts.shape != shape:
            raise ValueError(f"counts must have the shape of the clique, {shape}, got {counts.shape}.")
        names = [name for factor in self.factors for name in factor.attributes]
        ordered = counts.transpose([self.clique.index(name) for name in names])
        return ordered.reshape([factor.size for factor in self.factors])

    def __repr__(self) -> str:
        return (
            f"ResponseMarginal({self.clique}, {self.rows:,} records, predicted {self.predicted_error():.3g})"
        )


def _extended(table: np.ndarray) -> np.ndarray:
    """Append to each axis of a table the sum along it."""
    for axis in range(table.ndim):
        table = np.concatenate([table, table.sum(axis=axis, keepdims=True)], axis=axis)
    return table


def _contract(full: np.ndarray, own: Sequence[float], other: Sequence[float]) -> np.ndarray:
    """Weight each cell by `own` and all others by `other`, along each axis in turn."""
    for axis, (mine, theirs) in enumerate(zip(own, other, strict=True)):
        table = np.moveaxis(full, axis, 0)
        full = np.moveaxis(theirs * table[-1:] + (mine - theirs) * table[:-1], 0, axis)
    return full


def _pairs(full: np.ndarray, axis: int, factor: Channel) -> np.ndarray:
    """Replace an axis by two: mean products of two cells' unbiased numbers."""
    table = np.moveaxis(full, axis, 0)
    cells, total = table[:-1], table[-1]
    own, other = factor.unbiased_squares
    products = np.zeros((factor.size, *cells.shape))
    if factor.exclusive:
        # (0 - other) / gap, the unbiased number of a cell that a record does not answer
        shift = -factor.other / factor.gap
        products += shift * (cells[:, None] + cells[None, :]) - shift**2 * total
    diagonal = np.arange(factor.size)
    products[diagonal, diagonal] = own * cells + other * (total - cells)
    return np.moveaxis(products, (0, 1), (axis, axis + 1))


def marginals_of(
    responses: Any, cliques: Sequence[Any], *, show_progress: bool | None = False
) -> list[ResponseMarginal]:
    """Return estimated marginals of cliques, with their covariance, in one pass over the responses.

    Args:
        responses: a perturbed table, or a stream of responses, which is consumed; a ledger stores only the
            counts of a stream.
        cliques: lists of attributes, all in the groups of the responses.
        show_progress: whether to show a progress bar; None shows it only in terminals.

    Raises:
        ValueError: an attribute that is in no group.
    """
    domain, groups = responses.domain, responses.groups
    wanted = [as_clique(domain, clique) for clique in cliques]
    parts = [parts_of(groups, clique) for clique in wanted]
    factors = [factors_of(domain, groups, responses.distributions, clique) for clique in wanted]
    shapes = [[factor.size + 1 for factor in each] for each in factors]
    ends = np.cumsum([0, *map(math.prod, shapes)])

    def tables(sums: np.ndarray) -> list[np.ndarray]:
        pieces = itertools.pairwise(ends)
        return [sums[low:high].reshape(shape) for (low, high), shape in zip(pieces, shapes, strict=True)]

    def count(blocks: Iterator[Block]) -> np.ndarray:
        sums = np.zeros(ends[-1], np.int64)
        with Progress("counting", responses.rows, show_progress) as progress:
            for block in blocks:
                _count(tables(sums), domain, groups, parts, block)
                progress.advance(len(block[0]))
        return sums

    asked = {"tally": [list(clique) for clique in wanted]}
    sums = responses.counted(asked, count) if isinstance(responses, Responses) else count(responses.blocks())
    if sums.shape != (ends[-1],):
        raise ValueError(f"these sums are of other cliques: expected {ends[-1]:,}, got {sums.size:,}.")
    return [
        ResponseMarginal(domain, clique, responses.rows, each, table)
        for clique, each, table in zip(wanted, factors, tables(sums), strict=True)
    ]


def _count(
    tables: Sequence[np.ndarray],
    domain: Domain,
    groups: Sequence[Clique],
    parts: Sequence[tuple[tuple[int, Clique], ...]],
    block: Block,
) -> None:
    """Add a block of answers to the sums of each clique, of which `parts` names the groups."""

    # cliques share parts of groups, each of which is worked out once
    @functools.cache
    def numbers(group: int, part: Clique) -> np.ndarray:
        return _numbers(domain, groups[group], part, block[group])

    for sums, each in zip(tables, parts, strict=True):
        answers = [numbers(group, part) for group, part in each]
        if all(answer.ndim == 1 for answer in answers):
            _count_codes(sums, answers)
        else:
            _count_products(sums, answers, len(block[0]))


def _numbers(domain: Domain, names: Clique, part: Clique, answers: np.ndarray) -> np.ndarray:
    """Return a group's answers as cells of some of its attributes [rows] or sums of bits [rows, cells]."""
    if part == names:
        return answers
    shape = domain.shape_of(names)
    if answers.ndim == 1:
        digits = np.unravel_index(answers.astype(np.intp), shape)
        return np.ravel_multi_index([digits[names.index(name)] for name in part], domain.shape_of(part))
    bits = answers.reshape(len(answers), *shape)
    return marginal_of(("", *names), bits, ("", *part)).reshape(len(answers), -1)


def parts_of(groups: Sequence[Clique], clique: Clique) -> tuple[tuple[int, Clique], ...]:
    """Return the groups that contain a clique's attributes, each with those attributes in clique order.

    Raises:
        ValueError: an attribute that is in no group.
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
    domain: Domain, groups: Sequence[Clique], distributions: Sequence[ResponseDistribution], clique: Clique
) -> tuple[Channel, ...]:
    """Return the channels of the groups that contain a clique's attributes, merged to these attributes.

    Raises:
        ValueError: an attribute that is in no group.
    """
    return tuple(Channel.of(distributions[group], domain, part) for group, part in parts_of(groups, clique))


def _count_codes(sums: np.ndarray, answers: Sequence[np.ndarray]) -> None:
    inner = tuple(size - 1 for size in sums.shape)
    codes = answers[0].astype(np.intp)
    for answer, size in zip(answers[1:], inner[1:], strict=True):
        codes = codes * size + answer
    sums += _extended(np.bincount(codes, minlength=math.prod(inner)).reshape(inner))


def _count_products(sums: np.ndarray, answers: Sequence[np.ndarray], rows: int) -> None:
    """Add products of the answers' numbers, with a 1 appended to each record's numbers."""
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
        added = left.T @ parts[-1]  # integers below 2^53, so exact
        sums += np.rint(added).astype(np.int64).reshape(sums.shape)


def _spread(answer: np.ndarray, size: int) -> np.ndarray:
    """Return the number of each cell followed by a 1, float64 [rows, size + 1]."""
    numbers = np.ones((len(answer), size + 1))
    if answer.ndim == 1:
        numbers[:, :-1] = 0
        numbers[np.arange(len(answer)), answer.astype(np.intp)] = 1
    else:
        numbers[:, :-1] = answer
    return numbers
