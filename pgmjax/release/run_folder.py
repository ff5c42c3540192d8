"""A run's folder: every noisy answer is on disk before it is used, so that no kind of end loses one.

Beside a ledger it makes a release resumable without its own cost; without a ledger it is the only record of
the answers that were paid for. A run that goes on from its folder plays the stored answers back and computes
the others, all within the one budget of the run.

A run in Python without a folder of its own, and without a ledger that keeps its answers, has one in the
user's state folder until it is done. If it is interrupted, fails or is killed, the same call goes on from it,
in this process or another.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import json
import os
import pathlib
import re
import shlex
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pgmjax._internal import checks, files, formats
from pgmjax._internal.checks import Error
from pgmjax._internal.private_files import open_private
from pgmjax.data.dataset import Dataset
from pgmjax.data.population import Population
from pgmjax.data.relation import Relation
from pgmjax.estimation.estimator import Estimator
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.privacy.budget import Budget, SingleProcess
from pgmjax.privacy.gate import Journal
from pgmjax.privacy.ledger import IdempotencyConflict
from pgmjax.privacy.ledger.chain import digest_of
from pgmjax.release import tables

MEASUREMENTS = "measurements.parquet"
RUN, _ANSWERS, _COMMAND = ".run.json", "answers", "command.json"
_MADE, _REPLACED, _PUBLISHED, _RECORD = "release", "replaced", "published.json", "release.json"
_SECURE, _INSECURE = "secure", "insecure"  # the end of an answer's name: of which noise it is
_LONGEST = 200  # bytes of a name, of the 255 that file systems allow


class OtherRun(Error, ValueError):
    """A folder holds the answers of another run, or about another table; nothing was spent."""


class NotKept(Error, RuntimeError):
    """A run's answer could not be put on disk, and was not shown."""


