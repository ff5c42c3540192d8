"""Parquet files of a release carry the mark that says whether they may be published."""

import dataclasses

import pyarrow.parquet as parquet
import pytest

from pgmjax.release import tables


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
