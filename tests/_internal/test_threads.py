"""One thread of BLAS: within, for all threads that work there, and as before after the last one leaves."""

import threadpoolctl

from pgmjax._internal import device
from pgmjax._internal.device import one_thread


def _threads() -> list[int]:
    return [each["num_threads"] for each in threadpoolctl.threadpool_info() if each["user_api"] == "blas"]


def test_one_thread_until_the_last_one_leaves():
    device._blas.cache_clear()  # it knows what was loaded when first asked
    before = _threads()
    assert before
    with one_thread():
        with one_thread():
            assert set(_threads()) == {1}
        assert set(_threads()) == {1}
    assert _threads() == before


def test_as_before_after_an_error():
    before = _threads()
    try:
        with one_thread():
            raise KeyError
    except KeyError:
        assert _threads() == before
    else:
        raise AssertionError("the error did not pass")
