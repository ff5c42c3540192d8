"""Product priors of a record, with independent attributes.

Noisy counts, some of which may be negative, are smoothed to positive counts and normalised.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy

from pgmjax._internal import checks
from pgmjax.data.domain import Domain, as_domain
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.privacy.exact import exact_epsilon, exact_rho
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.queries import marginal

SMOOTHINGS = ("posterior-mean", "truncate")
_FAR = -50  # below this a series is more accurate


@dataclasses.dataclass(frozen=True, init=False, eq=False, repr=False)
class ProductPrior:
    """A distribution of one record with independent attributes.

    Args:
        domain: the attributes.
        marginals: probabilities [size] by attribute, summing to 1 up to rounding; attributes left
            out are uniform.

    Raises:
        TypeError: not a mapping.
        ValueError: an attribute is unknown, or its probabilities have the wrong length, are negative or not
            finite, or do not sum to 1.

    Example:
        >>> prior = ProductPrior(Domain({"age": 2, "sex": 2}), {"age": [0.25, 0.75]})
        >>> prior.marginal("age").tolist(), prior.marginal("sex").tolist()
        ([0.25, 0.75], [0.5, 0.5])
    """

    domain: Domain
    probabilities: tuple[np.ndarray, ...]

    def __init__(self, domain: Domain, marginals: Mapping[str, Any]) -> None:
        checks.kind(marginals, Mapping, "the marginals of a prior must map attribute names to probabilities")
        for name in marginals:
            domain.attribute(name)
        if named := [name for name, table in marginals.items() if isinstance(table, Mapping)]:
            raise TypeError(
                f"the probabilities of {named[0]!r} must be a list in the order of its values, no mapping."
            )
        tables = [_probabilities(name, marginals.get(name), domain[name]) for name in domain]
        checks.set_fields(self, domain=domain, probabilities=tuple(tables))

    @classmethod
    def uniform(cls, domain: Domain) -> ProductPrior:
        """Return the uniform prior."""
        return cls(domain, {})

    @classmethod
    def from_measurements(
        cls,
        domain: Domain,
        measurements: Sequence[LinearMeasurement],
        *,
        smoothing: str = "posterior-mean",
        pseudocount: float = 1.0,
    ) -> ProductPrior:
        """Return the prior estimated from noisy one-way marginals, positive in every cell.

        Args:
            domain: the domain; attributes that were not measured are uniform.
            measurements: noisy one-way marginals, one attribute each.
            smoothing: "posterior-mean" takes the posterior mean of each count under a flat prior on counts
                >= 0; "truncate" cuts negative counts off at 0.
            pseudocount: for "truncate", added to every count (counts), > 0.

        Raises:
            TypeError: something is not a measurement.
            ValueError: a measurement is not a one-way marginal, an attribute is measured twice, or the
                smoothing is unknown.

        References:
            Chen, Zhou and Bhowmick 2012, footnote 3.
        """
        domain = as_domain(domain, "ProductPrior.from_measurements(domain, measurements)", measurements)
        smoothing = checks.choice("smoothing", smoothing, SMOOTHINGS)
        pseudocount = checks.number("pseudocount", pseudocount, above=0)
        tables: dict[str, np.ndarray] = {}
        for measurement in checks.several("measurements", measurements, "LinearMeasurement"):
            name = _one_way(domain, measurement, tables)
            values = measurement.flat_values()
            if smoothing == "truncate":
                counts = np.maximum(values, 0) + pseudocount
            else:
                counts = posterior_mean(values, measurement.row_stddevs(), measurement.noise)
            tables[name] = counts / counts.sum()
        return cls(domain, tables)

    @classmethod
    def bought(
        cls,
        table: PrivateTable,
        *,
        epsilon: Any = None,
        rho: Any = None,
        smoothing: str = "posterior-mean",
        pseudocount: float = 1.0,
    ) -> tuple[ProductPrior, tuple[LinearMeasurement, ...]]:
        """Measure one-way marginals of all attributes and return the prior estimated from them.

        Args:
            table: the private table, whose budget is charged.
            epsilon: cost of all marginals together, > 0, exact; give this or `rho`.
            rho: cost of all marginals together in zCDP, instead of `epsilon`.
            smoothing: as in `from_measurements`.
            pseudocount: as in `from_measurements`.

        Returns:
            The prior, and the measurements, which can also be added to a history.

        Raises:
            ValueError: not exactly one of epsilon and rho is given; nothing was spent.
            BudgetExceeded: the budget is insufficient; nothing was spent.

        Guarantees:
            epsilon-DP, or rho-zCDP, under the table's relation: each of d attributes is measured with exactly
            1/d of the budget.
        """
        smoothing = checks.choice("smoothing", smoothing, SMOOTHINGS)
        pseudocount = checks.number("pseudocount", pseudocount, above=0)
        if (epsilon is None) == (rho is None):
            raise ValueError("give epsilon or rho, one of them: what the marginals of the prior may cost.")
        names = table.domain.attributes
        queries = [marginal([name]) for name in names]
        parts = len(queries)
        if rho is None:
            measured = table.measure(queries, epsilons=[exact_epsilon(epsilon) / parts] * parts)
        else:
            measured = table.measure(queries, rhos=[exact_rho(rho) / parts] * parts)
        prior = cls.from_measurements(table.domain, measured, smoothing=smoothing, pseudocount=pseudocount)
        return prior, measured

    def marginal(self, name: str) -> np.ndarray:
        """Return the probabilities [size] of one attribute."""
        self.domain.attribute(name)
        return self.probabilities[self.domain.attributes.index(name)]

    def __repr__(self) -> str:
        return f"ProductPrior({self.domain!r})"


def _one_way(domain: Domain, measurement: Any, known: Mapping[str, Any]) -> str:
    checks.kind(measurement, LinearMeasurement, "a prior is made from LinearMeasurements")
    if len(measurement.clique) != 1 or measurement.query != marginal(measurement.clique):
        raise ValueError(
            f"a prior takes the counts of all codes of one attribute, got another measurement on "
            f"{measurement.clique}: measure queries.marginal([name])."
        )
    measurement.validate(domain)
    name = measurement.clique[0]
    if name in known:
        raise ValueError(f"two measurements of attribute {name!r}: give one.")
    return name


def _probabilities(name: str, values: Any, size: int) -> np.ndarray:
    array = np.full(size, 1.0 / size) if values is None else np.array(values, np.float64)
    checks.refuse(
        (
            array.shape != (size,),
            f"the prior of attribute {name!r} must have {size} probabilities, one for each value in the "
            "domain's order "
            f"(missing and other at its end), got shape {array.shape}.",
        ),
        (
            not np.isfinite(array).all() or (array < 0).any(),
            f"the prior of attribute {name!r} must be finite probabilities >= 0.",
        ),
    )
    total = array.sum()
    if abs(total - 1) > 1e-6:
        raise ValueError(
            f"the prior of attribute {name!r} must sum to 1, got {total:.6g}: divide counts by their sum."
        )
    array /= total
    array.flags.writeable = False
    return array


def posterior_mean(values: np.ndarray, stddevs: np.ndarray, noise: str) -> np.ndarray:
    """Return posterior means of counts given noisy answers, under a flat prior on counts >= 0.

    The continuous distribution of the same standard deviation replaces the discrete one.

    Args:
        values: noisy answers (counts) [n].
        stddevs: standard deviations of their noise (counts) [n].
        noise: "laplace" or "gaussian".

    Returns:
        Positive counts [n]; for an answer far above its noise, the answer itself.

    Example:
        >>> posterior_mean(np.array([100.0, -3.0]), np.array([1.0, 1.0]), "laplace").round(3).tolist()
        [100.0, 0.707]
    """
    if noise == "laplace":
        scale = stddevs / math.sqrt(2)
        # a count below 0 is as one of 0: the tail of a Laplace distribution has one shape from there on
        fall = np.exp(-np.maximum(values, 0) / scale)
        return np.where(values > 0, (2 * values + scale * fall) / (2 - fall), scale)
    ratio = values / stddevs
    above = np.maximum(ratio, _FAR)
    mean = above + np.exp(-(above**2) / 2 - math.log(math.sqrt(2 * math.pi)) - scipy.special.log_ndtr(above))
    below = 1 / np.maximum(-ratio, -_FAR)
    return stddevs * np.where(ratio < _FAR, below * (1 - 2 * below**2 + 10 * below**4), mean)
