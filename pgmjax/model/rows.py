"""Row operations of a model: sampling, completing, writing to a file, and checking rows.

A check compares a marginal of rows with the model's, and gives the distance expected by chance.

To complete rows with some known cells, the model is conditioned on the known cells before anything is summed:
each distinct combination of them becomes one slice of a smaller model over the unknown variables, and slices
are eliminated together. Known variables drop out, so a slice never needs larger tables than the model itself.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from pgmjax import random
from pgmjax._internal import checks, memory
from pgmjax.data.attribute import Attribute, Code, code_of
from pgmjax.data.domain import Clique, Domain, as_clique
from pgmjax.data.encoding import MISSING
from pgmjax.inference.oracles.host import HostModel
from pgmjax.inference.plan import junction_tree
from pgmjax.inference.plan.structure import Structure
from pgmjax.model import sampling
from pgmjax.model.base import Distribution
from pgmjax.model.clique_vector import CliqueVector

_BYTES_A_CODE = 8


class DrawnRows(dict[str, np.ndarray]):
    """Rows as codes by column: a dictionary, which says what to write where a frame was meant."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            raise AttributeError(
                f"rows have no {name!r}, as they are codes by column: pandas.DataFrame(domain.decode(rows)) "
                "is a frame with labels, and sample_to(path, rows, decode='values') of the model writes a "
                "file.",
                name=name,
            )


class ModelRows(Distribution):
    """The row operations of a model that has a distribution: `GraphicalModel` and `MixtureModel`."""

    potentials: CliqueVector

    if TYPE_CHECKING:

        @functools.cached_property
        def _host(self) -> HostModel: ...

    def mode(self) -> dict[str, int]:
        """The most likely cell, as a code for each attribute."""
        return dict(zip(self.domain.attributes, sampling.mode(self._host), strict=True))

    def sample(
        self,
        rows: int | None = None,
        seed: int = 0,
        *,
        method: str | None = None,
        device: bool = False,
        mesh: Any = None,
    ) -> dict[str, np.ndarray]:
        """Draw synthetic rows.

        Args:
            rows: number of rows. Default: the rounded total.
            seed: the same seed gives the same rows. Sampling is post-processing: the seed protects nothing
                and need not be secret.
            method: `round` allocates the rows to the cells of each clique as evenly as integer counts
                allow: their marginals are those of the model up to rounding, and the rows are not
                independent of one another. `multinomial` draws independent rows, with more sampling error.
                Default: `round`, and `multinomial` on the device.
            device: draw `multinomial` rows on JAX's default device. They have the same distribution as
                those drawn on the host, but differ from them for a given seed. All devices agree.
            mesh: devices of this process that share the drawing: the same rows as with `device=True`.

        Returns:
            Codes [rows] of each attribute; `domain.decode` converts them to labels. To sample records that
            agree with some evidence, sample from `condition(evidence)`.

        Raises:
            ValueError: a negative number of rows, an unknown method, a method not available on the device,
                or tables too large for it.
        """
        checks.kind(device, bool, "device must be True or False", "True takes JAX's default device")
        rows = self._number_of_rows(rows)
        require_room(rows, self.domain)
        drawn = self._row_blocks(rows, seed, method, device, mesh, None)
        columns = sampling.joined(drawn, len(self.domain))
        return DrawnRows(zip(self.domain.attributes, columns, strict=True))

    def complete(
        self, columns: Mapping[str, Any], seed: int = 0, *, method: str = sampling.ROUND
    ) -> dict[str, np.ndarray]:
        """Draw the unknown cells of some rows, given the known cells of each.

        Args:
            columns: codes [rows] of some attributes, -1 for unknown cells; or a frame of values, in which
                missing ones are unknown unless the attribute has a code for them. Attributes that are not
                given are unknown in every row.
            seed: the same seed gives the same rows.
            method: `round` allocates rows with equal known cells evenly; `multinomial` draws each row
                independently of the others.

        Returns:
            Codes [rows] of each attribute; known cells are unchanged.

        Raises:
            TypeError: `columns` is no frame and no mapping, or codes are not integers.
            ValueError: no column, an unknown attribute, columns of different lengths, a code outside
                the domain, or rows with probability zero.

        Example:
            >>> import pgmjax as pj
            >>> model = pj.GraphicalModel.from_potentials(
            ...     pj.Domain({"a": 2, "b": 2}), {("a", "b"): [[0.0, -float("inf")], [-float("inf"), 0.0]]}
            ... )
            >>> model.complete({"a": [0, -1], "b": [-1, 1]})["b"].tolist()
            [0, 1]
        """
        method = checks.choice("method", method, sampling.METHODS)
        known = known_codes(self.domain, columns)
        filled = self._visible(complete(self._host, known, seed, method))
        return dict(zip(self.domain.attributes, filled, strict=True))

    def check_rows(
        self, columns: Mapping[str, Any], cliques: Iterable[Clique] | None = None
    ) -> tuple[RowCheck, ...]:
        """Compare the marginals of rows with those of the model.

        Args:
            columns: codes [rows] of each attribute in the cliques, as returned by `sample`; or a frame of
                values.
            cliques: the marginals to compare. Default: those of the model's cliques.

        Returns:
            For each clique, the total variation distance, and its mean and standard error for the same
            number of independent rows of this model.

        Raises:
            ValueError: no rows, a missing attribute, or a code outside the domain.
        """
        wanted = self.potentials.cliques if cliques is None else cliques
        checked = [as_clique(self.domain, clique) for clique in wanted]
        known = known_codes(self.domain, columns, unknown=False)
        codes = {self.domain.attributes[v]: column for v, column in known.items()}
        absent = sorted({name for clique in checked for name in clique} - codes.keys())
        if absent or not all(map(len, codes.values())):
            raise ValueError(
                f"check_rows needs at least one row with a column for every attribute of the cliques; "
                f"missing are {absent or 'the rows'}."
            )
        return tuple(compare_rows(clique, self._probabilities(clique), codes) for clique in checked)

    def _row_blocks(
        self, rows: int, seed: int, method: str | None, device: bool, mesh: Any, show_progress: bool | None
    ) -> Iterator[list[np.ndarray]]:
        """Blocks of rows of the domain's attributes, drawn on the host or on the device."""
        if not device and mesh is None:
            method = sampling.ROUND if method is None else method
            return map(self._visible, sampling.blocks(self._host, rows, seed, method))
        method = sampling.INDEPENDENT if method is None else method
        if checks.choice("method", method, sampling.METHODS) != sampling.INDEPENDENT:
            raise ValueError(
                f"the device draws method={sampling.INDEPENDENT!r}, got {method!r}: leave device=False."
            )
        from pgmjax.model import device_sampling  # which compiles

        return map(self._visible, device_sampling.blocks(self._host, rows, seed, mesh=mesh))

    def _visible(self, columns: list[np.ndarray]) -> list[np.ndarray]:
        """The columns of the domain's attributes; hidden variables come after them."""
        return columns[: len(self.domain)]


