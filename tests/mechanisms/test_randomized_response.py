"""Randomised response as a mechanism: its answers, its files, its ledger, what it refuses."""

import gzip
import json
import os
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pgmjax.cli import main
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.estimation.estimator import Estimator
from pgmjax.mechanisms import RandomizedResponse
from pgmjax.privacy import responding
from pgmjax.privacy.budget import BudgetExceeded
from pgmjax.privacy.ledger import Ledger
from pgmjax.privacy.opendp import OpenDPBackend
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.queries.workload import Workload

DOMAIN = Domain({"a": 3, "b": 2, "c": 12})
ROWS = 40_000
PAIRS = Workload.of_marginals([("a", "b"), ("c",)])


@pytest.fixture(scope="module")
def columns():
    rng = np.random.default_rng(0)
    a = rng.choice(3, ROWS, p=[0.5, 0.3, 0.2])
    return {"a": a, "b": (a > 0) ^ (rng.random(ROWS) < 0.1), "c": rng.integers(0, 12, ROWS)}


@pytest.fixture(scope="module")
def data(columns):
    return Dataset.from_columns(DOMAIN, {name: column.astype(int) for name, column in columns.items()})


def made(epsilon=3, seed=0, **options):
    estimator = Estimator(progress=False)
    backend = SeededBackend(seed, insecure=True)
    return RandomizedResponse(epsilon, "replace-one", estimator=estimator, backend=backend, **options)


@pytest.mark.parametrize("universe", ["attributes", "joint"])
@pytest.mark.parametrize("encoding", [None, "direct", "optimal-unary", "symmetric-unary"])
def test_answers_lie_within_their_error(data, universe, encoding):
    """The model's fractions within 6 predicted standard errors of any predicate: far more than is needed."""
    mechanism = made(universe=universe, encoding=encoding)
    release = mechanism.run(data, PAIRS)
    bounds = mechanism.predicted_errors(DOMAIN, [("a", "b"), ("c",)], ROWS)
    assert release.model.total == ROWS and release.spent.epsilon == 3 and release.total_public
    for answer, exact, clique in zip(
        release.answers(), data.marginals([("a", "b"), ("c",)]), bounds, strict=True
    ):
        assert np.abs(answer - exact.reshape(-1)).max() / ROWS < 6 * bounds[clique]
    assert {m.noise for m in release.measurements} == {"response"}
    assert "what the records answered for themselves" in release.statement()


def test_the_fit_meets_the_spread_of_the_counts(data):
    """Residuals over the stated standard deviations are of size 1: of 18 counts, 16 of them free."""
    release = made(universe="joint", encoding="direct", epsilon=1).run(data, PAIRS)
    exact = data.marginals([m.clique for m in release.measurements])
    scaled = [
        (m.values - m.query.apply(table.astype(float)).reshape(-1)) / m.row_stddevs()
        for m, table in zip(release.measurements, exact, strict=True)
    ]
    total = float(np.sum(np.concatenate(scaled) ** 2))
    assert 2 < total < 60  # chi^2 of 16 degrees is outside with probability 1e-6


def test_only_maximal_cliques_are_counted_once(data):
    cumulative = [
        {"clique": ["b", "a"], "queries": {"a": "prefix"}},
        {"clique": ["c"], "queries": {"c": "prefix"}},
    ]
    workload = Workload([["a", "b"], ["a"], *cumulative])
    release = made().run(data, workload)
    assert sorted(m.clique for m in release.measurements) in ([("a", "b"), ("c",)], [("b", "a"), ("c",)])
    assert len(release.answers()) == 4


def test_the_histogram_of_answers_hardly_depends_on_the_table_at_a_tiny_epsilon():
    """Two opposite tables give equally distributed counts: they differ by less than 6 standard errors."""
    domain, rows = Domain({"a": 4}), 4000
    counts = []
    for seed, code in ((1, 0), (2, 3)):
        data = Dataset.from_columns(domain, {"a": np.full(rows, code)})
        mechanism = made("1e-6", seed=seed, useless="answer", encoding="direct")
        release = mechanism.run(data, Workload.of_marginals([("a",)]))
        counts.append(release.measurements[0].values)
    assert np.abs(counts[0] - counts[1]).max() < 6 * np.sqrt(2 * rows * 3 / 16)


