"""Private mechanisms, from a table and a workload to a release.

A mechanism is one file with one frozen dataclass and one line here. The class has `name` (what the
command line calls it), `summary` (one line) and `run(data, workload) -> Release`; it holds the table
only as a `privacy.private_table.PrivateTable`. One that works under one neighbouring relation only says so in
`relations`, one that takes no weighted tables in `weighted_tables`. Contract tests run over `__all__`.

- `marginals`, `hdmm`: measure once. `randomized_response`: each record answers for itself.
- `mst`, `aim`, `mwem`: choose, measure and fit. `mwem_rounds` and `mwem_baselines` are parts of the last.
- `privbayes`: a Bayesian network, whose search and models are in `bayes_network`.
- `dual_query`: synthetic records, by the game in `dual_query_game`.
- `mldp`: a regressor, measured for and trained in `mldp_training`. `mldp_similarity`: the same for pairs.
- `online_weights`: answers queries as they come.
- `base`: what all share. `adaptive`: what those that choose again share. `noise_sizes`: what a cost buys.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from pgmjax._internal.moved import serve_old_names
from pgmjax.data.relation import Relation
from pgmjax.mechanisms.aim import AIM
from pgmjax.mechanisms.dual_query import DualQuery
from pgmjax.mechanisms.hdmm import HDMM
from pgmjax.mechanisms.marginals import Marginals
from pgmjax.mechanisms.mldp import MLDP
from pgmjax.mechanisms.mst import MST
from pgmjax.mechanisms.mwem import MWEM
from pgmjax.mechanisms.privbayes import PrivBayes
from pgmjax.mechanisms.randomized_response import RandomizedResponse

__all__ = ["AIM", "HDMM", "MLDP", "MST", "MWEM", "DualQuery", "Marginals", "PrivBayes", "RandomizedResponse"]


def names() -> dict[str, type[Any]]:
    """Return the mechanisms by their command-line names; `.summary` of each describes it in a line.

    Example:
        >>> names()["marginals"].summary
        'measure every query of the workload once, with equal or weighted budget'
    """
    classes = [globals()[name] for name in __all__]
    return {mechanism.name: mechanism for mechanism in classes}


def relations(mechanism: type[Any]) -> tuple[Relation, ...]:
    """Return the neighbouring relations under which a mechanism works.

    Example:
        >>> [relation.value for relation in relations(Marginals)]
        ['add-remove', 'replace-one']
    """
    return getattr(mechanism, "relations", tuple(Relation))


def takes_weights(mechanism: type[Any]) -> bool:
    """Return whether a mechanism takes tables whose records have weights."""
    return getattr(mechanism, "weighted_tables", True)


_COMMON = ("epsilon", "relation", "delta", "estimator", "backend")


def options(mechanism: type[Any]) -> dict[str, Any]:
    """Return the options that a mechanism has beside those of all, with their defaults.

    Example:
        >>> options(Marginals)
        {'split': 'equal'}
    """
    fields = dataclasses.fields(mechanism)
    return {field.name: field.default for field in fields if field.name not in _COMMON}


serve_old_names(__name__)