def require_room(rows: int, domain: Domain) -> None:
    """Refuse rows that do not fit in memory.

    Raises:
        ValueError: they need more than is free.
    """
    need, free = rows * len(domain) * _BYTES_A_CODE, memory.available_bytes()
    if need > free:
        raise ValueError(
            f"rows: {rows:,} rows of {len(domain)} attributes need {memory.readable_bytes(need)}, "
            f"and {memory.readable_bytes(free)} are free: draw them to a file with sample_to, or fewer."
        )


def known_codes(domain: Domain, columns: Mapping[str, Any], *, unknown: bool = True) -> dict[int, np.ndarray]:
    """Validated columns of codes, keyed by the index of their attribute."""
    if hasattr(columns, "columns") and not isinstance(columns, Mapping):
        columns = {name: _codes_of_frame(domain.attribute(name), columns[name]) for name in columns.columns}
    checks.kind(columns, Mapping, "columns must be a frame, or a mapping of attribute to codes")
    if not columns:
        raise ValueError("columns must name at least one attribute, got none.")
    known = {}
    low = UNKNOWN if unknown else 0
    for name, values in columns.items():
        size, codes = domain[name], np.asarray(values)
        if codes.dtype.kind in "OU" and codes.ndim == 1:
            codes = _codes_of_values(domain.attribute(name), codes)
        if codes.size and codes.dtype.kind not in "iu":
            also = ", and -1 where not known" if unknown else ""
            raise TypeError(f"codes of {name!r} must be integers{also}, got {codes.dtype}.")
        if codes.ndim != 1:
            raise ValueError(f"codes of {name!r} must be one-dimensional, got {codes.ndim} axes.")
        codes = codes.astype(np.int64)
        if codes.size and (codes.min() < low or codes.max() >= size):
            also = " (or -1 where not known)" if unknown else ""
            names = domain.attribute(name).code_names()
            raise ValueError(
                f"codes of {name!r} must lie in 0..{size - 1}{also}: a value is named by its text, such as "
                f"{names[0]!r}."
            )
        known[domain.attributes.index(name)] = codes
    if len({len(codes) for codes in known.values()}) > 1:
        raise ValueError(f"columns must have equal length, got {[len(c) for c in known.values()]} rows.")
    return known


