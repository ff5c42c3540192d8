"""Conversion to and from mbi (Private-PGM): measurements in, models out.

Objects are read by their attributes, not their class: a measurement has `noisy_measurement`, `clique`,
`stddev` and `query`, a domain has `attributes` and `shape`. Objects of mbi 2.0.0, of mbi 1.1.0 and your own
all work. The query of an mbi measurement is a function of an `mbi.Factor`; `measurement` determines the
equivalent query of this library. Models are returned as mbi's own, so that mbi must be installed for them.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from pgmjax._internal import checks, migration
from pgmjax.data.attribute import Attribute
from pgmjax.data.domain import Clique, Domain
from pgmjax.estimation.constraints import StructuralZeros
from pgmjax.estimation.estimator import Estimator
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.model.graphical import GraphicalModel

__all__ = ["estimate", "from_mbi", "model_from_mbi", "to_mbi"]

_FIELDS = ("noisy_measurement", "clique", "stddev")
_IMPOSSIBLE = 200.0  # nats below the smallest potential: mbi's message passing cannot handle minus infinity

MOST_CELLS = 4096
"""Largest number of cells of a marginal whose query matrix is determined cell by cell."""

_TOLERANCE = 1e-5  # queries may compute in float32


def domain_from_mbi(domain: Any) -> Domain:
    """Convert mbi's domain to one of this library, keeping labels that are text, numbers or bools.

    Raises:
        TypeError: the object has no `attributes` or no `shape`, or names are not strings.
        ValueError: the numbers of attributes, sizes and labels differ.

    Example:
        >>> from types import SimpleNamespace
        >>> domain_from_mbi(SimpleNamespace(attributes=("a", "b"), shape=(2, 3)))
        Domain({a: 2, b: 3})
    """
    if isinstance(domain, Domain):
        return domain
    names = getattr(domain, "attributes", None)
    shape = getattr(domain, "shape", None)
    if names is None or shape is None:
        raise TypeError(f"domain must have attributes and shape, as mbi.Domain, got {type(domain).__name__}.")
    labels = getattr(domain, "labels", None) or [None] * len(names)
    if not len(names) == len(shape) == len(labels):
        raise ValueError(
            f"domain must have a size (and labels) for each attribute: {len(names)} attributes, {len(shape)} "
            f"sizes, {len(labels)} labels."
        )
    return Domain({name: _attribute(*each) for name, *each in zip(names, names, shape, labels, strict=True)})


def _attribute(name: Any, size: Any, labels: Sequence[Any] | None) -> Attribute:
    if labels is not None:
        values = [label.item() if isinstance(label, np.generic) else label for label in labels]
        try:
            return Attribute(name, int(size), tuple(values))
        except (TypeError, ValueError):  # such as the tuples of a domain that mbi compressed
            pass
    return Attribute(name, int(size))


def from_mbi(
    domain: Any, measurements: Iterable[Any], noise: str = "gaussian"
) -> tuple[Domain, list[LinearMeasurement]]:
    """Convert mbi's domain and measurements to those of this library.

    A query is converted directly if it is a marginal or a positive weighting of its cells (2.0.0:
    `DatavectorQuery`, `WeightedQuery`). Any other function must be linear; its matrix is determined by
    evaluating it on one cell at a time, up to 4,096 cells, for which mbi is needed. A measurement on no
    attributes is of the total.

    Args:
        domain: object with `attributes` and `shape`.
        measurements: objects with `noisy_measurement`, `clique`, `stddev` and, unless they measure the whole
            marginal, `query`.
        noise: `gaussian` or `laplace`, which mbi's measurements do not record. `stddev` is always taken as a
            standard deviation, never the scale of a Laplace distribution.

    Raises:
        TypeError: an object lacks one of these attributes.
        ValueError: numbers or queries cannot be converted.
        ImportError: a query is another function, and mbi is not installed.

    Example:
        >>> from types import SimpleNamespace
        >>> domain = SimpleNamespace(attributes=("a", "b"), shape=(2, 3))
        >>> given = SimpleNamespace(noisy_measurement=[7.5, 2.0], clique=("a",), stddev=1.5)
        >>> from_mbi(domain, [given])[1]
        [LinearMeasurement(('a',), 2 values, stddev=1.5, noise='gaussian')]
    """
    own = domain_from_mbi(domain)
    given = checks.several("measurements", measurements, "objects such as mbi.LinearMeasurement")
    found = []
    for each in given:
        if isinstance(each, LinearMeasurement):
            raise TypeError(
                "these measurements are pgmjax's own: write Estimator().fit(domain, measurements)."
            )
        missing = [field for field in _FIELDS if not hasattr(each, field)]
        if missing:
            raise TypeError(
                f"a measurement must have {', '.join(_FIELDS)} as mbi.LinearMeasurement has, got "
                f"{type(each).__name__} without {', '.join(missing)}."
            )
        values, scale = np.asarray(each.noisy_measurement), np.asarray(each.stddev)
        if scale.size != 1 or scale.dtype.kind not in "fiu":
            raise TypeError(f"stddev must be one number, got {type(each.stddev).__name__}.")
        stddev = float(scale.reshape(()))
        query = getattr(each, "query", None)
        found.append(measurement(own, tuple(each.clique), values, stddev, query, noise))
    return own, found


def estimate(
    domain: Any,
    measurements: Iterable[Any],
    known_total: float | None = None,
    constraints: Iterable[Any] = (),
    iters: int = 1000,
    warm_start: Any = None,
    *,
    potentials: Any = None,
    estimator: Estimator | None = None,
    noise: str = "gaussian",
) -> Any:
    """Fit a model, as a replacement for mbi's `MirrorDescent().estimate` (2.0.0) or `mirror_descent` (1.1.0).

    Args:
        domain: mbi's domain.
        measurements: mbi's measurements.
        known_total: number of records. Default: estimated from the measurements.
        constraints: mbi's `Constraint` objects, or `pgmjax.StructuralZeros`.
        iters: maximum number of solver steps; the fit stops earlier once it is certified to be close enough
            to the optimum.
        warm_start: model to start from: mbi's, or a `GraphicalModel`.
        potentials: same as `warm_start`, under its name in mbi 1.1.0: a clique vector.
        estimator: the estimator. Default: one that minimises the loss alone, as mbi does:
            `Estimator(regularisation="none", max_steps=iters, progress=False)`.
        noise: `gaussian` or `laplace`; it matters only for losses that depend on the noise distribution.

    Returns:
        An `mbi.MarkovRandomField`. For the certificate of the fit, write
        ``pj.Estimator().fit(*from_mbi(domain, measurements))`` and `to_mbi` of its model.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: both `warm_start` and `potentials` are given; otherwise as in `Estimator.fit`.
        ImportError: mbi is not installed.
    """
    mbi = _mbi()
    own, given = from_mbi(domain, measurements, noise)
    if warm_start is not None and potentials is not None:
        raise ValueError("give warm_start or potentials, not both: they are two names of one thing.")
    start = warm_start if potentials is None else potentials
    start = None if start is None else model_from_mbi(start, own)
    kept = checks.several("constraints", constraints, "mbi.Constraint")
    alone = Estimator(regularisation="none", max_steps=iters, progress=False)
    fitter = alone if estimator is None else estimator
    total = None if known_total is None else float(known_total)
    fit = fitter.fit(own, given, total, start, [_zeros(each) for each in kept])
    return to_mbi(fit.model, domain=domain if isinstance(domain, mbi.Domain) else None, constraints=kept)


def _zeros(constraint: Any) -> StructuralZeros:
    if isinstance(constraint, StructuralZeros):
        return constraint
    potential = getattr(constraint, "potential", None)
    if potential is None:
        raise TypeError(
            f"a constraint must be an mbi.Constraint or StructuralZeros, got {type(constraint).__name__}."
        )
    return StructuralZeros(tuple(potential.domain.attributes), np.asarray(potential.values) > -np.inf)


def model_from_mbi(model: Any, domain: Any = None) -> GraphicalModel:
    """Convert mbi's `MarkovRandomField`, or a clique vector of its potentials, to a `GraphicalModel`.

    Args:
        model: object with `potentials` and `total`, or a clique vector with `cliques`, `domain` and a factor
            (`values`) for each clique. Potentials are natural logarithms. Or a `GraphicalModel`.
        domain: domain of the result, with the same attributes and sizes. Default: the model's own.

    Raises:
        TypeError: the object is none of these.
        ValueError: the potentials do not fit the domain.
    """
    if isinstance(model, GraphicalModel):
        own, tables, total = model.domain, dict(model.potentials), model.total
    else:
        potentials = getattr(model, "potentials", model)
        if not hasattr(potentials, "cliques") or not hasattr(potentials, "domain"):
            raise TypeError(f"expected a model or a clique vector as mbi's, got {type(model).__name__}.")
        own, total = domain_from_mbi(potentials.domain), float(getattr(model, "total", 1.0))
        factors = [(tuple(clique), potentials[clique]) for clique in potentials.cliques if clique]
        tables = {clique: _as_table(clique, factor) for clique, factor in factors}
    wanted = own if domain is None else domain_from_mbi(domain)
    if wanted == own and isinstance(model, GraphicalModel):
        return model
    return GraphicalModel.from_potentials(wanted, tables, total)


def _as_table(clique: tuple[str, ...], factor: Any) -> np.ndarray:
    """The values of a factor, axes in the order of the clique."""
    names = tuple(factor.domain.attributes)
    return np.asarray(factor.values, np.float64).transpose([names.index(name) for name in clique])


def to_mbi(model: GraphicalModel, *, domain: Any = None, constraints: Sequence[Any] = ()) -> Any:
    """Convert a model to an `mbi.MarkovRandomField` with mbi's own factors.

    Impossible cells have a potential 200 nats below the smallest finite one of their table.

    Args:
        model: the model.
        domain: mbi domain of the result. Default: a new one.
        constraints: the mbi constraints that the model was fitted under.

    Raises:
        TypeError: `model` is not a `GraphicalModel`.
        ImportError: mbi is not installed.
    """
    checks.kind(model, GraphicalModel, "model must be a GraphicalModel")
    mbi = _mbi()
    domain = mbi.Domain(model.domain.attributes, model.domain.shape) if domain is None else domain
    cliques = model.potentials.cliques
    fields = {
        "potentials": _vector(mbi, domain, cliques, map(_possible, model.potentials.tables)),
        "marginals": _vector(mbi, domain, cliques, map(model.marginal, cliques)),
        "total": model.total,
    }
    known = {field.name for field in dataclasses.fields(mbi.MarkovRandomField)}
    if "constraints" in known:  # not in 1.1.0
        fields["constraints"] = tuple(each for each in constraints if not isinstance(each, StructuralZeros))
    return mbi.MarkovRandomField(**fields)


def _mbi() -> Any:
    try:
        return importlib.import_module("mbi")
    except ImportError as error:
        raise ImportError(
            "mbi is needed for its own models and queries, and is not installed: run  pip install mbi"
        ) from error


def _possible(table: np.ndarray) -> np.ndarray:
    finite = table[np.isfinite(table)]
    return np.maximum(table, (finite.min() if finite.size else 0.0) - _IMPOSSIBLE)


def _vector(mbi: Any, domain: Any, cliques: tuple[Clique, ...], tables: Iterable[np.ndarray]) -> Any:
    """Mbi's own clique vector."""
    factors = {
        clique: _factor(mbi, domain.project(clique), table)
        for clique, table in zip(cliques, tables, strict=True)
    }
    return mbi.CliqueVector(domain, cliques, factors)


