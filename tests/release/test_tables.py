"""Parquet files of a release: each answer's noise, and the mark that says whether they may be published."""

import dataclasses

import numpy as np
import pyarrow.parquet as parquet
import pytest

from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.measurements.inputs import Input, with_inputs
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.published import read_measurements
from pgmjax.mechanisms import Marginals
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.queries.workload import Workload
from pgmjax.release import tables


def test_the_noise_beside_an_answer_is_that_of_the_same_query(small_release, tmp_path):
    """Cells and prefix sums over one clique were measured with different noise, its totals not at all."""
    clique = {"clique": ["age", "sex"]}
    workload = Workload(
        [clique, {**clique, "queries": {"age": "prefix"}}, {**clique, "queries": {"age": "total"}}]
    )
    cells = LinearMeasurement(("age", "sex"), np.zeros(10), stddev=7.5)
    sums = small_release.measurements[3]
    asked = dataclasses.replace(small_release, workload=workload, measurements=(sums, cells))
    tables.write_answers(asked, tmp_path / "answers.parquet")
    stddevs = tables.read(tmp_path / "answers.parquet")["noise_stddev"].to_pylist()
    assert stddevs == [7.5] * 10 + [float(sums.stddev)] * 10 + [None] * 2


def test_answers_are_in_words(small_release, tmp_path):
    """A marginal is found in one line, and its table is that of the model with its labels."""
    entries = [
        ["sex", "age"],
        ["income>50K, net"],
        {"clique": ["age", "sex"], "queries": {"age": {"ranges": [[0, 1], [2, 2]]}, "sex": "total"}},
        {"clique": ["region"], "queries": {"region": "mean"}},
        {"clique": ["sex"], "matrix": [[1, -1]]},
    ]
    asked = dataclasses.replace(small_release, workload=Workload(entries), measurements=())
    tables.write_answers(asked, tmp_path / "answers.parquet")
    table = tables.read(tmp_path / "answers.parquet")
    attributes = ["age", "sex", "region", "income>50K, net"]
    assert table.column_names == [
        "query",
        *attributes,
        "clique",
        "cell",
        "estimate",
        "stddev",
        "noise_stddev",
        "low",
        "high",
        "share_low",
        "share_high",
        "determined",
        "rests_on",
    ]
    frame = table.to_pandas()
    queries = ["sex,age", '"income>50K, net"', "age,sex (age: ranges, sex: total)", "region (region: mean)"]
    assert list(frame["query"].unique()) == [*queries, "sex (matrix)"]

    marginal = frame[frame["query"] == "sex,age"].pivot(index="sex", columns="age", values="estimate")
    domain = small_release.domain
    expected = small_release.model.marginal(("sex", "age"))
    names = [domain.attribute(name).code_names() for name in ("sex", "age")]
    assert [list(marginal.index), list(marginal.columns)] == names  # in the domain's order, not by letters
    np.testing.assert_allclose(marginal.to_numpy(), expected)
    others = (
        frame[frame["query"] != "sex,age"]
        .drop(columns=["clique", "estimate", "stddev", "noise_stddev", "low", "high"])
        .drop(columns=["share_low", "share_high", "determined", "rests_on"])
    )
    found = [tuple(None if value != value else value for value in row) for row in others.to_numpy()]
    assert found == [
        (queries[1], None, None, None, "<no>", 0),
        (queries[1], None, None, None, "yes & more", 1),
        (queries[2], "[0, 18) to [18, 40)", None, None, None, 0),
        (queries[2], "[40, 65)", None, None, None, 1),
        (queries[3], None, None, None, None, 0),
        ("sex (matrix)", None, None, None, None, 0),
    ]


def test_answers_are_the_same_in_blocks_of_any_size(small_release, tmp_path, monkeypatch):
    written = []
    for rows in (1 << 18, 3):
        monkeypatch.setattr(tables, "_BLOCK_ROWS", rows)
        tables.write_answers(small_release, tmp_path / f"{rows}.parquet")
        written.append(tables.read(tmp_path / f"{rows}.parquet"))
    assert parquet.read_metadata(tmp_path / "3.parquet").num_row_groups > 3
    assert written[0].to_pylist() == written[1].to_pylist()


