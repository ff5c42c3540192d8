"""A release, or a fit to answers that were published elsewhere, on disk: a folder in full or not at all.

It is written next to its final location and renamed when complete, so that an interrupt or a full disk
leaves nothing behind. Everything in it is computed from released numbers.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.metadata
import json
import os
import pathlib
import platform
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pgmjax._internal import checks, files, formats
from pgmjax._internal.files import is_ledger, reserve_folder
from pgmjax._internal.migration import READS
from pgmjax._internal.progress import Progress
from pgmjax._version import __version__
from pgmjax.data import text_file
from pgmjax.data.domain import Domain
from pgmjax.data.population import Population
from pgmjax.estimation.constraints import kind_of
from pgmjax.estimation.estimator import MAX_ENTROPY, Estimator, Fit
from pgmjax.learning import Predictor, predictor
from pgmjax.measurements import inputs, transcript
from pgmjax.measurements.inputs import MEASURED, Input, are_secure
from pgmjax.measurements.published import Published, read_measurements
from pgmjax.measurements.transcript import Transcript
from pgmjax.model import MixtureModel, RegionModel, row_file
from pgmjax.model.graphical import GraphicalModel
from pgmjax.model.load import load_model
from pgmjax.model.sampling import METHODS, ROUND
from pgmjax.privacy.exact import as_text
from pgmjax.queries.workload import Workload
from pgmjax.release import assurance, tables, whole_table
from pgmjax.release.accuracy import CountEstimates, NoisyDistance
from pgmjax.release.analysis import Analysed
from pgmjax.release.asked import AskedModel
from pgmjax.release.report import render, render_fit
from pgmjax.release.statement import not_secure, of_inputs
from pgmjax.uncertainty.intervals import ErrorBars, error_bars

FIT_RECORD = "fit.json"
SYNTHETIC_FORMATS = ("parquet", "csv")
MOST_ROWS = 10_000_000
DISTANCES = "distances.parquet"
"""File of the noisy distances that an adaptive mechanism published."""
_OF_FIT = (
    "The noisy answers were published elsewhere. This fit read no record, added no noise, and "
    "computed everything else from those answers."
)
_KEYS = (
    "mechanism",
    "epsilon",
    "delta",
    "relation",
    "spent",
    "secure",
    "seed",
    "inputs",
    "total",
    "versions",
    "fit",
    "population",
)


@dataclasses.dataclass(frozen=True)
class SyntheticRows:
    """The synthetic rows of a folder: how they are drawn and written.

    Args:
        number: of rows. Default: the model's total, rounded, at most 10 million; without a default if records
            have weights.
        format: "parquet" or "csv".
        seed: of the rows; it does not affect privacy noise.
        method: "round" deals the rows evenly, "multinomial" draws them independently of one another; see
            `GraphicalModel.sample`.
        codes: write rows as codes of the domain. By default they are values: labels, numbers drawn within
            their bin, dates, null where missing; see `GraphicalModel.sample_to`.
        escape_formulas: in CSV, put an apostrophe before labels that a spreadsheet may take for formulas.

    Raises:
        ValueError: an argument is out of range, or formulas are to be escaped in another format than CSV.
    """

    number: int | None = None
    format: str = "parquet"
    seed: int = 0
    method: str = ROUND
    codes: bool = False
    escape_formulas: bool = False

    def __post_init__(self) -> None:
        kind = checks.choice("synthetic_format", self.format, SYNTHETIC_FORMATS)
        checks.set_fields(self, format=kind, method=checks.choice("method", self.method, METHODS))
        row_file.check_escape(self.escape_formulas, kind)
        if self.number is not None:
            checks.set_fields(self, number=checks.integer("rows", self.number, low=0))

    @property
    def file(self) -> str:
        """The name of their file."""
        return f"synthetic.{self.format}"

    def to_dict(self) -> dict[str, str]:
        """Return what the record of a folder says of them."""
        return {"synthetic": "codes" if self.codes else "values", "method": self.method}

    def write(self, model: Any, path: pathlib.Path) -> None:
        """Draw them from a model into a file."""
        model.sample_to(
            path,
            self.number,
            self.seed,
            method=self.method,
            decode=False if self.codes else "values",
            show_progress=False,
            escape_formulas=self.escape_formulas,
        )


def write(release: Any, out: str | os.PathLike[str], **output: Any) -> pathlib.Path:
    """Write a release as a folder.

    Args:
        release: the release returned by a mechanism.
        out: the folder to create; it must not exist.
        output: how its rows are drawn and what is said of its table; see `fill`.

    Returns:
        The folder: `release.json`, `model/`, `measurements.parquet`, `answers.parquet`, `synthetic.parquet`
        (or `.csv`), `assurance.json` and `report.html`; `transcript.json` or `predictor/` if the release has
        one.

    Raises:
        ValueError: the folder exists or an argument is out of range; nothing is written.
    """
    check_packages()
    with reserve_folder(out) as folder:
        missing = fill(folder, release, **output)
    if missing:
        raise RuntimeError(
            f"The release at {out} is incomplete: {in_words(missing)}. Remove what prevented that, and save "
            "the release in another folder."
        )
    return pathlib.Path(out).absolute()


def fill(
    folder: pathlib.Path,
    release: Any,
    *,
    rows: SyntheticRows = SyntheticRows(),
    source: str | None = None,
    show_progress: bool | None = None,
    check: Callable[[], None] = lambda: None,
) -> dict[str, Exception]:
    """Write the files of a release into an empty folder, such as one from `reserve_folder`; see `write`.

    A part that cannot be written is left out, and the others are written. At any time after the noisy answers
    `release.json` is there and lists under "missing" what the folder lacks, so that a process that is killed
    leaves a release too.

    Args:
        folder: the folder.
        release: the release returned by a mechanism.
        rows: how the synthetic rows are drawn and written.
        source: public description of the table, shown in the report.
        show_progress: whether to show a progress bar. None shows one in terminals only.
        check: called after each part; raises to stop.

    Returns:
        The parts that could not be written, with the errors.

    Raises:
        OSError: `release.json` cannot be written.
        ValueError: an argument is out of range; nothing is written.
    """
    if rows.number is None:
        rows = dataclasses.replace(rows, number=default_rows(release))
    missing: dict[str, Exception] = {}
    record = {**_facts(release), **rows.to_dict(), **({"source": source} if source else {})}

    def report(path: pathlib.Path) -> None:
        failed: dict[str, Exception] = {}
        page = render(record, release.asked, release.estimates, failed=failed)
        path.write_text(page, encoding="utf-8")
        missing.update({f"{path.name}: {name}": error for name, error in failed.items()})

    parts: dict[str, Callable[[pathlib.Path], Any]] = {
        "measurements.parquet": functools.partial(
            tables.write_measurements,
            release.measurements,
            inputs=release.own,
            seed=release.seed,
            population=release.population,
        ),
        "model": release.model.save,
        "accuracy": lambda path: record.update(_accuracy(release)),
    }
    parts |= _optional_parts(release)
    parts[rows.file] = functools.partial(rows.write, release.model)
    parts[assurance.NAME] = lambda path: _write_assurance(path, record, release.estimates)
    parts["report.html"] = report
    parts["answers.parquet"] = lambda path: tables.write_answers(release, path)
    record["files"] = [name for name in ("release.json", *parts) if name in assurance.FILES]
    with Progress("writing", len(parts), show_progress) as progress:
        for done, (name, write_part) in enumerate(parts.items(), start=1):
            try:
                write_part(folder / name)
            # what was paid for is of use without this part, and the record says that it is missing
            except Exception as error:
                missing[name] = error
                _remove(folder / name)
            check()
            # after each part the record is whole: an interruption leaves a folder that says what it lacks
            later = dict.fromkeys([*parts][done:], "not yet written")
            reasons = {each: reason(error) for each, error in missing.items()} | later
            _write_record(folder, {**record, "missing": reasons} if reasons else record)
            progress.advance(note=name)
    return missing


def _statement_of_fit(told: Sequence[Input]) -> str:
    """Return what a fit promises, which is what its inputs do.

    Args:
        told: its inputs.
    """
    paid = [each for each in told if each.cost is not None]
    said = [_OF_FIT, of_inputs(told)]
    if not paid:
        said.insert(1, "Their publisher states what privacy they have.")
    elif len(paid) == 1:
        said.insert(1, f"They come from {paid[0].words}, and have the privacy that is stated there.")
    return " ".join(filter(None, (not_secure(told), *said)))


def write_fit(
    published: Published,
    fit: Fit,
    out: str | os.PathLike[str],
    *,
    rows: SyntheticRows = SyntheticRows(),
    total_public: bool = False,
    facts: Sequence[Any] = (),
) -> pathlib.Path:
    """Write a fit to published answers as a folder.

    Args:
        published: the answers.
        fit: the fit.
        out: the folder to create; it must not exist.
        rows: how the synthetic rows are drawn and written.
        total_public: whether the number of records was given, and not estimated.
        facts: constraints that the fit keeps to.

    Returns:
        The folder: `fit.json`, `model/`, `measurements.parquet`, `synthetic.parquet` (or `.csv`) and
        `report.html`.

    Raises:
        ValueError: the folder exists, or an argument is out of range; nothing is written.
    """
    check_packages()
    if rows.number is None:
        rows = dataclasses.replace(rows, number=min(round(fit.model.total), MOST_ROWS))
    record = {
        **formats.FIT.heading(),
        "total": fit.model.total,
        "total_public": total_public,
        "absent": sum(published.absent),
        "facts": [f"{kind_of(each)} over {', '.join(each.clique)}" for each in facts],
        "fit": record_of(fit),
        **rows.to_dict(),
        "secure": inputs.are_secure(fit.model.inputs),
        inputs.KEY: inputs.to_list(fit.model.inputs),
        "statement": _statement_of_fit(fit.model.inputs),
        **({} if published.population is None else {"population": published.population.to_dict()}),
        "versions": versions(),
    }
    with reserve_folder(out) as folder:
        fit.model.save(folder / "model")
        tables.write_measurements(
            published.measurements, folder / "measurements.parquet", population=published.population
        )
        rows.write(fit.model, folder / rows.file)
        page = render_fit(record, AskedModel.of(fit.model), published.measurements)
        (folder / "report.html").write_text(page, encoding="utf-8")
        (folder / FIT_RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return pathlib.Path(out).absolute()


def _optional_parts(release: Any) -> dict[str, Callable[[pathlib.Path], Any]]:
    """Return what writes the files that only some releases have."""
    parts: dict[str, Callable[[pathlib.Path], Any]] = {}
    if release.discovery is not None:
        parts["domain.json"] = release.domain.write
    if release.distances:
        parts[DISTANCES] = lambda path: tables.write_distances(
            release.distances, path, inputs=release.own, seed=release.seed
        )
    if release.transcript is not None:
        noise = {"secure": are_secure(release.own), "seed": release.seed}
        played = {**noise, inputs.KEY: inputs.to_list(release.own), **release.transcript.to_dict()}
        parts["transcript.json"] = lambda path: path.write_text(json.dumps(played) + "\n", encoding="utf-8")
    trained = getattr(release, "predictor", None)
    if trained is not None:
        parts["predictor"] = lambda path: trained.save(path, seed=release.training_seed)
    return parts


def _write_assurance(path: pathlib.Path, record: Mapping[str, Any], estimates: CountEstimates) -> None:
    path.write_text(json.dumps(assurance.of(record, estimates), indent=2) + "\n", encoding="utf-8")


def _write_record(folder: pathlib.Path, record: Mapping[str, Any]) -> None:
    """Write `release.json`, which is there in full or as it was before; it is put on disk with its folder."""
    partial = folder / ".release.json"
    partial.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    partial.replace(folder / "release.json")


def _remove(path: pathlib.Path) -> None:
    """Remove what was written of a part."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def reason(error: BaseException) -> str:
    """Return why a part is missing, for everyone: the system's words or the kind of error, and no value."""
    if isinstance(error, MemoryError | KeyboardInterrupt):
        return "not enough memory" if isinstance(error, MemoryError) else "interrupted"
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__


