"""What AIM, BatchAIM, MWEM and MST select by: the papers' formulas, from the records by brute force."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.estimation.estimator import Estimator
from pgmjax.mechanisms import AIM, MST, MWEM, BatchAIM
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
    """Of each selection: score, cost, values, the measurements before it, and the last model.

    Of noisy scores of all candidates, what was published comes last.
    """
    seen, models, measured = [], [], []
    select, measure, fit = PrivateTable.select, PrivateTable.measure, Estimator.fit
    publish = PrivateTable.measure_scores

    def fitted(self, *given, **more):
        models.append(fit(self, *given, **more).model)
        return fit(self, *given, **more)

    def counts(self, *given, **more):
        measured.extend(found := measure(self, *given, **more))
        return found

    def noted(score, cost):
        values = score.values(DOMAIN, {clique: counted(clique) for clique in score.cliques}) / 2**score.bits
        return score, cost, values, tuple(measured), models[-1] if models else None

    def selected(self, score, **given):
        seen.append(noted(score, *given.values()))
        return select(self, score, **given)

    def published(self, score, **given):
        before = noted(score, *given.values())
        seen.append((*before, found := publish(self, score, **given)))
        return found

    monkeypatch.setattr(Estimator, "fit", fitted)
    monkeypatch.setattr(PrivateTable, "measure", counts)
    monkeypatch.setattr(PrivateTable, "select", selected)
    monkeypatch.setattr(PrivateTable, "measure_scores", published)
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
        after = release.measurements[len(before)]
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
    for number, (score, _, values, before, model) in enumerate(selections):
        assert (model is None) == (number == 0)
        if model is None:  # all cells share the total alike; it is measured if it is private
            is_public = relation is Relation.REPLACE_ONE
            assert len(before) == (0 if is_public else 1)
            total = RECORDS if is_public else before[0].flat_values().sum()
            joint = np.full((2, 3, 4), total / 24)
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
        assert len(before) == 3  # all attributes, and no pair yet
        alone = {name: np.asarray(model.marginal((name,))) for name in "abc"}
        assert {*score.cliques} <= {*itertools.combinations("abc", 2)}
        for (one, other), value in zip(score.cliques, values, strict=True):
            expected = np.outer(alone[one], alone[other]) / alone[one].sum()
            distance = np.abs(counted((one, other)) - expected).sum()
            rounded = expected.size * 2.0 ** -(score.bits + 1)
            assert value == pytest.approx(distance, abs=1.01 * rounded)
        moved = 2 if relation is Relation.REPLACE_ONE else 1
        assert score.sensitivity(DOMAIN, relation).value == moved * 2**score.bits


def merging(measurement):
    """The matrix that sends values to kept ones, and those below three standard deviations to a last one."""
    counts = measurement.flat_values()
    rare = (counts < 3 * measurement.stddev) & (np.arange(counts.size) != counts.argmax())
    if rare.sum() < 2:
        return np.eye(counts.size)
    return np.vstack([np.eye(counts.size)[~rare], rare])


@both
@both_noises
def test_mst_merges_values_that_noise_hides_before_it_selects(relation, delta, selections):
    """The distance from independence of the merged table, which moves as much as the whole one."""
    MST(Fraction(1, 2), relation, delta, **backend()).run(DATA, WORKLOAD)
    assert len(selections) == 2
    for score, _, values, before, model in selections:
        merge = {each.clique[0]: merging(each) for each in before}
        assert {*merge} == {*"abc"} and any(len(each) < each.shape[1] for each in merge.values())
        alone = {name: np.asarray(model.marginal((name,))) for name in "abc"}
        for (one, other), value in zip(score.cliques, values, strict=True):
            expected = np.outer(alone[one], alone[other]) / alone[one].sum()
            exact = merge[one] @ counted((one, other)) @ merge[other].T
            rounded = expected.size * 2.0 ** -(score.bits + 1)
            assert value == pytest.approx(np.abs(exact - expected).sum(), abs=1.01 * rounded)
        moved = 2 if relation is Relation.REPLACE_ONE else 1
        assert score.sensitivity(DOMAIN, relation).value == moved * 2**score.bits


def worthwhile(weighted_cells, worth, noise, exponent):
    """Which candidates a round measures, and their shares: see `BatchAIM`; by exhausting the order."""
    parts = weighted_cells**exponent
    order = sorted(range(worth.size), key=lambda i: -worth[i] / parts[i])
    gains = [
        noise * (parts[order[: k + 1]].sum() ** (1 / exponent) - parts[order[:k]].sum() ** (1 / exponent))
        for k in range(worth.size)
    ]
    number = next((k for k in range(worth.size) if worth[order[k]] <= gains[k]), worth.size)
    return {i: parts[i] / parts[order[:number]].sum() for i in order[:number]}


@both
@both_noises
def test_batch_aim_measures_what_is_worth_its_noise(relation, delta, selections):
    """Scores are ||M_r(D) - M_r(p)||_1; weighted, they must exceed the weighted noise that they add."""
    asked = {("a", "b", "c"): 1, ("b", "c"): 2}
    workload = Workload([{"clique": list(clique), "weight": weight} for clique, weight in asked.items()])
    release = BatchAIM(4, relation, delta, kept_noise=1.0, **backend()).run(DATA, workload)
    assert len(selections) == 2
    moved = 2 if relation is Relation.REPLACE_ONE else 1
    for number, (score, cost, values, before, model, published) in enumerate(selections):
        joint = np.asarray(model.marginal(("a", "b", "c")))
        weights, sizes = [], []
        for clique, value in zip(score.cliques, values, strict=True):
            table = counted(clique)
            distance = np.abs(table - summed(joint, clique)).sum()
            assert value == pytest.approx(distance, abs=1.01 * table.size * 2.0 ** -(score.bits + 1))
            weights.append(sum(c * len({*query} & {*clique}) for query, c in asked.items()))
            sizes.append(table.size)
        assert score.sensitivity(DOMAIN, relation).value == moved * 2**score.bits
        of_measurements = cost * Fraction(9)
        noise, _ = laws(relation, delta, of_measurements)
        weights, sizes = np.array(weights), np.array(sizes)
        shares = worthwhile(weights * sizes, weights * published, noise, 2 / 3 if delta else 1 / 2)
        end = len(selections[number + 1][3]) if number + 1 < len(selections) else len(release.measurements)
        after = release.measurements[len(before) : end]
        expected = {score.cliques[i]: share for i, share in shares.items()}
        expected = expected or dict.fromkeys([("a",), ("b",), ("c",)], 1 / 3)
        assert {each.clique for each in after} == {*expected} and len(after) == len(expected)
        for each in after:
            paid = moved / (2 * each.stddev**2) if delta else moved / each.distribution.scale
            # shares are whole multiples of about a ten-thousandth
            assert paid / of_measurements == pytest.approx(expected[each.clique], abs=len(expected) / 10**4)
