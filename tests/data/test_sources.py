import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmjax.data.domain import Domain
from pgmjax.data.encoding import Coder, Encoded
from pgmjax.data.population import WHOLE
from pgmjax.data.sources import (
    BATCH_ROWS,
    LARGEST_TOTAL,
    WEIGHTS,
    Batch,
    ColumnSource,
    ScanTally,
    weight_coder,
)

DOMAIN = Domain({"a": 3, "b": {"labels": ["x", "y"]}})
CODES = np.zeros(4, dtype=np.uint8)


def test_columns_come_in_batches_of_all_rows():
    rows = 2 * BATCH_ROWS + 5
    column = (np.arange(rows) % 3).astype(np.uint8)
    batches = list(ColumnSource({"a": column, "b": column, WEIGHTS: column}, DOMAIN, WHOLE).batches(["b"]))
    assert [batch.rows for batch in batches] == [BATCH_ROWS, BATCH_ROWS, 5]
    assert all(list(batch.columns) == ["b", WEIGHTS] for batch in batches)
    assert np.array_equal(np.concatenate([batch.columns["b"].codes for batch in batches]), column)
    assert np.array_equal(np.concatenate([batch.weights for batch in batches]), column)
    assert next(ColumnSource({"a": column}, DOMAIN, WHOLE).batches(["a"])).weights is None


def test_coders_of_codes_and_weights_take_their_ends():
    assert Coder(3).encode_numbers(np.array([0, 2, 3, -1])).outside == 2
    assert weight_coder(3).encode_numbers(np.array([0, 3, 4, -1])).outside == 2
    assert weight_coder(3).encode_objects(["3", "1.0", "1.5", None]).codes.tolist() == [3, 1, 0, 0]


def test_all_problems_in_one_message():
    tally = ScanTally(DOMAIN, 9)
    assert tally.add(Batch({"a": Encoded(CODES), "b": Encoded(CODES), WEIGHTS: Encoded(CODES)}, 4))
    assert not tally.add(
        Batch({"a": Encoded(CODES, 2, 1), "b": Encoded(CODES, 0, 3), WEIGHTS: Encoded(CODES, 1, 0)}, 4)
    )
    last = {"a": Encoded(CODES, 1), "b": Encoded(CODES), WEIGHTS: Encoded(CODES, 0, 1)}
    assert not tally.add(Batch(last, 4))
    columns = r"'a'.*3 rows.*0\.\.2.*1 row .*missing: true.*'b'.*3 rows.*missing: true"
    with pytest.raises(ValueError, match=columns + r'.*2 rows.*0\.\.9.*max_weight.*rows_outside "drop"'):
        tally.check()


def test_empty_table():
    tally = ScanTally(DOMAIN, 1)
    assert tally.add(Batch({"a": Encoded(CODES[:0])}, 0))
    with pytest.raises(ValueError, match="table is empty: it must hold at least one record"):
        tally.check()


def test_totals_from_two_to_the_53_are_refused():
    tally = ScanTally(DOMAIN, LARGEST_TOTAL - 1)
    weights = Encoded(np.array([LARGEST_TOTAL - 1], dtype=np.uint64))
    assert tally.add(Batch({WEIGHTS: weights}, 1))
    tally.check()
    assert tally.total == 2**53 - 1
    assert not tally.add(Batch({WEIGHTS: Encoded(np.array([1], dtype=np.uint64))}, 1))
    with pytest.raises(ValueError, match="total weight of the records must stay below 2\\*\\*53"):
        tally.check()


@given(st.lists(st.integers(0, 2**53 - 1), max_size=20), st.sampled_from([1, 1 << 12]))
def test_totals_are_exact_beyond_64_bits(weights, times):
    tally = ScanTally(DOMAIN, 2**53 - 1)
    tally.add(Batch({WEIGHTS: Encoded(np.tile(np.array(weights, dtype=np.uint64), times))}, 1))
    assert tally.total == sum(weights) * times


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "u8"])
def test_totals_of_every_type(dtype):
    top = min(np.iinfo(dtype).max, 2**53 - 1)
    tally = ScanTally(DOMAIN, top)
    tally.add(Batch({WEIGHTS: Encoded(np.full(1000, top, dtype=dtype))}, 1000))
    assert tally.total == 1000 * top