class RunFolder(SingleProcess):
    """A folder in which a run keeps its noisy answers.

    In it are `measurements.parquet`, what was measured so far, and `answers/`, every answer of the run in
    order, each with whether its noise is secure; `.run.json`, for the owner of the folder alone, tells one
    run and one table from another. Of a folder that `beside` made, `command.json` says what was asked for,
    and `release/` is the release that is being written.

    Args:
        folder: path; made if it is missing. A run that was interrupted goes on from what is in it.

    Guarantees:
        An answer is on disk before the run gets it. At most one answer to each step of a run is ever used,
        by one run at a time, of one thread in the process that made this object.

    Raises:
        ImportError: pyarrow is not installed.
        ValueError: another process is using the folder.

    Example:
        >>> import tempfile
        >>> import pgmjax as pj
        >>> data = pj.Dataset.from_columns(pj.Domain({"a": 2}), {"a": [0] * 60 + [1] * 40})
        >>> once = pj.mechanisms.Marginals(epsilon=1, relation=pj.Relation.REPLACE_ONE)
        >>> with tempfile.TemporaryDirectory() as place:
        ...     folder = RunFolder(place)
        ...     first = once.run(data, pj.Workload([["a"]]), folder=folder)
        ...     folder.close()
        ...     again = once.run(data, pj.Workload([["a"]]), folder=RunFolder(place))
        >>> (first.measurements[0].values == again.measurements[0].values).all()
        np.True_
    """

    def __init__(self, folder: str | os.PathLike[str]):
        checks.optional("pyarrow.parquet", extra="tables")
        self._prepare()
        try:
            self._open(pathlib.Path(folder).absolute())
        except BlockingIOError:
            raise ValueError(
                f"Another process is using {self.folder}: wait for it, or give another folder."
            ) from None

    def _prepare(self) -> None:
        super().__init__()
        self.begun = self.answered = False  # whether the run has begun to spend, and has an answer
        self._lock: int | None = None
        self._running = threading.Lock()  # of a run
        self._step = threading.Lock()  # of an answer, from the look for a stored one until it is stored
        self._measured: list[LinearMeasurement] = []

    def _open(self, folder: pathlib.Path) -> None:
        """Make and lock the folder, and remove what a write that ended in it left.

        Raises:
            BlockingIOError: another run is using it.
        """
        self.folder = folder
        while True:
            for each in (folder, folder / _ANSWERS):
                files.make_folder(each, 0o700)
            lock = files.try_lock(folder)
            if lock is None or _stands_at(lock, folder):
                break
            os.close(lock)  # the run that held it has removed it meanwhile
        self._lock = lock
        for left in (folder / _ANSWERS).glob(".*.partial"):
            left.unlink(missing_ok=True)

    @property
    def answers(self) -> int:
        """The number of stored answers."""
        return len(list((self.folder / _ANSWERS).glob("*.npy")))

    @property
    def secure(self) -> bool:
        """True if every stored answer was drawn with secure noise."""
        return all(path.stem.endswith(f"-{_SECURE}") for path in (self.folder / _ANSWERS).glob("*.npy"))

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Give the folder to one run while the block runs.

        Raises:
            RuntimeError: this is not the process that made the object; nothing was spent.
            ValueError: another thread has a run in it.
        """
        self._check_process()
        if not self._running.acquire(blocking=False):
            raise ValueError(
                f"Another run of this process is using {self.folder}: wait for it, or give another folder."
            )
        try:
            self._measured = []
            yield
        finally:
            self._running.release()

    def bind(self, request: Mapping[str, Any], data: Dataset) -> None:
        """Bind the folder to a run and its table, or check that they are the ones it is bound to.

        Args:
            request: all that decides the run's answers, with the files that are read and how; public and
                JSON-able.
            data: the private table, of which a digest is kept under a random key.

        Raises:
            OtherRun: the folder belongs to another run, or the table is another one or was changed.
        """
        path, asked = self.folder / RUN, digest_of("request", request)
        if not path.exists():
            key = os.urandom(32)
            record = {"request": asked, "key": key.hex(), "table": data.identity(key)}
            self._note({**formats.RUN.heading(), **record})
            return
        record = files.read(path, formats.RUN)
        if record["request"] != asked:
            raise OtherRun(
                f"{self.folder} holds the answers of another run: give another folder, or repeat that "
                "run's request."
            )
        if data.identity(bytes.fromhex(record["key"])) != record["table"]:
            raise OtherRun(
                f"The answers in {self.folder} are about another table, or the table was changed: use "
                "the original table. Nothing was spent."
            )

    def _note(self, record: Mapping[str, Any]) -> None:
        """Write what tells the run and its table from others.

        Raises:
            ValueError: that failed.
        """
        text = json.dumps(record)
        try:
            files.write_private(self.folder / RUN, lambda file: file.write(text.encode()))
        except OSError as error:
            raise ValueError(
                f"{self.folder} cannot be written: {_reason(error)}. Nothing was spent."
            ) from error

    def rounds_fitted_by(self, estimator: Estimator) -> Estimator:
        """Return the estimator by which the run, which is bound, decides what it measures.

        Args:
            estimator: that of the last fit. A run that begins now decides by it too, and does so whenever it
                goes on, whatever estimator it is given then.

        Raises:
            ValueError: the run decides by an object (a loss or solver) that is not given now.
        """
        given = {
            field.name: _public(getattr(estimator, field.name))
            for field in dataclasses.fields(estimator)
            if field.name not in ("progress", "devices")  # no answer depends on them
        }
        record = files.read(self.folder / RUN, formats.RUN)
        if "estimator" not in record:
            record["estimator"] = given
            self._note(record)
        began = record["estimator"]
        for name, value in began.items():
            if isinstance(value, dict) and value != given[name]:
                raise ValueError(
                    f"The run in {self.folder} began with the {name} {value['object']}, by which it decides "
                    f"what to measure: give an estimator with this {name}. Nothing further was spent."
                )
        plain = {name: value for name, value in began.items() if not isinstance(value, dict)}
        return dataclasses.replace(estimator, **plain)

    def key(self) -> bytes:
        """Return the secret of the run, which `finish` removes."""
        return bytes.fromhex(files.read(self.folder / RUN, formats.RUN)["key"])

    def journal(self, inner: Journal | None) -> FolderJournal:
        """Return the journal of the run: this folder's, in front of a ledger's if there is one."""
        return FolderJournal(self, inner)

    @contextlib.contextmanager
    def step_at_a_time(self) -> Iterator[None]:
        """Let one thread take a step of the run while the block runs: the others wait.

        Raises:
            RuntimeError: this is not the process that made the object; nothing was drawn.
        """
        self._check_process()
        with self._step:
            yield

    def step(self, number: int, asked: str) -> tuple[np.ndarray, bool] | None:
        """Return the stored answer of a step, int64 [n], and whether its noise is secure; None without one.

        Raises:
            IdempotencyConflict: it is one to another request.
        """
        for path in (self.folder / _ANSWERS).glob(f"{number:06d}-*.npy"):
            _, request, noise = (*path.stem.split("-"), "")[:3]
            if request != asked:
                raise IdempotencyConflict(
                    f"Step {number} in {self.folder} holds the answer to another request, so this is "
                    "not the run that was begun there. No answer was shown."
                )
            return np.asarray(np.load(path, allow_pickle=False)), noise == _SECURE
        return None

    def store(self, number: int, asked: str, values: np.ndarray, secure: bool) -> None:
        """Put the answer of a step on disk, under a name that says whether its noise is secure.

        Raises:
            NotKept: that failed; nothing of the answer is there.
        """
        path = self.folder / _ANSWERS / f"{number:06d}-{asked}-{_SECURE if secure else _INSECURE}.npy"
        try:
            files.write_private(path, lambda file: np.save(file, values, allow_pickle=False))
        except OSError as error:
            raise NotKept(
                f"An answer could not be written to {self.folder} ({_reason(error)}), and was not shown: "
                "make room there."
            ) from error

    def record(
        self, measured: Sequence[LinearMeasurement], secure: bool, seed: int | None, population: Population
    ) -> None:
        """Add measurements to `measurements.parquet`, which is there in full at any time.

        Raises:
            NotKept: that failed; their answers are stored.
        """
        self._measured += measured
        partial = self.folder / f".{MEASUREMENTS}.partial"
        try:
            # made with its mode first: at no moment may others read it
            open_private(partial, "wb").close()
            tables.write_measurements(
                self._measured, partial, secure=secure, seed=seed, population=population
            )
            files.settle(partial, self.folder / MEASUREMENTS)
        except OSError as error:
            raise NotKept(
                f"{MEASUREMENTS} could not be written to {self.folder} ({_reason(error)}): make room there."
            ) from error
        finally:
            partial.unlink(missing_ok=True)

    @classmethod
    def beside(cls, out: pathlib.Path, asked: Mapping[str, Any], output: Mapping[str, Any]) -> RunFolder:
        """Return the folder OUT.partial in which the release OUT is made; that of the same run is taken up.

        Args:
            out: where the release is to be; see `check_out`.
            asked: what decides what is measured, for JSON.
            output: the rest of the command, for JSON, which may be another one when the run goes on.

        Raises:
            ValueError: the place cannot be written, or OUT.partial is of another run or no run at all.
        """
        partial = partial_of(out)
        _check_ours(partial)
        try:
            files.make_folder(out.parent)
            files.sweep(out.parent)
            files.check_name(out)
            folder = cls(partial)
        except OSError as error:
            raise ValueError(f"{out} cannot be written: {error.strerror}.") from error
        found = command_in(partial)
        if folder.answers and found is not None and found["asked"] != dict(asked):
            folder.close()
            raise ValueError(
                f"{partial} holds the noisy answers of another run that was interrupted. Continue that "
                f"run (pgmjax release --resume {shlex.quote(str(partial))}), give another --out, or "
                "remove the folder. Nothing was spent."
            )
        if found is None or not folder.answers:
            try:
                folder.keep_command(asked, output)
            except OSError as error:
                folder.leave()
                raise ValueError(f"{partial} cannot be written: {error.strerror}.") from error
        return folder

    def keep_command(self, asked: Mapping[str, Any], output: Mapping[str, Any]) -> None:
        """Write what was asked for, for whoever goes on: as the run began, and again once it succeeded."""
        text = json.dumps({"asked": dict(asked), "output": dict(output)}, indent=1) + "\n"
        files.write_private(self.folder / _COMMAND, lambda file: file.write(text.encode()))

    def to_write(self) -> pathlib.Path:
        """Return the empty folder for the release; what an earlier turn of the run wrote is gone."""
        for name in (_MADE, _REPLACED):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        (self.folder / _MADE).mkdir()
        return self.folder / _MADE

    def publish(
        self, out: pathlib.Path, asked: Mapping[str, Any], output: Mapping[str, Any], *, keep: bool
    ) -> None:
        """Turn what was written into the release OUT, in place of what an earlier turn of this run published.

        Args:
            out: the release.
            asked: what it was asked for, see `beside`.
            output: the rest of the command that succeeded, by which another turn goes on.
            keep: whether this folder stays, as the release lacks parts that can still be written.

        Raises:
            ValueError: another OUT has appeared meanwhile.
        """
        if keep:
            self.keep_command(asked, output)
        copied = self.folder / f".{_PUBLISHED}"
        shutil.copyfile(self.folder / _MADE / _RECORD, copied)  # the disk may be full, but is not below
        if is_own(out):
            # moved aside, not removed: an interruption here loses neither
            out.rename(self.folder / _REPLACED)
        files.check_target(out)
        files.settle(copied, self.folder / _PUBLISHED)
        files.settle(self.folder / _MADE, out)
        if keep:
            self.close()
        else:
            # the answers go last, when the release has its place, and what was made of them is on disk
            self.drop()

    def drop(self) -> None:
        """Remove the folder, whose release is published."""
        files.drop(self.folder)
        self.close()

    def leave(self) -> None:
        """Leave the folder to a later turn of the run; remove it if nothing in it was paid for."""
        if not self.answers:
            shutil.rmtree(self.folder, ignore_errors=True)
        self.close()

    def close(self) -> None:
        """Let other processes use the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


