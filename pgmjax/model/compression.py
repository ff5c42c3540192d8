"""Domain compression: values with small noisy counts are merged into one value.

If a value is too rare to be detected above the noise, its cells in larger marginals contain only noise. Rare
values are merged so that their common cell has enough records to measure and the model has fewer cells to
fit. After the fit, the merged value is spread over its members again: answers and rows are over the
original domain.

Everything here uses released numbers only. To recode a private table, see `Dataset.recode`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.attribute import Attribute, Code, code_of
from pgmjax.data.domain import Clique, Domain, as_clique
from pgmjax.data.encoding import Label, code_dtype, text_of
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.model.clique_vector import CliqueVector
from pgmjax.model.graphical import GraphicalModel
from pgmjax.model.rows import known_codes
from pgmjax.queries import Product, compression, identity
from pgmjax.queries.blocks import AttributeQuery, code_or_value

SPREADS = ("uniform", "counts")


class Compression:
    """A merge of some values of some attributes into one value per attribute.

    Use `from_measurements`, or pass codes that are public. The merged value comes after the kept values and
    before a kept missing bucket. It is named `other`, or `other_2` and so on if that name is taken. Kept
    values keep their labels; bins become labels, and plain codes become numeric labels. Attributes without
    merged values are unchanged.

    Args:
        original: the original domain.
        merged: for some attributes, the codes to merge, at least two per attribute.
        counts: for some attributes, the noisy counts [size], which `backward` can use.

    Attributes:
        original: the original domain.
        merged: for some attributes, the codes that are merged.
        counts: for some attributes, the noisy counts [size].
        domain: the compressed domain.
        groups: for each attribute with merged values, the new code of each original code [size], int64.

    Raises:
        TypeError: codes or counts that are not numbers.
        ValueError: an unknown attribute, a code out of range, fewer than two codes, or counts of the wrong
            size.

    Example:
        >>> domain = Domain({"job": {"labels": ["cook", "diver", "miller", "clerk"]}})
        >>> counts = LinearMeasurement(("job",), [310, 4, -3, 95], stddev=5.0)
        >>> compression = Compression.from_measurements(domain, [counts])
        >>> compression.domain.attribute("job").labels, compression.groups["job"].tolist()
        (('cook', 'clerk', 'other'), [0, 2, 2, 1])
        >>> compression.forward(counts)
        LinearMeasurement(('job',), 3 values, stddev=one a row, noise='gaussian')

    References:
        McKenna, Miklau and Sheldon 2021, "Winning the NIST Contest", which merges values with a noisy
        count below three standard deviations.
    """

    def __init__(
        self, original: Domain, merged: Mapping[str, Any], counts: Mapping[str, Any] | None = None
    ) -> None:
        self.original = original
        checks.mapping("merged", merged, "attribute to the codes to merge")
        self.merged = {name: _codes(original.attribute(name), codes) for name, codes in merged.items()}
        self.counts = {
            name: _count_of(original.attribute(name), given) for name, given in (counts or {}).items()
        }
        self.groups: dict[str, np.ndarray] = {}
        after = {name: original.attribute(name) for name in original}
        for name, codes in self.merged.items():
            self.groups[name], after[name] = _merge(after[name], codes)
        self.domain = Domain(after)

    @classmethod
    def from_measurements(
        cls, domain: Domain, measurements: Iterable[LinearMeasurement], threshold: float = 3.0
    ) -> Compression:
        """Merge the values of each attribute with a noisy count that is small relative to its noise.

        A value is rare if its count is below `threshold` times the standard deviation of its noise. The value
        with the largest count is never rare, so an attribute keeps at least two values. A single rare value
        is not merged. Several measurements of one attribute are first averaged, weighted by precision.
        Attributes without a measurement are unchanged.

        Args:
            domain: the attributes.
            measurements: released counts, each of all values of one attribute (no query).
            threshold: in standard deviations, >= 0.

        Raises:
            ValueError: a measurement of several attributes, with a query, or not valid for the domain.
        """
        threshold = checks.number("threshold", threshold, at_least=0)
        weights: dict[str, np.ndarray] = {}
        sums: dict[str, np.ndarray] = {}
        for measurement in measurements:
            name = _counted(domain, measurement)
            precision = measurement.row_stddevs() ** -2.0
            weights[name] = weights.get(name, 0.0) + precision
            sums[name] = sums.get(name, 0.0) + precision * measurement.flat_values()
        counts = {name: sums[name] / weights[name] for name in sums}
        rare = {name: _rare(counts[name], threshold * weights[name] ** -0.5) for name in counts}
        merged = {name: [*map(Code, codes.tolist())] for name, codes in rare.items() if codes.size > 1}
        return cls(domain, merged, counts)

    def query(self, clique: Clique) -> Product:
        """Return the query over the original domain whose answer is a marginal of the compressed one.

        Measuring it is the same as measuring the compressed table: each record counts in one row, so the
        sensitivity is that of a marginal.

        Args:
            clique: attribute names.
        """
        return Product({name: self._block(name) for name in as_clique(self.original, clique)})

    def _block(self, name: str) -> AttributeQuery:
        return compression(self.groups[name]) if name in self.groups else identity()

    def forward(self, measurement: LinearMeasurement) -> LinearMeasurement:
        """Convert a measurement over the original domain to one of a full marginal of the compressed domain.

        Values of merged rows are added, and so are the squares of their standard deviations. A sum of Laplace
        variables is not Laplace: `noise` is left unchanged and `stddev` is exact, but the distribution of the
        noise is dropped.

        Args:
            measurement: of a full marginal, or of the query returned by `query`.

        Raises:
            ValueError: any other query; its rows cannot be computed from merged values.
        """
        measurement = measurement.over(self.original)
        clique = measurement.clique
        blocks = _blocks(measurement)
        if not all(block in (identity(), self._block(name)) for name, block in blocks.items()):
            raise ValueError(
                f"the measurement on {clique} asks for more than whole values: only marginals without a "
                "query, or those of Compression.query, have rows that can be merged. Measure the marginal."
            )
        whole = Product(
            {n: self._block(n) if block == identity() else identity() for n, block in blocks.items()}
        )
        if all(block == identity() for block in whole.blocks):
            if whole == measurement.query:
                return measurement
            return LinearMeasurement(
                clique,
                measurement.values,
                measurement.stddev,
                None,
                measurement.noise,
                measurement.distribution,
                measurement.inputs,
            )
        shape = measurement.query.shape(self.original)
        variances = np.square(measurement.row_stddevs()).reshape(shape)
        values = whole.apply(measurement.values.reshape(shape))
        spread = np.sqrt(whole.apply(variances))
        return LinearMeasurement(clique, values, spread, None, measurement.noise, inputs=measurement.inputs)

    def columns(self, columns: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Convert columns of codes [rows] over the original domain to codes over the compressed one.

        This is for public rows, such as synthetic ones. For a private table, see `Dataset.recode`.

        Raises:
            TypeError: codes that are no integers.
            ValueError: an unknown attribute, a code out of range, or columns of different lengths.
        """
        known = known_codes(self.original, columns, unknown=False)
        names = self.original.attributes
        mapped = {
            names[place]: self.groups[names[place]][codes] if names[place] in self.groups else codes
            for place, codes in known.items()
        }
        return {name: codes.astype(code_dtype(self.domain[name])) for name, codes in mapped.items()}

    def backward(self, model: GraphicalModel, spread: str = "uniform") -> GraphicalModel:
        """Return a model over the original domain: each merged value is spread over its members.

        Given the merged value, the original value is independent of everything else. The total, and all
        answers in terms of the compressed domain, are unchanged.

        Args:
            model: over the compressed domain.
            spread: `uniform`, as in the paper, or `counts`, in proportion to the noisy counts. Negative
                counts are set to zero, so members without a positive count become impossible. Attributes
                without counts, or without positive ones, are spread uniformly.

        Raises:
            ValueError: a model over another domain, or an unknown `spread`.
        """
        spread = checks.choice("spread", spread, SPREADS)
        if model.domain != self.domain:
            raise ValueError("the model must be over the compressed domain, Compression.domain.")
        shares = {name: self._shares(name, spread) for name in self.groups}
        potentials: dict[Clique, np.ndarray] = {
            clique: self._expanded(clique, table) for clique, table in model.potentials.items()
        }
        for name, share in shares.items():
            log_share = np.log(share, out=np.full(share.shape, -np.inf), where=share > 0)
            potentials[name,] = potentials.get((name,), 0.0) + log_share
        marginals = {}
        for clique, table in model.known_marginals.items():
            wide = self._expanded(clique, table)
            for axis, name in enumerate(clique):
                if name in shares:
                    shape = [-1 if place == axis else 1 for place in range(wide.ndim)]
                    wide = wide * shares[name].reshape(shape)
            marginals[clique] = wide
        vectors = (CliqueVector(tuple(tables), tuple(tables.values())) for tables in (potentials, marginals))
        return GraphicalModel(self.original, next(vectors), model.total, next(vectors), inputs=model.inputs)

    def _expanded(self, clique: Clique, table: np.ndarray) -> np.ndarray:
        """A compressed table expanded to the original domain: each cell is repeated for all its members."""
        wanted = (self.groups.get(name, np.arange(self.original[name])) for name in clique)
        return np.asarray(table)[np.ix_(*wanted)]

    def _shares(self, name: str, spread: str) -> np.ndarray:
        """Probability of each original value given its merged value [size]."""
        groups, size = self.groups[name], self.domain[name]
        weights = np.ones(len(groups))
        if spread == "counts" and name in self.counts:
            weights = np.maximum(self.counts[name], 0.0)
        sums = np.bincount(groups, weights, size)
        # where no member has a positive count they share evenly
        weights = np.where(sums[groups] > 0, weights, 1.0)
        return weights / np.bincount(groups, weights, size)[groups]

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}: {self.original[name]} -> {self.domain[name]}" for name in self.merged)
        return f"Compression({{{sizes}}} of {len(self.original)} attributes)"


