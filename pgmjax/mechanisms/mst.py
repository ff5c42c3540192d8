"""MST: measure all attributes, select a spanning tree of the most dependent pairs, measure it."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from pgmjax._internal import checks
from pgmjax.data.counting import check_memory
from pgmjax.data.domain import Clique, Domain, as_clique
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.mechanisms.adaptive import between_rounds, fit_of_chosen
from pgmjax.mechanisms.base import Mechanism
from pgmjax.mechanisms.candidates import check_largest_clique, grid_for, on_grid
from pgmjax.mechanisms.parameters import declared, flag, whole
from pgmjax.mechanisms.run import Request, Run, Work, carry_measurements
from pgmjax.model.compression import Compression
from pgmjax.model.graphical import many_marginals
from pgmjax.privacy.scores import Distances
from pgmjax.queries import marginal
from pgmjax.queries.query import attribute_names
from pgmjax.release.release import Release

if TYPE_CHECKING:
    from scipy.cluster.hierarchy import DisjointSet


@dataclasses.dataclass(frozen=True)
class MST(Mechanism):
    """Measure every attribute, then the pairs of a privately selected spanning tree.

    A third of the budget measures the one-way marginals. A third selects pairs, one at a time among those
    that join unconnected attributes, by the L1 distance of each pair's exact marginal from the model in which
    all attributes are independent. A third measures the selected pairs. The measurements do not depend on the
    workload: the model describes the whole table and can answer any workload.

    Args:
        cliques: public cliques to measure in addition to the pairs, which then connect the remaining
            attributes. They must not be chosen from the table.
        compress: whether values whose noisy count is below three standard deviations are merged within each
            attribute before pairs are selected and measured. The model tells them apart by their own counts.
        steps: the largest number of solver steps of the fit to the one-way marginals. Default: it ends where
            noise hides what is left to gain.

    Raises:
        TypeError: a parameter has the wrong type.
        ValueError: a parameter is out of range.

    Guarantees:
        delta = 0: epsilon-DP. delta > 0: rho-zCDP, hence (epsilon, delta)-DP, for the largest rho that
        converts to at most epsilon. The parts sum to the budget exactly. The model, the candidate pairs and
        the merged values are post-processing of released values. A pair over merged values has the same
        sensitivity as the original pair.

    References:
        McKenna, Miklau and Sheldon 2021, "Winning the NIST Contest: a scalable and general approach to
        differentially private synthetic data".
    """

    cliques: tuple[Clique, ...] = declared(
        (),
        lambda name, given: tuple(
            map(attribute_names, checks.several(name, given, "tuples of attribute names"))
        ),
    )
    compress: bool = flag(True)
    steps: int | None = whole(None, low=1)

    name: ClassVar[str] = "mst"
    summary: ClassVar[str] = "measure all attributes and a spanning tree of the pairs that depend most"
    chooses: ClassVar[bool] = True
    audited_values: ClassVar[dict[str, tuple[Any, ...]]] = {"cliques": ((), (("a", "b"),)), "steps": (5, 1)}

    def plan(self, request: Request) -> list[Clique]:
        """Return the public cliques, which are always measured."""
        check_largest_clique(request)
        domain = request.domain
        given = [as_clique(domain, clique) for clique in self.cliques]
        edges = trees_of(domain, given).n_subsets - 1
        attributes = [(name,) for name in domain.attributes]
        pairs = list(itertools.combinations(domain.attributes, 2))
        check_memory(domain, [*pairs, *given])
        request.estimator.plan(domain, [*attributes, *given, *largest_tree(domain, given)])
        alone, choices, measured = _parts(request.budget.cap, len(domain), edges, len(given))
        for cost in {alone[0], *measured}:
            request.noise(attributes, cost)
        if choices:
            grid_for(request.sensitivity(pairs, "epsilon"), request.budget.unit, choices[0])
        return given

    def _work(self, request: Request, plan: list[Clique]) -> Work:
        """Return the work of scoring all pairs once, and measuring the largest tree of them."""
        questions = math.comb(len(request.domain), 2)
        return dataclasses.replace(work_of_tree(request.domain, plan), fits=2, questions=questions)

    def describe(self, plan: list[Clique]) -> dict[str, Any]:
        """Return the settings, with the cliques in the domain's order."""
        return {**super().describe(plan), "cliques": [list(clique) for clique in plan]}

    def execute(self, run: Run) -> Release:
        """Measure all attributes, choose pairs until all are joined, and measure them."""
        domain = run.request.domain
        trees, chosen = trees_of(domain, run.plan), list(run.plan)
        alone, choices, _ = _parts(run.budget.cap, len(domain), trees.n_subsets - 1, len(chosen))
        measured = run.measure([marginal([name]) for name in domain.attributes], alone)
        merging = Compression.from_measurements(domain, measured if self.compress else [])
        if choices:
            chosen += self._choose(run, measured, merging, trees, choices)
        if chosen:
            queries = list(map(merging.query, chosen))
            measured += run.measure(queries, run.budget.split([1] * len(queries)))
        return run.release(measured, fit_of_chosen(run, measured))

    def _choose(
        self,
        run: Run,
        measured: Sequence[LinearMeasurement],
        merging: Compression,
        trees: DisjointSet,
        costs: Sequence[Fraction],
    ) -> list[Clique]:
        """Choose pairs until all attributes are joined."""
        request = run.request
        pairs = list(itertools.combinations(request.domain.attributes, 2))
        with carry_measurements(measured):
            alone = [merging.forward(measurement) for measurement in measured]
            estimator = between_rounds(request.estimator, self.steps)
            model = estimator.fit(merging.domain, alone, run.total).model
            expected = dict(zip(pairs, many_marginals(model, pairs), strict=True))
        sensitivity = request.sensitivity(pairs, "epsilon")
        bits = grid_for(sensitivity, request.budget.unit, costs[0])  # all choices cost the same
        score = Distances([(merging.query(p), on_grid(expected[p], bits)) for p in pairs], bits)
        chosen: list[Clique] = []
        for cost in costs:
            places = [i for i, pair in enumerate(pairs) if not trees.connected(*pair)]
            chosen.append(pairs[places[run.select(score.only(places), cost)]])
            trees.merge(*chosen[-1])
        return chosen


