import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmjax.data import counting
from pgmjax.data.counting import Histograms, joint_cliques
from pgmjax.data.domain import Domain, maximal


def plain_count(domain, columns, clique, weights=None):
    table = np.zeros(domain.shape_of(clique), dtype=object)
    rows = len(next(iter(columns.values())))
    for row in range(rows):
        table[tuple(int(columns[name][row]) for name in clique)] += (
            1 if weights is None else int(weights[row])
        )
    return table


@st.composite
def cases(draw):
    sizes = draw(st.lists(st.sampled_from([1, 2, 3, 7, 30, 300, 70_000]), min_size=1, max_size=5))
    domain = Domain({f"a{k}": size for k, size in enumerate(sizes)})
    order = st.permutations(domain.attributes)
    lengths = st.integers(1, min(3, len(sizes)))
    cliques = st.lists(st.tuples(order, lengths).map(lambda pair: tuple(pair[0][: pair[1]])), max_size=6)
    return domain, [clique for clique in draw(cliques) if domain.size(clique) <= 10**6]


@given(cases(), st.integers(0, 40), st.booleans(), st.integers(0, 2**32))
def test_counts_against_a_plain_loop(case, rows, weighted, seed):
    domain, cliques = case
    rng = np.random.default_rng(seed)
    columns = {name: rng.integers(0, domain[name], rows) for name in domain}
    columns = {name: column.astype(np.min_scalar_type(domain[name] - 1)) for name, column in columns.items()}
    weights = rng.integers(0, 2**40, rows).astype(np.uint64) if weighted else None
    histograms = Histograms(domain, cliques)
    assert set(histograms.attributes) == {name for clique in cliques for name in clique}
    for part in (slice(0, rows // 3), slice(rows // 3, rows)):
        batch = {name: columns[name][part] for name in histograms.attributes}
        if batch:
            histograms.add(batch, None if weights is None else weights[part])
    for clique, table in zip(cliques, histograms.marginals(), strict=True):
        assert table.dtype == np.int64 and table.flags["C_CONTIGUOUS"]
        assert np.array_equal(table, plain_count(domain, columns, clique, weights))


@given(cases(), st.sampled_from([1, 10, 1000, 1 << 16]))
def test_joint_cliques_hold_every_clique_once(case, limit):
    domain, cliques = case
    largest = maximal(cliques)
    unions = joint_cliques(domain, largest, limit)
    assert sorted(clique for parts in unions.values() for clique in parts) == sorted(largest)
    for union, parts in unions.items():
        assert len(set(union)) == len(union)
        assert all(set(part) <= set(union) for part in parts)
        assert domain.size(union) <= limit or union in largest


def test_pairs_share_passes():
    domain = Domain({f"a{k}": 10 for k in range(10)})
    unions = joint_cliques(domain, list(itertools.combinations(domain.attributes, 2)))
    assert len(unions) <= 15


def test_no_clique():
    assert Histograms(Domain({"a": 2}), []).marginals() == []


def test_counts_beyond_float32_and_float64_halves():
    domain = Domain({"a": 2, "b": 2})
    histograms = Histograms(domain, [("a", "b")])
    batch = {"a": np.zeros(1000, np.uint8), "b": np.ones(1000, np.uint8)}
    histograms.add(batch, np.full(1000, 2**42 + 1, dtype=np.uint64))
    histograms.add(batch)
    assert histograms.marginals()[0].tolist() == [[0, 1000 * (2**42 + 1) + 1000], [0, 0]]


def test_tables_beyond_memory_are_refused_with_the_figure(monkeypatch):
    domain = Domain({"a": 1000, "b": 1000, "c": 1000})
    monkeypatch.setattr(counting, "available_bytes", lambda: 2**30)
    message = (
        r"needs 14.9 GiB and 1 GiB is available; the largest is over \('a', 'b', 'c'\) with 1,000,000,000"
    )
    with pytest.raises(ValueError, match=message):
        Histograms(domain, [("a",), ("a", "b", "c")])
    Histograms(domain, [("a",), ("b", "c")])
