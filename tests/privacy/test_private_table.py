"""The choke point: integer answers with the stated noise, a budget charged before the table is read."""

import math
from fractions import Fraction

import numpy as np
import pytest

from pgmjax import queries
from pgmjax.audit import mechanism, replay
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace
from pgmjax.privacy import gate, private_table, tape
from pgmjax.privacy.budget import Budget, BudgetExceeded
from pgmjax.privacy.opendp import OpenDPBackend
from pgmjax.privacy.scores import Counts
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.queries.rounding import quantise

DOMAIN = Domain({"a": 3, "b": 2, "c": 4})
COLUMNS = {"a": [0, 1, 2, 2, 0], "b": [0, 1, 1, 0, 0], "c": [3, 2, 1, 0, 3]}
AB, BC, C = (
    queries.marginal(("a", "b")),
    queries.marginal(("c", "b")),
    queries.Product({"c": queries.prefix()}),
)
BOTH = list(Relation)


class Silent(SeededBackend):
    """Noise that is always zero, to look at the exact answers; keeps what was asked of it."""

    def __init__(self):
        super().__init__(0, insecure=True)
        self.asked = []

    def restart(self):
        return self

    def draw(self, distribution, size):
        self.asked.append((distribution, size))
        return np.zeros(size, dtype=np.int64)


class Watched:
    """Counts how often a table is validated and read."""

    def __init__(self, monkeypatch):
        self.log = []
        for name in ("validate", "marginals", "count"):
            monkeypatch.setattr(Dataset, name, self.wrap(name, getattr(Dataset, name)))

    def wrap(self, name, method):
        def watched(*args, **kwargs):
            self.log.append(name)
            return method(*args, **kwargs)

        return watched


@pytest.fixture
def data():
    return Dataset.from_columns(DOMAIN, COLUMNS)


@pytest.fixture
def watched(data, monkeypatch):
    return Watched(monkeypatch)


def table(data, relation=Relation.ADD_REMOVE, budget=None, backend=None):
    budget = Budget(1) if budget is None else budget
    return private_table.PrivateTable(
        data, relation, budget, SeededBackend(0, insecure=True) if backend is None else backend
    )


def test_answers_are_exact_counts_plus_noise(data):
    measured = table(data, backend=Silent()).measure([AB, BC, C], epsilons=["1/3"] * 3)
    a, b, c = (np.array(COLUMNS[name]) for name in "abc")
    assert [m.clique for m in measured] == [("a", "b"), ("c", "b"), ("c",)]
    assert measured[0].values.tolist() == [
        int(((a == i) & (b == j)).sum()) for i in range(3) for j in range(2)
    ]
    assert measured[1].values.tolist() == [
        int(((c == i) & (b == j)).sum()) for i in range(4) for j in range(2)
    ]
    assert measured[2].values.tolist() == [int((c <= i).sum()) for i in range(4)]
    assert [m.query for m in measured] == [AB, BC, C]


@pytest.mark.parametrize("backend", [SeededBackend(0, insecure=True), OpenDPBackend()], ids=str)
def test_released_values_are_int64_with_the_discrete_distributions_stddev(data, backend):
    laplace = table(data, backend=backend).measure([AB, C], epsilons=[0.5, 0.5])
    gaussian = table(data, budget=Budget(1, "rho"), backend=backend).measure([AB, C], rhos=[0.5, 0.5])
    assert all(isinstance(m, LinearMeasurement) and m.values.dtype == np.int64 for m in laplace + gaussian)
    assert [m.noise for m in laplace + gaussian] == ["laplace"] * 2 + ["gaussian"] * 2
    # a prefix row counts a record up to four times: L1 sensitivity 4, squared L2 sensitivity 4
    for measured, distribution in zip(
        laplace + gaussian,
        [DiscreteLaplace(2.0), DiscreteLaplace(8.0), DiscreteGaussian(1.0), DiscreteGaussian(2.0)],
        strict=True,
    ):
        np.testing.assert_allclose(measured.stddev, distribution.stddev, rtol=1e-14)


