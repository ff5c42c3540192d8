"""Conditions on the attributes of perturbed records: unbiased shares of the records that satisfy them.

A condition allows some values of each attribute it names. Its attributes may lie in several groups that were
perturbed separately: the answers of a record about them are independent, so that a product of unbiased
estimates, one per group, is an unbiased estimate for the record.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.progress import Progress
from pgmjax.data.counting import check_memory
from pgmjax.data.domain import Clique, as_clique
from pgmjax.local.answers import UnbiasedAnswers, refuse_useless
from pgmjax.local.channel import Channel
from pgmjax.local.marginals import marginals_of, parts_of
from pgmjax.model.base import evidence_masks


def answer_conditions(
    responses: Any,
    conditions: Sequence[Mapping[str, Sequence[int]]],
    *,
    useless: str = "refuse",
    show_progress: bool | None = False,
) -> UnbiasedAnswers:
    """Return the shares of the records that satisfy conditions, in one pass over the responses.

    A record's estimate Z of whether it satisfies a condition has mean 0 or 1, so that Z^2 - Z is an unbiased
    estimate of its variance.

    Args:
        responses: a perturbed table, or a stream of responses that no ledger keeps, which is consumed.
        conditions: for each condition the value or values that it allows, by attribute, as
            `GraphicalModel.condition` reads them; it holds where each of these attributes has one of them.
        useless: "refuse" answers that are too noisy, or "answer" them anyway.
        show_progress: whether to show a progress bar; None shows it only in terminals.

    Raises:
        TypeError: a condition that is not a mapping.
        ValueError: no condition, one without attributes, an attribute that no group of the responses has, or
            no value or one outside the domain.
        UselessAnswerError: some answers are too noisy.

    References:
        Wang, Blocki, Li and Jha 2017, Theorem 2 (one group).

    Example:
        >>> from pgmjax.data.domain import Domain
        >>> from pgmjax.local.table import PerturbedTable, ResponseColumn
        >>> from pgmjax.privacy.response import KaryResponse
        >>> column = ResponseColumn(("a",), "direct", KaryResponse(4, 0.25), 3, np.array([0, 3, 3, 1]))
        >>> table = PerturbedTable(Domain({"a": 4}), (column,), 4, False, 0)
        >>> answer_conditions(table, [{"a": [2, 3]}], useless="answer").value.round(3).tolist()
        [0.5]
    """
    if not hasattr(responses, "distributions"):
        raise TypeError(f"responses must be a perturbed table, got {type(responses).__name__}: see perturb.")
    planned = [_planned(responses, each) for each in checks.several("conditions", conditions, "mappings")]
    if not planned:
        raise ValueError("There is no condition: give at least one, such as {'age': [0, 1]}.")
    sums = np.zeros((2, len(planned)))
    with Progress("counting", responses.rows, show_progress) as progress:
        for block in responses.blocks():
            digits = functools.cache(functools.partial(_digits, responses, block))
            for number, parts in enumerate(planned):
                estimate = math.prod(part.estimate(block[part.group], digits) for part in parts)
                sums[:, number] += np.sum(estimate), np.sum(estimate**2 - estimate)
            progress.advance(len(block[0]))
    values, variances = sums[0] / responses.rows, sums[1] / responses.rows**2
    limits = [_limits([(part.channel, part.cells) for part in parts]) for parts in planned]
    return refuse_useless(_answers(values, variances, limits, responses.rows), useless)


def answer_cells(
    responses: Any, clique: Any, *, useless: str = "refuse", show_progress: bool | None = False
) -> UnbiasedAnswers:
    """Return the shares of the records in the cells of a clique, with bounds that hold for every table.

    Estimates and variances are those of `marginals_of`.

    Args:
        responses: a perturbed table, or a stream of responses, which is consumed.
        clique: attributes of the groups of the responses.
        useless: "refuse" answers that are too noisy, or "answer" them anyway.
        show_progress: whether to show a progress bar; None shows it only in terminals.

    Returns:
        One answer per cell, row-major in the order of the clique.

    Raises:
        ValueError: an attribute that no group has, or more cells than memory holds.
        UselessAnswerError: some answers are too noisy.

    Example:
        >>> from pgmjax.data.domain import Domain
        >>> from pgmjax.local.table import PerturbedTable, ResponseColumn
        >>> from pgmjax.privacy.response import KaryResponse
        >>> column = ResponseColumn(("a",), "direct", KaryResponse(4, 0.25), 3, np.array([0, 3, 3, 1]))
        >>> table = PerturbedTable(Domain({"a": 4}), (column,), 4, False, 0)
        >>> answer_cells(table, ["a"], useless="answer").value.round(3).tolist()
        [0.25, 0.25, -0.125, 0.625]
    """
    wanted = as_clique(responses.domain, clique)
    parts = parts_of(responses.groups, wanted)
    check_memory(responses.domain, [wanted])
    channels = [Channel.of(responses.distributions[group]) for group, _ in parts]
    inside = [
        channel.size // responses.domain.size(names)
        for channel, (_, names) in zip(channels, parts, strict=True)
    ]
    limits = _limits(list(zip(channels, inside, strict=True)))
    (marginal,) = marginals_of(responses, [wanted], show_progress=show_progress)
    values, rows = marginal.estimate().reshape(-1) / responses.rows, responses.rows
    variances = marginal.variance().reshape(-1) / rows**2
    return refuse_useless(_answers(values, variances, [limits] * len(values), rows), useless)


@dataclasses.dataclass(frozen=True)
class _Part:
    """The part of a condition on the attributes of one group.

    Attributes:
        group: number of the group.
        attributes: the attributes of the group.
        channel: the channel of the group's answers.
        allowed: for each attribute of the group whether the condition allows a code, bool [size].
    """

    group: int
    attributes: Clique
    channel: Channel
    allowed: tuple[np.ndarray, ...]

    @property
    def cells(self) -> int:
        """The number of the group's cells that the condition allows."""
        return math.prod(int(each.sum()) for each in self.allowed)

    def estimate(self, answers: np.ndarray, digits: Any) -> np.ndarray:
        """Return each record's unbiased estimate of whether it satisfies the part, float64 [rows].

        Args:
            answers: the group's answers: categories [rows] or bits [rows, size].
            digits: function of a group's number that returns codes [rows] by attribute.
        """
        if answers.ndim == 1:
            codes = digits(self.group)
            hits = functools.reduce(
                np.logical_and,
                (each[codes[i]] for i, each in enumerate(self.allowed) if not each.all()),
                np.ones(len(answers), bool),
            )
        else:
            cells = functools.reduce(np.multiply.outer, self.allowed).reshape(-1)
            hits = np.count_nonzero(answers[:, cells], axis=1)
        return (hits - self.channel.other * self.cells) / self.channel.gap


