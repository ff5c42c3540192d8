"""PrivBayes: select a Bayesian network greedily and measure its marginals, with or without the engine.

Attribute by attribute a private score selects the parents, of candidates that depend on public values only
(`parent_sets`). A model is constructed from the network's noisy marginals by the paper's method
(`conditionals`) or by the engine. Both use the same measurements, in the network's order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar

from pgmjax._internal import checks
from pgmjax._internal.progress import Progress
from pgmjax.data.relation import Relation
from pgmjax.mechanisms.adaptive import fit_of_chosen
from pgmjax.mechanisms.base import Mechanism
from pgmjax.mechanisms.candidates import check_answers, check_cells, check_selection
from pgmjax.mechanisms.conditionals import conditional_fit
from pgmjax.mechanisms.mst import work_of_tree
from pgmjax.mechanisms.parameters import budget_share, declared, one_of, whole
from pgmjax.mechanisms.parent_sets import (
    AttributeLevels,
    Candidate,
    candidates_that_fit,
    mean_noise,
    parents_of_cells,
    parents_of_degree,
    read_taxonomies,
    useful_cells,
    useful_degree,
)
from pgmjax.mechanisms.run import Request, Run, Work
from pgmjax.privacy.exact import exact_positive, split
from pgmjax.privacy.scores.bayes import BinaryF, MutualInformation, ParentScore, TotalVariation
from pgmjax.queries import marginal
from pgmjax.release.release import Release

SCORES: dict[str, type[ParentScore]] = {
    "I": MutualInformation,
    "F": BinaryF,
    "R": TotalVariation,
    **{score.kind: score for score in (MutualInformation, BinaryF, TotalVariation)},
}


@dataclasses.dataclass(frozen=True)
class PrivBayes(Mechanism):
    """Select a Bayesian network greedily and measure its marginals.

    Attributes join the network one at a time. Each gets the parents among the earlier ones with the best
    noisy score. A marginal may be measured only if it is theta-useful, i.e. its average cell is at least
    `theta` times the mean absolute noise. That bounds the number of parents if all attributes are binary (or
    `degree` is given), and the cells of a marginal otherwise.

    Args:
        structure_share: the share of the budget for selecting parents, in (0, 1), exact.
        theta: the required usefulness of a marginal, > 0.
        score: "R" or "total-variation", "I" or "mutual-information", "F" or "binary-f". The last one is
            for attributes with two values only.
        degree: number of parents. Default: the most that are theta-useful.
        taxonomies: a list of increasingly coarse maps by attribute, each the group of every code. Parents
            may then have merged values. They must be public and cannot be combined with `degree`.
        estimate: "engine" fits a model to the measurements, "paper" clips and normalises them to
            conditionals. `paper_model` computes the paper's from any release.
        first: the attribute that the network starts with. Default: the domain's first.
        max_candidates: the largest number of candidate sets of parents in one selection; more are thinned.
        max_cells: the largest number of cells of the model's junction tree; candidates above it are dropped.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: an argument is out of range, or the relation is not replace-one.

    Guarantees:
        As `Marginals`, under REPLACE_ONE. Selections have `structure_share` of the budget in equal parts, and
        the remaining budget is divided equally among the marginals, so that all sum exactly to the budget. A
        selection without parents or with a single candidate costs nothing. The number of records is public.

    References:
        Zhang, Cormode, Procopiuc, Srivastava and Xiao 2017, "PrivBayes"; McKenna et al. 2019, section 4.

    Example:
        >>> PrivBayes(epsilon=1, relation=Relation.REPLACE_ONE, score="I").score
        'mutual-information'
    """

    structure_share: Any = budget_share(Fraction(3, 10))
    theta: Any = declared(4, exact_positive)
    score: str = one_of("total-variation", tuple(SCORES))
    degree: int | None = whole(None)
    taxonomies: Any = None
    estimate: str = one_of("engine", ("engine", "paper"))
    first: str | None = None
    max_candidates: int = whole(2000, low=1)
    max_cells: int = whole(4_000_000, low=1)

    name: ClassVar[str] = "privbayes"
    summary: ClassVar[str] = (
        "choose a Bayesian network privately, measure its marginals, fit or multiply them"
    )
    chooses: ClassVar[bool] = True
    audited_values: ClassVar[dict[str, tuple[Any, ...]]] = {
        "theta": (4, "1/10"),
        "score": ("R", "I", "F"),
        "degree": (None, 0, 1),
        "taxonomies": (None,),
        "estimate": ("engine", "paper"),
        "first": (None, "b"),
        "max_candidates": (2000, 2),
        "max_cells": (4_000_000, 40),
    }
    relations: ClassVar[tuple[Relation, ...]] = (Relation.REPLACE_ONE,)
    accepts_weights: ClassVar[bool] = False
    restriction: ClassVar[str] = (
        "its scores divide by the number of records, which must be public. Use replace-one and no weights, "
        "or another mechanism."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.set_fields(self, score=SCORES[self.score].kind, taxonomies=read_taxonomies(self.taxonomies))
        if self.degree is not None and self.taxonomies:
            raise ValueError("taxonomies serve to bound the cells of a marginal: leave out the degree.")

    def plan(self, request: Request) -> AttributeLevels:
        """Return the levels of the attributes."""
        domain = request.domain
        checks.refuse(
            (
                self.first is not None and self.first not in domain,
                f"first must be an attribute of the domain, got {self.first!r}.",
            ),
            (
                self.degree is not None and self.degree >= len(domain),
                f"degree must be below the number of attributes, {len(domain)}, got {self.degree}.",
            ),
            (
                self.score == SCORES["F"].kind and set(domain.shape) != {2},
                "the score binary-f is for tables whose attributes all have two values: use total-variation "
                "or mutual-information.",
            ),
        )
        levels = AttributeLevels(domain, self.taxonomies)
        check_answers(request)
        check_cells(min(self.max_cells, domain.size()), request.estimator)
        return levels

    def describe(self, plan: AttributeLevels) -> dict[str, Any]:
        """Return the settings that measurements depend on, without the choice of `estimate`."""
        settings = super().describe(plan)
        del settings["estimate"]
        maps = {name: [list(each) for each in levels] for name, levels in self.taxonomies.items()}
        return {**settings, "taxonomies": maps}

    def _work(self, request: Request, plan: AttributeLevels) -> Work:
        """Return the work of scoring pairs, and measuring the largest tree of them."""
        return work_of_tree(request.domain, ())

    def execute(self, run: Run) -> Release:
        """Choose the network, measure its marginals, and fit or multiply them."""
        # GreedyBayes (Algorithms 2 and 4): attributes join the network with the parents of the best score.
        network = self._network(run)
        # NoisyConditionals (Algorithms 1 and 3): measure a marginal of each attribute and its parents.
        queries = [run.plan.query(each) for each in network]
        measurements = run.measure(queries, run.budget.split([1] * len(queries)))
        # The paper divides these marginals into conditionals; the engine fits them.
        if self.estimate == "engine":
            return run.release(measurements, fit_of_chosen(run, measurements))
        count, estimator = run.table.public_count(), run.estimator
        return run.release(measurements, conditional_fit(run.request.domain, measurements, count, estimator))

    def _network(self, run: Run) -> list[Candidate]:
        """Return the marginals to measure, in the order in which the attributes joined.

        With a degree the network's first marginals are omitted, since all of their attributes are in the
        first one of full degree.

        Raises:
            ValueError: no noise can be drawn for the budget; nothing was spent.
        """
        domain, budget, records = run.request.domain, run.budget, run.table.public_count()
        first = domain.attributes[0] if self.first is None else self.first
        network, rest = [Candidate(first)], [name for name in domain if name != first]
        if not rest:
            return network
        noise = mean_noise((1 - self.structure_share) * budget.cap, budget.unit)
        theta, attributes = self.theta, len(domain)
        degree, cells = self.degree, useful_cells(records, attributes, theta, noise)
        if degree is None and set(domain.shape) == {2}:
            degree = useful_degree(records, attributes, theta, noise)
        share, others = budget.split([self.structure_share, 1 - self.structure_share])
        costs = split(share, [1] * len(rest))
        marginals = [others / attributes, budget.cap / (attributes - (degree or 0))]  # the least and the most
        self._check_amounts(run.request, records, costs[0], marginals)
        with Progress("choosing parents", len(costs), run.show_progress) as progress:
            for cost in costs:
                chosen = [each.child for each in network]
                if degree is None:
                    found = parents_of_cells(run.plan, chosen, rest, cells, self.max_candidates)
                else:
                    found = parents_of_degree(chosen, rest, degree, self.max_candidates)
                found = candidates_that_fit(domain, network, found, self.max_cells)
                network.append(found[self._choose(run, found, cost, records)])
                rest.remove(network[-1].child)
                progress.advance()
        holds_all = degree is not None and len(network[degree].parents) == degree
        return network[degree:] if holds_all else network

    def _choose(self, run: Run, candidates: Sequence[Candidate], cost: Fraction, records: int) -> int:
        if len(candidates) == 1 or not any(each.parents for each in candidates):
            return 0  # nothing to find out
        return run.select(SCORES[self.score](list(map(run.plan.query, candidates)), records), cost)

    def _check_amounts(
        self, request: Request, records: int, choice: Fraction, marginals: Sequence[Fraction]
    ) -> None:
        """Check before spending that noise can be drawn for a selection and for marginals of these costs."""
        largest = marginal(sorted(request.domain, key=request.domain.__getitem__)[-2:])
        moved = SCORES[self.score]([largest], records).sensitivity(request.domain, request.relation)
        check_selection(moved.of_unit(request.max_records).value, request.budget.unit, choice)
        for cost in marginals:
            request.noise([largest], cost)