SCALES = [
    (Relation.ADD_REMOVE, None, 1.0, 1.0),
    (Relation.REPLACE_ONE, None, 2.0, math.sqrt(2)),
    (Relation.ADD_REMOVE, 5, 5.0, 5.0),
    (Relation.REPLACE_ONE, 5, 10.0, 5 * math.sqrt(2)),
]


@pytest.mark.parametrize("relation, max_weight, l1, l2", SCALES)
def test_scales_follow_relation_and_weights(relation, max_weight, l1, l2):
    weights = {} if max_weight is None else {"weights": [1, 0, 5, 2, 1], "max_weight": max_weight}
    data = Dataset.from_columns(DOMAIN, COLUMNS, **weights)
    backend = Silent()
    table(data, relation, backend=backend).measure([AB], epsilons=[1])
    table(data, relation, Budget("0.5", "rho"), backend).measure([AB], rhos=["0.5"])
    assert [distribution.scale for distribution, _ in backend.asked] == pytest.approx([l1, l2], rel=1e-14)


def test_a_weighted_query_without_neighbours_in_value_still_moves_by_its_weight():
    """Replacing a record of weight 5 by one of weight 0 moves the total by 5."""
    data = Dataset.from_columns(DOMAIN, COLUMNS, weights=[1, 0, 5, 2, 1], max_weight=5)
    backend = Silent()
    table(data, Relation.REPLACE_ONE, backend=backend).measure(
        [queries.Product({"a": queries.total()})], epsilons=[1]
    )
    assert backend.asked[0][0].scale == 5.0


def test_queries_of_one_distribution_are_drawn_together(data):
    backend = Silent()
    table(data, backend=backend).measure([AB, C, BC], epsilons=["0.25", "0.5", "0.25"])
    assert sorted(size for _, size in backend.asked) == [4, 14]


def test_noise_of_queries_is_not_shared(data):
    first, second = table(data).measure([AB, AB], epsilons=["0.001", "0.001"])
    assert (first.values != second.values).all()


def test_one_scan_for_all_queries(data, watched):
    table(data).measure([AB, BC, C, AB], epsilons=["1/4"] * 4)
    assert watched.log.count("marginals") == 1


def test_a_budget_is_charged_exactly(data):
    budget = Budget(1)
    for _ in range(10):
        table(data, budget=budget).measure([AB], epsilons=[0.1])
    assert budget.remaining == 0
    with pytest.raises(BudgetExceeded):
        table(data, budget=budget).measure([AB], epsilons=["1e-9"])


NOT_INTEGRAL = queries.DenseMatrix(("a",), np.array([[0.5, 0.5, 0.5]]))
HALVES = queries.DenseMatrix(("a",), np.array([[0.5, 0.5, 0.5], [0.5, -0.5, 0.5]]))
UNKNOWN = queries.marginal(("a", "zip"))
REFUSED = [
    ([], {"epsilons": []}, ValueError, "query"),
    ([AB], {}, ValueError, "either epsilons"),
    ([AB], {"epsilons": [1], "rhos": [1]}, ValueError, "either epsilons"),
    ([AB], {"rhos": [1]}, ValueError, "gaussian"),
    ([AB], {"epsilons": [0.5, 0.5]}, ValueError, "epsilon.*1.*2"),
    ([AB], {"epsilons": [math.nan]}, ValueError, "epsilon"),
    ([AB], {"epsilons": [math.inf]}, ValueError, "epsilon"),
    ([AB], {"epsilons": [0]}, ValueError, "epsilon"),
    ([AB], {"epsilons": [-1]}, ValueError, "epsilon"),
    ([AB], {"epsilons": [True]}, TypeError, "epsilon must be a number, .*got a bool"),
    ([AB], {"epsilons": [2]}, BudgetExceeded, "epsilon 2"),
    ([AB], {"epsilons": ["1e-30"]}, ValueError, r"2\^50"),
    ([NOT_INTEGRAL], {"epsilons": [1]}, ValueError, r"\('a',\).*queries\.quantise"),
    ([HALVES], {"epsilons": [1]}, ValueError, r"\('a',\).*queries\.quantise"),
    ([UNKNOWN], {"epsilons": [1]}, ValueError, "zip"),
    ([("a", "b")], {"epsilons": [1]}, TypeError, "Query.*tuple"),
]


