import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pgmjax as pj
from pgmjax.data.domain import Domain
from pgmjax.estimation import losses
from pgmjax.estimation.estimator import Estimator
from pgmjax.measurements.linear import LinearMeasurement

DOMAIN = Domain({"a": 2, "b": 3})
ONE = [LinearMeasurement(("a",), [4, 6], 1.0), LinearMeasurement(("a",), [5, 5], 2.0)]


def build(loss, measurements=ONE, total=10.0):
    return losses.build(loss, DOMAIN, measurements, total)


def test_names_settings_and_functions():
    tables = [np.array([0.5, 0.5])]
    assert build("l2").exact(tables) == build(losses.L2()).exact(tables) == 1.0
    assert build("l1").exact(tables) == 2.0
    assert build(lambda marginals: jnp.sum(jnp.abs(marginals["a",] - 3))).exact(tables) == 4.0
    assert all(losses.build(name, DOMAIN, ONE, 10.0).cliques == (("a",),) for name in losses.names())


def test_custom_losses_take_their_own_cliques_and_counts():
    seen = []

    def function(marginals):
        seen.append({clique: table.shape for clique, table in marginals.items()})
        return jnp.sum(marginals["b", "a"] ** 2)

    bound = build(losses.Custom(function, cliques=[["b", "a"]]), [])
    assert bound.cliques == (("b", "a"),) and seen == [{("b", "a"): (3, 2)}]
    assert bound.exact([np.full((3, 2), 1 / 6)]) == pytest.approx(6 * (10 / 6) ** 2)
    np.testing.assert_allclose(bound([jnp.full((3, 2), 1 / 6)]), 6 * (10 / 6) ** 2, rtol=1e-6)
    assert bound.lipschitz() is None and bound.slack() == 0 and bound.with_smoothing(0.1) is bound


def test_not_a_number_is_no_exception():
    bound = build(lambda marginals: jnp.sum(jnp.log(marginals["a",] - 100)))
    assert np.isnan(bound([jnp.array([0.5, 0.5])])) and np.isnan(bound.exact([np.array([0.5, 0.5])]))


@pytest.mark.parametrize(
    ("loss", "error", "message"),
    [
        ("l3", ValueError, "loss.*'l2'.*'l1'.*'l3'"),
        (3, TypeError, "loss must be a name, a Loss or a function of marginals, got int"),
        (lambda marginals: marginals["a",], ValueError, r"must return a scalar, got shape \(2,\): sum it"),
        (
            lambda marginals: None,
            TypeError,
            "must return one real number computed from the marginals, got NoneType",
        ),
        (lambda marginals: jnp.argmax(marginals["a",]), TypeError, "one real number .*got int32"),
        (losses.Custom(jnp.sum, cliques=[("z",)]), ValueError, "'z'"),
        (losses.Custom(jnp.sum, cliques=[("a", "b"), ("b", "a")]), ValueError, "each set of attributes once"),
        (losses.Custom(jnp.sum, cliques=[]), ValueError, "needs cliques, or measurements"),
    ],
)
def test_bad_input(loss, error, message):
    with pytest.raises(error, match=message):
        build(loss)


def test_bad_settings():
    with pytest.raises(TypeError, match="needs a function, got str"):
        losses.Custom("l2")


DOUBLES = np.array([3.0, 4.0])
SINGLES = DOUBLES.astype(np.float32)


@pytest.mark.parametrize(
    ("function", "error", "said"),
    [
        (
            lambda m: np.linalg.norm(m["a",]),
            TypeError,
            "needs values by NumPy, .* use the functions of jax.numpy",
        ),
        (lambda m: m["a",][0] if m["a",][0] > 3 else 0.0, TypeError, "decides by a value.*jnp.where"),
        (lambda m: float(jnp.sum(m["a",])), TypeError, "needs values by"),
        (lambda m, other: 0.0, TypeError, r"with one argument: write def loss\(marginals\)"),
        (lambda m: jnp.sum(m["a", "b"]), ValueError, r"no table over .*losses.Custom\(function, cliques="),
        (lambda m: jnp.sum(m["a"]), ValueError, r"'a' is a lone name: write \('a',\)"),
        (
            lambda m: jnp.sum((m["a",] - DOUBLES) ** 2),
            ValueError,
            r"NumPy array DOUBLES .* jnp.asarray\(DOUBLES, table.dtype\)",
        ),
        (
            lambda m: jnp.sum(jax.lax.sub(m["a",], SINGLES)),
            TypeError,
            "A loss is a function of the marginals",
        ),
        (lambda m: m["a",] ** 2, ValueError, "scalar"),
        (losses.L2, TypeError, r"write L2\(\)"),
    ],
)
def test_a_function_that_breaks_is_told_what_a_loss_is(function, error, said):
    """What it raised itself is kept beside it."""
    measured = [LinearMeasurement(("a",), [3.0, 4.0], 1.0)]
    with pytest.raises(error, match=said) as caught:
        Estimator(loss=function, progress=False).fit(Domain({"a": 2, "b": 3}), measured, total=7)
    ours = "A loss is a function of the marginals" in str(caught.value)
    assert ours == (caught.value.__cause__ is not None)


def _squares(measurements):
    def loss(marginals):
        pairs = [(marginals[m.clique], jnp.asarray(m.values)) for m in measurements]
        return sum(jnp.sum((table - values.astype(table.dtype)) ** 2) for table, values in pairs)

    return loss


class Squares(pj.losses.Loss):
    """The same as a class, whose `bind` gets the answers of each fit."""

    name = "squares"

    def bind(self, domain, measurements, total, dtype="float32"):
        return pj.losses.Custom(_squares(measurements)).bind(domain, measurements, total, dtype)


def test_a_function_holds_the_answers_of_one_fit():
    """A batch, and so a bootstrap, has others in each row: a function would fit its own to all of them."""
    domain = pj.Domain({"a": 2})
    rows = [[pj.LinearMeasurement(("a",), values, 1.0)] for values in ([30.0, 10.0], [8.0, 32.0])]
    estimator = pj.Estimator(loss=_squares(rows[0]), progress=False)
    with pytest.raises(TypeError, match=r"write it as a class of losses\.Loss"):
        estimator.fit_batch(domain, rows, 40.0)
    fit = estimator.fit(domain, rows[0], 40.0)
    with pytest.raises(TypeError, match=r"write it as a class of losses\.Loss"):
        pj.uncertainty.error_bars(fit, rows[0], [("a",)], method="bootstrap", estimator=estimator, total=40)
    fits = pj.Estimator(loss=Squares(), progress=False).fit_batch(domain, rows, 40.0)
    for found, row in zip(fits, rows, strict=True):
        np.testing.assert_allclose(found.model.marginal(("a",)), row[0].values, atol=0.1)
