"""A thread that works beside its caller; an interrupt never leaves the two waiting for each other.

An interrupt may come between any two instructions of the caller, also just after it has taken a lock of
Python's `threading` or `concurrent.futures`. The lock then stays taken, the thread waits for it for ever, and
the caller for the thread (seen with a `ThreadPoolExecutor`). So nothing is shared here but two queues
written in C, which hold no lock while Python code runs.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

_END = object()


class WorkerThread:
    """One thread that does one job while the caller prepares the next; to be used in a `with`.

    Args:
        work: what is done with each job; its result is handed back.

    Example:
        >>> with WorkerThread(lambda number: 2 * number) as worker:
        ...     worker.start(3)
        ...     worker.finish()
        6
    """

    def __init__(self, work: Callable[[Any], Any]):
        self._jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        # a daemon: should an interrupt come while it starts, nobody waits for it at the end of the program
        threading.Thread(target=_serve, args=(work, self._jobs, self._done), daemon=True).start()

    def start(self, job: Any) -> None:
        """Hand a job over and return at once."""
        self._jobs.put(job)

    def finish(self) -> Any:
        """Wait for the job that was handed over first and return its result, or raise its error."""
        result, error = self._done.get()
        if error is not None:
            raise error
        return result

    def __enter__(self) -> WorkerThread:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._jobs.put(_END)
        while self._done.get() is not _END:  # jobs under way are done first
            pass

    def __del__(self) -> None:
        self._jobs.put(_END)  # where an interrupt came before the `with` was entered or left


def _serve(work: Callable[[Any], Any], jobs: queue.SimpleQueue[Any], done: queue.SimpleQueue[Any]) -> None:
    while (job := jobs.get()) is not _END:
        try:
            done.put((work(job), None))
        except BaseException as error:
            done.put((None, error))
        del job  # not kept until the next one comes
    done.put(_END)
