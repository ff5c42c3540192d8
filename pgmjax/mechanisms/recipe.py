"""What a mechanism is asked for where only a number of attributes is given: all marginals, or those that fit.

A mechanism that chooses among the marginals of its workload is given every marginal whose own table is within
the limit of cells, whoever names it. Others measure the whole workload, so that they are given the marginals
that fit one model together. The limit means the same for all: cells of the model's junction tree.
"""

from __future__ import annotations

import dataclasses
import itertools

from pgmjax._internal import checks
from pgmjax._internal.memory import available_bytes
from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.data.unit import Unit
from pgmjax.mechanisms.base import Mechanism, options
from pgmjax.mechanisms.forecast import RECORDS, forecast
from pgmjax.queries.workload import Workload

LIMITS = (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000)
"""Limits of cells, of which the largest is taken whose release is forecast to take a minute."""
SECONDS, BYTES = 60.0, 2_000_000_000


@dataclasses.dataclass(frozen=True)
class Recipe:
    """What a mechanism is asked for.

    Attributes:
        mechanism: the mechanism, with the limit in its settings if it has one.
        workload: the marginals.
        max_cells: the limit.
        left_out: the marginals of so many attributes that are not asked for.
    """

    mechanism: Mechanism
    workload: Workload
    max_cells: int
    left_out: tuple[Clique, ...]

    def reasons(self) -> tuple[str, ...]:
        """Return why marginals are left out, in sentences; none if none is."""
        if not self.left_out:
            return ()
        every = len(self.left_out) + len(self.workload.entries)
        named = "; ".join(", ".join(clique) for clique in self.left_out[:3])
        why = "its own table" if self.mechanism.chooses else "the model with it"
        return (
            f"left out {len(self.left_out):,} of {every:,} marginals, because {why} would have more than "
            f"{self.max_cells:,} cells (--max-cells): {named}{'; ...' * (len(self.left_out) > 3)}",
        )


def choose(
    mechanism: Mechanism,
    domain: Domain,
    k: int,
    max_cells: int | None = None,
    *,
    unit: Unit | None = None,
    max_weight: int | None = None,
    records: int | None = None,
) -> Recipe:
    """Return what a mechanism is asked for: marginals of k attributes. Nothing is read or spent.

    Args:
        mechanism: with its settings.
        domain: of the table.
        k: attributes of each marginal; all of them where a domain has fewer.
        max_cells: largest number of cells of the model's junction tree. Default: the largest of `LIMITS` with
            which the release is forecast to take at most a minute and two gigabytes.
        unit: the unit of privacy, None for one record.
        max_weight: bound on the records' weights, None without weights.
        records: number of records if it is public.

    Raises:
        ValueError: no marginal is within the limit, or the run would be refused.

    Example:
        >>> import pgmjax as pj
        >>> domain = pj.Domain({"a": 30, "b": 40, "c": 50})
        >>> given = {"epsilon": 1, "relation": "add-remove"}
        >>> [len(choose(each(**given), domain, 2, 4000).workload) for each in (pj.mechanisms.Marginals,
        ...     pj.mechanisms.MST)]
        [2, 3]
    """
    k = min(checks.integer("k", k, low=1), len(domain))
    if max_cells is not None:
        return _within(mechanism, domain, k, checks.integer("max_cells", max_cells, low=1))
    known = {"unit": unit, "max_weight": max_weight, "records": RECORDS if records is None else records}
    most = min(BYTES, available_bytes() // 2)
    chosen, refusal = None, None
    for limit in LIMITS:
        try:
            made = _within(mechanism, domain, k, limit)
            if chosen is not None and _same(made, chosen):
                continue
            found = forecast(made.mechanism, domain, made.workload, **known)
        except ValueError as error:
            refusal = error
            continue
        if chosen is not None and (found.seconds > SECONDS or found.peak_bytes > most):
            break
        chosen = made
    if chosen is None:
        assert refusal is not None
        raise refusal
    return chosen


def _within(mechanism: Mechanism, domain: Domain, k: int, limit: int) -> Recipe:
    every = list(itertools.combinations(domain.attributes, k))
    if mechanism.chooses:
        kept = [clique for clique in every if domain.size(clique) <= limit]
        if not kept:
            raise ValueError(f"no {k}-way marginal has at most {limit:,} cells: raise max_cells.")
        workload = Workload.of_marginals(kept)
    else:
        workload = Workload.all_kway(domain, k, limit)
    if "max_cells" in options(type(mechanism)):
        mechanism = dataclasses.replace(mechanism, max_cells=limit)
    sets = set(map(frozenset, workload.cliques))
    return Recipe(mechanism, workload, limit, tuple(c for c in every if frozenset(c) not in sets))


def _same(one: Recipe, other: Recipe) -> bool:
    """Return whether a larger limit changes nothing: the mechanism has none, and the workload is the same."""
    return one.mechanism == other.mechanism and one.workload == other.workload
