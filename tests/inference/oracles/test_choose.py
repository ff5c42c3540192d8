"""Planning: which oracle is taken and what the summary says."""

import dataclasses
import functools
import itertools
import math

import jax
import numpy as np
import pytest

import pgmjax as pj
from pgmjax.inference import oracles
from pgmjax.inference.oracles import choose
from pgmjax.inference.oracles.contraction import Contraction, HostContraction
from pgmjax.inference.oracles.levels import Levels
from pgmjax.inference.oracles.sliced import Sliced
from pgmjax.inference.plan.contraction import large
from pgmjax.inference.plan.forecast import ModelTooLargeError
from pgmjax.inference.plan.structure import Structure
from tests import models
from tests.brute_force import BruteForce


def named(sizes, cliques):
    return Structure.named(
        {str(i): size for i, size in enumerate(sizes)}, [tuple(map(str, c)) for c in cliques]
    )


def test_auto_takes_levels_for_many_cliques_and_a_contraction_for_few():
    few, names = named((10, 10, 10), ((0, 1), (1, 2)))
    assert isinstance(oracles.plan(few, names).oracle, Contraction)
    many, names = named((5,) * 200, [(i, i + 1) for i in range(199)])
    plan = oracles.plan(many, names)
    assert isinstance(plan.oracle, Levels)
    cost = Contraction.build(many).forecast
    assert plan.oracle.forecast.compile_seconds < cost.compile_seconds


def test_auto_slices_what_does_not_fit_at_once():
    """All pairs of nine attributes of 20 values: 5e11 joint cells, tables of 64 million at once."""
    sizes = (20,) * 9
    structure, names = named(sizes, itertools.combinations(range(9), 2))
    plan = oracles.plan(structure, names, max_bytes=200_000_000)
    assert isinstance(plan.oracle, Sliced) and plan.oracle.plan.slices > 1
    assert plan.peak_bytes <= 200_000_000
    assert "slices" in plan.summary()
    assert f"sliced: '{names[plan.oracle.plan.variables[0]]}' 20 values" in plan.summary()
    with pytest.raises(ModelTooLargeError, match="977 KiB"):
        oracles.plan(structure, names, max_bytes=1_000_000)


def test_a_clique_of_a_billion_cells_is_planned_in_two_gigabytes():
    sizes = (32,) * 6  # all pairs of six attributes: the triangulated clique has 1.07e9 cells
    structure, names = named(sizes, itertools.combinations(range(6), 2))
    assert math.prod(sizes) > 10**9
    plan = oracles.plan(structure, names, max_bytes=2 * 10**9)
    assert plan.peak_bytes <= 2 * 10**9


def test_summary_predicts_the_cost():
    structure, names = named((200, 150, 180), ((0, 1), (1, 2), (2, 0)))
    text = oracles.plan(structure, names).summary()
    assert "matrix product" in text and "compiled operations" in text and "s a call" in text
    exact = oracles.plan(structure, names, finite=False).summary()
    assert "exact, in tiles" in exact


def test_infer_takes_plain_arrays():
    structure, names = named((3, 4, 2), ((0, 1), (1, 2)))
    tables = models.potentials(((3, 4, 2), ((0, 1), (1, 2))), zeros=0.3, seed=2)
    for name in ("auto", *oracles.names()):
        plan = oracles.plan(structure, names, name, itemsize=8)
        log_partition, marginals = plan.infer(tables)
        logits = models.joint(((3, 4, 2), ((0, 1), (1, 2))), tables)
        assert log_partition == pytest.approx(models.log_partition(logits), abs=1e-9)
        for clique, found in zip(structure.cliques, marginals, strict=True):
            np.testing.assert_allclose(found, models.marginal(logits, clique), atol=1e-9)
        single = oracles.plan(structure, names, name, itemsize=4).infer(tables)[1]
        assert {table.dtype for table in marginals} == {np.dtype("float64")}
        assert {table.dtype for table in single} == {np.dtype("float32")}
    with pytest.raises(ValueError, match="expected 2 tables of the shapes"):
        plan.infer(tables[:1])
    with pytest.raises(ValueError, match="expected 2 tables of the shapes"):
        plan.infer([tables[0].T, tables[1]])


def test_the_first_calls_compile_nothing(monkeypatch):
    """They run in NumPy as long as compiling would take; those after them are compiled, and agree."""
    sizes, cliques = (120, 90, 100), ((0, 1), (1, 2), (0, 2))
    plan = oracles.plan(*named(sizes, cliques))
    assert isinstance(plan.oracle, Contraction) and not isinstance(plan.oracle, HostContraction)
    assert plan.beginning is not None and "run in NumPy" in plan.summary()
    plan.beginning.calls = 1
    tables = models.potentials((sizes, cliques), seed=4)
    with monkeypatch.context() as patch:
        patch.setattr("pgmjax.inference.oracles.base._infer", None)
        log_partition, first = plan.infer(tables)
        with pytest.raises(TypeError):
            plan.infer(tables)
        on_device = [jax.numpy.asarray(table, "float32") for table in tables]
        plan.beginning.calls = 1
        with pytest.raises(TypeError):  # tables on the device stay there
            plan.infer(on_device)
    plan.beginning.calls = 0
    again, second = plan.infer(tables)
    assert again == pytest.approx(log_partition, rel=1e-6)
    for found, expected in zip(second, first, strict=True):
        np.testing.assert_allclose(found, expected, atol=2e-7)
    assert oracles.plan(*named(sizes, cliques), "contraction").beginning is None


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
    assert isinstance(plan.oracle, Contraction)
    with pytest.raises(ValueError, match="53,550,000 cells"):
        oracles.plan(structure, names, "message_passing", max_bytes=500_000_000)