class FolderJournal:
    """A run's journal in its folder, in front of the ledger's.

    Args:
        folder: the run's folder.
        inner: the ledger's journal; None without a ledger.
    """

    def __init__(self, folder: RunFolder, inner: Journal | None):
        self._folder = folder
        self._inner = inner
        self._step = 0
        self._fresh = False  # whether noise that is drawn now is secure
        self.secure: bool | None = None

    def begin(self, run: object, budget: Budget, relation: Relation, secure: bool) -> None:
        """Note that the run spends from here on, and reserve its budget in the ledger, if there is one.

        The ledger gets the answers of the folder too, so that their noise counts.
        """
        self._fresh = secure
        # before the charge: if an interruption falls in between, the folder has to be kept
        before, self._folder.begun = self._folder.begun, True
        try:
            if self._inner is not None:
                self._inner.begin(run, budget, relation, secure and self._folder.secure)
        except Exception:  # refused, which an interrupt is not
            self._folder.begun = before
            raise

    def receipt(self) -> dict[str, Any] | None:
        """Return where the ledger keeps the run's charge; None without a ledger."""
        return None if self._inner is None else self._inner.receipt()

    def choice_key(self) -> bytes | None:
        """Return the secret by which the records of a unit are chosen: the ledger's, or the folder's."""
        return self._folder.key() if self._inner is None else self._inner.choice_key()

    def holds(self, request: Mapping[str, Any]) -> bool:
        """Return whether the next step's answer is stored, and is one to this request."""
        with contextlib.suppress(IdempotencyConflict):
            if self._folder.step(self._step, digest_of("request", request)) is not None:
                return True
        return self._inner is not None and self._inner.holds(request)

    def answer(self, request: Mapping[str, Any], compute: Callable[[], np.ndarray]) -> np.ndarray:
        """Return the next step's answer: the stored one, or one computed and stored now.

        Raises:
            IdempotencyConflict: the stored answer is one to another request.
            LedgerError: the ledger could not store it; it is not shown.
            NotKept: the folder could not; it is not shown.
        """
        asked = digest_of("request", request)
        with self._folder.step_at_a_time():
            stored = self._folder.step(self._step, asked)
            kept, secure = (None, self._fresh) if stored is None else stored
            if self._inner is not None:  # the ledger's answer counts, and it has had every answer first
                # one that was restored from an older copy may lack it: it is not drawn a second time
                values = self._inner.answer(request, compute if kept is None else lambda: kept)
                secure = secure and self._inner.secure is True
            else:
                values = compute() if kept is None else kept
            if kept is None:
                self._folder.store(self._step, asked, values, secure)
            self.secure = secure and self.secure is not False
            self._folder.answered = True
            self._step += 1
            return values


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error)


