"""What a mechanism cannot do is refused before a ledger is charged, noise is drawn or the table is read."""

import numpy as np
import pytest

from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.estimation.estimator import Estimator
from pgmjax.mechanisms import AIM, HDMM, MST, MWEM, BatchAIM, DualQuery, Marginals, PrivBayes
from pgmjax.privacy.ledger import Ledger
from pgmjax.privacy.opendp import OpenDPBackend
from pgmjax.queries import DenseMatrix
from pgmjax.queries.workload import Workload

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
SMALL = Domain({"a": 3, "b": 2, "c": 4})
WIDE = Domain(dict.fromkeys("abcdefgh", 10))
PAIRS = Workload.of_marginals([("a", "b"), ("b", "c")])
WIDE_PAIRS = Workload.all_kway(WIDE, 2)
DIFFERENCE = Workload([DenseMatrix(("b",), np.array([[1, -1]]))])
JOINT = Workload([DenseMatrix(("a", "b"), np.array([[1, 0, 0, 1, 0, 1]]))])
LITTLE, MORE = (Estimator(max_bytes=limit, progress=False) for limit in (10_000, 10**6))


def table(domain, weighted=False):
    rng = np.random.default_rng(2)
    columns = {name: rng.integers(0, size, 40) for name, size in domain.sizes.items()}
    more = {"weights": np.ones(40, int), "max_weight": 2} if weighted else {}
    return Dataset.from_columns(domain, columns, **more)


@pytest.fixture
def untouched(tmp_path, monkeypatch):
    """Returns what runs a mechanism on a table that has a ledger, none of which may be used."""

    def used(*given, **more):
        pytest.fail("the table was read or noise was drawn")

    def run(mechanism, data, workload):
        relation = mechanism.relation.value
        with Ledger.create(tmp_path / "budgets.ledger") as ledger:
            ledger.register(
                "people",
                epsilon=9999,
                delta="0.1",
                relation=relation,
                digest=ledger.digest_of(data),
                domain=data.domain,
            )
            with monkeypatch.context() as patch:
                for name in ("marginals", "records"):
                    patch.setattr(Dataset, name, used)
                for name in ("draw", "choose", "choose_several", "respond", "respond_bits"):
                    patch.setattr(OpenDPBackend, name, used)
                try:
                    mechanism.run(data, workload, ledger=ledger)
                finally:
                    account = ledger.account("people")
                    assert account.charges == 0 and account.spent == 0

    return run


def of(mechanism, relation=REPLACE, epsilon=1, delta=0, **settings):
    return mechanism(epsilon, relation, delta, **settings)


TOTALS = [
    (of(Marginals, ADD), False, "number of records is private and cannot be estimated"),
    (of(Marginals, REPLACE), True, r"weight.*\['a'\]"),
    (of(HDMM, ADD, strategy="workload"), False, "number of records is private and cannot be estimated"),
]


@pytest.mark.parametrize("mechanism, weighted, words", TOTALS)
def test_a_total_that_is_needed_and_cannot_be_told(mechanism, weighted, words, untouched):
    with pytest.raises(ValueError, match=words):
        untouched(mechanism, table(SMALL, weighted), DIFFERENCE)


UNANSWERED = [
    (of(HDMM, strategy="marginals"), SMALL, JOINT, r"\('a', 'b'\)"),
    (of(HDMM, strategy="kron"), SMALL, JOINT, "joint matrix"),
    (of(HDMM, strategy="identity", answer="global"), WIDE, WIDE_PAIRS, "100,000,000"),
    (of(DualQuery), SMALL, DIFFERENCE, r"\('b',\)"),
    (of(MWEM, select="queries"), SMALL, Workload([{"clique": ["a"], "matrix": [[0.5] * 3]}]), "integral"),
    (of(Marginals), SMALL, Workload([{"clique": ["a"], "matrix": [[0.5] * 3]}]), "integral"),
]


