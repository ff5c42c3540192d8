"""Declared sensitivities of scores against all small tables and all their neighbours."""

import dataclasses
import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmjax import queries as q
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.privacy.scores import Counts, Deviations, Distances, Score, Stack
from pgmjax.privacy.scores.base import LIMIT, exact_answers

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
DOMAIN = Domain({"a": 3, "b": 2})
AB = ("a", "b")


def tables(cells, most):
    """Every table of `cells` cells with up to `most` records (or units of weight)."""
    for counts in itertools.product(range(most + 1), repeat=cells):
        if sum(counts) <= most:
            yield np.array(counts, dtype=np.int64)


def neighbours(table, relation, most):
    """Tables with one record more, or another record; records weigh 0..most, or 1 without weights."""
    cells = range(len(table))
    weights = [1] if most is None else range(most + 1)
    if relation is ADD:
        for cell, weight in itertools.product(cells, weights):
            other = table.copy()
            other[cell] += weight
            yield other
        return
    for old, new, leaves, comes in itertools.product(cells, cells, weights, weights):
        if table[old] >= leaves:
            other = table.copy()
            other[old] -= leaves
            other[new] += comes
            yield other


def by_clique(score, domain, table):
    """The tables the score asks for, from that of all attributes."""
    whole = table.reshape([domain[name] for name in domain])
    result = {}
    for clique in score.cliques:
        axes = [list(domain).index(name) for name in clique]
        summed = whole.sum(axis=tuple(set(range(whole.ndim)) - set(axes)))
        result[clique] = summed.transpose(np.argsort(np.argsort(axes)))
    return result


def largest_move(score, domain, relation, records, most=None):
    cells = math.prod(domain[name] for name in domain)
    best = 0
    known = {}
    for table in tables(cells, records):
        for other in [table, *neighbours(table, relation, most)]:
            if other.tobytes() not in known:
                known[other.tobytes()] = score.values(domain, by_clique(score, domain, other))
        values = known[table.tobytes()]
        for other in neighbours(table, relation, most):
            best = max(best, int(np.abs(known[other.tobytes()] - values).max()))
    return best


def declared(score, domain, relation, most=None):
    sensitivity = score.sensitivity(domain, relation, most)
    assert (sensitivity.norm, sensitivity.relation) == ("linf", relation)
    return sensitivity.value


SMALL = Domain({"a": 3})
SIGNED = q.DenseMatrix(("a",), [[1, -1, 0], [0, 2, 1]])
MARGINAL = q.marginal(("a",))


@pytest.mark.parametrize(
    ("score", "add", "replace"),
    [
        (Deviations(MARGINAL, [1.0, 1.0, 1.0], bits=0), 1, 1),
        (Deviations(MARGINAL, [1.25, 0.5, 1.0], bits=2), 4, 4),
        (Deviations(MARGINAL, [1.0, 1.0, 1.0], weight=2.5, bits=0), 5, 5),
        (Deviations(SIGNED, [-1.0, 0.0], bits=1), 4, 4),
        (Deviations(q.DenseMatrix(("a",), [[1, -1, 0]]), [-3.0], bits=0), 1, 2),
        (Deviations(q.Product({"a": q.prefix()}), [0.0, 0.0, 0.0], bits=0), 1, 1),
        (Distances([(MARGINAL, [1.0, 1.0, 1.0])], bits=0), 1, 2),
        (Distances([(MARGINAL, [1.0, 1.0, 1.0], 3, 2.5)], bits=1), 6, 12),
        (Distances([(MARGINAL, [1.0, 1.0, 1.0], 0.5), (SIGNED, [9.0, -9.0], 1)], bits=0), 6, 8),
        (Counts(MARGINAL), 1, 1),
        (Counts(SIGNED), 2, 2),
        (Counts(q.DenseMatrix(("a",), [[2, -3, 0]])), 3, 5),
        (Stack([Counts(MARGINAL), Deviations(SIGNED, [-1.0, 0.0], weight=0.25, bits=0)]), 4, 4),
    ],
)
def test_declared_sensitivities_are_attained(score, add, replace):
    assert declared(score, SMALL, ADD) == add == largest_move(score, SMALL, ADD, 5)
    assert declared(score, SMALL, REPLACE) == replace == largest_move(score, SMALL, REPLACE, 5)


