"""What is known of answers before anything is measured: impossible cells, fixed marginals, a public total.

A function of the records that vanishes on every possible cell has the answer zero; one of a fixed marginal
has the answer that the marginal gives, and a constant that of the total. Least squares takes them out of
every function first. They are found in the coordinates of effects, so that the domain is never written out:
what vanishes is the null space of the functions' inner products over the possible cells, which need
marginals of the constrained attributes only.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.estimation.constraints import FixedMarginal, StructuralZeros
from pgmjax.model.graphical import GraphicalModel
from pgmjax.uncertainty.effects import Effects

MAX_COORDINATES = 3000
"""The most coordinates over constrained attributes whose inner products are written out."""
_NOTHING = 1e-11  # of the largest inner product: a smaller one is rounding
_SAME = 1e-9  # of the largest singular value: a smaller one is of functions that equal others


@dataclasses.dataclass(frozen=True, eq=False)
class Noiseless:
    """Functions whose answers are known, and how to take them out of others.

    Where functions have more coordinates over constrained attributes than `MAX_COORDINATES`, only the total
    is made use of: what follows then holds, with more noise than need be.

    Attributes:
        blocks: places of coordinates [functions of the free attributes, coordinates], with an orthonormal
            basis of the known functions among them [coordinates, known].
        worth: the answer of a known function is the inner product of its coordinates with these [length].
    """

    blocks: tuple[tuple[np.ndarray, np.ndarray], ...]
    worth: np.ndarray

    @classmethod
    def of(
        cls,
        effects: Effects,
        zeros: Sequence[StructuralZeros],
        fixed: Sequence[FixedMarginal],
        total: float | None,
    ) -> Noiseless:
        """Return what is known of functions in these coordinates.

        Args:
            effects: the coordinates, those of the fixed marginals among them.
            zeros: impossible cells.
            fixed: marginals that are public and exact.
            total: the number of records, where it is public.

        Raises:
            ValueError: no cell is possible.
            ModelTooLargeError: the constraints together do not fit in memory.
        """
        masks: dict[Clique, np.ndarray] = {}
        for one in zeros:
            masks[one.clique] = masks.get(one.clique, 0.0) + one.log_mask()
        possible = GraphicalModel.from_potentials(effects.domain, masks)
        constrained = {name for clique in (*masks, *(one.clique for one in fixed)) for name in clique}
        bases: dict[tuple[Clique, ...], np.ndarray] = {}
        blocks, worth = [], np.zeros(effects.length)
        for free, family in _families(effects, constrained).items():
            if family not in bases:
                bases[family] = _vanishing(effects.domain, possible, family)
            basis, places = bases[family], _places(effects, free, family)
            if not free:
                basis, worth[places[0]] = _with_answers(basis, *_told(effects, fixed, total, places[0]))
            if basis.shape[1]:
                blocks.append((places, basis))
        return cls(tuple(blocks), worth)

    def without(self, coordinates: np.ndarray) -> np.ndarray:
        """Return functions less their known parts [..., length], up to rounding."""
        result = np.array(coordinates)
        for places, basis in self.blocks:
            part = result[..., places]
            result[..., places] = part - (part @ basis) @ basis.T
        return result

    def touched(self, length: int) -> np.ndarray:
        """Return where coordinates are changed, bool [length]."""
        result = np.zeros(length, bool)
        for places, _ in self.blocks:
            result[places] = True
        return result


def _families(effects: Effects, constrained: set[str]) -> dict[Clique, tuple[Clique, ...]]:
    """For each set of free attributes the sets of constrained ones that stand beside it, smallest first."""
    found: dict[Clique, list[Clique]] = {}
    for subset in effects.places:
        free = tuple(name for name in subset if name not in constrained)
        found.setdefault(free, []).append(tuple(name for name in subset if name in constrained))
    return {free: tuple(sorted(family, key=lambda c: (len(c), c))) for free, family in found.items()}


def _places(effects: Effects, free: Clique, family: tuple[Clique, ...]) -> np.ndarray:
    """Where the effects of free attributes with each constrained set stand [free cells, coordinates]."""
    domain, parts = effects.domain, []
    for beside in family:
        subset = tuple(name for name in domain.attributes if name in free or name in beside)
        place = effects.places[subset]
        numbers = np.arange(place.start, place.stop).reshape(domain.shape_of(subset))
        turned = numbers.transpose([subset.index(name) for name in (*free, *beside)])
        parts.append(turned.reshape(domain.size(free), domain.size(beside)))
    return np.concatenate(parts, axis=1)


def _vanishing(domain: Domain, possible: GraphicalModel, family: tuple[Clique, ...]) -> np.ndarray:
    """An orthonormal basis of the effects whose sum is zero on every possible cell [coordinates, known]."""
    starts = np.cumsum([0, *(domain.size(subset) for subset in family)])
    if not any(family) or starts[-1] > MAX_COORDINATES:
        return np.zeros((starts[-1], 0))
    centred, inner = np.zeros((2, starts[-1], starts[-1]))
    calibrated = possible.calibrate()
    for i, one in enumerate(family):
        mine = slice(starts[i], starts[i + 1])
        centre: np.ndarray = np.ones((1, 1))
        for name in one:
            centre = np.kron(centre, np.eye(domain[name]) - 1 / domain[name])
        centred[mine, mine] = centre
        for j, other in enumerate(family[: i + 1]):
            theirs = slice(starts[j], starts[j + 1])
            union = (*one, *(name for name in other if name not in one))
            shares = calibrated.marginal(union) if union else np.ones(1)
            inner[mine, theirs] = _together(domain, union, shares, one, other)
            inner[theirs, mine] = inner[mine, theirs].T
    # what is no effect (does not sum to zero along an attribute) occurs in no function: it must not count
    inner = centred @ inner @ centred + (np.eye(starts[-1]) - centred)
    sizes, vectors = np.linalg.eigh(inner)
    return np.asarray(vectors[:, sizes <= _NOTHING * sizes[-1]])


def _together(domain: Domain, union: Clique, shares: np.ndarray, one: Clique, other: Clique) -> np.ndarray:
    """Inner products of the cells of two sets, each a coordinate of unit length [cells, cells]."""
    # one more axis of length 1, which every set has: an empty set is numbered as any other
    codes = np.indices((*domain.shape_of(union), 1)).reshape(len(union) + 1, -1)
    mine, theirs = (
        np.ravel_multi_index(
            tuple(codes[[*(union.index(name) for name in some), -1]]), (*domain.shape_of(some), 1)
        )
        for some in (one, other)
    )
    result = np.zeros((domain.size(one), domain.size(other)))
    result[mine, theirs] = shares.reshape(-1) * math.sqrt(result.size)
    return result


def _told(
    effects: Effects, fixed: Sequence[FixedMarginal], total: float | None, places: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The constant and the cells of fixed marginals as functions [coordinates, functions], and answers."""
    rows: list[np.ndarray] = []
    answers: list[float] = []
    if total is not None:
        rows.append(np.eye(1, effects.length, effects.places[()].start)[0])
        answers.append(total)
    for one in fixed if len(places) <= MAX_COORDINATES else ():
        for cell, count in enumerate(one.counts.reshape(-1).tolist()):
            indicator = np.eye(1, one.counts.size, cell).reshape(one.counts.shape)
            rows.append(effects.coordinates(one.clique, indicator))
            answers.append(count)
    return np.reshape(rows, (len(rows), effects.length)).T[places], np.array(answers)


def _with_answers(basis: np.ndarray, told: np.ndarray, answers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An orthonormal basis of known functions and of those that vanish, and the worth of its coordinates."""
    left, sizes, right = np.linalg.svd(np.concatenate([basis, told], axis=1), full_matrices=False)
    own = sizes > _SAME * max(sizes.max(initial=0.0), 1.0)
    left, right = left[:, own], right[own, basis.shape[1] :]
    return left, left @ (right @ answers / sizes[own])