def _codes_of_frame(attribute: Attribute, values: Any) -> np.ndarray:
    """Codes [rows] of a column of a frame, which holds values; where one is missing its code, or else -1."""
    raw = attribute.coder.raw_codes([*values])
    if attribute.bins is not None and attribute.numbers is None and _are_codes(attribute, values):
        checks.warn(
            f"The values of {attribute.name!r} in the frame look like codes, as model.sample gives them, and "
            f"are read as values, such as {attribute.code_names()[0]!r}: give the mapping itself for codes."
        )
    outside = int(((raw < 0) & (raw != MISSING)).sum())
    if outside:
        raise ValueError(f"{outside:,} values of {attribute.name!r} are not in its domain.")
    return np.where(raw == MISSING, attribute.size - 1 if attribute.missing else UNKNOWN, raw)


def _are_codes(attribute: Attribute, values: Any) -> bool:
    """Return whether values are whole numbers from 0 below the number of cells, and reach no second cell."""
    found = np.asarray([*values])
    if not found.size or found.dtype.kind not in "iu" or attribute.bins is None:
        return False
    return 0 <= found.min() < found.max() < min(attribute.size, attribute.bins[1])


def _codes_of_values(attribute: Attribute, values: np.ndarray) -> np.ndarray:
    """Codes [rows] of values as text, or codes [rows]; -1 for None."""
    known = {None: UNKNOWN}
    said = f"codes of {attribute.name!r}"
    for value in values.tolist():
        if value not in known:  # a number is a code here, as in the rows that a model draws
            named = value if isinstance(value, str) else Code(checks.integer(said, value, low=0))
            known[value] = code_of(attribute, named)
    return np.array([known[value] for value in values.tolist()], np.int64)


@dataclasses.dataclass(frozen=True)
class RowCheck:
    """Comparison of a marginal of rows with the model's.

    Attributes:
        clique: the attributes.
        total_variation: half the summed absolute difference of the two distributions.
        expected: its exact mean for the same number of independent rows of the model.
        stderr: a bound on its standard deviation for independent rows, 1 / sqrt(2 rows).
    """

    clique: Clique
    total_variation: float
    expected: float
    stderr: float

    @property
    def standard_errors(self) -> float:
        """The distance minus its mean, in standard errors; for rows of the model it stays below 3."""
        return (self.total_variation - self.expected) / self.stderr


def compare_rows(clique: Clique, probabilities: np.ndarray, columns: Mapping[str, np.ndarray]) -> RowCheck:
    """Compare the marginal of rows with a distribution.

    Args:
        clique: attribute names.
        probabilities: the model's distribution over them [size of each].
        columns: codes [rows] of these attributes and possibly others, at least one row.

    References:
        Mean absolute deviation of a binomial count: De Moivre (1730), see Diaconis and Zabell 1991,
        equation 1.1. Standard deviation: one row changes the distance by at most 1 / rows, so its
        variance is at most 1 / (2 rows) by the Efron-Stein inequality. By McDiarmid's inequality, the
        distance of independent rows exceeds its mean by more than 3 such standard errors with
        probability below exp(-9) = 1.2e-4.
    """
    rows = len(columns[clique[0]])
    cell = np.ravel_multi_index([columns[name] for name in clique], probabilities.shape)
    share = np.bincount(cell, minlength=probabilities.size) / rows
    flat = probabilities.reshape(-1)
    distance = 0.5 * float(np.abs(share - flat).sum())
    return RowCheck(clique, distance, 0.5 * float(_deviation(flat, rows).sum()), 1 / math.sqrt(2 * rows))


def _deviation(p: np.ndarray, rows: int) -> np.ndarray:
    """Mean of |count / rows - p| for a binomial count of each probability."""
    p = np.clip(p, 0.0, 1.0)
    above = np.minimum(np.floor(rows * p) + 1, rows)
    least = rows - above + 1
    choose = scipy.special.gammaln(rows + 1) - scipy.special.gammaln(above + 1) - scipy.special.gammaln(least)
    # 0 where p is 0 or 1: a factor's logarithm is minus infinity there
    logs = np.log(2 * above) + choose + scipy.special.xlogy(above, p) + scipy.special.xlog1py(least, -p)
    return np.exp(logs) / rows


UNKNOWN = -1
_CELLS = 1 << 22  # of the largest table when slices are eliminated together


def complete(
    model: HostModel, known: Mapping[int, np.ndarray], seed: int, method: str = sampling.ROUND
) -> list[np.ndarray]:
    """Draw the unknown cells of rows given the known ones.

    Args:
        model: the distribution.
        known: codes [rows] of some variables, UNKNOWN for unknown cells.
        seed: for the generator.
        method: as in `model.sampling.draw`, by which rows with equal parents are allocated.

    Returns:
        Codes [rows] of each variable.

    Raises:
        ValueError: the known cells of some rows have probability zero; the message gives their number.
    """
    generator = random.generator(seed)
    (rows,) = {len(codes) for codes in known.values()}
    columns = [np.full(rows, UNKNOWN, np.int64) for _ in model.structure.sizes]
    for variable, codes in known.items():
        columns[variable][:] = codes
    for given, mine in list(_patterns(columns, rows)):
        part = [columns[v][mine] for v in range(len(columns))]
        for start in range(0, len(mine), sampling.BLOCK_ROWS):
            block = [codes[start : start + sampling.BLOCK_ROWS] for codes in part]
            _fill(model, block, given, generator, method)
        for column, codes in zip(columns, part, strict=True):
            column[mine] = codes
    return columns


