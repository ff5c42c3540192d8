"""What a mechanism is asked for where only a number of attributes is given: all marginals, or those that fit.

A mechanism that chooses among the marginals of its workload is given every marginal whose own table is within
the limit of cells, whoever names it. Others measure the whole workload, so that they are given the marginals
that fit one model together. The limit means the same for all: cells of the model's junction tree.
"""

from __future__ import annotations

import dataclasses
import itertools

from pgmjax._internal.memory import available_bytes
from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.data.unit import Unit
from pgmjax.mechanisms.base import Mechanism, options
from pgmjax.mechanisms.forecast import forecast
from pgmjax.queries.workload import KWay, Workload

LIMITS = (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000)
"""Limits of cells, of which the largest is taken whose release is forecast to take a minute."""
SECONDS, BYTES = 60.0, 2_000_000_000
UNSEEN = 10_000_000
"""The limit where nothing can be forecast, because the domain is yet to be found."""


@dataclasses.dataclass(frozen=True)
class Recipe:
    """What a mechanism is asked for.

    Attributes:
        mechanism: the mechanism, with the limit in its settings if it has one.
        workload: what it is asked for; a `KWay` over a domain that is yet to be found.
        max_cells: the limit of cells; None if there is none.
        left_out: the marginals of so many attributes that are not asked for.
    """

    mechanism: Mechanism
    workload: Workload | KWay
    max_cells: int | None = None
    left_out: tuple[Clique, ...] = ()

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why marginals are left out, in sentences; none if none is."""
        if not self.left_out or isinstance(self.workload, KWay):
            return ()
        every = len(self.left_out) + len(self.workload.entries)
        named = "; ".join(", ".join(clique) for clique in self.left_out[:3])
        why = "its own table" if self.mechanism.chooses else "the model with it"
        said = (
            f"left out {len(self.left_out):,} of {every:,} marginals, because {why} would have more than "
            f"{self.max_cells:,} cells (--max-cells): {named}{'; ...' * (len(self.left_out) > 3)}"
        )
        other = "--mechanism auto would choose which to measure instead of the smallest ones"
        return (said,) if self.mechanism.chooses else (said, other)


def choose(
    mechanism: Mechanism,
    domain: Domain,
    asked: KWay,
    *,
    unit: Unit | None = None,
    max_weight: int | None = None,
) -> Recipe:
    """Return what a mechanism is asked for: marginals of k attributes. Nothing is read or spent.

    Args:
        mechanism: with its settings.
        domain: of the table.
        asked: the number of attributes, and the largest number of cells of the model's junction tree. Without
            a limit it is the largest of `LIMITS` with which the release is forecast to take at most a minute
            and two gigabytes.
        unit: the unit of privacy, None for one record.
        max_weight: bound on the records' weights, None without weights.

    Raises:
        ValueError: no marginal is within the limit, or the run would be refused.

    Example:
        >>> import pgmjax as pj
        >>> domain = pj.Domain({"a": 30, "b": 40, "c": 50})
        >>> for kind in (pj.mechanisms.Marginals, pj.mechanisms.MST):
        ...     found = choose(kind(epsilon=1, relation="add-remove"), domain, KWay(2, 4000))
        ...     print(len(found.workload), found.left_out)
        2 (('b', 'c'),)
        3 ()
    """
    if asked.max_cells is not None:
        return _within(mechanism, domain, asked)
    most = min(BYTES, available_bytes() // 2)
    chosen, refusal = None, None
    for limit in LIMITS:
        try:
            made = _within(mechanism, domain, KWay(asked.k, limit))
            assert isinstance(made.workload, Workload)
            if chosen is not None and made == dataclasses.replace(chosen, max_cells=limit):
                continue  # the mechanism has no limit, and the workload stays the same
            found = forecast(made.mechanism, domain, made.workload, unit=unit, max_weight=max_weight)
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


def with_limit(mechanism: Mechanism, limit: int | None) -> Mechanism:
    """Return a mechanism whose model has at most so many cells, if it has such a setting."""
    if limit is None or "max_cells" not in options(type(mechanism)):
        return mechanism
    return dataclasses.replace(mechanism, max_cells=limit)


def _within(mechanism: Mechanism, domain: Domain, asked: KWay) -> Recipe:
    workload = mechanism.asked(domain, asked)
    every = itertools.combinations(domain.attributes, min(asked.k, len(domain)))
    sets = set(map(frozenset, workload.cliques))
    left_out = tuple(clique for clique in every if frozenset(clique) not in sets)
    return Recipe(with_limit(mechanism, asked.max_cells), workload, asked.max_cells, left_out)
