"""The audit of a whole mechanism by record and replay (L1), on small made-up tables.

An `AuditCase` says which class is audited, under which relation, and with which claim.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from pgmjax._internal import checks
from pgmjax.audit.replay import Replayed, check_pairs
from pgmjax.audit.specimen import neighbours
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.estimation.estimator import Estimator
from pgmjax.privacy.exact import exact_delta, exact_epsilon
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.queries.workload import Workload

DOMAIN = Domain({"a": 3, "b": 2, "c": 4})
WORKLOAD = Workload([["a", "b"], ["b", "c"], {"clique": ["c"], "queries": {"c": "prefix"}}])

_STEPS = 5
_TAKEN = ("epsilon", "relation", "delta", "backend")


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
    return replay_case(case, case.tables(pairs, max_weight, domain), workload)


def replay_case(
    case: AuditCase, tables: Iterable[tuple[Dataset, Dataset]], workload: Workload = WORKLOAD
) -> Replayed:
    """Check a case on pairs of neighbouring tables; see `replay_mechanism`."""
    return check_pairs(
        lambda data: case.make().run(data, workload), tables, epsilon=case.epsilon, delta=case.delta
    )


@dataclasses.dataclass(frozen=True)
class AuditCase:
    """A mechanism and what it claims.

    Args:
        mechanism: a class such as those of `pgmjax.mechanisms`: it has `name` and `run(data, workload)`, and
            is called with epsilon, relation, delta and backend.
        relation: which tables are neighbours.
        epsilon: what it may spend.
        delta: 0 for pure differential privacy.
        seed: of tables and noise, >= 0.
        options: more arguments of the mechanism.

    Raises:
        TypeError: a class without what is listed above.
        ValueError: a bad number or relation.

    Example:
        >>> from pgmjax.mechanisms import Marginals
        >>> AuditCase(Marginals, "add-remove", epsilon="0.5").make().epsilon
        Fraction(1, 2)
    """

    mechanism: Any
    relation: Relation
    epsilon: Fraction = Fraction(1)
    delta: Fraction = Fraction(0)
    seed: int = 0
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        check_interface(self.mechanism)
        object.__setattr__(self, "relation", Relation.parse(self.relation))
        object.__setattr__(self, "epsilon", exact_epsilon(self.epsilon))
        object.__setattr__(self, "delta", exact_delta(self.delta))
        object.__setattr__(self, "seed", checks.integer("seed", self.seed, low=0))

    def make(self, seed: int | None = None, **more: Any) -> Any:
        """Return the mechanism with seeded noise and, where it fits a model, a short fit.

        Args:
            seed: of the noise; None takes the case's.
            more: arguments beside the case's options.
        """
        options = {**getattr(self.mechanism, "audited_with", {}), **more, **self.options}
        if "estimator" in inspect.signature(self.mechanism).parameters:
            options.setdefault("estimator", short_fit())
        options.setdefault("backend", SeededBackend(self.seed if seed is None else seed, insecure=True))
        return self.mechanism(epsilon=self.epsilon, relation=self.relation, delta=self.delta, **options)

    def tables(
        self, pairs: int, max_weight: int | None = None, domain: Domain = DOMAIN
    ) -> Iterable[tuple[Any, Any]]:
        """Yield pairs of neighbouring tables: the mechanism's own (`neighbours`) if it is of no `Dataset`.

        Args:
            pairs: how many.
            max_weight: records have weights up to this bound; None without.
            domain: of the tables.
        """
        if hasattr(self.mechanism, "neighbours"):
            return self.make().neighbours(pairs, self.seed)
        return neighbours(domain, self.relation, pairs=pairs, max_weight=max_weight, seed=self.seed)


def short_fit() -> Estimator:
    """Return an estimator that takes a few steps and shows nothing."""
    return Estimator(max_steps=_STEPS, max_bytes=10**9, progress=False)


def check_interface(mechanism: Any) -> None:
    """Refuse what cannot be audited as a mechanism.

    Raises:
        TypeError: what is missing.
    """
    if not callable(mechanism):
        raise TypeError(f"A mechanism must be a class, got {type(mechanism).__name__}.")
    parameters = inspect.signature(mechanism).parameters
    anything = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    lacks = [f"a parameter `{name}`" for name in _TAKEN if name not in parameters and not anything]
    if not callable(getattr(mechanism, "run", None)):
        lacks.insert(0, "`run(data, workload)`")
    if not isinstance(getattr(mechanism, "name", None), str):
        lacks.insert(0, "a text `name`")
    if lacks:
        called = getattr(mechanism, "__name__", repr(mechanism))
        raise TypeError(
            f"The mechanism {called} lacks {', '.join(lacks)}: an audit calls it with epsilon, relation, "
            "delta and backend, as those of pgmjax.mechanisms."
        )
