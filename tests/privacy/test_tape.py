"""The tape finds every way in which a toy mechanism can leak past its noise, and none where there is none."""

import dataclasses

import numpy as np
import pytest

from pgmjax.audit import replay as r
from pgmjax.data.relation import Relation
from pgmjax.measurements.noise import DiscreteLaplace
from pgmjax.privacy import tape as t
from pgmjax.privacy.sensitivity import Sensitivity


def call(exact, kind="laplace", parameters=("q",), norm="l1", bound=1):
    exact = np.asarray(exact, dtype=np.int64)
    sensitivity = Sensitivity(bound, norm, Relation.ADD_REMOVE)
    distribution = DiscreteLaplace(2.0)
    return t.active().passage(
        t.Call(kind, parameters, distribution, sensitivity, exact), lambda: exact + 1000
    )


def honest(table):
    return {"answer": call(table)}


NEAR, FAR = [5, 0, 2], [5, 1, 2]


def test_an_honest_mechanism_passes_and_is_recorded():
    tape = r.check_pair(honest, NEAR, FAR)
    assert [c.exact.tolist() for c in tape.calls] == [NEAR]


def test_replay_gives_the_recorded_release():
    tape = t.Tape()
    with tape.recording():
        first = honest(NEAR)
    with tape.replaying():
        assert tape.replays
        second = honest(FAR)
    assert not tape.replays and np.array_equal(first["answer"], second["answer"])


LEAKS = {
    "output": (lambda x: [call(x), x[1]], "result"),
    "metadata": (lambda x: {"answer": call(x), "error": float(x[1])}, r"result\['error'\]"),
    "extra call": (lambda x: [call(x) for _ in range(1 + x[1])], "was not recorded"),
    "missing call": (lambda x: [call(x) for _ in range(2 - x[1])], "1 calls were made where 2 were recorded"),
    "kind": (lambda x: call(x, kind="gaussian" if x[1] else "laplace"), "the kind of call"),
    "parameters": (lambda x: call(x, parameters=(x[1],)), "other parameters"),
    "sensitivity from the table": (lambda x: call(x, bound=1 + x[1]), "other parameters"),
    "shape": (lambda x: call(x[: 2 + x[1]]), "the shape depends"),
    "sensitivity too small": (
        lambda x: call(np.multiply(x, 2)),
        "2 apart in L1 distance, declared sensitivity is 1",
    ),
    "squared sensitivity too small": (
        lambda x: call(np.multiply(x, 2), norm="l2_squared", bound=3),
        "4 apart in squared L2",
    ),
}


@pytest.mark.parametrize("name", LEAKS)
def test_leaks_are_found(name):
    run, words = LEAKS[name]
    with pytest.raises(t.NonInterferenceError, match=words):
        r.check_pair(run, NEAR, FAR)


def test_it_is_an_assertion_error():
    assert issubclass(t.NonInterferenceError, AssertionError)


def test_distances_are_exact_integers():
    big = 2**61
    first, second = np.array([big, -big, 7]), np.array([-big, -big, 6])
    assert t.distance("l1", first, second) == 2**62 + 1
    assert t.distance("l2_squared", first, second) == 2**124 + 1
    assert t.distance("linf", first, second) == 2**62
    assert t.distance("l1", first, first) == t.distance("linf", first, first) == 0


def test_no_tape_outside_its_block():
    tape = t.Tape()
    assert t.active() is None
    with tape.recording():
        assert t.active() is tape
    assert t.active() is None
    with pytest.raises(RuntimeError), tape.replaying():
        raise RuntimeError
    assert t.active() is None and not tape.replays


def test_recording_again_starts_over():
    tape = t.Tape()
    for _ in range(2):
        with tape.recording():
            honest(NEAR)
    assert len(tape.calls) == 1


def test_what_is_recorded_cannot_be_changed_later():
    tape = t.Tape()
    exact = np.array(NEAR, dtype=np.int64)
    with tape.recording():
        released = call(exact)
    exact[0] = released[0] = 99
    assert tape.calls[0].exact.tolist() == NEAR
    with tape.replaying():
        assert call(FAR).tolist() == [1005, 1000, 1002]


@dataclasses.dataclass
class Record:
    number: float
    array: np.ndarray


SAME = [
    (Record(1.0, np.arange(3)), Record(1.0, np.arange(3))),
    (float("nan"), float("nan")),
    ([1, ("a", None)], [1, ("a", None)]),
    (np.array([np.nan]), np.array([np.nan])),
]
DIFFERENT = [
    (0.0, -0.0),
    (1, 1.0),
    (1.0, np.nextafter(1.0, 2.0).item()),
    (np.arange(3), np.arange(3, dtype=np.int32)),
    (np.zeros((2, 3)), np.zeros((3, 2))),
    (np.array([0.0]), np.array([-0.0])),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ([1], [1, 2]),
    (Record(1.0, np.arange(3)), Record(1.0, np.arange(1, 4))),
    ("a", "b"),
]


@pytest.mark.parametrize("first, second", SAME)
def test_same(first, second):
    assert r.differences(first, second) == []


@pytest.mark.parametrize("first, second", DIFFERENT)
def test_different(first, second):
    assert len(r.differences(first, second)) == 1
