"""Answers to factored queries by contracting their factors into the model.

The factor of an attribute is added as a table over the attribute and the query's rows, so that the
attribute is summed out as early as possible and the marginal is never built. Tables are in log
space. A factor with negative entries is split into its positive and negative parts, which are
contracted separately and then subtracted.

References:
    McKenna et al. 2019, Algorithm 3 (Appendix B).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.attribute import Code, code_of
from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.inference.oracles.host import HostModel
from pgmjax.inference.plan.forecast import USUAL
from pgmjax.inference.plan.structure import Variables
from pgmjax.queries import AttributeQuery, DenseMatrix, Query
from pgmjax.queries import text as query_text

Part = TypeVar("Part")


def answer(
    domain: Domain, host: HostModel, numbers: Callable[[Clique], Variables], query: Query
) -> np.ndarray:
    """Expected answers to a query for one record, in the query's shape.

    Args:
        domain: the attributes.
        host: the model.
        numbers: maps attribute names to variables of the model.
        query: the query.
    """
    USUAL.require_cells(query.num_rows(domain), "the answer")
    if isinstance(query, DenseMatrix):
        USUAL.require_cells(domain.size(query.clique), f"the marginal of {query.clique}")
        return np.asarray(query.apply(host.marginal(numbers(query.clique))))
    result = np.zeros(query.shape(domain))
    for coefficient, factors in query.factors(domain):
        blocks = [(name, factors[name]) for name in query.clique]
        result += coefficient * _product(domain, host, numbers, blocks)
    return result


def _product(
    domain: Domain,
    host: HostModel,
    numbers: Callable[[Clique], Variables],
    blocks: list[tuple[str, AttributeQuery]],
) -> np.ndarray:
    """Answers to one Kronecker product [rows of each block]."""
    output: list[int] = []
    options: list[list[tuple[int, np.ndarray, Variables]]] = []  # signed log-tables of each factor
    new = len(host.structure.sizes)
    for name, block in blocks:
        (variable,) = numbers((name,))
        if block.kind == "identity":
            output.append(variable)
            continue
        USUAL.require_cells(block.rows(domain[name]) * domain[name], f"the query's matrix on {name!r}")
        matrix = block.matrix(domain[name]).astype(np.float64)
        signs = (1, -1) if (matrix < 0).any() else (1,)
        with np.errstate(divide="ignore"):
            options.append([(s, np.log(np.maximum(s * matrix, 0)), (new, variable)) for s in signs])
        output.append(new)
        new += 1
    shape = tuple(block.rows(domain[name]) for name, block in blocks)
    result = np.zeros(shape)
    for parts in itertools.product(*options):
        extra = [(table, variables) for _, table, variables in parts]
        logs = host.log_sum(tuple(output), extra) - host.log_partition
        result += math.prod(sign for sign, _, _ in parts) * np.exp(logs)
    return result


def contradicting(parts: Sequence[Part], impossible: Callable[[Sequence[Part]], bool]) -> list[Part]:
    """The fewest parts, in the sense that none can be left out, that are impossible together.

    Args:
        parts: impossible all together.
        impossible: whether some of them are; if some parts are impossible, more parts are, too.

    References:
        Junker, QuickXplain: preferred explanations and relaxations for over-constrained problems, AAAI 2004.

    Example:
        >>> contradicting([1, 5, 2, 7, 3], lambda some: {5, 7} <= set(some))
        [5, 7]
    """

    def needed(before: Sequence[Part], added: bool, some: Sequence[Part]) -> list[Part]:
        if added and impossible(before):
            return []
        if len(some) == 1:
            return list(some)
        left, right = some[: len(some) // 2], some[len(some) // 2 :]
        late = needed([*before, *left], bool(left), right)
        early = needed([*before, *late], bool(late), left)
        return early + late

    return [] if impossible([]) else needed([], False, list(parts))


def evidence_masks(domain: Domain, evidence: Any) -> dict[str, np.ndarray]:
    """Log-mask [size] of each attribute: 0 for values that agree with the evidence, minus infinity elsewhere.

    Args:
        domain: the attributes.
        evidence: for each attribute a value, as `data.attribute.code_of` reads it, or a list of these; or
            conditions as text, such as "sex=F,age<35".

    Raises:
        TypeError: the evidence is not a mapping.
        ValueError: an attribute is unknown or named twice, a value is outside its domain, or there is none.
    """
    if isinstance(evidence, str):
        found = query_text.conditions(evidence, domain).codes
        evidence = {name: [*map(Code, codes)] for name, codes in found.items()}
    checks.mapping("evidence", evidence, "attribute to value, such as {'sex': 'F'}")
    masks: dict[str, np.ndarray] = {}
    for given, wanted in evidence.items():
        name = checks.same_word(given, domain)
        if name is None or name in masks:
            listed = ", ".join([*domain][:12])
            wrong = "twice" if name else f"which is not an attribute of the domain; it has {listed}"
            raise ValueError(f"evidence names {given!r}, {wrong}.{checks.did_you_mean(given, domain)}")
        many = isinstance(wanted, list | tuple | set | frozenset | range) or np.ndim(wanted) == 1
        codes = [
            code_of(domain.attribute(name), value, "evidence") for value in (wanted if many else [wanted])
        ]
        if not codes:
            raise ValueError(f"evidence on {name!r} allows no value: name at least one.")
        masks[name] = np.full(domain[name], -np.inf)
        masks[name][codes] = 0.0
    return masks


def log_evidence(
    domain: Domain, host: HostModel, numbers: Callable[[Clique], Variables], evidence: Any
) -> float:
    """Log of the sum of the unnormalised distribution over the states that agree with evidence (nats).

    The tables are restricted to the values that agree.

    Raises:
        TypeError: the evidence is not a mapping.
        ValueError: as in `evidence_masks`.
    """
    masks = evidence_masks(domain, evidence)
    allowed = {numbers((name,))[0]: np.flatnonzero(mask == 0) for name, mask in masks.items()}
    return host.log_evidence(allowed)
