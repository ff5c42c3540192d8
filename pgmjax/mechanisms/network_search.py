"""The private search for a Bayesian network: attribute by attribute, each with parents chosen by a score."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction

from pgmjax._internal.progress import Progress
from pgmjax.mechanisms import parent_sets
from pgmjax.mechanisms.taxonomies import Candidate, Levels
from pgmjax.privacy import scales, selection
from pgmjax.privacy.exact import split
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.scores.bayes import BinaryF, MutualInformation, ParentScore, TotalVariation
from pgmjax.queries import marginal

SCORES: dict[str, type[ParentScore]] = {
    "I": MutualInformation,
    "F": BinaryF,
    "R": TotalVariation,
    **{score.kind: score for score in (MutualInformation, BinaryF, TotalVariation)},
}


@dataclasses.dataclass(frozen=True)
class Search:
    """How a network is searched for; see `PrivBayes` for the settings.

    Attributes:
        score: what parents are chosen by.
        structure_share: of the budget, for choices.
        theta: how useful the marginals must be.
        degree: the number of parents, or None.
        first: the attribute to start with, or None.
        max_candidates: the most sets of parents that one choice goes through.
        max_cells: the most cells of the model's junction tree.
    """

    score: type[ParentScore]
    structure_share: Fraction
    theta: Fraction
    degree: int | None
    first: str | None
    max_candidates: int
    max_cells: int

    def run(self, table: PrivateTable, levels: Levels, show_progress: bool | None = None) -> list[Candidate]:
        """Return the marginals to measure, in the order in which the attributes joined.

        With a degree the network's first marginals are left out, since all of their attributes are in the
        first one of full degree.

        Args:
            table: what is asked; the choices are charged to its budget.
            levels: its attributes.
            show_progress: None shows a bar in terminals only, False never.

        Raises:
            ValueError: a budget for which there is no noise; nothing was spent.
        """
        names = list(table.domain)
        first = names[0] if self.first is None else self.first
        network, rest = [Candidate(first)], [name for name in names if name != first]
        if not rest:
            return network
        records, noise = table.public_count(), self._noise(table)
        degree, cells = self.degree, parent_sets.useful_cells(records, len(names), self.theta, noise)
        if degree is None and set(table.domain.shape) == {2}:
            degree = parent_sets.useful_degree(records, len(names), self.theta, noise)
        share, others = table.budget.split([self.structure_share, 1 - self.structure_share])
        costs = split(share, [1] * len(rest))
        marginals = len(names) - (degree or 0)
        self._check_amounts(table, records, costs[0], [others / len(names), table.budget.cap / marginals])
        with Progress("choosing parents", len(costs), show_progress) as progress:
            for cost in costs:
                chosen = [each.child for each in network]
                if degree is None:
                    found = parent_sets.of_cells(levels, chosen, rest, cells, self.max_candidates)
                else:
                    found = parent_sets.of_degree(chosen, rest, degree, self.max_candidates)
                found = parent_sets.that_fit(table.domain, network, found, self.max_cells)
                network.append(found[self._choose(table, levels, found, cost, records)])
                rest.remove(network[-1].child)
                progress.advance()
        holds_all = degree is not None and len(network[degree].parents) == degree
        return network[degree:] if holds_all else network

    def _check_amounts(
        self, table: PrivateTable, records: int, choice: Fraction, parts: Sequence[Fraction]
    ) -> None:
        """Refuse parts of the budget for which no noise can be drawn, before any of it is spent.

        Args:
            table: what is asked.
            records: their number.
            choice: what a choice costs.
            parts: the least and the most that a marginal may cost.
        """
        largest = sorted(table.domain, key=table.domain.__getitem__)[-2:]
        moved = self.score([marginal(largest)], records).sensitivity(table.domain, table.relation).value
        if table.budget.unit == "epsilon":
            selection.permute_and_flip_for(moved, choice)
            for part in parts:
                scales.laplace_for(2, part)
        else:
            selection.exponential_for(moved, Fraction(math.sqrt(8 * choice)))
            for part in parts:
                scales.gaussian_for(2, part)

    def _choose(
        self,
        table: PrivateTable,
        levels: Levels,
        candidates: Sequence[Candidate],
        cost: Fraction,
        records: int,
    ) -> int:
        if len(candidates) == 1 or not any(each.parents for each in candidates):
            return 0  # nothing to find out
        score = self.score([levels.query(each) for each in candidates], records)
        if table.budget.unit == "epsilon":
            return table.select(score, epsilon=cost)
        return table.select(score, rho=cost)

    def _noise(self, table: PrivateTable) -> parent_sets.Noise:
        """The mean absolute noise of a cell when the rest of the budget is divided among some marginals."""
        part = (1 - self.structure_share) * table.budget.cap
        if table.budget.unit == "epsilon":
            return lambda marginals: Fraction(2 * marginals) / part
        # Gaussian noise of variance m / rho, the mean of whose size is sqrt(2 / pi) standard deviations
        return lambda marginals: Fraction(math.sqrt(2 * marginals / (math.pi * part)))