def _planned(responses: Any, condition: Any) -> list[_Part]:
    domain = responses.domain
    allowed = {name: mask == 0 for name, mask in evidence_masks(domain, condition, "a condition").items()}
    if not allowed:
        raise ValueError("A condition needs at least one attribute, such as {'age': [0, 1]}.")
    parts = []
    for group, _ in parts_of(responses.groups, tuple(allowed)):
        names = responses.groups[group]
        masks = tuple(allowed.get(name, np.ones(domain[name], bool)) for name in names)
        parts.append(_Part(group, names, Channel.of(responses.distributions[group]), masks))
    return parts


def _digits(responses: Any, block: Sequence[np.ndarray], group: int) -> tuple[np.ndarray, ...]:
    """Return a group's answered categories as codes [rows] of its attributes."""
    shape = responses.domain.shape_of(responses.groups[group])
    return np.unravel_index(block[group].astype(np.intp), shape)


def _limits(parts: Sequence[tuple[Channel, int]]) -> tuple[float, float]:
    """Return the largest variance of one record's estimate over all records, and the width of its range.

    Args:
        parts: for each group its channel, and the number of its cells that the condition allows.
    """
    inside, outside, low, high = [], [], 1.0, 1.0
    for channel, cells in parts:
        # mean squares for a record with a cell that is allowed (mean 1), and for another (mean 0)
        inside.append(float(channel.variance(1.0, cells, cells)) + 1)
        outside.append(float(channel.variance(0.0, cells, cells)) if cells < channel.size else 0.0)
        most = 1 if channel.exclusive else cells
        least = 1 if channel.exclusive and cells == channel.size else 0
        ends = [(hits - channel.other * cells) / channel.gap for hits in (least, most)]
        products = [one * other for one in (low, high) for other in ends]
        low, high = min(products), max(products)
    largest = list(map(max, inside, outside))
    worst = [math.prod(inside) - 1]
    worst += [b * math.prod(largest[:i] + largest[i + 1 :]) for i, b in enumerate(outside)]
    return max(0.0, *worst), high - low


def _answers(
    values: np.ndarray, variances: np.ndarray, limits: Sequence[tuple[float, float]], rows: int
) -> UnbiasedAnswers:
    worst, width = np.array(limits).T
    bound = width**2 / 4
    return UnbiasedAnswers(
        value=values,
        variance=variances,
        exact=np.zeros(len(values), bool),
        worst_variance=np.minimum(worst, bound) / rows,
        variance_bound=bound / rows,
        low=np.zeros(len(values)),
        high=np.ones(len(values)),
        largest_step=width / rows,
    )
