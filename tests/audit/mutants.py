"""Bugs that privacy libraries really had, put into this one on purpose: each must be caught.

A test that has never failed proves little. A mutant changes one thing in the library within its `with`
block; `caught` runs the layer of the audit that should notice and returns its message.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax import mechanisms, random
from pgmjax.audit import contracts, discovery, frontends, primitives
from pgmjax.audit.mechanism import UNIT, AuditCase, replay_mechanism
from pgmjax.audit.replay import check_pairs
from pgmjax.audit.specimen import ScoreAndMeasure, SelectAndMeasure
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.privacy.budget import Budget
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.privacy.tape import NonInterferenceError
from pgmjax.queries import DenseMatrix, marginal
from pgmjax.queries.workload import Workload
from tests.audit import matrix, mutations

_MATRIX = 60
_PAIRS = 16
_MANY_PAIRS = 100
_HEAVY = 2**31 - 1
_WIDE = 110
_ODD = 2**24 + 1  # the least whole number that is no 32-bit float


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A seeded bug.

    Attributes:
        name: description of the bug.
        layer: the layer of the audit that must notice it: "L0", "L1", "L2" or "contract".
        apply: returns the context manager in which the bug is present.
        scope: where it can be seen: in "any" mechanism, in those that "select", in those that measure
            "queries" other than marginals, only in the "specimen", or in "none" since it is in a primitive.
        detect: runs the layer, given a mechanism; raises an AssertionError on a fault.
        relation: the one relation under which it can be seen; None for either.
        weights: whether it can be seen only with weights.
    """

    name: str
    layer: str
    apply: Callable[[], AbstractContextManager[Any]]
    scope: str
    detect: Callable[[Any], None]
    relation: Relation | None = None
    weights: bool = False

    def concerns(self, mechanism: Any) -> bool:
        """Return whether a mechanism supports tables on which the bug can be seen."""
        possible = self.relation in (None, *mechanisms.relations(mechanism))
        return possible and (mechanisms.takes_weights(mechanism) or not self.weights)


def replayed(mechanism: Any) -> None:
    """L1 of a mechanism under its relations, both kinds of budget, without and with weights."""
    weights = (None, 3) if mechanisms.takes_weights(mechanism) else (None,)
    for relation in mechanisms.relations(mechanism):
        for delta in (0, "1e-6"):
            for max_weight in weights:
                pairs = _PAIRS if max_weight is None else _PAIRS // 2
                replay_mechanism(mechanism, relation, delta=delta, pairs=pairs, max_weight=max_weight)


def replayed_on_many_tables(mechanism: Any) -> None:
    """L1 with enough pairs that some straddle a threshold."""
    for relation in mechanisms.relations(mechanism):
        replay_mechanism(mechanism, relation, pairs=_MANY_PAIRS)


def replayed_with_units(mechanism: Any) -> None:
    """L1 of tables that differ in all records of one unit."""
    for relation in mechanisms.relations(mechanism):
        replay_mechanism(mechanism, relation, pairs=_PAIRS, unit=UNIT)


def replayed_with_scores(_: Any) -> None:
    """L1 of a mechanism that publishes scores of all its candidates."""
    replayed(ScoreAndMeasure)


def replayed_with_scores_of_units(_: Any) -> None:
    """L1 of the same, of tables that differ in all records of one unit."""
    replayed_with_units(ScoreAndMeasure)


def replayed_with_heavy_records(mechanism: Any) -> None:
    """L1 with weights up to 2^31 - 1, whose sums need 64 bits."""
    replay_mechanism(mechanism, _relation(mechanism), pairs=_PAIRS, max_weight=_HEAVY)


def replayed_at_large_epsilon(mechanism: Any) -> None:
    """L1 with Gaussian noise of a scale below 1."""
    replay_mechanism(mechanism, _relation(mechanism), epsilon=8, delta="1e-6", pairs=_PAIRS)


def _relation(mechanism: Any) -> Relation:
    return mechanisms.relations(mechanism)[0]


def noise(_: Any) -> None:
    """L2 of Laplace and Gaussian noise through the choke point."""
    for unit in ("epsilon", "rho"):
        primitives.noise_follows_its_distribution(unit=unit)


def choices(_: Any) -> None:
    """L2 of both selection methods through the choke point."""
    for method in ("permute-and-flip", "exponential"):
        primitives.selection_follows_its_distribution(method=method)


