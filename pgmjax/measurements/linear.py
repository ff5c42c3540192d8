"""Released noisy answers to linear queries, and noisy counts over any attributes combined from them.

Such counts are meant for plots that show noisy counts next to fitted ones, also for marginals that were not
measured themselves, and not for estimation. They are computed from released values only.
"""

from __future__ import annotations

import dataclasses
import math
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.migration import Named
from pgmjax.data.domain import Clique, Domain, marginal_of
from pgmjax.measurements.inputs import Input
from pgmjax.measurements.noise import CONTINUOUS, DiscreteNoise
from pgmjax.queries import Product, Query, WeightedSum
from pgmjax.queries.blocks import real_array
from pgmjax.queries.query import attribute_names
from pgmjax.queries.spec import as_query, in_words

MOST_AXES = 64  # of a NumPy array
NOISE_DISTRIBUTIONS = (*sorted(CONTINUOUS), "response")
"""The families of noise that can be given by name, without a distribution."""


@dataclasses.dataclass(frozen=True, init=False, eq=False, repr=False)
class LinearMeasurement(Named):
    """Answers to a query on a clique, with added noise of known standard deviation.

    Args:
        clique: the attributes, in the order of the values' axes.
        values: one number (counts) per query row, flat in the clique's row-major order or in the shape
            of the query's rows (without query: the clique's shape). Integers are kept as int64.
        stddev: standard deviation (counts) of the noise actually added, i.e. of the discrete distribution
            for discrete noise: one for all rows, or one per row. It is not the scale of a Laplace
            distribution.
        query: the query, in any form accepted by `queries.as_query`. Default: every cell.
        noise: the family of the distribution, `gaussian` or `laplace`; `response` for counts of randomised
            responses, which have no added noise. Their deviation from the query's answers is that of a sum
            of independent bits, nearly Gaussian.
        distribution: the discrete distribution of the noise, if known. `stddev` and `noise` must match it.
        inputs: what it was computed from, with cost and security; () if nobody stated that.

    Raises:
        TypeError: an argument is not a number, a name or a query.
        ValueError: values are not finite or above 1e60 in size, a standard deviation is outside 1e-60..1e60,
            the numbers of values and standard deviations differ, or the clique does not fit the query.

    Example:
        >>> LinearMeasurement(("age",), [10, 7], stddev=2.0, query="prefix")
        LinearMeasurement(('age',), 2 values, stddev=2, query={'age': 'prefix'}, noise='gaussian')
    """

    clique: Clique
    values: np.ndarray
    stddev: np.ndarray
    query: Query
    noise: str
    distribution: DiscreteNoise | None
    inputs: tuple[Input, ...]

    def __init__(
        self,
        clique: Any,
        values: Any,
        stddev: Any,
        query: Any = None,
        noise: str = "gaussian",
        distribution: DiscreteNoise | None = None,
        inputs: Sequence[Input] = (),
    ) -> None:
        if _are_names(values) and not _are_names(clique):
            raise TypeError("the clique comes first: write LinearMeasurement(clique, values, stddev).")
        clique = attribute_names(clique)
        said = f"measurement on {clique}"
        query, values = as_query(clique, query), _values(f"the values of the {said}", values)
        stddev = _stddev(f"the stddev of the {said}", stddev, values)
        words = (noise,) if noise == getattr(distribution, "noise", None) else NOISE_DISTRIBUTIONS
        noise = checks.choice(f"the noise of the {said}", noise, words)
        distribution = _distribution(said, distribution, stddev, noise)
        checks.set_fields(self, clique=clique, query=query, values=values, stddev=stddev, noise=noise)
        checks.set_fields(self, distribution=distribution, inputs=tuple(inputs))

    @classmethod
    def released(cls, query: Query, values: Any, distribution: DiscreteNoise) -> LinearMeasurement:
        """Return answers to a query with noise of a known distribution, which defines the stddev.

        Example:
            >>> from pgmjax.measurements.noise import DiscreteLaplace
            >>> from pgmjax.queries import marginal
            >>> LinearMeasurement.released(marginal(["sex"]), [10, 7], DiscreteLaplace(2.0)).interval(0.95)
            array([[ 4, 16],
                   [ 1, 13]])
        """
        return cls(query.clique, values, distribution.stddev, query, distribution.noise, distribution)

    def interval(self, level: float = 0.95) -> np.ndarray:
        """Return for every value a confidence interval of the true answer.

        Args:
            level: the confidence level of each interval, in (0, 1).

        Returns:
            Both ends, inclusive [rows, 2], int64 if the values are integers (counts).

        Raises:
            ValueError: the distribution of the noise is unknown; a standard deviation alone is not enough.
        """
        if self.distribution is None:
            raise ValueError(
                f"the distribution of the noise of the answers on {self.clique} is not known, and a standard "
                "deviation does not tell it: write LinearMeasurement.released(query, values, "
                "privacy.DiscreteLaplace(scale))."
            )
        width = self.distribution.half_width(level)
        values = self.values.reshape(-1)
        return np.stack([values - width, values + width], axis=1)

    def over(self, domain: Domain) -> LinearMeasurement:
        """Return the measurement with its query over a domain, checked: see `Query.over`."""
        if self._checked_over() is domain:
            return self
        query = self.query.over(domain)
        found = self
        if query is not self.query:
            known = self.values, self.stddev, query, self.noise, self.distribution, self.inputs
            found = LinearMeasurement(query.clique, *known)
        found._check_shape(domain)
        if type(found) is LinearMeasurement:
            _CHECKED[found] = domain
        return found

    def _checked_over(self) -> Domain | None:
        # one of a subclass may be equal to another one, or have no hash
        return _CHECKED.get(self) if type(self) is LinearMeasurement else None

    def validate(self, domain: Domain) -> None:
        """Check the measurement against a domain: attributes, sizes, number and shape of the values.

        Raises:
            ValueError: it does not fit. The message gives the expected and the actual shape.
        """
        if self._checked_over() is not domain:
            self.query.check(domain)
            self._check_shape(domain)

    def _check_shape(self, domain: Domain) -> None:
        if len(self.clique) > MOST_AXES:
            raise ValueError(
                f"the measurement has {len(self.clique)} attributes, and a table has at most {MOST_AXES}: "
                "measure a query over fewer; a total may be measured on any one attribute."
            )
        shape = self.query.shape(domain)
        rows = math.prod(shape)
        if self.values.shape not in ((rows,), shape):
            also = "" if shape == (rows,) else f" or {shape}"
            raise ValueError(
                f"the measurement on {self.clique} must have a value for each answer of its query: expected "
                f"shape ({rows},){also}, got {self.values.shape}."
            )

    def flat_values(self) -> np.ndarray:
        """Return the values [rows] in float64, row-major in the clique's order (counts)."""
        return self.values.astype(np.float64).reshape(-1)

    def row_stddevs(self) -> np.ndarray:
        """Return the standard deviation of every value [rows] (counts)."""
        return np.broadcast_to(self.stddev.reshape(-1), (self.values.size,))

    def __repr__(self) -> str:
        asked = self.query.to_spec().get("queries")
        query = "" if asked is None else f", query={asked}"
        if type(self.query).__name__ != "Product":
            query = f", query={type(self.query).__name__}"
        spread = f"{float(self.stddev):g}" if self.stddev.ndim == 0 else "one a row"
        return (
            f"LinearMeasurement({self.clique}, {self.values.size} values, stddev={spread}{query}, "
            f"noise={self.noise!r})"
        )

    def _repr_html_(self) -> str:
        from pgmjax._internal import html  # of notebooks

        facts = {"attributes": ", ".join(self.clique), "values": self.values.size, "noise": self.noise}
        pairs = zip(self.values.reshape(-1).tolist(), self.row_stddevs().tolist(), strict=True)
        rows = ((row, *pair) for row, pair in enumerate(pairs))
        header = ("row", "noisy value", "standard deviation")
        asked = html.note(f"query: {in_words(self.query)}")
        listed = html.table(header, rows, self.values.size)
        return html.card("LinearMeasurement", facts, asked, listed)