@pytest.mark.parametrize("mechanism, domain, workload, words", UNANSWERED)
def test_a_workload_that_cannot_be_answered(mechanism, domain, workload, words, untouched):
    with pytest.raises(ValueError, match=words):
        untouched(mechanism, table(domain), workload)


@pytest.mark.parametrize("mechanism", [PrivBayes, DualQuery])
def test_mechanisms_that_only_replace_cannot_be_made_otherwise(mechanism):
    assert mechanism.relations == (REPLACE,)
    with pytest.raises(ValueError, match="add-remove"):
        of(mechanism, ADD)


CANDIDATES = [
    (of(MWEM, max_cells=99), WIDE, "max_cells.*99"),
    (of(MWEM, max_cells=10**9, estimator=MORE), WIDE, r"max_cells = 100,000,000 .* lower"),
    (of(MWEM, estimate="multiplicative-weights", estimator=LITTLE), WIDE, "100,000,000 cells"),
    (of(MWEM, estimate="factored-multiplicative-weights", estimator=LITTLE), WIDE, "available|cells"),
    (of(AIM, estimator=MORE), WIDE, "lower max_cells"),
    (of(AIM, max_cells=99), WIDE, "within max_cells = 99: the smallest, on .* no budget would measure"),
    (of(BatchAIM, max_cells=99), WIDE, "within max_cells = 99: the smallest, on .* no budget would measure"),
    (of(BatchAIM, ADD, estimator=MORE), WIDE, "lower max_cells"),
    (of(MST, estimator=LITTLE), WIDE, "available"),
    (of(PrivBayes, estimator=LITTLE), WIDE, "available|max_cells"),
    (of(HDMM, estimator=LITTLE), WIDE, "available"),
    (of(HDMM, strategy="kron", estimator=LITTLE), WIDE, "available"),
    (of(DualQuery, estimator=LITTLE), WIDE, "available"),
    (of(Marginals, estimator=LITTLE), WIDE, "available"),
]


@pytest.mark.parametrize("mechanism, domain, words", CANDIDATES)
def test_candidates_or_models_that_are_none_or_too_large(mechanism, domain, words, untouched):
    with pytest.raises(ValueError, match=words):
        untouched(mechanism, table(domain), WIDE_PAIRS)


ROUNDS = [
    (of(MWEM, rounds=10**4, epsilon="1e-11"), "above 2\\^50"),
    (of(MWEM, split="0.9999999999999999"), "above 2\\^50"),
    (of(AIM, rounds=2), "rounds.*3"),
    (of(AIM, epsilon="1e-30"), r"2\^50"),
    (of(MST, epsilon="1e-30"), r"2\^50"),
    (of(PrivBayes, epsilon="1e-14"), "above 2\\^50"),
    (of(DualQuery, step=1, rounds=9), "allows 2 rounds|allows the first round only|allows \\d+ rounds"),
    (of(HDMM, epsilon="1e-15", strategy="identity"), "above 2\\^50"),
    (of(Marginals, epsilon="1e-15"), "above 2\\^50"),
]


@pytest.mark.parametrize("mechanism, words", ROUNDS)
def test_rounds_and_parts_that_the_budget_does_not_allow(mechanism, words, untouched):
    with pytest.raises(ValueError, match=words):
        untouched(mechanism, table(SMALL), PAIRS)


SHARES = [
    (MWEM, {"split": 1}, "split.*1"),
    (MWEM, {"total_share": "1.1"}, r"total_share.*1\.1"),
    (MWEM, {"rounds": 0}, "rounds.*0"),
    (AIM, {"share": 0}, "share.*0"),
    (PrivBayes, {"structure_share": 1}, "structure_share.*1"),
    (HDMM, {"split": "thirds"}, "split"),
    (Marginals, {"split": "thirds"}, "split"),
    (DualQuery, {"rounds": 1}, "rounds"),
]


@pytest.mark.parametrize("mechanism, settings, words", SHARES)
def test_shares_that_are_none(mechanism, settings, words):
    with pytest.raises(ValueError, match=words):
        of(mechanism, **settings)
