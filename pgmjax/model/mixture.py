"""The mixture of products: the result of `fit_mixture`, which answers new queries.

On disk it is a folder with `model.json` and `model.npz`, readable without this library.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from pgmjax._internal import checks, formats, html
from pgmjax._internal.files import float_array
from pgmjax.data.domain import Clique, Domain, as_clique, as_domain
from pgmjax.inference.oracles.host import USUAL, HostModel
from pgmjax.inference.plan.structure import Structure
from pgmjax.kernels.log_sum_exp import host_logsumexp
from pgmjax.measurements.inputs import Input, with_inputs
from pgmjax.model.rows import ModelRows, RowCheck, known_codes
from pgmjax.queries.blocks import AttributeQuery

_BLOCK = 1 << 22  # rows times components processed at once


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class MixtureModel(ModelRows):
    """A mixture of product distributions, times a total.

    ``p(x) = sum_k w_k prod_i p_ki(x_i)``. Methods behave as those of `GraphicalModel`: answers are computed
    on the host in float64, and are in counts.

    Attributes:
        domain: the attributes.
        log_weights: natural logarithms of the weights [components].
        log_probabilities: log-probabilities of the values of each attribute [components, size]; minus
            infinity marks impossible values.
        total: number of records (counts); need not be an integer.
        cliques: the cliques the model was fitted to, which `check_rows` compares by default.
        inputs: what it was computed from, with cost and security; () if nobody stated that.

    References:
        Liu, Vietri and Wu 2021, "Iterative methods for private synthetic data", section 4 and Appendix C
        (a relaxed table with rows through softmax); Aydore et al. 2021, "Differentially private query release
        through adaptive projection", section 3.

    Example:
        >>> model = MixtureModel.from_logits(
        ...     Domain({"a": 2, "b": 2}), [0.0, 0.0], {"a": [[9, 0], [0, 9]], "b": [[0, 0], [0, 0]]}, total=8
        ... )
        >>> model.marginal(("a", "b")).round(3).tolist()
        [[2.0, 2.0], [2.0, 2.0]]
    """

    domain: Domain
    log_weights: np.ndarray
    log_probabilities: tuple[np.ndarray, ...]
    total: float
    cliques: tuple[Clique, ...] = ()
    inputs: tuple[Input, ...] = ()
    _format: ClassVar[formats.Format] = formats.MIXTURE

    @classmethod
    def from_logits(
        cls,
        domain: Domain,
        weights: Any,
        rows: Mapping[str, Any],
        total: float = 1.0,
        cliques: Iterable[Clique] = (),
    ) -> MixtureModel:
        """Make a model from log-weights, which are normalised.

        Args:
            domain: the attributes.
            weights: log-weights of the components [components], nats, up to a constant.
            rows: log-weights of the values of each attribute [components, size], up to a constant per
                component. Minus infinity marks impossible values.
            total: number of records (counts), > 0.
            cliques: the cliques that `check_rows` compares by default.

        Raises:
            ValueError: a wrong shape, NaN or plus infinity, or a row without a possible value.
        """
        domain = as_domain(domain, "MixtureModel.from_logits(domain, weights, rows)", weights, rows)
        if set(rows) != set(domain):
            raise ValueError(
                f"rows must name every attribute of the domain once, got {len(rows)} of {len(domain)}."
            )
        log_weights = _normalised("the weights", weights, (np.size(weights),))
        shapes = {name: (len(log_weights), domain[name]) for name in domain}
        tables = tuple(_normalised(f"the rows of {name!r}", rows[name], shapes[name]) for name in domain)
        named = tuple(as_clique(domain, clique) for clique in cliques)
        return cls(domain, log_weights, tables, checks.total(total, least=0), named)

    @property
    def components(self) -> int:
        """Number of products."""
        return len(self.log_weights)

    @functools.cached_property
    def _weights(self) -> np.ndarray:
        return np.exp(self.log_weights)

    @functools.cached_property
    def _tables(self) -> dict[str, np.ndarray]:
        """Probabilities [components, size] of each attribute."""
        tables = map(np.exp, self.log_probabilities)
        return dict(zip(self.domain.attributes, tables, strict=True))

    @functools.cached_property
    def _host(self) -> HostModel:
        """The mixture as a star: each attribute is joined to the component, a hidden last variable."""
        hidden = len(self.domain)
        cliques = (*((hidden, i) for i in range(hidden)), (hidden,))
        structure = Structure((*self.domain.shape, self.components), cliques)
        return HostModel(structure, (*self.log_probabilities, self.log_weights))

    def _probabilities(self, clique: Clique) -> np.ndarray:
        USUAL.require_cells(self.domain.size(clique), f"the marginal of {clique}")
        table = _mixed(self._weights, [self._tables[name] for name in clique])
        # less the rounding of its many factors
        return table / table.sum()

    def _product(self, blocks: list[tuple[str, AttributeQuery]]) -> np.ndarray:
        return _mixed(self._weights, [block.apply(self._tables[name], axis=1) for name, block in blocks])

    def _log_weight(self, masks: Mapping[str, np.ndarray]) -> float:
        if not masks:
            return 0.0  # the weights are normalised
        return float(host_logsumexp(self._masked(masks)[0], (0,)))

    def _masked(self, masks: Mapping[str, np.ndarray]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Joint log-probability of evidence and each component, and masked rows of its attributes."""
        joint, masked = self.log_weights, {}
        for name, mask in masks.items():
            masked[name] = self.log_probabilities[self.domain.attributes.index(name)] + mask
            joint = joint + host_logsumexp(masked[name], (1,))
        return joint, masked

    def _given(self, masks: Mapping[str, np.ndarray], total: float) -> MixtureModel:
        """The mixture of the components that are compatible with the masks."""
        joint, masked = self._masked(masks)
        left = np.isfinite(joint)
        rows = dict(zip(self.domain.attributes, self.log_probabilities, strict=True)) | masked
        kept = {name: table[left] for name, table in rows.items()}
        found = MixtureModel.from_logits(self.domain, joint[left], kept, total, self.cliques)
        return with_inputs(found, self.inputs)

    def log_probability(self, columns: Mapping[str, Any]) -> np.ndarray:
        """Log-probability of the known cells of some rows (nats).

        Args:
            columns: codes [rows] of some attributes, -1 for unknown cells.

        Returns:
            Log-probability of the known cells of each row [rows]; minus infinity if impossible.

        Raises:
            ValueError: as in `complete`.
        """
        known = known_codes(self.domain, columns)
        (rows,) = {len(codes) for codes in known.values()}
        step = max(_BLOCK // self.components, 1)
        parts = [np.zeros(0)]
        for start in range(0, rows, step):
            joint: np.ndarray = self.log_weights[None]
            for variable, column in known.items():
                codes = column[start : start + step]
                # -1, not known, reads some row, which is left out below
                logs = self.log_probabilities[variable].T[np.maximum(codes, 0)]
                joint = joint + np.where(codes[:, None] >= 0, logs, 0.0)
            parts.append(host_logsumexp(joint, (1,)))
        return np.concatenate(parts)

    def mode(self) -> dict[str, int]:
        """Not available: finding the most likely cell of a mixture requires a search over all cells.

        Raises:
            ValueError: always; use `best_component_mode` instead.
        """
        raise ValueError(
            "the most likely cell of a mixture of products cannot be found without a search over all cells: "
            "best_component_mode() gives the likeliest of the components' own modes, a lower bound."
        )

    def best_component_mode(self) -> dict[str, int]:
        """The cell with the highest probability under the mixture among the modes of its components.

        Its probability is at least the largest product of a component's weight and the probability of its
        mode. The sum of these products over the components is an upper bound for any cell. The result need
        not be the mode of the mixture.
        """
        names = self.domain.attributes
        tops = (table.argmax(axis=1) for table in self.log_probabilities)
        cells = dict(zip(names, tops, strict=True))
        best = int(np.argmax(self.log_probability(cells)))
        return {name: int(codes[best]) for name, codes in cells.items()}

    def check_rows(
        self, columns: Mapping[str, Any], cliques: Iterable[Clique] | None = None
    ) -> tuple[RowCheck, ...]:
        """Compare the marginals of rows with those of the model, as `GraphicalModel.check_rows`.

        Args:
            columns: codes [rows] of each attribute in the cliques.
            cliques: the marginals to compare. Default: those the model was fitted to, or each attribute.
        """
        own = self.cliques or tuple((name,) for name in self.domain)
        return super().check_rows(columns, own if cliques is None else cliques)

    def _stored(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        arrays = {f"log_probabilities_{i}": table for i, table in enumerate(self.log_probabilities)}
        fields = {"components": self.components, "cliques": [list(clique) for clique in self.cliques]}
        return fields, {"log_weights": self.log_weights, **arrays}

    @classmethod
    def _restored(
        cls, domain: Domain, total: float, inputs: tuple[Input, ...], record: Any, arrays: Any
    ) -> MixtureModel:
        components = int(record["components"])
        cliques = tuple(as_clique(domain, names) for names in record["cliques"])
        weights = float_array(arrays, "log_weights", (components,))
        shapes = [(components, size) for size in domain.shape]
        tables = tuple(float_array(arrays, f"log_probabilities_{i}", s) for i, s in enumerate(shapes))
        if not all(np.all(np.abs(np.exp(logs).sum(axis=-1) - 1) < 1e-6) for logs in (weights, *tables)):
            raise ValueError("its log-probabilities do not sum to one.")
        return cls(domain, weights, tables, total, cliques, inputs)

    def __repr__(self) -> str:
        return (
            f"MixtureModel({len(self.domain)} attributes, {self.components} components, "
            f"total={self.total:,.1f})"
        )

    def _repr_html_(self) -> str:
        facts = {"attributes": len(self.domain), "components": self.components, "total": float(self.total)}
        rows = ((name, self.domain[name]) for name in self.domain)
        return html.card("MixtureModel", facts, html.table(("attribute", "values"), rows, len(self.domain)))


def _mixed(weights: np.ndarray, factors: Sequence[np.ndarray]) -> np.ndarray:
    """Weighted sum over components of products of factors [components, rows] each: [rows of each].

    Factors are multiplied out in two groups, so that the sum over components is one matrix product.
    """
    shape = tuple(factor.shape[1] for factor in factors)
    sides = [(math.prod(shape[:cut]), math.prod(shape[cut:])) for cut in range(len(shape) + 1)]
    cut = min(range(len(sides)), key=lambda c: sum(sides[c]))
    USUAL.require_cells(len(weights) * sum(sides[cut]), "the components' share in this answer")
    left = functools.reduce(_khatri_rao, factors[:cut], weights[:, None])
    right = functools.reduce(_khatri_rao, factors[cut:], np.ones((len(weights), 1)))
    return (left.T @ right).reshape(shape)


def _khatri_rao(table: np.ndarray, more: np.ndarray) -> np.ndarray:
    """Products of two tables row by row [components, columns of both]."""
    return (table[:, :, None] * more[:, None, :]).reshape(len(table), -1)


def _normalised(said: str, values: Any, shape: tuple[int, ...]) -> np.ndarray:
    logs = np.array(values, dtype=np.float64)
    if logs.shape != shape or not logs.size:
        raise ValueError(f"{said} must have shape {shape} and not be empty, got {logs.shape}.")
    if np.isnan(logs).any() or np.isposinf(logs).any():
        raise ValueError(f"{said} must be finite or minus infinity.")
    if np.isneginf(logs).all(axis=-1).any():
        raise ValueError(f"{said} leave a component no possible value.")
    logs -= host_logsumexp(logs, (logs.ndim - 1,))[..., None]
    logs.flags.writeable = False
    return logs
