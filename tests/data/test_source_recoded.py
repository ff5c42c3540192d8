"""Recoded records are the same records: counted cell by cell, weighted, known to a ledger as one table."""

import numpy as np
import pytest

from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.privacy.ledger import Ledger

DOMAIN = Domain({"a": 4, "b": 2})
AFTER = Domain({"a": 3, "b": 2})
CODES = {"a": [2, 0, 1, 2]}
COLUMNS = {"a": [0, 1, 2, 3, 3, 0], "b": [0, 0, 1, 1, 0, 1]}
KEY = b"0123456789abcdef"


def test_weighted_records_keep_their_weights():
    data = Dataset.from_columns(DOMAIN, COLUMNS, weights=[1, 2, 3, 4, 5, 6], max_weight=9)
    recoded = data.recode(AFTER, CODES)
    expected = np.zeros((3, 2), int)
    np.add.at(expected, (np.array(CODES["a"])[COLUMNS["a"]], COLUMNS["b"]), [1, 2, 3, 4, 5, 6])
    assert recoded.marginals([("a", "b")])[0].tolist() == expected.tolist()
    assert recoded.weighted and recoded.max_weight == 9 and recoded.count() == 21


def test_records_in_files_are_mapped_when_they_are_read(tmp_path):
    path = tmp_path / "table.csv"
    rows = zip(COLUMNS["a"], COLUMNS["b"], strict=True)
    path.write_text("a,b\n" + "\n".join(f"{a},{b}" for a, b in rows) + "\n")
    recoded = Dataset.read(path, DOMAIN).recode(AFTER, CODES)
    assert recoded.marginals([("a",)])[0].tolist() == [1, 1, 4]
    assert np.concatenate([part["a"] for part in recoded.records(["a"])]).tolist() == [2, 0, 1, 2, 2, 2]


def test_a_record_outside_the_old_domain_is_still_refused(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,b\n0,1\n7,0\n")
    with pytest.raises(ValueError, match="1 row lies outside"):
        Dataset.read(path, DOMAIN).recode(AFTER, CODES).marginals([("a",)])


def test_a_ledger_knows_it_as_the_table_it_came_from(tmp_path):
    data = Dataset.from_columns(DOMAIN, COLUMNS)
    recoded = data.recode(AFTER, CODES)
    assert recoded.fingerprint(KEY) == data.fingerprint(KEY)
    with Ledger.create(tmp_path / "budgets.ledger") as ledger:
        assert ledger.digest_of(recoded) == ledger.digest_of(data)


def test_two_maps_to_one_domain_are_told_apart():
    data = Dataset.from_columns(DOMAIN, COLUMNS)
    first, second = data.recode(AFTER, CODES), data.recode(AFTER, {"a": [0, 0, 1, 2]})
    assert first.layout != second.layout and first.layout == data.recode(AFTER, CODES).layout
    assert set(first.layout) == {"a"}


@pytest.mark.parametrize(
    "after, codes, error, words",
    [
        (Domain({"a": 3}), CODES, ValueError, "same attributes"),
        (AFTER, {}, ValueError, "another size"),
        (AFTER, {"a": [0, 1, 2]}, ValueError, "4 codes in 0..2"),
        (AFTER, {"a": [0, 1, 2, 3]}, ValueError, "4 codes in 0..2"),
        (AFTER, {"a": [0, 1, 2, -1]}, ValueError, "4 codes in 0..2"),
        (AFTER, {"a": [0, 1, 2, 0.5]}, TypeError, "integers"),
        (AFTER, {**CODES, "c": [0]}, ValueError, "'c'"),
    ],
)
def test_maps_that_do_not_fit(after, codes, error, words):
    with pytest.raises(error, match=words):
        Dataset.from_columns(DOMAIN, COLUMNS).recode(after, codes)
