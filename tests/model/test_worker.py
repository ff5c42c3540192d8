"""The thread behind its caller: jobs in order, errors handed on, and no deadlock by an interrupt."""

import subprocess
import sys
import threading
import time

import pytest

from pgmjax.model.row_file import WorkerThread


def test_jobs_are_done_in_order_by_another_thread():
    with WorkerThread(lambda job: (job, threading.get_ident())) as behind:
        for job in range(3):
            behind.start(job)
        results = [behind.finish() for _ in range(3)]
    assert [job for job, _ in results] == [0, 1, 2]
    assert {thread for _, thread in results}.isdisjoint({threading.get_ident()})


def test_an_error_is_raised_where_the_job_is_finished_and_the_next_job_is_done():
    with WorkerThread(lambda job: 1 // job) as behind:
        behind.start(0)
        behind.start(1)
        with pytest.raises(ZeroDivisionError):
            behind.finish()
        assert behind.finish() == 1


def test_jobs_under_way_are_done_before_the_caller_goes_on():
    done, go = [], threading.Event()

    def work(job):
        go.wait(30)
        done.append(job)

    with pytest.raises(OSError, match="stop"), WorkerThread(work) as behind:
        behind.start(1)
        behind.start(2)
        threading.Timer(0.05, go.set).start()
        raise OSError("stop")
    assert done == [1, 2]


def test_a_thread_that_nobody_waits_for_ends():
    before = threading.active_count()
    behind = WorkerThread(str)
    assert threading.active_count() == before + 1
    del behind
    end = time.monotonic() + 30
    while threading.active_count() > before and time.monotonic() < end:
        time.sleep(0.01)
    assert threading.active_count() == before


INTERRUPTED = """
import faulthandler, random, signal
from pgmjax.model.row_file import WorkerThread

def stop(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, stop)
faulthandler.dump_traceback_later(60, exit=True)
generator = random.Random(0)
for _ in range(1000):
    try:
        with WorkerThread(lambda job: job) as behind:
            signal.setitimer(signal.ITIMER_REAL, generator.uniform(1e-5, 2e-3))
            while True:
                behind.start(0)
                behind.finish()
    except KeyboardInterrupt:
        pass
print("done")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_interrupts_at_any_time_leave_nobody_waiting():
    """A ThreadPoolExecutor in this place hangs: an interrupt leaves one of its locks taken."""
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=120)
    assert done.stdout == "done\n", done.stderr
