"""Infeasibility against linear programming over the joint, and the names in the message.

Proportional fitting against the textbook's two-way table and a joint in NumPy.
"""

import numpy as np
import pytest
from scipy.optimize import linprog

from pgmjax.data.domain import Domain
from pgmjax.estimation import feasibility
from pgmjax.estimation.constraints import AllowedSet, FixedMarginal, FunctionalDependency, StructuralZeros
from pgmjax.estimation.feasibility import require_feasible
from pgmjax.estimation.problem import SideInformation, total_of
from pgmjax.inference.oracles.host import HostModel
from pgmjax.inference.plan.structure import Structure

DOMAIN = Domain({"a": 2, "b": 3, "c": 2})
PAIR = np.array([[10.0, 20, 30], [5, 25, 10]])


def linear_program(domain, constraints):
    """Whether some distribution over the joint meets the constraints."""
    states = np.indices(domain.shape).reshape(len(domain), -1)
    rows, values, possible = [np.ones(states.shape[1])], [1.0], np.ones(states.shape[1], bool)
    for constraint in constraints:
        codes = tuple(states[domain.attributes.index(name)] for name in constraint.clique)
        if isinstance(constraint, FixedMarginal):
            cell = np.ravel_multi_index(codes, constraint.counts.shape)
            for number, value in enumerate(constraint.probabilities.ravel()):
                rows.append(cell == number)
                values.append(value)
        else:
            possible &= constraint.zeros(domain).allowed[codes]
    bounds = [(0, 1 if ok else 0) for ok in possible]
    return linprog(np.zeros(len(bounds)), A_eq=np.array(rows, float), b_eq=values, bounds=bounds).status == 0


def test_what_a_table_has_is_feasible():
    require_feasible(DOMAIN, [])
    joint = np.random.default_rng(0).integers(0, 3, DOMAIN.shape)
    fixed = [
        FixedMarginal(("a", "b"), joint.sum(2)),
        FixedMarginal(("c", "b"), joint.sum(0).T),
        FixedMarginal(("a", "c"), joint.sum(1)),
    ]
    require_feasible(DOMAIN, [*fixed, StructuralZeros(("a", "b", "c"), joint > 0)])
    moved = joint.sum(1)
    moved[0, 0] += 1
    moved[1, 0] -= 1  # one record more of the first a than ("a", "b") has
    with pytest.raises(ValueError, match="infeasible"):
        require_feasible(DOMAIN, [*fixed[:2], FixedMarginal(("a", "c"), moved)])


def some_constraints(seed):
    """Marginals of a table and a mask that it may or may not meet; a third marginal, its own or not."""
    rng = np.random.default_rng(seed)
    mask = rng.random((2, 2)) < 0.7
    mask[tuple(rng.integers(2, size=2))] = True
    joint = rng.dirichlet(np.ones(DOMAIN.size())).reshape(DOMAIN.shape)
    if rng.random() < 0.5:
        joint = joint * mask[:, None, :]
    fixed = [FixedMarginal(("a", "b"), joint.sum(2)), FixedMarginal(("b", "c"), joint.sum(0))]
    third = joint.sum(1) + (0.0 if rng.random() < 0.7 else 0.02 * rng.random((2, 2)))
    fixed.append(FixedMarginal(("a", "c"), third / third.sum() * joint.sum()))
    return [StructuralZeros(("a", "c"), mask), *fixed[: rng.integers(2, 4)]]


@pytest.mark.parametrize("seed", range(40))
def test_the_verdict_is_that_of_a_linear_program(seed):
    constraints = some_constraints(seed)
    if linear_program(DOMAIN, constraints):
        require_feasible(DOMAIN, constraints)
    else:
        with pytest.raises(ValueError, match="infeasible"):
            require_feasible(DOMAIN, constraints)


def test_both_verdicts_are_tried():
    feasible = [linear_program(DOMAIN, some_constraints(seed)) for seed in range(40)]
    assert 10 <= sum(feasible) <= 30


HARMLESS = AllowedSet(("c",), [0, 1])