@pytest.mark.parametrize("asked, costs, error, words", REFUSED)
def test_bad_requests_cost_nothing_and_read_nothing(data, watched, asked, costs, error, words):
    budget = Budget(1)
    with pytest.raises(error, match=words):
        table(data, budget=budget).measure(asked, **costs)
    assert budget.spent == 0 and watched.log == []


def test_bad_arguments(data):
    with pytest.raises(ValueError, match="replace-one"):
        private_table.PrivateTable(data, None, Budget(1))
    with pytest.raises(TypeError, match="relation"):
        private_table.PrivateTable(data, budget=Budget(1))
    with pytest.raises(TypeError, match=r"budget must be a Budget, such as Budget\(1\), got int"):
        private_table.PrivateTable(data, Relation.ADD_REMOVE, 1)
    with pytest.raises(TypeError, match="dict"):
        private_table.PrivateTable(COLUMNS, Relation.ADD_REMOVE, Budget(1))


def test_a_spend_comes_before_the_counts_and_noise_before_both(data, watched, monkeypatch):
    """Order: table validated, charged, noise drawn, counts read."""

    class Logged(Silent):
        def draw(self, distribution, size):
            watched.log.append("draw")
            return super().draw(distribution, size)

    charge = Budget.charge
    monkeypatch.setattr(Budget, "charge", lambda *args: watched.log.append("charge") or charge(*args))
    table(data, backend=Logged()).measure([AB], epsilons=[1])
    assert [word for word in watched.log if word != "count"][:4] == [
        "validate",
        "charge",
        "draw",
        "marginals",
    ]


def test_a_failed_validation_costs_nothing(data, monkeypatch):
    budget = Budget(1)

    def fail(self):
        raise ValueError("3 rows are outside the domain")

    monkeypatch.setattr(Dataset, "validate", fail)
    with pytest.raises(ValueError, match="outside the domain"):
        table(data, budget=budget).measure([AB], epsilons=[1])
    assert budget.spent == 0


def test_a_failed_scan_costs_and_tells_nothing(data, monkeypatch):
    """A query that fails after the charge keeps it, or it could be asked for ever; its message is ours."""
    budget = Budget(1)

    def fail(self, cliques):
        raise OSError("line 7: 'ANNA MEIER'")

    monkeypatch.setattr(Dataset, "marginals", fail)
    with pytest.raises(gate.TableReadError, match="OSError") as caught:
        table(data, budget=budget).measure([AB], epsilons=[1])
    assert budget.spent == 1 and "ANNA" not in str(caught.value)
    assert caught.value.__cause__ is None and caught.value.__context__ is None


def test_keyboard_interrupt_passes_through_and_the_charge_stays(data):
    class Interrupted(Silent):
        def draw(self, distribution, size):
            raise KeyboardInterrupt

    budget = Budget(1)
    with pytest.raises(KeyboardInterrupt):
        table(data, budget=budget, backend=Interrupted()).measure([AB], epsilons=[1])
    assert budget.spent == 1


def test_entries_too_large_for_64_bits_are_refused_before_anything_is_spent(data, watched):
    huge = queries.DenseMatrix(("a",), np.array([[2**31, 1, 0]]))
    budget = Budget(1)
    with pytest.raises(ValueError, match=r"2,147,483,648.*1,073,741,824"):
        table(data, budget=budget).measure([huge], epsilons=[1])
    assert budget.spent == 0 and watched.log == []


