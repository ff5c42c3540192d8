"""Rows of a model: drawn, completed, written to a file, and checked against it.

A check compares a marginal of rows with the model's, and says what distance is to be expected by chance.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from pgmjax._internal import checks
from pgmjax.data.cliques import Clique, as_clique
from pgmjax.data.domain import Domain
from pgmjax.inference.oracles.host import HostModel
from pgmjax.model import completion, device_sampling, row_file, sampling
from pgmjax.model.clique_vector import CliqueVector


class ModelRows:
    """Row operations of a model; `GraphicalModel` and `MixtureModel` bring the model."""

    domain: Domain
    total: float
    potentials: CliqueVector

    if TYPE_CHECKING:

        @functools.cached_property
        def _host(self) -> HostModel: ...

        def _probabilities(self, clique: Clique) -> np.ndarray: ...

    def mode(self) -> dict[str, int]:
        """The most likely cell: a code for each attribute."""
        return dict(zip(self.domain.attributes, sampling.mode(self._host), strict=True))

    def sample(
        self,
        rows: int | None = None,
        seed: int = 0,
        *,
        method: str = "multinomial",
        device: bool = False,
    ) -> dict[str, np.ndarray]:
        """Draw synthetic rows.

        Args:
            rows: how many; the rounded total by default.
            seed: the same seed gives the same rows. Rows are post-processing: the seed protects
                nothing and needs no secrecy.
            method: `multinomial` (independent rows) or `round` (less sampling error: the rows are
                dealt to the cells of each clique as evenly as whole numbers allow).
            device: draw `multinomial` rows on JAX's default device: rows of the same distribution, but not
                the rows that the host draws for this seed. Any device draws the same ones.

        Returns:
            For each attribute the codes [rows]; `domain.decode` turns them into labels. Rows of records
            that agree with some evidence are those of `condition(evidence)`.

        Raises:
            ValueError: a negative number of rows, an unknown method, one that the device does not have, or
                tables too large for it.
        """
        rows = self._number_of_rows(rows)
        drawn = self._row_blocks(rows, seed, method, device)
        columns = sampling.joined(drawn, len(self.domain))
        return dict(zip(self.domain.attributes, columns, strict=True))

    def sample_to(
        self,
        path: str | os.PathLike[str],
        rows: int | None = None,
        seed: int = 0,
        *,
        method: str = "multinomial",
        device: bool = False,
        decode: bool = False,
        overwrite: bool = False,
        show_progress: bool | None = None,
    ) -> pathlib.Path:
        """Draw synthetic rows straight into a file: any number of them in bounded memory.

        Args:
            path: of the file, .parquet or .csv. It is there in full or not at all: an interrupt
                leaves nothing behind.
            rows: how many; the rounded total by default.
            seed: the same seed gives the rows that `sample` gives.
            method: as in `sample`.
            device: as in `sample`.
            decode: write labels, bins as text and nulls instead of codes.
            overwrite: replace a file that is there.
            show_progress: None shows a bar in terminals and notebooks only, False never.

        Returns:
            The path.

        Raises:
            ValueError: a bad argument, another ending, a file that is there already, or no such
                folder; said before any row is drawn.
        """
        rows = self._number_of_rows(rows)
        target = row_file.check_target(path, overwrite=overwrite)
        blocks = self._row_blocks(rows, seed, method, device)
        return row_file.write(
            target,
            self.domain,
            blocks,
            rows,
            decode=decode,
            overwrite=overwrite,
            show_progress=show_progress,
        )

    def complete(
        self, columns: Mapping[str, Any], seed: int = 0, *, method: str = "multinomial"
    ) -> dict[str, np.ndarray]:
        """Draw what is not known of some rows, given what is known of each.

        Args:
            columns: for some attributes their codes [rows], -1 where a cell is not known. Attributes
                that are not named are unknown in every row.
            seed: the same seed gives the same rows.
            method: `multinomial`, or `round` to deal rows with equal known cells evenly.

        Returns:
            For each attribute the codes [rows]; known cells as they were.

        Raises:
            TypeError: not a mapping, or codes that are no integers.
            ValueError: no column, an unknown attribute, columns of different length, a code outside
                the domain, or rows that the model holds impossible.

        Example:
            >>> import pgmjax as pj
            >>> model = pj.GraphicalModel.from_potentials(
            ...     pj.Domain({"a": 2, "b": 2}), {("a", "b"): [[0.0, -float("inf")], [-float("inf"), 0.0]]}
            ... )
            >>> model.complete({"a": [0, -1], "b": [-1, 1]})["b"].tolist()
            [0, 1]
        """
        checks.choice("method", method, sampling.METHODS)
        known = known_codes(self.domain, columns)
        filled = self._visible(completion.complete(self._host, known, seed, method))
        return dict(zip(self.domain.attributes, filled, strict=True))

    def check_rows(
        self, columns: Mapping[str, Any], cliques: Iterable[Clique] | None = None
    ) -> tuple[RowCheck, ...]:
        """Compare the marginals of rows with the model's own.

        Args:
            columns: for each attribute that the cliques name its codes [rows], as `sample` gives them.
            cliques: the marginals to compare; those of the model by default.

        Returns:
            For each clique the total variation distance, its mean and standard error for as many
            independent rows of this model.

        Raises:
            ValueError: no rows, an attribute that is missing, or a code outside the domain.
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

    def _row_blocks(self, rows: int, seed: int, method: str, device: bool) -> Iterator[list[np.ndarray]]:
        """Blocks of rows of the domain's attributes, drawn on the host or on the device."""
        if not device:
            return map(self._visible, sampling.blocks(self._host, rows, seed, method))
        if checks.choice("method", method, sampling.METHODS) != "multinomial":
            raise ValueError(f"the device draws method='multinomial', got {method!r}: leave device=False.")
        return map(self._visible, device_sampling.blocks(self._host, rows, seed))

    def _visible(self, columns: list[np.ndarray]) -> list[np.ndarray]:
        """Those of the domain: hidden variables stand after them."""
        return columns[: len(self.domain)]

    def _number_of_rows(self, rows: int | None) -> int:
        return round(self.total) if rows is None else checks.integer("rows", rows, low=0)


