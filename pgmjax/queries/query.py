"""The interface of a query on a clique, and Kronecker products of blocks, one block per attribute.

Products are marginals, multivariate CDFs, grids of ranges.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.migration import Named, instead
from pgmjax.data.domain import Clique, Domain, as_clique, same_attributes
from pgmjax.data.relation import Relation
from pgmjax.queries import columns, sensitivity
from pgmjax.queries.blocks import AttributeQuery, Identity
from pgmjax.queries.columns import Exact

MAX_MATRIX_ENTRIES = 50_000_000
"""The most entries an explicit matrix may have (400 MB)."""

Term = tuple[int | float, dict[str, AttributeQuery]]


@dataclasses.dataclass(frozen=True)
class Query(Named):
    """Linear answers about a table: a matrix over the cells of a clique, seldom written out.

    Cells and rows are numbered row-major in the order of `clique`. Entries may be negative. Queries
    are hashable and compared by content, so they can be static arguments under `jax.jit`.

    Attributes:
        clique: the attributes, in the order of the table's axes.
    """

    clique: Clique

    __and__ = __or__ = instead(
        "Conditions join, not queries: history.builders.equals('sex', 'F') & history.builders.between('age', "
        "18, 64), and then .query(domain)."
    )

    @abc.abstractmethod
    def shape(self, domain: Domain) -> tuple[int, ...]:
        """Return the shape of the answers: rows of each attribute, or (rows,) for a joint matrix."""

    @abc.abstractmethod
    def apply(self, table: Any, xp: Any = np) -> Any:
        """Return the answers, in the shape of `shape`.

        Args:
            table: [size of each attribute], the clique's table, NumPy or JAX. Integers stay exact in
                NumPy if the query `is_integral`.
            xp: the module of the array, `numpy` or `jax.numpy`.
        """

    @abc.abstractmethod
    def is_integral(self, domain: Domain) -> bool:
        """Return whether every entry is an integer."""

    @abc.abstractmethod
    def is_nonnegative(self, domain: Domain) -> bool:
        """Return whether all entries are nonnegative; a sum may report False although they are."""

    @abc.abstractmethod
    def factors(self, domain: Domain) -> list[Term]:
        """Return the query as a sum of coefficients times Kronecker products, attribute by attribute.

        Raises:
            ValueError: the query is a joint matrix over several attributes, which has no such form.
        """

    @abc.abstractmethod
    def reorder(self, clique: Clique) -> Query:
        """Return the same query with its attributes, and so its rows, in another order.

        Raises:
            ValueError: different attributes, or a joint matrix, whose column order is fixed.
        """

    @abc.abstractmethod
    def rename(self, clique: Clique) -> Query:
        """Return the same query on other attributes, matched by position."""

    @abc.abstractmethod
    def to_spec(self) -> dict[str, Any]:
        """Return the workload-file form: a mapping with `clique` and the query on it."""

    @property
    def is_identity(self) -> bool:
        """True if the answers are the cells themselves, as those of a marginal are."""
        return False

    def _over(self, domain: Domain) -> Query:
        """Return the query, whose attributes have their names in the domain, with its values as codes."""
        return self

    @abc.abstractmethod
    def _check(self, domain: Domain) -> None:
        """Refuse a domain whose sizes do not fit; it has the attributes."""

    @abc.abstractmethod
    def _matrix(self, domain: Domain) -> np.ndarray:
        """Return the explicit matrix [rows, cells], of any size."""

    @abc.abstractmethod
    def _max_column(self, domain: Domain, power: int) -> Exact:
        """Return the largest sum over a column of ``abs(entry) ** power``, or a bound, for power 1 or 2."""

    @abc.abstractmethod
    def _max_distance(self, domain: Domain, power: int) -> Exact:
        """Return the largest sum over rows of ``abs(difference of two columns) ** power``, or a bound."""

    @abc.abstractmethod
    def _row_extremes(self, domain: Domain) -> tuple[Exact, Exact]:
        """Return the largest magnitude of an entry and the largest difference of two in one row."""

    def remembered(self, key: Any, domain: Domain, compute: Callable[[], Any]) -> Any:
        """Return what was computed for a key and this domain, or compute it now.

        A query never changes, so its properties in a domain are the same whenever they are asked for.
        """
        found = self._remembered.get(key)
        # by identity: to compare two domains would take longer than most of what is remembered
        if found is None or found[0] is not domain:
            found = self._remembered[key] = (domain, compute())
        return found[1]

    @functools.cached_property
    def _remembered(self) -> dict[Any, tuple[Domain, Any]]:  # as what is cached is no part of a query
        return {}

    def check(self, domain: Domain) -> None:
        """Refuse a domain that lacks an attribute or has sizes that do not fit the query.

        Raises:
            ValueError: an attribute is missing or its size does not fit.
        """
        as_clique(domain, self.clique, exact=True)
        self._check(domain)

    def over(self, domain: Domain) -> Query:
        """Return the query with labels as codes and attributes as the domain writes them, checked.

        Raises:
            ValueError: an attribute or a value is not in the domain, or a size does not fit.

        Example:
            >>> from pgmjax.queries import kronecker, point
            >>> domain = Domain({"cut": {"labels": ["Fair", "Ideal"]}})
            >>> kronecker({"Cut": point("Ideal")}).over(domain).to_spec()
            {'clique': ['cut'], 'queries': {'cut': {'point': 1}}}
        """
        clique = as_clique(domain, self.clique)
        found = (self if clique == self.clique else self.rename(clique))._over(domain)
        found._check(domain)
        return found

    def num_rows(self, domain: Domain) -> int:
        """Return the number of answers."""
        return math.prod(self.shape(domain))

    def matrix(self, domain: Domain) -> np.ndarray:
        """Return the explicit matrix [rows, cells], int64 when `is_integral`, float64 otherwise.

        Raises:
            ValueError: it would have more than `MAX_MATRIX_ENTRIES` entries.
        """
        self.check(domain)
        rows, cells = self.num_rows(domain), domain.size(self.clique)
        if rows * cells > MAX_MATRIX_ENTRIES:
            raise ValueError(
                f"the matrix of this query on {self.clique} would have {rows:,} x {cells:,} entries, above "
                f"the limit of {MAX_MATRIX_ENTRIES:,}: use apply, which needs no matrix."
            )
        return self._matrix(domain)

    def l1_sensitivity(self, relation: Relation, domain: Domain, max_weight: int | None = None) -> Exact:
        """Return the largest L1 change of the answers between neighbouring tables.

        Args:
            relation: which tables are neighbours.
            domain: the domain of the table.
            max_weight: for weighted data, the largest weight of a record (public). Default: no weights.

        Guarantees:
            Add/remove: the largest column norm. Replace one: the largest distance between two columns,
            exact where it can be computed (a single attribute or a joint matrix up to 4096 cells,
            Kronecker products that keep an attribute, or have entries -1, 0, 1 and at most 1024 codes
            per attribute), otherwise the upper bound of twice the column norm. With weights 0..W: W
            times that; under replace one, W times the larger of the distance and the column norm, since
            a record of weight W may become one of weight 0.
            Integers and fractions are exact; a float is never below the exact value.
        """
        return self._sensitivity(relation, domain, max_weight, 1)

    def l2_sensitivity_squared(
        self, relation: Relation, domain: Domain, max_weight: int | None = None
    ) -> Exact:
        """Return the largest squared L2 change of the answers between neighbouring tables.

        Args:
            relation: which tables are neighbours.
            domain: the domain of the table.
            max_weight: for weighted data, the largest weight of a record (public). Default: no weights.

        Guarantees:
            As in `l1_sensitivity`, but exact for products with any entries too. If the replace-one
            distance cannot be computed, the upper bound is twice the squared column norm for
            nonnegative entries and four times otherwise. Weights multiply by ``max_weight**2``.
        """
        return self._sensitivity(relation, domain, max_weight, 2)

    def linf_sensitivity(self, relation: Relation, domain: Domain, max_weight: int | None = None) -> Exact:
        """Return the largest change of any single answer between neighbouring tables.

        Args:
            relation: which tables are neighbours.
            domain: the domain of the table.
            max_weight: for weighted data, the largest weight of a record (public). Default: no weights.

        Guarantees:
            Add/remove: the largest magnitude of an entry. Replace one: the largest difference between
            two entries of one row, so 1 for a count and 2 for a row with entries from -1 to 1. Weights
            as in `l1_sensitivity`. Exact for joint matrices, for sums of integral products up to four
            million entries, and for products except those of many factors with thousands of distinct
            rows each; otherwise an upper bound.
        """
        relation, weight = self._neighbours(relation, domain, max_weight)
        entry, spread = self._row_extremes(domain)
        if relation is Relation.ADD_REMOVE:
            return entry * weight
        # a record may also become one of weight 0, which moves an answer by its whole entry
        return (spread if max_weight is None else max(spread, entry)) * weight

    def _neighbours(self, relation: Any, domain: Domain, max_weight: int | None) -> tuple[Relation, int]:
        relation = Relation.parse(relation)
        weight = 1 if max_weight is None else checks.integer("max_weight", max_weight, low=1)
        self.check(domain)
        return relation, weight

    def _sensitivity(self, relation: Relation, domain: Domain, max_weight: int | None, power: int) -> Exact:
        relation, weight = self._neighbours(relation, domain, max_weight)
        if relation is Relation.ADD_REMOVE:
            return self._max_column(domain, power) * weight**power
        result = self._max_distance(domain, power)
        if max_weight is not None:
            result = max(result, self._max_column(domain, power))
        return result * weight**power


class _AnyName:
    def __contains__(self, name: object) -> bool:
        return True


def attribute_names(attributes: Any) -> Clique:
    """Return attribute names as a clique, checked without a domain."""
    return as_clique(_AnyName(), attributes)


@dataclasses.dataclass(frozen=True, init=False)
class Product(Query):
    """A Kronecker product: one row for every combination of the blocks' rows.

    Args:
        blocks: a block for each attribute, in the clique's order.

    Raises:
        TypeError: not a mapping of names to blocks.
        ValueError: no attribute.

    Example:
        >>> from pgmjax.data.domain import Domain
        >>> from pgmjax.queries import prefix, total
        >>> query = Product({"age": prefix(), "sex": total()})
        >>> query.apply(np.array([[1, 2], [3, 4]])).tolist()
        [[3], [10]]
        >>> query.num_rows(Domain({"age": 2, "sex": 2}))
        2

    References:
        McKenna et al. 2019, Definition 4 and Appendix B.1.
    """

    blocks: tuple[AttributeQuery, ...]

    def __init__(self, blocks: Mapping[str, AttributeQuery]) -> None:
        said = "a product needs a mapping of attribute names to query blocks"
        checks.kind(blocks, Mapping, said, "write, for example, {'age': prefix(), 'sex': point(0)}")
        object.__setattr__(self, "clique", attribute_names(list(blocks)))
        for name, block in blocks.items():
            checks.kind(
                block,
                AttributeQuery,
                f"the query of attribute {name!r} must be a block such as queries.prefix(), "
                "queries.point('F') or queries.subset(['F', 'M'])",
            )
        object.__setattr__(self, "blocks", tuple(blocks.values()))

    @functools.cached_property
    def is_identity(self) -> bool:
        """True if the answers are the cells themselves."""
        return all(block.kind == "identity" for block in self.blocks)

    def shape(self, domain: Domain) -> tuple[int, ...]:
        """Return the rows of each attribute's block."""
        return tuple(block.rows(domain[name]) for name, block in self._items())

    def apply(self, table: Any, xp: Any = np) -> Any:
        """Return the answers [rows of each attribute] to a table [size of each attribute]."""
        if table.ndim != len(self.clique):
            raise ValueError(
                f"expected a table with an axis for each of {self.clique}, got shape {table.shape}."
            )
        # axes that shrink come first, so that the others work on smaller tables
        growth = [block.rows(size) / size for block, size in zip(self.blocks, table.shape, strict=True)]
        for axis in sorted(range(table.ndim), key=growth.__getitem__):
            table = self.blocks[axis].apply(table, axis, xp)
        return table

    def is_integral(self, domain: Domain) -> bool:
        """Return whether every entry is an integer."""
        return all(block.is_integral(domain[name]) for name, block in self._items())

    def is_nonnegative(self, domain: Domain) -> bool:
        """Return whether no entry is negative."""
        return all(block.is_nonnegative(domain[name]) for name, block in self._items())

    def factors(self, domain: Domain) -> list[Term]:
        """Return the one term: coefficient 1 and a block for each attribute."""
        return [(1, dict(self._items()))]

    def reorder(self, clique: Clique) -> Product:
        """Return the product with its attributes in another order."""
        if not same_attributes(self.clique, clique):
            raise ValueError(f"expected the attributes {self.clique} in another order, got {clique}.")
        blocks = dict(self._items())
        return Product({name: blocks[name] for name in clique})

    def rename(self, clique: Clique) -> Product:
        """Return the same query on other attributes, matched by position."""
        return Product(dict(zip(clique, self.blocks, strict=True)))

    def to_spec(self) -> dict[str, Any]:
        """Return the workload-file form: `clique`, and `queries` for the blocks other than identity."""
        specs = {name: block.to_spec() for name, block in self._items() if block.kind != "identity"}
        return {"clique": list(self.clique), **({"queries": specs} if specs else {})}

    def _over(self, domain: Domain) -> Product:
        found = {name: block.over(domain.attribute(name)) for name, block in self._items()}
        return self if tuple(found.values()) == self.blocks else Product(found)

    def _items(self) -> tuple[tuple[str, AttributeQuery], ...]:
        return tuple(zip(self.clique, self.blocks, strict=True))

    def _bound(self, domain: Domain) -> list[sensitivity.Bound]:
        return [(block, domain[name]) for name, block in self._items()]

    def _check(self, domain: Domain) -> None:
        for name, block in self._items():
            block.check(domain[name], f"attribute {name!r}")

    def _matrix(self, domain: Domain) -> np.ndarray:
        return sensitivity.kronecker_matrix([block.matrix(size) for block, size in self._bound(domain)])

    def _max_column(self, domain: Domain, power: int) -> Exact:
        return math.prod(block.max_column(size, power) for block, size in self._bound(domain))

    def _row_extremes(self, domain: Domain) -> tuple[Exact, Exact]:
        rows = [block.row_extremes(size) for block, size in self._bound(domain)]
        return columns.entry_and_spread(columns.row_extremes_of_product(rows))

    def _max_distance(self, domain: Domain, power: int) -> Exact:
        return sensitivity.product_max_distance(tuple(self._bound(domain)), power)


def marginal(clique: Any) -> Product:
    """Return the query for every cell of a marginal: identity on each attribute.

    Example:
        >>> marginal(("age", "sex")).clique
        ('age', 'sex')
    """
    return Product({name: Identity() for name in attribute_names(clique)})


def kronecker(blocks: Mapping[str, AttributeQuery]) -> Product:
    """Return the Kronecker product of blocks: the same as `Product`.

    Example:
        >>> from pgmjax.queries import prefix, identity
        >>> kronecker({"age": prefix(), "sex": identity()}).clique
        ('age', 'sex')
    """
    return Product(blocks)
