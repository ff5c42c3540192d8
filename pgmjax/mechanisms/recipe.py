"""What to measure and by which mechanism, chosen from public values alone."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

from pgmjax import mechanisms
from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.data.draft import Draft
from pgmjax.data.relation import AnyRelation
from pgmjax.data.unit import Unit
from pgmjax.queries.workload import KWay, Workload

MAX_CELLS = 1_000_000
"""Cells of the model of all marginals, up to which they are measured where nobody set a limit."""
_ADAPTIVE = ("aim", "batch-aim", "mst", "mwem")


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A mechanism and its workload.

    Attributes:
        mechanism: name of the mechanism.
        workload: what it is asked for; a `KWay` over a domain that is yet to be found.
        left_out: the marginals of a `KWay` that are not asked for.
        reasons: sentences on the choice.
    """

    mechanism: str
    workload: Workload | KWay
    left_out: tuple[Clique, ...] = ()
    reasons: tuple[str, ...] = ()


def choose(
    domain: Domain | Draft,
    workload: Workload | KWay,
    mechanism: str = "auto",
    *,
    epsilon: Any,
    delta: Any = 0,
    relation: AnyRelation,
    unit: Unit | None = None,
    max_weight: int | None = None,
    records: int | None = None,
    max_cells: int | None = None,
) -> Recipe:
    """Return the mechanism and the workload of a job.

    "auto" measures all marginals, but of pairs, where the model of all has more than `max_cells` cells or the
    domain is not known yet, it takes a mechanism that chooses which to measure.

    Args:
        domain: of the table; a draft if it is yet to be found.
        workload: as it was asked for.
        mechanism: "auto" or a name.
        epsilon: of the budget.
        delta: of the budget.
        relation: the neighbouring relation.
        unit: the unit of privacy, None for one record.
        max_weight: public bound on a record's weight, None without weights.
        records: public number of records, None if it is secret.
        max_cells: largest number of cells of the model; None sets no limit.

    Raises:
        ValueError: the workload does not fit the domain.

    Example:
        >>> sizes = Domain({"a": 10, "b": 10, "c": 10})
        >>> choose(sizes, KWay(2), epsilon=1, relation="add-remove", max_cells=200).mechanism
        'batch-aim'
    """
    if isinstance(workload, Workload):
        if isinstance(domain, Domain):
            workload.validate(domain)
        return Recipe("marginals" if mechanism == "auto" else mechanism, workload)
    names = domain.attributes if isinstance(domain, Domain) else domain.columns
    k, limit = min(workload.k, len(names)), workload.max_cells if max_cells is None else max_cells
    chooser = mechanisms.for_many_pairs(delta, len(names)) if k == 2 else "marginals"
    if isinstance(domain, Draft):
        name = chooser if mechanism == "auto" else mechanism
        return Recipe(name, KWay(workload.k, None if name in _ADAPTIVE else limit))
    most = MAX_CELLS if limit is None and k == 2 else limit
    every = [*itertools.combinations(names, k)]
    adaptive = (chooser if mechanism == "auto" else mechanism) in _ADAPTIVE
    try:
        asked = Workload.all_kway(domain, k, most)
    except ValueError:
        if not adaptive:
            raise
        asked = None
    all_fit = asked is not None and len(asked.entries) == len(every)
    name = "marginals" if mechanism == "auto" else mechanism
    reasons: tuple[str, ...] = ()
    if not all_fit and mechanism == "auto" and adaptive:
        name = chooser
        reasons = (
            f"A model of all pairs has more than {most:,} cells, so {name} spends a part of the budget on "
            "choosing which to measure.",
        )
    elif not all_fit and name == "marginals" and k == 2:
        reasons = (f"--mechanism {chooser} would spend a part of the budget on choosing which to measure.",)
    if asked is None or name in _ADAPTIVE:  # whose model grows clique by clique: each has to fit alone
        asked = Workload([each for each in every if limit is None or domain.size(each) <= limit])
    held = set(map(frozenset, asked.cliques))
    return Recipe(name, asked, tuple(each for each in every if frozenset(each) not in held), reasons)
