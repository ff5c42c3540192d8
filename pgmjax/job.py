"""One job: a table, what is asked of it and for what budget; what it forecasts, runs and leaves on disk.

The command, `Synthesizer` and sweeps describe what they release as a `Job`. It chooses the mechanism, opens
the table, charges, runs, goes on after an interruption and writes the release, and it prints nothing.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from pgmjax import mechanisms
from pgmjax._internal import checks, files
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.draft import Draft
from pgmjax.data.population import Population
from pgmjax.data.relation import AnyRelation, Relation, Unit
from pgmjax.discovery import Discovery, NothingFound, OpenTable
from pgmjax.estimation.estimator import Estimator
from pgmjax.mechanisms.base import Mechanism
from pgmjax.mechanisms.forecast import (
    LIMIT_BEFORE_DISCOVERY,
    RECORDS,
    Recipe,
    ReleaseForecast,
    choose,
    forecast,
    with_limit,
)
from pgmjax.mechanisms.parameters import Keeping, PrivacyParameters
from pgmjax.mechanisms.run import FitError
from pgmjax.privacy import CountLeftOut, Ledger, NoiseBackend, SeededBackend
from pgmjax.privacy.exact import as_text
from pgmjax.privacy.opendp import default_backend, passes_on
from pgmjax.queries.workload import KWay, Workload
from pgmjax.release import folder as release_folder
from pgmjax.release import run_folder
from pgmjax.release.release import Release, check_prior
from pgmjax.release.statement import check_addable

AGAIN = "Run the same command again: it continues under the same charge in the ledger, at no further cost."
_ANSWERS = "continues from these answers"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """A release that is to be made.

    Args:
        records: the private table: the path of a file, a frame that Arrow can read, a `Dataset`, or a
            function that returns one. It is opened when it is needed, and read when the budget is charged.
        domain: what the columns may hold; a draft if some are open, None if all are. Open columns need
            `discovery`.
        reading: how a file is read: other arguments of `Dataset.read`, such as `weights`.
        unit: the unit of privacy, None for one record.
        discovery: what finding the open columns may cost.
        workload: what to measure and answer. Default: pairs of columns.
        max_cells: largest number of cells of the model. Default: as many as fit a minute, by the forecast.
        mechanism: a name, or a mechanism with its own settings.
        options: settings of a mechanism that is named.
        epsilon: the whole budget.
        delta: 0 for pure differential privacy.
        relation: the neighbouring relation.
        estimator: how the model is fitted. Default: `Estimator()`.
        insecure_seed: repeatable noise, which protects nobody. None: secure noise.
        prior: the folder of an earlier release, which the model follows where nothing is measured now.
        count_left_out: the share of the budget for counting what is left out of the table, or a
            `privacy.CountLeftOut`. None: it is not counted.
        check: called before noise is drawn and between stages; raises to stop.

    Guarantees:
        What leaves a job is what its mechanism releases; nothing else here reads a record.

    Example:
        >>> table = Dataset.from_columns(Domain({"a": 2, "b": 2}), {"a": [0] * 60, "b": [0, 1] * 30})
        >>> job = Job(records=table, domain=table.domain, epsilon=1, relation="replace-one")
        >>> job.chosen.name, len(job.recipe.workload), job.run().model.total
        ('auto', 1, 60.0)
    """

    epsilon: Any
    relation: AnyRelation
    delta: Any = 0
    records: Any = None
    domain: Domain | Draft | None = None
    reading: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    unit: Unit | None = None
    discovery: Discovery | None = None
    workload: Workload | KWay | None = None
    max_cells: int | None = None
    mechanism: Any = "auto"
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    estimator: Estimator | None = None
    insecure_seed: int | None = None
    prior: str | os.PathLike[str] | None = None
    count_left_out: CountLeftOut | Any = None
    check: Callable[[], None] = lambda: None

    again: ClassVar[str] = "Run the same command again, or pgmjax release --resume {}"
    """How the one who ran it goes on."""

    @functools.cached_property
    def table(self) -> Dataset | OpenTable:
        """The table; no record of it is read yet.

        Raises:
            ImportError: a package that reads it is not installed.
            TypeError: it is no table.
            ValueError: there is no such file, or an argument does not fit it.
        """
        records, known = self.records, self.domain
        read: Any
        if callable(records):
            return records()
        if isinstance(records, Dataset | OpenTable):
            return records
        given = {"unit": self.unit, **self.reading}
        if isinstance(records, str | os.PathLike):
            read = Dataset.read if isinstance(known, Domain) else OpenTable.read
            return read(records, known, **given)
        if isinstance(known, Domain):
            return Dataset.from_frame(known, records, **given)
        return OpenTable.from_frame(records, known, **given)

    @functools.cached_property
    def recipe(self) -> Recipe:
        """The mechanism, with its settings and its noise, and the workload.

        Raises:
            ImportError: the package that draws secure noise is not installed.
            TypeError: the workload is none.
            ValueError: an unknown mechanism, a setting that it lacks or refuses, or a workload that does not
                fit the domain.
        """
        mechanism, known = self.named, self.domain
        asked = KWay(2) if self.workload is None else self.workload
        options = checked_options(type(mechanism), self.options)
        limit = options.get("max_cells", self.max_cells)
        if isinstance(self.mechanism, Mechanism):  # with its own settings
            limit = getattr(mechanism, "max_cells", limit)
        if isinstance(asked, KWay):
            asked = dataclasses.replace(
                asked, max_cells=limit if asked.max_cells is None else asked.max_cells
            )
            if isinstance(known, Domain):
                return choose(mechanism, known, asked, **self._given)
            asked = dataclasses.replace(asked, max_cells=asked.max_cells or LIMIT_BEFORE_DISCOVERY)
            return Recipe(with_limit(mechanism, asked.max_cells), asked, asked.max_cells)
        checks.kind(
            asked,
            Workload,
            "workload must be a pgmjax.Workload",
            "leave it out for all pairs, or write Workload([('age', 'sex')])",
        )
        if isinstance(known, Domain):
            asked = asked.over(known)
        return Recipe(with_limit(mechanism, limit), asked, limit)

    @property
    def _given(self) -> dict[str, Any]:
        """The public facts of the table and its budget that a forecast takes."""
        counting = CountLeftOut.of(self.count_left_out)
        return {"unit": self.unit, "max_weight": self._weights(), "counting": counting}

    def _weights(self) -> int | None:
        return None if self.reading.get("weights") is None else self.reading.get("max_weight")

    @functools.cached_property
    def named(self) -> Mechanism:
        """The mechanism that was named, with its settings and its noise, whatever it is asked for.

        Raises:
            ImportError: the package that draws secure noise is not installed.
            ValueError: an unknown mechanism, or a setting that it lacks or refuses.
        """
        seed, names = self.insecure_seed, mechanisms.names()
        shared = {"epsilon": self.epsilon, "relation": self.relation, "delta": self.delta}
        own = self.mechanism if isinstance(self.mechanism, Mechanism) else None
        if own is not None:
            same = PrivacyParameters(**shared)
            if (own.epsilon, own.delta, own.relation) != (same.epsilon, same.delta, same.relation):
                found = f"epsilon {own.epsilon}, delta {own.delta} and {Relation.parse(own.relation).value}"
                raise ValueError(
                    "The epsilon, delta and relation of the mechanism must be those given beside it, "
                    f"got {found}: write the same in both places."
                )
            if own.backend is not None and seed is not None:
                raise ValueError("The mechanism already has a noise backend: leave insecure_seed out.")
        backend = None if own is None else own.backend
        if backend is None:
            backend = default_backend() if seed is None else SeededBackend(seed, insecure=True)
        watched = WatchedBackend(backend, self.check)
        if own is not None:
            return dataclasses.replace(own, backend=watched)
        kind = names[checks.choice("mechanism", self.mechanism, names, "a mechanism")]
        options = checked_options(kind, self.options)
        made: Mechanism = kind(**shared, **options, estimator=self.estimator, backend=watched)
        return made

    @property
    def chosen(self) -> Mechanism:
        """The mechanism that runs; see `recipe`."""
        return self.recipe.mechanism

    @property
    def drawn(self) -> bool:
        """True if noise was drawn, before which the budget is charged; False if answers were played back."""
        return isinstance(self.named.backend, WatchedBackend) and self.named.backend.drawn

    @functools.cached_property
    def earlier(self) -> Any:
        """The model of the earlier release, with what it was computed from; None without one.

        Raises:
            ValueError: no release is there, it is over another domain, or of another relation or unit, or the
                mechanism cannot follow one.
        """
        if self.prior is None:
            return None
        if not self.named.follows:
            raise ValueError(
                f"--from {self.prior}: {self.named.name} cannot follow an earlier release, because its "
                "answers are not those of a model fitted to measurements. Leave --from out, or name another "
                "mechanism."
            )
        return read_prior(self.prior, self.domain, self.named.relation, self.unit)

    def forecast(self, records: int | None = None) -> ReleaseForecast:
        """Return what would be measured, with what noise, time and memory. Nothing is read or spent.

        Args:
            records: number of records if it is public.

        Raises:
            ValueError: the job would be refused, or its domain is not known.
        """
        domain, workload = self.domain, self.recipe.workload
        if not (isinstance(domain, Domain) and isinstance(workload, Workload)):
            raise ValueError("A forecast needs a complete domain: describe the open columns.")
        number = RECORDS if records is None else records
        return forecast(self.chosen, domain, workload, **self._given, records=number)

    def forecast_left_out(self) -> list[str]:
        """Return what would be counted of what is left out of the table, with its cost and noise, in words.

        Raises:
            ValueError: nothing can be left out, as far as is known without a ledger's account.
        """
        counting, named = CountLeftOut.of(self.count_left_out), self.named
        if counting is None:
            return []
        drops, relation = self.reading.get("rows_outside") == "drop", Relation.parse(named.relation)
        weighted = self._weights() is not None
        planned = counting.plan(relation, self.unit, drops=drops, weighted=weighted)
        return counting.lines(planned, relation, named.budget(), named.backend or default_backend())

    @property
    def population(self) -> Population:
        """The records that a release without a ledger is of; with one, the table's holder decides that.

        Raises:
            ValueError: the domain is not known.
        """
        if not isinstance(self.domain, Domain):
            raise ValueError(
                "Which records count is known with a complete domain: describe the open columns."
            )
        read = Population.of_table(self.domain, self.reading.get("rows_outside"), self._weights())
        return dataclasses.replace(read, unit=self.unit).over(self.domain)

    def run(
        self,
        *,
        ledger: Ledger | None = None,
        key: str | None = None,
        show_progress: bool | None = None,
        folder: run_folder.RunFolder | None = None,
    ) -> Release:
        """Spend the budget and return the release; see `Mechanism.run`, also for what it raises."""
        earlier, held = self.earlier, self.table
        if earlier is not None and isinstance(held, Dataset):  # a ledger's account may name the unit
            check_addable(earlier.inputs, self.named.relation, Keeping(ledger).unit_of(held).unit)
        release = self.chosen.run(
            self.table,
            self.recipe.workload,
            discover=self.discovery,
            ledger=ledger,
            key=key,
            show_progress=show_progress,
            folder=folder,
            count_left_out=self.count_left_out,
        )
        if earlier is None:
            return release
        return release.with_prior(earlier, self.chosen.estimator)

    def make(
        self,
        out: str | os.PathLike[str],
        *,
        asked: Mapping[str, Any] | None = None,
        shown: Mapping[str, Any] | None = None,
        ledger: Ledger | None = None,
        key: str | None = None,
        show_progress: bool | None = None,
        **output: Any,
    ) -> tuple[release_folder.SavedRelease, Mapping[str, Exception]]:
        """Run, and write the release as a folder.

        Every noisy answer is in OUT.partial before it is used. The same job in the same place goes on from
        there, whatever ended it. Parts that cannot be written are left out; OUT.partial then stays, for
        another turn that adds them.

        Args:
            out: the folder; it must not exist, or lack parts that this job could not write before.
            asked: what the caller was asked for, for JSON, by which its own OUT.partial is known.
            shown: the rest of that, which may be another when the job goes on.
            ledger: the ledger with the table's budget.
            key: the run's name in the ledger.
            show_progress: None shows progress in terminals only.
            output: as for `write`.

        Returns:
            The release, and the errors of the parts that it lacks.

        Raises:
            RuntimeError: something failed after the budget was spent. The message says how to go on.
            ValueError: the job is refused, and nothing was spent.
        """
        target = run_folder.check_out(out)
        release_folder.check_packages()
        _ = self.chosen, self.earlier  # refused, if they must be, before there is a folder
        _ = self.table
        folder = run_folder.RunFolder.beside(target, asked or {}, shown or {})
        if run_folder.is_own(target) and not (done := self.read(target)).missing:
            folder.drop()  # the process ended between these two
            return done, {}
        release = None
        try:
            self.check()
            release = self.run(ledger=ledger, key=key, show_progress=show_progress, folder=folder)
            self.check()
            output |= {"show_progress": show_progress, "check": self.check}
            missing = self.write(folder.to_write(), release, **output)
            folder.publish(target, asked or {}, shown or {}, keep=bool(missing))
        except BaseException as error:
            folder.leave()
            if not isinstance(error, Exception):
                raise
            self.check()  # a library may have turned an interrupt into another error
            if isinstance(error, NothingFound):  # the same answers give nothing again
                raise
            kept, unseen = folder.folder.exists(), isinstance(error, run_folder.NotKept)
            if not (self.drawn or release is not None or isinstance(error, FitError)):
                raise
            if unseen and not kept and ledger is None:
                raise RuntimeError(f"{error} It was the first, so that nothing is spent yet.") from error
            said = self._after_failure(error, release is not None, target)
            if ledger is not None and not kept:
                said += f" {AGAIN}"
            raise RuntimeError(said) from error
        return self.read(target), missing

    def write(self, place: pathlib.Path, release: Any, **output: Any) -> Mapping[str, Exception]:
        """Write what was released into an empty folder; see `release.folder.fill`."""
        return release_folder.fill(place, release, **output)

    def read(self, place: pathlib.Path) -> release_folder.SavedRelease:
        """Return what was written."""
        return release_folder.read(place)

    def after_interrupt(self, out: pathlib.Path, *, charged: bool = False) -> str:
        """Return a message on what an interrupt left.

        Args:
            out: where the release was to be.
            charged: whether a ledger keeps the run's charge and answers.
        """
        partial = run_folder.partial_of(out)
        said = checks.first_said(
            ((out / "release.json").is_file() and not partial.is_dir(), f"the release is at {out}"),
            (
                run_folder.holds_answers(partial),
                f"the noisy answers are in {partial}. {self._resume(out, _ANSWERS)}",
            ),
            (not charged, "nothing was spent"),
            (self.drawn, f"nothing was written. {AGAIN}"),
        )
        if said:
            return f"interrupted; {said}"
        return "interrupted before noise was drawn. Run the same command again: it is charged only once."

    def _after_failure(self, error: Exception, is_made: bool, out: pathlib.Path) -> str:
        """Return a message on what failed after a run had its first noise, and what it left."""
        cause = error.__cause__ if isinstance(error, FitError) and error.__cause__ else error
        reason = str(cause).strip().rstrip(".") or type(cause).__name__
        partial = run_folder.partial_of(out)
        stage = "fit" if isinstance(error, FitError) else "writing" if is_made else "measuring"
        said = f"The {stage} failed: {reason}. The budget is spent ({price(self.named)})"
        kept = f"; the noisy answers are in {partial}. {self._resume(out, _ANSWERS)}"
        return f"{said}{kept * partial.is_dir()}."

    def lacking(self, out: pathlib.Path, missing: Mapping[str, Exception]) -> str:
        """Return a message on the parts that a release lacks, and how to add them."""
        resume = self._resume(out, "adds what is missing")
        return f"The release at {out} is incomplete: {release_folder.in_words(missing)}. {resume}."

    def _resume(self, out: pathlib.Path, does: str) -> str:
        return f"{self.again.format(run_folder.partial_of(out))}: it {does} at no further cost"


@passes_on
class WatchedBackend:
    """A noise backend that hands over what another one draws and notes that it did.

    The budget of a run is charged just before its noise is drawn.

    Args:
        backend: the other one.
        check: called before each of its distributions is made; raises to stop.
    """

    def __init__(self, backend: NoiseBackend, check: Callable[[], None] = lambda: None):
        self._backend, self._check = backend, check
        self._notes: list[str] = []

    def restart(self) -> WatchedBackend:
        """Return the backend for one run."""
        again = WatchedBackend(self._backend.restart(), self._check)
        again._notes = self._notes
        return again

    @property
    def drawn(self) -> bool:
        """True if noise was drawn, by this object or by one that `restart` returned."""
        return bool(self._notes)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self._backend, name)
        if name in ("draw", "choose", "choose_several", "respond", "respond_bits"):
            self._notes.append(name)
        elif callable(found):
            self._check()
        return found


def checked_options(mechanism: type[Any], given: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """Return options under their own names, which may be given in any case.

    Raises:
        ValueError: the mechanism has no such option; the message begins with `where`.
    """
    known = mechanisms.options(mechanism)
    found = {}
    for name, value in given.items():
        own = checks.same_word(name, known)
        if own is None:
            listed, meant = ", ".join(known) or "none", checks.did_you_mean(name, known)
            others = [n for n, each in mechanisms.names().items() if name in mechanisms.options(each)]
            if mechanism.name == "auto" and others:
                raise ValueError(
                    f"{where}{name!r} is an option of {', '.join(others)}: name that mechanism too. Without "
                    f"one it is auto, which has: {listed}."
                )
            raise ValueError(
                f"{where}The mechanism {mechanism.name} has no option {name!r}; it has: {listed}.{meant}"
            )
        if own in found:
            raise ValueError(f"{where}The option {own!r} is given twice.")
        found[own] = value
    return found


def read_workload(path: str | os.PathLike[str], domain: Domain | None = None) -> Workload:
    """Return the workload of a file, checked against a domain if it is known.

    Raises:
        ValueError: there is no such file, or no workload over the domain in it.
    """
    if os.fspath(path).lstrip().startswith(("[", "{")):
        raise ValueError("The workload is the name of a file: write this list into one, such as w.json.")
    if not pathlib.Path(path).exists():
        holds = 'It lists the attributes of each table that is asked for: [["age", "sex"], ["job"]].'
        raise ValueError(f"{files.absent('workload file', path)} {holds}")
    workload = Workload.read(path)
    return workload if domain is None else workload.over(domain)


def read_prior(
    folder: str | os.PathLike[str], domain: Any, relation: Any = None, unit: Unit | None = None
) -> Any:
    """Return the model of an earlier release, with what it was computed from; see `check_prior`.

    Raises:
        ValueError: no release is there, it is over another domain, or of another relation or unit.
    """
    if pathlib.Path(folder).is_file():
        raise ValueError(f"--from {folder}: expected the folder of an earlier release, got a file.")
    model = release_folder.opened(folder).model
    try:
        check_prior(model, domain)
    except ValueError as error:
        place = pathlib.Path(folder) / "domain.json"
        file = str(place) if place.is_file() else "the file that it was made with"
        raise ValueError(f"--from {folder}: {error} Give {file} as --domain, or leave --from out.") from error
    if relation is not None:
        check_addable(model.inputs, relation, unit)
    return model


def price(mechanism: Any) -> str:
    """Return the budget of a run of a mechanism as text."""
    delta = f", delta = {as_text(mechanism.delta)}" if mechanism.delta else ""
    return f"epsilon = {as_text(mechanism.epsilon)}{delta}"