def test_too_many_rows_have_no_words(small_release, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "_MOST_WORDS", 4)
    tables.write_answers(small_release, tmp_path / "answers.parquet")
    frame = tables.read(tmp_path / "answers.parquet").to_pandas()
    assert frame["age"].isna().all() and frame["sex"].notna().any()


def test_attributes_called_like_columns_have_columns_of_their_own(tmp_path):
    domain = Domain({"cell": 2, "cell (attribute)": 2, "query": 2, "estimate": {"labels": ["x", "y"]}})
    data = Dataset.from_columns(domain, {name: [0, 1, 1] for name in domain})
    workload = Workload([["cell", "cell (attribute)"], ["query", "estimate"]])
    release = Marginals(epsilon=1, relation="add-remove", backend=SeededBackend(0, insecure=True)).run(
        data, workload
    )
    tables.write_answers(release, tmp_path / "answers.parquet")
    table = tables.read(tmp_path / "answers.parquet")
    assert table.column_names[:5] == [
        "query",
        "cell (attribute) (attribute)",
        "cell (attribute)",
        "query (attribute)",
        "estimate (attribute)",
    ]
    assert table["cell (attribute) (attribute)"].to_pylist()[:4] == ["0", "0", "1", "1"]
    assert table["estimate (attribute)"].to_pylist()[4:] == ["x", "y", "x", "y"]
    assert table["cell"].to_pylist() == [0, 1, 2, 3] * 2


def test_answers_say_that_their_noise_was_seeded(small_release, tmp_path):
    tables.write_answers(small_release, tmp_path / "answers.parquet")
    metadata = parquet.read_schema(tmp_path / "answers.parquet").metadata
    assert metadata[b"secure"] == b"false" and metadata[b"seed"] == b"3"


def test_answers_say_that_they_are_secure(small_release, tmp_path):
    inputs = [dataclasses.replace(each, secure=True) for each in small_release.inputs]
    secure = dataclasses.replace(small_release, inputs=tuple(inputs), seed=None)
    tables.write_answers(secure, tmp_path / "answers.parquet")
    metadata = parquet.read_schema(tmp_path / "answers.parquet").metadata
    assert metadata[b"secure"] == b"true" and b"seed" not in metadata


@pytest.mark.parametrize("own", [True, False, None])
@pytest.mark.parametrize("said", [True, False, None])
def test_measurements_are_marked_by_their_own_noise(small_release, tmp_path, own, said):
    """The caller can deny that noise is secure, and never claim it for noise that is not."""
    path = tmp_path / "measurements.parquet"
    told = () if own is None else (Input("answers", own),)
    measured = [with_inputs(each, told) for each in small_release.measurements]
    tables.write_measurements(measured, path, secure=said, seed=5)
    stated = [each for each in (own, said) if each is not None]
    found = {b"secure": b"true" if all(stated) else b"false", b"seed": b"5"} if stated else {}
    metadata = parquet.read_schema(path).metadata
    assert {name: value for name, value in metadata.items() if name in (b"secure", b"seed")} == found
    assert tables.read(path).num_rows == sum(m.values.size for m in small_release.measurements)


@pytest.mark.parametrize("delta", [0, "1e-6"])
def test_the_distribution_of_the_noise_comes_back(delta, tmp_path):
    """A release on disk simulates and bounds its noise as the one in memory does."""
    domain = Domain({"a": 3, "b": 4})
    data = Dataset.from_columns(domain, {"a": [0, 1, 2] * 20, "b": [0, 1, 3] * 20})
    mechanism = Marginals(1, "add-remove", delta=delta, backend=SeededBackend(0, insecure=True))
    asked = Workload([["a", "b"], {"clique": ["b"], "queries": {"b": "prefix"}}])
    made = mechanism.run(data, asked, show_progress=False)
    made.save(tmp_path / "r")
    back = read_measurements(tmp_path / "r" / "measurements.parquet", domain)
    for one, two in zip(made.measurements, back, strict=True):
        assert one.distribution is not None and two.distribution == one.distribution
        assert two.values.dtype == one.values.dtype and (two.flat_values() == one.flat_values()).all()
        assert (np.ravel(two.interval(0.9)) == np.ravel(one.interval(0.9))).all()