def in_words(missing: Mapping[str, Exception]) -> str:
    """Return which parts are missing and why, as a part of a sentence for the one who runs the release."""
    words = {name: " ".join(str(error).split()).rstrip(".") for name, error in missing.items()}
    return "; ".join(f"{name} is missing ({said or reason(missing[name])})" for name, said in words.items())


def default_rows(release: Any) -> int:
    """Return the number of synthetic rows that nobody has chosen: the model's total, at most `MOST_ROWS`.

    Raises:
        ValueError: records have weights, so that the total is no number of rows.
    """
    if release.weighted:
        raise ValueError(
            "synthetic_rows (--rows) is missing. The records have weights, so their total is not a "
            "number of rows, and the number of records is private. Give the number of synthetic rows "
            "to draw."
        )
    return min(round(release.model.total), MOST_ROWS)


def check_packages() -> None:
    """Import the packages needed to write a release; call this before any budget is spent.

    Raises:
        ImportError: a package is not installed; the message names the command that installs it.
    """
    for module in ("pyarrow", "pyarrow.csv", "pyarrow.parquet"):
        checks.optional(module, extra="tables")


def describe(release: Any) -> dict[str, Any]:
    """Return the content of `release.json`; budget numbers are exact strings."""
    return {**_facts(release), **_accuracy(release)}


