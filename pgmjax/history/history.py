"""A history: linear queries, their noisy answers and the noise that was added; and histories on disk.

Covariances of correlated noise are validated on input and combined by `append`.

On disk a history is `history.json` and one file of arrays, readable without this library. The name of the
array file contains a digest of its contents, so that damage is seen, and the file is written first: an
interrupted save leaves no history.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import io
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy

from pgmjax._internal import checks, files, formats
from pgmjax._version import __version__
from pgmjax.data.domain import Domain, as_domain
from pgmjax.data.relation import Relation
from pgmjax.history.rows import Rows
from pgmjax.measurements.inputs import Input, are_secure, with_inputs
from pgmjax.measurements.linear import LinearMeasurement, over_domain
from pgmjax.measurements.noise import DiscreteNoise, read_noise
from pgmjax.queries import DenseMatrix, Query
from pgmjax.queries import text as query_text
from pgmjax.queries.workload import as_entry

_ROUNDING = 1e-9
IMPOSSIBLE_DEVIATIONS = 20.0
"""Standard deviations by which noise does not move an answer away from the others."""
_FIT_ROUNDING = 1e-6  # of the largest answer: what a fit may miss


def as_history(given: History) -> History:
    """Return a history; refuse what is none.

    Raises:
        TypeError: it is none.
    """
    then = "the history comes first" if isinstance(given, Query) else "write History(domain, measurements)"
    then = "give its history" if hasattr(given, "history") else then
    checks.kind(given, History, "history must be a History", then)
    return given


def contradiction(
    values: np.ndarray, fitted: np.ndarray, stddevs: np.ndarray, total: float | None = None
) -> str | None:
    """Return what is wrong with answers that their noise cannot explain, such as exact ones that contradict.

    Args:
        values: noisy answers (counts) [rows].
        fitted: what all of them together say of each [rows].
        stddevs: of their noise [rows].
        total: a public number of records among what they are fitted to.
    """
    if not len(values):
        return None
    # what rounding and a cut of the rank may move is no contradiction
    rounding = _FIT_ROUNDING * max(np.abs(values).max(), np.abs(fitted).max())
    missed = np.abs(values - fitted)
    apart = np.where(missed > rounding, missed, 0) / stddevs
    worst = int(np.argmax(apart))
    if not apart[worst] > IMPOSSIBLE_DEVIATIONS:
        return None
    more = "" if total is None else " or the total"
    return (
        f"the answers contradict one another{more}: answer {worst + 1} of {len(apart):,} is "
        f"{apart[worst]:,.0f} standard deviations of its noise away from what all say together. Correct it "
        "or the standard deviations."
    )


def part_above_whole(history: History) -> str | None:
    """Return what is wrong with a count of a part that is far above that of the whole.

    Least squares does not know that no cell has fewer than 0 records.
    """
    nested = history.rows.nested()
    values, variances = history.values, history.stddevs**2
    spread = np.add.outer(variances, variances)
    if history.covariance is not None:
        spread -= 2 * history.covariance
    more = np.subtract.outer(values, values) - _FIT_ROUNDING * np.abs(values).max(initial=0)
    above = np.zeros(more.shape)
    np.divide(more, np.sqrt(spread), out=above, where=nested & ~nested.T & (spread > 0))
    part, whole = np.unravel_index(int(np.argmax(above)), above.shape)
    if not above[part, whole] > IMPOSSIBLE_DEVIATIONS:
        return None
    return (
        f"answer {part + 1} can be no larger than answer {whole + 1}, of which it counts a part, and is "
        f"{above[part, whole]:,.0f} standard deviations of their noise above it. Correct one of them or its "
        "standard deviation."
    )


@dataclasses.dataclass(frozen=True, init=False, eq=False, repr=False)
class History:
    """Noisy linear answers about one table, in the order they were given.

    Args:
        domain: the domain.
        measurements: noisy answers; their rows are concatenated.
        covariance: covariance of the noise of all rows (counts squared) [rows, rows], if it is correlated.
            Default: the diagonal of the measurements' own variances.
        relation: neighbouring relation under which the answers were bought. Default: not stated.
        secure: False if the noise is reproducible, such as that of a seeded session, and so protects nobody;
            measurements that say so of their own noise count too.

    Raises:
        TypeError: something is not a measurement, or `secure` is not True or False.
        ValueError: a measurement does not fit the domain, the covariance is not symmetric and positive
            definite, or it disagrees with the measurements' standard deviations.

    Example:
        >>> measured = LinearMeasurement(("sex",), [10, 7], stddev=2.0)
        >>> History(Domain({"age": 5, "sex": 2}), [measured])
        History(2 answers by 1 measurement over 2 attributes)
    """

    domain: Domain
    measurements: tuple[LinearMeasurement, ...]
    covariance: np.ndarray | None
    relation: Relation | None
    secure: bool

    def __init__(
        self,
        domain: Domain,
        measurements: Sequence[LinearMeasurement],
        *,
        covariance: Any = None,
        relation: Relation | str | None = None,
        secure: bool = True,
    ) -> None:
        domain = as_domain(domain, "History(domain, measurements)", measurements)
        measured = over_domain(domain, measurements)
        stated = None if relation is None else Relation.parse(relation)
        checks.kind(secure, bool, "secure must be True or False")
        inputs = () if secure else (Input("a history", False),)
        measured = tuple(with_inputs(m, m.inputs or inputs) for m in measured) if inputs else measured
        secure = secure and all(are_secure(m.inputs) for m in measured)
        checks.set_fields(self, domain=domain, measurements=measured, relation=stated, secure=secure)
        checks.set_fields(self, covariance=checked(covariance, self.stddevs))

    @classmethod
    def from_answers(
        cls,
        domain: Domain,
        queries: Sequence[Query],
        values: Any,
        *,
        stddev: Any = None,
        distribution: DiscreteNoise | None = None,
        covariance: Any = None,
        relation: Relation | str | None = None,
    ) -> History:
        """Return a history from plain numbers.

        Args:
            domain: the domain.
            queries: the measured queries.
            values: noisy answers to the rows of all queries (counts) [rows], or a list for each query.
            stddev: standard deviation of the noise (counts), one or [rows]; give this, `distribution` or
                `covariance`.
            distribution: discrete distribution of the noise of every row.
            covariance: as in the class.
            relation: as in the class.

        Raises:
            ValueError: not one value per row, or not the lists of the queries, or not exactly one of
                `stddev`, `distribution`, `covariance`.

        Example:
            >>> from pgmjax.queries import Product, point
            >>> asked = [Product({"sex": point(code)}) for code in (0, 1)]
            >>> History.from_answers(Domain({"sex": 2}), asked, [10, 7], stddev=2.0).num_rows
            2
        """
        if sum(given is not None for given in (stddev, distribution, covariance)) != 1:
            raise ValueError(
                "give exactly one of stddev, distribution and covariance: the noise that was added."
            )
        if covariance is not None:
            stddev = np.sqrt(np.diagonal(np.asarray(covariance, np.float64)))
        given = checks.several("queries", queries, "queries", "write a list, such as ['sex=F', ('age',)]")
        queries = [query_text.asked(domain, query, "Each query") for query in given]
        rows = [query.num_rows(domain) for query in queries]
        values = _flat(values, rows)
        measured = []
        for query, count, end in zip(queries, rows, itertools.accumulate(rows), strict=True):
            some = slice(end - count, end)
            if distribution is not None:
                measured.append(LinearMeasurement.released(query, values[some], distribution))
                continue
            spread = np.broadcast_to(np.asarray(stddev, np.float64), values.shape)[some]
            measured.append(LinearMeasurement(query.clique, values[some], spread, query))
        return cls(domain, measured, covariance=covariance, relation=relation)

    @functools.cached_property
    def num_rows(self) -> int:
        """The number of answers."""
        return sum(measurement.values.size for measurement in self.measurements)

    @functools.cached_property
    def values(self) -> np.ndarray:
        """The noisy answers (counts), float64 [rows]."""
        return _joined([measurement.flat_values() for measurement in self.measurements])

    @functools.cached_property
    def stddevs(self) -> np.ndarray:
        """The standard deviation of each answer's noise (counts), float64 [rows]."""
        return _joined([measurement.row_stddevs() for measurement in self.measurements])

    @functools.cached_property
    def distributions(self) -> tuple[DiscreteNoise | None, ...]:
        """The discrete distribution of each answer's noise [rows]; None if unknown."""
        return tuple(
            measurement.distribution
            for measurement in self.measurements
            for _ in range(measurement.values.size)
        )

    @property
    def queries(self) -> tuple[Query, ...]:
        """The query of each measurement."""
        return tuple(measurement.query for measurement in self.measurements)

    @functools.cached_property
    def rows(self) -> Rows:
        """The rows of all queries, in factored form."""
        return Rows.of(self.queries, self.domain)

    @functools.cached_property
    def sensitivities(self) -> np.ndarray:
        """The sensitivity of each single answer (counts), float64 [rows].

        Add/remove: the largest magnitude of a row's entries, S in paper 003. Replace one: the largest
        difference between two entries. Both are for unweighted tables.

        Raises:
            ValueError: the history has no relation.
        """
        if self.relation is None:
            raise ValueError(
                "sensitivities depend on the relation: make the history with relation='add-remove' or "
                "'replace-one'."
            )
        low, high = self.rows.extremes()
        result = np.maximum(-low, high) if self.relation is Relation.ADD_REMOVE else high - low
        result.flags.writeable = False
        return result

    def __add__(self, other: History) -> History:
        return self.append(other) if isinstance(other, History) else NotImplemented

    def append(self, *measurements: LinearMeasurement | History) -> History:
        """Return a new history, this one with further answers, whose noise is independent; this one stays.

        It is secure if all parts are.

        Args:
            measurements: measurements, or histories of the same table.

        Raises:
            ValueError: a history has another domain or another relation.
        """
        new = [m if isinstance(m, History) else History(self.domain, [m]) for m in measurements]
        for given, each in zip(measurements, new, strict=True):
            if each.domain != self.domain:
                raise ValueError(f"expected a history over {self.domain!r}, got one over {each.domain!r}.")
            if given is each and each.relation is not self.relation:
                raise ValueError(
                    f"the histories mix relations, {_named(self.relation)} and {_named(each.relation)}: what "
                    "an answer cost means something else under each. Keep them apart."
                )
        parts = [self, *new]
        covariance = None
        if any(part.covariance is not None for part in parts):
            covariance = scipy.linalg.block_diag(*(part.full_covariance() for part in parts))
        every = [measurement for part in parts for measurement in part.measurements]
        secure = all(part.secure for part in parts)
        result = History(self.domain, every, covariance=covariance, relation=self.relation, secure=secure)
        # rows that are factored already are joined, which is faster than to factor all queries again
        if "rows" in self.__dict__:
            result.__dict__["rows"] = self.rows.concatenated(*(part.rows for part in new))
        return result

    def save(self, folder: Any) -> None:
        """Write the history into a folder: `history.json` and a file of arrays, no pickle.

        Args:
            folder: path of a new folder.

        Raises:
            ValueError: the folder exists.
        """
        files.check_target(folder)
        arrays: dict[str, np.ndarray] = {}
        if self.covariance is not None:
            arrays["covariance"] = self.covariance
        measurements = self.measurements
        dense: list[np.ndarray] = []
        described = [_described(measurement, dense) for measurement in measurements]
        for kind in "if":
            arrays["values_" + kind] = _concatenated(
                [m.values for m in measurements if m.values.dtype.kind == kind]
            )
            arrays["matrices_" + kind] = _narrowed(
                _concatenated([each for each in dense if each.dtype.kind == kind])
            )
        arrays["stddevs"] = _concatenated([m.stddev for m in measurements]).astype(np.float64)
        packed = io.BytesIO()
        np.savez_compressed(packed, **arrays)  # type: ignore[arg-type]
        content = packed.getvalue()
        # named by its content, so that a description never goes with the arrays of another write
        name = f"history-{hashlib.sha256(content).hexdigest()[:32]}.npz"
        description = {
            "pgmjax": __version__,
            "domain": self.domain.to_dict(),
            "relation": None if self.relation is None else self.relation.value,
            "secure": self.secure,
            "arrays": name,
            "measurements": described,
        }
        FOLDER.write(folder, description, {name: content})

    @classmethod
    def load(cls, folder: Any) -> History:
        """Read a history written by `save`.

        Raises:
            FileNotFoundError: the folder or one of its files is missing.
            ValueError: the files are corrupt, written by another program, or of a newer version.
        """
        with FOLDER.reading(folder) as contents:
            record = contents.record
            name = str(record.get("arrays"))
            with contents.path(name).open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            if digest[:32] not in name:
                raise ValueError(f"{name} is not what was written under this name.")
            arrays = contents.arrays(name)
            entries = record["measurements"]
            parts = {name: _parts(arrays, name, shapes) for name, shapes in _shapes(entries).items()}
            count = sum(math.prod(entry["shape"]) for entry in entries)
            if "covariance" in arrays and arrays.header("covariance").shape != (count, count):
                raise ValueError("its covariance is not that of its answers.")
            measurements = [_measurement(entry, parts) for entry in entries]
            return cls(
                Domain(record["domain"]),
                measurements,
                covariance=arrays.get("covariance"),
                relation=record["relation"],
                secure=record["secure"] is True,
            )

    def full_covariance(self) -> np.ndarray:
        """Return the covariance of the noise (counts squared) as a full matrix [rows, rows]."""
        return np.diag(self.stddevs**2) if self.covariance is None else self.covariance

    def __len__(self) -> int:
        return self.num_rows

    def __repr__(self) -> str:
        count = len(self.measurements)
        return (
            f"History({self.num_rows:,} answers by {count:,} measurement{'s' if count != 1 else ''} over "
            f"{len(self.domain)} attributes)"
        )


