"""Least squares of answers on measurements: the closed form of the linear part, without a model.

Of all combinations of the measured values that are unbiased for an answer, `BestLinear` finds the one of
least variance. It exists if and only if the measurements determine the answer. Marginals with equal noise in
each cell have closed forms (`measurements.residual`), whatever their number. Anything else, that is other
queries, noise that differs between rows, and impossible cells, goes to a least-squares solver in the
coordinates of effects: the measurements are factored once for all answers, and work that would take hours is
refused.

`Noiseless` holds the answers known before anything is measured: impossible cells, fixed marginals, a
public total. A function of the records that vanishes on every possible cell has the answer zero; one of a
fixed marginal has the answer that the marginal gives, and a constant that of the total. Least squares takes
them out of every function first. They are found in the coordinates of effects, so that the domain is never
written out: what vanishes is the null space of the functions' inner products over the possible cells, which
need marginals of the constrained attributes only.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from pgmjax._internal.checks import Error
from pgmjax.data.domain import Clique, Domain, in_order, marginal_of
from pgmjax.estimation.constraints import FixedMarginal, StructuralZeros
from pgmjax.measurements.least_squares import ResidualBasis, WhitenedAnswers, orthogonal_parts
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.residual import BestAnswers, MeasuredTable, ResidualAnswers, as_table
from pgmjax.model.graphical import GraphicalModel
from pgmjax.queries import Query, marginal
from pgmjax.uncertainty.queries import row_tables

LEFT_OVER = 1e-6
"""An answer is determined where a combination of measurements gives it up to this share of its length."""
MOST_WORK = 3e12
"""The most multiplications for all answers together, which are some ten minutes of one core."""

_MAX_STEPS = 2000
_USUAL_STEPS = 200  # of the iterative solver, for the forecast alone
_STOP = 1e-13
_SINGULAR = 1e-10  # of the largest singular value: a smaller one is rounding
_ROUNDING = 1e-8  # of a function's length: so much is left of one that is known
_DENSE, _DENSE_ENTRIES = 2500, 20_000_000
_BLOCK = 1 << 22  # coordinates of the functions that are solved for at once

MAX_COORDINATES = 3000
"""The most coordinates over constrained attributes whose inner products are written out."""

_NOTHING = 1e-11  # of the largest inner product: a smaller one is rounding
_SAME = 1e-9  # of the largest singular value: a smaller one is of functions that equal others


class TooMuchWorkError(Error, ValueError):
    """The best linear estimate would take more work than is allowed."""


class BestLinear:
    """The best linear unbiased estimates from some measurements, prepared once for any number of queries.

    Unbiased for every table that meets the constraints, which hold without noise.

    Args:
        domain: the attributes.
        measurements: noisy answers with independent noise of their stated standard deviations.
        total: the number of records, where it is public (counts).
        zeros: impossible cells.
        fixed: marginals that are public and exact.
        cliques: of the queries that will be asked; needed only where cells are impossible.
        most_work: the most multiplications for all queries together.
        iterate: whether measurements that are too many to be factored are solved for step by step, one
            answer after another.

    Raises:
        ValueError: no cell is possible.

    References:
        Xiao and Xiong 2012, Section 3; Fong and Saunders 2011, "LSMR".
    """

    def __init__(
        self,
        domain: Domain,
        measurements: Sequence[LinearMeasurement],
        total: float | None = None,
        zeros: Sequence[StructuralZeros] = (),
        fixed: Sequence[FixedMarginal] = (),
        cliques: Sequence[Clique] = (),
        most_work: float = MOST_WORK,
        iterate: bool = True,
    ) -> None:
        self.domain, self.measurements = domain, tuple(measurements)
        self._total, self._zeros, self._fixed = total, tuple(zeros), tuple(fixed)
        self._cliques, self._most, self._iterate = tuple(cliques), most_work, iterate

    def answers(self, queries: Sequence[Query]) -> BestAnswers:
        """Return the estimates of the answers to queries, one after another.

        Raises:
            TooMuchWorkError: a query needs more work than is allowed; nothing was computed for it.
        """
        closed = None if self._residuals is None else functools.partial(_closed, self._residuals)
        found = list(map(closed or self._system.answers, queries))
        return BestAnswers(
            np.concatenate([each.values for each in found]),
            np.concatenate([each.variances for each in found]),
        )

    def of_noise(self, queries: Sequence[Query], noise: np.ndarray) -> np.ndarray:
        """Return the errors of the estimates if the measurements had these errors.

        Args:
            queries: the queries.
            noise: of all measured values, over their standard deviations [draws, values].

        Returns:
            The errors [draws, answers]; NaN for what is not determined.
        """
        if self._residuals is None:
            parts = [self._system.of_noise(query, noise) for query in queries]
            return np.concatenate(parts, axis=1)
        drawn, ends = [], np.cumsum([each.values.size for each in self.measurements])
        for row in noise:
            found = ResidualAnswers(self.domain, self._tables(np.split(row, ends[:-1])))
            drawn.append(np.concatenate([_closed(found, query).values for query in queries]))
        return np.array(drawn)

    @functools.cached_property
    def _residuals(self) -> ResidualAnswers | None:
        """The closed forms; None where they do not hold."""
        if self._zeros or any(as_table(self.domain, each) is None for each in self.measurements):
            return None
        return ResidualAnswers(self.domain, self._tables())

    def _tables(self, errors: Sequence[np.ndarray] | None = None) -> Iterator[MeasuredTable]:
        """Yield the measurements as tables, and what is exact; or the same of their errors alone."""
        for number, each in enumerate(self.measurements):
            if errors is not None:
                wrong = errors[number] * each.row_stddevs()
                each = LinearMeasurement(each.clique, wrong, each.stddev.flat[0], each.query, each.noise)
            table = as_table(self.domain, each)
            assert table is not None
            yield table
        known = 1.0 if errors is None else 0.0
        if self._total is not None:
            yield MeasuredTable((), np.array(known * self._total), 0.0)
        for one in self._fixed:
            clique = in_order(self.domain.attributes, one.clique)
            yield MeasuredTable(
                clique, known * marginal_of(one.clique, np.asarray(one.counts, float), clique), 0.0
            )

    @functools.cached_property
    def _system(self) -> _System:
        cliques = [each.clique for each in self.measurements] + [each.clique for each in self._fixed]
        effects = ResidualBasis.of(self.domain, [*cliques, *(self._cliques if self._zeros else ())])
        known = Noiseless.of(effects, self._zeros, self._fixed, self._total)
        return _System(effects, self.measurements, known, self._most, self._iterate)


def _closed(residuals: ResidualAnswers, query: Query) -> BestAnswers:
    """Return the best answers to a query."""
    found = residuals.answers(query)
    if found is None:
        raise TooMuchWorkError(
            f"the answers to the query on {query.clique} are too many to be worked out from the measured "
            "marginals: ask for fewer attributes, or for fewer rows at once."
        )
    return found


class _System:
    """The measurements in coordinates of effects, scaled so that those of whole marginals are orthonormal."""

    def __init__(
        self,
        effects: ResidualBasis,
        measurements: Sequence[LinearMeasurement],
        known: Noiseless,
        most_work: float,
        iterate: bool,
    ) -> None:
        from scipy.sparse.linalg import LinearOperator

        self.answered, self.known = WhitenedAnswers(measurements, effects), known
        self.left, self.most_work, self.iterate = most_work, most_work, iterate
        # Each whole marginal determines each of its effects with precision 1 / (cells stddev^2).
        precision = np.zeros(effects.length)
        for m in measurements:
            weight = float(np.mean(m.row_stddevs() ** -2.0)) / effects.domain.size(m.clique)
            for subset in effects.subsets(m.clique):
                precision[effects.places[subset]] += weight
        # Less what is known, an effect that no marginal holds may equal one that some marginal does.
        precision[known.touched(effects.length) & (precision == 0)] = np.mean(precision)
        self.seen = precision > 0
        self.scale = np.divide(1.0, np.sqrt(precision), out=np.zeros_like(precision), where=self.seen)
        shape = effects.length, self.answered.values.size
        self.operator = LinearOperator(shape, matvec=self.combine, rmatvec=self.ask, dtype=np.float64)

    def combine(self, weights: np.ndarray) -> np.ndarray:
        """Return the scaled coordinates of a combination of the measurements over their deviations."""
        return self.known.without(self.answered.combine(weights)) * self.scale

    def ask(self, vector: np.ndarray) -> np.ndarray:
        """Apply the transpose of `combine`."""
        return self.answered.ask(self.known.without(vector.reshape(-1) * self.scale))

    def answers(self, query: Query) -> BestAnswers:
        """Return the best answers to a query."""
        effects = self.answered.coordinates
        assert isinstance(effects, ResidualBasis)
        varying = tuple(name for name in query.clique if effects.domain[name] > 1)
        if (
            query == marginal(query.clique)
            and in_order(effects.domain.attributes, varying) not in effects.places
        ):
            # no cell is free of the effect of all its attributes together, which nothing measures
            undetermined = np.full(query.num_rows(effects.domain), np.nan)
            return BestAnswers(undetermined, undetermined)
        found = []
        for targets, combinations in self._solved(query):
            # A row less its combination is known: its answer is added to the combination's.
            rest = self.answered.values - self.answered.ask(self.known.worth)
            values = combinations @ rest + targets @ self.known.worth
            found.append((values, np.square(combinations).sum(axis=1)))
        return BestAnswers(*(np.concatenate(parts) for parts in zip(*found, strict=True)))

    def of_noise(self, query: Query, noise: np.ndarray) -> np.ndarray:
        """Return the errors of the answers to a query [draws, rows] for those of the measurements."""
        solved = self._solved(query)
        return np.concatenate([noise @ combinations.T for _, combinations in solved], axis=1)

    def _solved(self, query: Query) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield functions and their combinations [rows, values], NaN where there is none, block by block."""
        effects = self.answered.coordinates
        assert isinstance(effects, ResidualBasis)
        self._require(query.num_rows(effects.domain))
        tables = (table for _, table in row_tables(effects.domain, [query]))
        ordered = in_order(effects.domain.attributes, query.clique)
        turn = [query.clique.index(name) for name in ordered]
        while block := list(itertools.islice(tables, max(1, _BLOCK // effects.length))):
            targets, outside = np.zeros((len(block), effects.length)), np.zeros(len(block))
            stacked = np.array([table.transpose(turn) for table in block])
            for subset, part in orthogonal_parts(ordered, stacked).items():
                flat = part.reshape(len(block), -1) / math.sqrt(effects.domain.size(subset))
                if subset in effects.places:
                    targets[:, effects.places[subset]] = flat
                else:
                    outside += np.square(flat).sum(axis=1)
            yield targets, self._combinations(targets, np.sqrt(outside))

    def _combinations(self, targets: np.ndarray, outside: np.ndarray) -> np.ndarray:
        """Return the least-norm combinations [rows, values] for functions, NaN where none exists.

        Args:
            targets: coordinates of the functions [rows, coordinates].
            outside: the length of what is in no coordinate [rows].
        """
        whole, targets = np.hypot(np.linalg.norm(targets, axis=1), outside), self.known.without(targets)
        targets[np.linalg.norm(targets, axis=1) <= _ROUNDING * whole] = 0.0  # known
        lengths = np.hypot(np.linalg.norm(targets, axis=1), outside)
        unseen = np.hypot(np.linalg.norm(targets[:, ~self.seen], axis=1), outside)
        able = unseen <= LEFT_OVER * lengths
        scaled = targets[able] * self.scale
        if self._is_small:
            first, second = self._factors
            found = (scaled @ first) @ second
        else:
            found = self._iterated(scaled)
        # by a product, as neither solver tells which functions it could reach
        rest = np.array([np.linalg.norm(self.combine(a) - t) for a, t in zip(found, scaled, strict=True)])
        combinations = np.full((len(targets), self.operator.shape[1]), np.nan)
        found[rest > LEFT_OVER * np.linalg.norm(scaled, axis=1)] = np.nan
        combinations[able] = found
        return combinations

    @property
    def _is_small(self) -> bool:
        rows, columns = self.operator.shape
        return min(rows, columns) <= _DENSE and rows * columns <= _DENSE_ENTRIES

    def _require(self, targets: int) -> None:
        """Refuse to solve for more functions than there is work left for."""
        rows, columns = map(float, self.operator.shape)
        small = min(rows, columns)
        work = 14 * rows * columns * small if self._is_small and "_factors" not in self.__dict__ else 0.0
        each = rows * small + columns * small if self._is_small else 20 * _USUAL_STEPS * (rows + columns)
        work += targets * each
        if work <= self.left and (self._is_small or self.iterate):
            self.left -= work
        else:
            raise TooMuchWorkError(
                f"{targets:,} answers by least squares of {int(columns):,} noisy numbers take about "
                f"{work:.1g} multiplications, and at most {self.most_work:.1g} are made: ask for "
                "fewer answers. Marginals with one standard deviation for all their cells, and no "
                "impossible cells, have no such limit."
            )

    @functools.cached_property
    def _factors(self) -> tuple[np.ndarray, np.ndarray]:
        """The pseudo-inverse of the matrix of the measurements, as two factors, from its singular values."""
        left, sizes, right = np.linalg.svd(
            self.known.without(self.answered.matrix()) * self.scale, full_matrices=False
        )
        own = sizes > _SINGULAR * sizes.max(initial=0.0)
        return right[own].T / sizes[own], left[:, own].T

    def _iterated(self, targets: np.ndarray) -> np.ndarray:
        """Solve by products alone, one function after another."""
        from scipy.sparse.linalg import lsmr

        settings = {"atol": _STOP, "btol": _STOP, "conlim": 0, "maxiter": _MAX_STEPS}
        found = [lsmr(self.operator, target, **settings)[0] for target in targets]
        return np.array(found).reshape(len(targets), self.operator.shape[1])


@dataclasses.dataclass(frozen=True, eq=False)
class Noiseless:
    """Functions with known answers, and the projection of others orthogonal to them.

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
        effects: ResidualBasis,
        zeros: Sequence[StructuralZeros],
        fixed: Sequence[FixedMarginal],
        total: float | None,
    ) -> Noiseless:
        """Return the functions with known answers in these coordinates.

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
        """Return functions projected off the known ones [..., length], up to rounding."""
        result = np.array(coordinates)
        for places, basis in self.blocks:
            part = result[..., places]
            result[..., places] = part - (part @ basis) @ basis.T
        return result

    def touched(self, length: int) -> np.ndarray:
        """Return the mask of changed coordinates, bool [length]."""
        result = np.zeros(length, bool)
        for places, _ in self.blocks:
            result[places] = True
        return result


def _families(effects: ResidualBasis, constrained: set[str]) -> dict[Clique, tuple[Clique, ...]]:
    """Return the sets of constrained attributes joined to each set of free ones, smallest first."""
    found: dict[Clique, list[Clique]] = {}
    for subset in effects.places:
        free = tuple(name for name in subset if name not in constrained)
        found.setdefault(free, []).append(tuple(name for name in subset if name in constrained))
    return {free: tuple(sorted(family, key=lambda c: (len(c), c))) for free, family in found.items()}


def _places(effects: ResidualBasis, free: Clique, family: tuple[Clique, ...]) -> np.ndarray:
    """Return the places of free attributes' effects with constrained sets [free cells, coordinates]."""
    domain, parts = effects.domain, []
    for beside in family:
        subset = tuple(name for name in domain.attributes if name in free or name in beside)
        place = effects.places[subset]
        numbers = np.arange(place.start, place.stop).reshape(domain.shape_of(subset))
        turned = numbers.transpose([subset.index(name) for name in (*free, *beside)])
        parts.append(turned.reshape(domain.size(free), domain.size(beside)))
    return np.concatenate(parts, axis=1)


def _vanishing(domain: Domain, possible: GraphicalModel, family: tuple[Clique, ...]) -> np.ndarray:
    """Return an orthonormal basis of effects that sum to zero on possible cells [coordinates, known]."""
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
    """Return inner products of the cells of two sets, each of unit length [cells, cells]."""
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
    effects: ResidualBasis, fixed: Sequence[FixedMarginal], total: float | None, places: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the constant and fixed marginals' cells as functions [coordinates, functions], and answers."""
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


def _with_answers(
    basis: np.ndarray, noiseless: np.ndarray, answers: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return an orthonormal basis of known and vanishing functions, and the worth of its coordinates."""
    left, sizes, right = np.linalg.svd(np.concatenate([basis, noiseless], axis=1), full_matrices=False)
    own = sizes > _SAME * max(sizes.max(initial=0.0), 1.0)
    left, right = left[:, own], right[own, basis.shape[1] :]
    return left, left @ (right @ answers / sizes[own])
