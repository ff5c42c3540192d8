"""The cells of a sweep, each identified by a digest of everything its result depends on."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from pgmjax._version import __version__
from pgmjax.data.relation import Relation
from pgmjax.privacy.exact import as_text
from pgmjax.queries.workload import Workload
from pgmjax.sweeps.grid import MechanismSpec, SweepGrid
from pgmjax.sweeps.tables import Table

_FORM = 1


@dataclasses.dataclass(frozen=True)
class Cell:
    """One trial.

    Attributes:
        key: the digest (64 hexadecimal digits), primary key of its row.
        trial: number of the trial, from 0.
        seed: seed of its noise, derived from the key.
    """

    key: str
    trial: int
    seed: int


@dataclasses.dataclass(frozen=True)
class Group:
    """The trials of one combination of settings, which are run and stored together.

    Attributes:
        table: the table's name.
        workload: the workload's name.
        mechanism: the mechanism with its options.
        epsilon: epsilon of the budget.
        delta: delta of the budget.
        relation: the neighbouring relation.
        estimator: settings of the fit.
        asked: the workload.
        content: everything the results depend on, apart from the trial.
        trials: number of trials.
    """

    table: str
    workload: str
    mechanism: MechanismSpec
    epsilon: Fraction
    delta: Fraction
    relation: Relation
    estimator: Mapping[str, Any]
    asked: Workload
    content: Mapping[str, Any]
    trials: int

    @functools.cached_property
    def key(self) -> str:
        """Digest of the content; it does not depend on the number of trials."""
        return _digest(self.content)

    @functools.cached_property
    def cells(self) -> tuple[Cell, ...]:
        """One cell per trial; with fewer trials, the first of these."""
        keys = [_digest({"group": self.key, "trial": trial}) for trial in range(self.trials)]
        return tuple(Cell(key, trial, int(key[:15], 16)) for trial, key in enumerate(keys))

    def __str__(self) -> str:
        return f"{self.table}, {self.workload}, {self.mechanism.label}, epsilon {as_text(self.epsilon)}"


def groups(grid: SweepGrid, tables: Mapping[str, Table]) -> Iterator[Group]:
    """Yield the groups of a grid in grid order.

    Args:
        grid: the sweep.
        tables: its tables, by name.

    Raises:
        ValueError: a workload does not fit a table's domain.
    """
    built: dict[tuple[str, str], Workload] = {}
    for table, workload, mechanism, epsilon in grid.combinations():
        place = (table.name, workload.name)
        if place not in built:
            built[place] = workload.build(tables[table.name].domain)
        content = {
            "form": _FORM,
            "pgmjax": __version__,
            "seed": grid.seed,
            "table": {"name": table.name, "digest": tables[table.name].digest},
            "domain": tables[table.name].domain.to_dict(),
            "workload": {"name": workload.name, "entries": built[place].to_list()},
            "mechanism": {"name": mechanism.name, "label": mechanism.label, "options": mechanism.options},
            "epsilon": as_text(epsilon),
            "delta": as_text(grid.delta),
            "relation": grid.relation.value,
            "estimator": grid.estimator,
        }
        yield Group(
            table.name, workload.name, mechanism, epsilon, grid.delta, grid.relation, grid.estimator,
            built[place], content, grid.trials,
        )  # fmt: skip


def _digest(content: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON: sorted keys, no white space, non-JSON values as text."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()
