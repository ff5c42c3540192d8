"""HDMM measures the strategy it reports, with the errors it forecasts."""

import math
from fractions import Fraction

import numpy as np
import pytest

from pgmjax import queries, strategies
from pgmjax.audit import replay_mechanism
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.estimation.estimator import Estimator
from pgmjax.measurements.noise import DiscreteLaplace
from pgmjax.mechanisms import hdmm
from pgmjax.mechanisms.hdmm import HDMM
from pgmjax.privacy.accounting import zcdp
from pgmjax.privacy.ledger import Ledger
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.queries import DenseMatrix, Product, prefix
from pgmjax.queries.workload import Workload
from pgmjax.strategies import NAMES, MarginalStrategy

DOMAIN = Domain({"a": 3, "b": 2, "c": 16})
RNG = np.random.default_rng(5)
COLUMNS = {name: RNG.integers(0, size, 500) for name, size in DOMAIN.sizes.items()}
DATA = Dataset.from_columns(DOMAIN, COLUMNS)
PREFIXES = Product({"b": queries.identity(), "c": prefix()})
WORKLOAD = Workload([["a", "b"], PREFIXES])
FEW_STEPS = Estimator(max_steps=5, progress=False)


def make(seed=0, **settings):
    settings = {
        "epsilon": 1,
        "relation": Relation.ADD_REMOVE,
        "backend": SeededBackend(seed, insecure=True),
        "estimator": FEW_STEPS,
        "restarts": 1,
    } | settings
    return HDMM(**settings)


def truth(query):
    table = np.zeros(DOMAIN.shape_of(query.clique), np.int64)
    np.add.at(table, tuple(COLUMNS[name] for name in query.clique), 1)
    return np.asarray(query.apply(table), float).reshape(-1)


@pytest.mark.parametrize("delta", [0, "1e-6"], ids=["pure", "approximate"])
@pytest.mark.parametrize("name", NAMES)
def test_errors_are_what_was_forecast(name, delta):
    """The mean squared error of 60 runs, against its expectation from the distribution that was drawn."""
    mechanism = make(strategy=name, delta=delta)
    report = mechanism.expected_errors(WORKLOAD, DOMAIN)
    measured = mechanism.run(DATA, WORKLOAD).measurements
    rng = np.random.default_rng(1)
    squares = []
    for _ in range(60):
        noisy = []
        for each in measured:
            draw = rng.laplace if each.noise == "laplace" else rng.normal
            scale = float(each.stddev) / (math.sqrt(2) if each.noise == "laplace" else 1)
            noisy.append(
                type(each)(
                    each.clique, truth(each.query) + draw(0, scale, each.values.size), each.stddev, each.query
                )
            )
        solve = strategies.global_least_squares if name == "marginals" else strategies.local_least_squares
        answers = solve(DOMAIN, WORKLOAD, noisy)
        squares.append(
            [((a - truth(e.query)) ** 2).sum() for a, e in zip(answers, WORKLOAD.entries, strict=True)]
        )
    squares = np.array(squares)
    expected = np.array([entry.squared_error for entry in report.entries])
    assert (np.abs(squares.mean(axis=0) - expected) < 5 * squares.std(axis=0) / math.sqrt(60)).all()
    assert report.squared_error == pytest.approx(expected.sum()) and report.strategy == name


@pytest.mark.parametrize("relation, factor", [(Relation.ADD_REMOVE, 1), (Relation.REPLACE_ONE, 2)])
def test_noise_and_shares_of_cells(relation, factor):
    """Two groups of 6 and 32 cells: the split is in proportion to the cube roots of their errors."""
    mechanism = make(strategy="identity", relation=relation)
    release = mechanism.run(DATA, Workload([["a", "b"], ["b", "c"]]))
    roots = np.array([6, 32]) ** (1 / 3)
    scales = factor * roots.sum() / roots
    stddevs = [float(each.stddev) for each in release.measurements]
    assert stddevs == pytest.approx([DiscreteLaplace(scale).stddev for scale in scales], rel=1e-6)
    assert release.spent.to_dict() == {"epsilon": "1", "delta": "0"}
    equal = make(strategy="identity", relation=relation, split="equal").run(DATA, WORKLOAD)
    assert {float(each.stddev) for each in equal.measurements} == {DiscreteLaplace(2.0 * factor).stddev}