def replayed_with_full_weights(_: Any) -> None:
    """L1 of a marginal with every weight 2^24 + 1, the least integer that is not a 32-bit float."""
    domain, relation = Domain({"a": 2}), Relation.ADD_REMOVE

    def run(data: Dataset) -> Any:
        table = PrivateTable(data, relation, Budget(1), SeededBackend(0, insecure=True))
        return table.measure([marginal(["a"])], epsilons=[1], show_progress=False)[0].values

    def records(number: int) -> Dataset:
        columns = {"a": np.zeros(number, dtype=np.int64)}
        return Dataset.from_columns(domain, columns, weights=np.full(number, _ODD), max_weight=_ODD)

    check_pairs(run, [(records(number + 1), records(number)) for number in range(1, 5)], epsilon=1)


def replayed_with_large_entries(mechanism: Any) -> None:
    """L1 of a matrix with allowed entries whose columns have squared distances of 2^62 and more."""
    signs = random.generator(0).choice([-1, 1], (100, _WIDE))
    workload = Workload([DenseMatrix(["a"], signs.astype(np.int64) * 2**29)])
    domain = Domain({"a": _WIDE})
    replay_mechanism(mechanism, Relation.REPLACE_ONE, delta="1e-6", pairs=2, domain=domain, workload=workload)


def _primitive(name: str, layer: str, apply: Callable[[], Any], check: Callable[[], None]) -> Mutant:
    """Return a mutant of a primitive; its check needs no mechanism."""
    return Mutant(name, layer, apply, "none", _Alone(check))


@dataclasses.dataclass(frozen=True)
class _Alone:
    check: Callable[[], None]

    def __call__(self, _: Any) -> None:
        self.check()


@dataclasses.dataclass(frozen=True)
class _Visited:
    """L1 of a part of the matrix, for the plain mechanism and the calls of a table.

    Attributes:
        kind: "large", "weights" or "refusal".
    """

    kind: str

    def __call__(self, _: Any) -> None:
        for mechanism in (mechanisms.Marginals, frontends.TableCalls):
            for case in self.cases(mechanism):
                matrix.visit(case)

    def cases(self, mechanism: Any) -> list[matrix.MatrixCase]:
        """Return what is visited."""
        if self.kind != "weights":
            first = itertools.islice(matrix.cases(mechanism), _MATRIX)
            return [case for case in first if case.kind.startswith(self.kind)]
        wide = matrix.DOMAINS[-1]
        return [
            matrix.MatrixCase(
                "weights",
                AuditCase(mechanism, relation, epsilon=Fraction(3)),
                wide,
                matrix.workload_of(kind, wide),
                max_weight=3,
                pair=3,  # the record that differs has the largest weight
            )
            for relation in Relation
            for kind in ("marginals", "sums")
        ]


_MECHANISMS = (
    Mutant("every part of a split budget is the whole", "L1", mutations.double_spend, "any", replayed),
    Mutant(
        "the true total under add/remove",
        "L1",
        mutations.true_total,
        "any",
        replayed,
        relation=Relation.ADD_REMOVE,
    ),
    Mutant("the domain taken from the table", "L1", mutations.domain_from_data, "specimen", replayed),
    Mutant("early stop on the true error", "L1", mutations.early_stop, "specimen", replayed_on_many_tables),
    Mutant("the true error among the results", "L1", mutations.true_error, "specimen", replayed),
    Mutant("the range of the codes among the results", "L1", mutations.true_range, "specimen", replayed),
    Mutant(
        "Laplace sensitivity of the other relation",
        "L1",
        mutations.wrong_relation,
        "any",
        replayed,
        relation=Relation.REPLACE_ONE,
    ),
    Mutant(
        "selection sensitivity of the other relation",
        "L1",
        mutations.wrong_score,
        "select",
        replayed,
        relation=Relation.REPLACE_ONE,
    ),
    Mutant("the bound on weights forgotten", "L1", mutations.forgotten_weight, "any", replayed, weights=True),
    Mutant("the L2 norm where Laplace noise needs L1", "L1", mutations.wrong_norm, "queries", replayed),
    Mutant("the L2 sensitivity where its square belongs", "L1", mutations.unsquared, "any", replayed),
    Mutant("a sensitivity of zero", "L1", mutations.zero_sensitivity, "any", replayed),
    Mutant("noise smaller by the number of records", "L1", mutations.noise_over_n, "any", replayed),
    Mutant(
        "rho taken for the standard deviation", "L1", mutations.rho_as_scale, "any", replayed_at_large_epsilon
    ),
    Mutant("selection without the half", "L1", mutations.no_half, "select", replayed),
    Mutant("floating-point noise", "L1", mutations.float_noise, "any", replayed),
    Mutant(
        "counts wrap around at 32 bits",
        "L1",
        mutations.narrow_counts,
        "any",
        replayed_with_heavy_records,
        weights=True,
    ),
    Mutant(
        "a sensitivity wraps around at 64 bits",
        "L1",
        mutations.wrapped_squares,
        "queries",
        replayed_with_large_entries,
        relation=Relation.REPLACE_ONE,
    ),
    Mutant("all records of a unit count", "L1", mutations.unbounded_units, "any", replayed_with_units),
    Mutant("units bounded cell by cell", "L1", mutations.bounded_cells, "specimen", replayed_with_units),
    Mutant(
        "sensitivities of one record for units", "L1", mutations.unscaled_unit, "any", replayed_with_units
    ),
    Mutant(
        "the choice in one unit depends on others",
        "L1",
        mutations.joint_choice,
        "any",
        replayed_with_units,
        relation=Relation.ADD_REMOVE,
    ),
    Mutant(
        "counts through 32-bit floats", "L1", mutations.single_precision, "none", replayed_with_full_weights
    ),
)