def _public(value: Any) -> Any:
    """Return a setting for JSON: an object, such as a loss, by its description."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    return {"object": re.sub(r" at 0x[0-9a-f]+", "", repr(value))}


def _stands_at(handle: int, folder: pathlib.Path) -> bool:
    """Return whether an open folder is the one that has this name now."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(handle), folder.stat())
    return False


def partial_of(out: pathlib.Path) -> pathlib.Path:
    """Return the folder in which a release is made: OUT.partial, of a long name the beginning."""
    name = out.name
    if len(os.fsencode(name)) > _LONGEST:
        name = f"{name[:50]}-{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}"
    return out.with_name(f"{name}.partial")


def holds_answers(partial: pathlib.Path) -> bool:
    """Return whether a run left answers in a folder."""
    with contextlib.suppress(OSError):
        return any((partial / _ANSWERS).glob("*.npy"))
    return False


def command_in(partial: pathlib.Path) -> dict[str, Any] | None:
    """Return what the run in a folder was asked for, under "asked" and "output"; None if it is not there."""
    try:
        found = json.loads((partial / _COMMAND).read_text(encoding="utf-8"))
        return {"asked": dict(found["asked"]), "output": dict(found["output"])}
    except (OSError, ValueError, TypeError, LookupError):
        return None


