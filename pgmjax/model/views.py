"""Plots of a model: its junction tree, its marginals, and its notebook representation."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmjax._internal import checks, html
from pgmjax.data.cliques import Clique, as_clique
from pgmjax.data.domain import Domain
from pgmjax.inference.oracles.host import HostModel
from pgmjax.inference.plan import junction_tree
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.marginals import noisy_marginal
from pgmjax.model.clique_vector import CliqueVector
from pgmjax.plotting import marginals, tree


class ModelPictures:
    """Mixin with the plots of a graphical model, which `GraphicalModel` inherits."""

    domain: Domain
    total: float
    potentials: CliqueVector

    if TYPE_CHECKING:

        @functools.cached_property
        def _host(self) -> HostModel: ...

        def marginal(self, clique: Clique) -> np.ndarray: ...  # noqa: D102

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
        stddevs = checks.number("stddevs", stddevs, above=0)
        wanted = [(name,) for name in self.domain.attributes] if cliques is None else cliques
        chosen = list(dict.fromkeys(as_clique(self.domain, clique) for clique in wanted))
        for measurement in measurements:
            measurement.validate(self.domain)
        return marginals.draw(
            self.domain,
            chosen,
            self.marginal,
            lambda clique: noisy_marginal(self.domain, measurements, clique),
            stddevs,
        )

    def _repr_html_(self) -> str:
        pairs = zip(self.potentials.cliques, self.potentials.tables, strict=True)
        rows = ((", ".join(clique), table.size) for clique, table in pairs)
        facts = {"attributes": len(self.domain), "total": float(self.total)}
        facts["cells of the domain"] = self.domain.size()
        cliques = html.table(("clique", "cells"), rows, len(self.potentials))
        return html.card("GraphicalModel", facts, cliques if len(self.potentials) else "")