_RESPONSE = primitives.response_keeps_its_epsilon
_SAMPLERS = (
    Mutant("no noise on empty cells", "L2", mutations.quiet_zeros, "none", noise),
    Mutant("drawn again until not negative", "L2", mutations.only_positive, "none", noise),
    Mutant("the sampler's scale halved", "L2", mutations.half_scale, "none", noise),
    Mutant("the sampler's scale a tenth too wide", "L2", mutations.wide_noise, "none", noise),
    Mutant("no noise at all", "L2", mutations.no_noise, "none", noise),
    Mutant("a fixed seed inside the primitive", "L2", mutations.fixed_seed, "none", noise),
    Mutant("every call draws the same stream", "L2", mutations.same_stream, "none", noise),
    Mutant("noise drawn once and tiled", "L2", mutations.tiled_noise, "none", noise),
    Mutant("the sampler of selections twice too sharp", "L2", mutations.sharp_choice, "none", choices),
    Mutant("a fixed seed inside the selection", "L2", mutations.fixed_choice, "none", choices),
    _primitive("a lie may be the truth", "L2", mutations.truthful_lies, _RESPONSE),
    _primitive("every call tells the same lies", "L2", mutations.fixed_lies, _RESPONSE),
    _primitive("truth told too often", "L0", mutations.too_true, _RESPONSE),
    _primitive("scales rounded down", "L0", mutations.nearest_scale, contracts.scales_cover_their_budget),
    _primitive(
        "a conversion without delta's term", "L0", mutations.short_formula, primitives.conversions_hold
    ),
)

_SCORES = (
    Mutant(
        "noise of one score for all of them",
        "L1",
        mutations.scores_of_one_candidate,
        "none",
        replayed_with_scores,
    ),
    Mutant(
        "noise of scores for one record of a unit",
        "L1",
        mutations.scores_of_one_record,
        "none",
        replayed_with_scores_of_units,
    ),
    _primitive(
        "scores without noise", "L2", mutations.exact_scores, primitives.scores_follow_their_distribution
    ),
)

_KEPT, _ONCE = primitives.responses_keep_their_epsilon, primitives.records_answer_once
_RESPONSES = (
    _primitive("the whole epsilon for each of two bits", "L0", mutations.whole_epsilon_a_bit, _KEPT),
    _primitive("one coin for all bits of a record", "L2", mutations.shared_coin, _KEPT),
    _primitive("every call turns the same bits over", "L2", mutations.fixed_bits, _KEPT),
    _primitive("records that tell the truth", "L2", mutations.honest_records, _KEPT),
    _primitive("records that answer again", "contract", mutations.answers_again, _ONCE),
    _primitive("responses where records come and go", "contract", mutations.any_relation, _ONCE),
)

