"""Bugs that private libraries really had, put into this one on purpose: each must be caught.

A test that has never failed proves little. A mutant changes one thing in the library while its `with`
block lasts; `caught` runs the layer of the audit that ought to notice and returns what it said.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from pgmjax.audit import mutations, primitives
from pgmjax.audit.mechanism import replay_mechanism
from pgmjax.audit.specimen import SelectAndMeasure
from pgmjax.privacy.tape import NonInterferenceError
from pgmjax.relation import Relation

_PAIRS = 16
_HEAVY = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A seeded bug.

    Attributes:
        name: what is wrong, in words.
        layer: which layer of the audit must notice: "L0", "L1", "L2" or "contract".
        apply: makes the `with` block in which the bug is there.
        scope: where it can be seen: in "any" mechanism, in those that "select", in those that measure other
            "queries" than marginals, in the "specimen" alone, or in "none" since it lies in a primitive.
        detect: runs the layer, given a mechanism; raises an AssertionError on a fault.
    """

    name: str
    layer: str
    apply: Callable[[], AbstractContextManager[Any]]
    scope: str
    detect: Callable[[Any], None]


def replayed(mechanism: Any) -> None:
    """L1 of a mechanism under both relations, both kinds of budget, without and with weights."""
    for relation in Relation:
        for delta in (0, "1e-6"):
            for max_weight in (None, 3):
                pairs = _PAIRS if max_weight is None else _PAIRS // 2
                replay_mechanism(mechanism, relation, delta=delta, pairs=pairs, max_weight=max_weight)


def replayed_with_heavy_records(mechanism: Any) -> None:
    """L1 with weights up to 2^31 - 1, the sums of which need 64 bits."""
    replay_mechanism(mechanism, Relation.ADD_REMOVE, pairs=_PAIRS, max_weight=_HEAVY)


def replayed_at_large_epsilon(mechanism: Any) -> None:
    """L1 with Gaussian noise of a scale below 1."""
    replay_mechanism(mechanism, Relation.ADD_REMOVE, epsilon=8, delta="1e-6", pairs=_PAIRS)


def noise(_: Any) -> None:
    """L2 of Laplace and Gaussian noise through the choke point."""
    for unit in ("epsilon", "rho"):
        primitives.noise_follows_its_law(unit=unit)


def choices(_: Any) -> None:
    """L2 of both ways of selection through the choke point."""
    for method in ("permute-and-flip", "exponential"):
        primitives.selection_follows_its_law(method=method)


def _check(function: Callable[..., None]) -> Callable[[Any], None]:
    return lambda _: function()


ALL: tuple[Mutant, ...] = (
    Mutant("every part of a split budget is the whole", "L1", mutations.double_spend, "any", replayed),
    Mutant("the true total under add/remove", "L1", mutations.true_total, "any", replayed),
    Mutant("the domain taken from the table", "L1", mutations.domain_from_data, "specimen", replayed),
    Mutant("early stop on the true error", "L1", mutations.early_stop, "specimen", replayed),
    Mutant("the true error among the results", "L1", mutations.true_error, "specimen", replayed),
    Mutant("Laplace sensitivity of the other relation", "L1", mutations.wrong_relation, "any", replayed),
    Mutant("selection sensitivity of the other relation", "L1", mutations.wrong_score, "select", replayed),
    Mutant("the bound on weights forgotten", "L1", mutations.forgotten_weight, "any", replayed),
    Mutant("the L2 norm where Laplace noise needs L1", "L1", mutations.wrong_norm, "queries", replayed),
    Mutant("noise smaller by the number of records", "L1", mutations.noise_over_n, "any", replayed),
    Mutant(
        "rho taken for the standard deviation",
        "L1",
        mutations.rho_as_scale,
        "any",
        replayed_at_large_epsilon,
    ),
    Mutant("selection without the half", "L1", mutations.no_half, "select", replayed),
    Mutant("floating-point noise", "L1", mutations.float_noise, "any", replayed),
    Mutant(
        "counts wrap around at 32 bits", "L1", mutations.narrow_counts, "any", replayed_with_heavy_records
    ),
    Mutant("no noise on empty cells", "L2", mutations.quiet_zeros, "none", noise),
    Mutant("drawn again until not negative", "L2", mutations.only_positive, "none", noise),
    Mutant("the sampler's scale halved", "L2", mutations.half_scale, "none", noise),
    Mutant("no noise at all", "L2", mutations.no_noise, "none", noise),
    Mutant("a fixed seed inside the primitive", "L2", mutations.fixed_seed, "none", noise),
    Mutant("noise drawn once and tiled", "L2", mutations.tiled_noise, "none", noise),
    Mutant("the sampler of selections twice too sharp", "L2", mutations.sharp_choice, "none", choices),
    Mutant(
        "a lie may be the truth",
        "L2",
        mutations.truthful_lies,
        "none",
        _check(primitives.response_keeps_its_epsilon),
    ),
    Mutant(
        "truth told too often",
        "L0",
        mutations.too_true,
        "none",
        _check(primitives.response_keeps_its_epsilon),
    ),
    Mutant(
        "the conversion without delta's term",
        "L0",
        mutations.short_formula,
        "none",
        _check(primitives.conversions_hold),
    ),
    Mutant(
        "budgets in floating point",
        "contract",
        mutations.float_budget,
        "none",
        _check(primitives.budgets_add_up),
    ),
    Mutant(
        "a query that fails is free",
        "contract",
        mutations.free_failure,
        "none",
        _check(primitives.a_failed_query_is_paid),
    ),
    Mutant(
        "an error that quotes the table",
        "contract",
        mutations.telling_error,
        "none",
        _check(primitives.a_failed_query_is_paid),
    ),
    Mutant(
        "an epsilon that is not a number",
        "contract",
        mutations.any_epsilon,
        "none",
        _check(primitives.bad_numbers_are_refused),
    ),
    Mutant(
        "a category outside made a random one",
        "contract",
        mutations.any_category,
        "none",
        _check(primitives.bad_numbers_are_refused),
    ),
)
"""Every mutant, those of whole mechanisms first."""


def caught(mutant: Mutant, mechanism: Any = SelectAndMeasure) -> str | None:
    """Apply a mutant and return what its layer of the audit says against it; None if nothing.

    Args:
        mutant: one of `ALL`, or your own.
        mechanism: the class that the mutant is looked for in.

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
