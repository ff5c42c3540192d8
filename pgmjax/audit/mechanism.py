"""L1 of an audit for a whole mechanism, on small made-up tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pgmjax.audit.case import AuditCase
from pgmjax.audit.replay import Replayed, check_pairs
from pgmjax.audit.tables import neighbours
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.queries.workload import Workload

DOMAIN = Domain({"a": 3, "b": 2, "c": 4})
WORKLOAD = Workload([["a", "b"], ["b", "c"], {"clique": ["c"], "queries": {"c": "prefix"}}])


def replay_mechanism(
    mechanism: Any,
    relation: Relation | str,
    *,
    epsilon: Any = 1,
    delta: Any = 0,
    pairs: int = 60,
    max_weight: int | None = None,
    domain: Domain = DOMAIN,
    workload: Workload = WORKLOAD,
    seed: int = 0,
    **options: Any,
) -> Replayed:
    """Check a mechanism by record and replay, and what its calls cost against what it may spend.

    Args:
        mechanism: a class, see `AuditCase`.
        relation: which tables are neighbours.
        epsilon: what it may spend.
        delta: 0 for pure differential privacy; with more, its calls may keep to (epsilon, delta) by their
            pure epsilon, by their rho, or by their Renyi divergences.
        pairs: how many pairs of made-up neighbouring tables.
        max_weight: records have weights up to this bound; None without.
        domain: of the made-up tables.
        workload: what it is to answer.
        seed: of tables and noise.
        options: more arguments of the mechanism.

    Raises:
        NonInterferenceError: something but released numbers depends on the table, or more is spent than
            claimed.
        TypeError: a class that cannot be audited, or a result that cannot be compared.
        ValueError: a bad number, a mechanism that raises errors, or one that reads its table past the
            choke point.

    Example:
        >>> import pgmjax as pj
        >>> from pgmjax.audit import SelectAndMeasure
        >>> replay_mechanism(SelectAndMeasure, "replace-one", pairs=4).epsilon
        1.0
    """
    case = AuditCase(mechanism, Relation.parse(relation), epsilon, delta, seed, options)
    tables = neighbours(domain, case.relation, pairs=pairs, max_weight=max_weight, seed=seed)
    return replay_case(case, tables, workload)


def replay_case(
    case: AuditCase, tables: Iterable[tuple[Dataset, Dataset]], workload: Workload = WORKLOAD
) -> Replayed:
    """Check a case on pairs of neighbouring tables; see `replay_mechanism`."""
    return check_pairs(
        lambda data: case.make().run(data, workload), tables, epsilon=case.epsilon, delta=case.delta
    )
