"""Ratings of items by records, sparse, and the exact similarity of two records."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data import fingerprint
from pgmjax.data.encoding import checked_codes

_NUMBERED = ": number them from 0, or say that there are more"
LARGEST = 1e60
"""Largest absolute rating. A scale's bounds are 0 or at least 1 / LARGEST, so that squares are finite."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Ratings:
    """Ratings of items by records; private like a `Dataset`.

    Args:
        records: codes of the records [ratings], from 0.
        items: codes of the items [ratings], from 0.
        values: the ratings [ratings].
        shape: numbers of records and of items, public.
        scale: smallest and largest rating, public. Default: unbounded.

    Raises:
        TypeError: codes are not integers.
        ValueError: lengths differ, a code is out of range, a record rates an item twice, or values are not
            finite, above `LARGEST` in size or outside the scale. The message quotes no value.

    Example:
        >>> ratings = Ratings([0, 0, 1], [0, 1, 0], [4.0, 2.0, 5.0], shape=(2, 2), scale=(0.5, 5))
        >>> ratings.similarities([(0, 1)], "cosine").round(3)
        array([0.894])
    """

    records: np.ndarray
    items: np.ndarray
    values: np.ndarray
    shape: tuple[int, int]
    scale: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        shape = tuple(checks.integer("the shape of ratings", number, low=1) for number in self.shape)
        if len(shape) != 2:
            raise ValueError(f"the shape of ratings is the pair (records, items), got {len(shape)} numbers.")
        codes = [
            checked_codes(f"the {name} of ratings", getattr(self, name), high, _NUMBERED).astype(np.int64)
            for name, high in zip(("records", "items"), shape, strict=True)
        ]
        values = np.asarray(self.values, np.float64)
        checks.refuse(
            (
                not codes[0].shape == codes[1].shape == values.shape == (values.size,),
                "records, items and values of ratings must be one-dimensional and of one length.",
            ),
            (not np.isfinite(values).all(), "ratings must be finite numbers."),
            (
                values.size and np.abs(values).max() > LARGEST,
                f"ratings must be at most {LARGEST:g} in size: state them in larger units.",
            ),
        )
        if self.scale is not None:
            low, high = check_scale(self.scale)
            object.__setattr__(self, "scale", (low, high))
            if values.size and not low <= values.min() <= values.max() <= high:
                raise ValueError("some ratings are outside the stated scale: clip them or state a wider one.")
        if np.unique(codes[0] * shape[1] + codes[1]).size != values.size:
            raise ValueError("a record rated an item twice: keep one rating of each.")
        for name, made in zip(("records", "items", "values", "shape"), (*codes, values, shape), strict=True):
            object.__setattr__(self, name, made)

    def counts(self) -> np.ndarray:
        """Return the number of ratings of each record, int64 [records]."""
        return np.bincount(self.records, minlength=self.shape[0])

    def similarities(self, pairs: Any, measure: str) -> np.ndarray:
        """Return the exact similarity of pairs of records. Private.

        Args:
            pairs: [pairs, 2] codes of records.
            measure: "cosine" over all items, unrated ones counting as 0; "pearson" over the items rated by
                both; or "inner_product". It is 0 if undefined: the ratings of a record are all zero, or
                there are fewer than two common items, or their ratings are constant.

        Returns:
            float64 [pairs].
        """
        from scipy.sparse import csr_array

        table = csr_array((self.values, (self.records, self.items)), shape=self.shape)
        rated = csr_array((np.ones(self.values.size), (self.records, self.items)), shape=self.shape)
        first, second = np.asarray(pairs).T
        products = _sum(table[first] * table[second])
        if measure == "inner_product":
            return products
        if measure == "cosine":
            norms = np.sqrt(_sum(table * table))
            return _ratio(products, norms[first] * norms[second])
        common = rated[first] * rated[second]
        number = _sum(common)
        sums = [_sum(table[each] * common) for each in (first, second)]
        squares = [_sum(table[each] * table[each] * common) for each in (first, second)]
        spreads = [number * square - total**2 for square, total in zip(squares, sums, strict=True)]
        spread = np.where(np.minimum(*spreads) > 1e-9, np.sqrt(np.maximum(spreads[0] * spreads[1], 0)), 0)
        return _ratio(number * products - sums[0] * sums[1], spread)

    def fingerprint(self, key: bytes) -> str:
        """Return the keyed fingerprint by which a ledger recognises these ratings, in any order.

        Args:
            key: a secret, at least 16 bytes.
        """
        order = np.lexsort((self.items, self.records))
        columns = {name: getattr(self, name)[order] for name in ("records", "items")}
        # the bits of the ratings; adding 0.0 makes -0.0 equal to 0.0
        bits = (self.values[order] + 0.0).view(np.int64)
        shape = np.array(self.shape, np.int64)
        return fingerprint.of_columns({**columns, "values": bits, "shape": shape}, key)

    def __repr__(self) -> str:
        return f"Ratings({self.shape[0]:,} records x {self.shape[1]:,} items, scale {self.scale})"


def check_scale(scale: Any) -> tuple[float, float]:
    """Return the smallest and the largest rating.

    Raises:
        ValueError: not two increasing finite numbers, each 0 or from 1 / LARGEST to LARGEST in size.
    """
    if not isinstance(scale, list | tuple) or len(scale) != 2:
        raise ValueError("scale must be the pair (least, largest rating), which bounds all ratings.")
    low, high = map(checks.number, ("the least rating", "the largest rating"), scale)
    if not low < high:
        raise ValueError(f"the least rating must be below the largest, got {low:g} and {high:g}.")
    for bound in (low, high):
        if bound != 0 and not 1 / LARGEST <= abs(bound) <= LARGEST:
            raise ValueError(f"a scale's bounds must be 0 or {1 / LARGEST:g} to {LARGEST:g}, got {bound:g}.")
    return low, high


def check_pairs(pairs: Sequence[Any] | np.ndarray, records: int) -> np.ndarray:
    """Return checked pairs of different records, int64 [pairs, 2].

    Raises:
        TypeError: they are no integers.
        ValueError: there are no pairs, a code is out of range, or a record is paired with itself.
    """
    array = np.asarray(pairs)
    if array.ndim != 2 or array.shape[1] != 2 or not len(array):
        raise ValueError(f"pairs must be whole numbers [pairs, 2], at least one, got shape {array.shape}.")
    checked_codes("the records of pairs", array, records)
    if (array[:, 0] == array[:, 1]).any():
        raise ValueError("a pair must be of two different records: the similarity of one to itself is known.")
    return array.astype(np.int64)


def _sum(table: Any) -> np.ndarray:
    return np.asarray(table.sum(axis=1)).reshape(-1)


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    return np.divide(above, below, out=np.zeros(above.shape), where=below > 0)
