"""Queries beyond a single product: weighted sums of Kronecker products, and any matrix over joint cells.

The difference of two ranges is such a sum. `transposed` sums the rows of any query, with weights.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.domain import Clique, Domain, same_attributes
from pgmjax.queries import columns, sensitivity
from pgmjax.queries.blocks import FrozenArray, Matrix, contract
from pgmjax.queries.columns import Exact
from pgmjax.queries.query import Product, Query, Term, attribute_names

_MAX_EXPLICIT = 4_000_000


@dataclasses.dataclass(frozen=True, init=False)
class WeightedSum(Query):
    """A sum of coefficients times products over the same attributes, row by row.

    Args:
        terms: pairs (coefficient, product). Coefficients are finite and may be negative. All products
            have the same attributes (in any order; the first one's is used) and numbers of rows.

    Raises:
        TypeError: a term is not a pair of a number and a product.
        ValueError: no term, or products with different attributes.

    Example:
        >>> from pgmjax.queries import point
        >>> query = WeightedSum([(1, Product({"a": point(0)})), (-1, Product({"a": point(1)}))])
        >>> query.apply(np.array([5, 2])).tolist()
        [3]
    """

    coefficients: tuple[int | float, ...]
    products: tuple[Product, ...]

    def __init__(self, terms: Iterable[tuple[float, Product]]) -> None:
        pairs = [_term(term) for term in terms]
        if not pairs:
            raise ValueError("a weighted sum needs at least one term (coefficient, product), got none.")
        clique = pairs[0][1].clique
        for _, product in pairs:
            if not same_attributes(product.clique, clique):
                raise ValueError(
                    f"the terms of a sum must have the same attributes, got {clique} and {product.clique}: "
                    "name the others with queries.total()."
                )
        coefficients, products = zip(*pairs, strict=True)
        ordered = tuple(product.reorder(clique) for product in products)
        checks.set_fields(self, clique=clique, coefficients=coefficients, products=ordered)

    def shape(self, domain: Domain) -> tuple[int, ...]:
        """Return the rows of each attribute's block, the same in all terms."""
        return self.products[0].shape(domain)

    def apply(self, table: Any, xp: Any = np) -> Any:
        """Return the answers [rows of each attribute] to a table [size of each attribute]."""
        answers = [coefficient * product.apply(table, xp) for coefficient, product in self._terms()]
        return sum(answers[1:], start=answers[0])

    def is_integral(self, domain: Domain) -> bool:
        """Return whether every coefficient and every entry is an integer."""
        return all(isinstance(c, int) and product.is_integral(domain) for c, product in self._terms())

    def is_nonnegative(self, domain: Domain) -> bool:
        """Return whether no coefficient and no entry is negative."""
        return all(c >= 0 and product.is_nonnegative(domain) for c, product in self._terms())

    def factors(self, domain: Domain) -> list[Term]:
        """Return the terms: a coefficient and a block for each attribute."""
        return [(c, product.factors(domain)[0][1]) for c, product in self._terms()]

    def reorder(self, clique: Clique) -> WeightedSum:
        """Return the sum with its attributes in another order."""
        return WeightedSum([(c, product.reorder(clique)) for c, product in self._terms()])

    def rename(self, clique: Clique) -> WeightedSum:
        """Return the same query on other attributes, matched by position."""
        return WeightedSum([(c, product.rename(clique)) for c, product in self._terms()])

    def to_spec(self) -> dict[str, Any]:
        """Return the workload-file form: `clique` and `terms`."""
        terms = [
            {"coefficient": c, "queries": product.to_spec().get("queries", {})}
            for c, product in self._terms()
        ]
        return {"clique": list(self.clique), "terms": terms}

    def _over(self, domain: Domain) -> WeightedSum:
        found = [(c, product._over(domain)) for c, product in self._terms()]
        return self if tuple(product for _, product in found) == self.products else WeightedSum(found)

    def _terms(self) -> list[tuple[int | float, Product]]:
        return list(zip(self.coefficients, self.products, strict=True))

    def _check(self, domain: Domain) -> None:
        for product in self.products:
            product.check(domain)
        shapes = {product.shape(domain) for product in self.products}
        if len(shapes) > 1:
            raise ValueError(
                f"the terms of the sum on {self.clique} must have the same rows, got {sorted(shapes)}."
            )

    def _matrix(self, domain: Domain) -> np.ndarray:
        explicit = self._explicit(domain)
        if explicit is not None and explicit[1] == 1:
            return explicit[0]
        matrices = [product.matrix(domain).astype(np.float64) for product in self.products]
        return np.sum([c * m for c, m in zip(self.coefficients, matrices, strict=True)], axis=0)

    def _explicit(self, domain: Domain) -> tuple[np.ndarray, int] | None:
        """Return an integer matrix and its divisor, or None if there is none or it would be too large."""
        entries = self.num_rows(domain) * domain.size(self.clique)
        if entries > _MAX_EXPLICIT or not all(product.is_integral(domain) for product in self.products):
            return None
        # integers over a common divisor, as floats of the terms would not cancel exactly
        divisor = math.lcm(*(Fraction(c).denominator for c in self.coefficients))
        whole = [int(Fraction(c) * divisor) for c in self.coefficients]
        norms = [product._max_column(domain, 1) for product in self.products]
        if sum(abs(c) * norm for c, norm in zip(whole, norms, strict=True)) >= 2**61:
            return None
        matrices = [product.matrix(domain) for product in self.products]
        return np.sum([c * m for c, m in zip(whole, matrices, strict=True)], axis=0), divisor

    def _max_column(self, domain: Domain, power: int) -> Exact:
        explicit = self._explicit(domain)
        if explicit is not None:
            return _divided(columns.max_column(explicit[0], power), explicit[1] ** power)
        return self._combined([product._max_column(domain, power) for product in self.products], power)

    def _max_distance(self, domain: Domain, power: int) -> Exact:
        explicit = self._explicit(domain)
        result = None if explicit is None else columns.max_distance(explicit[0], power)
        if explicit is not None and result is not None:
            return _divided(result, explicit[1] ** power)
        by_terms = self._combined([product._max_distance(domain, power) for product in self.products], power)
        bound = sensitivity.distance_bound(
            self._max_column(domain, power), self.is_nonnegative(domain), power
        )
        return min(by_terms, bound)

    def _row_extremes(self, domain: Domain) -> tuple[Exact, Exact]:
        explicit = self._explicit(domain)
        if explicit is not None:
            entry, spread = columns.entry_and_spread(columns.row_extremes_of_matrix(explicit[0]))
            return _divided(entry, explicit[1]), _divided(spread, explicit[1])
        parts = [product._row_extremes(domain) for product in self.products]
        entries, spreads = zip(*parts, strict=True)
        return self._combined(list(entries), 1), self._combined(list(spreads), 1)

    def _combined(self, norms: list[Exact], power: int) -> Exact:
        """Return the triangle-inequality bound over the terms; exact for one term."""
        if power == 1 or len(norms) == 1:
            pairs = zip(self.coefficients, norms, strict=True)
            total = sum(_divided(Fraction(abs(c)) ** power * norm, 1) for c, norm in pairs)
            return columns.round_up(total, len(norms)) if isinstance(total, float) else total
        # Minkowski: the norms of the terms add up, their squares do not
        roots = [
            abs(float(c)) * columns.exact_sqrt_bound(norm)
            for c, norm in zip(self.coefficients, norms, strict=True)
        ]
        return columns.round_up(math.fsum(roots) ** 2, len(roots))


def _term(term: Any) -> tuple[int | float, Product]:
    if not isinstance(term, tuple | list) or len(term) != 2:
        raise TypeError(f"a term of a sum is a pair (coefficient, product), got {type(term).__name__}.")
    coefficient, product = term
    checks.kind(product, Product, "a term of a sum needs a queries.Product")
    number = checks.number("the coefficient of a term", coefficient)
    return (int(number) if number.is_integer() and abs(number) < 2**53 else number), product


def _divided(value: Exact, divisor: int) -> Exact:
    if isinstance(value, float):
        return columns.round_up(value / divisor, 1)
    return columns.whole(Fraction(value) / divisor)


@dataclasses.dataclass(frozen=True, init=False)
class DenseMatrix(Query):
    """An explicit matrix: any linear queries over the cells of a clique, one per row.

    Args:
        clique: the attributes; cells are numbered row-major in this order.
        entries: [rows, cells], finite; entries may be negative.

    Example:
        >>> query = DenseMatrix(("a", "b"), [[1, -1, 0, 0]])
        >>> query.apply(np.array([[5, 2], [1, 1]])).tolist()
        [3]
    """

    entries: FrozenArray

    def __init__(self, clique: Any, entries: Any) -> None:
        checks.set_fields(self, clique=attribute_names(clique), entries=Matrix(entries).entries)

    def shape(self, domain: Domain) -> tuple[int, ...]:
        """Return (rows,)."""
        return (self.entries.array.shape[0],)

    def apply(self, table: Any, xp: Any = np) -> Any:
        """Return the answers [rows] to a table [size of each attribute]."""
        cells = self.entries.array.shape[1]
        if table.ndim != len(self.clique) or table.size != cells:
            raise ValueError(
                f"expected a table over {self.clique} with {cells} cells, got shape {table.shape}."
            )
        return contract(self.entries.array, xp.reshape(table, (-1,)), 0, xp)

    def is_integral(self, domain: Domain) -> bool:
        """Return whether every entry is an integer."""
        return self.entries.array.dtype == np.int64

    def is_nonnegative(self, domain: Domain) -> bool:
        """Return whether no entry is negative."""
        return bool(self.entries.array.min() >= 0)

    def factors(self, domain: Domain) -> list[Term]:
        """Return one factor if the clique is a single attribute; otherwise refuse."""
        if len(self.clique) == 1:
            return [(1, {self.clique[0]: Matrix(self.entries.array)})]
        raise ValueError(f"a joint matrix over {self.clique} is no product of factors an attribute.")

    def reorder(self, clique: Clique) -> DenseMatrix:
        """Return itself for its own order; refuse any other, since columns would mean different cells."""
        if tuple(clique) != self.clique:
            raise ValueError(
                f"a joint matrix has its columns in the order of {self.clique}, got {tuple(clique)}: give "
                "the clique in that order."
            )
        return self

    def rename(self, clique: Clique) -> DenseMatrix:
        """Return the same query on other attributes, matched by position."""
        if len(clique) != len(self.clique):
            raise ValueError(
                f"expected {len(self.clique)} attributes in place of {self.clique}, got {clique}."
            )
        return DenseMatrix(clique, self.entries.array)

    def to_spec(self) -> dict[str, Any]:
        """Return the workload-file form: `clique` and `matrix`."""
        return {"clique": list(self.clique), "matrix": self.entries.array.tolist()}

    def _check(self, domain: Domain) -> None:
        cells = self.entries.array.shape[1]
        expected = domain.size(self.clique)
        if cells != expected:
            raise ValueError(
                f"the matrix query on {self.clique} must have {expected:,} columns, got {cells:,}."
            )

    def _matrix(self, domain: Domain) -> np.ndarray:
        return self.entries.array

    def _max_column(self, domain: Domain, power: int) -> Exact:
        return columns.max_column(self.entries.array, power)

    def _row_extremes(self, domain: Domain) -> tuple[Exact, Exact]:
        return columns.entry_and_spread(columns.row_extremes_of_matrix(self.entries.array))

    def _max_distance(self, domain: Domain, power: int) -> Exact:
        result = columns.max_distance(self.entries.array, power)
        if result is not None:
            return result
        return sensitivity.distance_bound(self._max_column(domain, power), self.is_nonnegative(domain), power)


def transposed(query: Query, domain: Domain, weights: np.ndarray) -> np.ndarray:
    """Apply a query's transpose, factor by factor if it has factors.

    Args:
        query: the query.
        domain: the domain.
        weights: one number per row of the query, flat [rows].

    Returns:
        float64 [size of each attribute of the query's clique].

    Example:
        >>> from pgmjax.queries import kronecker, prefix
        >>> transposed(kronecker({"a": prefix()}), Domain({"a": 3}), np.array([1.0, 10.0, 100.0]))
        array([111., 110., 100.])
    """
    shape = domain.shape_of(query.clique)
    if isinstance(query, DenseMatrix):
        return np.asarray(query.entries.array.T @ weights, np.float64).reshape(shape)
    result = np.zeros(shape)
    for coefficient, blocks in query.factors(domain):
        table = np.asarray(weights, np.float64).reshape(query.shape(domain))
        for axis, name in enumerate(query.clique):
            table = blocks[name].apply_transposed(table, axis, domain[name])
        result += float(coefficient) * table
    return result
