"""The layout's marginals against sums over components written out one by one."""

import itertools

import jax
import numpy as np
import pytest

from pgmjax.data.domain import Domain
from pgmjax.estimation import mixture_layout as layouts
from pgmjax.estimation.mixture_layout import Places, layout, numbers

DOMAINS = {
    "few sizes": {"a": 3, "b": 2, "c": 3, "d": 5, "e": 2},
    "many sizes": {"a": 1, "b": 2, "c": 3, "d": 5, "e": 7, "f": 9, "g": 13, "h": 17},
}
CLIQUES = (
    *(("b", "a"), ("a", "c"), ("c",), ("d", "e", "b"), ("e", "c"), ("a",)),
    *(("d", "a", "c", "b"), ("b", "d"), ("c", "d")),
)


def random_logits(domain, components):
    rng = np.random.default_rng(0)
    tables = {name: rng.normal(size=(components, domain[name])) for name in domain}
    rows = Places.of(domain).stacked(tables, 0.0)
    return rng.normal(size=components), rows, tables


def written_out(domain, weights, tables, cliques):
    """Marginals of all cliques, one after another, in float64."""
    w = np.exp(weights) / np.exp(weights).sum()
    p = {name: np.exp(t) / np.exp(t).sum(axis=1, keepdims=True) for name, t in tables.items()}
    parts = []
    for clique in cliques:
        table = np.zeros(domain.shape_of(clique))
        for cell in itertools.product(*map(range, table.shape)):
            for k in range(len(w)):
                table[cell] += w[k] * np.prod(
                    [p[name][k, code] for name, code in zip(clique, cell, strict=True)]
                )
        parts.append(table.reshape(-1))
    return np.concatenate(parts)


@pytest.mark.parametrize("workspace", [1 << 24, 20])
@pytest.mark.parametrize("kind", DOMAINS)
def test_marginals(kind, workspace, monkeypatch):
    monkeypatch.setattr(layouts, "WORKSPACE", workspace)
    domain = Domain(DOMAINS[kind])
    with jax.enable_x64(True):
        weights, rows, tables = random_logits(domain, 4)
        made = layout(domain, CLIQUES, 4, {})
        found = jax.jit(made.marginals)((weights, rows))
        np.testing.assert_allclose(found, written_out(domain, weights, tables, CLIQUES), rtol=1e-12)
    if workspace == 20 and kind == "few sizes":
        assert max(len(members[0]) for members in made.members) > 1


@pytest.mark.parametrize("workspace", [1 << 24, 20])
@pytest.mark.parametrize("kind", DOMAINS)
def test_gradients_agree_with_finite_differences(kind, workspace, monkeypatch):
    monkeypatch.setattr(layouts, "WORKSPACE", workspace)
    domain = Domain(DOMAINS[kind])
    with jax.enable_x64(True):
        weights, rows, tables = random_logits(domain, 3)
        made = layout(domain, CLIQUES, 3, {})
        direction = np.random.default_rng(1).normal(size=sum(map(domain.size, CLIQUES)))
        gradient = jax.jit(jax.grad(lambda logits: direction @ made.marginals(logits)))((weights, rows))
    places = Places.of(domain)
    for name, place in (("a", (0, 0)), ("c", (1, 2)), ("d", (2, 4))):
        moved = []
        for step in (1e-5, -1e-5):
            other = {key: table.copy() for key, table in tables.items()}
            other[name][place] += step
            moved.append(direction @ written_out(domain, weights, other, CLIQUES))
        at, row = places.row[name]
        assert gradient[1][at][row][place] == pytest.approx((moved[0] - moved[1]) / 2e-5, rel=1e-6, abs=1e-9)


def test_impossible_values_are_exact_zeros_without_gradient():
    domain = Domain(DOMAINS["few sizes"])
    allowed = {"a": np.array([True, False, True])}
    with jax.enable_x64(True):
        weights, rows, _ = random_logits(domain, 4)
        made = layout(domain, (("a", "b"),), 4, allowed)
        vector, back = jax.vjp(jax.jit(made.marginals), (weights, rows))
        gradient = back(np.arange(6.0))[0]
    table = np.asarray(vector).reshape(3, 2)
    assert not table[1].any() and table.sum() == pytest.approx(1)
    at, row = Places.of(domain).row["a"]
    assert not np.asarray(gradient[1][at][row])[:, 1].any()
    assert all(np.isfinite(each).all() for each in jax.tree.leaves(gradient))


def test_the_program_does_not_grow_with_the_number_of_cliques():
    lengths = []
    for number in (6, 30):
        domain = Domain({f"x{i}": 2 + i % 3 for i in range(number)})
        cliques = tuple(itertools.combinations(domain, 2))
        made = layout(domain, cliques, 4, {})
        rows = Places.of(domain).stacked({name: np.zeros((4, domain[name])) for name in domain}, 0.0)
        lengths.append(len(jax.make_jaxpr(made.marginals)((np.zeros(4), rows)).eqns))
    assert lengths[0] == lengths[1]


def test_widths_of_many_sizes_are_few():
    domain = Domain({f"x{i}": i + 1 for i in range(200)})
    assert len(Places.of(domain).widths) <= 17
    assert all(
        domain[name] <= Places.of(domain).widths[Places.of(domain).row[name][0]] <= 1.5 * domain[name]
        for name in domain
    )


def test_forecast_numbers_are_those_of_the_layout():
    domain = Domain(DOMAINS["many sizes"])
    cells, largest = numbers(domain, CLIQUES, 4)
    assert cells == len(layout(domain, CLIQUES, 4, {}).inverse) and largest > 0
