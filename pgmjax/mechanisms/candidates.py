"""The candidates of the rounds of AIM, batch AIM and MWEM: what fits in memory, their weights and scores."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax._internal.memory import available_bytes, readable_bytes
from pgmjax.data.counting import check_memory
from pgmjax.data.domain import Clique, Domain, all_subsets, in_order, maximal
from pgmjax.estimation import solvers
from pgmjax.estimation.estimator import Estimator
from pgmjax.inference.plan.forecast import ModelTooLargeError
from pgmjax.inference.plan.growth import Growth
from pgmjax.inference.plan.structure import Structure
from pgmjax.mechanisms.run import Request, distribution_for, numbered
from pgmjax.privacy import NoiseBackend, measuring
from pgmjax.privacy.scores import Deviations, Distances, Score, Stack
from pgmjax.privacy.scores.base import DEFAULT_BITS
from pgmjax.privacy.selection import exponential_for, permute_and_flip_for
from pgmjax.privacy.sensitivity import Sensitivity
from pgmjax.queries import Query, marginal
from pgmjax.queries.rows import row
from pgmjax.queries.workload import Workload

MOST_CANDIDATES = 100_000
REPLANNED = 1.5
"""Cells of a tree that is planned anew, over those forecast for the growing tree: at most 1.47 in
736 random cases (docs/lab/growing-triangulation.md)."""
_TABLES = 4  # of each candidate at once: exact counts, estimates, both on the grid
_MOST = 2.0**44  # counts: estimates and offsets stay within the scores' grid
_GRID_LIMIT = 2.0**52
_SCALE_LIMIT = 2**49


def check_largest_clique(request: Request) -> None:
    """Check that a model of the workload's largest clique alone fits in memory.

    Unlike `Request.measurable`, this needs no model of all the workload's cliques together.

    Raises:
        ModelTooLargeError: it does not fit. The message gives the sizes.
    """
    largest = max(request.workload.cliques, key=request.domain.size)
    request.estimator.plan(request.domain, [largest])


def check_answers(request: Request) -> None:
    """Check that the answers to the workload fit in memory.

    Raises:
        ModelTooLargeError: they do not fit. The message gives the sizes.
    """
    answers, most = request.workload.num_queries(request.domain), request.estimator.max_bytes
    said = f"The workload's {answers:,} answers"
    check_bytes(8 * answers, most, said, "ask for smaller marginals. Nothing was spent")


def check_cells(max_cells: int, estimator: Estimator) -> None:
    """Check that a model of `max_cells` cells fits in memory.

    Raises:
        ModelTooLargeError: it does not fit. The message gives the sizes.
    """
    itemsize = np.dtype(estimator.dtype).itemsize
    need = math.ceil(REPLANNED * itemsize * (2 + solvers.build(estimator.solver).copies) * max_cells)
    said = f"A model of max_cells = {max_cells:,} cells"
    check_bytes(need, estimator.max_bytes, said, "lower max_cells. Nothing was spent")


def check_bytes(need: int, max_bytes: int | None, said: str, then: str) -> None:
    """Check that something fits in memory.

    Args:
        need: its bytes.
        max_bytes: the limit; None for the available memory.
        said: what needs them, to begin the message with.
        then: what to do instead.

    Raises:
        ModelTooLargeError: it does not fit. The message gives the sizes.
    """
    limit = available_bytes() if max_bytes is None else max_bytes
    if need > limit:
        raise ModelTooLargeError(
            f"{said} would need about {readable_bytes(need)}, and {readable_bytes(limit)} is available: "
            f"{then}."
        )


def fits_memory(domain: Domain, cliques: Sequence[Clique], estimator: Estimator) -> bool:
    """Return whether a model of some cliques fits in memory."""
    try:
        estimator.plan(domain, cliques)
    except ModelTooLargeError:
        return False
    return True


def weighted_candidates(request: Request, max_cells: int) -> dict[Clique, int]:
    """Return all subsets of the workload's cliques with at most `max_cells` cells, with whole weights.

    Raises:
        ModelTooLargeError: a model of the largest clique, of `max_cells` cells or of the one-way marginals
            does not fit in memory, nor do the exact tables.
        ValueError: no candidate has room, but for single attributes.
    """
    check_largest_clique(request)
    domain = request.domain
    closure = downward_closure(domain, request.workload)
    check_cells(max_cells, request.estimator)
    wide = [clique for clique in closure if len(clique) > 1]
    smallest = min(wide, key=domain.size, default=None)
    if smallest is not None and domain.size(smallest) > max_cells:
        raise ValueError(
            f"No candidate of two attributes or more is within max_cells = {max_cells:,}: the smallest, on "
            f"{smallest}, has {domain.size(smallest):,} cells, so that no budget would measure any. Raise "
            "max_cells, or ask for single attributes. Nothing was spent."
        )
    kept = [c for c in closure if len(c) == 1 or domain.size(c) <= max_cells]
    check_memory(domain, kept)
    request.estimator.plan(domain, [clique for clique in kept if len(clique) == 1])
    return dict(zip(kept, whole_weights([closure[c] for c in kept]), strict=True))


def downward_closure(domain: Domain, workload: Workload) -> dict[Clique, Fraction]:
    """Return every subset r of a workload's cliques with its weight, the sum of c_s |r & s| over cliques s.

    The weight is the sum over the attributes of r of the total weight of the cliques that have each.

    Args:
        domain: the attributes; the returned cliques are in its order.
        workload: cliques s with weights c_s. Their queries are ignored.

    Returns:
        Weights by clique, small cliques first.

    Raises:
        ValueError: there are more than 100,000 subsets.

    References:
        McKenna, Mullins, Sheldon and Miklau 2022, section 4.

    Example:
        >>> domain = Domain({"a": 2, "b": 2, "c": 2})
        >>> for clique, weight in downward_closure(domain, Workload([["b", "a"], ["b", "c"]])).items():
        ...     print(clique, weight)
        ('a',) 1
        ('b',) 2
        ('c',) 1
        ('a', 'b') 3
        ('b', 'c') 3
    """
    asked = [(frozenset(entry.clique), entry.weight) for entry in workload.entries]
    at_least = max(2 ** len(clique) - 1 for clique, _ in asked)
    found: set[Clique] = set()
    # nothing is listed where one clique alone has too many subsets
    for clique, _ in asked if at_least <= MOST_CANDIDATES else ():
        found.update(filter(None, all_subsets(in_order(domain.attributes, clique))))
    if max(at_least, len(found)) > MOST_CANDIDATES:
        raise ValueError(
            f"the workload's cliques have at least {max(at_least, len(found)):,} subsets, more than the "
            f"{MOST_CANDIDATES:,} candidates that are weighed: ask for smaller cliques, or fewer."
        )
    places = dict(zip(found, numbered(domain, found), strict=True))
    ordered = sorted(found, key=lambda clique: (len(clique), places[clique]))
    total = dict.fromkeys(domain.attributes, Fraction(0))
    for asked_for, weight in asked:
        for name in asked_for:
            total[name] += weight
    return {clique: sum((total[name] for name in clique), Fraction(0)) for clique in ordered}


def affordable(
    domain: Domain, cliques: Sequence[Clique], candidates: Sequence[Clique], limit: int
) -> list[Clique]:
    """Return the candidates with which a model's junction tree has at most `limit` cells; see `Room`.

    Args:
        domain: the attributes.
        cliques: the cliques of the current model.
        candidates: the cliques to choose from.
        limit: the largest number of cells of the junction tree.
    """
    room = Room(domain, cliques, limit)
    return [clique for clique in candidates if room.has(clique)]


class Room:
    """Room for cliques that join a model within a limit of cells; its junction tree is planned once.

    A candidate contained in one of the model's cliques changes nothing and always has room. The others count
    with the tree that `Growth` makes of the model's own, unless one that is larger already fits: that with
    all variables of the candidate but the largest in every clique. The tree that is planned for the fit had
    at most 1.5 times as many cells in 736 random cases of 10 to 100 attributes, and as many or fewer in most.

    Args:
        domain: the attributes.
        cliques: the cliques of the current model.
        limit: the largest number of cells of the junction tree.
    """

    def __init__(self, domain: Domain, cliques: Sequence[Clique], limit: int):
        self.domain, self.limit = domain, limit
        self._place = {name: i for i, name in enumerate(domain.attributes)}
        largest = [frozenset(clique) for clique in maximal(cliques)]
        self._holding: dict[str, list[frozenset[str]]] = {name: [] for name in domain.attributes}
        for held in largest:
            for name in held:
                self._holding[name].append(held)
        variables = tuple(tuple(sorted(self._place[name] for name in held)) for held in largest)
        self._growth = Growth(Structure(tuple(domain.shape), variables))

    def has(self, clique: Clique) -> bool:
        """Return whether the model with this clique is within the limit."""
        cells = self.domain.size(clique)
        in_all = self._growth.forest.base * (cells // max(self.domain[name] for name in clique)) + cells
        if in_all <= self.limit or any(held.issuperset(clique) for held in self._holding[clique[0]]):
            return True
        return self._growth.cells([self._place[name] for name in clique]) <= self.limit


@dataclasses.dataclass(frozen=True)
class Candidates:
    """Queries with weights, of which one, or one row, is selected.

    Attributes:
        domain: the attributes.
        queries: the queries; each is a candidate if `whole`, otherwise each of its rows is.
        weights: integer weights of the queries' errors.
        whole: whether all rows of a query are selected and measured together.
    """

    domain: Domain
    queries: tuple[Query, ...]
    weights: tuple[int, ...]
    whole: bool

    @classmethod
    def of(cls, domain: Domain, workload: Workload, select: str) -> Candidates:
        """Return the marginals of a workload's cliques ("marginals") or its own queries ("queries").

        A marginal has the sum of the weights of the workload's entries on its clique.

        Raises:
            ValueError: a query is not integral or has too large entries, or the tables and estimates do not
                fit in memory.
        """
        if select == "queries":
            asked = tuple(entry.query for entry in workload.entries)
            weights = [entry.weight for entry in workload.entries]
        else:
            asked = tuple(marginal(clique) for clique in workload.cliques)
            weights = [
                sum((e.weight for e in workload.entries if set(e.clique) == set(clique)), Fraction(0))
                for clique in workload.cliques
            ]
        made = cls(domain, asked, tuple(whole_weights(weights)), select == "marginals")
        check_memory(domain, [*made.cliques] * _TABLES)
        made.blank().check(domain)
        return made

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The clique of each query."""
        return tuple(query.clique for query in self.queries)

    def keep(self, kept: Sequence[int]) -> Candidates:
        """Return the candidates with the given indices."""
        return dataclasses.replace(
            self,
            queries=tuple(self.queries[i] for i in kept),
            weights=tuple(self.weights[i] for i in kept),
        )

    def score(self, answers: Sequence[np.ndarray], offsets: Sequence[float]) -> Score:
        """Return the score, which is the error of each candidate.

        Args:
            answers: the estimate's answers to each query [rows], public (counts).
            offsets: the penalty subtracted from the error of each whole query (counts).
        """
        estimates = [np.clip(answer, -_MOST, _MOST) for answer in answers]
        if not self.whole:
            parts = zip(self.queries, estimates, self.weights, strict=True)
            return Stack([Deviations(*part) for part in parts])
        bounded = [min(offset, _MOST) for offset in offsets]
        return Distances(zip(self.queries, estimates, self.weights, bounded, strict=True))

    def sensitivity(self, request: Request, query: Query) -> int:
        """Return the L1 or squared L2 sensitivity of what is measured of a query: all rows, or one."""
        if self.whole:
            return request.sensitivity([query])
        one = Sensitivity.of(query, request.domain, request.relation, "linf", request.max_weight)
        moved = one.of_unit(request.max_records).value
        return moved if request.budget.unit == "epsilon" else moved**2

    def check(self, request: Request, choice: Fraction, answer: Fraction, backend: NoiseBackend) -> None:
        """Check before spending that all candidates can be scored and measured at a round's costs.

        Raises:
            ValueError: noise would overflow or vanish. The message gives the sensitivity and the remedy.
        """
        unit = request.budget.unit
        epsilon, rho = (choice, None) if unit == "epsilon" else (None, choice)
        settings = (unit, self.domain, request.relation, request.max_weight, backend)
        each = (self.keep([place]).blank() for place in range(len(self.queries)))
        for score in (self.blank(), *each):
            measuring.plan_selection(score, epsilon, rho, None, *settings, records=request.max_records)
        for sensitivity in {self.sensitivity(request, query) for query in self.queries}:
            distribution_for(sensitivity, unit, answer)

    def blank(self) -> Score:
        """Return a score with zero estimates, which has the same sensitivity."""
        return self.score(
            [np.zeros(q.num_rows(self.domain)) for q in self.queries], [0.0] * len(self.queries)
        )

    def chosen(self, score: Score, number: int) -> Query:
        """Return the query to measure for the selected number."""
        if self.whole:
            return self.queries[number]
        assert isinstance(score, Stack)
        place, at = score.locate(self.domain, number)
        return row(self.queries[place], self.domain, at)