def _parts(cap: Fraction, attributes: int, choices: int, given: int) -> Iterator[tuple[Fraction, ...]]:
    """Yield the budget's parts for attributes, for selections, and as expected for the last measurements.

    The three steps, as far as they are needed, have equal shares.
    """
    numbers = (attributes, choices, choices + given)
    share = cap / sum(number > 0 for number in numbers)
    return ((share / number,) * number if number else () for number in numbers)


def trees_of(domain: Domain, given: Sequence[Clique]) -> DisjointSet:
    """Return the attributes as disjoint sets, joined where a clique connects them."""
    from scipy.cluster.hierarchy import DisjointSet

    trees = DisjointSet(domain.attributes)
    for first, *others in given:
        for other in others:
            trees.merge(first, other)
    return trees


def work_of_tree(domain: Domain, given: Sequence[Clique]) -> Work:
    """Return the work of scoring all pairs, and measuring given cliques and the largest tree of pairs."""
    pairs = list(itertools.combinations(domain.attributes, 2))
    fitted = (*((name,) for name in domain.attributes), *given, *largest_tree(domain, given))
    counts, compared = sum(map(domain.size, fitted)), sum(map(domain.size, pairs))
    return Work(fitted, counts, (*pairs, *given), compared)


def largest_tree(domain: Domain, given: Sequence[Clique]) -> list[Clique]:
    """Return the pairs with the most cells in total that connect the attributes not joined by the cliques."""
    trees = trees_of(domain, given)
    pairs = sorted(itertools.combinations(domain.attributes, 2), key=domain.size, reverse=True)
    return [pair for pair in pairs if trees.merge(*pair)]  # which is False where they are joined already
