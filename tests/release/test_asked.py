"""A model whose marginals are kept: the same numbers, whatever is kept and in whatever order."""

import itertools

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.release import asked
from pgmjax.release.asked import AskedModel

DOMAIN = pj.Domain({"a": 2, "b": 3, "c": 4})


@pytest.mark.parametrize("room", [0, 8, 1000])
def test_marginals_are_those_of_the_model_whatever_is_kept(monkeypatch, room):
    monkeypatch.setattr(asked, "_KEPT_CELLS", room)
    rng = np.random.default_rng(0)
    tables = {("a", "b"): rng.normal(size=(2, 3)), ("b", "c"): rng.normal(size=(3, 4))}
    model = pj.GraphicalModel.from_potentials(DOMAIN, tables, total=100)
    kept = AskedModel.of(model)
    pairs = [*itertools.permutations("abc", 2)]
    first = kept.marginals([("a",), *pairs, ("a",), *pairs])
    for clique, table in itertools.chain(itertools.islice(first, 4), kept.marginals(pairs[::-1]), first):
        np.testing.assert_allclose(table, model.marginal(clique), rtol=1e-10)
    query = pj.queries.kronecker({"c": pj.queries.prefix(), "a": pj.queries.identity()})
    np.testing.assert_allclose(kept.answer(query), model.answer(query), rtol=1e-10)


def test_a_marginal_is_computed_once(monkeypatch):
    model = pj.GraphicalModel.from_potentials(DOMAIN, {("a", "b"): np.zeros((2, 3))}, total=6)
    calibrated = type(model).calibrate
    calls = []
    monkeypatch.setattr(type(model), "calibrate", lambda self: calls.append(1) or calibrated(self))
    kept = AskedModel.of(model)
    assert kept.marginal(("a", "b")) is kept.marginal(("a", "b")) and AskedModel.of(kept) is kept
    assert [*kept.marginals([("b",), ("a", "b")])] and len(calls) == 1