def whole_weights(weights: Sequence[Fraction], most: int = 4096) -> list[int]:
    """Return integers from 1 to `most` in proportion to positive weights.

    The proportion is exact if such integers exist in that range; otherwise they are rounded, to at least 1.

    Example:
        >>> whole_weights([Fraction(1, 2), Fraction(3)]), whole_weights([Fraction(1), Fraction(10**6)])
        ([1, 6], [1, 4096])
    """
    common = math.lcm(*(weight.denominator for weight in weights))
    whole = [int(weight * common) for weight in weights]
    shared = math.gcd(*whole)
    if max(whole) // shared <= most:
        return [weight // shared for weight in whole]
    return [max(1, round(Fraction(weight * most, max(whole)))) for weight in whole]


def check_selection(sensitivity: Any, unit: str, cost: Fraction) -> None:
    """Check that a candidate can be selected at a cost.

    Raises:
        ValueError: the cost is too small or too large for the score's sensitivity.
    """
    if unit == "epsilon":
        permute_and_flip_for(sensitivity, cost)
    else:
        exponential_for(sensitivity, Fraction(math.sqrt(8 * cost)))


def grid_for(largest: int, unit: str, cost: Fraction) -> int:
    """Return the number of bits of a score's grid for which the noise of the selection can be drawn.

    Args:
        largest: the largest product of weight and sensitivity of a candidate.
        unit: the unit of the cost.
        cost: the cost of the selection.

    Raises:
        ValueError: the cost is too small or too large even for integer scores.
    """
    epsilon = float(cost) if unit == "epsilon" else math.sqrt(8 * float(cost))
    room = math.floor(math.log2(_SCALE_LIMIT * epsilon / (2 * largest)))
    exponential_for(largest * 2 ** min(DEFAULT_BITS, max(room, 0)), Fraction(epsilon))  # refuses in words
    return min(DEFAULT_BITS, max(room, 0))


def grid_for_scores(number: int, largest: int, unit: str, cost: Fraction) -> int:
    """Return the number of bits of a grid for which the noise of all scores together can be drawn.

    Args:
        number: the number of candidates.
        largest: the largest sensitivity of a candidate.
        unit: the unit of the cost.
        cost: the cost of all scores.

    Raises:
        ValueError: the cost is too small or too large even for integer scores.
    """
    power = 1 if unit == "epsilon" else 2
    whole = number * largest**power  # the sensitivity of all of them, squared for a rho
    room = math.floor(math.log2(_SCALE_LIMIT / distribution_for(whole, unit, cost).scale))
    return min(DEFAULT_BITS, max(room, 0))


def on_grid(values: np.ndarray, bits: int) -> np.ndarray:
    """Return public values clipped to the range of a score's grid, which would saturate them anyway."""
    limit = math.ldexp(_GRID_LIMIT, -bits)
    return np.clip(values, -limit, limit)


def distances(
    estimates: Mapping[Clique, np.ndarray],
    bits: int,
    weights: Mapping[Clique, int],
    noise: float,
    queries: Mapping[Clique, Query] | None = None,
) -> Distances:
    """Return the score weight * (||exact marginal - estimate||_1 - its expected noise) of each clique.

    Args:
        estimates: public estimates (counts), by candidate.
        bits: bits of the score's grid.
        weights: weights of these and possibly other cliques.
        noise: expected absolute noise of one count.
        queries: marginals of these cliques, which remember what was checked about them. Default: new ones.
    """
    return Distances(
        [
            (
                marginal(clique) if queries is None else queries[clique],
                on_grid(estimate, bits),
                weights[clique],
                float(on_grid(np.array(noise * estimate.size), bits)),
            )
            for clique, estimate in estimates.items()
        ],
        bits,
    )