def test_marginals_share_rho_by_squared_weights():
    workload = Workload.all_kway(DOMAIN, 1)
    release = make(strategy="marginals", delta="1e-9").run(DATA, workload)
    assert release.spent.rho == zcdp.rho_for(1, "1e-9")
    assert release.spent.delta == Fraction(1, 10**9)
    rhos = [1 / (2 * float(each.stddev) ** 2) for each in release.measurements]
    assert math.fsum(rhos) == pytest.approx(float(release.spent.rho), rel=1e-6)


def test_an_optimised_strategy_is_measured_in_whole_numbers():
    release = make(strategy="union").run(DATA, WORKLOAD)
    query = release.measurements[1].query
    assert query.is_integral(DOMAIN) and query.num_rows(DOMAIN) == 2 * 17
    sensitivity = float(query.l1_sensitivity(Relation.ADD_REMOVE, DOMAIN))
    assert sensitivity == pytest.approx(2**16, rel=1e-3)
    assert float(release.measurements[1].stddev) > sensitivity


def test_the_best_strategy_errs_least():
    reports = {name: make(strategy=name).expected_errors(WORKLOAD, DOMAIN) for name in ("best", *NAMES)}
    best = reports.pop("best")
    assert best.squared_error <= min(report.squared_error for report in reports.values()) * (1 + 1e-6)
    assert str(best).splitlines()[0] == f"strategy {best.strategy}: {best.measured} noisy answers"
    assert str(best).splitlines()[-1].endswith("all") and len(best.entries) == 2


def test_little_noise_gives_the_truth_in_every_way_of_answering():
    release = make(epsilon=60, estimator=Estimator(max_steps=2000, progress=False)).run(DATA, WORKLOAD)
    for solve in (strategies.local_least_squares, strategies.global_least_squares):
        try:
            answers = solve(DOMAIN, WORKLOAD, release.measurements)
        except ValueError:
            continue  # weighted marginals together, none alone
        for entry, answer in zip(WORKLOAD.entries, answers, strict=True):
            np.testing.assert_allclose(answer, truth(entry.query), atol=3)
    np.testing.assert_allclose(
        release.model.marginal(("b", "c")).cumsum(axis=1).reshape(-1), truth(PREFIXES), atol=1
    )


@pytest.mark.parametrize("answer", ["local", "global"])
@pytest.mark.parametrize("delta", [0, "1e-6"], ids=["pure", "approximate"])
def test_baselines_answer_in_place_of_the_model(answer, delta):
    release = make(answer=answer, strategy="union", delta=delta).run(DATA, WORKLOAD)
    solve = {"local": strategies.local_least_squares, "global": strategies.global_least_squares}[answer]
    expected = solve(DOMAIN, WORKLOAD, release.measurements)
    for found, answers in zip(release.answers(), expected, strict=True):
        np.testing.assert_array_equal(found, answers)
    assert release.answered_by == answer and release.model.total > 0
    by_model = [np.ravel(release.model.answer(entry.query)) for entry in WORKLOAD.entries]
    for found, answers in zip(release.answers("engine"), by_model, strict=True):
        np.testing.assert_allclose(found, answers, rtol=1e-14)  # the same sums in another order


def test_the_ways_of_answering_are_one_run_of_a_ledger(tmp_path):
    settings = {"strategy": "union", "backend": None}
    with Ledger.create(tmp_path / "budgets.ledger") as ledger:
        ledger.register(
            "people", epsilon=1, relation="add-remove", digest=ledger.digest_of(DATA), domain=DATA.domain
        )
        first, *others = (
            make(answer=answer, **settings).run(DATA, WORKLOAD, ledger=ledger)
            for answer in ("engine", "local", "global")
        )
        assert ledger.account("people").charges == 1
    for release in others:
        assert release.ledger["charge"] == first.ledger["charge"]
        for ours, theirs in zip(release.measurements, first.measurements, strict=True):
            np.testing.assert_array_equal(ours.values, theirs.values)


