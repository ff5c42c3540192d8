"""A worker thread that cannot deadlock with its caller after an interrupt.

An interrupt may arrive between any two instructions of the caller, even just after it has acquired a lock of
Python's `threading` or `concurrent.futures`. The lock then stays held, the thread waits for it forever, and
the caller for the thread (observed with a `ThreadPoolExecutor`). Therefore caller and thread share only two
queues written in C, which hold no lock while Python code runs.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

_END = object()


class WorkerThread:
    """One thread that runs a job while the caller prepares the next; use it in a `with` block.

    Args:
        work: function applied to each job; `finish` returns its result.

    Example:
        >>> with WorkerThread(lambda number: 2 * number) as worker:
        ...     worker.start(3)
        ...     worker.finish()
        6
    """

    def __init__(self, work: Callable[[Any], Any]):
        self._jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        # a daemon, so that the program does not wait for it at exit if an interrupt arrives while it starts
        threading.Thread(target=_serve, args=(work, self._jobs, self._done), daemon=True).start()

    def start(self, job: Any) -> None:
        """Submit a job and return at once."""
        self._jobs.put(job)

    def finish(self) -> Any:
        """Wait for the earliest unfinished job and return its result, or raise its error."""
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
        while self._done.get() is not _END:  # submitted jobs are finished first
            pass

    def __del__(self) -> None:
        self._jobs.put(_END)  # if an interrupt came before the `with` was entered or left


def _serve(work: Callable[[Any], Any], jobs: queue.SimpleQueue[Any], done: queue.SimpleQueue[Any]) -> None:
    while (job := jobs.get()) is not _END:
        try:
            done.put((work(job), None))
        except BaseException as error:
            done.put((None, error))
        del job  # do not keep it alive until the next one
    done.put(_END)
