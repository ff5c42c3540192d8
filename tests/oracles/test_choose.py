"""Planning: which oracle is taken and what the summary says."""

import pytest

from pgmjax import oracles
from pgmjax.plan.structure import Structure


def test_auto_takes_the_cheaper_forecast():
    structure = Structure((10, 10, 10), ((0, 1), (1, 2)))
    plan = oracles.plan(structure, ("a", "b", "c"))
    costs = [k.build(structure).forecast.work for k in (oracles.Contraction, oracles.MessagePassing)]
    assert plan.oracle.forecast.work == min(costs)


def test_auto_falls_back_to_what_fits():
    """Fifteen triples of Adult's attributes: a clique of 53 million cells, contracted with far less."""
    sizes = (85, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2)
    cliques = (
        (1, 3, 10),
        (3, 7, 8),
        (7, 8, 9),
        (3, 6, 11),
        (1, 5, 6),
        (5, 7, 12),
        (5, 8, 13),
        (0, 2, 5),
        (2, 7, 12),
        (2, 7, 9),
        (8, 12, 13),
        (0, 3, 7),
        (0, 1, 7),
        (0, 7, 13),
        (3, 8, 13),
    )
    structure, names = Structure.named(
        {str(i): size for i, size in enumerate(sizes)}, [tuple(map(str, c)) for c in cliques]
    )
    plan = oracles.plan(structure, names, max_bytes=500_000_000)
    assert isinstance(plan.oracle, oracles.Contraction)
    with pytest.raises(ValueError, match="53,550,000 cells"):
        oracles.plan(structure, names, "message_passing", max_bytes=500_000_000)


def test_summary_prints_names_and_figures():
    plan = oracles.plan(Structure((10, 20), ((0, 1),)), ("age", "zip"), max_bytes=2**30)
    assert "(age, zip)" in plan.summary() and "1 GiB available" in plan.summary()


def test_unknown_oracle():
    with pytest.raises(ValueError, match="oracle must be 'auto' or one of"):
        oracles.plan(Structure((2,), ((0,),)), ("a",), "magic")
