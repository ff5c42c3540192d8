"""L1 and L3 of an audit for a whole mechanism, on small made-up tables."""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from pgmjax import _checks
from pgmjax.audit.blackbox import LowerBound, epsilon_lower_bound
from pgmjax.audit.replay import Replayed, check_pairs
from pgmjax.audit.tables import neighbours
from pgmjax.dataset import Dataset
from pgmjax.domain import Domain
from pgmjax.estimate import Estimator
from pgmjax.measurements import LinearMeasurement
from pgmjax.privacy.accounting import rho_for
from pgmjax.privacy.amounts import exact_delta, exact_epsilon
from pgmjax.privacy.backend_seeded import SeededBackend
from pgmjax.progress import Progress
from pgmjax.relation import Relation
from pgmjax.workload import Workload

DOMAIN = Domain({"a": 3, "b": 2, "c": 4})
WORKLOAD = Workload([["a", "b"], ["b", "c"], {"clique": ["c"], "queries": {"c": "prefix"}}])
_STEPS = 5
_ROWS = 40


def make(mechanism: Any, relation: Relation, epsilon: Any, delta: Any, seed: int, **options: Any) -> Any:
    """Return a mechanism with seeded noise and, where it fits a model, a short fit."""
    if "estimator" in inspect.signature(mechanism).parameters:
        options.setdefault("estimator", Estimator(max_steps=_STEPS, max_bytes=10**9, progress=False))
    backend = SeededBackend(seed, insecure=True)
    return mechanism(epsilon=epsilon, relation=relation, delta=delta, backend=backend, **options)


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
        mechanism: a class such as those of `pgmjax.mechanisms`: called with epsilon, relation, delta and
            backend, it has `run(data, workload)`.
        relation: which tables are neighbours.
        epsilon: what it may spend.
        delta: 0 for pure differential privacy.
        pairs: how many pairs of made-up neighbouring tables.
        max_weight: records have weights up to this bound; None without.
        domain: of the made-up tables.
        workload: what it is to answer.
        seed: of tables and noise.
        options: more arguments of the mechanism.

    Raises:
        NonInterferenceError: something but released numbers depends on the table, or more is spent than
            claimed.

    Example:
        >>> import pgmjax as pj
        >>> from pgmjax.audit import SelectAndMeasure
        >>> replay_mechanism(SelectAndMeasure, "replace-one", pairs=4).epsilon
        1.0
    """
    relation = Relation.parse(relation)
    made = make(mechanism, relation, epsilon, delta, seed, **options)
    claim = (
        {"epsilon": exact_epsilon(epsilon)} if exact_delta(delta) == 0 else {"rho": rho_for(epsilon, delta)}
    )
    tables = neighbours(domain, relation, pairs=pairs, max_weight=max_weight, seed=seed)
    with _small_tables():
        return check_pairs(lambda data: made.run(data, workload), tables, **claim)


def lower_bound(
    mechanism: Any,
    relation: Relation | str,
    *,
    epsilon: Any = 1,
    delta: Any = 0,
    trials: int = 500,
    alpha: float = 1e-6,
    seed: int = 0,
    show_progress: bool | None = None,
    **options: Any,
) -> LowerBound:
    """Run a mechanism many times on two neighbouring tables and bound its epsilon from below.

    What is looked at is how far the noisy answers lean to one table's exact answers, weighed by their
    noise, as an attacker would who knows all records but one.

    Args:
        mechanism: as in `replay_mechanism`; its result must have `measurements`.
        relation: which tables are neighbours.
        epsilon: what it may spend; 1 or 2 shows faults best.
        delta: 0 for pure differential privacy.
        trials: runs on each of the two tables.
        alpha: the probability that the bound is above the true epsilon.
        seed: of the first run's noise; each run has its own.
        show_progress: None shows a bar in terminals only, False never.
        options: more arguments of the mechanism.
    """
    relation = Relation.parse(relation)
    trials = _checks.integer("trials", trials, low=2)
    codes = np.zeros((len(DOMAIN), _ROWS), dtype=np.int64)
    other = codes.copy()
    other[:, -1] = [size - 1 for size in DOMAIN.shape]
    if relation is Relation.ADD_REMOVE:
        other = codes[:, :-1]
    columns = [dict(zip(DOMAIN.attributes, each, strict=True)) for each in (codes, other)]
    tables = [Dataset.from_columns(DOMAIN, each) for each in columns]
    leans = np.empty((2, trials))
    with _small_tables(), Progress("black-box runs", 2 * trials, show_progress) as progress:
        for trial in range(trials):
            for side, data in enumerate(tables):
                made = make(mechanism, relation, epsilon, delta, seed + 2 * trial + side, **options)
                released = made.run(data, WORKLOAD).measurements
                leans[side, trial] = sum(_lean(each, *columns) for each in released)
                progress.advance()
    return epsilon_lower_bound(leans[0], leans[1], alpha=alpha, delta=float(exact_delta(delta)))


@contextlib.contextmanager
def _small_tables() -> Iterator[None]:
    """A nearly empty table may well have a noisy total below 1: no reason for a warning here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the noisy answers put the total")
        yield


def _lean(
    measurement: LinearMeasurement, first: dict[str, np.ndarray], other: dict[str, np.ndarray]
) -> float:
    """How far noisy answers lean to the first table rather than the other."""
    exact = [_answers(measurement, columns) for columns in (first, other)]
    distance = (exact[0] - exact[1]) / measurement.row_stddevs() ** 2
    return float(distance @ (measurement.flat_values() - (exact[0] + exact[1]) / 2))


def _answers(measurement: LinearMeasurement, columns: dict[str, np.ndarray]) -> np.ndarray:
    table = np.zeros(DOMAIN.shape_of(measurement.clique), dtype=np.int64)
    np.add.at(table, tuple(columns[name] for name in measurement.clique), 1)
    return np.asarray(measurement.query.apply(table), dtype=np.float64).reshape(-1)
