"""The graphical model: the result of an exact fit, which answers new queries.

`many_marginals` computes the marginals of many cliques at once, for mechanisms that compare many candidates
per round.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pgmjax._internal import checks, formats
from pgmjax.data.domain import Clique, Domain, as_clique, as_domain, first_holding, in_order, marginal_of
from pgmjax.inference.oracles.host import (
    CACHE_BYTES,
    IMPOSSIBLE,
    QUESTION_SECONDS,
    USUAL,
    HostModel,
    QuestionLimits,
)
from pgmjax.inference.plan.forecast import ModelTooLargeError
from pgmjax.inference.plan.structure import Structure, Variables
from pgmjax.measurements.inputs import Input
from pgmjax.measurements.linear import LinearMeasurement, noisy_marginal
from pgmjax.model import base
from pgmjax.model.clique_vector import CliqueVector, summed
from pgmjax.model.rows import ModelRows
from pgmjax.queries.blocks import AttributeQuery

if TYPE_CHECKING:
    from pgmjax.model.calibrated import CalibratedModel

CHECK_SECONDS = 10.0  # forecast time of a check that some cell is possible, when a model is made or loaded


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class GraphicalModel(ModelRows):
    """A distribution over a domain, as log-potentials on cliques, times a total.

    Answers are computed on the host in float64 and are in counts: they sum to `total`.

    Attributes:
        domain: the attributes.
        potentials: natural-log potentials, float64; minus infinity marks impossible cells.
            Attributes in no clique are uniform and independent.
        total: number of records (counts); need not be an integer.
        known_marginals: marginals (probabilities) of some cliques, if already known.
        limits: what a question may take; see `within`.
        inputs: what it was computed from, with cost and security; () if nobody stated that.

    Example:
        >>> model = GraphicalModel.from_potentials(Domain({"a": 2, "b": 2}), {("a",): [0.0, 0.0]}, total=8)
        >>> model.marginal(("a", "b")).tolist()
        [[2.0, 2.0], [2.0, 2.0]]
    """

    domain: Domain
    potentials: CliqueVector
    total: float
    known_marginals: CliqueVector = dataclasses.field(default_factory=functools.partial(CliqueVector, (), ()))
    limits: QuestionLimits = USUAL
    inputs: tuple[Input, ...] = ()
    _format: ClassVar[formats.Format] = formats.MODEL

    @classmethod
    def from_potentials(
        cls, domain: Domain, potentials: Mapping[Clique, Any], total: float = 1.0
    ) -> GraphicalModel:
        """Make a model from log-potentials.

        Args:
            domain: the attributes.
            potentials: log-potentials [size of each attribute] of each clique, nats, finite or minus
                infinity. Cliques over the same attributes, in any order, are added.
            total: number of records (counts), > 0.

        Raises:
            ValueError: a wrong shape, NaN or plus infinity, or no possible cell at all.
        """
        domain = as_domain(domain, "GraphicalModel.from_potentials(domain, potentials)", potentials)
        checks.mapping("potentials", potentials, "clique to log-potentials")
        total = checks.total(total, least=0)
        cliques = [as_clique(domain, names) for names in potentials]
        tables = map(functools.partial(_log_table, domain), cliques, potentials.values())
        model = cls(domain, summed(zip(cliques, tables, strict=True)), total)
        _warn_of_shares(model.potentials.tables)
        if not model._is_possible():
            raise ValueError(f"{IMPOSSIBLE} No state agrees with {model._excluding()}.")
        return model

    def _is_possible(self) -> bool:
        """False if no cell is possible; not checked if that takes long, or more memory than there is."""
        if all(np.isfinite(table).all() for table in self.potentials.tables):
            return True
        # an attribute without a potential leaves cells, and may be of any size: no table is made of it here
        names = in_order(self.domain, {name for clique in self.potentials.cliques for name in clique})
        limits = QuestionLimits(self.limits.max_bytes, min(CHECK_SECONDS, self.limits.max_seconds))
        part = GraphicalModel(self.domain.project(names), self.potentials, self.total, limits=limits)
        try:
            return math.isfinite(part.log_partition())
        except ModelTooLargeError:
            return True

    def _excluding(self) -> str:
        """The fewest cliques whose potentials together leave no possible cell."""
        tables = dict(zip(self.potentials.cliques, self.potentials.tables, strict=True))

        def impossible(cliques: Sequence[Clique]) -> bool:
            some = CliqueVector(tuple(cliques), tuple(tables[clique] for clique in cliques))
            return not dataclasses.replace(self, potentials=some)._is_possible()

        held = [clique for clique, table in tables.items() if np.isneginf(table).any()]
        return ", ".join(map(str, base.contradicting(held, impossible)))

    @functools.cached_property
    def _variables(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.domain.attributes)}

    @functools.cached_property
    def _host(self) -> HostModel:
        """The model over numbered variables; attributes in no clique get a flat potential."""
        covered = {name for clique in self.potentials.cliques for name in clique}
        uncovered = [name for name in self.domain.attributes if name not in covered]
        number = self._variables
        cliques = [tuple(number[name] for name in clique) for clique in self.potentials.cliques]
        structure = Structure(self.domain.shape, (*cliques, *((number[name],) for name in uncovered)))
        flat = tuple(np.zeros(self.domain[name]) for name in uncovered)
        return HostModel(structure, (*self.potentials.tables, *flat), self.limits)

    def _log_weight(self, masks: Mapping[str, np.ndarray]) -> float:
        if not masks:
            return self._host.log_partition
        return self._host.log_evidence({self._variables[n]: np.flatnonzero(m == 0) for n, m in masks.items()})

    def calibrate(self, cache_bytes: int = CACHE_BYTES) -> CalibratedModel:
        """Prepare the model for many queries: all k-way marginals, conditional tables, scores.

        Args:
            cache_bytes: size of the cache for intermediate results shared by queries.

        Raises:
            ModelTooLargeError: the junction tree does not fit in memory, and its parts are forecast to take
                too long (a ValueError); see `within`.
        """
        from pgmjax.model.calibrated import CalibratedModel  # which a fit does without

        return CalibratedModel(self.domain, self._host, self.total, cache_bytes)

    def _probabilities(self, clique: Clique) -> np.ndarray:
        known, place = self.known_marginals, first_holding(self.known_marginals.cliques, clique)
        if place is not None:
            return marginal_of(known.cliques[place], known.tables[place], clique)
        self.limits.require_cells(self.domain.size(clique), f"the marginal of {clique}")
        return self._host.marginal(tuple(map(self._variables.__getitem__, clique)))

    def _is_known(self, clique: Clique) -> bool:
        return first_holding(self.known_marginals.cliques, clique) is not None

    def _product(self, blocks: list[tuple[str, AttributeQuery]]) -> np.ndarray:
        """Expected answers for one record to a product of blocks, by contracting them into the model.

        The block of an attribute becomes a log-table over the attribute and the query's rows, so that the
        attribute is summed out as early as possible and the marginal is never built. One with negative
        entries is split into its positive and its negative part, contracted apart and subtracted.
        """
        output: list[int] = []
        options: list[list[tuple[int, np.ndarray, Variables]]] = []  # signed log-tables of each block
        new = len(self._host.structure.sizes)
        for name, block in blocks:
            variable, size = self._variables[name], self.domain[name]
            if block.kind == "identity":
                output.append(variable)
                continue
            USUAL.require_cells(block.rows(size) * size, f"the query's matrix on {name!r}")
            matrix = block.matrix(size).astype(np.float64)
            signs = (1, -1) if (matrix < 0).any() else (1,)
            with np.errstate(divide="ignore"):
                options.append([(s, np.log(np.maximum(s * matrix, 0)), (new, variable)) for s in signs])
            output.append(new)
            new += 1
        result = np.zeros([block.rows(self.domain[name]) for name, block in blocks])
        for parts in itertools.product(*options):
            extra = [(table, variables) for _, table, variables in parts]
            logs = self._host.log_sum(tuple(output), extra) - self._host.log_partition
            result += math.prod(sign for sign, _, _ in parts) * np.exp(logs)
        return result

    def _given(self, masks: Mapping[str, np.ndarray], total: float) -> GraphicalModel:
        joined: dict[Clique, Any] = dict(self.potentials)
        for name, mask in masks.items():
            joined[name,] = joined.get((name,), 0.0) + mask
        vector = CliqueVector(tuple(joined), tuple(joined.values()))
        return GraphicalModel(self.domain, vector, total, limits=self.limits, inputs=self.inputs)

    def within(self, max_bytes: int | None = None, max_seconds: float | None = None) -> GraphicalModel:
        """The same model with other limits of a question: of its memory, and of its forecast time.

        A question that needs more memory is answered in parts, as many as fit in the time.

        Args:
            max_bytes: memory (bytes). Default: a share of what is free when it is asked.
            max_seconds: forecast time on one core, > 0. Default: ten minutes.

        Raises:
            TypeError: a limit is not a number.
            ValueError: a limit of 0 or less.

        Example:
            >>> model = GraphicalModel.from_potentials(Domain({"a": 2, "b": 2}), {("a", "b"): np.eye(2)})
            >>> model.within(max_bytes=10**6, max_seconds=3600).marginal(("a",)).tolist()
            [0.5, 0.5]
        """
        size = None if max_bytes is None else checks.integer("max_bytes", max_bytes, low=1)
        time = QUESTION_SECONDS if max_seconds is None else checks.number("max_seconds", max_seconds, above=0)
        return dataclasses.replace(self, limits=QuestionLimits(size, time))

    def entropy(self) -> float:
        """Shannon entropy of the distribution (nats)."""
        expected = 0.0
        for clique, table in zip(self.potentials.cliques, self.potentials.tables, strict=True):
            mu = self._probabilities(clique)
            # an impossible cell adds nothing, where 0 times minus infinity would be NaN
            expected += float(np.sum(np.where(mu > 0, mu, 0) * np.where(np.isfinite(table), table, 0)))
        return self.log_partition() - expected

    def plot_tree(self, ax: Any = None) -> Any:
        """Draw the junction tree of the model's cliques: one line per clique, with its number of cells.

        Only the tree is computed, so this also works for models too large to answer queries. Cliques that
        are not connected are independent. The small text above a clique is its separator to its parent.
        Of trees with more than 150 cliques only the 60 largest are drawn, with the roots above them; a dashed
        line leads past cliques that are left out. The title gives the figures of the whole tree.

        Args:
            ax: matplotlib axes to draw on. Default: a new figure of suitable size.

        Returns:
            The matplotlib axes. Needs matplotlib (extra `plots`).
        """
        from pgmjax.inference.plan import junction_tree
        from pgmjax.plotting import tree

        return tree.draw(junction_tree.build(self._host.structure), self.domain.attributes, ax)

    def plot_marginals(
        self,
        cliques: Iterable[Clique] | None = None,
        measurements: Sequence[LinearMeasurement] = (),
        *,
        stddevs: float = 2.0,
    ) -> dict[Clique, Any]:
        """Draw marginals of one attribute as bars, of two as heat maps, in counts.

        Bars of more than 120 values are drawn in groups of neighbours. The colour scale of a heat map is the
        square root of the count.

        Args:
            cliques: one or two attributes each. Default: each attribute alone.
            measurements: noisy answers. Those of marginals that contain a clique are averaged with weights
                1/variance and drawn as points on the bars, or as a second heat map.
            stddevs: half-length of the error bars, in standard deviations of the noise.

        Returns:
            The matplotlib axes of each clique's fitted counts, all in one figure. Needs matplotlib
            (extra `plots`).

        Raises:
            ValueError: no clique, more than 60, one of more than two attributes, an unknown attribute, or
                measurements that are not valid for the domain.
        """
        from pgmjax.plotting import marginals as pictures

        stddevs = checks.number("stddevs", stddevs, above=0)
        wanted = [(name,) for name in self.domain.attributes] if cliques is None else cliques
        wanted = checks.several("cliques", wanted, "tuples of attribute names", "write [('age', 'sex')]")
        chosen = list(dict.fromkeys(as_clique(self.domain, clique) for clique in wanted))
        for measurement in measurements:
            measurement.validate(self.domain)
        return pictures.draw(
            self.domain,
            chosen,
            self.marginal,
            lambda clique: noisy_marginal(self.domain, measurements, clique),
            stddevs,
        )

    def _stored(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        from pgmjax.model import io  # which a fit does without

        arrays = io.vector_arrays(self.potentials, "potential")
        arrays |= io.vector_arrays(self.known_marginals, "marginal")
        fields = {
            "potentials": [list(clique) for clique in self.potentials.cliques],
            "marginals": [list(clique) for clique in self.known_marginals.cliques],
        }
        return fields, arrays

    @classmethod
    def _restored(
        cls, domain: Domain, total: float, inputs: tuple[Input, ...], record: Any, arrays: Any
    ) -> GraphicalModel:
        from pgmjax.model import io

        potentials = io.read_vector(domain, record["potentials"], arrays, "potential")
        marginals = io.read_vector(domain, record["marginals"], arrays, "marginal")
        if any(np.isnan(table).any() or np.isposinf(table).any() for table in potentials.tables):
            raise ValueError("its potentials are not finite.")
        io.require_probabilities(marginals)
        model = cls(domain, potentials, total, marginals, inputs=inputs)
        if not model._is_possible():
            raise ValueError("its potentials leave no possible cell.")
        return model

    def __repr__(self) -> str:
        cells = sum(t.size for t in self.potentials.tables)
        return (
            f"GraphicalModel({len(self.domain)} attributes, {len(self.potentials)} cliques, "
            f"{cells:,} potentials, total={self.total:,.1f})"
        )

    def _repr_html_(self) -> str:
        from pgmjax._internal import html  # of notebooks

        pairs = zip(self.potentials.cliques, self.potentials.tables, strict=True)
        rows = ((", ".join(clique), table.size) for clique, table in pairs)
        facts = {"attributes": len(self.domain), "total": float(self.total)}
        facts["cells of the domain"] = self.domain.size()
        cliques = html.table(("clique", "cells"), rows, len(self.potentials))
        return html.card("GraphicalModel", facts, cliques if len(self.potentials) else "")


def _log_table(domain: Domain, clique: Clique, values: Any) -> np.ndarray:
    table = np.array(values, dtype=np.float64)
    checks.refuse(
        (
            table.shape != domain.shape_of(clique),
            f"the potentials of {clique} must have shape {domain.shape_of(clique)}, got {table.shape}.",
        ),
        (
            np.isnan(table).any() or np.isposinf(table).any(),
            f"the potentials of {clique} must be finite or minus infinity.",
        ),
    )
    return table


def many_marginals(model: GraphicalModel, cliques: Iterable[Sequence[str]]) -> list[np.ndarray]:
    """Expected counts of each of many cliques; much faster than a call of `model.marginal` for each.

    All tables are in memory at once; `model.calibrate().marginals(cliques)` streams them.

    Args:
        model: the model.
        cliques: attribute names of each; the axes of its table follow their order.

    Returns:
        Counts [size of each attribute] for each clique, float64, equal to `model.marginal` up to rounding.

    Raises:
        ValueError: an unknown or repeated attribute, or a table larger than memory.

    Example:
        >>> from pgmjax.data.domain import Domain
        >>> model = GraphicalModel.from_potentials(Domain({"a": 2, "b": 2}), {("a",): [0.0, 0.0]}, total=8)
        >>> [table.tolist() for table in many_marginals(model, [("b",), ("a", "b")])]
        [[4.0, 4.0], [[2.0, 2.0], [2.0, 2.0]]]
    """
    return [table for _, table in model.calibrate().marginals(cliques)]


def _warn_of_shares(tables: Sequence[np.ndarray]) -> None:
    """Warn of potentials that look like probabilities: their logarithms were meant."""
    if tables and all(t.size > 1 and (t >= 0).all() and math.isclose(t.sum(), 1) for t in tables):
        checks.warn(
            "the potentials add up to 1, as probabilities do; potentials are logarithms: np.log(shares)."
        )
