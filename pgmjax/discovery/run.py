"""Discovery as the first part of a run: the budget of both, the table that answers, and what is left."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any

from pgmjax.data.dataset import Dataset
from pgmjax.discovery.discover import Discovery, Found, Purpose, discover, first_look
from pgmjax.discovery.open_table import OpenTable
from pgmjax.privacy.accounting.zcdp import rho_for
from pgmjax.privacy.budget import Budget
from pgmjax.privacy.ledger import Ledger
from pgmjax.privacy.ledger.journal import HeldTable
from pgmjax.privacy.private_table import PrivateTable


@dataclasses.dataclass(frozen=True)
class DiscoveryRun:
    """The discovery of an open table's domain by a run that goes on with the rest of its budget.

    Attributes:
        table: the table, as its holder defined it if a ledger knows it.
        settings: what discovery may cost.
        look: the records as they were opened first.
        held: the table as it was found in the ledger, or None.
    """

    table: OpenTable
    settings: Discovery
    look: Dataset
    held: HeldTable | None = None

    @classmethod
    def of(cls, table: OpenTable, settings: Discovery, ledger: Ledger | None) -> DiscoveryRun:
        """Open the table for a run, and find its place in the ledger. Nothing is spent.

        Raises:
            ValueError: the ledger has no account for the table, or its holder defined it otherwise.
        """
        if ledger is None:
            return cls(table, settings, first_look(table))
        held = HeldTable.open(ledger, first_look(table))
        if held.account.open is not None:
            table = table.held_as(held.account.open)
        look = first_look(table)
        if isinstance(held.data, Dataset):
            look = look.as_old_as(held.data)
            held = dataclasses.replace(held, data=look)
        return cls(table, settings, look, held)

    def budget(self, epsilon: Any, delta: Any) -> Budget:
        """Return the budget of discovery and run together: of delta, a share is kept for labels of text."""
        if delta == 0:
            return Budget(epsilon)
        risk = delta * self.settings.delta_share if self.table.may_have_labels else 0
        return Budget(rho_for(epsilon, delta - risk), unit="rho", delta=risk or None)

    def describe(self) -> dict[str, Any]:
        """Return the public request for the ledger: it identifies what is discovered."""
        unit = self.table.unit
        return {
            "draft": self.table.draft.to_dict(),
            "discover": self.settings.to_dict(),
            "columns": self.look.layout,
            **({} if unit is None else {"unit": unit.to_dict()}),
        }

    def find(
        self,
        opened: PrivateTable,
        ledger: Ledger | None,
        show_progress: bool | None,
        kept: Fraction = Fraction(0),
    ) -> tuple[Found, PrivateTable]:
        """Find the domain, and return it with the table over it under the rest of the budget.

        Args:
            opened: the private table under the budget of discovery and run together.
            ledger: remembers the domain, if there is one.
            show_progress: None shows a bar in terminals only, False never.
            kept: what of the rest goes to something else than measuring over the domain.

        Raises:
            ValueError, BudgetExceeded, TableChangedError: as `discover`.
        """
        whole, spends = opened.budget, opened.budget.cap * self.settings.share
        purpose = Purpose(whole.unit, whole.cap - spends - kept, opened.max_records)
        part = opened.over(self.look, whole.part(spends, delta=whole.delta or None))
        found = discover(part, self.table, purpose, show_progress, self.look)
        receipt = opened.receipt()
        if ledger is not None and receipt is not None:
            ledger.set_discovered(receipt["account"], receipt["charge"], found.domain)
        attributes = [found.domain.attribute(name) for name in found.domain]
        data = self.table.under(attributes, found.rows_outside, like=self.look)
        return found, opened.over(data, whole.part(whole.remaining))
