"""Scores of parent sets: declared sensitivities against all small tables, values against the formulas."""

import itertools
import math
from decimal import Decimal, localcontext

import numpy as np
import pytest

from pgmjax import queries as q
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.privacy.scores import bayes
from pgmjax.privacy.scores.bayes import (
    MOST_RECORDS_OF_F,
    BinaryF,
    MutualInformation,
    ParentScore,
    TotalVariation,
)

REPLACE = Relation.REPLACE_ONE
PAIR = q.marginal(("x", "y"))
ALL = [MutualInformation, BinaryF, TotalVariation]


def all_tables(cells, records):
    """Every table [cells] of exactly so many records."""
    for bars in itertools.combinations(range(records + cells - 1), cells - 1):
        ends = (-1, *bars, records + cells - 1)
        yield np.array([b - a - 1 for a, b in itertools.pairwise(ends)], dtype=np.int64)


def largest_move(kind, shape, records):
    """The largest change of a score, in its own unit, when one record of any table is replaced."""
    domain = Domain({"x": shape[0], "y": shape[1]})
    score = kind([PAIR], records)
    cells = math.prod(shape)
    value = {
        t.tobytes(): int(score.values(domain, {("x", "y"): t.reshape(shape)})[0])
        for t in all_tables(cells, records)
    }
    most = 0
    for text, here in value.items():
        table = np.frombuffer(text, dtype=np.int64)
        for old, new in itertools.permutations(range(cells), 2):
            if table[old]:
                other = table.copy()
                other[old] -= 1
                other[new] += 1
                most = max(most, abs(value[other.tobytes()] - here))
    return most / 2**score.bits, score.sensitivity(domain, REPLACE).value / 2**score.bits


BINARY = [((2, 2), n) for n in range(1, 11)] + [((3, 2), n) for n in range(1, 7)]
GENERAL = [((2, 3), n) for n in range(1, 7)] + [((3, 3), n) for n in range(1, 7)]


@pytest.mark.parametrize("shape, records", BINARY + GENERAL)
@pytest.mark.parametrize("kind", ALL)
def test_no_neighbour_moves_a_score_beyond_what_is_declared(kind, shape, records):
    if kind is BinaryF and shape[1] != 2:
        pytest.skip("F is for a child of two values")
    moved, declared = largest_move(kind, shape, records)
    assert moved <= declared
    if kind is BinaryF:
        assert declared == 1 and moved == (records > 1)  # F of one record is -1/2, whatever it is
    if kind is TotalVariation:
        assert 3 + 2 / records <= declared <= 3 + 2 / records + 2 / 2**12
        assert moved <= (2 * (1 - 1 / records) if shape == (2, 2) else 2) + 2 / 2**12


@pytest.mark.parametrize("bits", [0, 1])
def test_rounding_is_in_the_declared_sensitivity(bits, monkeypatch):
    """Half a unit for each of the 12 terms that change, and no more than the rounding up of the sum."""
    monkeypatch.setattr(bayes, "_BITS", bits)
    for shape, records in itertools.product([(2, 2), (3, 2)], range(2, 7)):
        real = math.log2(records) + (records - 1) * math.log2(records / (records - 1))
        moved, declared = largest_move(MutualInformation, shape, records)
        assert moved <= declared and 6 <= (declared - real) * 2**bits <= 7 + 1e-6
        moved, declared = largest_move(TotalVariation, shape, records)
        assert moved <= declared and 1 <= (declared - 3 - 2 / records) * 2**bits < 2


@pytest.mark.parametrize("shape, records", [s for s in BINARY if s[1] > 1] + [((2, 3), 6)])
def test_mutual_information_attains_the_formula_with_two_values(shape, records):
    n, grid = records, 8 / 2**12
    formula = math.log2(n) / n + (n - 1) / n * math.log2(n / (n - 1))
    moved, declared = largest_move(MutualInformation, shape, records)
    assert moved / n == pytest.approx(formula, abs=grid)
    assert declared / n == pytest.approx(formula, abs=grid) and declared / n >= formula


