"""The check of an oracle of one's own finds each kind of mistake, and passes those of the library."""

import dataclasses
import functools

import jax
import pytest

import pgmjax as pj
from pgmjax.inference import oracles


def registered(kind):
    plain = functools.partial(jax.tree_util.register_dataclass, data_fields=[], meta_fields=["tree"])
    return plain(dataclasses.dataclass(frozen=True)(kind))


@registered
class Shifted(oracles.MessagePassing):
    def infer(self, potentials):
        log_partition, marginals = super().infer(potentials)
        return log_partition + 1e-6, marginals


@registered
class Lowest(oracles.MessagePassing):
    def maximum(self, potentials):
        return -super().maximum([-table for table in potentials])


@registered
class Transposed(oracles.MessagePassing):
    def infer(self, potentials):
        log_partition, marginals = super().infer(potentials)
        return log_partition, [table.T for table in marginals]


@registered
class Short(oracles.MessagePassing):
    def infer(self, potentials):
        log_partition, marginals = super().infer(potentials)
        return log_partition, marginals[1:]


class Unregistered(oracles.MessagePassing):
    pass


@pytest.mark.parametrize("name", [n for n in oracles.names() if not oracles.kind(n).runs_on_host])
def test_the_librarys_own_pass(name):
    pj.oracles.verify(oracles.kind(name))


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Shifted, "the log-partition on a chain is off by 1e-06"),
        (Lowest, "the maximum on a chain is off by"),
        (Transposed, r"the marginal of clique 0 on a chain has shape \(3, 2\), and should have \(2, 3\)"),
        (Short, "infer gives 1 marginals on a chain, and there are 2 cliques"),
    ],
)
def test_a_wrong_one_is_told_where(kind, said):
    with pytest.raises(ValueError, match=said):
        pj.oracles.verify(kind)


def test_a_class_that_jax_does_not_know_is_told_so_before_a_fit():
    noisy = [pj.LinearMeasurement(("a",), [3.0, 4.0], 1.0)]
    with pytest.raises(TypeError, match="Unregistered is not registered with JAX: write"):
        pj.oracles.verify(Unregistered)
    with pytest.raises(TypeError, match="Unregistered is not registered with JAX: write"):
        pj.Estimator(oracle=Unregistered).fit(pj.Domain({"a": 2}), noisy)
