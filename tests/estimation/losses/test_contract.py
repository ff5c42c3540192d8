"""What every loss must do, run over L2 and all that `pgmjax.losses` exports."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmjax import queries as q
from pgmjax.data.domain import Domain
from pgmjax.estimation import losses
from pgmjax.estimation.solvers.batch import stacked
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.queries.spec import as_query

DOMAIN = Domain({"a": 3, "b": 2, "c": 4})
TOTAL = 1000.0


def entropy_like(marginals):
    """A convex function of counts that is neither L1 nor L2."""
    return sum(jnp.sum((table + 1) * jnp.log(table + 1)) for table in marginals.values()) / 1000


FACTORIES = {"Custom": lambda: losses.Custom(entropy_like)}
NAMES = [
    name
    for name in ("L2", *losses.__all__)
    if inspect.isclass(getattr(losses, name))
    and issubclass(getattr(losses, name), losses.Loss)
    and not inspect.isabstract(getattr(losses, name))
]
EVERY = pytest.mark.parametrize("name", NAMES)


def make(name):
    return FACTORIES.get(name, getattr(losses, name))()


def measurements(seed=0):
    """Several queries, permuted cliques, one twice, stddevs of both kinds; values near a true table."""
    rng = np.random.default_rng(seed)
    asked = [
        (("a", "b"), None, 20.0),
        (("b", "a"), None, rng.uniform(5, 50, (2, 3))),
        (("b", "a"), {"a": "prefix"}, 10.0),
        (("a", "b"), None, 30.0),
        (("c",), "all_ranges", rng.uniform(5, 50, 10)),
        (("c", "b"), q.WeightedSum([(1, q.Product({"c": q.point(0), "b": q.total()})),
                                    (-2, q.Product({"c": q.range(1, 2), "b": q.point(1)}))]), 15.0),
        (("c", "b"), rng.integers(-1, 2, (3, 8)), [7.0, 9.0, 11.0]),
        (("b", "c"), rng.integers(-1, 2, (2, 8)), 12.0),
    ]  # fmt: skip
    table = rng.dirichlet(np.ones(24)).reshape(3, 2, 4) * TOTAL
    result = []
    for clique, query, stddev in asked:
        query = as_query(clique, query)
        answers = query.apply(marginal(table, clique))
        result.append(LinearMeasurement(clique, answers + rng.normal(size=answers.shape) * 10, stddev, query))
    return result


def marginal(table, clique):
    """Marginal of a joint table over a, b, c in the order of the clique."""
    axes = ["abc".index(name) for name in clique]
    others = tuple(set(range(3)) - set(axes))
    kept = sorted(axes)
    return np.transpose(table.sum(axis=others), [kept.index(axis) for axis in axes])


def joint(seed):
    return np.random.default_rng(seed).dirichlet(np.full(24, 0.5)).reshape(3, 2, 4)


def marginals(bound, table, dtype=np.float64):
    return tuple(np.asarray(marginal(table, clique), dtype) for clique in bound.cliques)


def bind(name, seed=0, total=TOTAL, dtype="float64"):
    return make(name).bind(DOMAIN, measurements(seed), total, dtype)


def by_definition(name, table, seed=0):
    """The loss from its formula, by explicit matrices."""
    if name == "Custom":
        cliques = [("a", "b"), ("c",), ("c", "b")]
        return float(entropy_like({c: marginal(table, c) * TOTAL for c in cliques}))
    each = {"L2": lambda r: 0.5 * r**2, "L1": abs}[name]
    result = 0.0
    for m in measurements(seed):
        cells = marginal(table, m.clique).reshape(-1) * TOTAL
        residuals = (m.query.matrix(DOMAIN) @ cells - m.values.reshape(-1)) / m.stddev.reshape(-1)
        result += each(residuals).sum()
    return result


@EVERY
def test_exact_value_is_the_formula(name):
    bound = bind(name)
    assert bound.cliques == (("a", "b"), ("c",), ("c", "b"))
    for seed in range(3):
        with jax.enable_x64(True):
            expected = by_definition(name, joint(seed))
        np.testing.assert_allclose(bound.exact(marginals(bound, joint(seed))), expected, rtol=1e-12)


@EVERY
def test_smoothing_lies_below_by_at_most_the_slack(name):
    with jax.enable_x64(True):
        for delta in (None, 0.5, 1e-4):
            bound = bind(name) if delta is None else bind(name).with_smoothing(delta)
            for seed in range(4):
                tables = marginals(bound, joint(seed))
                value, exact = float(bound(tables)), bound.exact(tables)
                assert value <= exact * (1 + 1e-12) and exact <= (value + float(bound.slack())) * (1 + 1e-12)
            assert (bound.smoothing is None) == (float(bound.slack()) == 0)


@EVERY
def test_gradient_against_finite_differences(name):
    with jax.enable_x64(True):
        bound = bind(name).with_smoothing(0.5)
        tables = marginals(bound, joint(1))
        gradient = jax.jit(jax.grad(bound.__call__))(tuple(map(jnp.asarray, tables)))
        loss = jax.jit(bound.__call__)
        step = 1e-6
        for at, table in enumerate(tables):
            for cell in np.ndindex(table.shape):
                change = [np.zeros_like(t) for t in tables]
                change[at][cell] = step
                up = loss([t + d for t, d in zip(tables, change, strict=True)])
                down = loss([t - d for t, d in zip(tables, change, strict=True)])
                slope = (float(up) - float(down)) / (2 * step)
                # a central difference errs by curvature and by rounding of the value
                error = 1e-6 * abs(slope) + 1e-14 * abs(float(up)) / step + 1e-2
                assert abs(float(gradient[at][cell]) - slope) <= error


@EVERY
def test_forward_and_reverse_derivatives_agree(name):
    with jax.enable_x64(True):
        bound = bind(name)
        tables = tuple(map(jnp.asarray, marginals(bound, joint(1))))
        change = tuple(map(jnp.asarray, marginals(bound, joint(2) - joint(1))))
        value, slope = jax.jit(lambda x, d: jax.jvp(bound.__call__, (x,), (d,)))(tables, change)
        gradient = jax.jit(jax.grad(bound.__call__))(tables)
        inner = sum(jnp.vdot(g, d) for g, d in zip(gradient, change, strict=True))
        np.testing.assert_allclose(slope, inner, rtol=1e-10)
        np.testing.assert_allclose(value, bound(tables), rtol=1e-14)


@EVERY
@given(seeds=st.tuples(st.integers(0, 99), st.integers(100, 199)), weight=st.floats(0, 1))
@settings(max_examples=20, deadline=None)
def test_convex_along_segments(name, seeds, weight):
    bound = bind(name)
    ends = [joint(seed) for seed in seeds]
    middle = weight * ends[0] + (1 - weight) * ends[1]
    tables = [marginals(bound, table) for table in (*ends, middle)]
    first, second, between = (bound.exact(each) for each in tables)
    assert between <= weight * first + (1 - weight) * second + 1e-9 * max(first, second)
    with jax.enable_x64(True):
        first, second, between = (float(bound(each)) for each in tables)
    assert between <= weight * first + (1 - weight) * second + 1e-9 * max(first, second)


@EVERY
def test_one_trace_for_new_values_stddevs_totals_and_smoothing(name):
    traces = []

    @jax.jit
    def value(bound, tables):
        traces.append(1)
        return bound(tables)

    answers = set()
    for seed, total in ((0, TOTAL), (1, TOTAL), (2, 900.0)):
        loss = make(name) if name == "Custom" else getattr(losses, name)()
        bound = loss.bind(DOMAIN, measurements_with_structure_of_zero(seed), total, "float32")
        tables = marginals(bound, joint(0), np.float32)
        answers |= {float(value(bound, tables)), float(value(bound.with_smoothing(0.3), tables))}
    assert len(traces) == 1
    assert len(answers) >= 2


def measurements_with_structure_of_zero(seed):
    """New values and stddevs; the random matrices, which are structure, stay."""
    return [
        LinearMeasurement(m.clique, m.values + 3.0 * seed, m.stddev * (1 + seed), m.query)
        for m in measurements(0)
    ]


@EVERY
def test_batches_are_independent_rows(name):
    bounds = [
        make(name).bind(DOMAIN, measurements_with_structure_of_zero(seed), TOTAL * (1 + seed), "float32")
        for seed in range(3)
    ]
    tables = [marginals(bound, joint(seed), np.float32) for seed, bound in enumerate(bounds)]
    batched = jax.tree.map(lambda *leaves: np.stack(leaves), *tables)
    both = jax.value_and_grad(lambda table, bound: bound(table))
    together, gradients = jax.jit(jax.vmap(both))(batched, stacked(bounds))
    one = jax.jit(both)
    for row, (bound, table) in enumerate(zip(bounds, tables, strict=True)):
        value, gradient = one(table, bound)
        np.testing.assert_allclose(together[row], value, rtol=2e-6)
        for all_rows, alone in zip(gradients, gradient, strict=True):
            np.testing.assert_allclose(all_rows[row], alone, rtol=1e-5, atol=1e-5 * np.abs(alone).max())


@EVERY
def test_float32_and_float64_agree(name):
    single = bind(name, dtype="float32")
    value = single(marginals(single, joint(3), np.float32))
    assert value.dtype == jnp.float32 and value.shape == ()
    with jax.enable_x64(True):
        double = bind(name)
        exact = double(marginals(double, joint(3)))
        assert exact.dtype == jnp.float64
    np.testing.assert_allclose(value, exact, rtol=1e-5)


@EVERY
def test_lipschitz_constant_bounds_the_gradient(name):
    """For joint distributions p, q: the gradient in p-space moves by at most K times the L1 distance."""
    with jax.enable_x64(True):
        bound = bind(name).with_smoothing(0.5)
        constant = bound.lipschitz()
        if constant is None:
            return

        def of_joint(table):
            return bound(tuple(_marginal_on_device(table, clique) for clique in bound.cliques))

        gradient = jax.jit(jax.grad(of_joint))
        for seed in range(20):
            p, r = jnp.asarray(joint(seed)), jnp.asarray(joint(seed + 100))
            moved = jnp.abs(gradient(p) - gradient(r)).max()
            assert moved <= constant * jnp.abs(p - r).sum() * (1 + 1e-9)


def _marginal_on_device(table, clique):
    axes = ["abc".index(name) for name in clique]
    kept = sorted(axes)
    summed = jnp.sum(table, axis=tuple(set(range(3)) - set(axes)))
    return jnp.transpose(summed, [kept.index(axis) for axis in axes])


@EVERY
def test_host_part_is_gone_after_a_transformation_and_says_so(name):
    through = jax.tree.map(lambda leaf: leaf, bind(name))
    with pytest.raises(ValueError, match=r"lost its float64 part.*losses\.build"):
        through.exact(marginals(through, joint(0)))


@EVERY
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((["m"], TOTAL, "float32"), TypeError, "LinearMeasurement.*str"),
        (([], TOTAL, "float32"), ValueError, "measurement"),
        ((None, 0.0, "float32"), ValueError, "total.*0"),
        ((None, np.nan, "float32"), ValueError, "total.*nan"),
        ((None, True, "float32"), TypeError, "total.*bool"),
        ((None, TOTAL, "float16"), ValueError, "dtype.*'float32'.*'float64'.*'float16'"),
        (([LinearMeasurement(("a",), [1.0], 1.0)], TOTAL, "float32"), ValueError, r"\(3,\).*\(1,\)"),
        (
            ([LinearMeasurement(("z",), [1.0], 1.0)], TOTAL, "float32"),
            ValueError,
            "'z'",
        ),
    ],
)
def test_bad_input(name, arguments, error, message):
    given_measurements, total, dtype = arguments
    if given_measurements is None:
        given_measurements = measurements()
    with pytest.raises(error, match=message):
        make(name).bind(DOMAIN, given_measurements, total, dtype)
