"""The gate that every access to private numbers passes: budget, journal, tape, and what errors withhold.

`PrivateTable` and `PrivateRatings` are gates. An access is checked, then charged, then computed: the budget
is asked first, the journal charges a whole run durably, and only then are private numbers read. A `Journal`
stores a run's charge and its answers, so that no answer is paid for twice or shown uncharged.

With a ledger the charge goes from `Gate._charge` to `LedgerJournal.begin`, `Ledger.reserve` and
`ledger.charge.reserve`, which writes its row.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import os
import pathlib
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from pgmjax._internal.checks import Error
from pgmjax._internal.private_files import open_private
from pgmjax.data.relation import Relation
from pgmjax.data.sources import TableChangedError
from pgmjax.privacy import tape as tapes
from pgmjax.privacy.accounting.events import Event
from pgmjax.privacy.backend import NoiseBackend
from pgmjax.privacy.budget import Budget, SingleProcess
from pgmjax.privacy.opendp import is_secure


class TableReadError(Error, RuntimeError):
    """Reading the private table failed after the budget was charged; the message reveals nothing about it."""


class Gate(SingleProcess):
    """Private numbers that answer only with noise, under a budget.

    Args:
        relation: the neighbouring relation.
        budget: bound to it.
        backend: source of noise.
        journal: stores charges and answers; None for no journal.
        tape: for tests, see `privacy.tape`. Default: the tape of the enclosing block, if any.
    """

    def __init__(
        self,
        relation: Relation,
        budget: Budget,
        backend: NoiseBackend,
        journal: Journal | None,
        tape: tapes.Tape | None = None,
    ):
        super().__init__()
        self._relation = relation
        self._budget = budget
        self._backend = backend
        self._journal = journal
        self._tape = tapes.active() if tape is None else tape
        self._run: object = self

    @property
    def relation(self) -> Relation:
        """The neighbouring relation."""
        return self._relation

    @property
    def budget(self) -> Budget:
        """The budget, with the cost so far."""
        return self._budget

    @property
    def secure(self) -> bool:
        """True if the answers may be published: each has secure noise, and no tape is running.

        Answers that a journal gave back count by the noise that they were drawn with.
        """
        stored = None if self._journal is None else self._journal.secure
        return self._tape is None and (is_secure(self._backend) if stored is None else stored)

    @property
    def _replays(self) -> bool:
        """True if a tape plays recorded releases back, so that no noise need be drawn."""
        return self._tape is not None and self._tape.replays

    def receipt(self) -> dict[str, Any] | None:
        """Return the journal's record of the run's charge; None without a journal."""
        return None if self._journal is None else self._journal.receipt()

    def _buy(
        self, events: Sequence[Event], request: Mapping[str, Any], compute: Callable[[], np.ndarray]
    ) -> np.ndarray:
        """Return the answer to a request: charged first, and then computed, unless the journal has it.

        Args:
            events: what it costs.
            request: what is asked for, in public terms.
            compute: reads private numbers and returns what is released of them, int64 [n].
        """
        self._charge(events, request)
        return self._journaled(request, compute)

    def _charge(self, events: Sequence[Event], request: Mapping[str, Any] | None = None) -> None:
        """Charge for a use of the counts, which comes next.

        Args:
            events: what it costs.
            request: what is asked for, if one answer says it all: if it is kept, the table is not read.
        """
        self._check_process()
        # asked first and charged last: what a table or a journal refuses leaves the run's budget as it is
        self._budget.require(events)
        self._check_before_charge(request)
        if self._journal is not None:
            secure = is_secure(self._backend) and self._tape is None
            self._journal.begin(self._run, self._budget.whole, self._relation, secure)
        self._budget.charge(events)

    def _check_before_charge(self, request: Mapping[str, Any] | None) -> None:
        """Refuse, before anything is charged, what may be refused at no cost; see `_charge`."""

    def _journaled(self, request: Mapping[str, Any], compute: Callable[[], np.ndarray]) -> np.ndarray:
        """Return the journal's answer to the next request, or one that is computed, and stored, now."""
        return compute() if self._journal is None else self._journal.answer(request, compute)

    def _is_journaled(self, request: Mapping[str, Any]) -> bool:
        """Return whether the journal has the answer to the next request."""
        return self._journal is not None and self._journal.holds(request)

    def _withheld(self, doing: str, act: Callable[..., Any], *given: Any) -> Any:
        """Return `act(*given)`, computed from private numbers; of an error only its type is reported."""
        try:
            return act(*given)
        except TableChangedError:  # its message says nothing about the records
            raise
        except Exception as error:  # its own message may quote a row or a count
            failure = type(error).__name__
            _tell_holder(doing, error)
        # raised out here, so that the error does not carry the other one along as its context
        raise TableReadError(
            f"{doing} failed with {failure} after the budget was charged. Details are withheld, since they "
            "may show private values; data.validate() is a safe place for the table's holder to look."
        )

    def _through_tape(self, call: tapes.Call, release: Callable[[], np.ndarray]) -> np.ndarray:
        """Return what a release gives for the exact numbers of a call; it may be handed them to draw from."""
        release = functools.partial(self._withheld, "Drawing", release)
        return release() if self._tape is None else self._tape.passage(call, release)


_holder_log: contextvars.ContextVar[pathlib.Path | None] = contextvars.ContextVar("holder_log", default=None)


@contextlib.contextmanager
def holder_log(path: str | os.PathLike[str] | None) -> Iterator[None]:
    """Write what errors withhold to a file that only the table's holder may read, while the block runs.

    Args:
        path: the file, made with mode 0600 if it is missing and appended to; None writes nothing.

    Raises:
        OSError: it cannot be opened.
        ValueError: it is a link or no regular file, or others may read or write it.
    """
    if path is not None:
        open_private(path).close()  # before anything is spent
    token = _holder_log.set(None if path is None else pathlib.Path(path).absolute())
    try:
        yield
    finally:
        _holder_log.reset(token)


def _tell_holder(doing: str, error: Exception) -> None:
    path = _holder_log.get()
    if path is None:
        return
    with contextlib.suppress(OSError, ValueError), open_private(path) as file:
        file.write(f"{doing} failed.\n{''.join(traceback.format_exception(error))}\n")


class Journal(Protocol):
    """The interface of a journal, as `PrivateTable` uses it."""

    @property
    def secure(self) -> bool | None:
        """True if each answer so far was drawn with secure noise, by whatever run; None before the first."""

    def begin(self, run: object, budget: Budget, relation: Relation, secure: bool) -> None:
        """Charge the whole budget of a run; called before counts are read, possibly repeatedly.

        Args:
            run: the owner of the journal.
            budget: the run's whole budget.
            relation: the neighbouring relation.
            secure: whether the noise of answers that are computed from now on is secure.

        Raises:
            ValueError: the journal belongs to another run.
        """

    def receipt(self) -> dict[str, Any] | None:
        """Return a record of the run's charge; None if it is not kept in a ledger."""

    def choice_key(self) -> bytes | None:
        """Return the secret by which the records of a unit are chosen, the same when the run goes on."""

    def holds(self, request: Mapping[str, Any]) -> bool:
        """Return whether the run's next answer is stored, for this request."""

    def answer(self, request: Mapping[str, Any], compute: Callable[[], np.ndarray]) -> np.ndarray:
        """Return the run's next answer, int64 [n]: the stored one, or one computed and stored now."""