def test_summary_prints_names_and_figures():
    plan = oracles.plan(Structure((10, 20), ((0, 1),)), ("age", "zip"), max_bytes=2**30)
    assert "(age, zip)" in plan.summary() and "1 GiB available" in plan.summary()


@pytest.mark.parametrize("oracle", ["auto", "contraction", "message_passing"])
def test_the_summary_of_a_wide_model_is_short_and_says_what_is_left_out(oracle):
    cliques = [tuple(range(20)), *((i, i + 1) for i in range(499))]
    names = tuple(f"attribute {i}" for i in range(500))
    plan = oracles.plan(Structure((2,) * 500, tuple(cliques)), names, oracle, calls=300, compiled=True)
    lines = plan.summary().splitlines()
    assert len(lines) <= 40 and max(map(len, lines)) <= 130
    assert lines[1] == f"500 attributes, 500 cliques, {2**20 + 4 * 499:,} cells in all"
    assert f"300 calls, compiling included, about {plan.seconds:.2g} s" in lines
    (widest,) = (line for line in lines if "1,048,576 cells over" in line)
    shown = widest.count("attribute ")
    assert 0 < shown < 20 and widest.endswith(f" and {20 - shown} more)")


def test_unknown_oracle():
    with pytest.raises(ValueError, match=r"oracle.*'auto'.*'contraction'.*'magic'"):
        oracles.plan(Structure((2,), ((0,),)), ("a",), "magic")


def test_a_new_oracle_is_a_class_and_its_place_in_the_list(monkeypatch):
    """Nothing but the list knows the oracles by name: fits, plans and inference take any of them."""

    @functools.partial(jax.tree_util.register_dataclass, data_fields=[], meta_fields=["structure"])
    @dataclasses.dataclass(frozen=True)
    class Halved(BruteForce):
        name = "halved"
        fast = True

        def exact(self):
            return BruteForce(self.structure)

        def infer_with_error(self, potentials):
            log_partition, marginals = self.infer(potentials)
            return log_partition, tuple(table / 2 for table in marginals), log_partition * 0 + 1

    monkeypatch.setitem(choose.exact(), Halved.name, Halved)
    domain = pj.Domain({"a": 2, "b": 3})
    noisy = [pj.LinearMeasurement(("a", "b"), [[10.0, 20, 30], [15, 5, 20]], stddev=1.0)]
    fit = pj.Estimator(oracle="halved").fit(domain, noisy, total=100)
    assert isinstance(fit.plan.oracle, Halved) and "halved" in fit.plan.summary()
    np.testing.assert_allclose(fit.model.marginal(("a",)), [60, 40], atol=0.1)
    structure, names = named((2, 3), [(0, 1)])
    value, (marginal,) = oracles.plan(structure, names, "halved").infer([np.zeros((2, 3))])
    assert value == pytest.approx(math.log(6)) and marginal.sum() == pytest.approx(1)
    with pytest.raises(ValueError, match="only slices are shared between devices"):
        oracles.plan(structure, names, "halved", mesh=jax.make_mesh((1,), ("slices",)))


def test_only_slices_are_shared_between_devices():
    structure, names = named((3, 4), ((0, 1),))
    mesh = jax.make_mesh((1,), ("slices",))
    assert isinstance(oracles.plan(structure, names, mesh=mesh).oracle, Sliced)
    with pytest.raises(ValueError, match="only slices are shared between devices"):
        oracles.plan(structure, names, "levels", mesh=mesh)
    with pytest.raises(TypeError, match=r"mesh.*int"):
        oracles.plan(structure, names, mesh=8)


@pytest.mark.parametrize("size", [6, 1000])
@pytest.mark.parametrize("oracle", ["auto", "levels"])
def test_structures_beyond_any_memory_are_refused_with_figures(size, oracle):
    names = [f"q{i}" for i in range(30)]
    pairs = [(a, b) for i, a in enumerate(names) for b in names[:i]]
    assert len(pairs) > choose.MOST_PLANNED_CLIQUES
    structure, attributes = Structure.named(dict.fromkeys(names, size), pairs)
    with pytest.raises(ModelTooLargeError, match=r"e\+\d+ cells"):
        oracles.plan(structure, attributes, oracle, max_bytes=2**30)


def test_an_oracle_need_not_say_how_it_is_planned():
    """Of its own methods an oracle must have those that answer."""
    own = ("forecast", "infer", "maximum")
    methods = {name: getattr(BruteForce, name) for name in own}
    made = type("Unplanned", (oracles.Oracle,), methods)
    assert made.__abstractmethods__ == frozenset() and isinstance(made(), oracles.Oracle)
    with pytest.raises(NotImplementedError, match="Unplanned does not say how it is planned"):
        made.build(Structure((2,), ((0,),)))


def test_large_products_are_larger_where_launches_count(monkeypatch):
    """A union of 531,441 cells is stored on a card, where a method for large products takes more launches."""
    path = Contraction.build(Structure((81,) * 3, ((0, 1), (1, 2), (2, 0)))).path
    assert large(path)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert not large(path)
    larger = Contraction.build(Structure((200,) * 3, ((0, 1), (1, 2), (2, 0)))).path
    assert large(larger)


@pytest.mark.parametrize("cliques", [(), ((0, 1), ())])
@pytest.mark.parametrize("name", ["auto", "contraction", "host", "levels", "message_passing", "sliced"])
def test_a_structure_without_a_clique_is_refused(name, cliques):
    with pytest.raises(ValueError, match="at least one clique"):
        choose.plan(Structure((2, 3), cliques), ("a", "b"), name)
