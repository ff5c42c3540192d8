"""MST: measure all attributes, choose a spanning tree of pairs that depend on each other most, measure it."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar

from pgmjax._internal import checks
from pgmjax.data.cliques import Clique, as_clique
from pgmjax.data.counting import check_memory
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.estimation.estimator import Estimator, Fit
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.mechanisms.adaptive import Purse, check_adaptive
from pgmjax.mechanisms.base import Settings, paid_for, read_settings
from pgmjax.mechanisms.noise_sizes import grid_for, law_for, most_moved, on_grid
from pgmjax.model.compression import Compression
from pgmjax.model.graphical import GraphicalModel, many_marginals
from pgmjax.privacy.backend import NoiseBackend
from pgmjax.privacy.ledger import Ledger
from pgmjax.privacy.scores import Distances
from pgmjax.queries.query import attribute_names
from pgmjax.queries.workload import Workload
from pgmjax.release.release import Release


@dataclasses.dataclass(frozen=True)
class MST:
    """Measure every attribute, then the pairs of a spanning tree that is chosen privately.

    A third of the budget measures all attributes alone. A third chooses pairs, one after the other among
    those that join parts not yet joined, by how far each pair's exact marginal is (in L1) from the model in
    which all attributes are independent. A third measures the chosen pairs. The workload plays no part in
    what is measured: the model is of the whole table, and any workload can be asked of it.

    Args:
        epsilon: all that may be spent: a number, or an exact string such as "1/3".
        relation: which tables are neighbours; there is no default.
        delta: 0 spends epsilon by discrete Laplace noise and permute-and-flip; more than 0 spends the rho
            that fits both by discrete Gaussian noise and the exponential mechanism.
        cliques: public cliques that are measured in any case, with the pairs; pairs are chosen to join what
            they leave apart. They must not come from the table.
        compress: whether values whose noisy count is below three standard deviations are merged, attribute by
            attribute, before pairs are chosen and measured; the model spreads them evenly again.
        steps: solver steps at most of the fit to the attributes alone.
        estimator: how models are fitted; None is `Estimator()`.
        backend: source of noise; None is the secure one.

    Raises:
        TypeError: a parameter of the wrong type.
        ValueError: a parameter outside its range.

    Guarantees:
        delta = 0: epsilon-DP. delta > 0: rho-zCDP, hence (epsilon, delta)-DP, for the largest rho that
        converts to at most epsilon. The parts sum to the budget exactly. The model, which pairs may be chosen
        and which values are merged are post-processing of released numbers; a pair of merged values has the
        sensitivity of a pair.

    References:
        McKenna, Miklau and Sheldon 2021, "Winning the NIST Contest: a scalable and general approach to
        differentially private synthetic data".
    """

    epsilon: Any
    relation: Relation
    delta: Any = 0
    cliques: tuple[Clique, ...] = ()
    compress: bool = True
    steps: int = 100
    estimator: Estimator | None = None
    backend: NoiseBackend | None = None

    name: ClassVar[str] = "mst"
    summary: ClassVar[str] = "measure all attributes and a spanning tree of the pairs that depend most"

    def __post_init__(self) -> None:
        settings = read_settings(self.epsilon, self.delta, self.relation)
        for name in ("epsilon", "delta", "relation"):
            object.__setattr__(self, name, getattr(settings, name))
        given = checks.several("cliques", self.cliques, "tuples of attribute names")
        object.__setattr__(self, "cliques", tuple(attribute_names(clique) for clique in given))
        if not isinstance(self.compress, bool):
            raise TypeError(f"compress must be True or False, got {type(self.compress).__name__}.")
        checks.integer("steps", self.steps, low=1)

    def run(
        self,
        data: Dataset,
        workload: Workload,
        *,
        ledger: Ledger | None = None,
        key: str | None = None,
        show_progress: bool | None = None,
    ) -> Release:
        """Make a release.

        Args:
            data: the private table.
            workload: what the release is to answer; it does not change what is measured.
            ledger: where the table's budget is kept; None keeps no account beyond this run.
            key: the run's name in the ledger; None names it by what is asked. Asked again under the same
                name it gives the same answers and costs nothing, also after an interruption.
            show_progress: None shows a bar in terminals only, False never.

        Raises:
            ValueError: a bad workload or clique, a model too large for memory or a bad table; nothing was
                spent.
            BudgetExceeded: the table's budget in the ledger does not suffice; nothing was spent.
            LedgerError: the ledger cannot be used; nothing was spent.
            FitError: a fit failed after the spend; the error carries the measurements.
        """
        settings = Settings(self.epsilon, self.delta, self.relation)
        estimator = Estimator(progress=show_progress) if self.estimator is None else self.estimator
        check_adaptive(data, workload, estimator)
        domain = data.domain
        given = [as_clique(domain, clique) for clique in self.cliques]
        forest = Forest(domain.attributes)
        for clique in given:
            forest.join(clique)
        edges = forest.parts - 1
        self._check(data, settings, given, edges, estimator)
        options = {"compress": self.compress, "steps": self.steps}
        request = {"mechanism": self.name, "cliques": [list(clique) for clique in given], **options}
        table = settings.open(data, workload, self.backend, request, ledger, key)
        purse = Purse(table, estimator, table.public_total(), show_progress)

        parts = _parts(table.budget.cap, len(domain), edges, len(given))
        measured = purse.measure([(name,) for name in domain.attributes], parts.attributes)
        merging = Compression.from_measurements(domain, measured if self.compress else [])
        model = None
        if edges:
            short = dataclasses.replace(
                estimator, max_steps=min(self.steps, estimator.max_steps), progress=False
            )
            model = _fit(purse, short, merging, measured).model
            given += self._choose(purse, model, merging, forest, parts.choices)
        if given:
            measured += purse.ask(map(merging.query, given), table.budget.split([1] * len(given)))
        fit = _fit(purse, estimator, merging, measured, model)
        with paid_for(measured):
            whole = dataclasses.replace(fit, model=merging.backward(fit.model))
        return settings.release(self.name, table, workload, measured, estimator, whole)

    def _check(
        self, data: Dataset, settings: Settings, given: list[Clique], edges: int, estimator: Estimator
    ) -> None:
        """Refuse what could not be gone through with; reads nothing of the table."""
        domain = data.domain
        pairs = list(itertools.combinations(domain.attributes, 2))
        check_memory(domain, [*pairs, *given])
        estimator.plan(domain, [(name,) for name in domain.attributes] + given + largest_tree(domain, given))
        weight = data.max_weight if data.weighted else None
        budget = settings.budget()
        parts = _parts(budget.cap, len(domain), edges, len(given))
        moves = most_moved(
            [(name,) for name in domain.attributes], domain, self.relation, budget.unit, weight
        )
        for cost in (parts.attributes[0], *parts.measured):
            law_for(moves, budget.unit, cost)
        if parts.choices:
            distance = most_moved(pairs, domain, self.relation, "epsilon", weight)
            grid_for(distance, budget.unit, parts.choices[0])

    def _choose(
        self,
        purse: Purse,
        model: GraphicalModel,
        merging: Compression,
        forest: Forest,
        costs: Sequence[Fraction],
    ) -> list[Clique]:
        """Choose pairs until all attributes are joined."""
        table = purse.table
        pairs = list(itertools.combinations(table.domain.attributes, 2))
        expected = dict(zip(pairs, many_marginals(model, pairs), strict=True))
        weight = table.max_weight if table.weighted else None
        moves = most_moved(pairs, table.domain, table.relation, "epsilon", weight)
        chosen: list[Clique] = []
        for cost in costs:
            bits = grid_for(moves, purse.unit, cost)
            open_pairs = [pair for pair in pairs if not forest.joined(pair)]
            score = Distances([(merging.query(p), on_grid(expected[p], bits)) for p in open_pairs], bits)
            chosen.append(open_pairs[purse.choose(score, cost)])
            forest.join(chosen[-1])
        return chosen


def _fit(
    purse: Purse,
    estimator: Estimator,
    merging: Compression,
    measured: Sequence[LinearMeasurement],
    warm_start: GraphicalModel | None = None,
) -> Fit:
    """Fit a model over the domain in which rare values are merged.

    Raises:
        FitError: the fit failed; it carries the measurements, which are paid for.
    """
    with paid_for(measured):
        given = [merging.forward(measurement) for measurement in measured]
        return estimator.fit(merging.domain, given, purse.total, warm_start)


@dataclasses.dataclass(frozen=True)
class _Parts:
    """The budget's parts: for attributes, for choices, and (as forecast) for what is measured at last."""

    attributes: tuple[Fraction, ...]
    choices: tuple[Fraction, ...]
    measured: tuple[Fraction, ...]


