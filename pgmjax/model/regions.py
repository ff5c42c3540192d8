"""The region model, the result of approximate estimation: tables that agree where they overlap.

Rows are drawn from a forest of regions, the part of the tables that one distribution has exactly. Regions
are taken one after another, each with what is new in it and one part that an earlier one holds. The product
of the conditional distributions of the new given the part is a distribution whose junction tree is no
larger than the regions, and whose marginals on them are theirs.

On disk a model is a folder with `model.json` and `model.npz`, readable without this library.

References:
    Chow and Liu (1968), Approximating discrete probability distributions with dependence trees: with
    pairs as regions this is their tree.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from pgmjax._internal import html
from pgmjax._internal.files import ArrayFolder, float_array
from pgmjax.data.cliques import Clique, as_clique, marginal_of
from pgmjax.data.domain import Domain
from pgmjax.inference.plan.forecast import require_cells
from pgmjax.model import io
from pgmjax.model.base import check_query
from pgmjax.model.clique_vector import CliqueVector
from pgmjax.model.graphical import GraphicalModel
from pgmjax.queries import Query

METHOD = "convex belief propagation"
FITTING_SWEEPS, FITTED = 200, 1e-10

FOLDER = ArrayFolder(io.RECORD, "a model of regions", "pgmjax.regions")


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class RegionModel:
    """Pseudo-marginals of regions, times a total: what `estimation.fit_local` gives.

    They agree with one another, to `residual`, but there may be no table that has them all. Answers within a
    region are its own. Others are an approximation: the marginal of `tractable()`, fitted to what the
    regions say of the attributes asked for.

    Attributes:
        domain: the attributes. Those in no region are uniform and independent.
        marginals: tables of the regions (probabilities), float64.
        total: number of records (counts).
        residual: largest L1 distance between a region's marginal on an intersection and the mean of those
            of all regions with it (probability).
        loss: of the estimation, NaN where there was none.
        gap: certified bound on how far any table's loss may lie below `loss`, in its unit.

    Example:
        >>> halves = np.full((2, 2), 0.25)
        >>> tables = CliqueVector((("a", "b"), ("b", "c"), ("a", "c")), (halves, halves, halves))
        >>> model = RegionModel(Domain({"a": 2, "b": 2, "c": 2}), tables, total=80.0, residual=0.0)
        >>> model.marginal(("c", "a")).tolist(), model.marginal(("a", "b", "c")).sum()
        ([[20.0, 20.0], [20.0, 20.0]], np.float64(80.0))
    """

    domain: Domain
    marginals: CliqueVector
    total: float
    residual: float
    loss: float = float("nan")
    gap: float = float("nan")

    def marginal(self, clique: Clique) -> np.ndarray:
        """Expected counts of some attributes, float64; they sum to `total`.

        Args:
            clique: attribute names; the axes follow their order. Within a region this is the region's own
                marginal, otherwise an approximation (see the class).

        Raises:
            ValueError: an unknown or repeated attribute, or a table larger than memory.
        """
        clique = as_clique(self.domain, clique)
        for region, table in zip(self.marginals.cliques, self.marginals.tables, strict=True):
            if set(clique) <= set(region):
                return self.total * marginal_of(region, table, clique)
        require_cells(self.domain.size(clique), f"the marginal of {clique}")
        return self.total * self._fitted(clique, self._forest.marginal(clique))

    def within_a_region(self, clique: Clique) -> bool:
        """Return whether some attributes lie in a region, whose own table is then their marginal."""
        return any(set(clique) <= set(region) for region in self.marginals.cliques)

    def answer(self, query: Query) -> np.ndarray:
        """Answer a linear query from the marginal of its attributes.

        Returns:
            Expected answers (counts times the query's unit), in the query's shape.
        """
        check_query(self.domain, query)
        return np.asarray(query.apply(self.marginal(query.clique)), np.float64)

    def tractable(self) -> GraphicalModel:
        """An exact model of those regions that a forest holds; it can be sampled, conditioned and saved.

        Regions are taken by how much they tell. On those that are taken whole the model's marginals are the
        regions' (to the residual), on others only what follows from them.
        """
        return dataclasses.replace(self._forest, total=self.total)

    def sample(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: there may be no distribution with these marginals.

        Raises:
            ValueError: always; what to do instead.
        """
        raise ValueError(
            "these marginals may be those of no table, so that rows cannot be drawn from them: draw from "
            "model.tractable(), which keeps a forest of them, or fit a mixture of products."
        )

    def save(self, folder: Any) -> None:
        """Save to a folder, made where it is missing: `model.npz` and `model.json`, no pickle.

        Args:
            folder: path; these two files in it are replaced. `pgmjax.load` reads them back.
        """
        # JSON has no NaN, which stands for a loss that is not known
        numbers = {"residual_loss_gap": np.array([self.residual, self.loss, self.gap])}
        arrays = io.vector_arrays(self.marginals, "marginal") | numbers
        fields = {"marginals": [list(clique) for clique in self.marginals.cliques]}
        io.write(FOLDER, folder, self.domain, self.total, fields, arrays)

    @functools.cached_property
    def _forest(self) -> GraphicalModel:
        found = conditionals(self.marginals.cliques, self.marginals.tables)
        return GraphicalModel.from_potentials(self.domain, found, total=1.0)

    def _fitted(self, clique: Clique, table: np.ndarray) -> np.ndarray:
        """A table moved to the regions' marginals on its attributes by proportional fitting."""
        table = table / table.sum()
        parts: dict[frozenset[str], tuple[tuple[int, ...], np.ndarray]] = {}
        for region, known in zip(self.marginals.cliques, self.marginals.tables, strict=True):
            inside = tuple(name for name in clique if name in region)
            if inside and frozenset(inside) not in parts:
                gone = tuple(i for i, name in enumerate(clique) if name not in inside)
                shape = [1 if i in gone else table.shape[i] for i in range(table.ndim)]
                wanted = marginal_of(region, known, inside).reshape(shape)
                parts[frozenset(inside)] = gone, wanted
        largest = [value for key, value in parts.items() if not any(key < other for other in parts)]
        for _ in range(FITTING_SWEEPS):
            moved = 0.0
            for gone, wanted in largest:
                now = table.sum(axis=gone, keepdims=True)
                fitted = table * np.where(now > 0, wanted / np.where(now > 0, now, 1), 0)
                if not fitted.any():  # the regions leave no cell: what they said before that stays
                    return table / table.sum()
                table = fitted
                moved = max(moved, float(np.abs(now - wanted).sum()))
            if moved < FITTED:
                break
        return table / table.sum()

    def summary(self) -> str:
        """Return a few lines on the model and its reliability."""
        cells = sum(table.size for table in self.marginals.tables)
        lines = [
            f"{METHOD}: {len(self.marginals)} regions with {cells:,} cells, {len(self.domain)} attributes",
            f"regions agree to {self.residual:.2g} of the probability (L1); no table need have all of them",
        ]
        if np.isfinite(self.loss):
            lines.append(f"loss {self.loss:.6g}; no table has a loss below {self.loss - self.gap:.6g}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        facts = {
            "attributes": len(self.domain),
            "regions": len(self.marginals),
            "total": self.total,
            "regions agree to": self.residual,
        }
        said = f"By {METHOD}: no table need have all of these marginals. Draw rows from tractable()."
        return html.card("RegionModel", facts, html.note(said))

    def __repr__(self) -> str:
        return f"RegionModel({METHOD}, {len(self.marginals)} regions, total={self.total:,.1f})"


def conditionals(cliques: Sequence[Clique], tables: Sequence[np.ndarray]) -> dict[Clique, np.ndarray]:
    """Log-conditionals whose product is the forest's distribution.

    Args:
        cliques: attributes of the regions.
        tables: their marginals (probabilities), which agree where they overlap.

    Returns:
        For each region taken the log-probabilities of what is new in it given its part [size of each
        attribute of both]. The next region is that which joins those before and tells most of its new
        attributes; one that joins none only where no other is left.
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
        """Return whether a region joins those before, the nats that its new attributes gain, and the part."""
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
        stale = {number for number in waiting if sets[number] & set(kept)}
        for number in stale:
            shared[number].add(sets[number] & frozenset(kept))
    return found


def _entropy(table: np.ndarray) -> float:
    positive = table[table > 0]
    return float(-(positive * np.log(positive)).sum())


def _gain(clique: Clique, table: np.ndarray, part: Clique, new: Clique) -> float:
    """Entropies of new attributes alone less their joint entropy given a part (nats)."""
    alone = sum(_entropy(marginal_of(clique, table, (name,))) for name in new)
    joint = _entropy(marginal_of(clique, table, (*part, *new)))
    return alone - joint + _entropy(marginal_of(clique, table, part))


def _log_conditional(table: np.ndarray, clique: Clique, part: frozenset[str]) -> np.ndarray:
    new = tuple(i for i, name in enumerate(clique) if name not in part)
    given = table.sum(axis=new, keepdims=True)
    uniform = 1 / np.prod([table.shape[i] for i in new])
    with np.errstate(divide="ignore"):
        return np.log(np.where(given > 0, table / np.where(given > 0, given, 1), uniform))


def load(folder: Any) -> RegionModel:
    """Read what `RegionModel.save` wrote; errors as in `io.reading`."""
    with io.reading(FOLDER, folder) as (domain, total, record, arrays):
        marginals = io.read_vector(domain, record["marginals"], arrays, "marginal")
        residual, loss, gap = map(float, float_array(arrays, "residual_loss_gap", (3,)))
        if not residual >= 0:
            raise ValueError("its residual is negative or not a number.")
        io.require_probabilities(marginals)
    return RegionModel(domain, marginals, total, residual, loss, gap)