def _flat(values: Any, rows: Sequence[int]) -> np.ndarray:
    """Return answers [rows], given so or as a list for each query."""
    nested = "for each query a list or an array of numbers"
    try:
        if isinstance(values, list | tuple) and any(map(np.ndim, values)):
            lists = [np.ravel(np.asarray(each)) for each in values]
            if [len(each) for each in lists] != list(rows):
                raise ValueError(f"expected lists of {list(rows)} numbers, got {[*map(len, lists)]}")
            values = np.concatenate(lists)
        flat = np.asarray(values)
    except ValueError as error:  # NumPy has its own for lists of unequal length in one
        why = str(error).rstrip(".")
        raise ValueError(f"values must be one number a query row, or {nested}: {why}.") from error
    if flat.shape != (sum(rows),):
        raise ValueError(
            f"there must be one value for each answer of the queries, {sum(rows):,} in all, got shape "
            f"{flat.shape}."
        )
    return flat


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    result = np.concatenate([np.zeros(0), *parts])
    result.flags.writeable = False
    return result


def _named(relation: Relation | None) -> str:
    return "none stated" if relation is None else relation.value


def checked(values: Any, stddevs: np.ndarray) -> np.ndarray | None:
    """Validate a covariance and return it as a read-only array, or None.

    Args:
        values: covariance of the noise (counts squared) [rows, rows].
        stddevs: standard deviations of the measurements (counts) [rows].

    Raises:
        ValueError: the covariance has the wrong shape, is not finite, symmetric and positive definite, or its
            diagonal disagrees with the standard deviations.
    """
    if values is None:
        return None
    array = np.array(values, np.float64)
    rows = len(stddevs)
    checks.refuse(
        (
            array.shape != (rows, rows),
            f"the covariance must be of shape {(rows, rows)}, one row an answer, got {array.shape}.",
        ),
        (not np.isfinite(array).all(), "the covariance must be finite."),
    )
    diagonal = np.diagonal(array)
    if (diagonal <= 0).any():
        raise ValueError("the covariance must have variances > 0: noise of scale zero cannot be weighed.")
    scale = np.sqrt(diagonal)
    if not np.allclose(scale, stddevs, rtol=1e-6, atol=0):
        raise ValueError(
            "the covariance and the measurements state different noise: its diagonal must hold the squares "
            "of their standard deviations."
        )
    # as correlations, so that rounding is judged alike for answers of any size
    correlations = array / np.multiply.outer(scale, scale)
    if np.abs(correlations - correlations.T).max(initial=0) > _ROUNDING:
        raise ValueError("the covariance must be symmetric.")
    try:
        np.linalg.cholesky((correlations + correlations.T) / 2)
    except np.linalg.LinAlgError:
        raise ValueError(
            "the covariance must be positive definite: an answer whose noise others determine cannot be "
            "weighed."
        ) from None
    array = (array + array.T) / 2
    array.flags.writeable = False
    return array


