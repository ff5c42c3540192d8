"""One call from a data frame to a private synthetic one: `Synthesizer`."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import inspect
import os
import pathlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from pgmjax import mechanisms
from pgmjax._internal import checks, html
from pgmjax._internal.extras import arrow, duckdb, pandas, polars
from pgmjax._internal.migration import Named
from pgmjax.data.arrow import RawColumns, column_names, column_of
from pgmjax.data.attribute import Attribute
from pgmjax.data.domain import Domain, as_domain, in_python
from pgmjax.data.draft import Draft
from pgmjax.data.encoding import text_of
from pgmjax.data.relation import AnyRelation, Relation, Unit, check_unit
from pgmjax.discovery import Discovery
from pgmjax.job import Job, price
from pgmjax.mechanisms.base import Mechanism
from pgmjax.mechanisms.parameters import PrivacyParameters
from pgmjax.model.row_file import decoded_rows
from pgmjax.model.sampling import ROUND
from pgmjax.privacy.left_out import CountLeftOut
from pgmjax.queries.workload import KWay, Workload
from pgmjax.release import folder as release_folder
from pgmjax.release.analysis import Answer
from pgmjax.release.release import Release
from pgmjax.release.report import render
from pgmjax.release.run_folder import OtherRun, RunFolder, UnfinishedRun

_ONE_FIT = threading.Lock()


class Synthesizer(Named):
    """A private synthetic version of a data frame: the same columns, types and labels.

    Args:
        epsilon: the whole budget: a number, or an exact string such as "1/3". There is no default.
        relation: the neighbouring relation, "add-remove" (the number of rows is secret) or "replace-one" (it
            is public). There is no default.
        delta: 0 for pure differential privacy; above 0 noise is Gaussian, and labels can be discovered.
        unit: whom to protect: `pj.Unit("person_id", 4)`; None protects one row.
        mechanism: a name such as "auto", "mst" or "aim", or a mechanism of `pj.mechanisms` with its own
            settings, whose privacy parameters must be these. See `mechanisms.Auto` for "auto".
        insecure_seed: repeatable noise, which protects nobody, for research. None: secure noise.
        count_left_out: the share of the budget for counting what is left out of the frame, or a
            `privacy.CountLeftOut`. None: it is not counted.

    Guarantees:
        `release`, rows, answers and report together are (epsilon, delta)-differentially private under the
        relation, for the unit; see `Release.statement`. However often `fit` is called, and whatever ended it,
        a synthesizer spends epsilon and delta once.

    Example:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"sex": ["F", "M"] * 500, "age": [20, 30, 40, 50] * 250})
        >>> domain = {"sex": {"labels": ["F", "M"]}, "age": {"min": 0, "max": 99, "step": 10}}
        >>> synth = Synthesizer(epsilon=1, relation="add-remove").fit(frame, domain)
        >>> rows = synth.sample(5)
        >>> type(rows).__name__, list(rows.columns), str(rows["age"].dtype)
        ('DataFrame', ['sex', 'age'], 'int64')
        >>> bool(400 < synth.query("sex=F").estimate < 600)
        True
    """

    def __init__(
        self,
        *,
        epsilon: Any,
        relation: AnyRelation,
        delta: Any = 0,
        unit: Unit | None = None,
        mechanism: Any = "auto",
        insecure_seed: int | None = None,
        count_left_out: CountLeftOut | Any = None,
    ):
        self.epsilon = epsilon
        self.relation = relation
        self.delta = delta
        self.unit = unit
        self.mechanism = mechanism
        self.insecure_seed = insecure_seed
        self.count_left_out = count_left_out
        self._release: Release | None = None
        self._frame: _Frame | None = None
        self._attempt: _Attempt | None = None
        self._fitting = False
        self._check_params()

    def _check_params(self) -> None:
        """Refuse arguments that no fit could take; they stay as they were given."""
        PrivacyParameters(self.epsilon, self.relation, self.delta)
        check_unit(self.unit, ())
        if not isinstance(self.mechanism, Mechanism):
            made = "or one with its settings, such as mechanisms.MST(epsilon, relation)"
            checks.choice("mechanism", self.mechanism, mechanisms.names(), made)
        if self.insecure_seed is not None:
            checks.integer("insecure_seed", self.insecure_seed, low=0)
        CountLeftOut.of(self.count_left_out)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments by name, as scikit-learn's estimators do."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: Any) -> Synthesizer:
        """Change arguments, and return the synthesizer.

        Raises:
            TypeError, ValueError: an argument that there is not, or a value that no fit could take.
        """
        known = self.get_params()
        if strange := [name for name in params if name not in known]:
            raise ValueError(
                f"Synthesizer has no argument {strange[0]!r}. Its arguments are {', '.join(known)}."
            )
        vars(self).update(params)
        self._check_params()
        return self

    def fit(
        self,
        frame: Any,
        domain: Domain | Draft | Mapping[str, Any] | str | os.PathLike[str] | None = None,
        discover: Any = None,
        workload: Workload | KWay | None = None,
        *,
        ledger: Any = None,
        key: str | None = None,
        show_progress: bool | None = None,
    ) -> Synthesizer:
        """Measure a frame and fit a model. This spends epsilon and delta, once: a second call is refused.

        Every noisy answer is on disk before it is used, in `run_folder`. If the fit is interrupted or fails,
        the same call goes on from there at no further cost, and another call is refused.

        Args:
            frame: pandas, polars, pyarrow, DuckDB, or anything that Arrow can read.
            domain: what the columns may hold, which is public: a `Domain`, a domain file, or its content.
                Columns that it leaves open ("discover") need `discover`. Default: all columns are open.
            discover: the share of epsilon that finding bins, dates and labels may cost, in (0, 1).
            workload: what to measure and answer. Default: pairs of columns.
            ledger: a `privacy.Ledger` with the table's budget.
            key: the run's name in the ledger, under which the same answers come back free of charge.
            show_progress: None shows a bar in terminals and notebooks only.

        Raises:
            TypeError: the frame is none that Arrow can read, or an argument has the wrong type.
            ValueError: fitted already, or by another thread now, an earlier fit has begun to spend on
                something else, the frame does not fit the domain, or nothing says what its columns may hold.
                Nothing was spent.
        """
        with self._only_fit():
            job, held = self._described_job(frame, domain, discover, workload)
            if self._attempt is not None and self._attempt.spent:  # what is forecast may be another limit now
                job = dataclasses.replace(job, max_cells=self._attempt.job.recipe.max_cells)
            with self._folder_of(job) as folder:
                release = job.run(ledger=ledger, key=key, show_progress=show_progress, folder=folder)
                self._release, self._frame = release, held
            self._attempt = None
        for name, why in ((release.discovery or {}).get("left_out") or {}).items():
            checks.warn(
                f"Column {name!r} is not in the release, as discovery found no values for it ({why}): "
                "describe it by hand in a discovery.Draft, or spend more."
            )
        return self

    @property
    def run_folder(self) -> pathlib.Path | None:
        """The folder with the answers of a fit that did not end; None if there are none."""
        found = None if self._attempt is None or self._attempt.folder is None else self._attempt.folder.folder
        return found if found is not None and found.is_dir() else None

    @contextlib.contextmanager
    def _only_fit(self) -> Iterator[None]:
        """Refuse a fit when there was one, or another thread makes one; see `fit`."""
        with _ONE_FIT:
            checks.refuse(
                (
                    self._release is not None,
                    "This Synthesizer is already fitted, and another fit would spend epsilon again. If "
                    "you want that, make a new one: Synthesizer(**synth.get_params()). Nothing was spent.",
                ),
                (
                    self._fitting,
                    "Another thread is fitting this Synthesizer: wait for it. Nothing was spent.",
                ),
            )
            self._fitting = True
        try:
            yield
        finally:
            self._fitting = False

    @contextlib.contextmanager
    def _folder_of(self, job: Job) -> Iterator[RunFolder | None]:
        """Give a fit its folder while the block runs: that of the attempt before, if it began to spend.

        Noise of a seed is not kept, so that a fit with it cannot go on.

        Raises:
            ValueError: that attempt was another run, or cannot go on.
        """
        before = self._attempt
        if before is not None and before.spent and (before.folder is None or job.named.repeatable):
            raise ValueError(self._spent_already(before.job))
        if job.named.repeatable:
            self._attempt = _Attempt(job, None)
            yield None
            return
        folder = UnfinishedRun(None if before is None else before.folder)
        first, self._attempt = self._attempt, _Attempt(job, folder)
        try:
            with folder.kept():
                yield folder
        except OtherRun as error:
            assert first is not None
            self._attempt = first
            raise ValueError(self._spent_already(first.job)) from error

    def _spent_already(self, job: Job) -> str:
        kept = "" if self.run_folder is None else f" Its noisy answers are in {self.run_folder}."
        goes_on = "Make" if job.named.repeatable else "Repeat the call as it was, which goes on, or make"
        return (
            f"An earlier fit of this Synthesizer did not end, and its budget is spent ({price(job.named)}): "
            f"another one would spend it again.{kept} {goes_on} a new one: "
            "Synthesizer(**synth.get_params()). Nothing further was spent."
        )

    def _described_job(
        self,
        frame: Any,
        domain: Domain | Draft | Mapping[str, Any] | str | os.PathLike[str] | None,
        discover: Any,
        workload: Workload | KWay | None,
    ) -> tuple[Job, _Frame]:
        """Return what a fit does, and the kind of the frame; raises as `fit` does."""
        if isinstance(frame, Domain | Draft) or (isinstance(frame, Mapping) and hasattr(domain, "columns")):
            as_domain(domain, "synthesizer.fit(frame, domain)", frame)
        known = _described(domain)
        check_unit(self.unit, () if known is None else _columns(known))
        held, table = _Frame.of(frame, self.unit)
        columns = held.names if known is None else _columns(known)
        missing = [name for name in columns if name not in held.names]
        extra = [name for name in held.names if name not in columns]
        if self.unit is not None and self.unit.column not in column_names(table):
            raise ValueError(
                f"The frame has no column named {self.unit.column!r}, which Unit names: correct the name "
                "there. Nothing was spent."
            )
        checks.refuse(
            (missing or extra, _different_columns(missing, extra)),
            (
                isinstance(known, Domain) and discover is not None,
                "The domain describes every column: leave discover out. Nothing was spent.",
            ),
            (
                known is None and discover is None,
                "The possible values of the columns are unknown, and they must not be read off "
                "the table. Give a domain (pgmjax domain draft writes a first version), or find "
                "one for a tenth of epsilon with discover=0.1 here and a delta, such as 1e-6, where the "
                "Synthesizer is made. Nothing was spent.",
            ),
        )
        if isinstance(known, Draft) and discover is None:
            raise ValueError(
                f"The domain leaves {', '.join(known.open)} open: describe them, or find them with "
                "discover=0.1 here, for a tenth of the budget, with a delta, such as 1e-6, where the "
                "Synthesizer is made. Nothing was spent."
            )
        job = Job(
            **self.get_params(),
            records=table,
            domain=known,
            workload=workload,
            discovery=None if discover is None else Discovery(discover),
        )
        _check_records(job)
        return job, held

    @property
    def release(self) -> Release:
        """The release.

        Raises:
            ValueError: there is none yet.
        """
        if self._release is None:
            raise ValueError("This Synthesizer is not fitted yet: call fit(frame, domain) first.")
        return self._release

    def statement(self) -> str:
        """Return the privacy guarantee in plain sentences, with whom it protects.

        Raises:
            ValueError: not fitted yet.
        """
        return self.release.statement()

    def sample(self, n: int | None = None, seed: int = 0, *, method: str = ROUND) -> Any:
        """Draw rows, as a frame of the kind that came in, with its columns in their order and of their types.

        Args:
            n: number of rows, >= 1. Default: the number of records as the release estimates it.
            seed: the same seed gives the same rows. It protects nothing and need not be secret.
            method: "round" deals the rows to the cells of the model as evenly as whole numbers allow;
                "multinomial" draws them independently of one another, with more error.

        Raises:
            ValueError: not fitted yet, n is below 1, or an unknown method.
        """
        model = self.release.model
        rows = max(1, round(model.total)) if n is None else checks.integer("n", n, low=1)
        assert self._frame is not None
        return self._frame.like(decoded_rows(model, rows, seed, method), model.domain)

    def tables(self, m: int = 20, seed: int = 0, *, rows: int | None = None) -> list[Any]:
        """Return tables to analyse like real ones, as frames of the kind that came in; see `Release.tables`.

        Raises:
            ValueError: not fitted yet, or as there.
        """
        drawn = self.release.drawn_columns(m, seed, rows)
        assert self._frame is not None
        return [self._frame.like(columns, model.domain) for model, columns in drawn]

    def query(self, text: str) -> Answer:
        """Return how many rows satisfy a condition such as "sex=F,age<30", as `pgmjax query` takes it.

        Raises:
            ValueError: not fitted yet, or a condition that the domain does not allow.
        """
        return self.release.query(text)

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write the report of the release, one HTML file that opens offline.

        Raises:
            ValueError: not fitted yet, or the file exists.
        """
        release = self.release
        checks.kind(path, str | os.PathLike, "path must be the name of a file")
        if pathlib.PurePath(path).suffix.lower() not in (".html", ".htm"):
            raise ValueError(f"A report is a page of HTML: end its name in .html, got {os.fspath(path)}.")
        page = render(release_folder.describe(release), release.model, release.estimates)
        with open(checks.new_file(path), "x", encoding="utf-8") as file:
            file.write(page)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the release as a folder, which `pj.load` opens; see `Release.save`."""
        self.release.save(folder)

    def _protects(self) -> str:
        return f"one {self.unit.column}" if isinstance(self.unit, Unit) else "one row"

    def _relation_name(self) -> str:
        """Return the relation as it is written, also one that was refused: a repr raises nothing."""
        return self.relation.value if isinstance(self.relation, Relation) else str(self.relation)

    def __repr__(self) -> str:
        state = "not fitted" if self._release is None else repr(self._release)
        return (
            f"Synthesizer(epsilon={self.epsilon}, delta={self.delta}, {self._relation_name()}, "
            f"protects {self._protects()}; {state})"
        )

    def _repr_html_(self) -> str:
        facts = {
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "neighbours": self._relation_name(),
            "protects": self._protects(),
            "mechanism": self.mechanism if isinstance(self.mechanism, str) else type(self.mechanism).__name__,
        }
        state = html.note("Not fitted.") if self._release is None else self._release._repr_html_()
        return html.card("Synthesizer", facts, state)


def _different_columns(missing: list[str], extra: list[str]) -> str:
    """Return what to do about columns that the frame lacks, and about others that the domain lacks."""
    lacking = " ".join(
        f"The {place} lacks {', '.join(map(repr, names))}."
        for place, names in (("frame", missing), ("domain", extra))
        if names
    )
    capitals = "Capitals count. " * any(checks.same_word(name, extra) for name in missing)
    return (
        f"The domain and the frame have different columns. {lacking} Remove these columns, or add them where "
        f"they are missing. {capitals}Nothing was spent."
    )


def _described(domain: Any) -> Domain | Draft | None:
    """Return what is known of the columns: a domain if all are described, a draft if some are open."""
    if domain is None or isinstance(domain, Domain | Draft):
        return domain
    checks.kind(
        domain,
        Mapping | str | os.PathLike,
        "domain must be a Domain, a domain file or its content",
        'write {"age": {"min": 0, "max": 99}, "sex": ["F", "M"]}. Nothing was spent',
    )
    if isinstance(domain, Mapping) and not domain:
        raise ValueError(
            "The domain describes no column: write an entry for each, or leave it out and find them with "
            "discover=0.1 here. Nothing was spent."
        )
    try:
        draft = Draft(domain) if isinstance(domain, Mapping) else Draft.read(domain)
    except (TypeError, ValueError) as error:
        if not isinstance(domain, Mapping):
            raise
        raise type(error)(f"{in_python(str(error))} Nothing was spent.") from None
    return draft if draft.open else Domain(draft.closed)


def _check_records(job: Job) -> None:
    """Check that the records are of the domain; errors name no argument that `fit` lacks."""
    try:
        _ = job.table
    except ValueError as error:
        said, choice, _ = str(error).partition(", or say what happens to such records")
    else:
        return
    raise ValueError(f"{said}{'.' if choice else ''} Nothing was spent.")


def _columns(known: Domain | Draft) -> tuple[str, ...]:
    return known.attributes if isinstance(known, Domain) else known.columns


class _Attempt(NamedTuple):
    """A fit that may have begun to spend.

    Attributes:
        job: what it was.
        folder: where its answers are; None if its noise can be repeated.
    """

    job: Job
    folder: UnfinishedRun | None

    @property
    def spent(self) -> bool:
        """True if it has begun to spend."""
        return self.job.drawn if self.folder is None else self.folder.begun


class _Frame:
    """The kind of a frame, to make another one: names and types of columns, and nothing of the records.

    Neither categories nor the types that pandas infers are part of it: they are taken from the records, of
    which they would tell. One missing value makes floats of whole numbers, one text objects.

    Attributes:
        names: of the columns that are released, in order.
    """

    def __init__(self, names: list[str], kind: str, stored: Any, types: Mapping[str, Any]):
        self.names, self._kind, self._stored, self._types = names, kind, stored, types

    @classmethod
    def of(cls, frame: Any, unit: Unit | None) -> tuple[_Frame, Any]:
        """Return the kind of a frame and its columns, both checked; only Arrow declares types of columns.

        Raises:
            TypeError: Arrow cannot read it.
            ValueError: names or an index that cannot be released, or no row.
        """
        _check_kind(frame)
        module = type(frame).__module__.partition(".")[0].removeprefix("_")
        kind = module if module in ("pandas", "polars", "duckdb") else "arrow"
        if kind != "arrow":  # Arrow would call two columns by one name, or a column of numbers by a text
            _check_names(list(frame.columns))
        table: Any
        if kind == "pandas":
            _check_index(frame)
            table = RawColumns({name: column_of(frame, name) for name in frame.columns}, declared=False)
        else:
            plain = _without_categories(frame) if kind == "polars" else frame
            read = plain if isinstance(plain, arrow.Table) else _read(arrow.table, plain)
            table = _without_views(read)
            _check_names(table.column_names)
        names = column_names(table)
        if not (len(frame) if kind == "pandas" else table.num_rows):
            raise ValueError("The frame has no row, and needs at least one. Nothing was spent.")
        released = [name for name in names if unit is None or name != unit.column]
        types = {name: _type(kind, frame, name) for name in released}
        stored = {} if kind == "pandas" else {name: table.schema.field(name).type for name in released}
        if kind in ("polars", "duckdb"):
            table = RawColumns({name: table.column(name) for name in names}, declared=False)
        return cls(released, kind, stored, types), table

    def like(self, columns: dict[str, Any], domain: Domain) -> Any:
        """Return Arrow columns as a frame of this one's kind; columns that were not released are left out.

        Args:
            columns: the columns.
            domain: the released one, from which categories are taken.
        """
        names = [name for name in self.names if name in columns]
        if self._kind == "pandas":
            return self._pandas(arrow.table({name: columns[name] for name in names}), domain)
        table = arrow.table({name: _cast(columns[name], self._stored[name]) for name in names})
        if self._kind == "polars":
            found = polars.from_arrow(table)
            wanted = {name: self._types[name] for name in names}
            for name in [name for name in names if wanted[name] is polars.Enum]:
                values = _values(domain.attribute(name)) or found[name].drop_nulls().unique().sort()
                wanted[name] = polars.Enum([text_of(value) for value in values])
            return found.with_columns([polars.col(n).cast(wanted[n], strict=False) for n in names])
        if self._kind == "duckdb":
            return duckdb.from_arrow(table)
        return table

    def _pandas(self, table: Any, domain: Domain) -> Any:
        """Return a pandas frame with the types of the one that came in, where the values allow it.

        Types that pandas infers follow from the domain instead.
        """
        found = table.to_pandas(date_as_object=True, integer_object_nulls=True)
        for name in found.columns:
            wanted = self._types[name]
            if wanted is None:
                wanted = _natural(table.schema.field(name).type, domain.attribute(name))
            try:
                if isinstance(wanted, _Categories):
                    sampled = found[name].astype("category").cat
                    values = _values(domain.attribute(name)) or sorted(sampled.categories)
                    index = pandas.Index(values, dtype=wanted.dtype)
                    found[name] = sampled.set_categories(index, ordered=wanted.ordered)
                elif isinstance(wanted, np.dtype) and wanted.kind in "iu" and domain.attribute(name).missing:
                    found[name] = found[name].astype(wanted.name.replace("u", "U").replace("i", "I"))
                elif wanted is not None:
                    found[name] = found[name].astype(wanted)
            except (TypeError, ValueError):  # such as the label "other" in a column of numbers
                continue
        return found


class _Categories(NamedTuple):
    """The type of a column of categories of pandas, without the categories."""

    dtype: Any
    ordered: bool


def _type(kind: str, frame: Any, name: str) -> Any:
    """Return the type of a column in its own library, without categories; None for those of Arrow.

    It is None too for the types that pandas infers: those of some values of Python.
    """
    if kind == "pandas":
        found = frame[name].dtype
        if str(found) == "category":
            return _Categories(_declared(found.categories.dtype), found.ordered)
        return _declared(found)
    if kind == "polars":
        return polars.Enum if isinstance(frame.schema[name], polars.Enum) else frame.schema[name]
    return None


def _declared(dtype: Any) -> Any:
    """Return a type of pandas that no values have by themselves; None for others."""
    samples = ([1], [1 << 63], [1.5], [True], [1j], ["a"], [None], [datetime.datetime(2000, 1, 1)])
    return None if dtype in [pandas.Series(values).dtype for values in samples] else dtype


def _natural(stored: Any, attribute: Attribute) -> Any:
    """Return the type of pandas for an Arrow column of an attribute, of which values are missing or not."""
    types = arrow.types
    for is_of, nullable, plain in (
        (types.is_integer, "Int64", "int64"),
        (types.is_boolean, "boolean", "bool"),
        (types.is_floating, "float64", "float64"),
    ):
        if is_of(stored):
            return nullable if attribute.missing else plain
    moment = types.is_date(stored) or types.is_timestamp(stored)
    return pandas.Series([datetime.datetime(2000, 1, 1) if moment else "a"]).dtype


def _values(attribute: Attribute) -> list[Any] | None:
    """Return the values of an attribute in the order of their codes, None for numbers and dates in bins."""
    if attribute.bins is not None:
        return None
    values = range(attribute.size - attribute.missing) if attribute.labels is None else attribute.labels
    return [*values, *([attribute.other_name] if attribute.other else [])]


def _cast(column: Any, wanted: Any) -> Any:
    """Return an Arrow column as another type, as it is where its values do not allow that."""
    try:
        if arrow.types.is_dictionary(wanted):
            return column.cast(wanted.value_type).dictionary_encode().cast(wanted)
        return column.cast(wanted)
    except arrow.ArrowException:
        return column


def _without_categories(frame: Any) -> Any:
    """Return a polars frame whose categories are texts, which Arrow's compute functions know."""
    return frame.with_columns(
        [
            polars.col(name).cast(polars.String)
            for name, kind in frame.schema.items()
            if isinstance(kind, (polars.Categorical, polars.Enum))
        ]
    )