def test_answers_saturate_and_never_fail_because_of_the_counts():
    """A refusal of large counts would tell that they are large."""
    domain = Domain({"a": 3})
    steep = queries.DenseMatrix(("a",), np.array([[2**30, -(2**30), 1], [1, 1, 0], [2**30, 0, -(2**30)]]))
    weights = [2**40, 3, 2**40 + 1]
    data = Dataset.from_columns(domain, {"a": [0, 1, 2]}, weights=weights, max_weight=2**41)
    private = private_table.PrivateTable(data, Relation.ADD_REMOVE, Budget("1e20"), Silent())
    (measured,) = private.measure([steep], epsilons=["1e20"])
    assert measured.values.tolist() == [2**62, 2**40 + 3, -(2**30)]


def test_an_error_of_a_query_is_withheld(data):
    class Speaking(queries.Product):
        def apply(self, counts, xp=np):
            raise ValueError(f"count {counts}")

    budget = Budget(1)
    with pytest.raises(gate.TableReadError, match="ValueError") as caught:
        table(data, budget=budget).measure([Speaking({"a": queries.identity()})], epsilons=[1])
    assert budget.spent == 1 and caught.value.__context__ is None


def test_counts_above_float32_stay_exact():
    """16,777,217 = 2^24 + 1 has no float32."""
    data = Dataset.from_columns(
        Domain({"a": 2}), {"a": [0, 1, 1]}, weights=[2**24 + 1, 2**40, 3], max_weight=2**40
    )
    measured = table(data, backend=Silent()).measure([queries.marginal(("a",))], epsilons=[1])
    assert measured[0].values.tolist() == [2**24 + 1, 2**40 + 3]


def test_the_count_is_public_only_where_records_are_replaced(data):
    assert table(data, Relation.REPLACE_ONE).public_count() == 5
    assert table(data, Relation.REPLACE_ONE).public_total() == 5
    assert table(data).public_total() is None
    with pytest.raises(ValueError, match=r"private under Relation\.ADD_REMOVE"):
        table(data).public_count()
    weighted = Dataset.from_columns(DOMAIN, COLUMNS, weights=[1, 0, 5, 2, 1], max_weight=5)
    with pytest.raises(ValueError, match="total weight of a weighted table is private"):
        table(weighted, Relation.REPLACE_ONE).public_count()
    private = table(weighted, Relation.REPLACE_ONE)
    assert private.public_total() is None
    assert private.weighted and private.max_weight == weighted.max_weight
    assert not table(data).weighted and table(data).max_weight == 1


def test_a_table_that_is_not_valid_tells_no_count(data, monkeypatch):
    def fail(self):
        raise ValueError("3 rows are outside the domain")

    monkeypatch.setattr(Dataset, "validate", fail)
    monkeypatch.setattr(Dataset, "count", lambda self: 5)
    with pytest.raises(ValueError, match="outside the domain"):
        table(data, Relation.REPLACE_ONE).public_count()


def test_a_private_table_shows_nothing(data):
    private = table(data)
    assert repr(private).startswith("PrivateTable(") and "epsilon: 0 of 1 spent" in repr(private)
    public = {name for name in dir(private) if not name.startswith("_")}
    assert public == {
        "budget", "domain", "max_records", "max_weight", "measure", "measure_scores", "over", "population",
        "public_count", "public_total", "receipt", "relation", "respond", "run_mark",
        "secure", "seed", "select",
        "select_several", "unit", "weighted", "within",
    }  # fmt: skip


def test_secure_means_secure_noise_and_no_tape(data):
    assert table(data, backend=OpenDPBackend()).secure and table(data, backend=OpenDPBackend()).seed is None
    seeded = table(data, backend=SeededBackend(5, insecure=True))
    assert not seeded.secure and seeded.seed == 5
    with tape.Tape().recording():
        assert not table(data, backend=OpenDPBackend()).secure
    assert private_table.PrivateTable(data, Relation.ADD_REMOVE, Budget(1)).secure


