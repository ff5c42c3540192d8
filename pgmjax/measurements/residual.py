"""Best unbiased answers from noisy marginals, in closed form: the residual basis.

For a set S of attributes, the residual of a table on S is its marginal on S less the mean along every axis.
Residuals of different sets are orthogonal, and a marginal is the sum of the residuals of all subsets, each
spread over the other axes. A marginal over A whose cells all have independent noise of variance s**2 gives,
for every S within A, an unbiased residual on S with the covariance s**2 (product of the sizes in A - S) P,
where P projects off the means. These are uncorrelated for different S. So the best unbiased estimate of every
residual is an average with scalar weights, and those of all answers are sums of them: there is no matrix to
factor, however many attributes there are.

Whether an answer is determined is therefore a question about sets of attributes: its part on every set that
no measured marginal contains must vanish. All cells of a marginal are determined exactly if one measured
marginal contains all its attributes. Where its pairs were measured but never all of them together, they are
not; a query on the same attributes, such as a sum over one of them, still may be.

References:
    Xiao, He, Zhang and Kifer 2023, "An optimal and scalable matrix mechanism for noisy marginals under convex
    loss functions", for the residual basis; Darroch and Speed 1983, "Additive and multiplicative models and
    interactions".
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from pgmjax.data.domain import Clique, Domain, all_subsets, in_order, marginal_of
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.queries import Product, Query
from pgmjax.queries.blocks import AttributeQuery, Indicators

MOST_READ = 2_000_000_000
"""The most numbers that are read or written for the answers to one query, which takes seconds."""
_MOST_SETS = 1 << 12
_LARGEST_MATRIX = 1 << 24  # entries of a query written out
_KEPT_CELLS = 1 << 16  # a larger residual is computed again when it is asked for again
_VANISHES = 1e-6  # share of a query's length: a part below it is rounding


@dataclasses.dataclass(frozen=True)
class MeasuredTable:
    """A measured marginal with the same noise in every cell.

    Attributes:
        clique: its attributes, in the domain's order; () for the number of records alone.
        values: noisy counts, one axis for each attribute.
        variance: of the noise of each cell; 0 if the counts are exact.
    """

    clique: Clique
    values: np.ndarray
    variance: float


def as_table(domain: Domain, measurement: LinearMeasurement) -> MeasuredTable | None:
    """Return a measurement as a table, None if it is of other queries or its noise differs between rows.

    A total along an attribute leaves the attribute out.

    Example:
        >>> domain = Domain({"a": 2, "b": 2})
        >>> as_table(domain, LinearMeasurement(("b", "a"), [1, 2, 3, 4], 2.0)).values.tolist()
        [[1.0, 3.0], [2.0, 4.0]]
    """
    query, stddevs = measurement.query, measurement.stddev
    if not isinstance(query, Product) or (stddevs.ndim and (stddevs != stddevs.flat[0]).any()):
        return None
    if any(block.kind not in ("identity", "total") for block in query.blocks):
        return None
    pairs = zip(query.clique, query.blocks, strict=True)
    held = tuple(name for name, block in pairs if block.kind == "identity")
    values = measurement.flat_values().reshape(domain.shape_of(held))
    clique = in_order(domain.attributes, held)
    return MeasuredTable(clique, marginal_of(held, values, clique), float(stddevs.flat[0]) ** 2)


@dataclasses.dataclass(frozen=True)
class BestAnswers:
    """Best unbiased estimates of the answers to a query.

    Attributes:
        values: [rows], NaN where not determined.
        variances: of their noise [rows], NaN where not determined.
    """

    values: np.ndarray
    variances: np.ndarray

    @property
    def determined(self) -> np.ndarray:
        """The answers that are determined, bool [rows]."""
        return ~np.isnan(self.variances)

    @property
    def stddevs(self) -> np.ndarray:
        """Standard deviations of their noise [rows], NaN where not determined."""
        return np.sqrt(self.variances)


class ResidualAnswers:
    """The residuals of a table on all sets of attributes within measured marginals.

    Args:
        domain: the attributes.
        tables: the measured marginals. Exact ones agree with one another.

    Example:
        >>> domain = Domain({"a": 2, "b": 2})
        >>> found = ResidualAnswers(domain, [MeasuredTable(("a",), np.array([30.0, 10.0]), 4.0)])
        >>> from pgmjax.queries import marginal
        >>> found.answers(marginal(["a"])).variances.tolist(), found.is_measured(["a", "b"])
        ([4.0, 4.0], False)
    """

    def __init__(self, domain: Domain, tables: Iterable[MeasuredTable]) -> None:
        self.domain, self.tables = domain, tuple(tables)
        self._holding: dict[str, set[int]] = {name: set() for name in domain.attributes}
        for number, table in enumerate(self.tables):
            for name in table.clique:
                self._holding[name].add(number)
        self._kept: dict[Clique, tuple[np.ndarray, float]] = {}

    def holders(self, names: Iterable[str]) -> list[int]:
        """Return the numbers of the tables that contain all these attributes."""
        holding = sorted(map(self._holding.__getitem__, names), key=len)
        return sorted(set.intersection(*holding)) if holding else list(range(len(self.tables)))

    def is_measured(self, names: Iterable[str]) -> bool:
        """Return whether a table contains all these attributes."""
        return bool(self.holders(names))

    def residual(self, subset: Clique) -> tuple[np.ndarray, float]:
        """Return the best unbiased residual on a measured set, and its variance.

        Args:
            subset: attributes in the domain's order.

        Returns:
            The residual r [size of each attribute], which sums to 0 along each axis, and t: its covariance is
            t times the projection off the means.
        """
        if subset in self._kept:
            return self._kept[subset]
        held = [self.tables[number] for number in self.holders(subset)]
        exact = [table for table in held if table.variance == 0]
        total, weight = np.zeros(self.domain.shape_of(subset)), 0.0
        for table in exact or held:
            # cells that are summed into one of the residual, whose variances add up
            spread = table.values.size / total.size
            # exact tables all say the same, so that any weights would do
            own = 1.0 if exact else 1.0 / (table.variance * spread)
            total += own * marginal_of(table.clique, table.values, subset)
            weight += own
        # P of the module's text: off the means along every axis
        for axis in range(total.ndim):
            total -= total.mean(axis=axis, keepdims=True)
        found = total / weight, 0.0 if exact else 1.0 / weight
        if total.size <= _KEPT_CELLS:
            self._kept[subset] = found
        return found

    def answers(self, query: Query) -> BestAnswers | None:
        """Return the best unbiased answers to a query; None if there is too much to compute.

        An answer is the sum over S of the query's part on S times the residual on S. That sum has the
        variance of each residual times the squared length of the part.

        Args:
            query: of the domain.

        Returns:
            The answers [rows], NaN where not determined. None above `MOST_READ` numbers, or where a matrix
            that has to be written out is too large.
        """
        domain = self.domain
        parts = _Factors.of(query, domain) if isinstance(query, Product) else _Joint.of(query, domain)
        if parts is None:
            return None
        missing = [each for each in parts.sets() if not self.is_measured(each)]
        sets = self._subsets(each for each in parts.sets() if self.is_measured(each))
        if sets is None or self._read(sets, query.num_rows(self.domain)) > MOST_READ:
            return None
        values, variances = np.zeros((2, *query.shape(self.domain)))
        for subset in sets:
            residual, variance = self.residual(in_order(self.domain.attributes, subset))
            ordered = in_order(self.domain.attributes, subset)
            values += parts.answer(subset, marginal_of(ordered, residual, subset))
            if variance:
                variances += variance * parts.squares(subset)
        unknown = parts.rows_on(missing)
        values[unknown] = variances[unknown] = np.nan
        return BestAnswers(values.reshape(-1), variances.reshape(-1))

    def _subsets(self, cliques: Iterable[Clique]) -> list[Clique] | None:
        """Return all subsets of some sets, each once; None if they are too many."""
        found: dict[Clique, None] = {}
        for clique in cliques:
            if 2 ** len(clique) > _MOST_SETS:
                return None
            found.update(dict.fromkeys(all_subsets(clique)))
        return list(found) if len(found) <= _MOST_SETS else None

    def _read(self, sets: Iterable[Clique], rows: int) -> int:
        """Return how many numbers are read and written for the residuals on some sets, and the answers."""
        number = 0
        for subset in sets:
            number += rows
            if in_order(self.domain.attributes, subset) not in self._kept:
                number += sum(self.tables[place].values.size for place in self.holders(subset))
        return number


@dataclasses.dataclass(frozen=True)
class _Factors:
    """The parts of a product of blocks, which are products of each block's mean and the rest.

    Attributes:
        query: the product.
        means: of each row of each block [rows].
        lengths: squared length of each row less its mean [rows], 0 where that is rounding.
    """

    query: Product
    means: list[np.ndarray]
    lengths: list[np.ndarray]

    @classmethod
    def of(cls, query: Product, domain: Domain) -> _Factors | None:
        found = [
            _moments(block, domain[name]) for name, block in zip(query.clique, query.blocks, strict=True)
        ]
        several = [each for each in found if each is not None]
        kinds = math.prod(len(set((lengths > 0).tolist())) for _, lengths in several)
        if len(several) < len(found) or kinds > _MOST_SETS:
            return None
        return cls(query, [means for means, _ in several], [lengths for _, lengths in several])

    def sets(self) -> Iterator[Clique]:
        """Yield the largest set on which some row has a part: those whose blocks are not constant."""
        for varies in itertools.product(*(sorted(set((each > 0).tolist())) for each in self.lengths)):
            yield tuple(name for name, each in zip(self.query.clique, varies, strict=True) if each)

    def rows_on(self, sets: Iterable[Clique]) -> np.ndarray:
        """Return the rows whose largest set is one of these, bool in the shape of the rows."""
        found = np.zeros(tuple(map(len, self.means)), bool)
        for subset in sets:
            held = [
                (lengths > 0) if name in subset else (lengths == 0) & (means != 0)
                for name, means, lengths in zip(self.query.clique, self.means, self.lengths, strict=True)
            ]
            found[np.ix_(*map(np.flatnonzero, held))] = True
        return found

    def answer(self, subset: Clique, residual: np.ndarray) -> np.ndarray:
        """Return the part of the answers from the residual on a set, of which it is a table."""
        pairs = zip(self.query.clique, self.query.blocks, strict=True)
        blocks = {name: block for name, block in pairs if name in subset}
        answered = Product(blocks).apply(residual) if blocks else residual
        sides = [len(m) if n in subset else 1 for n, m in zip(self.query.clique, self.means, strict=True)]
        result = np.asarray(answered, float).reshape(sides)
        for axis, (name, means) in enumerate(zip(self.query.clique, self.means, strict=True)):
            if name not in subset:
                result = result * self._along(axis, means)
        return result

    def squares(self, subset: Clique) -> np.ndarray:
        """Return the squared lengths of the rows' parts on a set."""
        result: np.ndarray = np.ones((1,) * len(self.means))
        for axis, name in enumerate(self.query.clique):
            of_axis = self.lengths[axis] if name in subset else np.square(self.means[axis])
            result = result * self._along(axis, of_axis)
        return result

    def _along(self, axis: int, values: np.ndarray) -> np.ndarray:
        return values.reshape([-1 if k == axis else 1 for k in range(len(self.means))])


