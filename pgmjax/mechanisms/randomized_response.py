"""Randomised response: each record's answer is randomised separately, and the answers are the release.

`Universes` holds the groups of attributes that are answered together, with their encodings and costs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import os
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar

from pgmjax._internal import checks
from pgmjax._internal.files import check_target, reserve_folder
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Clique, Domain, as_clique, maximal
from pgmjax.data.relation import Relation
from pgmjax.local.channel import predicted_error
from pgmjax.local.marginals import factors_of, marginals_of
from pgmjax.local.table import (
    ROW_ORDERS,
    PerturbedTable,
    check_sortable,
    columns_of,
    load,
    sorted_columns_of,
)
from pgmjax.mechanisms.base import Mechanism
from pgmjax.mechanisms.parameters import Keeping, declared, one_of
from pgmjax.mechanisms.run import Request, Run
from pgmjax.privacy import Budget, Ledger, PrivateTable
from pgmjax.privacy.exact import as_text, exact_positive, shortened, split
from pgmjax.privacy.responding import ENCODINGS, Responses, check_size
from pgmjax.privacy.response import LARGEST_UNARY_SIZE, response_for, unary_for
from pgmjax.queries.workload import Workload
from pgmjax.release.release import Release
from pgmjax.release.run_folder import RunFolder

USELESS = ("refuse", "answer")


@dataclasses.dataclass(frozen=True)
class RandomizedResponse(Mechanism):
    """Randomise every record's answer separately, with known probabilities.

    `run` fits a model to counts of the answers; `perturb` releases the answers themselves, row by row.

    `delta` is not spent; it is accepted for a common interface.

    Args:
        universe: "attributes" randomises each attribute separately under its part of epsilon; "joint"
            randomises all together, as one category of their product; disjoint lists of attributes randomise
            each list together, under equal parts.
        encoding: "direct" (one category), "optimal-unary" or "symmetric-unary" (one bit per category).
            Default: the one with the least variance in `run`, and "direct" in `perturb`.
        share: weights of the attributes' parts of epsilon, by name, 1 for those not named. Default:
            equal parts.
        useless: "refuse" raises if the predicted error of a fraction is above 1, "answer" continues.

    Guarantees:
        epsilon-DP for tables that differ in one record: the answer on group i is epsilon_i-DP for its record,
        and the epsilon_i sum to epsilon exactly. Direct: the true one of m categories is reported with
        probability e^epsilon_i / (e^epsilon_i + m - 1). Optimal unary: a true bit is 1 with probability 1/2,
        any other with 1 / (e^epsilon_i + 1). Symmetric: every bit is kept with probability
        e^(epsilon_i / 2) / (e^(epsilon_i / 2) + 1). Probabilities are rounded so that no answer costs more.
        The number of records is public. The model is post-processing. `run` releases, and stores in a ledger,
        only counts of answers, which do not depend on the order of the table; `perturb` releases and stores
        sorted answers, or answers in the order of the table, which must be public.

    References:
        Wang, Ying and Zhang 2016 (the estimators of `local`); Wang, Blocki, Li and Jha 2017 (encodings).

    Example:
        >>> RandomizedResponse(epsilon=1, relation=Relation.REPLACE_ONE).universe
        'attributes'
    """

    universe: Any = declared("attributes", lambda name, value: read_universe(value))
    encoding: str | None = one_of(None, ENCODINGS)
    share: Any = declared(None, lambda name, value: read_share(value))
    useless: str = one_of("refuse", USELESS)

    discovers: ClassVar[bool] = False
    name: ClassVar[str] = "randomized-response"
    summary: ClassVar[str] = (
        "have each record answer for itself with lies of a known distribution, and fit the counts"
    )
    relations: ClassVar[tuple[Relation, ...]] = (Relation.REPLACE_ONE,)
    accepts_weights: ClassVar[bool] = False
    restriction: ClassVar[str] = (
        "each record answers for itself, once, and the answers show how many records there are: that must be "
        "public."
    )
    audited_with: ClassVar[dict[str, Any]] = {"useless": "answer"}
    audited_values: ClassVar[dict[str, tuple[Any, ...]]] = {
        "universe": ("attributes", "joint"),
        "encoding": (None, *ENCODINGS),
        "share": (None, {"a": 2}),
        "useless": ("answer", "refuse"),
    }

    def budget(self) -> Budget:
        """Return a new budget of epsilon; responses spend no delta."""
        return Budget(self.epsilon)

    def plan(self, request: Request) -> Universes:
        """Return the groups of attributes to randomise."""
        queries = request.measurable([entry.query for entry in request.workload.entries])
        names = [name for query in queries for name in query.clique]
        return self._universes(request.domain, names, self.encoding, request.max_records)

    def describe(self, plan: Universes) -> dict[str, Any]:
        """Return the groups with their encodings and costs."""
        return plan.describe()

    def execute(self, run: Run) -> Release:
        """Randomise the records, count the answers over the workload's cliques, and fit a model.

        The order of the table does not matter, since only counts are released and stored in a ledger.
        """
        domain = run.request.domain
        asked = [entry.clique for entry in run.request.workload.entries if domain.size(entry.clique) > 1]
        cliques = maximal(list({frozenset(clique): clique for clique in asked}.values()))
        responses = self._respond(run.table, run.plan, cliques, run.show_progress)
        return run.release([marginal.measurement() for marginal in marginals_of(responses, cliques)])

    def perturb(
        self,
        data: Dataset,
        attributes: Sequence[str] | None = None,
        *,
        row_order: str = "table",
        row_order_is_public: bool = False,
        out: str | os.PathLike[str] | None = None,
        ledger: Ledger | None = None,
        key: str | None = None,
        show_progress: bool | None = None,
        folder: RunFolder | None = None,
    ) -> PerturbedTable:
        """Release every record's answer, in the order of the table or sorted.

        Tables in files are read and written in blocks, so they may be larger than memory; only sorted answers
        have to fit in memory. After an interruption the same call continues, where it stopped or, if sorted,
        from the start unless all records had answered, at no further cost.

        Args:
            data: the private table, without weights.
            attributes: the attributes to randomise. Default: all attributes of the domain, or of the lists
                in `universe`.
            row_order: "table", or "sorted": whole rows, each with the answers of one record, are sorted by
                their answers, whatever the order of the table.
            row_order_is_public: must be True for "table", to confirm that the order of the rows does not
                depend on private values (in a table sorted by one of them, a record's position reveals its
                value).
            out: a folder to create for the answers. Default: they are kept in memory.
            ledger: see `Marginals.run`.
            key: see `Marginals.run`.
            show_progress: None shows a progress bar in terminals only, False never.
            folder: as for `run`.

        Raises:
            TypeError: `data` is not a table.
            ValueError: the order is not confirmed to be public, an attribute is unknown, records have
                weights, a universe is too large, the folder exists, or the table is invalid; nothing was
                spent.
            BudgetExceeded: the table's budget in the ledger does not suffice; nothing was spent.
            LedgerError: the ledger cannot be used; nothing was spent.
            TableReadError: the table could not be read; the cost remains spent.
        """
        self._check_table(data)
        ordered = checks.choice("row_order", row_order, ROW_ORDERS) == "table"
        if ordered and row_order_is_public is not True:
            raise ValueError(
                "A perturbed table is released in the order of its rows, which must not depend on private "
                'values: say row_order_is_public=True if that is so; if not, take row_order="sorted", or '
                "use run, which releases counts only."
            )
        if attributes is None:
            listed = [*itertools.chain.from_iterable(self.universe)]
            attributes = data.domain.attributes if isinstance(self.universe, str) else listed
        names = as_clique(data.domain, attributes)
        data = Keeping(ledger).unit_of(data)
        records = 1 if data.unit is None else data.unit.max_records
        plan = self._universes(data.domain, names, self.encoding or "direct", records)
        if out is not None:
            check_target(out)
        settings = {"mechanism": f"{self.name}-rows", **plan.describe(), "row_order": row_order}
        with contextlib.ExitStack() as stack:
            keeping = stack.enter_context(self._keeping(ledger, key, folder))
            table = self._open_table(data, Workload([list(names)]), settings, keeping)
            # before anything is charged, as the answers would have no place
            place = None if out is None else stack.enter_context(reserve_folder(out))
            if not ordered:
                sizes = [data.domain.size(group) for group in plan.groups]
                check_sortable(sizes, plan.encodings, table.public_count(), in_ledger=ledger is not None)
            responses = self._respond(table, plan, list(plan.groups), show_progress, ordered)
            columns = (columns_of if ordered else sorted_columns_of)(responses, place)
            made = PerturbedTable(
                table.domain,
                columns,
                responses.rows,
                table.secure,
                table.seed,
                table.receipt(),
                row_order,
                table.unit,
                table.population,
                table.run_mark,
            )
            if place is not None:
                made.write_record(place)
        return made if out is None else load(out)

    def predicted_errors(
        self, domain: Domain, cliques: Sequence[Any], rows: int, max_records: int = 1
    ) -> dict[Clique, float]:
        """Return the errors that `run` predicts: bounds on the standard deviation of an estimated fraction.

        Args:
            domain: the domain of the table.
            cliques: lists of attributes, as in a workload.
            rows: the number of records, public.
            max_records: the largest number of records of a unit of privacy.

        Returns:
            For each clique the bound of `local.channel.predicted_error`. Above 1 the release is refused by
            default.

        Example:
            >>> mechanism = RandomizedResponse(1, Relation.REPLACE_ONE, universe="joint", encoding="direct")
            >>> errors = mechanism.predicted_errors(Domain({"a": 2, "b": 4}), [["a", "b"]], 48842)
            >>> round(errors["a", "b"], 4)
            0.0128
        """
        wanted = [as_clique(domain, clique) for clique in cliques]
        attributes = [name for clique in wanted for name in clique]
        records = checks.integer("max_records", max_records, low=1)
        plan = self._universes(domain, attributes, self.encoding, records)
        return plan.predicted_errors(domain, wanted, checks.integer("rows", rows, low=1))

    def _universes(
        self, domain: Domain, attributes: Sequence[str], encoding: str | None, records: int
    ) -> Universes:
        return universes(domain, attributes, self.universe, encoding, self.share, self.epsilon, records)

    def _respond(
        self,
        table: PrivateTable,
        plan: Universes,
        cliques: Sequence[Clique],
        show_progress: bool | None,
        row_order_is_public: bool = False,
    ) -> Responses:
        rows = table.public_count()
        predicted = plan.predicted_errors(table.domain, cliques, rows)
        check_useful(predicted, rows, self.epsilon, self.useless)
        return table.respond(
            plan.groups,
            epsilons=plan.epsilons,
            encodings=plan.encodings,
            row_order_is_public=row_order_is_public,
            show_progress=show_progress,
        )


@dataclasses.dataclass(frozen=True)
class Universes:
    """Groups of attributes, each randomised as one category.

    Attributes:
        groups: disjoint groups of attributes.
        encodings: one encoding per group.
        epsilons: one exact cost per group; their sum is the whole budget.
        records: the largest number of records of a unit of privacy, which share the costs.
    """

    groups: tuple[Clique, ...]
    encodings: tuple[str, ...]
    epsilons: tuple[Fraction, ...]
    records: int = 1

    def describe(self) -> dict[str, Any]:
        """Return the groups, encodings and costs for a ledger."""
        return {
            "groups": [list(group) for group in self.groups],
            "encodings": list(self.encodings),
            "shares": [as_text(epsilon) for epsilon in self.epsilons],
        }

    def predicted_errors(self, domain: Domain, cliques: Sequence[Clique], rows: int) -> dict[Clique, float]:
        """Return for each clique a bound on the standard deviation of an estimated fraction."""
        distributions = [
            response_for(domain.size(group), epsilon / self.records)
            if encoding == "direct"
            else unary_for(domain.size(group), epsilon / self.records, encoding == "symmetric-unary")
            for group, encoding, epsilon in zip(self.groups, self.encodings, self.epsilons, strict=True)
        ]
        return {
            clique: predicted_error(factors_of(domain, self.groups, distributions, clique), rows)
            for clique in cliques
        }


def universes(
    domain: Domain,
    attributes: Sequence[str],
    universe: str | Sequence[Clique],
    encoding: str | None,
    share: Mapping[str, Any] | None,
    epsilon: Fraction,
    records: int = 1,
) -> Universes:
    """Return the groups in which attributes are randomised, with encodings and costs.

    Args:
        domain: the domain.
        attributes: the attributes to randomise.
        universe: "joint", "attributes", or disjoint lists of attributes; of these, those with one that is
            asked about are randomised, each list as a whole.
        encoding: one of `ENCODINGS`. Default: the one with the least variance.
        share: weights of the attributes' parts of the budget, 1 for those not named. Default: 1 for all.
        epsilon: the whole budget.
        records: the largest number of records of a unit of privacy.

    Raises:
        ValueError: weights are given for unknown attributes, a joint universe or lists, all attributes have
            one category, an attribute is in no list, or a universe is too large.
    """
    named = tuple(name for name in domain if name in attributes)
    weights = _weights(share, named, universe)
    several = [name for name in named if domain[name] > 1]
    if not several:
        raise ValueError("Every attribute asked about has one category: there is nothing to answer for.")
    if isinstance(universe, str):
        groups: list[Clique] = [named] if universe == "joint" else [(name,) for name in several]
        # an attribute of one category has nothing to hide: it goes with another one, as it would alone
        groups[0] = tuple(name for name in named if name in groups[0] or domain[name] == 1)
    else:
        groups = _listed(domain, named, universe)
    parts = split(
        epsilon, [weights[name] for name in several] if universe == "attributes" else [1] * len(groups)
    )
    encodings = [
        encoding or least_variance(domain.size(group), part / records)
        for group, part in zip(groups, parts, strict=True)
    ]
    for group, chosen in zip(groups, encodings, strict=True):
        check_size(group, domain.size(group), chosen)
    return Universes(tuple(groups), tuple(encodings), parts, records)


def least_variance(size: int, epsilon: Fraction) -> str:
    """Return the encoding with the least variance of estimated counts of rare categories.

    Per record the variance is (size - 2 + e^epsilon) / (e^epsilon - 1)^2 for the direct encoding and
    4 e^epsilon / (e^epsilon - 1)^2 for the optimal unary one. Above 2^16 categories only direct is supported.

    References:
        Wang, Blocki, Li and Jha 2017, section 4 (direct below 3 e^epsilon + 2 categories).

    Example:
        >>> [least_variance(size, Fraction(1)) for size in (10, 11)]
        ['direct', 'optimal-unary']
    """
    # exp of more overflows, and no attribute has that many categories
    few = size - 2 < 3 * math.exp(min(epsilon, Fraction(700)))
    return "direct" if few or size > LARGEST_UNARY_SIZE else "optimal-unary"


def check_useful(predicted: Mapping[Clique, float], rows: int, epsilon: Fraction, useless: str) -> None:
    """Check that the predicted error of a fraction is at most 1, unless `useless` is "answer".

    Raises:
        ValueError: it is larger. The message gives the predicted error and the remedy.
    """
    clique, worst = max(predicted.items(), key=lambda item: item[1])
    if worst > 1 and useless == "refuse":
        raise ValueError(
            f"Noise would drown the answers of {rows:,} records at epsilon {shortened(epsilon)}: the "
            f"predicted standard deviation of an estimated fraction on {clique} is up to {worst:.3g}, where "
            "fractions lie in 0..1, as the universe of answers is too large. Ask about fewer or coarser "
            "attributes, in smaller groups, spend more, or say "
            'useless="answer" to have it all the same; nothing was spent.'
        )


def read_universe(universe: Any) -> str | tuple[Clique, ...]:
    """Return how attributes are grouped: "attributes", "joint" or disjoint lists of names.

    Raises:
        TypeError: something else than a word or lists of names.
        ValueError: another word, no list, an empty one, or an attribute in two.
    """
    if isinstance(universe, str):
        return checks.choice("universe", universe, ("attributes", "joint"))
    several = checks.several("universe", universe, "lists of names")
    then = "write [['age', 'sex']] for two together, and [['age'], ['sex']] for each by itself"
    groups = tuple(tuple(checks.several("each list of universe", group, "names", then)) for group in several)
    names = [name for group in groups for name in group]
    if not groups or not all(groups):
        raise ValueError("universe must hold lists of at least one attribute each.")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"universe lists {twice!r} twice: a record answers about each attribute once.")
    return groups


def _listed(domain: Domain, named: Clique, universe: Sequence[Clique]) -> list[Clique]:
    groups = [as_clique(domain, group) for group in universe]
    for name in named:
        if not any(name in group for group in groups):
            raise ValueError(f"{name!r} is asked about and in none of the lists of universe: add it to one.")
    return [group for group in groups if any(name in named for name in group)]


def _weights(share: Mapping[str, Any] | None, named: Clique, universe: Any) -> dict[str, Any]:
    if share is not None and universe != "attributes":
        raise ValueError(
            f'share divides the budget among attributes: leave it out for universe="{universe}".'
            if isinstance(universe, str)
            else "share divides the budget among attributes: leave it out where universe lists groups."
        )
    for name in share or ():
        if name not in named:
            raise ValueError(f"share names {name!r}, which is not asked about.")
    return {name: (share or {}).get(name, Fraction(1)) for name in named}


def read_share(share: Any) -> dict[str, Fraction]:
    """Return weights as exact numbers.

    Raises:
        TypeError: `share` is not a mapping from names to numbers.
        ValueError: a weight is not > 0.
    """
    checks.kind(share, Mapping, "share must map attributes to weights")
    return {str(name): exact_positive(f"the share of {name!r}", value) for name, value in share.items()}