@pytest.mark.parametrize(
    ("constraints", "names"),
    [
        (
            [FixedMarginal(("a", "b"), PAIR), FixedMarginal(("b",), [16, 44, 40])],
            r"FixedMarginal over \('a', 'b'\) and \('b',\)",
        ),
        (
            [FixedMarginal(("b",), [15, 45, 40]), StructuralZeros(("b",), [True, True, False])],
            r"FixedMarginal over \('b',\) and StructuralZeros over \('b',\)",
        ),
        (
            [
                FixedMarginal(("a",), [60, 40]),
                FixedMarginal(("c",), [50, 50]),
                FunctionalDependency(("a",), "c", [0, 1]),
            ],
            r"FixedMarginal over \('a',\) and \('c',\) and FunctionalDependency over \('a', 'c'\)",
        ),
        (
            [AllowedSet(("a", "b"), [(0, 0)]), FunctionalDependency(("b",), "a", [1, 0, 0])],
            r"no record .*AllowedSet over \('a', 'b'\) and FunctionalDependency over \('b', 'a'\)",
        ),
    ],
)
def test_the_smallest_conflict_is_named_and_nothing_else(constraints, names):
    assert not linear_program(DOMAIN, constraints)
    others = [HARMLESS, StructuralZeros(("a",), [True, True])]
    for order in ([*constraints, *others], [*others, *constraints]):
        with pytest.raises(ValueError, match=names) as error:
            require_feasible(DOMAIN, order)
        assert "('c',)" not in str(error.value).replace("and ('c',) and Func", "")
        assert "StructuralZeros over ('a',)" not in str(error.value)


def test_a_prior_is_named_where_it_is_to_blame():
    fixed = FixedMarginal(("a",), [60, 40])
    with pytest.raises(ValueError, match=r"FixedMarginal.*\('a',\)"):
        require_feasible(DOMAIN, [fixed, HARMLESS], [StructuralZeros(("a", "b"), [[True] * 3, [False] * 3])])


def test_totals_must_agree():
    fixed = [FixedMarginal(("a",), [60, 40]), FixedMarginal(("b",), [30, 30, 41])]
    with pytest.raises(ValueError, match=r"\('a',\) and \('b',\) do not sum to the same number of records"):
        require_feasible(DOMAIN, fixed)
    assert total_of(fixed[:1], None) == total_of(fixed[:1], 100) == 100
    assert total_of([HARMLESS], 7) == 7 and total_of([], None) is None
    with pytest.raises(ValueError, match=r"fixed marginal over \('a',\) sums to 100, and .* is 101"):
        total_of(fixed[:1], 101)


def test_something_else_is_refused():
    with pytest.raises(TypeError, match=r"StructuralZeros.*AllowedSet.*tuple"):
        SideInformation.of(DOMAIN, [("a",)])


def two_way(seed_table, rows, columns):
    """Deming and Stephan's own algorithm, on the table itself."""
    table = seed_table.copy()
    for _ in range(2000):
        table *= (rows / table.sum(1))[:, None]
        table *= columns / table.sum(0)
    return table


def test_two_way_table_from_its_margins():
    rng = np.random.default_rng(0)
    seed = rng.dirichlet(np.ones(12)).reshape(3, 4)
    rows, columns = rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(4))
    structure = Structure((3, 4), ((0,), (1,), (0, 1)))
    model = HostModel(structure, (np.zeros(3), np.zeros(4), np.log(seed)))
    fitted = feasibility.proportional_fit(model, [0, 1], [rows, columns], 500)
    assert fitted.exact and not fitted.infeasible
    found = np.exp(fitted.model.log_sum((0, 1)) - fitted.model.log_partition)
    np.testing.assert_allclose(found, two_way(seed, rows, columns), rtol=1e-9)


def test_empty_cells_stay_empty_and_an_impossible_wish_is_a_proof():
    structure = Structure((2, 2), ((0,), (0, 1)))
    model = HostModel(structure, (np.zeros(2), np.array([[0.0, 0.0], [-np.inf, -np.inf]])))
    assert feasibility.proportional_fit(model, [0], [np.array([1.0, 0.0])], 5).exact
    assert feasibility.proportional_fit(model, [0], [np.array([0.5, 0.5])], 5).infeasible


def test_drift_is_a_proof_only_where_there_is_no_table():
    diagonal = np.where(np.eye(3, dtype=bool), 0.0, -np.inf)
    structure = Structure((3, 3), ((0,), (1,), (0, 1)))
    model = HostModel(structure, (np.zeros(3), np.zeros(3), diagonal))
    same, other = np.array([0.2, 0.3, 0.5]), np.array([0.2, 0.31, 0.49])
    assert feasibility.proportional_fit(model, [0, 1], [same, same], 50).exact
    assert feasibility.proportional_fit(model, [0, 1], [same, other], 50).infeasible
    # the corner of what is possible: potentials drift for ever, towards a table that exists
    upper = np.where(np.triu(np.ones((2, 2), bool)), 0.0, -np.inf)
    edge = HostModel(Structure((2, 2), ((0,), (1,), (0, 1))), (np.zeros(2), np.zeros(2), upper))
    half = np.array([0.5, 0.5])
    ended = feasibility.proportional_fit(edge, [0, 1], [half, half], 400)
    assert not ended.infeasible and not ended.exact and ended.distance < 0.01
