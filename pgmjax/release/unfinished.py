"""Runs in Python that are under way: their noisy answers are in the user's state folder until they are done.

A run without a folder of its own, and without a ledger that keeps its answers, has one here. If it is
interrupted, fails or is killed, the same call goes on from it, in this process or another.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from pgmjax._internal import files
from pgmjax.data.dataset import Dataset
from pgmjax.privacy.ledger.chain import digest_of
from pgmjax.release.run_folder import OtherRun, RunFolder

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
