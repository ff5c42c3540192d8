"""Many settings instead of one: options, workloads, tables, weights and refusals, drawn from a seed.

Each mechanism is run with rows of a covering array over its options (any two values of two of them stand
together in some row), in small worlds of several shapes and once in one of more than 2^18 cells. Every case
is replayed on neighbours, and run once more with draws that can be told apart (`draws`). Between
them stand runs that must be refused: in a refusal nothing may depend on the table either.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import itertools
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from pgmjax import random
from pgmjax._internal import checks
from pgmjax._internal.progress import Progress
from pgmjax.audit.claims import check_claims
from pgmjax.audit.draws import check_draws
from pgmjax.audit.mechanism import DOMAIN, UNIT, WORKLOAD, AuditCase
from pgmjax.audit.replay import check_outcome
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Unit
from pgmjax.privacy.exact import exact
from pgmjax.queries import (
    DenseMatrix,
    Product,
    WeightedSum,
    all_ranges,
    identity,
    marginal,
    prefix,
    ranges,
    total,
)
from pgmjax.queries.workload import Workload
from tests.audit.refusals import refusals

LARGE = (Domain({"a": 2**18 + 99, "b": 2}), Domain(dict.fromkeys("abcd", 23)))
"""Domains with a marginal of more than 2^18 cells: of one attribute, and of four with few values each."""

DOMAINS = (DOMAIN, Domain({"a": 2, "b": 2, "c": 2}), Domain({"a": 40, "b": 3, "c": 2}))
"""Small domains: as in the other audits, of binary attributes, and with a pair of more than 64 cells."""

KINDS = ("marginals", "ranges", "sums", "dense", "indicators")
"""The kinds of random workloads."""

LARGE_SETTINGS: dict[str, dict[str, Any] | None] = {
    "aim": {"rounds": 4, "steps": 1},
    "batch-aim": {"rounds": 1, "steps": 1},
    "hdmm": {"strategy": "workload", "split": "equal"},
    "mldp": {"training": "identity", "encoding": "factors"},
    "mst": {"compress": False, "steps": 1},
    "mwem": {"rounds": 1, "steps": 1},
    "privbayes": {"degree": 1},
    "private-ratings": {"records": 730},  # of which there are more than 2^18 pairs
    **dict.fromkeys(("dual-query", "randomized-response", "online-weights", "session"), None),
    **dict.fromkeys(("similarity-mldp", "discovery"), None),
}
"""Settings with which a mechanism measures a marginal of more than 2^18 cells; None if it never does."""
_EPSILONS = (Fraction(1), Fraction(1, 3), Fraction(8))
_DELTAS = (Fraction(0), Fraction(1, 10**6))
_SHARED = ("epsilon", "relation", "delta", "backend", "estimator")
_TRIES = 40
_PAIRS = 8
_AT_LARGE = Fraction(50)  # an epsilon at which so many noisy cells are worth asking for


def workload_of(kind: str, domain: Domain, seed: int = 0) -> Workload:
    """Return a random small workload.

    Args:
        kind: one of `KINDS`: marginals; ranges and prefixes; weighted sums of products; matrices over joint
            cells with entries -2 to 3; such matrices with entries 0 and 1. All but the first have a
            marginal too, from which a private total can be told.
        domain: with at least two attributes.
        seed: of the draw.

    Example:
        >>> len(workload_of("ranges", Domain({"a": 3, "b": 2})).entries)
        3
    """
    kind = checks.choice("kind", kind, KINDS)
    generator = random.generator(seed)
    names = list(generator.permutation(domain.attributes))
    first, second = (str(name) for name in names[:2])
    whole = marginal([first])
    if kind == "marginals":
        return Workload([marginal(names[:2]), *(marginal([name]) for name in names[2:])])
    if kind == "ranges":
        spread = all_ranges() if domain[first] <= 5 else ranges([(0, 3), (2, domain[first] - 1), (1, 1)])
        return Workload([Product({first: spread, second: identity()}), Product({second: prefix()}), whole])
    if kind == "sums":
        upper = Product({first: identity(), second: total()})
        lower = Product({first: prefix(), second: total()})
        coefficients = [int(each) for each in generator.integers(1, 4, 2)]
        return Workload([WeightedSum([(coefficients[0], upper), (-coefficients[1], lower)]), whole])
    cells = domain.size([first, second])
    low, high = (-2, 4) if kind == "dense" else (0, 2)
    entries = generator.integers(low, high, (min(cells, 6), cells))
    return Workload([DenseMatrix([first, second], entries), whole, marginal([second])])


def levels(mechanism: type[Any]) -> dict[str, tuple[Any, ...]]:
    """Return the values with which each option of a mechanism is audited.

    They are the mechanism's `audited_values`; for an option without, both values of a bool, small values
    of an int, another share beside a share, and else the default.

    Example:
        >>> levels(mechanisms.Marginals)
        {'split': ('equal', 'weighted')}
    """
    declared = getattr(mechanism, "audited_values", {})
    if not dataclasses.is_dataclass(mechanism):
        return {name: tuple(values) for name, values in declared.items()}
    found = {}
    for field in dataclasses.fields(mechanism):
        if field.init and field.name not in _SHARED:
            found[field.name] = tuple(declared.get(field.name) or _values(str(field.type), field.default))
    return found


def _values(written: str, default: Any) -> tuple[Any, ...]:
    """Return values for a type as it is written."""
    if default is dataclasses.MISSING:
        default = None
    if written == "bool":
        return (default, not default)
    if written in ("int", "int | None"):
        return tuple(dict.fromkeys((default, 1, 2)))
    with contextlib.suppress(TypeError, ValueError):
        share = exact("share", default)
        if 0 < share < 1:
            return (default, "1/4" if share == Fraction(1, 2) else "1/2")
    return (default,)


def covering(factors: Mapping[str, Sequence[Any]], seed: int = 0) -> Iterator[dict[str, Any]]:
    """Yield rows of values of all factors, until any two values of two factors stand together in one.

    Greedy: each row is the one of a few random ones that covers most of what is missing, and begins with a
    missing pair.

    Example:
        >>> len(list(covering({"a": range(3), "b": range(3), "c": range(3)}))) < 16
        True
    """
    generator = random.generator(seed)
    names, sizes = list(factors), [len(factors[name]) for name in factors]
    missing = {
        ((i, x), (j, y))
        for i, j in itertools.combinations(range(len(names)), 2)
        for x, y in itertools.product(range(sizes[i]), range(sizes[j]))
    }
    while missing:
        wanted = min(missing)
        rows = [[int(generator.integers(size)) for size in sizes] for _ in range(_TRIES)]
        for row in rows:
            for place, value in wanted:
                row[place] = value
        best = max(rows, key=lambda row: len(missing & _pairs(row)))
        missing -= _pairs(best)
        yield {name: factors[name][value] for name, value in zip(names, best, strict=True)}


def _pairs(row: list[int]) -> set[tuple[tuple[int, int], tuple[int, int]]]:
    return set(itertools.combinations(enumerate(row), 2))


@dataclasses.dataclass(frozen=True)
class MatrixCase:
    """One cell of the matrix.

    Attributes:
        kind: "answers", "large", or "refusal: " and what is wrong.
        case: the mechanism with its settings and its claim.
        domain: of the tables.
        workload: what is asked.
        max_weight: records have weights up to this bound; None without.
        unit: the unit of privacy; None for one record.
        pair: the number of the pair of neighbouring tables.
        run: takes a table; None runs the case.
    """

    kind: str
    case: AuditCase
    domain: Domain
    workload: Workload
    max_weight: int | None = None
    pair: int = 0
    run: Callable[[Any], Any] | None = None
    unit: Unit | None = None

    def tables(self) -> tuple[Any, Any]:
        """Return the two neighbouring tables."""
        made = self.case.tables(_PAIRS, self.max_weight, self.domain, self.unit)
        return next(itertools.islice(iter(made), self.pair, None))

    def __str__(self) -> str:
        case = self.case
        weights = "" if self.max_weight is None else f", weights up to {self.max_weight}"
        weights += "" if self.unit is None else f", units of up to {self.unit.max_records} records"
        options = "".join(f", {name}={value!r}" for name, value in case.options.items())
        return (
            f"{case.mechanism.name} ({self.kind}; {case.relation.value}, epsilon {case.epsilon}, delta "
            f"{float(case.delta):g}{weights}{options}; {self.workload.cliques} of {self.domain.shape}, pair "
            f"{self.pair}, seed {case.seed})"
        )


def cases(mechanism: type[Any], seed: int = 0) -> Iterator[MatrixCase]:
    """Yield the cases of a mechanism, for ever: large ones, then rows of settings and refusals in turn.

    Args:
        mechanism: a class, see `AuditCase`.
        seed: of all that is drawn; each round through the settings has other workloads, tables and noise.
    """
    for round_ in itertools.count(seed * 1000):
        yield from _large(mechanism, round_)
        answers, refused = _answers(mechanism, round_), _refused(mechanism, round_)
        for pair in itertools.zip_longest(answers, refused):
            yield from (each for each in pair if each is not None)


def _deltas(mechanism: type[Any]) -> tuple[Fraction, ...]:
    return _DELTAS if getattr(mechanism, "spends_delta", True) else _DELTAS[:1]


def _answers(mechanism: type[Any], seed: int) -> Iterator[MatrixCase]:
    accepted = mechanism.accepts_weights
    factors = {
        "relation": mechanism.relations,
        "delta": _deltas(mechanism),
        "epsilon": _EPSILONS,
        "max_weight": (None, 3, 2**31 - 1) if accepted else (None,),
        "unit": (None, UNIT),
        "domain": DOMAINS,
        "kind": KINDS,
        **{f"option {name}": values for name, values in levels(mechanism).items()},
    }
    for number, row in enumerate(covering(factors, seed)):
        options = {name[7:]: value for name, value in row.items() if name.startswith("option ")}
        case = AuditCase(mechanism, row["relation"], row["epsilon"], row["delta"], seed, options)
        workload = workload_of(row["kind"], row["domain"], seed)
        yield MatrixCase(
            "answers", case, row["domain"], workload, row["max_weight"], number % _PAIRS, None, row["unit"]
        )


def _large(mechanism: type[Any], seed: int) -> Iterator[MatrixCase]:
    settings = LARGE_SETTINGS.get(mechanism.name, {})
    if settings is None:
        return
    relations = mechanism.relations
    accepted = mechanism.accepts_weights
    deltas = _deltas(mechanism)
    for number, domain in enumerate(LARGE[:1] if hasattr(mechanism, "neighbours") else LARGE):
        place = seed + len(mechanism.name) + number  # so that not all mechanisms have the same of these
        relation, delta = relations[place % len(relations)], deltas[place // 2 % len(deltas)]
        case = AuditCase(mechanism, relation, _AT_LARGE, delta, seed, settings)
        weight = 3 if accepted and place // 2 % 2 == 0 else None
        workload = Workload([marginal(domain.attributes)] if number else [marginal(["a"]), marginal(["b"])])
        yield MatrixCase("large", case, domain, workload, weight, place % _PAIRS)


def _refused(mechanism: type[Any], seed: int) -> Iterator[MatrixCase]:
    for number, relation in enumerate(mechanism.relations):
        case = AuditCase(mechanism, relation, seed=seed)
        weighted = 3 if mechanism.accepts_weights and number else None
        by_kind: dict[str, list[Any]] = {}
        for kind, run in refusals(case, WORKLOAD, levels(mechanism)):
            by_kind.setdefault(kind, []).append((kind, run))
        in_turn = itertools.chain.from_iterable(itertools.zip_longest(*by_kind.values()))
        for turn, (kind, run) in enumerate(each for each in in_turn if each is not None):
            yield MatrixCase(f"refusal: {kind}", case, DOMAIN, WORKLOAD, weighted, turn % _PAIRS, run)
        if not mechanism.accepts_weights and not hasattr(mechanism, "neighbours"):
            yield MatrixCase("refusal: weights", case, DOMAIN, WORKLOAD, 3, 1)


@dataclasses.dataclass(frozen=True)
class Visit:
    """A case that was run.

    Attributes:
        refused: the error that it ended with, the same on both tables; None if it gave a result.
        draws: how many released numbers carried a draw of their own.
    """

    refused: Exception | None
    draws: int


def visit(case: MatrixCase) -> Visit:
    """Run a case on two neighbouring tables, and once more with draws that can be told apart.

    Raises:
        NonInterferenceError: as `replay.check_outcome`, `claims.check_claims` and `draws.check_draws`.
        TypeError: a result that cannot be compared.
    """
    first, second = case.tables()
    run = case.run or (lambda data: case.case.make().run(data, case.workload))
    try:
        outcome = check_outcome(run, first, second)
    except AssertionError:  # a first run may warn of what later ones do not
        outcome = check_outcome(run, first, second)
    audited = case.case
    own = getattr(audited.mechanism, "check_cost", None)
    if own is None:
        check_claims(outcome.tape.calls, first, audited.epsilon, delta=audited.delta)
    else:
        own(outcome.tape.calls, first, audited.epsilon)
    draws = 0
    if case.run is None:
        table = first if case.pair % 2 else second
        draws = check_draws(
            lambda backend: audited.make(backend=backend).run(table, case.workload), audited.seed
        )
    return Visit(outcome.error, draws)


@dataclasses.dataclass(frozen=True)
class MatrixAudit:
    """The findings of the matrix.

    Attributes:
        visited: how many cases of each kind were run; those that ended in another way than their kind says,
            though in the same on both tables, are counted apart.
        largest: by mechanism the most released numbers of a run that each carried a draw of its own.
        faults: the cases with a fault, in words, and what was found.
        seconds: how long it took.
    """

    visited: Mapping[str, int]
    largest: Mapping[str, int]
    faults: tuple[tuple[str, str], ...]
    seconds: float

    @property
    def passed(self) -> bool:
        """True if nothing was found."""
        return not self.faults

    def to_dict(self) -> dict[str, Any]:
        """Return the findings for JSON."""
        faults = [{"case": case, "fault": fault} for case, fault in self.faults]
        return {
            "visited": dict(self.visited),
            "largest": dict(self.largest),
            "faults": faults,
            "seconds": round(self.seconds, 1),
            "passed": self.passed,
        }


def audit_matrix(
    audited: Sequence[type[Any]],
    *,
    seconds: float | None = 120.0,
    most: int | None = None,
    seed: int = 0,
    show_progress: bool | None = None,
) -> MatrixAudit:
    """Run cases of the matrix, of each mechanism in turn.

    The cases and their order follow from the seed; how many of them are visited, from the time.

    Args:
        audited: classes, see `AuditCase`.
        seconds: no case is begun after this time; None sets no limit.
        most: at most so many cases of each mechanism; None sets no limit.
        seed: of settings, workloads, tables and noise, >= 0.
        show_progress: None shows a bar in terminals only, False never.

    Raises:
        TypeError: a class that cannot be audited.
        ValueError: a bad number, or no limit at all.

    Example:
        >>> found = audit_matrix([mechanisms.Marginals], most=3)
        >>> found.passed, sum(found.visited.values())
        (True, 3)
    """
    seed = checks.integer("seed", seed, low=0)
    if seconds is None and most is None:
        raise ValueError("The matrix has no end: give `seconds`, or `most` cases of each mechanism.")
    begun = time.monotonic()
    visited: collections.Counter[str] = collections.Counter()
    largest = {each.name: 0 for each in audited}
    faults: list[tuple[str, str]] = []
    streams = [itertools.islice(cases(each, seed), most) for each in audited]
    order = (case for turn in itertools.zip_longest(*streams) for case in turn if case is not None)
    with Progress("the matrix", most and most * len(streams), show_progress) as progress:
        for case in order:
            if seconds is not None and time.monotonic() - begun >= seconds:
                break
            found, kind = _visited(case, faults)
            visited[kind] += 1
            largest[case.case.mechanism.name] = max(largest[case.case.mechanism.name], found)
            progress.advance()
    return MatrixAudit(dict(sorted(visited.items())), largest, tuple(faults), time.monotonic() - begun)


def _visited(case: MatrixCase, faults: list[tuple[str, str]]) -> tuple[int, str]:
    """Visit a case; return its draws and its kind, and add what was found to the faults."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            seen = visit(case)
        except Exception as error:  # the other cases still have their say
            faults.append((str(case), f"{type(error).__name__}: {error}"))
            return 0, case.kind
    expected = case.kind.startswith("refusal")
    if expected is (seen.refused is not None):
        return seen.draws, case.kind
    return seen.draws, f"{case.kind} ({'granted' if expected else 'refused'} alike)"