def _accuracy(release: Any) -> dict[str, Any]:
    """Return the verdicts, and how many records the whole table has if what it leaves out was counted."""
    found: dict[str, Any] = {"accuracy": release.count_accuracy.to_dict()}
    if release.population.left_out:
        found["whole_table"] = whole_table.to_dict(release.estimates, release.population)
    return found


def _facts(release: Any) -> dict[str, Any]:
    """Return the content of `release.json` without what has to be computed."""
    return {
        **formats.RELEASE.heading(),
        "mechanism": release.mechanism,
        "epsilon": as_text(release.epsilon),
        "delta": as_text(release.delta),
        "relation": release.relation.value,
        "spent": release.spent.to_dict(),
        "secure": release.secure,
        "seed": release.seed,
        inputs.KEY: inputs.to_list(release.inputs),
        "total": release.model.total,
        "unit": None if release.unit is None else release.unit.to_dict(),
        "weighted": release.weighted,
        "max_weight": release.max_weight,
        "total_public": release.total_public,
        "population": release.population.to_dict(),
        "ledger": None if release.ledger is None else dict(release.ledger),
        "fit": record_of(release.fit),
        "statement": release.statement(),
        **({} if release.discovery is None else {"discovery": dict(release.discovery)}),
        "workload": release.workload.to_list(),
        "answered_by": release.answered_by,
        "versions": versions(),
    }


