"""The score of DualQuery's draws: its values, its sensitivity on all small tables, the loss of a draw."""

import itertools
import json
import math

import numpy as np
import pytest

from pgmjax import queries as q
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.privacy.scores import Overshoots
from pgmjax.privacy.selection import ExponentialMechanism

DOMAIN = Domain({"a": 2, "b": 2})
QUERIES = [q.marginal(["b", "a"]), q.Product({"a": q.prefix()}), q.marginal(["b"])]
RECORDS = np.array([[0, 0], [1, 0], [1, 1]])


def tables(records):
    """Every table of so many records over the four cells."""
    for counts in itertools.product(range(records + 1), repeat=4):
        if sum(counts) == records:
            yield np.array(counts, dtype=np.int64).reshape(2, 2)


def values(score, table):
    at = {("b", "a"): table.T.copy(), ("a",): table.sum(1), ("b",): table.sum(0)}
    return score.values(DOMAIN, {clique: at[clique] for clique in score.cliques})


def replaced(table):
    for old, new in itertools.permutations(range(4), 2):
        if table.flat[old]:
            other = table.copy()
            other.flat[old] -= 1
            other.flat[new] += 1
            yield other


def test_values_are_the_formula():
    table = np.array([[3, 1], [0, 2]])
    rows = [
        q.DenseMatrix(("a", "b"), [[1, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 1]]).matrix(DOMAIN)
    ]
    rows += [np.array([[1, 1, 0, 0], [1, 1, 1, 1]]), np.array([[1, 0, 1, 0], [0, 1, 0, 1]])]
    matrix = np.concatenate(rows)
    both = np.concatenate([matrix, 1 - matrix])
    ours = both[:, [0, 2, 3]].sum(1)
    wanted = 6 * ours - 3 * (both @ table.ravel())
    score = Overshoots(QUERIES, RECORDS, 6)
    assert values(score, table).tolist() == wanted.tolist()
    assert score.candidates(DOMAIN) == 16 and score.bits == 0


def test_the_declared_sensitivity_is_attained_and_never_passed():
    score = Overshoots(QUERIES, RECORDS, 3)
    declared = score.sensitivity(DOMAIN, Relation.REPLACE_ONE).value
    moves = [
        np.abs(values(score, table) - values(score, other)).max()
        for table in tables(3)
        for other in replaced(table)
    ]
    assert declared == 3 == max(moves)
    added = [
        np.abs(values(score, table + np.eye(4, dtype=int)[i].reshape(2, 2)) - values(score, table)).max()
        for table in tables(2)
        for i in range(4)
    ]
    assert score.sensitivity(DOMAIN, Relation.ADD_REMOVE).value == 3 == max(added)
    assert score.sensitivity(DOMAIN, Relation.REPLACE_ONE, 4).value == 12


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_draw_loses_what_is_claimed_of_it(rounds):
    """Log-ratios of all draws on all neighbours: at most 2 step rounds / count, and nearly that."""
    count, step = 3, 0.5
    score = Overshoots([q.marginal(["a", "b"])], RECORDS[:rounds], count)
    distribution = ExponentialMechanism(count / step)

    def logs(table):
        return np.log(distribution.probabilities(score.values(DOMAIN, {("a", "b"): table})))

    worst = max(np.abs(logs(t) - logs(o)).max() for t in tables(count) for o in replaced(t))
    claimed = 2 * step * rounds / count
    assert 0.4 * claimed < worst <= claimed


def test_large_numbers_do_not_wrap_around():
    score = Overshoots([q.marginal(["a"])], np.zeros((4, 2), int), 2**53 - 1)
    found = score.values(DOMAIN, {("a",): np.array([2**52, 0])})
    assert found.max() == -found.min() == 2**53 - 1


def test_it_is_public_comparable_and_described():
    one, same = (Overshoots(QUERIES, RECORDS, 6) for _ in range(2))
    assert one == same and hash(one) == hash(same) and one != Overshoots(QUERIES, RECORDS[:2], 6)
    assert json.loads(json.dumps(one.to_dict())) == one.to_dict()
    assert one.to_dict()["records"] == RECORDS.tolist() and math.prod(RECORDS.shape) == 6


@pytest.mark.parametrize(
    "given, error, words",
    [
        (([], RECORDS, 6), ValueError, "candidate"),
        ((["a"], RECORDS, 6), TypeError, r"queries\.Query, got str"),
        ((QUERIES, [[0.5, 1.0]], 6), TypeError, "integer codes"),
        ((QUERIES, [0, 1], 6), ValueError, "2 dimensions"),
        ((QUERIES, np.zeros((0, 2), int), 6), ValueError, r"\(0, 2\)"),
        ((QUERIES, RECORDS, 0), ValueError, "count.*0"),
    ],
)
def test_bad_scores(given, error, words):
    with pytest.raises(error, match=words):
        Overshoots(*given)


@pytest.mark.parametrize(
    "score, words",
    [
        (Overshoots([q.DenseMatrix(("a",), [[1, -1]])], RECORDS, 6), r"\('a',\)"),
        (Overshoots(QUERIES, [[0, 2]], 6), "codes"),
        (Overshoots(QUERIES, [[0, 1, 0]], 6), "records must have shape"),
    ],
)
def test_what_does_not_fit_the_domain(score, words):
    with pytest.raises(ValueError, match=words):
        score.check(DOMAIN)