_PROMISES = tuple(
    _primitive(name, "contract", apply, check)
    for name, apply, check in (
        ("budgets in floating point", mutations.float_budget, primitives.budgets_add_up),
        ("a float budget read in binary", mutations.binary_tenths, contracts.decimals_are_exact),
        ("a query that fails is free", mutations.free_failure, primitives.a_failed_query_is_paid),
        ("an error that quotes the table", mutations.telling_error, primitives.a_failed_query_is_paid),
        ("an epsilon that is not a number", mutations.any_epsilon, primitives.bad_numbers_are_refused),
        ("a delta that is not a number", mutations.any_delta, contracts.bad_inputs_are_refused),
        ("a category outside made a random one", mutations.any_category, primitives.bad_numbers_are_refused),
        ("a score that is not a number", mutations.any_scores, primitives.bad_numbers_are_refused),
        (
            "a code outside moved into the domain",
            mutations.any_code,
            contracts.bad_inputs_are_refused,
        ),
        ("a budget under both relations", mutations.mixed_relations, contracts.relations_do_not_mix),
        ("two units under one account", mutations.mixed_units, contracts.units_do_not_mix),
        ("counts read before noise is drawn", mutations.late_noise, contracts.noise_comes_before_counts),
        ("repeatable noise called secure", mutations.always_secure, contracts.insecure_noise_says_so),
    )
)

_LARGE, _WEIGHTED, _REFUSED = _Visited("large"), _Visited("weights"), _Visited("refusal")
_WORLDS = (
    *(
        Mutant(name, "L1", apply, "none", _LARGE)
        for name, apply in (
            ("no noise beyond row 262,144 of a call", mutations.quiet_tail),
            ("noise used again after a chunk", mutations.reused_chunks),
            ("the boundary of a chunk off by one", mutations.chunk_seams),
        )
    ),
    *(
        Mutant(name, "L1", apply, "none", _WEIGHTED)
        for name, apply in (
            (
                "no noise on empty cells of weighted tables above 64 rows",
                mutations.quiet_empty_cells_of_weighted_tables,
            ),
            ("the bound on weights forgotten in sums", mutations.forgotten_weight_of_sums),
        )
    ),
    *(
        Mutant(name, "L1", apply, "none", _REFUSED)
        for name, apply in (
            ("a row count in the refusal of a budget", mutations.counted_budget_refusal),
            ("a row count in the refusal of a workload", mutations.counted_workload_refusal),
            ("attempts that depend on the table", mutations.telling_attempts),
            ("a failure that carries its cause along", mutations.telling_context),
        )
    ),
    _primitive(
        "no noise beyond row 262,144 of the sampler",
        "contract",
        mutations.quiet_tail_of_the_sampler,
        contracts.large_draws_are_fresh,
    ),
    _primitive(
        "a weight above its bound accepted",
        "contract",
        mutations.any_weight,
        contracts.heavy_records_are_refused,
    ),
)

_TREES, _KEYS = discovery.trees_keep_their_epsilon, discovery.keys_keep_their_delta
_SEARCHES = discovery.discovery_keeps_to_the_choke_point
_DISCOVERY = (
    _primitive("a tree with the scale of one level", "L0", mutations.one_level_of_a_tree, _TREES),
    _primitive("a tree whose counts do not fall", "L0", mutations.level_counts, _TREES),
    _primitive("a tree of exact counts", "L0", mutations.exact_tree, _TREES),
    _primitive("a tree that costs nothing", "contract", mutations.free_partitions, _TREES),
    _primitive("a threshold of keys one too low", "L0", mutations.low_threshold, _KEYS),
    _primitive("a threshold of keys without delta", "L0", mutations.threshold_without_delta, _KEYS),
    _primitive("a threshold of keys for one record of a unit", "L0", mutations.threshold_of_one, _KEYS),
    _primitive("keys below the threshold", "L0", mutations.rare_keys, _KEYS),
    _primitive("keys counted exactly", "L2", mutations.exact_keys, _KEYS),
    _primitive("discovery that costs nothing", "L1", mutations.free_discovery, _SEARCHES),
    _primitive("bounds read off a column", "L1", mutations.true_bounds, _SEARCHES),
    _primitive("a domain with labels below the threshold", "L1", mutations.kept_labels, _SEARCHES),
)

ALL: tuple[Mutant, ...] = (*_MECHANISMS, *_SAMPLERS, *_SCORES, *_RESPONSES, *_PROMISES, *_WORLDS, *_DISCOVERY)
"""Every mutant, those of whole mechanisms first."""


def caught(mutant: Mutant, mechanism: Any = SelectAndMeasure) -> str | None:
    """Apply a mutant and return the fault that its layer of the audit reports; None if it reports none.

    Args:
        mutant: one of `ALL`, or your own.
        mechanism: the class to audit.

    Example:
        >>> free = next(each for each in ALL if each.name == "a query that fails is free")
        >>> caught(free)
        'A query that failed was not paid for.'
    """
    try:
        with mutant.apply():
            mutant.detect(mechanism)
    except (primitives.AuditFailure, NonInterferenceError) as fault:
        return str(fault)
    return None
