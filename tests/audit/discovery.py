"""Checks of discovery: trees of cells, keys above a threshold, and whole searches on raw columns.

The probabilities of a tree and of a key are worked out without sampling, on the code that releases them. It
is handed numbers in place of draws; the least one at which a node is split, or a key released, is reached by
noise with a known probability. Whole searches are replayed on neighbouring raw tables.

Each check raises `primitives.AuditFailure` or `NonInterferenceError` on a fault and otherwise returns None.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from pgmjax import random
from pgmjax._internal import checks
from pgmjax.audit import exact, goodness
from pgmjax.audit.mechanism import UNIT
from pgmjax.audit.primitives import ALPHA, AuditFailure, repeated
from pgmjax.audit.replay import check_pairs
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation, Unit
from pgmjax.discovery import Discovery, Draft, OpenTable
from pgmjax.discovery.open_table import key_column
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace, DiscreteNoise
from pgmjax.mechanisms.measure_once import Marginals
from pgmjax.mechanisms.parameters import Keeping
from pgmjax.privacy import partition
from pgmjax.privacy.backend import NoiseBackend
from pgmjax.privacy.budget import Budget
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.privacy.tape import Call, Tape
from pgmjax.queries.workload import KWay

Counts = tuple[int, ...]
Edges = tuple[int, ...]

_CELLS = 4
_MOST = 1 << 12
_TREES = 400  # drawn in a statistical check
_KEYS = 1000
_OF_A_KEY = 40  # records, so many that its noisy count is above any threshold here
_DRAWN: Counts = (0, 3, 1, 4)
_DEEP: Counts = (9, *(0,) * 15)
_MINE = 3  # records of the unit in which raw tables differ, one more than count


class _Scripted(SeededBackend):
    """A backend that hands out given numbers instead of noise: the n-th call, from 0, has `script(n)`."""

    def __init__(self, script: Callable[[int], Any]):
        super().__init__(0, insecure=True)
        self._script, self._calls = script, 0

    def restart(self) -> _Scripted:
        return self

    def draw(self, distribution: DiscreteNoise, size: int) -> np.ndarray:
        self._calls += 1
        return np.resize(np.asarray(self._script(self._calls - 1), dtype=np.int64), size)


def at_least(distribution: DiscreteNoise, value: int) -> float:
    """Return P(Z >= value) of integer noise, symmetric about zero, by summing its probabilities.

    Example:
        >>> at_least(DiscreteLaplace(2.0), 1) + at_least(DiscreteLaplace(2.0), 0)
        1.0
    """
    if value < 1:
        return 1 - at_least(distribution, 1 - value)
    tail = np.arange(value, value + math.ceil(60 * distribution.scale) + 60)
    return math.fsum(distribution.probabilities(tail.astype(np.float64)))


def tree_probabilities(
    counts: Sequence[int], distribution: DiscreteLaplace, least: int
) -> dict[Edges, float]:
    """Return the trees that may be released for counts of cells, by their edges within, with probabilities.

    Args:
        counts: numbers of records [cells], a power of 2 of them; there are 677 trees over 16 cells.
        distribution: of the noise.
        least: as for `privacy.partition.find_cells`.

    Example:
        >>> found = tree_probabilities([0, 0, 9, 0], DiscreteLaplace(0.1), 1)
        >>> {edges: round(probability, 3) for edges, probability in found.items() if probability > 0.001}
        {(2, 3): 1.0}
    """
    exact_counts = np.array(counts, dtype=np.int64)
    reach = 8 * (int(exact_counts.sum()) + least + math.ceil(distribution.scale) + 8)
    split: dict[int, float] = {}
    for level in range(int(math.log2(exact_counts.size))):
        nodes = 1 << level
        middles = [exact_counts.size * (2 * place + 1) // (2 * nodes) for place in range(nodes)]
        low, high = np.full(nodes, -reach), np.full(nodes, reach)
        while (high - low > 1).any():
            middle = (low + high) // 2
            edges = _tree(exact_counts, distribution, least, [reach] * level + [middle])
            found = np.isin(middles, edges)
            low, high = np.where(found, low, middle), np.where(found, middle, high)
        ends = (
            set(_tree(exact_counts, distribution, least, [reach] * level + [end])) for end in (-reach, reach)
        )
        always, ever = ends
        for edge, noise in zip(middles, high.tolist(), strict=True):
            by_noise = (edge in always) is not (edge in ever)
            split[edge] = at_least(distribution, noise) if by_noise else float(edge in always)
    return _combined(split, 0, exact_counts.size)


def _tree(counts: np.ndarray, distribution: DiscreteLaplace, least: int, levels: list[Any]) -> Edges:
    """Return the edges of the tree for given noise of the first levels; none is split below them."""
    never = -(1 << 40)
    backend = _Scripted(lambda level: levels[level] if level < len(levels) else never)
    table: Any = SimpleNamespace(_backend=backend)
    return tuple(partition._split(table, counts, distribution, least, _MOST).tolist())


def _combined(split: Mapping[int, float], first: int, last: int) -> dict[Edges, float]:
    """Return the trees over cells first..last-1, whose nodes are split independently."""
    if last - first == 1:
        return {(): 1.0}
    middle = (first + last) // 2
    found: dict[Edges, float] = {(): 1 - split[middle]}
    halves = (_combined(split, *ends).items() for ends in ((first, middle), (middle, last)))
    for (low, p), (high, q) in itertools.product(*halves):
        found[(*low, middle, *high)] = split[middle] * p * q
    return found


def tree_epsilon(
    neighbours: Iterable[tuple[Counts, Counts]], distribution: DiscreteLaplace, least: int
) -> float:
    """Return the largest log ratio of the probabilities of one tree on two neighbours, in nats.

    Args:
        neighbours: pairs of counts of the same cells.
        distribution: of the noise.
        least: as for `privacy.partition.find_cells`.

    Example:
        >>> round(tree_epsilon([((3, 0), (4, 0))], DiscreteLaplace(2.0), 2), 4)  # one node: 1 / scale
        0.5
    """
    pairs = list(neighbours)
    rows = {counts: place for place, counts in enumerate(dict.fromkeys(itertools.chain(*pairs)))}
    trees = [tree_probabilities(counts, distribution, least) for counts in rows]
    channel = np.array([[found[edges] for edges in trees[0]] for found in trees])
    return exact.channel_epsilon(channel, np.array([[rows[one], rows[other]] for one, other in pairs]))


def neighbouring_counts(
    relation: Relation, records: int = 1, largest: int = 1
) -> list[tuple[Counts, Counts]]:
    """Return all pairs of neighbouring counts of four cells.

    Args:
        relation: the neighbouring relation.
        records: of a unit of privacy, all of which differ.
        largest: the counts of the first table go from 0 to this.

    Example:
        >>> neighbouring_counts(Relation.ADD_REMOVE)[1]
        ((0, 0, 0, 0), (0, 0, 1, 0))
    """
    moves: Iterable[tuple[Counts, Counts]] = [
        (low, high)
        for high in itertools.combinations_with_replacement(reversed(range(_CELLS)), records)
        for low in (
            [()]
            if relation is Relation.ADD_REMOVE
            else itertools.combinations_with_replacement(range(_CELLS), records)
        )
    ]
    found = []
    for table in itertools.product(range(largest + 1), repeat=_CELLS):
        for low, high in moves:
            other = tuple(count - low.count(k) + high.count(k) for k, count in enumerate(table))
            if all(count >= low.count(k) for k, count in enumerate(table)) and other != table:
                found.append((table, other))
    return found


def trees_keep_their_epsilon(backend: NoiseBackend | None = None) -> None:
    """L0 and L2: no two neighbours' trees differ by more than epsilon, and trees follow their probabilities.

    Args:
        backend: source of noise of the drawn trees. Default: the secure backend.

    Raises:
        AuditFailure: an exact log ratio is above epsilon, drawn trees have other probabilities, or a tree
            costs another epsilon than was asked for.
    """
    for relation, unit in (*itertools.product(Relation, (None,)), (Relation.ADD_REMOVE, UNIT)):
        records = 1 if unit is None else unit.max_records
        pairs = neighbouring_counts(relation, records)
        if relation is Relation.ADD_REMOVE:
            pairs.append((_DEEP, (_DEEP[0] + records, *_DEEP[1:])))
        for epsilon, least in ((Fraction(1, 2), 0), (Fraction(2), 9), (Fraction(4), 1)):
            distribution: Any = _asked_tree(relation, unit, epsilon).distribution
            for size in (_CELLS, len(_DEEP)):
                same = [pair for pair in pairs if len(pair[0]) == size]
                found = tree_epsilon(same, distribution, least) if same else 0.0
                if not found <= float(epsilon) * (1 + 1e-12):
                    raise AuditFailure(
                        f"A tree of epsilon {epsilon} under {relation.value} (records of a unit: {records}, "
                        f"least {least}) has an exact loss of {found:.6g}."
                    )
    _check_drawn_trees(backend)


def _asked_tree(relation: Relation, unit: Unit | None, epsilon: Fraction) -> Call:
    """Return the call of a tree as the library makes it."""
    columns = {"a": [0, 1, 1, 3], "who": [0, 0, 1, 1]}
    data = Dataset.from_columns(Domain({"a": _CELLS}), columns, unit=unit)
    tape, budget = Tape(), Budget(epsilon)
    with tape.recording():
        table = PrivateTable(data, relation, budget, SeededBackend(0, insecure=True))
        partition.find_cells(table, "a", _CELLS, epsilon=epsilon)
    if budget.spent != epsilon:
        raise AuditFailure(f"A tree of epsilon {epsilon} was charged as {budget.spent}.")
    return tape.calls[0]


def _check_drawn_trees(backend: NoiseBackend | None) -> None:
    least, epsilon = 3, 6
    codes = np.repeat(np.arange(_CELLS), _DRAWN)
    data = Dataset.from_columns(Domain({"a": _CELLS}), {"a": codes})
    budget = Budget(epsilon * _TREES)
    table = PrivateTable(data, Relation.ADD_REMOVE, budget, backend)
    drawn = [
        tuple(partition.find_cells(table, "a", _CELLS, epsilon=epsilon, least=least).tolist()[1:-1])
        for _ in range(_TREES)
    ]
    distribution: Any = _asked_tree(Relation.ADD_REMOVE, None, Fraction(epsilon)).distribution
    trees = tree_probabilities(_DRAWN, distribution, least)
    fit = goodness.categorical_fit(
        np.array([drawn.count(tree) for tree in trees]), np.array([*trees.values()])
    )
    if fit.p_value < ALPHA or not {*drawn} <= {*trees}:
        raise AuditFailure(
            f"Trees of cells do not follow their distribution: p = {fit.p_value:.2g} from {_TREES} trees."
        )


def keys_keep_their_delta(backend: NoiseBackend | None = None) -> None:
    """L0 and L2: a key that one neighbour lacks shows with at most delta, and noisy counts follow theirs.

    Args:
        backend: source of noise of the drawn counts. Default: the secure backend.

    Raises:
        AuditFailure: the exact probability is above delta, the noise of the counts has another distribution
            or repeats, or the search costs another rho or delta than was asked for.
    """
    for relation, records, rho, delta in (
        (Relation.ADD_REMOVE, 1, Fraction(1), Fraction(1, 10**6)),
        (Relation.REPLACE_ONE, 1, Fraction(1, 50), Fraction(1, 10**9)),
        (Relation.ADD_REMOVE, 3, Fraction(1, 10), Fraction(1, 100)),
        (Relation.REPLACE_ONE, 3, Fraction(4), Fraction(1, 10**6)),
    ):
        for each in range(1, records + 1):
            shows = _chance_of_lone_keys(relation, records, rho, delta, each)
            if not shows <= float(delta) * (1 + 1e-9):
                raise AuditFailure(
                    f"Keys that one unit alone has show with probability {shows:.3g} under {relation.value} "
                    f"(up to {records} records, {each} of a key), but delta is {float(delta):.3g}."
                )
    _check_noise_of_keys(backend)


def _chance_of_lone_keys(
    relation: Relation, records: int, rho: Fraction, delta: Fraction, each: int
) -> float:
    """Return the probability that any of the keys shows of which a unit has `each` records alone."""
    keys = records // each
    names = [f"mine {number // each}" for number in range(keys * each)]
    columns = {"x": [*names, *["all"] * 30], "who": [*[0] * len(names), *range(1, 31)]}
    unit = None if records == 1 else Unit("who", records)
    draft = Draft({"x": "discover"})
    distributions: list[Any] = []

    def shown(noise: int) -> bool:
        data, coder = key_column(OpenTable.from_columns(columns, draft, unit=unit), "x")
        tape, budget = Tape(), Budget(rho, "rho", delta=delta)
        with tape.recording():
            table = PrivateTable(data, relation, budget, _Scripted(lambda _: noise))
            found = partition.find_keys(table, "x", coder, rho=rho, delta=delta)[0]
        if (budget.spent, sum(event.delta for event in budget.events)) != (rho, delta):
            raise AuditFailure(f"Keys of rho {rho} and delta {delta} were charged as {budget.spent}.")
        distributions.append(tape.calls[0].distribution)
        return names[0] in found

    low, high = 0, 1 << 10
    if not shown(high):
        return 0.0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if shown(middle) else (middle, high)
    return -math.expm1(keys * math.log1p(-at_least(distributions[0], high)))


def _check_noise_of_keys(backend: NoiseBackend | None) -> None:
    rho, delta = Fraction(1, 8), Fraction(1, 10**6)  # a scale of 2 and a threshold of about 12
    texts = [f"{number:04d}" for number in range(_KEYS)]
    columns = {"x": np.repeat(texts, _OF_A_KEY).tolist()}
    noises: list[np.ndarray] = []
    for _ in range(2):
        data, coder = key_column(OpenTable.from_columns(columns, Draft({"x": "discover"})), "x")
        table = PrivateTable(data, Relation.ADD_REMOVE, Budget(rho, "rho", delta=delta), backend)
        found = partition.find_keys(table, "x", coder, rho=rho, delta=delta)[0]
        if [*found] != texts:
            raise AuditFailure(f"Of {_KEYS} keys with {_OF_A_KEY} records each, {len(found)} were released.")
        noises.append(np.array([*found.values()]) - _OF_A_KEY)
    noise = np.concatenate(noises)
    fit = goodness.goodness_of_fit(noise, DiscreteGaussian(2.0))
    if fit.p_value < ALPHA:
        raise AuditFailure(f"Noise of keys does not follow its distribution: p = {fit.p_value:.2g}.")
    if repeated(noise).p_value < ALPHA:
        raise AuditFailure("Noise of keys repeats itself, or two searches share it.")


@dataclasses.dataclass(frozen=True)
class DiscoveryRuns(Marginals):
    """Discovery on raw columns, and two-way marginals of what was found.

    Args:
        share: of the budget, for discovery.
        fit: whether a model is fitted, as a release has one.

    Guarantees:
        As `mechanisms.Marginals` with a `Discovery`.
    """

    share: Any = "3/4"
    fit: bool = False

    name: ClassVar[str] = "discovery"
    summary: ClassVar[str] = "find the domain of raw columns and measure it"
    accepts_weights: ClassVar[bool] = False
    restriction: ClassVar[str] = "a table of raw columns has none."
    audited_values: ClassVar[dict[str, tuple[Any, ...]]] = {
        **Marginals.audited_values,
        "share": ("3/4", "1/4"),
    }

    def neighbours(self, pairs: int, seed: int) -> Iterator[tuple[OpenTable, OpenTable]]:
        """Yield pairs of neighbouring tables, see `neighbouring_columns`."""
        return neighbouring_columns(self.relation, self.delta > 0, pairs=pairs, seed=seed)

    def run(self, data: OpenTable, workload: Any = None) -> Any:  # type: ignore[override]
        """Search, measure, and return all that is public."""
        discover = Discovery(self.share)
        if self.fit:
            return super().run(data, KWay(2), discover=discover, show_progress=False)
        run = self._start(data, KWay(2), Keeping(), False, discover)
        measured = self._measured(run).measurements
        found: Any = run.found
        return [found.to_dict(), found.rows_outside, found.sketches, measured, run.budget.statement()]


_EXTREMES = (
    ("1000000000", "31.12.9999", "only mine"),
    ("no number", "no date", ""),
    ("-1e300", "29/02/2020", "rare"),
    ("127", "2021-03-01 10:30", "a" * 300),
    (2**60, datetime.date(2021, 3, 1), 1.5),  # of another type than all others
)
_FEW = (1, 40, 300)
_MANY = 1200


def neighbouring_columns(
    relation: Relation | str, texts: bool = True, *, pairs: int = 8, seed: int = 0
) -> Iterator[tuple[OpenTable, OpenTable]]:
    """Yield pairs of neighbouring tables of raw values whose domain is open, in both orders.

    They have numbers, dates, with `texts` labels, and a column that is described. Half of the pairs differ in
    a row, half in all rows of a person, of which more exist than count. What differs is very large, no value
    of its kind, or a text of its own; every fourth table has a few rows only.

    Args:
        relation: the neighbouring relation.
        texts: whether there is a column of text, whose search needs a delta.
        pairs: how many.
        seed: of the made-up values.

    Example:
        >>> first, second = next(neighbouring_columns("add-remove", pairs=1))
        >>> first.draft.open
        {'number': 'any', 'when': 'any', 'text': 'labels'}
    """
    relation = Relation.parse(relation)
    generator = random.generator(seed)
    shapes: dict[str, Any] = {"number": "discover", "when": "discover", "text": {"labels": "discover"}}
    if not texts:
        shapes = {"number": {"bins": "discover"}, "when": {"dates": "discover"}}
    draft = Draft({**shapes, "flag": {"labels": ["f", "m"]}})
    for number in range(checks.integer("pairs", pairs, low=1)):
        unit = UNIT if number % 2 else None
        rows = _FEW[number // 4 % len(_FEW)] if number % 4 == 3 else _MANY
        mine = sorted(generator.choice(rows + 1, min(_MINE if unit else 1, rows), replace=False).tolist())
        values = _raw(rows + len(mine), generator)
        names = np.arange(rows + len(mine)) // (2 if unit else 1)
        names[mine] = -1
        _put(values, mine, _EXTREMES[(number // 2) % len(_EXTREMES)])
        other = {name: column.copy() for name, column in values.items()}
        _put(other, mine, tuple(column[0] for column in _raw(1, generator).values()))
        left = np.arange(len(names))
        if relation is Relation.ADD_REMOVE:
            left = np.setdiff1d(left, mine)
        make = functools.partial(_opened, draft=draft, unit=unit)
        pair = make(values, names, np.arange(len(names))), make(other, names, left)
        yield pair if number % 8 < 4 else pair[::-1]


def _raw(rows: int, generator: np.random.Generator) -> dict[str, np.ndarray]:
    """Return columns of texts [rows]."""
    days = generator.integers(1, 29, (2, rows))
    return {
        "number": np.array([str(value) for value in generator.integers(64, 128, rows)], dtype=object),
        "when": np.array([f"{day:02d}.{1 + month % 12:02d}.2021" for day, month in days.T], dtype=object),
        "text": generator.choice(np.array(["a", "b", "rare"], dtype=object), rows, p=[0.6, 0.35, 0.05]),
        "flag": generator.choice(np.array(["f", "m"], dtype=object), rows),
    }


def _put(values: Mapping[str, np.ndarray], places: Sequence[int], record: Sequence[Any]) -> None:
    for column, value in zip(values.values(), record, strict=False):
        column[places] = value


def _opened(
    values: Mapping[str, np.ndarray], names: np.ndarray, kept: np.ndarray, *, draft: Draft, unit: Unit | None
) -> OpenTable:
    columns = {name: values[name][kept].tolist() for name in draft.columns}
    if unit is not None:
        columns[unit.column] = names[kept].tolist()
    return OpenTable.from_columns(columns, draft, unit=unit)


def discovery_keeps_to_the_choke_point(pairs: int = 4) -> None:
    """L1: whole discovery runs on neighbouring raw tables, under both relations, with and without delta.

    Args:
        pairs: of tables, for each relation with and without delta; half of them differ in a whole unit.

    Raises:
        NonInterferenceError: something beside released numbers differs, or the calls cost more than claimed.
    """
    for relation, delta in itertools.product(Relation, (0, "1e-6")):
        made = DiscoveryRuns(
            epsilon=1, relation=relation, delta=delta, backend=SeededBackend(0, insecure=True)
        )
        check_pairs(made.run, made.neighbours(pairs, 0), epsilon=1, delta=delta)
