"""`Model`, the questions that every fitted model answers."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.queries import Query


@runtime_checkable
class Model(Protocol):
    """A fitted model: `GraphicalModel`, `RegionModel` and `MixtureModel` have these members.

    Code that only asks for marginals and answers takes a `Model`. `GraphicalModel` and `MixtureModel` also
    have a distribution: `condition`, `log_partition` and `sample`; the marginals of a `RegionModel` may be
    those of no table.

    Example:
        >>> import pgmjax as pj
        >>> model = pj.GraphicalModel.from_potentials(pj.Domain({"a": 2, "b": 3}), {}, total=6.0)
        >>> isinstance(model, Model), model.marginal(("b",)).tolist()
        (True, [2.0, 2.0, 2.0])
    """

    @property
    def domain(self) -> Domain:
        """The attributes."""

    @property
    def total(self) -> float:
        """The number of records (counts)."""

    def marginal(self, clique: Clique) -> np.ndarray:
        """Return the expected counts of some attributes, float64, with axes in the order of the names."""

    def answer(self, query: Query) -> np.ndarray:
        """Return the expected answers to a linear query (counts times the query's unit), in its shape."""

    def save(self, folder: Any) -> None:
        """Save to a folder that `pgmjax.load` reads."""


def check_query(domain: Domain, query: Query) -> None:
    """Refuse what is not a query over a model's attributes.

    Raises:
        TypeError: not a query of `pgmjax.queries`.
        ValueError: a query that does not fit the domain.
    """
    if not isinstance(query, Query):
        raise TypeError(
            "answer takes a query over named attributes, such as queries.kronecker({'age': "
            f"queries.prefix()}}) or queries.marginal(('age',)), got {type(query).__name__}."
        )
    query.check(domain)