def is_own(out: pathlib.Path) -> bool:
    """Return whether OUT is the release that was published by the run in OUT.partial, and that is there."""
    try:
        return (partial_of(out) / _PUBLISHED).read_bytes() == (out / _RECORD).read_bytes()
    except OSError:
        return False


def check_out(out: str | os.PathLike[str]) -> pathlib.Path:
    """Check that a release can be made at OUT, or that a run which left parts of it out can go on.

    Raises:
        ValueError: OUT exists and is no such release, or cannot be made there.
    """
    target = pathlib.Path(out).absolute()
    return target if is_own(target) else files.check_target(out)


def _check_ours(partial: pathlib.Path) -> None:
    """Refuse a folder in the place of OUT.partial in which no release was being made.

    Raises:
        ValueError: it is another one, whose contents would be lost.
    """
    if not os.path.lexists(partial) or (command_in(partial) is not None and not partial.is_symlink()):
        return
    is_folder = partial.is_dir() and not partial.is_symlink()
    begun = is_folder and all(
        path.name in (RUN, f".{RUN}.partial", f".{_COMMAND}.partial")
        or (path.name == _ANSWERS and not any(path.iterdir()))
        for path in partial.iterdir()
    )
    if not begun:
        raise ValueError(
            f"{partial} was not left by an interrupted release, but this run would keep its noisy "
            "answers there. Rename that folder, or give another --out. Nothing was spent."
        )


