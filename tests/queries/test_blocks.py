"""Blocks of zeros and ones and numeric blocks: matrices of the paper's Table 2, application, messages."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmjax import queries as q
from pgmjax.queries.spec import from_spec

BLOCKS = {
    "identity": q.identity(),
    "total": q.total(),
    "point": q.point(2),
    "subset": q.subset([4, 0, 3]),
    "range": q.range(1, 3),
    "ranges": q.ranges([(0, 2), (2, 4), (3, 3)]),
    "all_ranges": q.all_ranges(),
    "prefix": q.prefix(),
    "compression": q.compression([0, 2, 1, 2, 0]),
    "compression-gap": q.compression([0, 3, 3, 0, 0]),
    "mean": q.mean(),
    "mean-values": q.mean([0.5, -1.0, 2.0, 0.0, 0.25]),
    "moments": q.moments(3),
    "moments-values": q.moments(2, [0.1, -0.2, 0.3, 0.4, 0.5]),
    "matrix": q.matrix([[1, -1, 0, 2, 0], [0, 0, 3, 0, -4]]),
    "matrix-float": q.matrix([[0.5, -1.25, 0.1, 2, 0]]),
}
SIZE = 5
CASES = pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS.keys())


def by_definition(block):
    """The matrix entry by entry, from the definitions of Table 2."""
    n = range(SIZE)
    name = type(block).__name__
    if name == "Identity":
        return [[int(a == b) for a in n] for b in n]
    if name == "Total":
        return [[1 for _ in n]]
    if name == "Point":
        return [[int((a,) == block.codes) for a in n]]
    if name == "Subset":
        return [[int(a in block.codes) for a in n]]
    if name in ("Range", "Ranges"):
        return [[int(low <= a <= high) for a in n] for low, high in block.bounds]
    if name == "AllRanges":
        return [[int(low <= a <= high) for a in n] for low in n for high in range(low, SIZE)]
    if name == "Prefix":
        return [[int(b >= a) for a in n] for b in n]
    if name == "Merge":
        groups = block.groups.array.tolist()
        return [[int(groups[a] == b) for a in n] for b in range(max(groups) + 1)]
    values = list(n) if getattr(block, "values", None) is None else getattr(block, "values").array.tolist()  # noqa: B009
    if name == "Mean":
        return [values]
    if name == "Moments":
        return [[values[a] ** b for a in n] for b in range(1, block.order + 1)]
    return block.entries.array.tolist()


@CASES
def test_matrix_is_the_definition(block):
    matrix = block.matrix(SIZE)
    np.testing.assert_allclose(matrix, np.array(by_definition(block)), rtol=1e-15)
    assert matrix.shape == (block.rows(SIZE), SIZE)
    assert (matrix.dtype == np.int64) == block.is_integral(SIZE)
    assert block.is_nonnegative(SIZE) == bool((matrix >= 0).all())


@CASES
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_apply_is_the_matrix_product(block, axis):
    rng = np.random.default_rng(0)
    shape = [2, 3, 4]
    shape[axis] = SIZE
    counts = rng.integers(0, 10**15, size=shape)
    expected = np.moveaxis(np.tensordot(block.matrix(SIZE), counts, axes=(1, axis)), 0, axis)
    answers = block.apply(counts, axis)
    if block.is_integral(SIZE):
        assert answers.dtype == np.int64
        np.testing.assert_array_equal(answers, expected)
    else:
        np.testing.assert_allclose(answers, expected, rtol=1e-14)
    with jax.enable_x64(True):
        table = jnp.asarray(counts, jnp.float64)
        on_device = jax.jit(lambda t: block.apply(t, axis, jnp))(table)
        np.testing.assert_allclose(on_device, expected, rtol=1e-13, atol=1e-13 * np.abs(expected).max())
    assert block.apply(jnp.ones(shape, jnp.float32), axis, jnp).dtype == jnp.float32


@CASES
def test_column_norms_and_distances_are_those_of_the_matrix(block):
    matrix = block.matrix(SIZE).astype(float)
    for power in (1, 2):
        np.testing.assert_allclose(
            float(block.max_column(SIZE, power)), (abs(matrix) ** power).sum(0).max(), rtol=1e-12
        )
        pairs = abs(matrix[:, :, None] - matrix[:, None, :]) ** power
        np.testing.assert_allclose(float(block.max_distance(SIZE, power)), pairs.sum(0).max(), rtol=1e-12)


@CASES
def test_separates_means_equal_or_disjoint_columns_of_one_norm(block):
    matrix = abs(block.matrix(SIZE))
    columns = np.unique(matrix, axis=1).T
    disjoint = all(
        (a * b == 0).all() and a.sum() == b.sum() for i, a in enumerate(columns) for b in columns[:i]
    )
    assert not block.separates(SIZE) or (disjoint and len(columns) > 1)
    assert block.separates(SIZE) == (block.kind in ("identity", "compression"))


def test_the_sensitivity_of_an_identity_needs_no_memory():
    assert [q.identity().max_distance(size, 2) for size in (1, 2, 2**60)] == [0, 2, 2]


@CASES
def test_blocks_are_hashable_comparable_and_survive_a_workload_file(block):
    again = from_spec(block.to_spec())
    assert again == block and hash(again) == hash(block)
    assert len({block, again, q.subset([1])}) == 2


@CASES
def test_size_one(block):
    if block.kind in (
        "identity",
        "total",
        "all_ranges",
        "prefix",
        "mean",
        "moments",
    ) and "values" not in repr(block):
        assert block.apply(np.array([7]), 0).shape == (block.rows(1),)
        assert float(block.max_distance(1, 1)) == 0


@pytest.mark.parametrize("size", [300, 1000])
@pytest.mark.parametrize("block", [q.prefix(), q.all_ranges(), q.ranges([(3, 200), (0, 0), (250, 299)])])
def test_long_axes_use_running_sums(block, size):
    if block.kind == "all_ranges":
        size = 300
    table = np.random.default_rng(1).dirichlet(np.full(size, 0.3)).astype(np.float32)
    expected = block.apply(table.astype(np.float64), 0)
    answers = np.asarray(jax.jit(lambda t: block.apply(t, 0, jnp))(jnp.asarray(table)))
    np.testing.assert_allclose(
        answers, expected, atol=5e-7, rtol=0
    )  # a sum by a tree errs by log2(n) roundings


def test_long_compression_adds_up_without_its_matrix():
    groups = np.arange(1000) % 100
    table = np.random.default_rng(2).integers(0, 9, size=(3, 1000))
    expected = np.stack([np.bincount(groups, row) for row in table])
    block = q.compression(groups)
    np.testing.assert_array_equal(block.apply(table, 1), expected)
    np.testing.assert_array_equal(block.apply(jnp.asarray(table, jnp.float32), 1, jnp), expected)


def test_a_program_in_float32_does_not_spoil_one_in_float64():
    # the same shapes were traced before with 32-bit integers
    block = q.compression(np.arange(3000) // 2)
    add = jax.jit(lambda table: block.apply(table, 0, jnp))
    for dtype in (np.float32, np.float64):
        with jax.enable_x64(dtype == np.float64):
            pairs = add(jnp.arange(3000, dtype=dtype))
            assert pairs.dtype == dtype
            np.testing.assert_array_equal(pairs, 4 * np.arange(1500) + 1)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=6), st.integers(0, 3))
@settings(max_examples=25, deadline=None)
def test_ranges_agree_with_slices(pairs, seed):
    bounds = [(min(pair), max(pair)) for pair in pairs]
    counts = np.random.default_rng(seed).integers(0, 100, 10)
    expected = [counts[low : high + 1].sum() for low, high in bounds]
    np.testing.assert_array_equal(q.ranges(bounds).apply(counts, 0), expected)
    assert q.ranges(bounds).max_column(10, 1) == q.ranges(bounds).matrix(10).sum(0).max()


@pytest.mark.parametrize("size", [1, 2, 3, 8, 9, 50])
def test_all_ranges_column_norm_in_closed_form(size):
    assert q.all_ranges().max_column(size, 2) == q.all_ranges().matrix(size).sum(0).max()


def test_huge_moments_are_floats_and_absurd_ones_refused():
    assert q.moments(3).is_integral(1000) and not q.moments(6).is_integral(1000)
    assert q.moments(6).matrix(1000).dtype == np.float64
    with pytest.raises(ValueError, match=r"200 moments of attribute 'income' overflow.*fewer moments"):
        q.moments(200).check(1000, "attribute 'income'")


def test_whole_floats_stay_exact_integers():
    assert q.matrix([[1.0, 0.0]]).matrix(2).dtype == np.int64
    assert q.matrix([[1.0, 0.0]]) == q.matrix([[1, 0]]) == q.matrix([[True, False]])


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: q.point(-1).matrix(3), ValueError, "names code -1, but the attribute has codes 0..2"),
        (lambda: q.point(1.5).matrix(3), ValueError, "names code 1.5, but the attribute has codes"),
        (lambda: q.point(float("nan")), ValueError, "point.*nan"),
        (lambda: q.subset([]), ValueError, "distinct codes, at least one, got 0"),
        (lambda: q.subset([1, 1]), ValueError, "distinct codes, at least one, got 2 of which 1"),
        (lambda: q.subset("12"), TypeError, "subset.*str"),
        (lambda: q.range(3, 2), ValueError, "high end of a range .* at least its low end 3, got 2"),
        (lambda: q.ranges([]), ValueError, "at least one pair"),
        (lambda: q.ranges([(1, 2, 3)]), ValueError, "pair \\(low, high\\), got 3 numbers"),
        (lambda: q.compression([0.5, 1]), TypeError, "groups of a compression must be integers"),
        (lambda: q.compression([0, -1]), ValueError, "rows >= 0, got a negative one"),
        (lambda: q.compression([]), ValueError, "must not be empty"),
        (
            lambda: q.mean([1, np.nan]),
            ValueError,
            "values of the mean query must be finite; 1 of 2 are not",
        ),
        (lambda: q.mean(["a"]), TypeError, "must be real numbers, got texts"),
        (lambda: q.moments(0), ValueError, "moments.*0"),
        (lambda: q.matrix([1, 2]), ValueError, "must have 2 dimensions, got shape \\(2,\\)"),
        (lambda: q.matrix([[1], [2, 3]]), ValueError, "rows have different lengths"),
        (
            lambda: q.point(5).matrix(5),
            ValueError,
            "point query names code 5, but the attribute has codes 0..4",
        ),
        (lambda: q.range(0, 5).check(5, "attribute 'age'"), ValueError, "but attribute 'age' has codes 0..4"),
        (lambda: q.ranges([(0, 5)]).matrix(5), ValueError, "names code 5"),
        (lambda: q.subset([5]).apply(np.ones(5), 0), ValueError, "names code 5"),
        (lambda: q.compression([0, 1]).matrix(3), ValueError, "has 2 entries: the attribute needs 3"),
        (lambda: q.matrix([[1, 2]]).matrix(3), ValueError, "has 2 columns: the attribute needs 3"),
        (lambda: q.mean([1, 2]).matrix(3), ValueError, "has 2 entries"),
        (lambda: q.moments(2, [1]).matrix(3), ValueError, "has 1 entries"),
        (lambda: q.prefix().matrix(0), ValueError, "attribute.*0"),
    ],
)
def test_bad_input(make, error, message):
    with pytest.raises(error, match=message):
        make()