def _parts(cap: Fraction, attributes: int, choices: int, given: int) -> _Parts:
    """Equal shares for the three steps, or for those of them that there are."""
    numbers = (attributes, choices, choices + given)
    share = cap / sum(number > 0 for number in numbers)
    return _Parts(*((share / number,) * number if number else () for number in numbers))


class Forest:
    """Which attributes are joined already.

    Example:
        >>> forest = Forest(["a", "b", "c"])
        >>> forest.join(("a", "b"))
        >>> forest.parts, forest.joined(("b", "a")), forest.joined(("a", "c"))
        (2, True, False)
    """

    def __init__(self, attributes: Sequence[str]):
        self._part = dict.fromkeys(attributes, 0)
        for number, name in enumerate(attributes):
            self._part[name] = number

    @property
    def parts(self) -> int:
        """The number of parts."""
        return len(set(self._part.values()))

    def joined(self, clique: Clique) -> bool:
        """Whether all attributes of a clique lie in one part."""
        return len({self._part[name] for name in clique}) == 1

    def join(self, clique: Clique) -> None:
        """Join the parts of a clique's attributes."""
        old = {self._part[name] for name in clique}
        for name, part in self._part.items():
            if part in old:
                self._part[name] = min(old)


def largest_tree(domain: Domain, given: Sequence[Clique]) -> list[Clique]:
    """Return the pairs that join what some cliques leave apart, of the most cells in all."""
    forest = Forest(domain.attributes)
    for clique in given:
        forest.join(clique)
    tree: list[Clique] = []
    for pair in sorted(itertools.combinations(domain.attributes, 2), key=domain.size, reverse=True):
        if not forest.joined(pair):
            forest.join(pair)
            tree.append(pair)
    return tree