# The domain that a measurement was last checked over. It never changes, and fit after fit asks several times.
_CHECKED: weakref.WeakKeyDictionary[LinearMeasurement, Domain] = weakref.WeakKeyDictionary()


def spread_of(measurement: LinearMeasurement) -> float | str:
    """Return the standard deviation of a measurement (counts), or the range over its rows as text."""
    low, high = float(measurement.stddev.min()), float(measurement.stddev.max())
    return low if low == high else f"{low:,.6g} to {high:,.6g}"


def _distribution(said: str, distribution: Any, stddev: np.ndarray, noise: str) -> DiscreteNoise | None:
    if distribution is None:
        return None
    wanted = "must be a DiscreteLaplace or DiscreteGaussian"
    checks.kind(distribution, DiscreteNoise, f"the distribution of the {said} {wanted}")
    if distribution.noise != noise or stddev.ndim or float(stddev) != distribution.stddev:
        raise ValueError(
            f"the {said} must have the noise and stddev of its distribution, {distribution.noise!r} and "
            f"{distribution.stddev:g}: use LinearMeasurement.released, which takes them from there."
        )
    return distribution


def _are_names(given: Any) -> bool:
    return isinstance(given, str | list | tuple) and len(given) > 0 and all(isinstance(g, str) for g in given)


def _values(said: str, values: Any) -> np.ndarray:
    array = np.atleast_1d(real_array(said, values))
    if float(np.abs(array, dtype=np.float64).max()) > checks.LARGEST:
        raise ValueError(f"{said} must be at most {checks.LARGEST:g} in size: give them in records.")
    return array


