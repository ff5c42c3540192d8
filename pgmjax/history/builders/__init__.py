"""Builders of queries for histories: ranges, conditions, moments, transforms, marginals.

`random_ranges` and `random_tables` draw the two kinds of the paper's experiments; `is_in`, `equals` and
`between` are conditions that combine by `&`, `|` and `~`; `moments`, `covariances`; `fourier` and
`wavelet` strategies; `all_marginals`.
"""

from pgmjax.history.builders.conditions import between, equals, is_in
from pgmjax.history.builders.queries import (
    all_marginals,
    covariances,
    fourier,
    moment,
    moments,
    wavelet,
)
from pgmjax.queries.random import random_ranges, random_tables

__all__ = [
    "all_marginals",
    "between",
    "covariances",
    "equals",
    "fourier",
    "is_in",
    "moment",
    "moments",
    "random_ranges",
    "random_tables",
    "wavelet",
]
