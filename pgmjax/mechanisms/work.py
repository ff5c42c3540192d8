"""The work of a run, as far as public values tell it: the basis of forecasts of its time and memory."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.inference.plan.triangulation import fitting
from pgmjax.queries import Query


@dataclasses.dataclass(frozen=True)
class Work:
    """The work that a run is expected to do, at most where it depends on noisy answers.

    Attributes:
        fitted: cliques of the last fit.
        counts: number of noisy counts.
        counted: cliques that are counted exactly, before noise is added or scores are taken.
        compared: cells of models that are compared with exact counts, over all rounds.
        fits: number of fits, the last one included.
        questions: number of marginals that are asked of a model on the way.
    """

    fitted: tuple[Clique, ...]
    counts: int
    counted: tuple[Clique, ...]
    compared: int = 0
    fits: int = 1
    questions: int = 0

    @classmethod
    def of_queries(cls, domain: Domain, queries: Sequence[Query]) -> Work:
        """Return the work of measuring some queries once."""
        cliques = tuple(query.clique for query in queries)
        return cls(cliques, sum(query.num_rows(domain) for query in queries), cliques)

    @classmethod
    def of_choice(
        cls,
        domain: Domain,
        candidates: Sequence[Clique],
        most: int,
        rounds: int,
        fits: int | None = None,
        measured: int | None = None,
    ) -> Work:
        """Return the work of scoring all candidates in each round, and measuring those that fit a model.

        Args:
            domain: the attributes.
            candidates: the cliques to choose from.
            most: the largest number of cells of the model's junction tree.
            rounds: number of rounds that score candidates.
            fits: number of fits. Default: one after each round, and one before.
            measured: the largest number of cliques that are measured. Default: all that fit.
        """
        kept = _that_fit(domain, candidates, most)[:measured]
        covered = set(itertools.chain.from_iterable(kept))
        asked = dict.fromkeys(itertools.chain.from_iterable(candidates))
        kept += tuple((name,) for name in asked if name not in covered)
        return cls(
            kept,
            sum(map(domain.size, kept)) + sum(domain[name] for name in asked),
            tuple(candidates),
            rounds * sum(map(domain.size, candidates)),
            rounds + 1 if fits is None else fits,
            rounds * len(candidates),
        )


def _that_fit(domain: Domain, candidates: Sequence[Clique], most: int) -> tuple[Clique, ...]:
    """Return the widest candidates, small ones first, with which a junction tree has at most `most` cells."""
    width = max(map(len, candidates), default=0)
    widest = [clique for clique in candidates if len(clique) == width]
    if width < 2:
        return ()
    place = {name: i for i, name in enumerate(domain.attributes)}
    numbered = np.array([[place[name] for name in clique] for clique in widest], np.int32)
    return tuple(widest[i] for i in fitting(domain.shape, numbered, most))