def _factor(mbi: Any, domain: Any, table: np.ndarray) -> Any:
    """Mbi's own factor. Adding to its zeros gives arrays of the type that mbi computes with."""
    return mbi.Factor(domain, mbi.Factor.zeros(domain).values + table)


def measurement(
    domain: Domain, clique: tuple[str, ...], values: np.ndarray, stddev: Any, query: Any, noise: str
) -> LinearMeasurement:
    """Convert one measurement.

    Args:
        domain: domain with all attributes.
        clique: attributes of the marginal; empty for a total.
        values: noisy answers [rows].
        stddev: standard deviation of their noise.
        query: None or mbi's identity (all cells), mbi's weighted cells, or any linear function of a factor.
        noise: family of the noise distribution.

    Raises:
        ValueError: the query is not linear, or it is of an unknown kind and has too many cells.
    """
    if not clique:
        total = values.reshape(-1) / _scale_of_total(query)
        return LinearMeasurement((domain.attributes[0],), total, stddev, "total", noise)
    if _is_identity(query):
        return LinearMeasurement(clique, values.reshape(-1), stddev, None, noise)
    weights = getattr(query, "weights", None)
    if type(query).__name__ == "WeightedQuery" and weights is not None:
        weights = np.asarray(weights, np.float64).reshape(-1)
        if (weights > 0).all():
            return LinearMeasurement(clique, values.reshape(-1) / weights, stddev / weights, None, noise)
    matrix = _matrix(clique, domain.shape_of(clique), query)
    if matrix.shape[0] == matrix.shape[1] and (matrix == np.eye(len(matrix))).all():
        return LinearMeasurement(clique, values.reshape(-1), stddev, None, noise)
    return LinearMeasurement(clique, values.reshape(-1), stddev, matrix, noise)


