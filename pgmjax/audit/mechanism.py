"""The audit of a whole mechanism by record and replay (L1), on small made-up tables.

An `AuditCase` holds the class to audit, the relation and the claim.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax import random
from pgmjax._internal import checks
from pgmjax.audit.replay import Replayed, check_pairs
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation, Unit
from pgmjax.estimation.estimator import Estimator
from pgmjax.privacy.exact import exact_delta, exact_epsilon
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.queries.workload import Workload

KINDS = ("random", "nearly empty", "all alike", "extreme")
_SIZES = 28
_STRIDES = (11, 7)  # prime to the number of sizes: small numbers of pairs have sizes far apart


def neighbours(
    domain: Domain,
    relation: Relation | str,
    *,
    pairs: int = 60,
    max_weight: int | None = None,
    unit: Unit | None = None,
    seed: int = 0,
) -> Iterator[tuple[Dataset, Dataset]]:
    """Yield pairs of neighbouring tables over a domain, in both orders.

    A quarter of the pairs are random, a quarter nearly empty, and in a quarter all records are alike. In the
    last quarter, the differing record has the smallest or largest code of each attribute and, on one table,
    the largest weight; if it is replaced, then by the opposite codes. The number of records goes through 2
    to 29, so that some pair straddles any threshold on it.

    Args:
        domain: the tables' domain.
        relation: the neighbouring relation.
        pairs: number of pairs.
        max_weight: bound on the records' weights; None for no weights.
        unit: the unit of privacy, of whose records there are a third as many units; the tables differ in all
            records of one. None: in one record.
        seed: seed of the made-up records, not of noise.

    Example:
        >>> domain = Domain({"a": 3, "b": 2})
        >>> len(list(neighbours(domain, Relation.REPLACE_ONE, pairs=8)))
        8
    """
    relation = Relation.parse(relation)
    generator = random.generator(seed)
    for number in range(checks.integer("pairs", pairs, low=1)):
        kind = KINDS[number % len(KINDS)]
        columns = _records(domain, number, max_weight, generator)
        rows = columns.shape[1]
        place = int(generator.integers(rows))
        names = np.arange(rows) if unit is None else _names(rows, place, generator)
        mine = names == names[place]
        if kind == "extreme":
            columns[:, mine] = _extreme(domain, max_weight, generator)[:, None]
        other = None
        if relation is Relation.REPLACE_ONE:
            other = _changed(columns[:, place], domain, kind, max_weight, generator)
        pair = made_up_pair(domain, columns, mine, other, max_weight, unit, names)
        yield pair if number % (2 * len(KINDS)) < len(KINDS) else pair[::-1]


def _limits(domain: Domain, max_weight: int | None) -> np.ndarray:
    return np.array([*domain.shape, *([] if max_weight is None else [max_weight + 1])])


def _records(
    domain: Domain, number: int, max_weight: int | None, generator: np.random.Generator
) -> np.ndarray:
    """Return codes and, if weighted, weights in the last row: int64 [attributes (+ 1), rows]."""
    turn, place = divmod(number, len(KINDS))
    kind = KINDS[place]
    rows = 2 if kind == "nearly empty" else 2 + (_STRIDES[0] * turn + _STRIDES[1] * place) % _SIZES
    columns = np.stack([generator.integers(0, limit, rows) for limit in _limits(domain, max_weight)])
    if kind == "all alike":
        columns[:] = columns[:, :1]
    return columns


def _extreme(domain: Domain, max_weight: int | None, generator: np.random.Generator) -> np.ndarray:
    """Return the smallest or largest code of each attribute, with the largest weight."""
    limits = _limits(domain, max_weight)
    record = (limits - 1) * generator.integers(0, 2, limits.size)
    if max_weight is not None:
        record[-1] = max_weight
    return record


def _changed(
    record: np.ndarray, domain: Domain, kind: str, max_weight: int | None, generator: np.random.Generator
) -> np.ndarray:
    limits = _limits(domain, max_weight)
    if kind != "extreme":
        return generator.integers(0, limits)
    changed = limits - 1 - record
    if max_weight is not None:
        changed[-1] = max_weight * generator.integers(0, 2)
    return changed


def _names(rows: int, place: int, generator: np.random.Generator) -> np.ndarray:
    """Return whose each record is, int64 [rows]; not all are of the unit of the record at `place`."""
    names = generator.integers(0, max(2, rows // 3), rows)
    names[(place + 1) % rows] = names[place] + 1
    return names


def made_up_pair(
    domain: Domain,
    columns: np.ndarray,
    mine: np.ndarray,
    other: np.ndarray | None,
    max_weight: int | None,
    unit: Unit | None,
    names: np.ndarray,
) -> tuple[Dataset, Dataset]:
    """Return a table and its neighbour, from codes and, if weighted, weights in the last row.

    Args:
        domain: the domain.
        columns: codes, and weights, of the first table: int64 [attributes (+ 1), rows].
        mine: whether a record is one of those that differ [rows].
        other: what each of these is in the second table [attributes (+ 1)]; None if it has none of them.
        max_weight: bound on the weights; None for none.
        unit: the unit of privacy; None for one record.
        names: what names the unit of each record [rows], if there are units.
    """
    first = _made_up(domain, columns, max_weight, unit, names)
    if other is None:
        return first, _made_up(domain, columns[:, ~mine], max_weight, unit, names[~mine])
    second = np.where(mine, other[:, None], columns)
    return first, _made_up(domain, second, max_weight, unit, names)


def _made_up(
    domain: Domain, columns: np.ndarray, max_weight: int | None, unit: Unit | None, names: np.ndarray
) -> Dataset:
    codes = dict(zip(domain.attributes, columns, strict=False))
    if unit is not None:
        codes[unit.column] = names
    if max_weight is None:
        return Dataset.from_columns(domain, codes, unit=unit)
    return Dataset.from_columns(domain, codes, weights=columns[-1], max_weight=max_weight, unit=unit)


DOMAIN = Domain({"a": 3, "b": 2, "c": 4})
WORKLOAD = Workload([["a", "b"], ["b", "c"], {"clique": ["c"], "queries": {"c": "prefix"}}])

UNIT = Unit("who", 2)
"""The unit of privacy of audits that have one."""

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
    unit: Unit | None = None,
    domain: Domain = DOMAIN,
    workload: Workload = WORKLOAD,
    seed: int = 0,
    **options: Any,
) -> Replayed:
    """Check a mechanism by record and replay, and the cost of its calls against its budget.

    Args:
        mechanism: a class, see `AuditCase`.
        relation: the neighbouring relation.
        epsilon: the mechanism's budget.
        delta: 0 for pure differential privacy; if > 0, its calls may meet (epsilon, delta) by their pure
            epsilon, their rho, or their Renyi divergences.
        pairs: number of pairs of made-up neighbouring tables.
        max_weight: bound on the records' weights; None for no weights.
        unit: the unit of privacy, in all of whose records the tables differ; None for one record.
        domain: domain of the made-up tables.
        workload: the workload to answer.
        seed: seed of tables and noise.
        options: further arguments of the mechanism.

    Raises:
        NonInterferenceError: something other than released numbers depends on the table, or the cost
            exceeds the claim.
        TypeError: the class cannot be audited, or its result cannot be compared.
        ValueError: a number is invalid, the mechanism raises an error, or it reads its table without the
            choke point.

    Example:
        >>> import pgmjax as pj
        >>> from pgmjax.mechanisms import Marginals
        >>> replay_mechanism(Marginals, "replace-one", pairs=4).epsilon
        1.0
    """
    case = AuditCase(mechanism, Relation.parse(relation), epsilon, delta, seed, options)
    return replay_case(case, case.tables(pairs, max_weight, domain, unit), workload)


def replay_case(
    case: AuditCase, tables: Iterable[tuple[Dataset, Dataset]], workload: Workload = WORKLOAD
) -> Replayed:
    """Check a case on pairs of neighbouring tables; see `replay_mechanism`."""
    return check_pairs(
        lambda data: case.make().run(data, workload), tables, epsilon=case.epsilon, delta=case.delta
    )


@dataclasses.dataclass(frozen=True)
class AuditCase:
    """A mechanism and its claim.

    Args:
        mechanism: a class such as those of `pgmjax.mechanisms`: it has `name` and `run(data, workload)`, and
            is called with epsilon, relation, delta and backend.
        relation: the neighbouring relation.
        epsilon: the mechanism's budget.
        delta: 0 for pure differential privacy.
        seed: seed of tables and noise, >= 0.
        options: further arguments of the mechanism.

    Raises:
        TypeError: the class lacks part of the interface above.
        ValueError: a number or the relation is invalid.

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
        checks.set_fields(
            self,
            relation=Relation.parse(self.relation),
            epsilon=exact_epsilon(self.epsilon),
            delta=exact_delta(self.delta),
            seed=checks.integer("seed", self.seed, low=0),
        )

    def make(self, seed: int | None = None, **more: Any) -> Any:
        """Return the mechanism with seeded noise and, if it takes an estimator, a short fit.

        Args:
            seed: seed of the noise. Default: the case's seed.
            more: arguments besides the case's options.
        """
        options = {**getattr(self.mechanism, "audited_with", {}), **more, **self.options}
        if "estimator" in inspect.signature(self.mechanism).parameters:
            options.setdefault("estimator", short_fit())
        options.setdefault("backend", SeededBackend(self.seed if seed is None else seed, insecure=True))
        return self.mechanism(epsilon=self.epsilon, relation=self.relation, delta=self.delta, **options)

    def tables(
        self,
        pairs: int,
        max_weight: int | None = None,
        domain: Domain = DOMAIN,
        unit: Unit | None = None,
    ) -> Iterable[tuple[Any, Any]]:
        """Yield pairs of neighbouring tables: the mechanism's own (`neighbours`) if it is of no `Dataset`.

        Args:
            pairs: how many.
            max_weight: records have weights up to this bound; None without.
            domain: of the tables.
            unit: the unit of privacy; None for one record.
        """
        if hasattr(self.mechanism, "neighbours"):
            return self.make().neighbours(pairs, self.seed)
        return neighbours(
            domain, self.relation, pairs=pairs, max_weight=max_weight, unit=unit, seed=self.seed
        )


def short_fit() -> Estimator:
    """Return an estimator that takes a few steps and shows nothing."""
    return Estimator(max_steps=_STEPS, max_bytes=10**9, progress=False)


def check_interface(mechanism: Any) -> None:
    """Refuse a class that cannot be audited as a mechanism.

    Raises:
        TypeError: part of the interface is missing; the message lists it.
    """
    checks.kind(
        mechanism,
        Callable,
        "A mechanism must be a class",
        "give the class mechanisms.MST, not its name nor MST(...)",
    )
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