@pytest.mark.parametrize("records, figure", [(3, 1.33333), (5, 1.10196)])
def test_mutual_information_attains_the_general_formula_for_odd_numbers(records, figure):
    n = records
    formula = 2 / n * math.log2((n + 1) / 2) + (n - 1) / n * math.log2((n + 1) / (n - 1))
    assert formula == pytest.approx(figure, abs=5e-6)
    moved, declared = largest_move(MutualInformation, (3, 3), records)
    assert moved / n == pytest.approx(figure, abs=8 / 2**12)
    assert formula <= declared / n <= formula + 8 / 2**12


def test_mutual_information_of_six_records_stays_below_the_general_formula():
    moved, declared = largest_move(MutualInformation, (3, 3), 6)
    assert moved / 6 == pytest.approx(1.0, abs=8 / 2**12)
    assert declared / 6 == pytest.approx(1.00697, abs=8 / 2**12)


def information(p):
    total = 0.0
    for row, column in itertools.product(range(p.shape[0]), range(p.shape[1])):
        if p[row, column]:
            total += p[row, column] * math.log2(p[row, column] / (p[row].sum() * p[:, column].sum()))
    return total


def every_assignment(p):
    """F by trying every assignment of parents' cells to the child's two values."""
    best = -math.inf
    for sides in itertools.product((0, 1), repeat=len(p)):
        kept = [sum(p[i, side] for i, chosen in enumerate(sides) if chosen == side) for side in (0, 1)]
        best = max(best, -sum(max(0.5 - part, 0) for part in kept))
    return best


@pytest.mark.parametrize("seed", range(30))
def test_values_are_the_formulas(seed):
    rng = np.random.default_rng(seed)
    rows, columns = int(rng.integers(1, 7)), int(rng.integers(1, 5))
    for child in {columns, 2}:
        domain = Domain({"x": rows, "y": child})
        table = rng.integers(0, rng.choice([2, 30, 5000]), (rows, child)) + (rng.random() < 0.5)
        table[0, 0] += 1
        n = int(table.sum())
        p, at = table / n, {("x", "y"): table}
        scores = [MutualInformation([PAIR], n), TotalVariation([PAIR], n)]
        wanted = [information(p), 0.5 * np.abs(p - np.outer(p.sum(1), p.sum(0))).sum()]
        if child == 2:
            scores.append(BinaryF([PAIR], n))
            wanted.append(every_assignment(p))
        for score, value in zip(scores, wanted, strict=True):
            got = float(score.values(domain, at)[0]) / 2**score.bits
            # a term is off by half a unit at most, and there are cells + margins + 1 of them
            slack = (table.size + rows + child + 1) / 2**score.bits
            assert got == pytest.approx(n * value, abs=slack, rel=1e-12)


def test_f_of_ties_and_extremes():
    domain = Domain({"x": 3, "y": 2})
    for table, wanted in (
        ([[5, 0], [0, 5], [0, 0]], 0),  # certain
        ([[10, 0], [0, 0], [0, 0]], -0.5),  # all in one cell: nothing left for the other value
        ([[1, 0], [0, 0], [0, 0]], -0.5),
        ([[2, 2], [2, 2], [1, 1]], -0.5 + 0.0),
    ):
        counts = np.array(table)
        score = BinaryF([PAIR], int(counts.sum()))
        got = int(score.values(domain, {("x", "y"): counts})[0]) / 2 / counts.sum()
        assert got == pytest.approx(every_assignment(counts / counts.sum()), abs=1e-15)
        assert got == pytest.approx(wanted, abs=1e-15)


def test_coarser_parents_and_several():
    domain = Domain({"x": 4, "z": 2, "y": 3})
    table = np.random.default_rng(0).integers(0, 20, (4, 2, 3))
    n = int(table.sum())
    coarse = q.Product({"x": q.compression([0, 0, 1, 1]), "z": q.identity(), "y": q.identity()})
    merged = np.stack([table[:2].sum(0), table[2:].sum(0)]).reshape(4, 3)
    got = TotalVariation([coarse, q.marginal(("y",))], n).values(
        domain, {("x", "z", "y"): table, ("y",): table.sum((0, 1))}
    )
    p = merged / n
    assert got[0] / 2**12 == pytest.approx(n / 2 * np.abs(p - np.outer(p.sum(1), p.sum(0))).sum(), abs=2e-3)
    assert got[1] == 0


