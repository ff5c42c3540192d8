"""The mechanisms that turn a table and a workload into a release, by name."""

from __future__ import annotations

from pgmjax.mechanisms.aim import AIM
from pgmjax.mechanisms.auto import Auto
from pgmjax.mechanisms.base import Mechanism
from pgmjax.mechanisms.batch_aim import BatchAIM
from pgmjax.mechanisms.dual_query import DualQuery
from pgmjax.mechanisms.hdmm import HDMM
from pgmjax.mechanisms.measure_once import Marginals, MaximumEntropy
from pgmjax.mechanisms.mldp import MLDP
from pgmjax.mechanisms.mst import MST
from pgmjax.mechanisms.mwem import MWEM
from pgmjax.mechanisms.privbayes import PrivBayes
from pgmjax.mechanisms.randomized_response import RandomizedResponse

RELEASING = (
    *(Auto, AIM, BatchAIM, HDMM, MLDP, MST, MWEM, DualQuery),
    *(Marginals, MaximumEntropy, PrivBayes, RandomizedResponse),
)
"""The mechanisms that turn a table and a workload into a release."""


def names() -> dict[str, type[Mechanism]]:
    """Return the mechanisms by their command-line names. The `summary` of each describes it in one line.

    Example:
        >>> names()["marginals"].summary
        'measure every query of the workload once, with equal or weighted budget'
    """
    return {mechanism.name: mechanism for mechanism in RELEASING}
