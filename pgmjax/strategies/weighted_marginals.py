"""OPT_M: every marginal is measured with its own budget, which is zero for most.

The Gram matrices of marginals, and so those of workloads answered from marginals, share their eigenvectors:
for a set S of attributes, the tables that vary in S and sum to zero along each of its attributes. A marginal
on C has the eigenvalue ``prod(sizes outside C)`` for S within C and 0 otherwise. So the error is a sum over
sets S of ``multiplicity * workload / strategy``, with one division per set; for Gaussian noise it is convex
in the squared weights.

References:
    McKenna et al. 2018, section 7; Xiao et al. 2023, "An optimal and scalable matrix mechanism for
    noisy marginals under convex loss functions", for the basis.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax.data.domain import Clique, Domain, all_subsets, in_order
from pgmjax.random import generator
from pgmjax.strategies.grams import Term
from pgmjax.strategies.optimise import best_end

MAX_SETS = 20_000
"""Largest number of sets of attributes; a workload with more is refused."""

_ALL_SUBSETS = 10
_NEGLIGIBLE = 1e-4


@dataclasses.dataclass(frozen=True, eq=False)
class Spectrum:
    """A workload's spectrum over sets of attributes.

    Attributes:
        sets: the sets S on which the workload depends; the empty set is the total.
        marginals: the candidates to be measured.
        values: trace of each entry's Gram matrix over each set's tables [entries, sets].
        reach: eigenvalue of each marginal on each set [marginals, sets].
    """

    sets: tuple[Clique, ...]
    marginals: tuple[Clique, ...]
    values: np.ndarray
    reach: np.ndarray

    @classmethod
    def of(cls, entries: Sequence[Sequence[Term]], attributes: Clique, domain: Domain) -> Spectrum:
        """Return the spectrum of a workload, from the Gram matrices of its entries.

        Raises:
            ValueError: too many sets of attributes.
        """
        sets: dict[frozenset[str], None] = {}
        for term in itertools.chain.from_iterable(entries):
            if 2 ** len(term.factors) > MAX_SETS:
                raise ValueError(f"a query on {len(term.factors)} attributes has too many subsets.")
            sets |= dict.fromkeys(map(frozenset, all_subsets(tuple(term.factors))))
        candidates = dict(sets)
        if len(attributes) <= _ALL_SUBSETS:
            candidates |= dict.fromkeys(map(frozenset, all_subsets(attributes)))
        if len(candidates) > MAX_SETS:
            raise ValueError(f"the workload has {len(candidates):,} sets of attributes: too many to weigh.")
        places = {each: place for place, each in enumerate(sets)}
        values = np.zeros((len(entries), len(sets)))
        for row, terms in zip(values, entries, strict=True):
            for term in terms:
                _add(row, places, term, attributes, domain)
        # the eigenvalue of a marginal is the number of cells outside it, on the sets within it, else 0
        outside = [math.prod(domain[name] for name in attributes if name not in each) for each in candidates]
        within = np.array([[each <= candidate for each in sets] for candidate in candidates])
        reach = within * np.array(outside, np.float64)[:, None]
        named = functools.partial(in_order, attributes)
        return cls(tuple(map(named, sets)), tuple(map(named, candidates)), values, reach)

    def errors(self, precisions: np.ndarray) -> np.ndarray:
        """Return the expected squared error of each entry [entries], by least squares from all marginals.

        Args:
            precisions: one over the noise variance of each marginal's cells [marginals]; 0 if not measured.

        Raises:
            ValueError: a set on which the workload depends is not measured.
        """
        strengths = precisions @ self.reach
        asked = np.abs(self.values).max(axis=0) > 0
        if (strengths[asked] <= 0).any():
            raise ValueError("these marginals cannot answer the workload.")
        return self.values[:, asked] @ (1 / strengths[asked])


def optimise_marginals(
    spectrum: Spectrum, norm: str = "l1", *, restarts: int = 5, seed: int = 0
) -> tuple[np.ndarray, float]:
    """Return the weights of the best marginals found [marginals], and the error in units.

    The weights have sum (l1) or sum of squares (l2) equal to 1; the noise scale of a marginal is one over its
    weight. For the units see `strategies.strategy`.

    Args:
        spectrum: spectrum of the workload.
        norm: "l1" for Laplace, "l2" for Gaussian noise.
        restarts: number of random starts, besides three fixed ones: whole table, equal weights, asked sets.
        seed: seed of the random starts.
    """
    number = len(spectrum.marginals)
    random = generator(seed)
    largest = np.argmax([len(each) for each in spectrum.marginals])
    whole = np.full(number, 0.05 / number)
    whole[largest] = 1.0
    asked = (np.abs(spectrum.values).max(axis=0) > 0).astype(float)
    starts = [
        _largest_sets(spectrum),
        whole,
        np.full(number, 1.0 / number),
        *random.random((restarts, number)) ** 2,
    ]
    values = spectrum.values.sum(axis=0)
    scale = float(np.abs(values).sum()) or 1.0
    given = (values / scale, asked, spectrum.reach)
    weights, error = best_end(_errors[norm], given, starts, max_steps=4000, tolerance=1e-10)
    kept = np.where(weights > _NEGLIGIBLE * weights.max(), weights, 0.0)
    with jax.enable_x64(True):
        trimmed = float(_errors[norm](*map(jnp.asarray, given), kept))
    if trimmed <= error * (1 + 1e-3):
        weights, error = kept, trimmed
    return weights / (weights.sum() if norm == "l1" else np.linalg.norm(weights)), error * scale


def _largest_sets(spectrum: Spectrum) -> np.ndarray:
    """Weight the maximal asked marginals by the cube root of their number of cells, as in OPT_+."""
    sets = [frozenset(each) for each in spectrum.sets]
    largest = {each for each in sets if not any(each < other for other in sets)}
    outside = spectrum.reach[:, sets.index(frozenset())]
    cells = (outside.max() / outside) ** (1 / 3)
    weights = np.where([frozenset(each) in largest for each in spectrum.marginals], cells, 0.0)
    weights = weights / weights.max()
    return np.maximum(weights, 1e-3 * weights[weights > 0].min())


def _error(values: Any, targets: Any, reach: Any, weights: Any, *, norm: str) -> Any:
    strengths = weights**2 @ reach
    parts = jnp.where(targets > 0, values / jnp.where(targets > 0, strengths, 1.0), 0.0)
    sensitivity = weights.sum() ** 2 if norm == "l1" else (weights**2).sum()
    return sensitivity * parts.sum()


_errors: dict[str, Callable[..., Any]] = {norm: functools.partial(_error, norm=norm) for norm in ("l1", "l2")}


def _add(
    row: np.ndarray, places: dict[frozenset[str], int], term: Term, attributes: Clique, domain: Domain
) -> None:
    """Add a term's trace over each set's tables: per attribute, the constant or the zero-sum part."""
    means, rests = {}, {}
    outside = 1.0
    for name in attributes:
        factor = term.factors.get(name)
        if factor is None:
            outside *= domain[name]
        else:
            means[name] = float(factor.sum()) / domain[name]
            rests[name] = float(np.trace(factor)) - means[name]
    for each in map(frozenset, all_subsets(tuple(means))):
        inside = math.prod(rests[name] if name in each else means[name] for name in means)
        row[places[each]] += term.coefficient * outside * inside