def test_the_largest_sensitivity_of_the_candidates_counts():
    domain = Domain({"x": 3, "y": 3, "z": 2})
    three, two = q.marginal(("x", "y")), q.marginal(("x", "z"))
    both = MutualInformation([two, three], 9).sensitivity(domain, REPLACE)
    assert both == MutualInformation([three], 9).sensitivity(domain, REPLACE)
    assert both.value > MutualInformation([two], 9).sensitivity(domain, REPLACE).value


def test_logarithms_are_as_exact_as_declared():
    """Terms c log2(c) in floats against 40 digits: far within the 2^-50 that the sensitivity counts with."""
    rng = np.random.default_rng(0)
    counts = np.unique(np.concatenate([np.arange(1, 2000), np.floor(2 ** rng.uniform(1, 53, 3000))]))
    worst = Decimal(0)
    with localcontext() as context:
        context.prec = 40
        two = Decimal(2).ln()
        for count, term in zip(counts.astype(np.int64).tolist(), counts * np.log2(counts), strict=True):
            exact = Decimal(count) * Decimal(count).ln() / two
            worst = max(worst, abs(Decimal(float(term)) - exact) / max(exact, Decimal(1)))
    assert worst < Decimal(2) ** -51


@pytest.mark.parametrize("records", [2**31, 10**12, 2**53 - 1])
def test_huge_tables_do_not_wrap_around(records):
    domain = Domain({"x": 2, "y": 2})
    half = records // 2
    at = {("x", "y"): np.array([[half, 0], [0, records - half]])}
    for score, wanted in ((MutualInformation([PAIR], records), 1.0), (TotalVariation([PAIR], records), 0.5)):
        got = score._values(domain, at)[0] / 2**score.bits
        assert got == pytest.approx(wanted * records, rel=1e-9)


@pytest.mark.parametrize("kind", ALL)
def test_only_a_public_number_of_records_will_do(kind):
    domain = Domain({"x": 2, "y": 2})
    for relation, most in ((Relation.ADD_REMOVE, None), (REPLACE, 3)):
        with pytest.raises(ValueError, match="number of records, which must be public"):
            kind([PAIR], 5).sensitivity(domain, relation, most)


@pytest.mark.parametrize(
    "queries, records, error, words",
    [
        ([], 5, ValueError, "candidate"),
        (PAIR, 5, TypeError, "queries.*Product"),
        (["xy"], 5, TypeError, "a product of blocks, got str"),
        ([q.Product({"x": q.prefix(), "y": q.identity()})], 5, ValueError, "count every record once"),
        ([PAIR], 0, ValueError, "records.*0"),
        ([PAIR], 2.5, TypeError, r"records.*float 2\.5"),
    ],
)
def test_bad_scores(queries, records, error, words):
    with pytest.raises(error, match=words):
        TotalVariation(queries, records)


def test_f_refuses_what_it_is_not_for():
    with pytest.raises(ValueError, match="children of two values, and 'y' has 3"):
        BinaryF([PAIR], 5).check(Domain({"x": 2, "y": 3}))
    with pytest.raises(ValueError, match="takes up to 10,000,000 records"):
        BinaryF([PAIR], MOST_RECORDS_OF_F + 1).check(Domain({"x": 2, "y": 2}))


@pytest.mark.parametrize("kind", ALL)
def test_scores_are_compared_and_described(kind):
    one, same, other = kind([PAIR], 5), kind([q.marginal(("x", "y"))], 5), kind([PAIR], 6)
    assert one == same and hash(one) == hash(same) and one != other and isinstance(one, ParentScore)
    assert one.to_dict() == {"kind": one.kind, "records": 5, "queries": [{"clique": ["x", "y"]}]}
