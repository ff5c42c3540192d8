"""Rows of a query matrix over the whole domain, in factored form: never written out.

This is the polynomial form of the paper: row i of a query matrix, as a function of a cell t, is the sum over
its terms of ``coefficient * product over attributes k of vector_k[t_k]``. Distinct vectors of an attribute
are stored once. Vector 0 is all ones, for attributes that a term does not name.

A query is estimable if a combination of others determines it: a bound is computed on what is left of it. The
norm of the residual, a mean over all cells, is not informative on a large domain: a query that differs in one
cell out of 10^12 has nearly the same norm, yet every record may be in that cell. Here the difference is
expanded in bases of every attribute's vectors, the constant first, in which equal parts of different terms
cancel. The sum of the absolute coefficients bounds its largest entry.

References:
    Chen, Zhou and Bhowmick 2012, "Integrating historical noisy answers", equations 9 and 13.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.domain import Domain
from pgmjax.history.prior import ProductPrior
from pgmjax.queries import DenseMatrix, Query
from pgmjax.queries import text as query_text
from pgmjax.queries.blocks import AttributeQuery
from pgmjax.queries.query import MAX_MATRIX_ENTRIES

MAX_JOINT_CELLS = 4_000_000
"""Largest number of cells for which the entries of a row with several terms are enumerated."""

MAX_BLOCK = 4_000_000
"""Largest number of entries of the intermediate arrays formed at once."""

Part = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Owner, coefficients and index of some terms."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """Linear queries over a whole domain, each a sum of terms of one vector per attribute.

    Entry t of row i is the sum over its terms of ``coefficient * product of vectors[k][index[:, k]][t_k]``.

    Attributes:
        domain: the attributes.
        num_rows: number of rows.
        owner: the row of each term, nondecreasing, int64 [terms].
        coefficients: float64 [terms].
        index: int32 [terms, attributes]: which of `vectors` each term uses; 0 for attributes it does not
            name.
        vectors: the distinct vectors of each attribute, float64 [distinct, size]; the first is ones.

    Example:
        >>> from pgmjax.queries import Product, prefix
        >>> rows = Rows.of([Product({"age": prefix()})], Domain({"age": 3, "sex": 2}))
        >>> rows.matrix().tolist()
        [[1.0, 1.0, 0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]]

    References:
        Chen, Zhou and Bhowmick 2012, equation 9.
    """

    domain: Domain
    num_rows: int
    owner: np.ndarray
    coefficients: np.ndarray
    index: np.ndarray
    vectors: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, queries: Query | Iterable[Query] | Rows, domain: Domain) -> Rows:
        """Return the rows of one query or of several, in order, or rows over the domain as they are.

        Raises:
            TypeError: something is not a query.
            ValueError: a query does not fit the domain, or rows are over another one.
        """
        checks.kind(queries, Query | Iterable | Rows, "queries must be queries or Rows")
        if isinstance(queries, Rows):
            if queries.domain.sizes != domain.sizes:
                raise ValueError(f"the rows must be over {domain!r}, got rows over {queries.domain!r}.")
            return queries
        listed = [queries] if isinstance(queries, Query | str) else queries
        several = [query_text.asked(domain, each) for each in listed]
        tables = [VectorTable(size) for size in domain.shape]
        parts: list[Part] = []
        start = 0
        for asked in several:
            if isinstance(asked, DenseMatrix) and len(asked.clique) > 1:
                parts.append(_of_joint(asked, domain, tables, start))
            else:
                parts.extend(_of_products(asked, domain, tables, start))
            start += asked.num_rows(domain)
        return _assembled(domain, start, parts, tables)

    @property
    def num_terms(self) -> int:
        """The number of terms of all rows."""
        return len(self.owner)

    @functools.cached_property
    def groups(self) -> tuple[TermGroup, ...]:
        """The terms by the attributes they name."""
        if not self.num_terms:
            return ()
        # a bit an attribute, so that rows of few bytes are compared
        packed = np.packbits(self.index != 0, axis=1)
        _, first, which = np.unique(packed, axis=0, return_index=True, return_inverse=True)
        # stable, so that owners stay ascending within a group
        order = np.argsort(which.reshape(-1), kind="stable")
        ends = np.cumsum(np.bincount(which.reshape(-1)))
        groups: list[TermGroup] = []
        for at, numbers in zip(first, np.split(order, ends[:-1]), strict=True):
            attributes = tuple(int(place) for place in np.flatnonzero(self.index[at]))
            rows, starts = np.unique(self.owner[numbers], return_index=True)
            groups.append(TermGroup(attributes, numbers, rows, starts))
        return tuple(sorted(groups, key=lambda group: int(group.rows[0])))

    def nested(self) -> np.ndarray:
        """Return whether a row counts a part of what another counts, bool [rows, rows].

        It does if no entry is below 0, and none above that of the other row; rows of several terms are left
        out.

        Example:
            >>> from pgmjax.queries import Product, prefix
            >>> Rows.of([Product({"age": prefix()})], Domain({"age": 2, "sex": 2})).nested().tolist()
            [[True, True], [False, True]]
        """
        alone = np.flatnonzero(np.bincount(self.owner, minlength=self.num_rows) == 1)
        term = np.searchsorted(self.owner, alone)
        factors = self.coefficients[term]
        inside = (factors[:, None] <= factors) & (factors >= 0)[:, None]
        for vectors, at in zip(self.vectors, self.index[term].T, strict=True):
            inside &= _below(vectors)[at[:, None], at]
        found = np.zeros((self.num_rows, self.num_rows), bool)
        found[np.ix_(alone, alone)] = inside
        return found

    def take(self, rows: Any) -> Rows:
        """Return the selected rows, in the given order: indices, a slice or a mask [rows]."""
        wanted = np.arange(self.num_rows)[rows].reshape(-1)
        low = np.searchsorted(self.owner, wanted, side="left")
        counts = np.searchsorted(self.owner, wanted, side="right") - low
        owner = np.repeat(np.arange(len(wanted)), counts)
        starts = np.cumsum(counts) - counts
        picked = np.arange(len(owner)) + (low - starts)[owner]
        return Rows(
            self.domain, len(wanted), owner, self.coefficients[picked], self.index[picked], self.vectors
        )

    def concatenated(self, *others: Rows) -> Rows:
        """Return these rows followed by those of others.

        Raises:
            ValueError: the others have another domain.
        """
        tables = [VectorTable(size) for size in self.domain.shape]
        parts: list[Part] = []
        start = 0
        for each in (self, *others):
            if each.domain != self.domain:
                raise ValueError(f"expected rows over {self.domain!r}, got rows over {each.domain!r}.")
            numbers = [table.add(vectors) for table, vectors in zip(tables, each.vectors, strict=True)]
            index = np.stack([n[each.index[:, k]] for k, n in enumerate(numbers)], axis=1)
            parts.append((each.owner + start, each.coefficients, index))
            start += each.num_rows
        return _assembled(self.domain, start, parts, tables)

    def mean(self, prior: ProductPrior | None = None) -> np.ndarray:
        """Return each row's mean entry under a product prior [rows]: its expected answer for one record."""
        prior = prior_over(self.domain, prior)
        means = self.coefficients.copy()
        for place, vectors in enumerate(self.vectors):
            means *= (vectors @ prior.probabilities[place])[self.index[:, place]]
        return np.bincount(self.owner, means, minlength=self.num_rows)

    def evaluate(self, cells: np.ndarray) -> np.ndarray:
        """Return the entries at the given cells [cells, rows].

        Args:
            cells: codes, int [cells, attributes], columns in the domain's order.
        """
        cells = np.asarray(cells)
        values = np.broadcast_to(self.coefficients, (len(cells), self.num_terms)).copy()
        for place, vectors in enumerate(self.vectors):
            values *= vectors[:, cells[:, place]].T[:, self.index[:, place]]
        result = np.zeros((len(cells), self.num_rows))
        if self.num_terms:
            present, starts = np.unique(self.owner, return_index=True)
            result[:, present] = np.add.reduceat(values, starts, axis=1)
        return result

    def matrix(self) -> np.ndarray:
        """Return all entries, float64 [rows, cells of the domain], cells row-major.

        Raises:
            ValueError: there would be more than `MAX_MATRIX_ENTRIES` entries.
        """
        cells = self.domain.size()
        if self.num_rows * cells > MAX_MATRIX_ENTRIES:
            raise ValueError(
                f"the matrix of {self.num_rows:,} rows over {cells:,} cells would have more than "
                f"{MAX_MATRIX_ENTRIES:,} entries: use the kernel, which needs none of them."
            )
        return self._entries(tuple(range(len(self.domain))), np.arange(self.num_terms), self.num_rows)

    def extremes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the least and the largest entry of every row [rows], [rows].

        Exact for rows of one term, and for rows whose terms together name up to `MAX_JOINT_CELLS` cells.
        Otherwise the sums of the terms' extremes, which are outer bounds.
        """
        low, high = self.coefficients.copy(), self.coefficients.copy()
        for place, vectors in enumerate(self.vectors):
            least, most = (f(axis=1)[self.index[:, place]] for f in (vectors.min, vectors.max))
            # a negative factor turns the ends around
            ends = np.stack([low * least, low * most, high * least, high * most])
            low, high = ends.min(axis=0), ends.max(axis=0)
        lows = np.bincount(self.owner, low, minlength=self.num_rows)
        highs = np.bincount(self.owner, high, minlength=self.num_rows)
        counts = np.bincount(self.owner, minlength=self.num_rows)
        starts = np.cumsum(counts) - counts
        for row in np.flatnonzero(counts > 1):
            numbers = np.arange(starts[row], starts[row] + counts[row])
            named = tuple(int(k) for k in np.flatnonzero(self.index[numbers].any(axis=0)))
            if math.prod(self.domain.shape[k] for k in named) <= MAX_JOINT_CELLS:
                entries = self._entries(named, numbers, 1, first=int(row))
                lows[row], highs[row] = entries.min(), entries.max()
        return lows, highs

    def largest(self) -> np.ndarray:
        """Return the largest magnitude of an entry of every row [rows]; see `extremes`."""
        low, high = self.extremes()
        return np.maximum(-low, high)

    def _entries(
        self, attributes: tuple[int, ...], numbers: np.ndarray, rows: int, first: int = 0
    ) -> np.ndarray:
        """Return entries [rows, cells of the attributes] of the given terms, summed by owner."""
        result = np.zeros((rows, math.prod(self.domain.shape[k] for k in attributes)))
        for number in numbers:
            table = np.full(1, self.coefficients[number])
            for place in attributes:
                table = np.multiply.outer(table, self.vectors[place][self.index[number, place]]).reshape(-1)
            result[self.owner[number] - first] += table
        return result

    def __len__(self) -> int:
        return self.num_rows

    def __repr__(self) -> str:
        return f"Rows({self.num_rows:,} rows of {self.num_terms:,} terms over {len(self.domain)} attributes)"


def prior_over(domain: Domain, prior: ProductPrior | None) -> ProductPrior:
    """Return a prior over a domain, the uniform one for None.

    Raises:
        TypeError: it is no `ProductPrior`.
        ValueError: it is over another domain.
    """
    if prior is None:
        return ProductPrior.uniform(domain)
    checks.kind(
        prior,
        ProductPrior,
        "the prior must be a ProductPrior",
        "write ProductPrior(domain, {name: shares})",
    )
    if (prior.domain.attributes, prior.domain.shape) != (domain.attributes, domain.shape):
        raise ValueError(f"the prior must be over {domain!r}, got one over {prior.domain!r}.")
    return prior


@dataclasses.dataclass(frozen=True)
class TermGroup:
    """A group of terms over the same attributes.

    Attributes:
        attributes: positions of the attributes in the domain, ascending; empty for constants.
        terms: indices of the terms, ascending [terms].
        rows: rows that have any of these terms, ascending [rows].
        starts: start of each row's terms in `terms` [rows].
    """

    attributes: tuple[int, ...]
    terms: np.ndarray
    rows: np.ndarray
    starts: np.ndarray

    @property
    def single(self) -> bool:
        """Return whether every row has one term."""
        return len(self.rows) == len(self.terms)


def kronecker(table: np.ndarray, factors: Iterable[np.ndarray]) -> np.ndarray:
    """Multiply [terms, cells] by one vector per term of each further attribute: [terms, cells * sizes]."""
    for vectors in factors:
        table = (table[:, :, None] * vectors[:, None, :]).reshape(len(table), -1)
    return table


@dataclasses.dataclass(frozen=True, eq=False)
class VectorProducts:
    """The products of terms' vectors on some attributes, as a linear map between terms and cells.

    Attributes:
        terms: the number of terms.
        shape: the sizes of the attributes.
        vectors: the distinct vectors of the terms on each attribute [distinct, size].
        numbers: which of them each term has [terms].
        selects: whether each vector selects a single code, by attribute.
    """

    terms: int
    shape: tuple[int, ...]
    vectors: tuple[np.ndarray, ...]
    numbers: tuple[np.ndarray, ...]
    selects: tuple[bool, ...]

    @classmethod
    def of(cls, rows: Rows, terms: np.ndarray, attributes: Sequence[int]) -> VectorProducts:
        """Return the products of some terms of rows on some attributes, by position."""
        pairs = [np.unique(rows.index[terms, k], return_inverse=True) for k in attributes]
        vectors = [rows.vectors[k][distinct] for k, (distinct, _) in zip(attributes, pairs, strict=True)]
        selects = [bool(((v != 0).sum(axis=1) == 1).all() and (v.max(axis=1) == 1).all()) for v in vectors]
        shape, numbers = [v.shape[1] for v in vectors], [which.reshape(-1) for _, which in pairs]
        return cls(len(terms), tuple(shape), tuple(vectors), tuple(numbers), tuple(selects))

    @functools.cached_property
    def counts(self) -> tuple[int, ...]:
        """The number of codes of each attribute whose vectors select one, else of distinct vectors."""
        return tuple(v.shape[1] if one else len(v) for v, one in zip(self.vectors, self.selects, strict=True))

    @functools.cached_property
    def places(self) -> np.ndarray | None:
        """The place of each term among all combinations of codes, or else of distinct vectors [terms].

        None if single terms cost less than all combinations.
        """
        if not all(self.selects) and not _few(self.counts, self.shape, self.terms):
            return None
        each = zip(self.vectors, self.numbers, self.selects, strict=True)
        at = [v.argmax(axis=1)[n] if one else n for v, n, one in each]
        return np.ravel_multi_index(at, self.counts) if at else np.zeros(self.terms, np.int64)

    def table(self, amounts: np.ndarray) -> np.ndarray:
        """Return the sum over terms of amount [terms] times product [size of each attribute]."""
        if self.places is None:
            result = np.zeros((math.prod(self.shape[:-1]), self.shape[-1]))
            for some, left, last in self._blocks():
                result += left.T @ (amounts[some, None] * last)
            return result.reshape(self.shape)
        table = np.bincount(self.places, amounts, math.prod(self.counts)).reshape(self.counts)
        return self._contracted(table, 0)

    def sums(self, table: np.ndarray) -> np.ndarray:
        """Return for each term the sum over cells of a table times its product [terms]."""
        if self.places is None:
            result = np.empty(self.terms)
            flat = table.reshape(-1, self.shape[-1])
            for some, left, last in self._blocks():
                result[some] = np.sum((left @ flat) * last, axis=1)
            return result
        return self._contracted(table.reshape(self.shape), 1).reshape(-1)[self.places]

    def _contracted(self, table: np.ndarray, axis: int) -> np.ndarray:
        """Return a table contracted with the vectors of each attribute, along an axis of these."""
        turned = (*range(1, table.ndim), 0)
        for vectors, one in zip(self.vectors, self.selects, strict=True):
            # each step takes the first axis and appends its own, so that at the end all are in order
            table = table.transpose(turned) if one else np.tensordot(table, vectors, (0, axis))
        return table

    def _blocks(self) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Yield products of all vectors but the last [terms, cells], and the last ones, block by block."""
        step = max(1, MAX_BLOCK // math.prod(self.shape[:-1]))
        for start in range(0, self.terms, step):
            some = slice(start, start + step)
            *others, last = (v[n[some]] for v, n in zip(self.vectors, self.numbers, strict=True))
            yield some, kronecker(np.ones((len(last), 1)), others), last


def _few(counts: Iterable[int], shape: tuple[int, ...], terms: int) -> bool:
    """Return whether combinations of distinct vectors cost less than individual terms."""
    return math.prod(counts) <= max(4096, terms * math.prod(shape[:-1]))


class VectorTable:
    """The distinct vectors seen so far on one attribute, numbered in order of appearance."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._numbers: dict[bytes, int] = {}
        self.vectors: list[np.ndarray] = []
        self._blocks: dict[AttributeQuery, np.ndarray] = {}
        self.add(np.ones((1, size)))

    def add(self, vectors: np.ndarray) -> np.ndarray:
        """Add vectors [n, size] and return their numbers [n]."""
        vectors = np.ascontiguousarray(vectors, np.float64) + 0.0  # no negative zeros
        result = np.empty(len(vectors), np.int32)
        for place, vector in enumerate(vectors):
            key = vector.tobytes()
            number = self._numbers.setdefault(key, len(self.vectors))
            if number == len(self.vectors):
                self.vectors.append(vector)
            result[place] = number
        return result

    def block(self, block: AttributeQuery) -> np.ndarray:
        """Return the numbers [rows] of a block's rows."""
        if block not in self._blocks:
            self._blocks[block] = self.add(block.matrix(self._size))
        return self._blocks[block]


def _below(vectors: np.ndarray) -> np.ndarray:
    """Return whether no entry of a vector is below 0 or above that of another, bool [vectors, vectors]."""
    positive = (vectors > 0).astype(np.float32)
    above = positive @ (1 - positive).T  # over how many entries one is above 0 where the other is not
    below = np.equal(above, 0) & np.all(vectors >= 0, axis=1, keepdims=True)
    if not np.isin(vectors, (0, 1)).all():
        for place, one in enumerate(vectors):
            near = np.flatnonzero(below[place])
            below[place, near] = (one <= vectors[near]).all(axis=1)
    return below


def _assembled(domain: Domain, num_rows: int, parts: list[Part], tables: list[VectorTable]) -> Rows:
    """Return the nonzero terms of all parts, sorted by row."""
    vectors = [np.stack(table.vectors) for table in tables]
    owner = np.concatenate([np.zeros(0, np.int64), *(part[0] for part in parts)])
    coefficients = np.concatenate([np.zeros(0), *(part[1] for part in parts)])
    index = np.concatenate([np.zeros((0, len(tables)), np.int32), *(part[2] for part in parts)])
    keep = np.asarray(coefficients != 0)
    for place, table in enumerate(vectors):
        keep &= np.asarray(table.any(axis=1))[index[:, place]]
    kept = np.flatnonzero(keep)
    order = kept[np.argsort(owner[kept], kind="stable")]
    owner, coefficients, index = owner[order], coefficients[order], index[order]
    for array in (owner, coefficients, index, *vectors):
        array.flags.writeable = False
    return Rows(domain, num_rows, owner, coefficients, index, tuple(vectors))


def _of_products(query: Query, domain: Domain, tables: list[VectorTable], start: int) -> list[Part]:
    """Return a part for each Kronecker product of a query: one term per row."""
    parts = []
    rows = np.arange(query.num_rows(domain))
    along = np.unravel_index(rows, query.shape(domain))
    places = [domain.attributes.index(name) for name in query.clique]
    for coefficient, blocks in query.factors(domain):
        index = np.zeros((len(rows), len(tables)), np.int32)
        for name, place, row in zip(query.clique, places, along, strict=True):
            index[:, place] = tables[place].block(blocks[name])[row]
        parts.append((start + rows, np.full(len(rows), float(coefficient)), index))
    return parts


def _of_joint(query: DenseMatrix, domain: Domain, tables: list[VectorTable], start: int) -> Part:
    """Return a joint matrix as a sum of terms, one per row and cell of all attributes but the largest."""
    sizes = domain.shape_of(query.clique)
    longest = int(np.argmax(sizes))
    entries = query.matrix(domain).astype(np.float64).reshape(-1, *sizes)
    entries = np.moveaxis(entries, 1 + longest, -1)
    others = [domain.attributes.index(name) for name in query.clique]
    place = others.pop(longest)
    where = np.nonzero(entries.any(axis=-1))
    index = np.zeros((len(where[0]), len(tables)), np.int32)
    for other, codes in zip(others, where[1:], strict=True):
        index[:, other] = tables[other].add(np.eye(domain.shape[other]))[codes]
    index[:, place] = tables[place].add(entries[where])
    return start + where[0], np.ones(len(where[0])), index


TOLERANCE = 1e-7
"""Largest residual entry of a query that counts as estimable, relative to the query's largest entry."""
_MOST_ATTRIBUTES = 10
_MOST_TARGETS = 64
_RANK = 1e-12


def is_estimable(
    targets: Rows, rows: Rows, weights: np.ndarray, prior: ProductPrior | None = None, constants: object = 0.0
) -> np.ndarray:
    """Return whether each query equals a combination of rows in every cell, bool [targets].

    Args:
        targets: queries.
        rows: over the same domain.
        weights: what each query is compared to, in terms of the rows [targets, rows].
        prior: cells of probability 0 do not count; None for the uniform prior.
        constants: a multiple of the query that counts all records, added to the combination [targets].

    Example:
        >>> from pgmjax.data.domain import Domain
        >>> from pgmjax.queries import Product, marginal, point
        >>> domain = Domain({"a": 3, "b": 2})
        >>> targets, rows = (Rows.of(query, domain) for query in (marginal(["b"]), marginal(["a", "b"])))
        >>> is_estimable(targets, rows, np.array([[1, 0, 1, 0, 1, 0], [0, 1, 0, 1, 0, 0.99]])).tolist()
        [True, False]
    """
    return np.asarray(bounds(targets, rows, weights, prior, constants) <= TOLERANCE * targets.largest())


def bounds(
    targets: Rows, rows: Rows, weights: np.ndarray, prior: ProductPrior | None = None, constants: object = 0.0
) -> np.ndarray:
    """Return upper bounds on the largest entries of residuals [targets]; arguments of `is_estimable`.

    If the products of basis vectors are too many for a table, only equal terms cancel.
    """
    every = targets.concatenated(rows)
    bases = []
    for place, vectors in enumerate(every.vectors):
        possible = slice(None) if prior is None else prior.probabilities[place] > 0
        bases.append(_in_basis(vectors[:, possible]))
    signed = np.concatenate([np.eye(targets.num_rows), -np.asarray(weights, np.float64)], axis=1)
    added = np.broadcast_to(np.asarray(constants, np.float64), (targets.num_rows,))
    result = np.empty(targets.num_rows)
    tables = [_cells(group, bases) for group in every.groups]
    width = max((cells for cells in tables if cells <= MAX_JOINT_CELLS), default=1)
    block = max(1, min(_MOST_TARGETS, MAX_JOINT_CELLS // width))
    for low in range(0, targets.num_rows, block):
        some = slice(low, low + block)
        result[some] = _bounds(every, signed[some], added[some], bases)
    return result


def _in_basis(vectors: np.ndarray) -> np.ndarray:
    """Return vectors [n, size] by the constant and basis vectors of largest entry 1, as [n, 1 + rank]."""
    means = vectors.mean(axis=1, keepdims=True)
    centred = vectors - means
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    moving = lengths[:, 0] > _RANK * np.abs(vectors).max(axis=1, initial=0)
    _, values, basis = np.linalg.svd(centred[moving] / lengths[moving], full_matrices=False)
    basis = basis[values > _RANK * values.max(initial=0)]
    sizes = np.abs(basis).max(axis=1, initial=0)
    return np.concatenate([means, (centred @ basis.T) * sizes], axis=1)


def _cells(group: TermGroup, bases: list[np.ndarray]) -> int:
    return math.prod(bases[place].shape[1] for place in group.attributes)


def _bounds(every: Rows, signed: np.ndarray, added: np.ndarray, bases: list[np.ndarray]) -> np.ndarray:
    parts: dict[tuple[int, ...], np.ndarray] = {(): -added}
    result = np.zeros(len(signed))
    for group in every.groups:
        numbers = group.terms
        coefficients = signed[:, every.owner[numbers]] * every.coefficients[numbers]
        if _cells(group, bases) > MAX_JOINT_CELLS or len(group.attributes) > _MOST_ATTRIBUTES:
            result += _apart(every, group, coefficients)
            continue
        table = _table(every, group, coefficients, bases)
        for varies in itertools.product((False, True), repeat=len(group.attributes)):
            some = tuple(place for place, each in zip(group.attributes, varies, strict=True) if each)
            # place 0 of an axis is the constant: such parts join those of groups without that attribute
            part = table[(slice(None), *(slice(1, None) if each else 0 for each in varies))]
            parts[some] = parts.get(some, 0.0) + part
    for part in parts.values():
        result += np.abs(part).reshape(len(signed), -1).sum(axis=1)
    return result


def _table(every: Rows, group: TermGroup, coefficients: np.ndarray, bases: list[np.ndarray]) -> np.ndarray:
    """Return the sums of a group's terms over the products of basis vectors [targets, ...]."""
    shape = [bases[place].shape[1] for place in group.attributes]
    result = np.zeros((len(coefficients), math.prod(shape)))
    used = np.flatnonzero(coefficients.any(axis=0))
    chunk = max(1, MAX_JOINT_CELLS // result.shape[1])
    for low in range(0, len(used), chunk):
        some = used[low : low + chunk]
        factors = (bases[place][every.index[group.terms[some], place]] for place in group.attributes)
        result += coefficients[:, some] @ kronecker(np.ones((len(some), 1)), factors)
    return result.reshape(len(coefficients), *shape)


def _apart(every: Rows, group: TermGroup, coefficients: np.ndarray) -> np.ndarray:
    """Return the sums of the largest entries of a group's distinct terms [targets]."""
    distinct, which = np.unique(every.index[group.terms], axis=0, return_inverse=True)
    sums = np.zeros((len(distinct), len(coefficients)))
    np.add.at(sums, which.reshape(-1), coefficients.T)
    largest = np.ones(len(distinct))
    for place in group.attributes:
        largest *= np.abs(every.vectors[place]).max(axis=1)[distinct[:, place]]
    return np.asarray(largest @ np.abs(sums))