def known_codes(domain: Domain, columns: Mapping[str, Any], *, unknown: bool = True) -> dict[int, np.ndarray]:
    """Columns of codes by the number of their attribute, checked."""
    if not isinstance(columns, Mapping):
        raise TypeError(f"columns must be a mapping of attribute to codes, got {type(columns).__name__}.")
    if not columns:
        raise ValueError("columns must name at least one attribute, got none.")
    known = {}
    low = completion.UNKNOWN if unknown else 0
    for name, values in columns.items():
        size, codes = domain[name], np.asarray(values)
        if codes.size and codes.dtype.kind not in "iu":
            raise TypeError(f"codes of {name!r} must be integers, got {codes.dtype}.")
        if codes.ndim != 1:
            raise ValueError(f"codes of {name!r} must be one-dimensional, got {codes.ndim} axes.")
        codes = codes.astype(np.int64)
        if codes.size and (codes.min() < low or codes.max() >= size):
            also = " (or -1 where not known)" if unknown else ""
            raise ValueError(f"codes of {name!r} must lie in 0..{size - 1}{also}.")
        known[domain.attributes.index(name)] = codes
    if len({len(codes) for codes in known.values()}) > 1:
        raise ValueError(f"columns must have equal length, got {[len(c) for c in known.values()]} rows.")
    return known


@dataclasses.dataclass(frozen=True)
class RowCheck:
    """A marginal of rows beside the model's.

    Attributes:
        clique: the attributes.
        total_variation: half the summed absolute difference of the two distributions.
        expected: its mean for as many independent rows of the model, exactly.
        stderr: a bound on its standard deviation for independent rows, 1 / sqrt(2 rows).
    """

    clique: Clique
    total_variation: float
    expected: float
    stderr: float

    @property
    def standard_errors(self) -> float:
        """The distance above its mean in standard errors; rows of the model stay below 3."""
        return (self.total_variation - self.expected) / self.stderr


def compare_rows(clique: Clique, probabilities: np.ndarray, columns: Mapping[str, np.ndarray]) -> RowCheck:
    """Compare the marginal of rows with a distribution.

    Args:
        clique: attribute names.
        probabilities: the model's distribution over them [size of each].
        columns: codes [rows] of these attributes and maybe others, at least one row.

    References:
        Mean absolute deviation of a binomial count: De Moivre (1730), see Diaconis and Zabell 1991,
        equation 1.1. Standard deviation: one row moves the distance by at most 1 / rows, so that its
        variance is at most 1 / (2 rows) by the Efron-Stein inequality; by McDiarmid's, independent
        rows lie more than 3 such standard errors above the mean less often than exp(-9) = 1.2e-4.
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
    inside = (p > 0) & (p < 1)
    result = np.zeros_like(p)
    q = p[inside]
    above = np.minimum(np.floor(rows * q) + 1, rows)
    choose = scipy.special.gammaln(rows + 1) - scipy.special.gammaln(above + 1)
    choose -= scipy.special.gammaln(rows - above + 1)
    logs = np.log(2 * above) + choose + above * np.log(q) + (rows - above + 1) * np.log1p(-q)
    result[inside] = np.exp(logs) / rows
    return result
