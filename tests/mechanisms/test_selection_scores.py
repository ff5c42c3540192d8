"""What AIM, MWEM and MST select by: the papers' formulas, computed from the records by brute force."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.estimation.estimator import Estimator
from pgmjax.mechanisms import AIM, MST, MWEM
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.queries.workload import Workload

DOMAIN = Domain({"a": 2, "b": 3, "c": 4})
RECORDS = 300
RNG = np.random.default_rng(11)
CODES = {"a": RNG.integers(0, 2, RECORDS)}
CODES["b"] = (CODES["a"] + (RNG.random(RECORDS) < 0.3)) % 3
CODES["c"] = (CODES["a"] + 2 * (RNG.random(RECORDS) < 0.6)) % 4
DATA = Dataset.from_columns(DOMAIN, CODES)
ASKED = {("a", "b"): 2, ("b", "c"): 1}
WORKLOAD = Workload([{"clique": list(clique), "weight": weight} for clique, weight in ASKED.items()])
SHORT = Estimator(max_steps=30, dtype="float64", progress=False)
both = pytest.mark.parametrize("relation", list(Relation), ids=lambda relation: relation.value)
both_noises = pytest.mark.parametrize("delta", [0, "1e-6"], ids=["pure", "approximate"])

pytestmark = pytest.mark.filterwarnings("ignore:the noisy answers put the total")


def counted(clique):
    """The exact table, one record after another."""
    table = np.zeros([DOMAIN[name] for name in clique], np.int64)
    for record in zip(*(CODES[name] for name in clique), strict=True):
        table[record] += 1
    return table


def summed(joint, clique):
    """A marginal of the table of all attributes."""
    return joint.sum(axis=tuple(i for i, name in enumerate("abc") if name not in clique))


@pytest.fixture
def selections(monkeypatch):
    """Of each selection: score, cost, values, the number of measurements before it, and the last model."""
    seen, models, measured = [], [], []
    select, measure, fit = PrivateTable.select, PrivateTable.measure, Estimator.fit

    def fitted(self, *given, **more):
        models.append(fit(self, *given, **more).model)
        return fit(self, *given, **more)

    def counts(self, *given, **more):
        measured.extend(found := measure(self, *given, **more))
        return found

    def selected(self, score, **given):
        values = score.values(DOMAIN, {clique: counted(clique) for clique in score.cliques}) / 2**score.bits
        (cost,) = given.values()
        seen.append((score, cost, values, len(measured), models[-1] if models else None))
        return select(self, score, **given)

    monkeypatch.setattr(Estimator, "fit", fitted)
    monkeypatch.setattr(PrivateTable, "measure", counts)
    monkeypatch.setattr(PrivateTable, "select", selected)
    return seen


def backend():
    return {"backend": SeededBackend(3, insecure=True), "estimator": SHORT}


def laws(relation, delta, cost):
    """The expected absolute noise of a count measured at a cost: as released, and of the continuous law."""
    moved, counts = (2 if relation is Relation.REPLACE_ONE else 1), np.arange(-20_000, 20_001)
    if delta:
        sigma = math.sqrt(moved / (2 * cost))
        shares, continuous = -(counts**2) / (2 * sigma**2), math.sqrt(2 / math.pi) * sigma
    else:
        shares, continuous = -np.abs(counts) * float(cost) / moved, moved / float(cost)
    shares = np.exp(shares)
    return float(np.abs(counts) @ shares / shares.sum()), continuous


@both
@both_noises
def test_aim_subtracts_the_noise_of_the_measurement(relation, delta, selections):
    """w_r (||M_r(D) - M_r(p)||_1 - sqrt(2/pi) sigma_t n_r), of sensitivity max w_r (McKenna et al. 2022)."""
    release = AIM(
        2, relation, delta, rounds=12, kept_noise=1.0, share="0.9", max_cells=1000, **backend()
    ).run(DATA, WORKLOAD)
    assert len(selections) > 3
    moved = 2 if relation is Relation.REPLACE_ONE else 1
    for score, cost, values, before, model in selections:
        joint = np.asarray(model.marginal(("a", "b", "c")))
        of_measurement = cost * Fraction(9)  # nine tenths of a round's cost, the selection one
        noise, continuous = laws(relation, delta, of_measurement)
        after = release.measurements[before]
        if delta:
            assert after.stddev**2 == pytest.approx(moved / (2 * of_measurement), rel=1e-9)
        else:
            assert after.distribution.scale == pytest.approx(float(moved / of_measurement), rel=1e-9)
        assert noise == pytest.approx(continuous, abs=1 / (6 * min(continuous, 6)))  # Euler-Maclaurin
        weights = []
        for clique, value in zip(score.cliques, values, strict=True):
            weight = sum(c * len({*asked} & {*clique}) for asked, c in ASKED.items())
            distance = np.abs(counted(clique) - summed(joint, clique)).sum()
            cells = counted(clique).size
            # the estimate of each cell and the penalty are rounded to the grid
            rounded = weight * (cells + 1) * 2.0 ** -(score.targets[0].bits + 1)
            assert value == pytest.approx(weight * (distance - noise * cells), abs=1.01 * rounded)
            weights.append(weight)
        whole = score.sensitivity(DOMAIN, relation).value / 2**score.bits
        assert whole == max(weights) * moved


@both
@pytest.mark.parametrize("select", ["queries", "marginals"])
def test_mwem_selects_by_the_error_of_the_estimate(relation, select, selections):
    """|q(D) - q(p)| of a counting query; of a whole marginal, their sum less one count per cell."""
    MWEM(2, relation, rounds=3, select=select, penalty="cells", **backend()).run(
        DATA, Workload.of_marginals(list(ASKED))
    )
    assert len(selections) == 3
    for score, _, values, _, model in selections:
        if model is None:  # nothing is measured but the total
            joint = np.full((2, 3, 4), RECORDS / 24)
            if relation is not Relation.REPLACE_ONE:
                continue
        else:
            joint = np.asarray(model.marginal(("a", "b", "c")))
        errors = [np.abs(counted(clique) - summed(joint, clique)).ravel() for clique in score.cliques]
        whole = [error.sum() - error.size for error in errors]
        expected = np.concatenate(errors) if select == "queries" else np.array(whole)
        cells = 1 if select == "queries" else max(error.size for error in errors) + 1
        np.testing.assert_allclose(values, expected, rtol=0, atol=1.01 * cells * 2.0**-9)
        moved = 2 if select == "marginals" and relation is Relation.REPLACE_ONE else 1
        assert score.sensitivity(DOMAIN, relation).value == moved * 2**score.bits


@both
@both_noises
def test_mst_selects_by_the_distance_from_independence(relation, delta, selections):
    """||M_ij(D) - M_i(p) M_j(p) / n||_1 of the model of the one-way answers, before any pair is measured."""
    MST(2, relation, delta, compress=False, **backend()).run(DATA, WORKLOAD)
    assert len(selections) == 2
    for score, _, values, before, model in selections:
        assert before == 3  # all attributes, and no pair yet
        alone = {name: np.asarray(model.marginal((name,))) for name in "abc"}
        assert {*score.cliques} <= {*itertools.combinations("abc", 2)}
        for (one, other), value in zip(score.cliques, values, strict=True):
            expected = np.outer(alone[one], alone[other]) / alone[one].sum()
            distance = np.abs(counted((one, other)) - expected).sum()
            rounded = expected.size * 2.0 ** -(score.bits + 1)
            assert value == pytest.approx(distance, abs=1.01 * rounded)
        moved = 2 if relation is Relation.REPLACE_ONE else 1
        assert score.sensitivity(DOMAIN, relation).value == moved * 2**score.bits