def test_delta_is_not_spent(data):
    release = made(delta="1e-6").run(data, PAIRS)
    assert release.delta == Fraction(1, 10**6) and release.spent.delta == 0 and release.spent.rho is None


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(responding, "_MOST_ROWS", 9001)


def truthful():
    return made(epsilon=60, encoding="direct", universe="joint")


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("kind", ["memory", "csv", "csv.gz", "parquet", "folder", "npy"])
def test_rows_are_answered_for_in_their_order(tmp_path, columns, kind):
    """Where next to nobody lies, the released codes are the table's, row by row, whatever it is read from."""
    codes = {name: column.astype(np.int64) for name, column in columns.items()}
    path = tmp_path / f"t.{kind}"
    if kind == "memory":
        data = Dataset.from_columns(DOMAIN, codes)
    else:
        frame = pa.table(codes)
        if kind == "parquet":
            pq.write_table(frame, path, row_group_size=3000)
        elif kind == "folder":
            path.mkdir()
            for part in range(4):
                cut = frame.slice(part * ROWS // 4, ROWS // 4)
                pq.write_table(cut, path / f"part-{part}.parquet", row_group_size=1000)
        elif kind == "npy":
            np.save(path, np.stack(list(codes.values()), axis=1))
        else:
            lines = "\n".join(map("{},{},{}".format, *codes.values()))
            text = f"a,b,c\n{lines}\n".encode()
            path.write_bytes(gzip.compress(text) if kind == "csv.gz" else text)
        data = Dataset.read(path, DOMAIN)
    table = truthful().perturb(data, row_order_is_public=True, out=tmp_path / "out", show_progress=False)
    assert np.array_equal(table.codes, (codes["a"] * 2 + codes["b"]) * 12 + codes["c"])
    assert not list(tmp_path.glob(".*partial"))


def test_lies_are_as_many_as_the_distribution_says(data):
    table = made(1, universe="joint").perturb(data, ["a", "b"], row_order_is_public=True)
    truth = truthful().perturb(data, ["a", "b"], row_order_is_public=True).codes
    share = np.mean(table.codes != truth)
    assert abs(share - table.distribution.lie) < 6 * np.sqrt(
        table.distribution.lie * (1 - table.distribution.lie) / ROWS
    )


def test_an_interrupted_table_leaves_no_file(data, tmp_path, monkeypatch):
    calls = []

    def broken(self, distribution, codes):
        calls.append(len(codes))
        raise KeyboardInterrupt

    monkeypatch.setattr(SeededBackend, "respond", broken)
    with pytest.raises(KeyboardInterrupt):
        truthful().perturb(data, row_order_is_public=True, out=tmp_path / "deep" / "out")
    assert calls and os.listdir(tmp_path) == []


@pytest.mark.usefixtures("small_blocks")
def test_a_table_is_perturbed_once_under_a_ledger(data, tmp_path):
    """Asked again, the same answers come from the ledger; other ones exceed the budget."""
    mechanism = RandomizedResponse(3, "replace-one", backend=OpenDPBackend())
    with Ledger.create(tmp_path / "budgets.ledger") as ledger:
        ledger.register(
            "people", epsilon=4, relation="replace-one", digest=ledger.digest_of(data), domain=data.domain
        )
        tables = [
            mechanism.perturb(
                data, ["a", "c"], row_order_is_public=True, out=tmp_path / str(i), ledger=ledger
            )
            for i in range(2)
        ]
        assert ledger.account("people").spent == 3
        with pytest.raises(BudgetExceeded):
            mechanism.perturb(data, ["a"], row_order_is_public=True, ledger=ledger)
    first, second = tables
    assert first.secure and first.ledger["account"] == "people"
    for one, two in zip(first.columns, second.columns, strict=True):
        assert np.array_equal(one.answers, two.answers)


def test_the_order_must_be_said_to_be_public(data):
    for said in (False, None, "yes", 1):
        with pytest.raises(ValueError, match="say row_order_is_public=True"):
            made().perturb(data, row_order_is_public=said)
    with pytest.raises(ValueError, match="say row_order_is_public=True"):
        made().perturb(data)


@pytest.mark.parametrize(
    "options, kind, words",
    [
        ({"universe": "pairs"}, ValueError, "universe.*'attributes'.*'joint'"),
        ({"encoding": "unary"}, ValueError, "encoding.*'unary'"),
        ({"useless": "warn"}, ValueError, "useless.*'refuse'.*'answer'"),
        ({"share": 2}, TypeError, "share must map attributes to weights"),
        ({"share": {"a": 0}}, ValueError, "'a'.*0"),
    ],
)
def test_bad_settings(options, kind, words):
    with pytest.raises(kind, match=words):
        made(**options)


def test_add_remove_is_refused_in_words():
    with pytest.raises(ValueError, match="replace-one only, got add-remove: each record answers for itself"):
        RandomizedResponse(1, "add-remove")


@pytest.fixture
def unread(monkeypatch):
    def fail(*given, **more):
        pytest.fail("a record was read or answered for")

    for name in ("records", "marginals"):
        monkeypatch.setattr(Dataset, name, fail)
    for name in ("respond", "respond_bits"):
        monkeypatch.setattr(SeededBackend, name, fail)


@pytest.mark.usefixtures("unread")
def test_bad_requests_read_nothing(data, tmp_path):
    with pytest.raises(ValueError, match="Noise would drown the answers of 40,000 records"):
        made("1/100").run(data, PAIRS)
    with pytest.raises(ValueError, match="Noise would drown the answers of 40,000 records"):
        made("1/100").perturb(data, row_order_is_public=True)
    with pytest.raises(ValueError, match="share names 'c'"):
        made(share={"c": 2}).run(data, Workload.of_marginals([("a", "b")]))
    with pytest.raises(ValueError, match="'z'"):
        made().perturb(data, ["z"], row_order_is_public=True)
    with pytest.raises(ValueError, match="exists"):
        made().perturb(data, row_order_is_public=True, out=tmp_path)
    with pytest.raises(TypeError, match=r"pgmjax\.Dataset.*dict"):
        made().perturb({}, row_order_is_public=True)
    weighted = Dataset.from_columns(DOMAIN, {name: [0, 1] for name in "abc"}, weights=[1, 2], max_weight=3)
    with pytest.raises(ValueError, match="RandomizedResponse"):
        made().perturb(weighted, row_order_is_public=True)


def test_categories_outside_are_errors_and_no_random_ones(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,c\n" + "1,1,1\n" * 50 + "3,1,1\n")
    data = Dataset.read(tmp_path / "t.csv", DOMAIN)
    for act in (
        lambda: truthful().run(data, PAIRS),
        lambda: truthful().perturb(data, row_order_is_public=True),
    ):
        with pytest.raises(ValueError, match="1 row"):
            act()


def test_adult_through_the_command(data_dir, tmp_path, capsys):
    """Secure noise from a file of real records to a release, and the refusal of add-remove in one line."""
    folder, out = data_dir / "adult", tmp_path / "out"
    (tmp_path / "w.json").write_text('[["sex", "income>50K"], ["race"]]')
    asked = ["release", str(folder / "adult.csv.gz"), "--domain", str(folder / "adult-domain.json")]
    asked += ["--workload", str(tmp_path / "w.json"), "--mechanism", "randomized-response", "--quiet"]
    asked += ["--epsilon", "3", "--out", str(out)]
    assert main([*asked, "--relation", "add-remove"]) != 0
    assert "replace-one only" in capsys.readouterr().err
    assert main([*asked, "--relation", "replace-one", "--option", 'share={"race": 2}']) == 0
    record = json.loads((out / "release.json").read_text())
    assert record["secure"] and record["total"] == 48842 and record["spent"] == {"epsilon": "3", "delta": "0"}
    measured = pq.read_table(out / "measurements.parquet").to_pydict()
    assert set(measured["noise"]) == {"response"} and len(measured["value"]) == 9
