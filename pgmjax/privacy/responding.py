"""What randomised responses are made of: priced groups of attributes and the laws of their answers.

Only `noise.PrivateTable` uses this, which decides when what happens.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.cliques import Clique, as_clique
from pgmjax.data.domain import Domain
from pgmjax.data.encoding import code_dtype
from pgmjax.data.relation import Relation
from pgmjax.privacy import response, unary_response
from pgmjax.privacy.accounting.privacy_events import Response
from pgmjax.privacy.backend import NoiseBackend
from pgmjax.privacy.drawable import ResponseLaw
from pgmjax.privacy.exact import exact_epsilon

ENCODINGS = ("direct", "optimal-unary", "symmetric-unary")


@dataclasses.dataclass(frozen=True)
class Planned:
    """A group of attributes with the law of its responses and their cost, everything about it public.

    Attributes:
        attributes: the group; a record's category is its cell, row-major in this order.
        encoding: one of `ENCODINGS`.
        law: how a category is answered for.
        event: what it costs.
    """

    attributes: Clique
    encoding: str
    law: ResponseLaw
    event: Response

    def describe(self) -> dict[str, Any]:
        """Return what was asked, for the records."""
        return {
            "attributes": list(self.attributes),
            "encoding": self.encoding,
            "size": self.law.size,
            "lie": repr(self.law.lie),
        }

    @property
    def bits(self) -> bool:
        """Whether a record answers with a bit a category, and not with a category."""
        return isinstance(self.law, unary_response.UnaryResponse)

    def codes(self, domain: Domain, columns: dict[str, np.ndarray]) -> np.ndarray:
        """Return the categories of some records [rows]."""
        first, *others = self.attributes
        if not others:
            return columns[first]
        codes = columns[first].astype(np.int64)
        for name in others:
            codes = codes * domain[name] + columns[name]
        return codes

    def respond(self, backend: NoiseBackend, codes: np.ndarray) -> np.ndarray:
        """Return responses: categories [rows] of the smallest unsigned type, or bits, bool [rows, size]."""
        if isinstance(self.law, unary_response.UnaryResponse):
            return backend.respond_bits(self.law, codes)
        return backend.respond(self.law, codes).astype(code_dtype(self.law.size))


def plan(
    groups: Sequence[Any],
    epsilons: Sequence[Any],
    encodings: Sequence[str] | None,
    domain: Domain,
    relation: Relation,
    weighted: bool,
    backend: NoiseBackend,
) -> tuple[Planned, ...]:
    """Return groups of attributes with the laws that their cost buys.

    Raises:
        TypeError: a group that is no list of names.
        ValueError: another relation, weights, no group, another number of costs or encodings than groups,
            or more categories than can be answered for.
    """
    if relation is not Relation.REPLACE_ONE:
        raise ValueError(
            f"Randomised response works under {Relation.REPLACE_ONE.value} only, got {relation.value}: each "
            "record answers for itself, so that the answers show how many records there are."
        )
    if weighted:
        raise ValueError("Randomised response takes no weighted tables: every record answers once.")
    cliques = [as_clique(domain, group) for group in checks.several("groups", groups, "lists of names")]
    if not cliques:
        raise ValueError("There is nothing to answer for: give at least one group of attributes.")
    encodings = ["direct"] * len(cliques) if encodings is None else list(encodings)
    for name, given in (("epsilon", epsilons), ("encoding", encodings)):
        if len(given) != len(cliques):
            raise ValueError(f"There must be one {name} a group: expected {len(cliques)}, got {len(given)}.")
    return tuple(
        _planned(clique, checks.choice("encoding", encoding, ENCODINGS), exact_epsilon(cost), domain, backend)
        for clique, encoding, cost in zip(cliques, encodings, epsilons, strict=True)
    )


def _planned(clique: Clique, encoding: str, cost: Fraction, domain: Domain, backend: NoiseBackend) -> Planned:
    size = domain.size(clique)
    check_size(clique, size, encoding)
    law: ResponseLaw
    if encoding == "direct":
        law = backend.randomized_response(size, cost)
    else:
        law = backend.unary_response(size, cost, encoding == "symmetric-unary")
    return Planned(clique, encoding, law, Response(cost))


def check_size(clique: Clique, size: int, encoding: str) -> None:
    """Refuse a universe that cannot be answered for.

    Raises:
        ValueError: fewer than 2 categories, or more than the encoding takes.
    """
    largest = response.LARGEST_SIZE if encoding == "direct" else unary_response.LARGEST_SIZE
    if not 2 <= size <= largest:
        raise ValueError(
            f"The attributes {clique} together have {size:,} categories, and randomised response with the "
            f"encoding {encoding!r} answers for 2 to {largest:,}: choose other attributes, or answer for "
            "each attribute by itself."
        )
