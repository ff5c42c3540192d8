"""The workloads of a sweep: all marginals of k attributes, or a workload file."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

from pgmjax._internal import checks
from pgmjax.data.domain import Domain
from pgmjax.queries.workload import Workload
from pgmjax.sweeps.fields import Fields
from pgmjax.sweeps.tables import located


@dataclasses.dataclass(frozen=True)
class WorkloadSpec:
    """What is asked of a table.

    Attributes:
        name: what results call it.
        all_kway: all marginals of so many attributes, or None.
        max_cells: as many of them as fit a model of so many cells; None takes all.
        file: instead of `all_kway`: a workload file.
        tables: the tables it is asked of; None is all.
    """

    name: str
    all_kway: int | None
    max_cells: int | None
    file: str
    tables: tuple[str, ...] | None = None

    def build(self, domain: Domain) -> Workload:
        """Return the workload on a domain.

        Raises:
            ValueError: it does not fit the domain.
        """
        try:
            if self.all_kway is not None:
                return Workload.all_kway(domain, self.all_kway, self.max_cells)
            workload = Workload.read(self.file)
            workload.validate(domain)
            return workload
        except (TypeError, ValueError) as error:
            raise ValueError(f"[[workloads]] {self.name}: {error}") from error


def read_spec(at: int, content: Any, folder: pathlib.Path, tables: Sequence[str]) -> WorkloadSpec:
    """Return an entry of [[workloads]].

    Args:
        at: its number, from 1.
        content: what it holds.
        folder: relative paths start here.
        tables: the names of the grid's tables.

    Raises:
        ValueError: a missing or unknown key, or neither or both of `all_kway` and `file`.
    """
    fields = Fields(f"[[workloads]] entry {at}", content)
    name = fields.take("name", str)
    fields.where = f"[[workloads]] entry {at} ({name})"
    k, cells = fields.take("all_kway", int, None), fields.take("max_cells", int, None)
    file, only = fields.take("file", str, ""), fields.names("tables", tables)
    fields.done()
    if (k is None) == (not file):
        raise ValueError(f"{fields.where}: give 'all_kway' or 'file', one of them.")
    if file and cells is not None:
        raise ValueError(f"{fields.where}: 'max_cells' goes with 'all_kway'.")
    for key, value in (("all_kway", k), ("max_cells", cells)):
        if value is not None:
            checks.integer(f"{fields.where}: {key!r}", value, low=1)
    return WorkloadSpec(name, k, cells, located(fields.where, file, folder) if file else "", only)