def record_of(fit: Fit) -> dict[str, Any]:
    """Return how a fit ended, for JSON."""
    pull = fit.regularisation
    pulled: dict[str, Any] = {}
    if pull is not None:
        pulled = {"weight": pull.weight, "divergence": pull.divergence, "automatic": pull.automatic}
    return {
        "status": fit.status.name,
        "meaning": fit.status.text,
        "steps": int(fit.steps),
        "loss": checks.finite(fit.loss),
        "gap": checks.finite(fit.gap),
        **({"method": fit.method} if fit.method == MAX_ENTROPY else {}),
        **({"regularisation": pulled} if pulled else {}),
    }


def versions() -> dict[str, str]:
    """Return the versions of this package, Python and the packages that compute or draw noise."""
    names = ("jax", "jaxlib", "numpy", "opendp", "dp-accounting")
    found = {"pgmjax": __version__, "python": platform.python_version()}
    for name in names:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


@dataclasses.dataclass(frozen=True)
class SavedRelease(Analysed):
    """A release read back from its folder, or a fit to answers that were published elsewhere.

    Attributes:
        folder: path of the folder.
        record: content of `release.json`, of a fit that of `fit.json`.
    """

    folder: pathlib.Path
    record: Mapping[str, Any]

    @property
    def seed(self) -> int | None:
        """The seed of insecure noise; None for secure noise."""
        return self.record.get("seed")

    @property
    def domain(self) -> Domain:
        """The attributes and their values."""
        return self.model.domain

    @property
    def weighted(self) -> bool:
        """True if records had weights."""
        return bool(self.record.get("weighted"))

    @property
    def workload(self) -> Workload | None:
        """The requested workload; None for a fit."""
        return None if "workload" not in self.record else Workload(self.record["workload"])

    @property
    def missing(self) -> Mapping[str, str]:
        """The parts that could not be written, with the reasons; empty if the release is complete."""
        return self.record.get("missing", {})

    @property
    def population(self) -> Population | None:
        """The records that all counts and shares are of; None for a fit whose answers do not say it."""
        told = self.record.get("population")
        return None if told is None else Population.from_dict(told)

    @functools.cached_property
    def model(self) -> GraphicalModel | MixtureModel | RegionModel:
        """The fitted model, loaded on first access.

        Raises:
            ValueError: the release lacks it, or it is damaged.
        """
        if "model" in self.missing:
            raise ValueError(
                f"{self.folder} lacks its model ({self.missing['model']}). Run the command that made it "
                "again: that adds what is missing at no further cost."
            )
        if not (self.folder / "model").is_dir():
            raise ValueError(f"{self.folder} is a release without its folder model: copy the whole folder.")
        found = load_model(self.folder / "model")
        if isinstance(found, RegionModel) and self.record["format"] != formats.FIT.name:
            raise ValueError(
                f"{self.folder} is corrupt: it cannot hold a model of regions. Make or copy it again."
            )
        told = inputs.merged(found.inputs, inputs_in(self.folder, self.record))
        return inputs.with_inputs(found, told)

    @property
    def asked(self) -> GraphicalModel | MixtureModel | RegionModel:
        """The model, which is asked for one answer at a time: a pass over its whole tree would not pay."""
        return self.model

    def measurements(self) -> Any:
        """Return the noisy answers as an Arrow table: clique, row, value, stddev, noise."""
        return tables.read(self.folder / "measurements.parquet")

    @functools.cached_property
    def estimates(self) -> CountEstimates:
        """Unbiased answers from the noisy ones, with intervals."""
        path, domain = self.folder / "measurements.parquet", self.model.domain
        noisy = read_measurements(path, domain) if path.is_file() else ()
        total = self.model.total if self.record.get("total_public") else None
        return CountEstimates(domain, noisy, total, facts=bool(self.record.get("facts")))

    def error_bars(
        self, queries: Sequence[Any], *, method: str = "linear", level: float = 0.95, seed: int = 0
    ) -> ErrorBars:
        """Return answers with error bars by a method of `uncertainty.error_bars`, at no cost.

        Args:
            queries: queries, or tuples of attribute names for all cells of a marginal.
            method: "linear", "laplace" or "bootstrap".
            level: of the intervals.
            seed: of the bootstrap.

        Raises:
            ValueError: nothing was measured, or the method is not for this fit: "linear" is for all exact
                ones, the others know neither a prior, public facts, another loss nor (laplace) a pull.
        """
        noisy, model = self.estimates.measurements, self.model
        if not noisy or not isinstance(model, GraphicalModel):
            raise ValueError(
                "Error bars need noisy counts and an exact model of them, and this release has none: release "
                "with a mechanism that measures, such as marginals."
            )
        pull = self.record["fit"].get("regularisation")
        if method != "linear":
            self._check_fit(method, pull)
        weight = "none" if pull is None else "auto" if pull.get("automatic", True) else pull["weight"]
        return error_bars(
            model,
            noisy,
            queries,
            method=method,
            level=level,
            total=model.total if self.record.get("total_public") else None,
            seed=seed,
            estimator=Estimator(regularisation=weight, progress=False),
        )

    def _check_fit(self, method: str, pull: Mapping[str, Any] | None) -> None:
        """Refuse a method of error bars that does not know what the model was fitted to."""
        other = sorted({each.name for each in inputs_in(self.folder, self.record) if each.role != MEASURED})
        if other:
            reason = f"fitted also to {other[0]!r}"
        elif pull is not None and method == "laplace":
            reason = "pulled towards independence (--regularisation none does not pull)"
        elif not self._is_least_squares():
            reason = "not fitted by least squares"
        else:
            return
        raise ValueError(
            f"The method {method} is for a model of noisy counts alone, and this one was {reason}: take "
            "linear."
        )

    def _is_least_squares(self) -> bool:
        """Return whether the loss of the fit is that of least squares."""
        apart = (
            (np.ravel(self.model.answer(each.query)) - each.flat_values()) / each.row_stddevs()
            for each in self.estimates.measurements
        )
        return bool(np.isclose(sum(np.square(one).sum() for one in apart) / 2, self.record["fit"]["loss"]))

    def distances(self) -> tuple[NoisyDistance, ...]:
        """Return the noisy distances that an adaptive mechanism published, () for other mechanisms."""
        return tables.read_distances(self.folder / DISTANCES)

    def transcript(self) -> Transcript | None:
        """Return the draws and records of a game-based mechanism, or None for other mechanisms."""
        path = self.folder / "transcript.json"
        if not path.is_file():
            return None
        record = files.read(path, formats.TRANSCRIPT)
        try:
            return transcript.read(record, self.model.domain)
        except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is damaged: {error}") from error

    def predictor(self) -> Predictor:
        """Return the trained model of an MLDP release, which answers new queries.

        Raises:
            ValueError: the release has no trained model, or it is damaged.
        """
        if not (self.folder / "predictor").is_dir():
            raise ValueError(f"{self.folder} has no predictor: only a release by mldp trains one.")
        return predictor.read(self.folder / "predictor")

    @functools.cached_property
    def _learned(self) -> Predictor | None:
        """The trained model, of a release that answers by it."""
        return self.predictor() if self.record.get("answered_by") == "learner" else None

    def assurance(self) -> dict[str, Any] | None:
        """Return what the release answers to its evaluator; None if it was made before there was such a file.

        Raises:
            ValueError: the file is damaged.
        """
        path = self.folder / assurance.NAME
        return files.read(path, formats.ASSURANCE) if path.is_file() else None

    def answers(self) -> Any:
        """Return the workload's answers as an Arrow table, with the columns of `tables.write_answers`."""
        return tables.read(self.folder / "answers.parquet")