def _without_views(table: Any) -> Any:
    """Return a table with its texts stored as others store them."""
    plain = [
        arrow.field(field.name, arrow.large_string() if str(field.type) == "string_view" else field.type)
        for field in table.schema
    ]
    return table.cast(arrow.schema(plain))


def _read(reader: Callable[[Any], Any], frame: Any) -> Any:
    """Return what a reader makes of a frame, whose own errors may quote a value."""
    try:
        return reader(frame)
    except Exception as error:
        failure = type(error).__name__
    raise ValueError(
        f"Reading the {type(frame).__name__} failed with {failure}. Details are withheld because they "
        "may quote records. Run your query or conversion by itself to see them. Nothing was spent."
    )


def _check_kind(frame: Any) -> None:
    """Refuse what is no table of rows and columns, such as one column or a query that was not run."""
    kind = type(frame).__name__
    if kind == "LazyFrame":
        raise TypeError("The frame is lazy: call collect() first. Nothing was spent.")
    if kind == "Series" or (kind in ("Array", "ChunkedArray") and not hasattr(frame, "schema")):
        said = f"The frame must have named columns, got a {kind}"
        raise TypeError(
            f"{said}: write frame[[{getattr(frame, 'name', None) or 'age'!r}]], a table of one column."
        )
    known = kind in ("DataFrame", "DuckDBPyRelation") and hasattr(frame, "columns")
    if not known and not hasattr(frame, "__arrow_c_stream__"):
        made = "pandas.DataFrame(records) or pandas.read_csv(path)"
        made = "pandas.DataFrame(array, columns=[...])" if kind == "ndarray" else made
        raise TypeError(
            "The frame must be a pandas, polars, pyarrow or DuckDB table, or offer the Arrow C "
            f"stream, got {kind}: make one, such as by {made}."
        )


def _check_names(names: list[Any]) -> None:
    strange = [name for name in names if not isinstance(name, str) or not name.strip()]
    if strange:
        raise ValueError(
            f"Every column name must be a non-empty string, got {strange[0]!r}: rename it. Nothing was spent."
        )
    twice = sorted({name for name in names if names.count(name) > 1})
    checks.refuse(
        (twice, f"Several columns have the same name: {', '.join(twice)}. Rename them. Nothing was spent."),
        (not names, "The frame has no columns. Nothing was spent."),
    )


def _check_index(frame: Any) -> None:
    """Refuse an index that may say something, as a name or texts do: it would be lost without a word."""
    index = frame.index
    if index.nlevels > 1 or index.name is not None or index.dtype.kind not in "iu":
        raise ValueError(
            "The frame has an index other than row numbers. Make it a column with reset_index(), or "
            "drop it with reset_index(drop=True). Nothing was spent."
        )