def _is_identity(query: Any) -> bool:
    """Return whether a query is mbi's marginal: `DatavectorQuery()` (2.0.0), `Factor.datavector` (1.1.0)."""
    if query is None:
        return True
    own = getattr(query, "__module__", type(query).__module__) or ""
    name = getattr(query, "__qualname__", type(query).__name__)
    return own.split(".")[0] == "mbi" and name in ("DatavectorQuery", "Factor.datavector")


def _scale_of_total(query: Any) -> float:
    """Return a query's coefficient of the total: its answer to the number 1 as a table with no attributes."""
    if _is_identity(query):
        return 1.0
    mbi = _mbi()
    answer = _asked(query, _factor(mbi, mbi.Domain((), ()), np.array(1.0)), ())
    if answer.shape != (1,) or answer[0] == 0:
        raise ValueError("the query of a measurement on no attributes must give one number, the total.")
    return float(answer[0])


def _matrix(clique: Clique, shape: tuple[int, ...], query: Callable[[Any], Any]) -> np.ndarray:
    """The matrix [rows, cells] of a linear function, evaluated one cell at a time."""
    cells = math.prod(shape)
    if cells > MOST_CELLS:
        raise ValueError(
            f"the query of the measurement on {clique} is a function whose matrix would be found out cell by "
            f"cell: {cells:,} cells are more than {MOST_CELLS:,}. Leave the query out where it is the whole "
            "marginal, or make a pgmjax.LinearMeasurement with a query of pgmjax.queries."
        )

    mbi = _mbi()
    domain = mbi.Domain(clique, shape)

    def ask(vector: np.ndarray) -> np.ndarray:
        return _asked(query, _factor(mbi, domain, vector.reshape(shape)), clique)

    if np.any(ask(np.zeros(cells))):
        raise ValueError(
            f"the query of the measurement on {clique} is not linear: it is not 0 of a table of zeros."
        )
    matrix = np.stack([ask(cell) for cell in np.eye(cells)], axis=1)
    probe = 1.0 + np.arange(cells) % 7
    most = _TOLERANCE * np.abs(matrix).max(initial=0)
    if not np.allclose(ask(probe), matrix @ probe, rtol=_TOLERANCE, atol=most):
        raise ValueError(
            f"the query of the measurement on {clique} is not linear: its answer to a sum of tables is not "
            "the sum of its answers."
        )
    return matrix


def _asked(query: Callable[[Any], Any], factor: Any, clique: Clique) -> np.ndarray:
    try:
        return np.asarray(query(factor), np.float64).reshape(-1)
    except (AttributeError, TypeError) as error:
        raise ValueError(
            f"the query of the measurement on {clique} cannot be asked of a table: it must be a function of "
            f"an mbi.Factor ({error})."
        ) from error


migration.answer(globals())