def opened(folder: str | os.PathLike[str]) -> SavedRelease:
    """Open a folder that `pgmjax release` or `pgmjax fit` wrote.

    Raises:
        ValueError: the folder does not exist, is none of these, or is damaged.
    """
    fitted = pathlib.Path(folder) / FIT_RECORD
    return SavedRelease(fitted.parent, files.read(fitted, formats.FIT)) if fitted.is_file() else read(folder)


def inputs_in(folder: str | os.PathLike[str], record: Mapping[str, Any]) -> tuple[Input, ...]:
    """Return the inputs that the record of a folder states.

    Raises:
        ValueError: it states none.
    """
    try:
        return inputs.from_list(record[inputs.KEY])
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"{folder} is damaged: it does not say what it was computed from. Make or copy it again."
        ) from error


def _other_command(where: pathlib.Path) -> str:
    """Return what to do with what was given in place of a release, or ""."""
    return checks.first_said(
        (
            (where.parent / "release.json").is_file() and not where.is_dir(),
            f" Give the folder: {where.parent}.",
        ),
        (
            any(where.name.lower().endswith((kind, f"{kind}.gz")) for kind in text_file.KINDS),
            " This is a table: release it first (pgmjax release), then query the release.",
        ),
        (
            (where / "history.json").is_file(),
            " It is a history of answers, which pgmjax history ask reads.",
        ),
        (
            (where / predictor.FOLDER.record).is_file(),
            " It is a trained model, which pgmjax history ask reads.",
        ),
        (is_ledger(where), " If it is a ledger, pgmjax ledger show and pgmjax session ask read it."),
    )