def _patterns(columns: list[np.ndarray], rows: int) -> Iterator[tuple[list[int], np.ndarray]]:
    """Rows grouped by their set of known variables: (known variables, indices of the rows)."""
    bits = np.packbits(np.stack([codes >= 0 for codes in columns]), axis=0).T
    patterns, which = np.unique(bits, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        given = np.flatnonzero(np.unpackbits(pattern, count=len(columns))).tolist()
        yield given, np.flatnonzero(which.reshape(rows) == number)


def _fill(
    model: HostModel,
    block: list[np.ndarray],
    given: list[int],
    generator: np.random.Generator,
    method: str,
) -> None:
    """Fill the unknown variables of a block of rows in place; all rows have the same known variables."""
    known = set(given)
    unknown = [v for v in range(len(block)) if v not in known]
    rows = len(block[0])
    impossible = np.zeros(rows, bool)
    for table, clique in zip(model.tables, model.structure.cliques, strict=True):
        if known.issuperset(clique):
            impossible |= np.isneginf(table[tuple(block[v] for v in clique)])
    _refuse(int(impossible.sum()))
    if not unknown:
        return
    # only known variables that share a clique with an unknown one matter
    touching = [c for c in model.structure.cliques if not known.issuperset(c)]
    border = sorted({v for clique in touching for v in clique} & known)
    codes = np.stack([block[v] for v in border]) if border else np.zeros((1, rows), np.int64)
    slices, group = np.unique(codes, axis=1, return_inverse=True)
    group = group.reshape(rows)
    step = _slices_at_once(model, unknown, border)
    for first in range(0, slices.shape[1], step):
        part = slices[:, first : first + step]
        mine = np.flatnonzero((group >= first) & (group < first + part.shape[1]))
        drawn = _draw(model, unknown, border, part, group[mine] - first, generator, method)
        for v, values in zip(unknown, drawn, strict=True):
            block[v][mine] = values


def _slices_at_once(model: HostModel, unknown: list[int], border: list[int]) -> int:
    one = _sliced(model, unknown, border, np.zeros((max(len(border), 1), 1), np.int64)).structure
    plan = junction_tree.best_elimination(one, (len(unknown),))
    return max(_CELLS // max(one.cells(clique) for clique in plan.cliques), 1)


def _sliced(model: HostModel, unknown: list[int], border: list[int], slices: np.ndarray) -> HostModel:
    """The model over the unknown variables, with the slice index as the last variable."""
    number = {v: i for i, v in enumerate(unknown)}
    row = {v: i for i, v in enumerate(border)}
    last = len(unknown)
    tables: list[np.ndarray] = [np.zeros(slices.shape[1])]
    cliques: list[tuple[int, ...]] = [(last,)]
    for table, clique in zip(model.tables, model.structure.cliques, strict=True):
        free = tuple(number[v] for v in clique if v in number)
        if not free:
            continue
        if len(free) < len(clique):
            order = [v for v in clique if v not in number] + [v for v in clique if v in number]
            held = tuple(slices[row[v]] for v in order[: len(clique) - len(free)])
            table = table.transpose([clique.index(v) for v in order])[held]
            free = (last, *free)
        tables.append(table)
        cliques.append(free)
    sizes = (*(model.structure.sizes[v] for v in unknown), slices.shape[1])
    return HostModel(Structure(sizes, tuple(cliques)), tuple(tables))


def _draw(
    model: HostModel,
    unknown: list[int],
    border: list[int],
    slices: np.ndarray,
    group: np.ndarray,
    generator: np.random.Generator,
    method: str,
) -> list[np.ndarray]:
    """Codes [rows] of the unknown variables; `group` is the slice of each row."""
    small = _sliced(model, unknown, border, slices)
    last = len(unknown)
    *buckets, whole = small.buckets(last=(last,))
    possible = np.isfinite(whole.log_weights({})[0])
    _refuse(int((~possible[group]).sum()))
    columns = [group] * (last + 1)
    for conditional in sampling.conditionals(buckets, small.structure.sizes):
        key = conditional.keys(columns, len(group))
        columns[conditional.variable] = sampling.draw(conditional, key, generator, method)
    return columns[:-1]


def _refuse(number: int) -> None:
    if number:
        raise ValueError(
            f"the model gives the known cells of {number} rows probability zero: they cannot be completed."
        )