def _stddev(said: str, stddev: Any, values: np.ndarray) -> np.ndarray:
    array = real_array(said, stddev).astype(np.float64)
    wrong = array[(array < 1 / checks.LARGEST) | (array > checks.LARGEST)]
    if wrong.size:
        raise ValueError(
            f"{said} must be > 0, in {1 / checks.LARGEST:g}..{checks.LARGEST:g}; {wrong.size} of "
            f"{array.size} are not, such as {wrong[0]:g}. It is the standard deviation of the noise really "
            "added, in counts; exact counts are a constraint, FixedMarginal(clique, counts)."
        )
    if array.ndim and array.shape not in (values.shape, (values.size,)):
        raise ValueError(
            f"{said} must be one number or one a value: expected shape {values.shape}, got {array.shape}."
        )
    array.flags.writeable = False
    return array


def over_domain(domain: Domain, measurements: Any) -> tuple[LinearMeasurement, ...]:
    """Return measurements over a domain, checked: see `LinearMeasurement.over`.

    Raises:
        TypeError: a single measurement instead of a list, or something else.
        ValueError: a measurement that does not fit the domain.
    """
    one = isinstance(measurements, LinearMeasurement)
    then = "give a list" + "; a table is measured first, by a mechanism's run or a Synthesizer's fit" * (
        not one
    )
    if hasattr(measurements, "columns"):
        table = f"of noisy answers, got {type(measurements).__name__}"
        made = "Synthesizer(epsilon, relation).fit(frame, domain), or a mechanism's run(data, workload)"
        raise TypeError(f"measurements must be a list {table}: a table is measured first, by {made}.")
    if hasattr(measurements, "measurements"):
        then = f"give the measurements of the {type(measurements).__name__}, its attribute of that name"
    given = checks.several("measurements", measurements, "LinearMeasurement", then)
    for one in given:
        then = "write LinearMeasurement(clique, values, stddev) for each answer, with its query if it has one"
        checks.kind(one, LinearMeasurement, "measurements must be LinearMeasurement", then)
    return tuple(one.over(domain) for one in given)


@dataclass(frozen=True, eq=False)
class NoisyMarginal:
    """Noisy counts of one marginal.

    Attributes:
        values: unbiased noisy counts, in the shape of the clique.
        stddevs: their standard deviations, same shape.
        sources: number of measurements used.
    """

    values: np.ndarray
    stddevs: np.ndarray
    sources: int


def noisy_marginal(
    domain: Domain, measurements: Sequence[LinearMeasurement], clique: Clique
) -> NoisyMarginal | None:
    """Combine the noisy counts of a marginal from all measured marginals that contain it.

    Each of them is summed onto the clique, which adds up its variances. The sums are averaged cell by
    cell with weights 1/variance.

    Args:
        domain: the domain of the measurements.
        measurements: released answers; those that are not marginals are ignored.
        clique: the attributes, in the order of the axes.

    Returns:
        The noisy counts, or None if no measured marginal contains the clique.

    Example:
        >>> domain = Domain({"a": 2, "b": 2})
        >>> measured = LinearMeasurement(("a", "b"), [5.0, 7.0, 1.0, 3.0], stddev=2.0)
        >>> noisy_marginal(domain, [measured], ("b",)).values.tolist()
        [6.0, 10.0]
    """
    shape = domain.shape_of(clique)
    weighted, weight, sources = np.zeros(shape), np.zeros(shape), 0
    for measurement in measurements:
        if not (set(clique) <= set(measurement.clique) and measurement.query.is_identity):
            continue
        full = domain.shape_of(measurement.clique)
        values = measurement.flat_values().reshape(full)
        variance = np.square(measurement.row_stddevs()).reshape(full)
        precision = 1.0 / marginal_of(measurement.clique, variance, clique)
        weighted += marginal_of(measurement.clique, values, clique) * precision
        weight += precision
        sources += 1
    return NoisyMarginal(weighted / weight, np.sqrt(1.0 / weight), sources) if sources else None


def other_queries(measurements: Sequence[LinearMeasurement], attribute: str) -> list[str] | None:
    """Return the kinds of queries other than marginals through which an attribute was measured.

    Args:
        measurements: released answers.
        attribute: the attribute's name.

    Returns:
        The distinct kinds as in a workload file, in order of appearance: that of the attribute's own block
        unless it is the identity, otherwise those of the other blocks. None if the attribute occurs in no
        measurement other than marginals.

    Example:
        >>> from pgmjax.queries import prefix
        >>> other_queries([LinearMeasurement(("a",), [1, 3], 2.0, prefix())], "a")
        ['prefix']
    """
    found = [m for m in measurements if attribute in m.clique and not m.query.is_identity]
    kinds = [kind for measurement in found for kind in _kinds(measurement.query, attribute)]
    return list(dict.fromkeys(kinds)) if found else None


def _kinds(query: Query, attribute: str) -> list[str]:
    if isinstance(query, WeightedSum):
        kinds = [kind for product in query.products for kind in _kinds(product, attribute)]
        return kinds or ["sum"]
    if not isinstance(query, Product):
        return ["matrix"]
    kinds = [block.kind for block in query.blocks]
    own = kinds[query.clique.index(attribute)]
    return [own] if own != "identity" else [kind for kind in kinds if kind != "identity"]
