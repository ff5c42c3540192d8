"""What an adaptive mechanism may measure: all subsets of a workload's cliques, with what they are worth."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction

from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.inference.plan import junction_tree
from pgmjax.inference.plan.growth import candidate_cells
from pgmjax.queries.workload import Workload

MOST_CANDIDATES = 100_000


def downward_closure(domain: Domain, workload: Workload) -> dict[Clique, Fraction]:
    """Return every subset r of a workload's cliques with its weight, the sum of c_s |r & s| over cliques s.

    Args:
        domain: the attributes; cliques name them in its order.
        workload: cliques s with weights c_s; what is asked of them plays no part.

    Returns:
        Weights by clique, small cliques first.

    Raises:
        ValueError: more than 100,000 subsets.

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
    for clique, _ in asked if at_least <= MOST_CANDIDATES else ():
        names = [name for name in domain.attributes if name in clique]
        for size in range(1, len(names) + 1):
            found.update(itertools.combinations(names, size))
    if max(at_least, len(found)) > MOST_CANDIDATES:
        raise ValueError(
            f"the workload's cliques have at least {max(at_least, len(found)):,} subsets, more than the "
            f"{MOST_CANDIDATES:,} candidates that are weighed: ask for smaller cliques, or fewer."
        )
    place = {name: i for i, name in enumerate(domain.attributes)}
    ordered = sorted(found, key=lambda clique: (len(clique), [place[name] for name in clique]))
    return {
        clique: sum((weight * len(s.intersection(clique)) for s, weight in asked), Fraction(0))
        for clique in ordered
    }


def affordable(
    domain: Domain, cliques: Sequence[Clique], candidates: Sequence[Clique], limit: int
) -> list[Clique]:
    """Return the candidates with which a model's junction tree stays within a number of cells.

    A candidate within one of the model's cliques changes nothing and is always among them. The others are
    forecast from the model's tree, and those that pass are planned anew.

    Args:
        domain: the attributes.
        cliques: those of the model as it is.
        candidates: cliques to weigh.
        limit: cells of the junction tree at most.
    """
    held = {frozenset(clique) for clique in cliques}
    largest = [clique for clique in held if not any(clique < other for other in held)]
    number = {name: i for i, name in enumerate(domain.attributes)}
    numbered = [tuple(sorted(number[name] for name in clique)) for clique in largest]
    forecast = candidate_cells(
        domain, [sorted(clique, key=number.__getitem__) for clique in largest], candidates
    )
    kept = []
    for clique, cells in zip(candidates, forecast, strict=True):
        within = any(clique_set.issuperset(clique) for clique_set in largest)
        if within or (
            cells <= limit
            and junction_tree.total_cells(domain.shape, [*numbered, tuple(number[n] for n in clique)])
            <= limit
        ):
            kept.append(clique)
    return kept
