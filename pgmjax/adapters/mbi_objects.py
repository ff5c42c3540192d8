"""Stand-ins for mbi's objects, without mbi and in NumPy float64.

They provide the common interface of `mbi` 2.0.0 and 1.1.0. For what they lack (factor arithmetic, oracles),
use the real objects: `adapters.mbi.to_mbi(model, mbi_module=mbi)`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.cliques import Clique
from pgmjax.estimation.estimator import Fit
from pgmjax.model.clique_vector import CliqueVector
from pgmjax.model.graphical import GraphicalModel


@dataclasses.dataclass(frozen=True)
class MbiDomain:
    """Stand-in for `mbi.Domain`: names and sizes, compared by these alone.

    Attributes:
        attributes: attribute names, in order.
        shape: attribute sizes, in order.
        labels: values of each attribute, or None.

    Example:
        >>> domain = MbiDomain.fromdict({"a": 2, "b": 3})
        >>> domain.project(("b",)).size(), domain["a"], domain.axes(("b", "a"))
        (3, 2, (1, 0))
    """

    attributes: tuple[str, ...]
    shape: tuple[int, ...]
    labels: tuple[tuple[Any, ...], ...] | None = dataclasses.field(default=None, compare=False)

    @classmethod
    def fromdict(cls, config: Mapping[str, int]) -> MbiDomain:
        """Make a domain from a mapping of names to sizes."""
        return cls(tuple(config), tuple(config.values()))

    @property
    def config(self) -> dict[str, int]:
        """Mapping of names to sizes."""
        return dict(zip(self.attributes, self.shape, strict=True))

    def project(self, attributes: Any) -> MbiDomain:
        """Return the domain of the given attributes, in the given order."""
        places = self.axes(_names(attributes))
        labels = None if self.labels is None else tuple(self.labels[place] for place in places)
        return MbiDomain(_names(attributes), tuple(self.shape[place] for place in places), labels)

    def marginalize(self, attributes: Any) -> MbiDomain:
        """Return the domain without the given attributes."""
        gone = _names(attributes)
        return self.project(tuple(name for name in self.attributes if name not in gone))

    def axes(self, attributes: Sequence[str]) -> tuple[int, ...]:
        """Return the axis index of each given attribute.

        Raises:
            ValueError: an attribute is not in the domain.
        """
        return tuple(self.attributes.index(name) for name in attributes)

    def size(self, attributes: Any = None) -> int:
        """Return the number of cells over the given attributes. Default: all."""
        return math.prod(self.shape if attributes is None else self.project(attributes).shape)

    def supports(self, attributes: Any) -> bool:
        """Return whether the domain contains all given attributes."""
        return set(_names(attributes)) <= set(self.attributes)

    def contains(self, other: Any) -> bool:
        """Return whether the domain contains all attributes of another domain."""
        return self.supports(tuple(other.attributes))

    def canonical(self, attributes: Sequence[str]) -> tuple[str, ...]:
        """Return the given attributes in the order of the domain."""
        return tuple(name for name in self.attributes if name in attributes)

    def __contains__(self, name: object) -> bool:
        return name in self.attributes

    def __getitem__(self, name: str) -> int:
        return self.config[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)


@dataclasses.dataclass(frozen=True, eq=False)
class MbiFactor:
    """Stand-in for `mbi.Factor`: a table over a set of attributes.

    Attributes:
        domain: domain of its axes.
        values: float64 array, one axis per attribute.
    """

    domain: Any
    values: np.ndarray

    def datavector(self, flatten: bool = True) -> np.ndarray:
        """Return the values, flattened row-major [cells] or in their shape."""
        return self.values.reshape(-1) if flatten else self.values

    def project(self, attributes: Any) -> MbiFactor:
        """Sum over all other attributes; axes in the given order."""
        names = _names(attributes)
        kept = self.sum(tuple(name for name in self.domain.attributes if name not in names))
        return kept.transpose(names)

    def sum(self, attributes: Any = None) -> MbiFactor:
        """Sum over the given attributes. Default: all."""
        gone = tuple(self.domain.attributes) if attributes is None else _names(attributes)
        return MbiFactor(self.domain.marginalize(gone), self.values.sum(axis=self.domain.axes(gone)))

    def transpose(self, attributes: Sequence[str]) -> MbiFactor:
        """Return the same table with its axes in the given order."""
        return MbiFactor(self.domain.project(attributes), self.values.transpose(self.domain.axes(attributes)))

    def supports(self, attributes: Any) -> bool:
        """Return whether the table has all given attributes."""
        return bool(self.domain.supports(attributes))

    def __float__(self) -> float:
        if self.values.ndim:
            raise ValueError("only a factor over no attributes is a number: sum it first.")
        return float(self.values)


@dataclasses.dataclass(frozen=True, eq=False)
class MbiCliqueVector:
    """Stand-in for `mbi.CliqueVector`: one factor per clique.

    Attributes:
        domain: domain with all attributes.
        cliques: the cliques.
        tables: factor of each clique.
    """

    domain: Any
    cliques: tuple[Clique, ...]
    tables: dict[Clique, MbiFactor]

    def __getitem__(self, clique: Clique) -> MbiFactor:
        return self.tables[clique]

    def supports(self, attributes: Any) -> bool:
        """Return whether some clique contains all given attributes."""
        return any(set(_names(attributes)) <= set(clique) for clique in self.cliques)

    def project(self, attributes: Any) -> MbiFactor:
        """Return the table over the given attributes, from the smallest clique that contains them.

        Raises:
            ValueError: no clique contains all of them.
        """
        names = _names(attributes)
        held = [clique for clique in self.cliques if set(names) <= set(clique)]
        if not held:
            raise ValueError(f"no clique holds all of {names}.")
        return self.tables[min(held, key=self.domain.size)].project(names)

    def size(self) -> int:
        """Return the total number of cells of all tables."""
        return sum(self.domain.size(clique) for clique in self.cliques)


@dataclasses.dataclass(frozen=True, eq=False)
class MbiDataset:
    """Stand-in for `mbi.Dataset`: columns of codes.

    Attributes:
        data: codes [rows] of each attribute.
        domain: the domain.
    """

    data: dict[str, np.ndarray]
    domain: Any

    def to_dict(self) -> dict[str, np.ndarray]:
        """Return the columns."""
        return dict(self.data)

    @property
    def df(self) -> Any:
        """The rows as a pandas DataFrame, as in mbi 1.1.0."""
        return checks.optional("pandas", extra="demo").DataFrame(self.data)

    @property
    def records(self) -> int:
        """The number of rows."""
        return len(next(iter(self.data.values())))

    @property
    def weights(self) -> np.ndarray:
        """Weights [rows], all equal to one."""
        return np.ones(self.records)

    def datavector(self, flatten: bool = True) -> np.ndarray:
        """Return the counts of all cells of the domain, flattened row-major [cells] or in their shape."""
        return self.project(tuple(self.domain.attributes)).datavector(flatten)

    def project(self, attributes: Any) -> MbiFactor:
        """Return the counts over the given attributes."""
        domain = self.domain.project(_names(attributes))
        cells = np.ravel_multi_index([self.data[name] for name in domain.attributes], tuple(domain.shape))
        counts = np.bincount(cells, minlength=domain.size()).astype(np.float64)
        return MbiFactor(domain, counts.reshape(domain.shape))

    def supports(self, attributes: Any) -> bool:
        """Return whether all given attributes have columns."""
        return bool(self.domain.supports(attributes))


@dataclasses.dataclass(frozen=True, eq=False)
class MbiModel:
    """Stand-in for `mbi.MarkovRandomField`: a fitted model, backed by a `GraphicalModel`.

    Attributes:
        domain: the domain given to the estimation, or an `MbiDomain`.
        model: the underlying model of this library.
        fit: the fit with its certificate; None if the model was not fitted here.
        constraints: the constraints it was fitted under, as given.
    """

    domain: Any
    model: GraphicalModel
    fit: Fit | None = None
    constraints: tuple[Any, ...] = ()

    @property
    def total(self) -> float:
        """The number of records."""
        return self.model.total

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The cliques of its potentials."""
        return self.model.potentials.cliques

    @property
    def potentials(self) -> MbiCliqueVector:
        """Natural-log potentials."""
        return vector(self.domain, self.model.potentials)

    @property
    def marginals(self) -> MbiCliqueVector:
        """Expected counts of each clique."""
        tables = tuple(self.model.marginal(clique) for clique in self.cliques)
        return vector(self.domain, CliqueVector(self.cliques, tables))

    def project(self, attributes: Any) -> MbiFactor:
        """Return the expected counts over any attributes, whether or not they share a clique."""
        names = _names(attributes)
        table = self.model.marginal(names) if names else np.array(self.total)
        return MbiFactor(self.domain.project(names), table)

    def supports(self, attributes: Any) -> bool:
        """Return whether the model has all given attributes."""
        return bool(self.domain.supports(attributes))

    def synthetic_data(self, rows: int | None = None, method: str = "round", seed: int = 0) -> MbiDataset:
        """Draw synthetic rows. Unlike in mbi, equal seeds give equal rows.

        Args:
            rows: number of rows, at least one. Default: the total.
            method: `round` (rows allotted as evenly as whole numbers allow) or `sample` (independent rows).
            seed: seed of the draw.

        Raises:
            ValueError: unknown method.
        """
        words = {"round": "round", "sample": "multinomial"}
        method = words[checks.choice("method", method, tuple(words))]
        drawn = self.model.sample(max(1, int(rows or self.total)), seed, method=method)
        return MbiDataset({name: drawn[name] for name in self.domain.attributes}, self.domain)


def vector(domain: Any, tables: CliqueVector) -> MbiCliqueVector:
    """Return a clique vector as its mbi stand-in."""
    pairs = tables.items()
    factors = {clique: MbiFactor(domain.project(clique), np.asarray(table)) for clique, table in pairs}
    return MbiCliqueVector(domain, tables.cliques, factors)


def _names(attributes: Any) -> tuple[str, ...]:
    return (attributes,) if isinstance(attributes, str) else tuple(attributes)
