"""Kronecker products of blocks, one per attribute: marginals, multivariate CDFs, grids of ranges."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.cliques import Clique, same_attributes
from pgmjax.data.domain import Domain
from pgmjax.queries import columns, sensitivity
from pgmjax.queries.block import AttributeQuery
from pgmjax.queries.blocks import Identity
from pgmjax.queries.columns import Exact
from pgmjax.queries.query import Query, Term, attribute_names


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
        return _max_distance(tuple(self._bound(domain)), power)


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


@functools.lru_cache(maxsize=256)
def _max_distance(factors: tuple[sensitivity.Bound, ...], power: int) -> Exact:
    return sensitivity.product_max_distance(factors, power)
