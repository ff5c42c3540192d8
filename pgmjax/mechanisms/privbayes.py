"""PrivBayes: a Bayesian network chosen step by step, its marginals measured, with or without the engine."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any, ClassVar

from pgmjax._internal import checks
from pgmjax.data.dataset import Dataset
from pgmjax.data.relation import Relation
from pgmjax.estimation.estimator import Estimator
from pgmjax.mechanisms.base import Settings, check_table_and_workload, read_settings
from pgmjax.mechanisms.bayes_network import (
    SCORES,
    Levels,
    Search,
    check_model_memory,
    conditional_fit,
    read_taxonomies,
)
from pgmjax.privacy.backend import NoiseBackend
from pgmjax.privacy.exact import as_text, exact
from pgmjax.privacy.ledger import Ledger
from pgmjax.privacy.scores.bayes import BinaryF
from pgmjax.queries.workload import Workload
from pgmjax.release.release import Release


@dataclasses.dataclass(frozen=True)
class PrivBayes:
    """Choose a Bayesian network, parents by parents, and measure its marginals.

    Attributes join the network one after the other, each with parents among those before it that tell most
    about it by a noisy score. A marginal may be measured only where its noise leaves it useful: a cell of
    average size must be `theta` times the mean noise. That bounds the number of parents where all attributes
    are binary (or `degree` is given), and the cells of a marginal otherwise.

    Args:
        epsilon: all that may be spent: a number, or an exact string such as "1/3".
        relation: replace-one, the only one: the scores divide by the number of records.
        delta: 0 uses permute-and-flip and discrete Laplace noise; more than 0 the exponential mechanism and
            discrete Gaussian noise under zCDP.
        structure_share: of the budget, for choosing parents; in (0, 1), exact.
        theta: how useful a marginal must be, > 0.
        score: "R" or "total-variation", "I" or "mutual-information", "F" or "binary-f"; the last one is
            for attributes of two values only.
        degree: a number of parents; None takes the most that are theta-useful.
        taxonomies: for some attributes a list of coarser and coarser maps, the group of every code: parents
            may then stand with their values merged. Not with a degree, and public.
        estimate: "engine" fits a model to the measurements, "paper" clips and normalises them to
            conditionals. `bayes_network.paper_model` and `engine_model` give the other one of a release.
        first: the attribute that the network starts with; None is the domain's first.
        max_candidates: the most sets of parents that one choice goes through; they are thinned beyond it.
        max_cells: the most cells of the model's junction tree; candidates that would exceed it are left out.
        estimator: how the model is fitted; None is `Estimator()`.
        backend: source of noise; None is the secure one.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: an argument outside its range, or another relation than replace-one.

    Guarantees:
        As `Marginals`, under REPLACE_ONE: choices have `structure_share` of the budget in equal parts, and
        what they leave is divided equally among the marginals, so that all sum to the whole exactly. A
        choice between no parents or of one candidate costs nothing. The number of records is public.

    References:
        Zhang, Cormode, Procopiuc, Srivastava and Xiao 2017, "PrivBayes"; McKenna et al. 2019, section 4.

    Example:
        >>> PrivBayes(epsilon=1, relation=Relation.REPLACE_ONE, score="I").score
        'mutual-information'
    """

    epsilon: Any
    relation: Relation
    delta: Any = 0
    structure_share: Any = Fraction(3, 10)
    theta: Any = 4
    score: str = "total-variation"
    degree: int | None = None
    taxonomies: Any = None
    estimate: str = "engine"
    first: str | None = None
    max_candidates: int = 2000
    max_cells: int = 4_000_000
    estimator: Estimator | None = None
    backend: NoiseBackend | None = None

    name: ClassVar[str] = "privbayes"
    summary: ClassVar[str] = (
        "choose a Bayesian network privately, measure its marginals, fit or multiply them"
    )
    relations: ClassVar[tuple[Relation, ...]] = (Relation.REPLACE_ONE,)
    weighted_tables: ClassVar[bool] = False

    def __post_init__(self) -> None:
        settings = read_settings(self.epsilon, self.delta, self.relation)
        if settings.relation is not Relation.REPLACE_ONE:
            raise ValueError(
                "PrivBayes divides by the number of records, which is private under "
                f"{settings.relation.value}: use replace-one, or another mechanism."
            )
        given = {
            **{name: getattr(settings, name) for name in ("epsilon", "delta", "relation")},
            "structure_share": exact("structure_share", self.structure_share),
            "theta": exact("theta", self.theta),
            "score": SCORES[checks.choice("score", self.score, tuple(SCORES))].kind,
            "taxonomies": read_taxonomies(self.taxonomies),
        }
        if not 0 < given["structure_share"] < 1:
            raise ValueError(
                f"structure_share must lie between 0 and 1, got {as_text(given['structure_share'])}."
            )
        if given["theta"] <= 0:
            raise ValueError(f"theta must be > 0, got {as_text(given['theta'])}.")
        if self.degree is not None:
            checks.integer("degree", self.degree, low=0)
            if given["taxonomies"]:
                raise ValueError("taxonomies serve to bound the cells of a marginal: leave out the degree.")
        checks.choice("estimate", self.estimate, ("engine", "paper"))
        checks.integer("max_candidates", self.max_candidates, low=1)
        checks.integer("max_cells", self.max_cells, low=1)
        for name, value in given.items():
            object.__setattr__(self, name, value)

    def run(
        self,
        data: Dataset,
        workload: Workload,
        *,
        ledger: Ledger | None = None,
        key: str | None = None,
        show_progress: bool | None = None,
    ) -> Release:
        """Make a release. The workload is answered from the model and has no part in what is measured.

        Args:
            data: the private table.
            workload: what is asked.
            ledger: as in `Marginals.run`; either way of estimation asks for the same answers.
            key: as in `Marginals.run`.
            show_progress: None shows a bar in terminals only, False never.

        Raises:
            ValueError: a bad workload, settings that do not fit the domain or the memory, weights, or a bad
                table; nothing was spent.
            BudgetExceeded: the table's budget in the ledger does not suffice; nothing was spent.
            LedgerError: the ledger cannot be used; nothing was spent.
            FitError: no model could be made after the spend; the error carries the measurements.
        """
        settings = Settings(self.epsilon, self.delta, self.relation)
        estimator = Estimator(progress=show_progress) if self.estimator is None else self.estimator
        check_table_and_workload(data, workload)
        levels = self._check(data, workload, estimator)
        table = settings.open(data, workload, self.backend, self._request(), ledger, key)
        data.validate()
        queries = [levels.query(each) for each in self._search().run(table, levels, show_progress)]
        costs = {f"{table.budget.unit}s": table.budget.split([1] * len(queries))}
        measurements = table.measure(queries, **costs, show_progress=show_progress)
        if self.estimate == "engine":
            return settings.release(self.name, table, workload, measurements, estimator)
        fit = conditional_fit(table.domain, measurements, table.public_count(), estimator)
        return settings.release(self.name, table, workload, measurements, estimator, fit)

    def _search(self) -> Search:
        wanted = [field.name for field in dataclasses.fields(Search) if field.name != "score"]
        return Search(SCORES[self.score], **{name: getattr(self, name) for name in wanted})

    def _request(self) -> dict[str, Any]:
        """The public settings that measurements depend on; how a model is made of them is none."""
        return {
            "mechanism": self.name,
            **{name: as_text(getattr(self, name)) for name in ("structure_share", "theta")},
            **{name: getattr(self, name) for name in ("score", "degree", "first")},
            **{name: getattr(self, name) for name in ("max_candidates", "max_cells")},
            "taxonomies": {name: [list(each) for each in maps] for name, maps in self.taxonomies.items()},
        }

    def _check(self, data: Dataset, workload: Workload, estimator: Estimator) -> Levels:
        """Refuse what does not fit, before anything is read."""
        domain = data.domain
        if data.weighted:
            raise ValueError(
                "PrivBayes divides by the number of records and takes no weights: use another mechanism."
            )
        if self.first is not None and self.first not in domain:
            raise ValueError(f"first must be an attribute of the domain, got {self.first!r}.")
        if self.degree is not None and self.degree >= len(domain):
            raise ValueError(
                f"degree must be below the number of attributes, {len(domain)}, got {self.degree}."
            )
        if self.score == BinaryF.kind and set(domain.shape) != {2}:
            raise ValueError(
                "the score binary-f is for tables whose attributes all have two values: use total-variation "
                "or mutual-information."
            )
        levels = Levels(domain, self.taxonomies)
        check_model_memory(domain, workload, estimator, self.max_cells)
        return levels