def read(folder: str | os.PathLike[str]) -> SavedRelease:
    """Read the folder of a release; its model is loaded on first access.

    Args:
        folder: a folder made by `write`.

    Raises:
        ValueError: the folder does not exist, is not a release, is damaged, or has a newer format.
    """
    where = pathlib.Path(folder)
    name = os.fspath(folder)
    if not where.is_dir():
        said = f"{name} is a file" if where.exists() else f"There is no folder {name}"
        partial = where.with_name(f"{where.name}.partial")
        if not where.exists() and partial.is_dir():
            raise ValueError(f"{said}; {partial} is not finished: go on with --resume {partial}.")
        raise ValueError(f"{said}: expected a folder written by `pgmjax release`.{_other_command(where)}")
    path = where / "release.json"
    if not path.is_file():
        raise ValueError(
            f"{name} is not a release: it has no release.json. Give a folder written by `pgmjax release`."
            f"{_other_command(where)}"
        )
    record = files.read(path, formats.RELEASE)
    lacking = [key for key in _KEYS if key not in record]
    if lacking:
        raise ValueError(f"{path} is damaged: it lacks {', '.join(lacking)}. Make or copy the release again.")
    return SavedRelease(where, record)


def load(folder: Any) -> GraphicalModel | MixtureModel | RegionModel | SavedRelease | Predictor:
    """Read a release or a fit, or a model or trained model written by the `save` method of any of them.

    Args:
        folder: path of the folder, of a model, or as `pgmjax release`, `fit` and `Release.save` write it.

    Returns:
        The model, the trained model (`learning.Predictor`), or the `SavedRelease` with its `model`, `record`,
        `estimates` and `answers()`.

    Raises:
        FileNotFoundError: the folder or one of its files is missing.
        TypeError: no name.
        ValueError: it is no folder, or the files are corrupt, written by another program, or of a newer
            version.
    """
    checks.kind(folder, str | os.PathLike, "folder must be the name of a folder")
    place = pathlib.Path(folder)
    if not place.exists():
        raise FileNotFoundError(f"There is no folder {place}: give one that was saved.")
    if place.is_file():
        reads = "privacy.Ledger.open(path) opens a ledger" if place.suffix == ".ledger" else READS
        raise ValueError(f"{place} is a file, and load takes the folder of a release or a model: {reads}.")
    if (place / "history.json").is_file():
        raise ValueError(f"{place} is a history of answers: write history.History.load(folder).")
    if (place / "perturbed.json").is_file():
        raise ValueError(f"{place} is a perturbed table: write local.load(folder).")
    if any((place / name).is_file() for name in ("release.json", FIT_RECORD)):
        return opened(folder)
    if (place / predictor.FOLDER.record).is_file():
        return predictor.read(folder)
    return load_model(folder)
