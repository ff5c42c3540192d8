"""A transcript: what it answers by itself, how it is written down, what it refuses."""

import json
from fractions import Fraction

import pytest

from pgmjax import queries as q
from pgmjax.data.domain import Domain
from pgmjax.measurements import transcript as transcripts
from pgmjax.measurements.transcript import Transcript

DOMAIN = Domain({"a": 3, "b": 2})
QUERIES = (q.marginal(["b", "a"]), q.Product({"a": q.prefix()}))
GIVEN = {
    "domain": DOMAIN,
    "queries": QUERIES,
    "count": 80,
    "step": Fraction(1, 3),
    "drawn": [[0, 17], [8, 9], [3, 3], [1, 2]],
    "records": [[0, 1], [2, 0], [2, 1], [0, 1]],
}
MADE = Transcript(**GIVEN)


def test_numbers():
    assert (MADE.rounds, MADE.samples, MADE.rows) == (4, 2, 9)
    assert repr(MADE) == "Transcript(4 rounds of 2 draws from 18 queries)"
    with pytest.raises(ValueError, match="read-only"):
        MADE.drawn[0, 0] = 1


def test_answers_are_those_of_the_records():
    assert MADE.answer(q.marginal(["b"])).tolist() == [20, 60]
    assert MADE.answer(q.Product({"a": q.prefix()})).tolist() == [40, 40, 80]
    assert MADE.marginal(("b", "a")).tolist() == [[0, 0, 0.25], [0.5, 0, 0.25]]


def test_what_was_counted_before_each_round():
    before = MADE.before()
    assert before.shape == (4, 9) and not before[0].any()
    assert before[1].tolist() == [0, 0, 0, 1, 0, 0, 1, 1, 1]
    assert before[3].tolist() == [0, 0, 1, 1, 0, 1, 1, 1, 3]


def test_it_is_written_and_read():
    record = json.loads(json.dumps(MADE.to_dict()))
    again = transcripts.read(record, DOMAIN)
    assert again.to_dict() == MADE.to_dict() and again.queries == QUERIES and again.step == Fraction(1, 3)
    with pytest.raises(ValueError, match="other attributes"):
        transcripts.read(record, Domain({"b": 2, "a": 3}))
    with pytest.raises(ValueError, match="lacks drawn"):
        transcripts.read({k: v for k, v in record.items() if k != "drawn"}, DOMAIN)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"queries": ()}, "at least one query"),
        ({"queries": (q.DenseMatrix(("a",), [[1, -1, 0]]),)}, r"\('a',\)"),
        ({"drawn": [0, 1]}, "drawn must be integers with two axes"),
        ({"drawn": [[0.5]]}, "drawn must be integers"),
        ({"drawn": [[18]] * 4}, r"numbered 0\.\.17"),
        ({"drawn": [[-1]] * 4}, r"numbered 0\.\.17"),
        ({"drawn": [[1]] * 3}, "for each round, got 3 and 4"),
        ({"records": [[0, 2]] * 4}, "codes"),
    ],
)
def test_bad_transcripts(change, words):
    with pytest.raises(ValueError, match=words):
        Transcript(**(GIVEN | change))