def test_a_whole_marginal_moves_by_two_when_a_record_is_replaced():
    """The factor that a well-known implementation forgets: 1 with add/remove, 2 and not 1 with replace."""
    for query, domain in ((MARGINAL, SMALL), (q.marginal(AB), DOMAIN)):
        estimate = np.full(query.shape(domain), 1.0)
        score = Distances([(query, estimate)], bits=0)
        assert declared(score, domain, ADD) == 1
        assert declared(score, domain, REPLACE) == 2 == largest_move(score, domain, REPLACE, 3)
        assert declared(Deviations(query, estimate, bits=0), domain, REPLACE) == 1


@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize(
    "score",
    [
        Deviations(MARGINAL, [0.5, -1.0, 0.25], bits=2),
        Deviations(SIGNED, [-1.0, 0.0], bits=0),
        Distances([(MARGINAL, [1.0, 1.0, 1.0])], bits=0),
        Counts(MARGINAL),
    ],
)
def test_weighted_records(score, relation, most):
    assert largest_move(score, SMALL, relation, 4, most) <= declared(score, SMALL, relation, most)
    assert declared(score, SMALL, ADD, most) == most * declared(score, SMALL, ADD)
    if score.kind != "distances":
        assert largest_move(score, SMALL, relation, 4, most) == declared(score, SMALL, relation, most)


numbers = st.floats(-3, 3, allow_nan=False)
whole = st.lists(st.lists(st.integers(-3, 3), min_size=3, max_size=3), min_size=1, max_size=3)
weights = st.floats(0.01, 4, allow_nan=False)


@st.composite
def scores(draw):
    entries = draw(whole)
    query = draw(st.sampled_from([q.DenseMatrix(("a",), entries), q.Product({"a": q.matrix(entries)})]))
    estimate = draw(st.lists(numbers, min_size=len(entries), max_size=len(entries)))
    bits, weight, offset = draw(st.integers(0, 4)), draw(weights), draw(numbers)
    forms = [
        Counts(query),
        Deviations(query, estimate, weight, bits),
        Distances([(query, estimate, weight, offset), (MARGINAL, [0.5, 1, 1.5])], bits),
    ]
    score = draw(st.sampled_from(forms))
    return draw(st.sampled_from([score, Stack([score, Counts(MARGINAL)])]))


@given(scores(), st.sampled_from([ADD, REPLACE]), st.sampled_from([None, 1, 2]))
@settings(max_examples=200, deadline=None)
def test_neighbours_never_move_a_score_beyond_what_is_declared(score, relation, most):
    assert largest_move(score, SMALL, relation, 3, most) <= declared(score, SMALL, relation, most)


def test_values_are_the_formulas_on_the_grid():
    domain, query = DOMAIN, q.marginal(AB)
    rng = np.random.default_rng(0)
    table = rng.integers(0, 50, (3, 2))
    estimate = rng.normal(20, 20, (3, 2))
    at = {AB: table, ("b",): table.sum(0)}
    for bits in (0, 8, 20):
        errors = Deviations(query, estimate, weight=1.5, bits=bits)
        got = errors.values(domain, at)
        assert got.dtype == np.int64 and errors.bits == bits + 1
        rounded = np.rint(estimate * 2**bits) / 2**bits
        assert np.array_equal(got / 2**errors.bits, 1.5 * np.abs(table - rounded).ravel())
    offset = math.sqrt(2 / math.pi) * 3.7 * 6
    aim = Distances([(query, estimate, 2, offset), (q.marginal(("b",)), [40.0, 60.0], 0.75, 0)], bits=16)
    got = aim.values(domain, at) / 2**aim.bits
    wanted = [2 * (np.abs(table - estimate).sum() - offset), 0.75 * np.abs(at["b",] - [40, 60]).sum()]
    assert np.allclose(got, wanted, rtol=0, atol=2 * 8 * 2.0**-17)
    assert aim.cliques == (AB, ("b",)) and aim.candidates(domain) == 2


def test_stacks_bring_their_parts_to_one_unit():
    fine = Deviations(q.Product({"a": q.prefix()}), [1.5, 2.5, 4.0], bits=3)
    stack = Stack([Counts(q.marginal(("b",))), fine, Counts(q.marginal(("b",)))])
    at = {("a",): np.array([1, 2, 3]), ("b",): np.array([4, 2])}
    assert stack.cliques == (("b",), ("a",)) and stack.bits == 3 and stack.candidates(DOMAIN) == 7
    assert (stack.values(DOMAIN, at) / 8).tolist() == [4, 2, 0.5, 0.5, 2, 4, 2]
    assert [stack.locate(DOMAIN, i) for i in range(7)] == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
        (1, 2),
        (2, 0),
        (2, 1),
    ]
    with pytest.raises(ValueError, match=r"numbered 0\.\.6, got 7"):
        stack.locate(DOMAIN, 7)