@pytest.mark.parametrize("delta", [0, "1e-6"], ids=["pure", "approximate"])
def test_local_errors_of_whole_marginals_are_forecast_for_one_alone(delta):
    """A marginal of b answered from itself or from (a, b): the smaller of variance times cells summed."""
    workload = Workload([["a", "b"], ["b"]])
    mechanism = make(strategy="marginals", answer="local", delta=delta)
    release = mechanism.run(DATA, workload)
    stddevs = {each.clique: float(each.stddev) for each in release.measurements}
    errors = [entry.squared_error for entry in mechanism.expected_errors(workload, DOMAIN).entries]
    alone = [stddevs[c] ** 2 * DOMAIN.size(c) for c in stddevs if set(c) >= {"b"}]
    assert errors[0] == pytest.approx(6 * stddevs["a", "b"] ** 2, rel=1e-6)
    assert errors[1] == pytest.approx(min(alone), rel=1e-6)
    together = make(strategy="marginals", delta=delta).expected_errors(workload, DOMAIN)
    assert sum(errors) >= together.squared_error * (1 - 1e-6)


def test_what_no_least_squares_answers_spends_nothing(monkeypatch):
    monkeypatch.setattr(Dataset, "marginals", lambda self, cliques: pytest.fail("the table was read"))
    workload = Workload([["a"], ["b"], ["a", "b"], ["b", "c"], ["a", "c"], ["a", "b", "c"], ["c"]])
    apart = MarginalStrategy(
        "marginals", (queries.marginal(["a"]), queries.marginal(["b"])), (0.5, 0.5), (), None
    )
    monkeypatch.setattr(hdmm, "strategy", lambda *args, **settings: apart)
    with pytest.raises(ValueError, match=r"'marginals'.*\('a', 'b'\)"):
        make(strategy="marginals", answer="local").run(DATA, workload)
    monkeypatch.undo()
    monkeypatch.setattr(Dataset, "marginals", lambda self, cliques: pytest.fail("the table was read"))
    wide = Domain(dict.fromkeys("abcdefgh", 10))
    data = Dataset.from_columns(wide, {name: [0, 1] for name in wide.attributes})
    with pytest.raises(ValueError, match=r"100,000,000.*20,000,000"):
        make(strategy="identity", answer="global").run(data, Workload.all_kway(wide, 1))
    with pytest.raises(ValueError, match=r"answer.*'engine'.*'local'.*'global'"):
        make(answer="psychic")


@pytest.mark.parametrize("strategy", NAMES)
@pytest.mark.parametrize("relation", list(Relation))
def test_nothing_but_released_numbers_depends_on_the_table(strategy, relation):
    seen = replay_mechanism(HDMM, relation, strategy=strategy, restarts=1, pairs=4)
    assert seen.pairs == 4 and seen.calls > 0


def test_a_workload_that_tells_no_total_is_answered_by_cells():
    difference = Workload([DenseMatrix(("b",), np.array([[1, -1]]))])
    with pytest.raises(ValueError, match=r"records.*\['a'\]"):
        make(strategy="workload").run(DATA, difference)
    assert make(strategy="identity").run(DATA, difference).measurements[0].values.shape == (2,)


def test_what_is_refused_spends_nothing(monkeypatch):
    monkeypatch.setattr(Dataset, "marginals", lambda self, cliques: pytest.fail("the table was read"))
    joint = Workload([DenseMatrix(("a", "b"), np.ones((1, 6), int))])
    with pytest.raises(ValueError, match=r"\('a', 'b'\)"):
        make(strategy="marginals").run(DATA, joint)
    with pytest.raises(ValueError, match=r"strategy.*'best'.*'workload'"):
        make(strategy="magic")
    with pytest.raises(ValueError, match=r"split.*'half'"):
        make(split="half")
    with pytest.raises(ValueError, match="restarts"):
        make(restarts=0)
    with pytest.raises(ValueError, match="restart_seed"):
        HDMM(epsilon=1, relation=Relation.ADD_REMOVE, restart_seed=-1)
    small = Estimator(max_bytes=20_000, progress=False)
    large = Domain(dict.fromkeys("abcd", 100))
    data = Dataset.from_columns(large, {name: [0, 1] for name in "abcd"})
    with pytest.raises(ValueError, match=r"available"):
        make(strategy="kron", estimator=small).run(data, Workload.all_kway(large, 1))
