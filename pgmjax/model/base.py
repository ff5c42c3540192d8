"""`Model`, the questions that every fitted model answers, and `NamedMarginals`, its counts by names."""

from __future__ import annotations

import abc
from typing import Any, Literal, Protocol, overload, runtime_checkable

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.migration import Named, instead
from pgmjax.data.attribute import Attribute
from pgmjax.data.cliques import Clique, as_clique
from pgmjax.data.domain import Domain
from pgmjax.measurements.inputs import Input
from pgmjax.queries.query import Query

MOST_ROWS = 10**12


@runtime_checkable
class Model(Protocol):
    """A fitted model: `GraphicalModel`, `RegionModel` and `MixtureModel` have these members.

    Code that only asks for marginals and answers takes a `Model`. All three have `sample`. `GraphicalModel`
    and `MixtureModel` also have a distribution: `condition` and `log_partition`; the marginals of a
    `RegionModel` may be those of no table, and its rows come near them.

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

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The inputs that it was computed from, with cost and security."""

    @overload
    def marginal(self, clique: Clique, labelled: Literal[False] = False) -> np.ndarray: ...

    @overload
    def marginal(self, clique: Clique, labelled: Literal[True]) -> Any: ...

    def marginal(self, clique: Clique, labelled: bool = False) -> Any:
        """Return the expected counts of some attributes, float64, with axes in the order of the names.

        Args:
            clique: attribute names; `()` gives the total.
            labelled: return a pandas Series instead, whose index has the labels; see `labelled_counts`.
        """

    def answer(self, query: Query) -> np.ndarray:
        """Return the expected answers to a linear query (counts times the query's unit), in its shape."""

    def save(self, folder: Any) -> None:
        """Save to a folder that `pgmjax.load` reads."""


class NamedMarginals(Named):
    """Base of models: the counts of some attributes by their names."""

    domain: Domain
    total: float

    @abc.abstractmethod
    def _probabilities(self, clique: Clique) -> np.ndarray:
        """The distribution of some attributes [size of each]; their names were checked."""

    __getitem__ = instead(
        "A model is asked for the counts of some attributes: write model.marginal(('age', 'sex'))."
    )

    @overload
    def marginal(self, clique: Clique, labelled: Literal[False] = False) -> np.ndarray: ...

    @overload
    def marginal(self, clique: Clique, labelled: Literal[True]) -> Any: ...

    def marginal(self, clique: Clique, labelled: bool = False) -> Any:
        """Expected counts of any attributes of the domain.

        Args:
            clique: attribute names, `()` for the total; the axes follow their order. A `RegionModel` knows
                those of attributes within a region, and approximates all others.
            labelled: return a pandas Series instead, whose index has the labels; see
                `model.base.labelled_counts`.

        Returns:
            Counts [size of each attribute], float64; they sum to `total`.

        Raises:
            TypeError: the clique is not a tuple of names.
            ValueError: an unknown or repeated attribute, or a table larger than memory.
        """
        if isinstance(clique, tuple | list) and not clique:
            return np.array(float(self.total))
        names = as_clique(self.domain, clique)
        counts = self.total * self._probabilities(names)
        checks.kind(
            labelled, bool, "labelled must be True or False", "several names are one tuple, ('age', 'sex')"
        )
        return labelled_counts(self.domain, names, counts) if labelled else counts

    def _number_of_rows(self, rows: int | None) -> int:
        """The number of rows to draw: as many as records if none is given."""
        return checks.integer("rows", round(self.total) if rows is None else rows, 0, MOST_ROWS)


def labelled_counts(domain: Domain, clique: Clique, counts: np.ndarray) -> Any:
    """Return counts of cells as a pandas Series, named `count`, whose index has an attribute's labels.

    Args:
        domain: the attributes.
        clique: attribute names.
        counts: of their cells [size of each attribute].

    Returns:
        The counts, float64 [cells]. Its index is that of one attribute, or a MultiIndex of several, under
        their names: labels as they are given, bins and dates by the names of their cells, codes where there
        is neither, and "missing".

    Raises:
        ImportError: pandas is not installed.

    Example:
        >>> domain = Domain({"sex": {"labels": ["F", "M"]}, "age": {"min": 0, "max": 39, "step": 20}})
        >>> counts = labelled_counts(domain, ("sex", "age"), np.array([[1.0, 2.0], [3.0, 4.0]]))
        >>> float(counts["M", "0 to 19"]), counts.groupby("sex").sum().to_dict()
        (3.0, {'F': 3.0, 'M': 7.0})
    """
    pandas = checks.optional("pandas", extra="demo")
    values = [_labels(domain.attribute(name)) for name in clique]
    if len(clique) == 1:
        index = pandas.Index(values[0], name=clique[0])
    else:
        index = pandas.MultiIndex.from_product(values, names=list(clique))
    return pandas.Series(np.asarray(counts, np.float64).reshape(-1), index, name="count")


def _labels(attribute: Attribute) -> list[Any]:
    """Return what each code of an attribute stands for: labels as they are, names of the other codes."""
    names: list[Any] = list(attribute.code_names())
    if attribute.labels is not None:
        names[: len(attribute.labels)] = attribute.labels
    elif attribute.bins is None:
        regular = attribute.size - attribute.missing
        names[:regular] = range(regular)
    return names
