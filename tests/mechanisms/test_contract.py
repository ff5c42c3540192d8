"""What every mechanism must keep, whatever it does: run over all of `mechanisms.names()`."""

import dataclasses
import inspect
import itertools
import math
import pathlib
import traceback
import types
from fractions import Fraction

import numpy as np
import pytest

import pgmjax as pj
from pgmjax import mechanisms
from pgmjax.audit import replay, replay_mechanism
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.estimation.estimator import Estimator
from pgmjax.privacy.budget import Budget
from pgmjax.privacy.ledger import Ledger
from pgmjax.privacy.opendp import OpenDPBackend
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.queries.workload import Workload
from pgmjax.release.release import Release


def example_of_contributing():
    """The mechanism that CONTRIBUTING.md shows, as the file that it would be."""
    page = (pathlib.Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
    text = page.split("<!-- mechanism -->\n```python\n")[1].split("```")[0]
    assert text.count("\n") <= 60
    module = types.ModuleType("worst_marginal")
    exec(compile(text, "CONTRIBUTING.md", "exec"), vars(module))
    return module.WorstMarginal


ALL = [*mechanisms.names().values(), example_of_contributing()]
DOMAIN = Domain({"a": 3, "b": 2, "c": 4})
WORKLOAD = Workload.of_marginals([("a", "b"), ("b", "c")])
FEW_STEPS = Estimator(max_steps=5, max_bytes=10**9, progress=False)
DELTAS = [0, "1e-6"]
PAIRS = 20  # of neighbouring tables for each mechanism and relation
NO_NOISE_ADDED = [
    mechanisms.RandomizedResponse
]  # records lie, and counts of their answers are what is released
ADAPTIVE_ROUNDS = [mechanisms.AIM]  # how many rounds it makes depends on their answers

# a nearly empty table may well have a noisy total below 1
pytestmark = pytest.mark.filterwarnings("ignore:the noisy answers put the total")

every = pytest.mark.parametrize("mechanism", ALL, ids=[cls.__name__ for cls in ALL])
ALLOWED = [(cls, relation) for cls in ALL for relation in cls.relations]
every_allowed = pytest.mark.parametrize(
    "mechanism, relation", ALLOWED, ids=[f"{cls.__name__}-{relation.value}" for cls, relation in ALLOWED]
)
with_and_without_delta = pytest.mark.parametrize("delta", DELTAS, ids=["pure", "approximate"])


def dataset(codes):
    return Dataset.from_columns(DOMAIN, dict(zip("abc", codes, strict=True)))


def random_codes(rng, rows):
    return np.stack([rng.integers(0, size, rows) for size in DOMAIN.shape])


DATA = dataset(random_codes(np.random.default_rng(0), 40))


def options(mechanism):
    """What a mechanism needs so as not to refuse tables as small as these."""
    return getattr(mechanism, "audited_with", {})


def make(mechanism, relation=None, epsilon=1, delta=0, seed=0, **more):
    backend = SeededBackend(seed, insecure=True)
    relation = mechanism.relations[0] if relation is None else relation
    more = {**options(mechanism), **more}
    return mechanism(
        epsilon=epsilon, relation=relation, delta=delta, backend=backend, estimator=FEW_STEPS, **more
    )


REPLAYED = [
    (allowed, delta, max_weight)
    for allowed, delta, max_weight in itertools.product(ALLOWED, DELTAS, [None, 3])
    if max_weight is None or allowed[0].accepts_weights
]


@pytest.mark.parametrize("pairs", [PAIRS, pytest.param(12 * PAIRS, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("allowed", "delta", "max_weight"),
    REPLAYED,
    ids=[f"{cls.__name__}-{relation.value}-{delta}-{weight}" for (cls, relation), delta, weight in REPLAYED],
)
def test_nothing_but_released_numbers_depends_on_the_table(allowed, delta, max_weight, pairs):
    """L1 of the audit: record on one table, replay on its neighbour, compare every bit and the cost."""
    rows = [row for row in REPLAYED if row[0] == allowed]
    pairs, seed = pairs // len(rows), rows.index((allowed, delta, max_weight))
    seen = replay_mechanism(*allowed, delta=delta, pairs=pairs, max_weight=max_weight, seed=seed)
    assert seen.pairs == pairs and seen.calls > 0


@every_allowed
@with_and_without_delta
def test_a_release_says_what_was_spent(mechanism, relation, delta):
    release = make(mechanism, relation, epsilon="0.7", delta=delta).run(DATA, WORKLOAD)
    assert isinstance(release, Release) and release.mechanism == mechanism.name
    assert (release.epsilon, release.delta, release.relation) == (Fraction(7, 10), Fraction(delta), relation)
    assert release.spent.epsilon <= release.epsilon and release.spent.delta <= release.delta
    assert release.secure is False and release.seed == 0
    assert release.measurements or release.transcript is not None
    assert all(m.values.dtype == np.int64 for m in release.measurements)
    assert release.domain == DOMAIN and release.workload == WORKLOAD
    assert release.model is release.fit.model and release.model.total > 0


@every
def test_pure_epsilon_spends_no_delta(mechanism):
    spent = make(mechanism).run(DATA, WORKLOAD).spent
    assert spent.delta == 0 and spent.rho is None


@every
def test_secure_noise_is_the_default_and_carries_no_seed(mechanism):
    relation = mechanism.relations[0]
    more = options(mechanism)
    release = mechanism(epsilon=1, relation=relation, estimator=FEW_STEPS, **more).run(DATA, WORKLOAD)
    assert release.secure is True and release.seed is None
    again = mechanism(epsilon=1, relation=relation, backend=OpenDPBackend(), estimator=FEW_STEPS, **more)
    assert again.run(DATA, WORKLOAD).secure is True


@every
def test_a_seed_repeats_a_release_and_another_does_not(mechanism):
    made = make(mechanism, seed=3)
    first, second = made.run(DATA, WORKLOAD), made.run(DATA, WORKLOAD)
    assert replay.differences(first, second) == []
    assert replay.differences(first, make(mechanism, seed=4).run(DATA, WORKLOAD))


@every
def test_the_interface(mechanism):
    assert mechanisms.names().get(mechanism.name, mechanism) is mechanism
    assert mechanism.name == mechanism.name.lower() and "_" not in mechanism.name
    assert mechanism.summary and "\n" not in mechanism.summary and not mechanism.summary.endswith(".")
    assert dataclasses.is_dataclass(mechanism) and mechanism.__dataclass_params__.frozen
    parameters = inspect.signature(mechanism).parameters
    assert list(parameters)[:3] == ["epsilon", "relation", "delta"]
    for name in ("epsilon", "relation"):
        assert parameters[name].default is inspect.Parameter.empty, f"{name} must have no default"
    assert "Guarantees:" in inspect.getdoc(mechanism)
    assert list(inspect.signature(mechanism.run).parameters)[:3] == ["self", "data", "workload"]


@every
def test_a_relation_that_is_not_served_is_refused(mechanism):
    for relation in set(Relation) - set(mechanism.relations):
        with pytest.raises(ValueError, match=relation.value):
            mechanism(epsilon=1, relation=relation)


@every
def test_a_weighted_table_is_served_or_refused_before_it_is_read(mechanism, spending):
    columns = dict(zip("abc", random_codes(np.random.default_rng(1), 40), strict=True))
    data = Dataset.from_columns(DOMAIN, columns, weights=np.ones(40, int), max_weight=2)
    if mechanism.accepts_weights:
        assert make(mechanism).run(data, WORKLOAD).weighted
        return
    with pytest.raises(ValueError, match="weight"):
        make(mechanism).run(data, WORKLOAD)
    assert spending == []


@every
@pytest.mark.parametrize("late", [False, True], ids=["at the first reading", "half way"])
def test_an_interrupted_run_goes_on_under_its_charge(mechanism, late, tmp_path, monkeypatch):
    """What was answered before is not asked again, the charge is one, and a third run reads nothing."""
    relation = mechanism.relations[0]
    made = mechanism(epsilon=1, relation=relation, estimator=FEW_STEPS, **options(mechanism))
    scans, broken_at = [], [0]

    def watching(scan):
        def watched(self, asked):
            scans.append(asked)
            if len(scans) == broken_at[0]:
                raise KeyboardInterrupt
            return scan(self, asked)

        return watched

    with monkeypatch.context() as patch, Ledger.create(tmp_path / "budgets.ledger") as ledger:
        for name in ("marginals", "records"):
            patch.setattr(Dataset, name, watching(getattr(Dataset, name)))
        made.run(DATA, WORKLOAD)
        whole, broken_at[0] = len(scans), max(2, len(scans) // 2) if late and len(scans) > 1 else 1
        scans.clear()
        ledger.register(
            "people", epsilon=1, relation=relation.value, digest=ledger.digest_of(DATA), domain=DATA.domain
        )
        with pytest.raises(KeyboardInterrupt):
            made.run(DATA, WORKLOAD, ledger=ledger)
        assert len(scans) == broken_at[0] and ledger.account("people").spent == 1
        broken_at[0] = 0
        kept = len(scans) - 1
        scans.clear()
        first = made.run(DATA, WORKLOAD, ledger=ledger)
        assert scans and (mechanism in ADAPTIVE_ROUNDS or len(scans) == whole - kept)
        scans.clear()
        second = made.run(DATA, WORKLOAD, ledger=ledger)
        assert scans == [] and ledger.account("people").charges == 1
    assert replay.differences(first, second) == []


@every
def test_what_is_no_ledger_is_refused_before_the_table_is_read(mechanism, spending):
    with pytest.raises(TypeError, match="ledger must be a Ledger, got str"):
        make(mechanism).run(DATA, WORKLOAD, ledger="budgets.ledger")
    assert spending == []


def test_command_line_names_are_unique():
    assert len(mechanisms.names()) == len(mechanisms.RELEASING) == len(ALL) - 1


BAD_EPSILONS = [
    (math.nan, ValueError, "epsilon"),
    (math.inf, ValueError, "epsilon"),
    (0, ValueError, "epsilon.*0"),
    (-1, ValueError, "epsilon.*-1"),
    (True, TypeError, "epsilon.*bool"),
    ("much", ValueError, "epsilon.*'much'"),
    (None, TypeError, "epsilon.*NoneType"),
]


@every
@pytest.mark.parametrize("epsilon, error, words", BAD_EPSILONS)
def test_bad_epsilon(mechanism, epsilon, error, words):
    with pytest.raises(error, match=words):
        make(mechanism, epsilon=epsilon)


@every
@pytest.mark.parametrize("delta", [-0.1, 1, math.nan, True, "x"])
def test_bad_delta(mechanism, delta):
    with pytest.raises((ValueError, TypeError), match="delta"):
        make(mechanism, delta=delta)


@every
@pytest.mark.parametrize("relation", [None, "either", 1])
def test_no_relation(mechanism, relation):
    with pytest.raises(ValueError, match="replace-one"):
        mechanism(epsilon=1, relation=relation)
    with pytest.raises(TypeError, match="relation"):
        mechanism(epsilon=1)


@pytest.fixture
def spending(monkeypatch):
    """What was charged and read, in order."""
    log = []
    charge, scan, read = Budget.charge, Dataset.marginals, Dataset.records
    monkeypatch.setattr(Budget, "charge", lambda self, cost: log.append("charge") or charge(self, cost))
    monkeypatch.setattr(Dataset, "marginals", lambda self, cliques: log.append("scan") or scan(self, cliques))
    monkeypatch.setattr(Dataset, "records", lambda self, names: log.append("read") or read(self, names))
    monkeypatch.setattr(Dataset, "count", lambda self: log.append("count") or 40)
    return log


BAD_WORKLOADS = {
    "empty": (lambda: Workload.of_marginals([]), "empty|workload"),
    "unknown attribute": (lambda: Workload.of_marginals([("a", "zip")]), "zip"),
    "repeated attribute": (lambda: Workload.of_marginals([("a", "a")]), "'a'"),
    "no workload": (lambda: [("a", "b")], "Workload.*list"),
}


@every
@pytest.mark.parametrize("name", BAD_WORKLOADS)
def test_a_bad_workload_spends_nothing(mechanism, name, spending):
    workload, words = BAD_WORKLOADS[name]
    with pytest.raises((ValueError, TypeError), match=words):
        make(mechanism).run(DATA, workload())
    assert spending == []


@every
def test_a_model_too_large_spends_nothing(mechanism, spending):
    domain = Domain(dict.fromkeys("abcdef", 1000))
    data = Dataset.from_columns(domain, {name: [0, 1, 2] for name in "abcdef"})
    workload = Workload.of_marginals([("a", "b", "c"), ("b", "c", "d"), ("d", "e", "a"), ("e", "f", "b")])
    with pytest.raises(ValueError, match=r"available"):
        make(mechanism).run(data, workload)
    assert spending == []


@every
def test_a_run_that_is_accepted_can_be_asked_in_the_same_memory(mechanism, spending, tmp_path):
    """With the least memory in which it runs: answers, rows, saved and loaded; refusals spend nothing."""
    names = "abcdefghi"
    domain = Domain(dict.fromkeys(names, 3))
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 3, (9, 40))
    data = Dataset.from_columns(domain, dict(zip(names, codes, strict=True)))
    grid = [(i, i + 3) for i in range(6)] + [(i, i + 1) for i in range(9) if i % 3 < 2]
    across = [(names[i], names[j]) for i, j in grid]
    for memory in (2**k for k in range(10, 31)):
        estimator = dataclasses.replace(FEW_STEPS, max_bytes=memory)
        backend = SeededBackend(0, insecure=True)
        relation = mechanism.relations[0]
        made = mechanism(1, relation, 0, estimator=estimator, backend=backend, **options(mechanism))
        try:
            release = made.run(data, Workload.of_marginals(across))
            break
        except ValueError as error:
            assert spending == [], error
    model = release.model.within(max_bytes=memory)
    assert model.marginal(("a", "i")).sum() == pytest.approx(model.total)
    assert len(model.sample(5, seed=0)["a"]) == 5
    model.save(tmp_path / "model")
    loaded = pj.load(tmp_path / "model").within(max_bytes=memory)
    np.testing.assert_allclose(loaded.marginal(("a", "i")), model.marginal(("a", "i")), rtol=1e-5)


@every
def test_something_else_than_a_table(mechanism):
    with pytest.raises(TypeError, match=r"data must be a pgmjax\.Dataset, got dict"):
        make(mechanism).run({"a": [0]}, WORKLOAD)


PLANTED = "QX7741"


@every
@pytest.mark.parametrize("column", ["name", "size"])
def test_errors_show_no_data_value(mechanism, column, tmp_path, spending):
    """A planted value that does not fit stands neither in the message nor in the trace behind it."""
    domain = Domain({"name": {"labels": ["x", "y"]}, "size": {"bins": [0, 1, 2]}})
    planted = {"name": f"{PLANTED},1", "size": f"x,{PLANTED}"}[column]
    path = tmp_path / "table.csv"
    path.write_text("name,size\n" + "x,1\ny,0\n" * 50 + planted + "\n")
    with pytest.raises((ValueError, TypeError)) as caught:
        make(mechanism).run(Dataset.read(path, domain), Workload.of_marginals([("name", "size")]))
    assert PLANTED not in "".join(traceback.format_exception(caught.value))
    assert column in str(caught.value) and spending == []


@every
def test_no_number_of_a_release_is_exact(mechanism):
    """With noise of a huge scale nothing released is near the truth (a count is below 41)."""
    if mechanism in NO_NOISE_ADDED:
        pytest.skip("what it releases at any epsilon are counts of 40 answers: see its own tests")
    release = make(mechanism, epsilon="1e-9").run(DATA, WORKLOAD)
    for measurement in release.measurements:
        assert np.abs(measurement.values).min() > 41