DESCRIPTION = "history.json"
FOLDER = files.ArrayFolder(DESCRIPTION, formats.HISTORY, indent=None)


def _described(measurement: LinearMeasurement, dense: list[np.ndarray]) -> dict[str, Any]:
    """Return a description of query and noise; dense matrices are appended to `dense`."""
    query, distribution = measurement.query, measurement.distribution
    if isinstance(query, DenseMatrix):
        entries = query.entries.array
        dense.append(entries)
        asked: Any = {"clique": list(query.clique), "matrix": [entries.dtype.kind, *entries.shape]}
    else:
        asked = query.to_spec()
    return {
        "query": asked,
        "shape": list(measurement.values.shape),
        "values": measurement.values.dtype.kind,
        "stddev": list(measurement.stddev.shape),
        "noise": measurement.noise,
        **({"scale": None} if distribution is None else distribution.parameters()),
    }


def _shapes(entries: list[dict[str, Any]]) -> dict[str, list[list[int]]]:
    """Return the shapes of what lies in each array, one after another, from the record."""
    names = "values_i", "values_f", "matrices_i", "matrices_f", "stddevs"
    result: dict[str, list[list[int]]] = {name: [] for name in names}
    for entry in entries:
        result["values_" + entry["values"]].append(entry["shape"])
        result["stddevs"].append(entry["stddev"])
        if "matrix" in entry["query"]:
            kind, *shape = entry["query"]["matrix"]
            result["matrices_" + kind].append(shape)
    return result