def test_scores_are_public_comparable_and_described():
    made = [
        (
            Deviations(q.marginal(("a",)), [1, 2, 3], weight=0.5),
            Distances([(q.marginal(AB), np.ones((3, 2)), 1, 1.25)]),
            Counts(q.Product({"a": q.prefix()})),
            Stack([Counts(SIGNED)]),
        )
        for _ in range(2)
    ]
    for one, same in zip(*made, strict=True):
        assert one == same and hash(one) == hash(same)
        assert json.loads(json.dumps(one.to_dict())) == one.to_dict()
        with pytest.raises(dataclasses.FrozenInstanceError):
            one.kind = "other"
    assert Deviations(MARGINAL, [1, 2, 3]) != Deviations(MARGINAL, [1, 2, 4])
    assert made[0][0].to_dict() == {
        "kind": "errors",
        "query": {"clique": ["a"]},
        "weight": "0.5",
        "bits": 8,
    }
    assert made[0][1].to_dict()["candidates"] == [
        {"query": {"clique": ["a", "b"]}, "weight": "1", "offset": "1.25"}
    ]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Deviations([1], [1]), TypeError, r"queries\.Query, got list"),
        (lambda: Counts("a"), TypeError, r"queries\.Query, got str"),
        (lambda: Deviations(MARGINAL, [1, np.nan, 2]), ValueError, r"\('a',\).*1 of 3"),
        (lambda: Deviations(MARGINAL, [1, np.inf, 2]), ValueError, r"\('a',\).*1 of 3"),
        (lambda: Deviations(MARGINAL, ["1", "2", "3"]), TypeError, r"\('a',\).*texts"),
        (lambda: Deviations(MARGINAL, [1e300, 0, 0]), ValueError, r"below 2\^53 on a grid of 8 bits"),
        (lambda: Deviations(MARGINAL, [1, 1, 1], weight=0), ValueError, "score.*0"),
        (lambda: Deviations(MARGINAL, [1, 1, 1], weight=-1), ValueError, "weight.*-1"),
        (lambda: Deviations(MARGINAL, [1, 1, 1], weight=np.nan), ValueError, "weight.*nan"),
        (
            lambda: Deviations(MARGINAL, [1, 1, 1], weight=1e-5),
            ValueError,
            r"above 2\*\*-13, or it rounds to zero",
        ),
        (lambda: Deviations(MARGINAL, [1, 1, 1], weight="1"), TypeError, "str"),
        (lambda: Deviations(MARGINAL, [1, 1, 1], bits=25), ValueError, r"in 0\.\.24, got 25"),
        (lambda: Deviations(MARGINAL, [1, 1, 1], bits=0.5), TypeError, "float"),
        (lambda: Distances([]), ValueError, "at least one candidate, got none"),
        (lambda: Distances([MARGINAL]), TypeError, "a candidate is a tuple .*got Product"),
        (lambda: Distances([(MARGINAL, [1, 1, 1], 1, np.inf)]), ValueError, "offset.*inf"),
        (
            lambda: Distances([(MARGINAL, [1, 1, 1], 1, 2.0**60)]),
            ValueError,
            r"an offset must be below 2\^53",
        ),
        (lambda: Stack([]), ValueError, "at least one candidate, got none"),
        (lambda: Stack(Counts(MARGINAL)), TypeError, "scores.*Counts"),
        (lambda: Stack([MARGINAL]), TypeError, "only scores can be stacked, got Product"),
    ],
)
def test_bad_scores_are_refused_when_they_are_made(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (Deviations(q.marginal(AB), np.ones((2, 3))), r"6 flat or shape \(3, 2\), got shape \(2, 3\)"),
        (Deviations(q.marginal(AB), np.ones(5)), r"got shape \(5,\)"),
        (Distances([(q.marginal(AB), np.ones(6)), (q.marginal(("a",)), [1.0])]), r"got shape \(1,\)"),
        (Stack([Deviations(q.marginal(AB), np.ones(5))]), r"got shape \(5,\)"),
        (Counts(q.DenseMatrix(("b",), [[0.5, 1.0]])), r"queries\.quantise"),
        (Deviations(q.DenseMatrix(("b",), [[0.5, 1.0]]), [1.0]), r"queries\.quantise"),
        (Counts(q.marginal(("z",))), "'z'"),
    ],
)
def test_what_does_not_fit_is_refused_before_any_data(score, message):
    with pytest.raises(ValueError, match=message):
        score.check(DOMAIN)
    with pytest.raises(ValueError, match=message):
        score.sensitivity(DOMAIN, ADD)