@functools.lru_cache(maxsize=512)
def _moments(block: AttributeQuery, size: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the mean of each row of a block, and its squared length about the mean; None if too large."""
    rows = block.rows(size)
    if isinstance(block, Indicators):  # sums of squares are sums
        ones = np.asarray(block.apply(np.ones(size), 0), float)
        return ones / size, ones * (size - ones) / size
    if rows * size > _LARGEST_MATRIX:
        return None
    matrix = np.asarray(block.matrix(size), float)
    means, squares = matrix.mean(axis=1), np.square(matrix).sum(axis=1)
    lengths = np.square(matrix - means[:, None]).sum(axis=1)
    means[size * np.square(means) <= _VANISHES**2 * squares] = 0.0
    lengths[lengths <= _VANISHES**2 * squares] = 0.0
    return means, lengths


@dataclasses.dataclass(frozen=True)
class _Joint:
    """The parts of a query that is no product, whose matrix is written out.

    Attributes:
        clique: of the query.
        shape: of its answers.
        parts: of the rows on each subset [rows, size of each attribute of the subset].
        present: whether a row has a part on a subset [rows], which is not mere rounding.
    """

    clique: Clique
    shape: tuple[int, ...]
    parts: Mapping[Clique, np.ndarray]
    present: Mapping[Clique, np.ndarray]

    @classmethod
    def of(cls, query: Query, domain: Domain) -> _Joint | None:
        rows, sizes = query.num_rows(domain), domain.shape_of(query.clique)
        # all parts together take product of (size + 1) numbers a row
        if rows * math.prod(size + 1 for size in sizes) > _LARGEST_MATRIX:
            return None
        matrix = np.asarray(query.matrix(domain), float).reshape(rows, *sizes)
        from pgmjax.measurements.least_squares import orthogonal_parts  # of queries that are no products

        parts = orthogonal_parts(query.clique, matrix)
        whole = np.square(matrix).reshape(rows, -1).sum(axis=1)
        present = {}
        for subset, part in parts.items():
            # a part is the same along the other axes, so that its length counts for all of their cells
            spread = math.prod(sizes) / domain.size(subset)
            lengths = spread * np.square(part).reshape(rows, -1).sum(axis=1)
            present[subset] = lengths > _VANISHES**2 * whole
        return cls(query.clique, query.shape(domain), parts, present)

    def sets(self) -> Iterator[Clique]:
        """Yield the sets on which some row has a part."""
        return (subset for subset, rows in self.present.items() if rows.any())

    def rows_on(self, sets: Iterable[Clique]) -> np.ndarray:
        """Return the rows with a part on one of these sets, bool in the shape of the rows."""
        found = np.zeros(math.prod(self.shape), bool)
        for subset in sets:
            found |= self.present[subset]
        return found.reshape(self.shape)

    def answer(self, subset: Clique, residual: np.ndarray) -> np.ndarray:
        """Return the part of the answers from the residual on a set, of which it is a table."""
        return np.tensordot(self.parts[subset], residual, axes=residual.ndim).reshape(self.shape)

    def squares(self, subset: Clique) -> np.ndarray:
        """Return the squared lengths of the rows' parts on a set."""
        rows = math.prod(self.shape)
        return np.square(self.parts[subset]).reshape(rows, -1).sum(axis=1).reshape(self.shape)