def _rare(counts: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """The codes of counts below their limits, without the code of the largest count."""
    codes = np.flatnonzero(counts < limits)
    return codes[codes != counts.argmax()]


def _codes(attribute: Attribute, values: Any) -> tuple[int, ...]:
    said = f"The codes to merge of attribute {attribute.name!r}"
    given = checks.several(said, values, "codes", "give two or more in a list")
    named = [code_of(attribute, code_or_value(said, code)) for code in given]
    codes = sorted({checks.integer(said, int(code), 0, attribute.size - 1) for code in named})
    if len(codes) < 2:
        raise ValueError(f"{said} must be two or more: leave out an attribute that stays as it is.")
    return tuple(codes)


def _count_of(attribute: Attribute, values: Any) -> np.ndarray:
    counts = np.array(values, np.float64)
    if counts.shape != (attribute.size,) or not np.isfinite(counts).all():
        raise ValueError(
            f"The counts of attribute {attribute.name!r} must be {attribute.size} finite numbers."
        )
    return counts


def _merge(attribute: Attribute, members: tuple[int, ...]) -> tuple[np.ndarray, Attribute]:
    """The new code of each code [size], and the attribute after the merge.

    Kept codes come first, in order, then the merged one, then a kept missing bucket.
    """
    size = attribute.size
    last = attribute.missing and size - 1 not in members
    kept = np.setdiff1d(np.arange(size - last), members)
    groups = np.full(size, len(kept), np.int64)
    groups[kept] = np.arange(len(kept))
    if last:
        groups[-1] = len(kept) + 1
    regular = attribute.size - attribute.missing
    names: tuple[Label, ...] = attribute.labels or tuple(range(regular))
    if attribute.bins is not None:
        names = tuple(attribute.code_names()[:regular])
    elif attribute.other:
        names = (*names, attribute.other_name)
    taken = {text_of(name) for name in (*names, *attribute.missing_markers)}
    words = itertools.chain(["other"], (f"other_{number}" for number in itertools.count(2)))
    other = next(word for word in words if word not in taken)
    labels = (*(name for code, name in enumerate(names) if code not in members), other)
    markers = attribute.missing_markers if last else ()
    return groups, Attribute(attribute.name, len(labels) + last, labels, None, last, markers)


def _blocks(measurement: LinearMeasurement) -> dict[str, AttributeQuery | None]:
    """The query's block for each attribute, None if the query is not a product of blocks."""
    query = measurement.query
    blocks = query.blocks if isinstance(query, Product) else (None,) * len(query.clique)
    return dict(zip(query.clique, blocks, strict=True))


def _counted(domain: Domain, measurement: LinearMeasurement) -> str:
    """The attribute counted by a measurement."""
    measurement.validate(domain)
    if len(measurement.clique) > 1 or _blocks(measurement)[measurement.clique[0]] != identity():
        raise ValueError(
            "values are merged by counts of every value of one attribute (no query), got a measurement on "
            f"{measurement.clique}: measure all values of each attribute by itself first, as "
            f"('{measurement.clique[0]}',)."
        )
    return measurement.clique[0]