def ask(data, relation, unit):
    costs = {"epsilons" if unit == "epsilon" else "rhos": ["1/3"] * 3}
    return table(data, relation, Budget(1, unit)).measure([AB, BC, C], **costs)


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("unit", ["epsilon", "rho"])
def test_non_interference(relation, unit):
    seen = replay.check_pairs(
        lambda data: ask(data, relation, unit), mechanism.neighbours(DOMAIN, relation), **{unit: 1}
    )
    assert seen.pairs == 60 and seen.calls == 3


def test_a_public_count_that_is_not_public_is_caught():
    """The tape bounds it by zero: on neighbours under the wrong relation it is found."""
    pair = next(mechanism.neighbours(DOMAIN, Relation.ADD_REMOVE))
    with pytest.raises(tape.NonInterferenceError, match=r"L1.*0"):
        replay.check_pair(lambda data: table(data, Relation.REPLACE_ONE).public_count(), *pair)


def test_a_real_query_is_quantised_and_measured(data):
    """Haar-like real weights: the measurement is of the integers, its answers 2^bits times the query's."""
    real = queries.DenseMatrix(("a",), [[0.5, 0.25, -1 / 3]])
    with pytest.raises(ValueError, match=r"queries\.quantise"):
        table(data).measure([real], epsilons=[1])
    grid = quantise(real, DOMAIN, bits=20)
    (measured,) = table(data, backend=Silent()).measure([grid.query], epsilons=[1])
    assert measured.values.dtype == np.int64 and measured.distribution.scale >= 2**19
    expected = 2 * 0.5 + 1 * 0.25 - 2 / 3  # codes 0, 1, 2, 2, 0
    assert grid.unscale(measured.values)[0] == pytest.approx(expected, abs=5 * 2**-21)


def test_a_budget_of_one_relation_refuses_a_table_under_the_other(data):
    budget = Budget(1, relation=Relation.REPLACE_ONE)
    with pytest.raises(ValueError, match=r"replace-one.*add-remove"):
        table(data, Relation.ADD_REMOVE, budget)


def test_laplace_noise_in_a_rho_budget_and_mixtures_in_a_renyi_budget(data):
    budget = Budget(1, "rho")
    table(data, budget=budget).measure([AB], epsilons=["0.5"])
    assert budget.spent == Fraction(1, 8)
    mixed = Budget(1, "renyi", delta="1e-9")
    private = table(data, budget=mixed)
    private.measure([AB], epsilons=["0.1"])
    private.measure([BC], rhos=["0.001"])
    private.select(Counts(queries.marginal(["c"])), epsilon="0.1")
    assert [event.kind for event in mixed.events] == ["laplace", "gaussian", "selection"]
    assert 0 < mixed.spent < mixed.cap


def test_fractions_of_budget_need_no_rounding(data):
    budget = Budget(Fraction(1, 3))
    table(data, budget=budget).measure([AB, BC, C], epsilons=[Fraction(1, 9)] * 3)
    assert budget.remaining == 0


def test_tables_too_large_to_count_cost_nothing(monkeypatch):
    domain = Domain({"a": 3000, "b": 3000})
    data = Dataset.from_columns(domain, {"a": [1], "b": [2]})
    watched = Watched(monkeypatch)
    monkeypatch.setattr("pgmjax.data.counting.available_bytes", lambda: 2**20)
    budget = Budget(1)
    table = private_table.PrivateTable(data, Relation.ADD_REMOVE, budget, Silent())
    with pytest.raises(ValueError, match=r"68\.7 MiB.*1 MiB"):
        table.measure([queries.marginal(("a", "b"))], epsilons=[1])
    assert budget.spent == 0 and watched.log == []
