"""The guarantee that every mechanism declares, and how it opens a table under it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar

from pgmjax._internal import checks
from pgmjax._internal.migration import Named
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.ratings import Ratings
from pgmjax.data.relation import AnyRelation, Relation
from pgmjax.privacy import Budget, Ledger, NoiseBackend, PrivateTable, rho_for, tape
from pgmjax.privacy.exact import as_text, chosen_delta, exact_epsilon, exact_share
from pgmjax.privacy.ledger.journal import HeldTable, LedgerJournal
from pgmjax.queries.workload import Workload
from pgmjax.release.run_folder import RunFolder, UnfinishedRun


@dataclasses.dataclass(frozen=True)
class Keeping:
    """The places that keep the charge and the noisy answers of a run; see `Mechanism.run`.

    Attributes:
        ledger: the ledger with the table's budget. Default: no record beyond this run.
        key: the run's name in the ledger. Default: derived from the request.
        folder: the run's folder, or None.

    Raises:
        TypeError: `ledger` is not a ledger.
        ValueError: a key without a ledger.
    """

    ledger: Ledger | None = None
    key: str | None = None
    folder: RunFolder | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.ledger, Ledger | None):
            given = type(self.ledger).__name__
            made = (
                ""
                if os.path.exists(str(self.ledger))
                else ", or Ledger.create(file) and register of a new one"
            )
            raise TypeError(f"ledger must be a Ledger, got {given}: write privacy.Ledger.open(file){made}.")
        if self.ledger is None and self.key is not None:
            raise ValueError("key names a run in a ledger: give the ledger too, or leave it out.")

    def unit_of(self, data: Dataset) -> Dataset:
        """Return a table under the unit of privacy of its account, which a plan has to know.

        Raises:
            ValueError: the table was opened with another unit.
        """
        if self.ledger is None or all(each.unit_of_privacy is None for each in self.ledger.accounts()):
            return data
        found = self.ledger.find_table(data)
        defined = found is not None and (found[0].definition or found[0].open) is not None
        return data.of_unit(found[0].unit_of_privacy) if found is not None and defined else data

    def journal(
        self, data: Dataset | Ratings, request: Mapping[str, Any], held: HeldTable | None = None
    ) -> LedgerJournal | None:
        """Return the journal of a run in the ledger, or None without a ledger.

        Args:
            data: the private table.
            request: everything that determines what is measured, with the name of the mechanism under
                "mechanism". It identifies the run.
            held: the table as it was found in the ledger already.

        Raises:
            ValueError: a table that is not in the ledger.
            LedgerError: the ledger cannot be read.
        """
        if self.ledger is None:
            return None
        held = HeldTable.of(self.ledger, data) if held is None else held
        return LedgerJournal(self.ledger, held, self.key, request)


def declared(default: Any, check: Callable[[str, Any], Any], *, optional: bool = False) -> Any:
    """Return a field of a mechanism that becomes what a check returns when one is made.

    Args:
        default: of the field. If it is None, None may be given too, and is not checked.
        check: takes the name of the field and the given value, and raises if the value is wrong.
        optional: whether None may be given whatever the default is.
    """

    def checked(name: str, value: Any) -> Any:
        return None if value is None and (optional or default is None) else check(name, value)

    return dataclasses.field(default=default, metadata={"check": checked})


def budget_share(default: Any) -> Any:
    """Return a field that is a share of the budget, in (0, 1), as an exact fraction."""
    return declared(default, exact_share)


def whole(default: int | None, low: int = 0, high: int | None = None, *, optional: bool = False) -> Any:
    """Return a field that is a whole number within bounds."""
    return declared(default, lambda name, value: checks.integer(name, value, low, high), optional=optional)


def one_of(default: str | None, allowed: Sequence[str]) -> Any:
    """Return a field that is one of some words."""
    return declared(default, lambda name, value: checks.choice(name, value, allowed))


def flag(default: bool) -> Any:
    """Return a field that is True or False."""

    def check(name: str, value: Any) -> bool:
        checks.kind(value, bool, f"{name} must be True or False")
        return bool(value)

    return declared(default, check)


@dataclasses.dataclass(frozen=True)
class PrivacyParameters(Named):
    """A privacy guarantee and the source of noise.

    Args:
        epsilon: the whole budget: a number, or an exact string such as "1/3".
        relation: the neighbouring relation or its name, "add-remove" or "replace-one"; there is no default.
        delta: 0 for pure differential privacy, with discrete Laplace noise and permute-and-flip. Above 0,
            the budget is the largest rho that converts to at most (epsilon, delta), with discrete Gaussian
            noise and the exponential mechanism.
        backend: source of noise. Default: the secure one.

    Raises:
        TypeError: epsilon or delta is a bool or not a number.
        ValueError: epsilon or delta is out of range, or the relation is not supported.
    """

    epsilon: Any
    relation: AnyRelation
    delta: Any = 0
    backend: NoiseBackend | None = dataclasses.field(default=None, kw_only=True)

    name: ClassVar[str]
    """The name on the command line and in files."""
    relations: ClassVar[tuple[Relation, ...]] = tuple(Relation)
    """The neighbouring relations that are supported."""
    accepts_weights: ClassVar[bool] = True
    """Whether tables whose records have weights are accepted."""
    restriction: ClassVar[str] = ""
    """The reason for a restriction of either, as the end of a sentence."""

    def __post_init__(self) -> None:
        checks.set_fields(
            self,
            epsilon=exact_epsilon(self.epsilon),
            relation=Relation.parse(self.relation),
            delta=chosen_delta(self.delta),
        )
        if self.relation not in self.relations:
            supported = " or ".join(relation.value for relation in self.relations)
            raise ValueError(
                f"{type(self).__name__} works under {supported} only, got {self._neighbours.value}: "
                f"{self.restriction}"
            )
        if self.backend is not None and not hasattr(self.backend, "restart"):
            raise TypeError(
                f"backend must be a NoiseBackend, got {type(self.backend).__name__}: leave it out for the "
                "secure noise of OpenDP."
            )
        for field in dataclasses.fields(self):
            if "check" in field.metadata:
                checks.set_fields(
                    self, **{field.name: field.metadata["check"](field.name, getattr(self, field.name))}
                )

    @property
    def _neighbours(self) -> Relation:
        """The relation, for type checkers: the field takes its name too."""
        return Relation.parse(self.relation)

    @property
    def repeatable(self) -> bool:
        """True if the noise can be repeated, from a seed or a tape, so that no answer has to be kept."""
        return tape.active() is not None or (self.backend is not None and self.backend.seed is not None)

    def budget(self) -> Budget:
        """Return a new budget: epsilon if delta is 0, otherwise the rho for (epsilon, delta)."""
        if self.delta == 0:
            return Budget(self.epsilon)
        return Budget(rho_for(self.epsilon, self.delta), unit="rho")

    def _request_of(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return what identifies a run: its settings, its guarantee and its noise."""
        return {
            **settings,
            "epsilon": as_text(self.epsilon),
            "delta": as_text(Fraction(0) if self.budget().unit == "epsilon" else self.delta),
            "relation": self._neighbours.value,
            "seed": None if self.backend is None else self.backend.seed,
        }

    def _check_table(self, data: Any) -> None:
        """Check that a table is one, and has no weights if the mechanism does not accept them.

        Raises:
            TypeError: it is not a table.
            ValueError: it has weights. The message gives the reason for the restriction.
        """
        if not isinstance(data, Dataset):
            if hasattr(data, "measurements") and hasattr(data, "rows"):
                raise TypeError(
                    f"data must be a pgmjax.Dataset, got {type(data).__name__}, whose answers are noisy "
                    "already: write Estimator().fit(table.domain, table.measurements(cliques), "
                    "total=table.rows)."
                )
            call = "mechanism.run(data, workload)" + " or perturb(data)" * hasattr(self, "perturb")
            raise TypeError(
                f"data must be a pgmjax.Dataset, got {type(data).__name__}: write {call}, with "
                "Dataset.from_frame(domain, frame) for data."
            )
        if data.weighted and not self.accepts_weights:
            raise ValueError(f"{type(self).__name__} takes no weighted tables: {self.restriction}")

    @contextlib.contextmanager
    def _keeping(self, ledger: Ledger | None, key: str | None, folder: RunFolder | None) -> Iterator[Keeping]:
        """Keep a run's answers while the block runs: in the given folder, or in one until it is done.

        A ledger keeps the answers itself, and noise that can be repeated is kept by its seed.
        """
        kept = Keeping(ledger, key, folder)
        with contextlib.ExitStack() as stack:
            if folder is None and ledger is None and not self.repeatable:
                kept = Keeping(folder=stack.enter_context(UnfinishedRun().kept()))
            if kept.folder is not None:
                stack.enter_context(kept.folder.running())
            yield kept

    def _open_table(
        self,
        data: Dataset,
        workload: Workload | None,
        settings: Mapping[str, Any],
        keeping: Keeping,
        budget: Budget | None = None,
    ) -> PrivateTable:
        """Return the table under a budget, with its charge and answers kept.

        Args:
            data: the private table.
            workload: the requested queries, or None.
            settings: everything else that determines what is measured, public and JSON-serialisable, with
                the name of the mechanism under "mechanism".
            keeping: where charge and answers are kept.
            budget: of the run. Default: a new one.

        Raises:
            ValueError: a table that is not in the ledger, or a folder of another run.
            LedgerError: the ledger cannot be read.
        """
        asked = {
            **settings,
            "domain": data.domain.to_dict(),
            "columns": data.layout,
            "max_weight": data.max_weight if data.weighted else None,
            **({} if data.unit is None else {"unit": data.unit.to_dict()}),
            "workload": None if workload is None else workload.to_list(),
        }
        return self._opened(data, asked, keeping, self.budget() if budget is None else budget)

    def _opened(
        self,
        data: Dataset,
        settings: Mapping[str, Any],
        keeping: Keeping,
        budget: Budget,
        held: HeldTable | None = None,
    ) -> PrivateTable:
        """Return the table under a budget, with the journal of what is asked; see `_open_table`."""
        request = self._request_of(settings)
        kept = keeping.journal(data, request, held)
        if keeping.folder is not None:
            place = None if kept is None else {name: kept.receipt()[name] for name in ("account", "key")}
            keeping.folder.bind({**request, "reading": data.reading, "ledger": place}, data)
        if kept is not None and isinstance(kept.data, Dataset):
            data = kept.data
        journal = kept if keeping.folder is None else keeping.folder.journal(kept)
        return PrivateTable(data, self.relation, budget, self.backend, journal)


def workload_over(workload: Any, domain: Domain) -> Workload:
    """Return a workload over a table's domain.

    Raises:
        TypeError: it is not a workload.
        ValueError: it does not fit the domain.
    """
    then = 'write Workload.all_kway(domain, 2), or Workload([("age", "sex")])'
    checks.kind(workload, Workload, "workload must be a pgmjax.Workload", then)
    return workload.over(domain)
