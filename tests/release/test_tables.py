"""Parquet files of a release: each answer's noise, and the mark that says whether they may be published."""

import dataclasses

import numpy as np
import pyarrow.parquet as parquet
import pytest

from pgmjax.measurements.linear import LinearMeasurement
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
    stddevs = tables.read(tmp_path / "answers.parquet")["stddev"].to_pylist()
    assert stddevs == [7.5] * 10 + [float(sums.stddev)] * 10 + [None] * 2


def test_answers_say_that_their_noise_was_seeded(small_release, tmp_path):
    tables.write_answers(small_release, tmp_path / "answers.parquet")
    metadata = parquet.read_schema(tmp_path / "answers.parquet").metadata
    assert metadata[b"secure"] == b"false" and metadata[b"seed"] == b"3"


def test_answers_say_that_they_are_secure(small_release, tmp_path):
    secure = dataclasses.replace(small_release, secure=True, seed=None)
    tables.write_answers(secure, tmp_path / "answers.parquet")
    metadata = parquet.read_schema(tmp_path / "answers.parquet").metadata
    assert metadata[b"secure"] == b"true" and b"seed" not in metadata


@pytest.mark.parametrize(
    ("mark", "found"),
    [
        ({"secure": True}, {b"secure": b"true"}),
        ({"secure": False, "seed": 5}, {b"secure": b"false", b"seed": b"5"}),
    ],
)
def test_measurements_are_marked_as_told(small_release, tmp_path, mark, found):
    path = tmp_path / "measurements.parquet"
    tables.write_measurements(small_release.measurements, path, **mark)
    metadata = parquet.read_schema(path).metadata
    assert {name: value for name, value in metadata.items() if name in (b"secure", b"seed")} == found
    assert tables.read(path).num_rows == sum(m.values.size for m in small_release.measurements)