def _parts(arrays: files.StoredArrays, name: str, shapes: list[list[int]]) -> Iterator[np.ndarray]:
    """Return the parts of an array, which is read if it is as long as the record says."""
    sizes = [math.prod(shape) for shape in shapes]
    if (shapes or name in arrays) and arrays.header(name).shape != (sum(sizes),):
        raise ValueError(f"{name} is not as long as its record says.")
    parts = np.split(arrays[name], np.cumsum(sizes)[:-1]) if shapes else []
    return (part.reshape(shape) for part, shape in zip(parts, shapes, strict=True))


def _measurement(entry: dict[str, Any], parts: dict[str, Iterator[np.ndarray]]) -> LinearMeasurement:
    """Return a measurement from its description and the next parts of the arrays."""
    asked = entry["query"]
    if "matrix" in asked:
        kind = asked["matrix"][0]
        entries = next(parts["matrices_" + kind])
        query: Query = DenseMatrix(asked["clique"], entries.astype(np.int64 if kind == "i" else np.float64))
    else:
        query = as_entry(0, asked).query
    values, stddev = next(parts["values_" + entry["values"]]), next(parts["stddevs"])
    distribution = None if entry["scale"] is None else read_noise(entry["noise"], entry)
    return LinearMeasurement(query.clique, values, stddev, query, entry["noise"], distribution)


def _concatenated(arrays: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([array.reshape(-1) for array in arrays]) if arrays else np.zeros(0)


def _narrowed(array: np.ndarray) -> np.ndarray:
    """Return integers in the narrowest type that holds them: most are 0 and 1."""
    if array.dtype.kind != "i":
        return array
    low, high = int(array.min(initial=0)), int(array.max(initial=0))
    return array.astype(np.promote_types(np.min_scalar_type(low), np.min_scalar_type(high)))
