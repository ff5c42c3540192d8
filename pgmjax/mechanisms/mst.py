"""MST: measure all attributes, select a spanning tree of the most dependent pairs, measure it."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar

from pgmjax._internal import checks
from pgmjax.data.cliques import Clique, as_clique
from pgmjax.data.counting import check_memory
from pgmjax.data.domain import Domain
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.mechanisms.adaptive import between_rounds, fit_of_chosen
from pgmjax.mechanisms.base import Mechanism
from pgmjax.mechanisms.candidates import check_largest_clique, grid_for, on_grid
from pgmjax.mechanisms.run import Request, Run, Work, carry_measurements
from pgmjax.model.compression import Compression
from pgmjax.model.graphical import many_marginals
from pgmjax.privacy.scores import Distances
from pgmjax.queries import marginal
from pgmjax.queries.query import attribute_names
from pgmjax.release.release import Release


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

    cliques: tuple[Clique, ...] = ()
    compress: bool = True
    steps: int | None = None

    name: ClassVar[str] = "mst"
    summary: ClassVar[str] = "measure all attributes and a spanning tree of the pairs that depend most"
    chooses: ClassVar[bool] = True
    audited_values: ClassVar[dict[str, tuple[Any, ...]]] = {"cliques": ((), (("a", "b"),)), "steps": (5, 1)}

    def __post_init__(self) -> None:
        super().__post_init__()
        given = checks.several("cliques", self.cliques, "tuples of attribute names")
        self._set(cliques=tuple(attribute_names(clique) for clique in given))
        self._set_flags("compress")
        checks.set_integers(self, "steps", low=1, optional=True)

    def plan(self, request: Request) -> list[Clique]:
        """Return the public cliques, which are always measured."""
        check_largest_clique(request)
        domain = request.domain
        given = [as_clique(domain, clique) for clique in self.cliques]
        edges = Forest(domain.attributes, given).parts - 1
        attributes = [(name,) for name in domain.attributes]
        pairs = list(itertools.combinations(domain.attributes, 2))
        check_memory(domain, [*pairs, *given])
        request.estimator.plan(domain, [*attributes, *given, *largest_tree(domain, given)])
        parts = _parts(request.budget.cap, len(domain), edges, len(given))
        for cost in {parts.attributes[0], *parts.measured}:
            request.noise(attributes, cost)
        if parts.choices:
            grid_for(request.sensitivity(pairs, "epsilon"), request.budget.unit, parts.choices[0])
        return given

    def work(self, request: Request, plan: list[Clique]) -> Work:
        """Return the work of scoring all pairs once, and measuring the largest tree of them."""
        domain = request.domain
        pairs = list(itertools.combinations(domain.attributes, 2))
        fitted = (*((name,) for name in domain.attributes), *plan, *largest_tree(domain, plan))
        counts, compared = sum(map(domain.size, fitted)), sum(map(domain.size, pairs))
        return Work(fitted, counts, (*pairs, *plan), compared, 2, len(pairs))

    def describe(self, plan: list[Clique]) -> dict[str, Any]:
        """Return the settings, with the cliques in the domain's order."""
        return {**super().describe(plan), "cliques": [list(clique) for clique in plan]}

    def execute(self, run: Run) -> Release:
        """Measure all attributes, choose pairs until all are joined, and measure them."""
        domain = run.request.domain
        forest, chosen = Forest(domain.attributes, run.plan), list(run.plan)
        parts = _parts(run.budget.cap, len(domain), forest.parts - 1, len(chosen))
        measured = run.measure([marginal([name]) for name in domain.attributes], parts.attributes)
        merging = Compression.from_measurements(domain, measured if self.compress else [])
        if parts.choices:
            chosen += self._choose(run, measured, merging, forest, parts.choices)
        if chosen:
            queries = list(map(merging.query, chosen))
            measured += run.measure(queries, run.budget.split([1] * len(queries)))
        return run.release(measured, fit_of_chosen(run, measured))

    def _choose(
        self,
        run: Run,
        measured: Sequence[LinearMeasurement],
        merging: Compression,
        forest: Forest,
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
            places = [i for i, pair in enumerate(pairs) if not forest.joined(pair)]
            chosen.append(pairs[places[run.select(score.only(places), cost)]])
            forest.join(chosen[-1])
        return chosen


@dataclasses.dataclass(frozen=True)
class _Parts:
    """The budget's parts: for attributes, for selections, and the expected ones for the last measurements."""

    attributes: tuple[Fraction, ...]
    choices: tuple[Fraction, ...]
    measured: tuple[Fraction, ...]


def _parts(cap: Fraction, attributes: int, choices: int, given: int) -> _Parts:
    """Return equal shares for those of the three steps that are needed."""
    numbers = (attributes, choices, choices + given)
    share = cap / sum(number > 0 for number in numbers)
    return _Parts(*((share / number,) * number if number else () for number in numbers))


class Forest:
    """A partition of the attributes into trees (disjoint sets).

    Example:
        >>> forest = Forest(["a", "b", "c"])
        >>> forest.join(("a", "b"))
        >>> forest.parts, forest.joined(("b", "a")), forest.joined(("a", "c"))
        (2, True, False)
    """

    def __init__(self, attributes: Sequence[str], joined: Sequence[Clique] = ()):
        self._part = {name: number for number, name in enumerate(attributes)}
        for clique in joined:
            self.join(clique)

    @property
    def parts(self) -> int:
        """The number of parts."""
        return len(set(self._part.values()))

    def joined(self, clique: Clique) -> bool:
        """Return whether all attributes of a clique are in one part."""
        return len({self._part[name] for name in clique}) == 1

    def join(self, clique: Clique) -> None:
        """Join the parts of a clique's attributes."""
        old = {self._part[name] for name in clique}
        for name, part in self._part.items():
            if part in old:
                self._part[name] = min(old)


def largest_tree(domain: Domain, given: Sequence[Clique]) -> list[Clique]:
    """Return the pairs with the most cells in total that connect the attributes not joined by the cliques."""
    forest = Forest(domain.attributes, given)
    tree: list[Clique] = []
    for pair in sorted(itertools.combinations(domain.attributes, 2), key=domain.size, reverse=True):
        if not forest.joined(pair):
            forest.join(pair)
            tree.append(pair)
    return tree
