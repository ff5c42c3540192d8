"""The region model, the result of approximate estimation: tables that agree where they overlap.

`tractable()` is a forest of regions, the part of the tables that a single distribution can match exactly.
Regions are added one at a time. Each contributes its new attributes, conditional on a part that it shares
with an earlier region. The product of these conditional distributions has a junction tree with cliques no
larger than the regions, and matches the regions' marginals on them. Rows start there before they are moved
towards all tables.

On disk a model is a folder with `model.json` and `model.npz`, readable without this library.

References:
    Chow and Liu (1968), Approximating discrete probability distributions with dependence trees. With
    pairs as regions, the forest is their tree.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from pgmjax import random
from pgmjax._internal import checks, formats, html
from pgmjax._internal.files import float_array
from pgmjax._internal.progress import Progress
from pgmjax.data.domain import Clique, Domain, first_holding, marginal_of
from pgmjax.inference.oracles.host import USUAL
from pgmjax.measurements.inputs import Input
from pgmjax.model import io
from pgmjax.model.base import Model
from pgmjax.model.clique_vector import CliqueVector, marginal_within
from pgmjax.model.graphical import GraphicalModel
from pgmjax.model.region_rows import SETTLING, steered
from pgmjax.model.sampling import ROUND

METHOD = "convex belief propagation"
FITTING_SWEEPS, FITTING_TOLERANCE = 200, 1e-10
MOST_ROWS = 1_000_000


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class RegionModel(Model):
    """Pseudo-marginals of regions, times a total: the result of `estimation.fit_local`.

    The pseudo-marginals agree with one another up to `residual`, but there may be no table with all of them
    as marginals. Queries within a region are answered from its table. All others are approximated by the
    marginal of `tractable()`, fitted to the regions' marginals of the queried attributes.

    Attributes:
        domain: the attributes. Those in no region are uniform and independent.
        known_marginals: tables of the regions (probabilities), float64.
        total: number of records (counts).
        residual: largest L1 distance between a region's marginal on an intersection and the mean of the
            marginals of all regions that contain it (probability).
        loss: of the estimation, NaN if unknown.
        gap: certified bound: no table has a loss below `loss` - `gap`.
        inputs: what it was computed from, with cost and security; () if nobody stated that.

    Example:
        >>> halves = np.full((2, 2), 0.25)
        >>> tables = CliqueVector((("a", "b"), ("b", "c"), ("a", "c")), (halves, halves, halves))
        >>> model = RegionModel(Domain({"a": 2, "b": 2, "c": 2}), tables, total=80.0, residual=0.0)
        >>> model.marginal(("c", "a")).tolist(), model.marginal(("a", "b", "c")).sum()
        ([[20.0, 20.0], [20.0, 20.0]], np.float64(80.0))
    """

    domain: Domain
    known_marginals: CliqueVector
    total: float
    residual: float
    loss: float = float("nan")
    gap: float = float("nan")
    inputs: tuple[Input, ...] = ()
    _format: ClassVar[formats.Format] = formats.REGIONS

    def _probabilities(self, clique: Clique) -> np.ndarray:
        known = marginal_within(self.known_marginals, clique)
        if known is not None:
            return known
        USUAL.require_cells(self.domain.size(clique), f"the marginal of {clique}")
        return self._fitted(clique, self._forest.marginal(clique))

    def within_a_region(self, clique: Clique) -> bool:
        """Return whether a region contains all of some attributes, so that its table gives their marginal."""
        return first_holding(self.known_marginals.cliques, clique) is not None

    def tractable(self) -> GraphicalModel:
        """An exact model of a forest of the regions; it can be sampled, conditioned and saved.

        Regions are chosen by information gain. On regions included in full, the model's marginals are the
        regions' (up to the residual). On others they are only what follows from the included ones.
        """
        return dataclasses.replace(self._forest, total=self.total, inputs=self.inputs)

    def sample(
        self, rows: int | None = None, seed: int = 0, *, sweeps: int = 15, progress: bool | None = None
    ) -> dict[str, np.ndarray]:
        """Draw rows whose marginals come near the regions' tables, and nearer than independent draws.

        The rows of `tractable()` are moved by Gibbs steps that are steered towards all regions (see
        `model.region_rows`). If no table has these marginals, the rows have those of one that comes near.
        Cells of probability 0 are avoided wherever the other attributes leave a way.

        Args:
            rows: number of rows. Default: the rounded total. Any number is post-processing. More than
                `MOST_ROWS` are drawn in several parts.
            seed: the same seed gives the same rows; it need not be secret.
            sweeps: number of sweeps that learn what the regions ask for.
            progress: None for a progress bar in terminals and notebooks, False for no bar.

        Returns:
            Codes [rows] of each attribute.

        Raises:
            ValueError: a negative number of rows, or no sweeps.
        """
        rows = self._number_of_rows(rows)
        sweeps = checks.integer("sweeps", sweeps, low=1)
        forest, tables = self.tractable(), self.known_marginals
        drawn = forest.sample(rows, seed)
        if not len(tables) or not rows:
            return drawn
        parts = np.array_split(random.generator(seed).permutation(rows), -(-rows // MOST_ROWS))
        found = []
        with Progress("rows", len(parts) * (sweeps + len(SETTLING)), progress) as bar:
            for number, part in enumerate(parts):
                start = {name: column[part] for name, column in drawn.items()}
                counts = [len(part) * table for table in tables.tables]
                found.append(steered(self.domain, tables.cliques, counts, start, seed + number, sweeps, bar))
        return {name: np.concatenate([part[name] for part in found]) for name in self.domain.attributes}

    def _row_blocks(
        self, rows: int, seed: int, method: str | None, device: bool, mesh: Any, show_progress: bool | None
    ) -> Iterator[list[np.ndarray]]:
        if method not in (None, ROUND):
            raise ValueError(f"method must be {ROUND!r}: rows of regions are moved together, got {method!r}.")
        if device or mesh is not None:
            raise ValueError("rows of regions are moved together, on JAX's default device: leave out device.")
        draw = functools.partial(self.sample, rows, seed, progress=show_progress)
        return ([*drawn().values()] for drawn in (draw,))  # drawn once the file is known to be possible

    def _stored(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        # JSON has no NaN, which marks an unknown loss
        numbers = {"residual_loss_gap": np.array([self.residual, self.loss, self.gap])}
        fields = {"marginals": [list(clique) for clique in self.known_marginals.cliques]}
        return fields, io.vector_arrays(self.known_marginals, "marginal") | numbers

    @classmethod
    def _restored(
        cls, domain: Domain, total: float, inputs: tuple[Input, ...], record: Any, arrays: Any
    ) -> RegionModel:
        marginals = io.read_vector(domain, record["marginals"], arrays, "marginal")
        residual, loss, gap = map(float, float_array(arrays, "residual_loss_gap", (3,)))
        if not residual >= 0:
            raise ValueError("its residual is negative or not a number.")
        io.require_probabilities(marginals)
        return cls(domain, marginals, total, residual, loss, gap, inputs)

    @functools.cached_property
    def _forest(self) -> GraphicalModel:
        found = conditionals(self.known_marginals.cliques, self.known_marginals.tables)
        return GraphicalModel.from_potentials(self.domain, found, total=1.0)

    def _fitted(self, clique: Clique, table: np.ndarray) -> np.ndarray:
        """A table adjusted to the regions' marginals on its attributes by iterative proportional fitting."""
        table = table / table.sum()
        parts: dict[frozenset[str], tuple[tuple[int, ...], np.ndarray]] = {}
        for region, known in zip(self.known_marginals.cliques, self.known_marginals.tables, strict=True):
            inside = tuple(name for name in clique if name in region)
            if inside and frozenset(inside) not in parts:
                gone = tuple(i for i, name in enumerate(clique) if name not in inside)
                shape = [1 if i in gone else table.shape[i] for i in range(table.ndim)]
                wanted = marginal_of(region, known, inside).reshape(shape)
                parts[frozenset(inside)] = gone, wanted
        # of nested sets the larger one's marginal has the other's in it
        largest = [value for key, value in parts.items() if not any(key < other for other in parts)]
        for _ in range(FITTING_SWEEPS):
            moved = 0.0
            for gone, wanted in largest:
                now = table.sum(axis=gone, keepdims=True)
                fitted = table * np.where(now > 0, wanted / np.where(now > 0, now, 1), 0)
                if not fitted.any():  # the regions leave no possible cell: keep the last valid table
                    return table / table.sum()
                table = fitted
                moved = max(moved, float(np.abs(now - wanted).sum()))
            if moved < FITTING_TOLERANCE:
                break
        return table / table.sum()

    def summary(self) -> str:
        """Return a few lines of text on the model and its reliability."""
        cells = sum(table.size for table in self.known_marginals.tables)
        lines = [
            f"{METHOD}: {len(self.known_marginals)} regions with {cells:,} cells, {len(self.domain)} "
            f"attributes",
            f"regions agree to {self.residual:.2g} of the probability (L1); no table need have all of them",
        ]
        if np.isfinite(self.loss):
            lines.append(f"loss {self.loss:.6g}; no table has a loss below {self.loss - self.gap:.6g}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        facts = {
            "attributes": len(self.domain),
            "regions": len(self.known_marginals),
            "total": self.total,
            "regions agree to": self.residual,
        }
        said = f"By {METHOD}: no table need have all of these marginals."
        return html.card("RegionModel", facts, html.note(said))

    def __repr__(self) -> str:
        return f"RegionModel({METHOD}, {len(self.known_marginals)} regions, total={self.total:,.1f})"