_LENGTH = 24  # characters of a folder's name, of the digest of what its run asks for


def place() -> pathlib.Path:
    """Return the folder of unfinished runs: `pgmjax/runs` in `$XDG_STATE_HOME` or `~/.local/state`."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return pathlib.Path(state, "pgmjax", "runs").absolute()


class UnfinishedRun(RunFolder):
    """The folder of a run in Python, which it finds or makes when it is bound.

    Its place follows from what the run asks for. A run of the same request on another table, and one that is
    under way at the same time, has a folder of its own.

    Args:
        after: an attempt that has begun to spend: this one goes on with its run, and with no other.

    Guarantees:
        As of a `RunFolder`. The folder can be read by its owner alone.
    """

    def __init__(self, after: UnfinishedRun | None = None):
        self._prepare()
        self.folder: pathlib.Path | None = None  # type: ignore[assignment]
        self.asked = ""
        self._after = after if after is not None and after.begun else None
        self.begun = self._after is not None
        self.answered = self._after is not None and self._after.answered

    def bind(self, request: Mapping[str, Any], data: Dataset) -> None:
        """Find the folder of the same run on the same table, or make one.

        Raises:
            OtherRun: the attempt before was another run.
            ValueError: the folder cannot be written.
        """
        self.asked = digest_of("request", request)
        if self._after is not None and self._after.asked != self.asked:
            raise OtherRun("The run that was begun asked for something else.")
        before = None if self._after is None else self._after.folder
        if before is not None and self.answered and not before.is_dir():
            raise OtherRun(f"The answers of the run that was begun were in {before}, which is gone.")
        files.sweep(place())
        for number in itertools.count(1):
            name = self.asked[:_LENGTH] + ("" if number == 1 else f"-{number}")
            folder = place() / name if before is None else before
            try:
                self._open(folder)
                return super().bind(request, data)
            except BlockingIOError:  # under way: an independent run of the same request
                other = OtherRun(f"Another run is using {folder}.")
            except OtherRun as error:
                self.close()
                other = error
            self.folder = None
            if before is not None:
                raise other

    def _open(self, folder: pathlib.Path) -> None:
        try:
            super()._open(folder)
        except BlockingIOError:
            raise
        except OSError as error:
            self.folder = None
            raise ValueError(
                f"{folder}, where a run keeps its noisy answers until it is done, cannot be written: "
                f"{error.strerror}. Give folder=RunFolder(...), or set XDG_STATE_HOME to another folder. "
                "Nothing was spent."
            ) from error

    def record(self, *given: Any) -> None:
        """Write nothing: of these folders only the answers are read."""

    def leave(self) -> None:
        """Leave the folder to the call that goes on; remove it if nothing in it was paid for."""
        if self.folder is not None:
            super().leave()

    @contextlib.contextmanager
    def kept(self) -> Iterator[RunFolder]:
        """Keep the answers while the block runs, and remove them when it succeeds.

        An error that ends it says where they are, and carries the path as its attribute `folder`.
        """
        try:
            yield self
        except BaseException as error:
            self.leave()
            if self.folder is not None and self.folder.exists():
                _tell(error, self.folder)
            raise
        if self.folder is not None:
            self.drop()


def _tell(error: BaseException, folder: pathlib.Path) -> None:
    """Add to an error where the answers are."""
    said = f"The noisy answers are in {folder}: running the same again goes on from them at no further cost."
    with contextlib.suppress(AttributeError):
        error.folder = folder  # type: ignore[attr-defined]
    if not error.args or (len(error.args) == 1 and isinstance(error.args[0], str)):
        before = str(error.args[0]).rstrip() if error.args else ""
        error.args = (f"{before} {said}".lstrip(),)
    else:
        error.add_note(said)