def test_the_relation_must_be_named():
    with pytest.raises(ValueError, match="replace-one"):
        Counts(MARGINAL).sensitivity(SMALL, None)


@pytest.mark.parametrize(
    ("score", "count"),
    [
        (Counts(MARGINAL), 2**53),
        (Counts(q.DenseMatrix(("a",), [[2**30, 0, 0]])), 2**25),
        (Deviations(MARGINAL, [0, 0, 0], bits=20), 2**34),
        (Deviations(MARGINAL, [0, 0, 0], weight=2.0**20, bits=0), 2**34),
        (Distances([(MARGINAL, [0, 0, 0], 1, 0)], bits=20), 2**34),
        (Distances([(q.DenseMatrix(("a",), np.ones((64, 3), int)), [0] * 64)], bits=0), 2**48),
        (Distances([(MARGINAL, [0, 0, 0], 2.0**20, -(2.0**20))], bits=0), 2**34),
        (Stack([Counts(MARGINAL), Deviations(MARGINAL, [0, 0, 0], bits=24)]), 2**34),
    ],
)
def test_counts_beyond_the_limit_saturate(score, count):
    """An error would tell that a count is large; moved to the limit, no two values move apart."""
    at = {("a",): np.array([count, 0, 0])}
    assert score.values(SMALL, at).max() == LIMIT - 1
    assert np.abs(score.values(SMALL, {("a",): np.array([3, 0, 0])})).max() < LIMIT - 1


@dataclasses.dataclass(frozen=True)
class Imbalance(Score):
    """A score of someone's own: the square root of the largest count, rounded on a grid of 1/16."""

    kind = "imbalance"
    clique: tuple[str, ...]
    broken: str = ""

    @property
    def cliques(self):
        return (self.clique,)

    @property
    def bits(self):
        return 4

    def candidates(self, domain):
        return 0 if self.broken == "empty" else 1

    def to_dict(self):
        return {"kind": self.kind, "clique": list(self.clique)}

    def _values(self, domain, tables):
        largest = exact_answers(q.marginal(self.clique), domain, tables[self.clique]).max()
        score = np.rint(2**4 * np.sqrt([largest]))
        return {"float": score, "long": np.array([1, 2])}.get(self.broken, score.astype(np.int64))

    def _sensitivity(self, domain, relation, max_weight):
        most = 1 if max_weight is None else max_weight
        return 2**4 * most + 1  # the root of a count moves by at most as much as the count


def test_a_score_of_ones_own():
    score = Imbalance(("a",))
    for relation, most in itertools.product((ADD, REPLACE), (None, 1, 2)):
        assert largest_move(score, SMALL, relation, 4, most) <= declared(score, SMALL, relation, most)
    at = {("a",): np.array([4, 1, 1])}
    assert Stack([score, Counts(MARGINAL)]).values(SMALL, at).tolist() == [32, 64, 16, 16]
    with pytest.raises(ValueError, match="at least one candidate"):
        Imbalance(("a",), "empty").check(SMALL)
    for broken, got in (("float", r"float64 \(1,\)"), ("long", r"int64 \(2,\)")):
        with pytest.raises(
            TypeError, match=rf"imbalance score must give integers of shape \(1,\), got {got}"
        ):
            Imbalance(("a",), broken).values(SMALL, at)
    with pytest.raises(TypeError, match="exact tables must be int64, got float64"):
        score.values(SMALL, {("a",): np.array([4.0, 1.0, 1.0])})


def test_some_of_the_candidates_score_as_by_themselves_whatever_was_kept():
    domain = Domain({"a": 2, "b": 3, "c": 2})
    tables = {("a", "b"): np.arange(6).reshape(2, 3), ("c",): np.array([4, 11]), ("b",): np.array([3, 5, 7])}
    parts = [(q.marginal(clique), table * 0.5, 3 - i, i) for i, (clique, table) in enumerate(tables.items())]
    score, kept = Distances(parts), {}
    whole = score.values(domain, tables, kept)
    for places in ([2, 0], [0], [1, 2]):  # the last ones are no longer kept
        some = score.only(places)
        assert some.values(domain, tables, kept).tolist() == whole[places].tolist()
        assert some.sensitivity(domain, Relation.ADD_REMOVE).value == 2**some.bits * max(
            3 - i for i in places
        )
        assert len(kept) == len(places)
    moved = Distances([(query, estimate + 1, weight, offset) for query, estimate, weight, offset in parts])
    assert moved.values(domain, tables, kept).tolist() == moved.values(domain, tables).tolist()
    with pytest.raises(ValueError, match="at least one candidate"):
        score.only([])