def conditionals(cliques: Sequence[Clique], tables: Sequence[np.ndarray]) -> dict[Clique, np.ndarray]:
    """Log-conditionals whose product is the forest's distribution.

    Args:
        cliques: attributes of the regions.
        tables: their marginals (probabilities), which agree where they overlap.

    Returns:
        For each chosen region, the log-probabilities of its new attributes given the shared part [size of
        each attribute of both]. The next region is always the one with the largest gain among those that
        share attributes with an earlier region, or among all if none does.
    """
    if not cliques:
        return {}
    sets = [frozenset(clique) for clique in cliques]
    regions = list(zip(cliques, tables, strict=True))
    known: set[str] = set()
    shared: list[set[frozenset[str]]] = [{frozenset()} for _ in cliques]
    gains: dict[tuple[int, Clique, Clique], float] = {}
    offers: dict[int, tuple[bool, float, frozenset[str]]] = {}

    def offer(number: int) -> tuple[bool, float, frozenset[str]]:
        """Return whether a region overlaps earlier ones, its best gain (nats), and the shared part."""
        clique, table = regions[number]
        new = tuple(name for name in clique if name not in known)
        best = (False, -np.inf, frozenset[str]())
        for part in shared[number]:
            key = number, tuple(name for name in clique if name in part), new
            if key not in gains:
                gains[key] = _gain(clique, table, key[1], new)
            best = max(best, (bool(part), gains[key], part), key=lambda found: found[:2])
        return best

    found: dict[Clique, np.ndarray] = {}
    waiting = set(range(len(cliques)))
    stale = set(waiting)
    while waiting:
        offers.update((number, offer(number)) for number in stale)
        chosen = max(sorted(waiting), key=lambda number: offers[number][:2])
        clique, table = regions[chosen]
        part = offers[chosen][2]
        kept = tuple(name for name in clique if name in part or name not in known)
        found[kept] = _log_conditional(marginal_of(clique, table, kept), kept, part)
        fresh = sets[chosen] - known
        known |= fresh
        waiting = {number for number in waiting if not sets[number] <= known}
        # only regions that the chosen one overlaps can have another offer now
        stale = {number for number in waiting if sets[number] & set(kept)}
        for number in stale:
            shared[number].add(sets[number] & frozenset(kept))
    return found


def _entropy(table: np.ndarray) -> float:
    positive = table[table > 0]
    return float(-(positive * np.log(positive)).sum())


def _gain(clique: Clique, table: np.ndarray, part: Clique, new: Clique) -> float:
    """Sum of the entropies of the new attributes minus their joint entropy given a part (nats)."""
    alone = sum(_entropy(marginal_of(clique, table, (name,))) for name in new)
    joint = _entropy(marginal_of(clique, table, (*part, *new)))
    return alone - joint + _entropy(marginal_of(clique, table, part))


def _log_conditional(table: np.ndarray, clique: Clique, part: frozenset[str]) -> np.ndarray:
    new = tuple(i for i, name in enumerate(clique) if name not in part)
    given = table.sum(axis=new, keepdims=True)
    uniform = 1 / np.prod([table.shape[i] for i in new])
    with np.errstate(divide="ignore"):
        return np.log(np.where(given > 0, table / np.where(given > 0, given, 1), uniform))
