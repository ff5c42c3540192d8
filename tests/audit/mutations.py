"""The changes that make mutants, each a `with` block with one thing wrong.

First those of mechanisms and measurements, then those of selections, responses, accounts and refusals, then
those of units of several records and of published scores, of the records' own responses, last those of
discovery.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np

from pgmjax.audit.specimen import SelectAndMeasure
from pgmjax.data import bounding, dataset
from pgmjax.data.dataset import Dataset
from pgmjax.data.relation import Relation
from pgmjax.discovery import probes
from pgmjax.discovery.discover import _Search
from pgmjax.discovery.probes import FineCells
from pgmjax.measurements.noise import DiscreteGaussian
from pgmjax.mechanisms import base
from pgmjax.privacy import (
    budget,
    measuring,
    opendp,
    partition,
    responding,
    response,
    scales,
    scores,
    seeded,
    selection,
)
from pgmjax.privacy.accounting import zcdp
from pgmjax.privacy.budget import Budget
from pgmjax.privacy.ledger.journal import LedgerJournal
from pgmjax.privacy.opendp import OpenDPBackend
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.responding import Responses
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.privacy.sensitivity import Sensitivity
from pgmjax.queries import DenseMatrix, WeightedSum, columns


@contextlib.contextmanager
def replaced(*changes: tuple[Any, str, Any]) -> Iterator[None]:
    """Change attributes, given as (owner, name, new value), while the block lasts."""
    with contextlib.ExitStack() as stack:
        for owner, name, new in changes:
            stack.enter_context(mock.patch.object(owner, name, new))
        yield


def _unlimited() -> tuple[Any, str, Any]:
    return Budget, "_check", lambda self, events: None


def double_spend() -> Any:
    """Both halves of a budget are charged in full, and nothing adds them up."""
    return replaced((Budget, "split", lambda self, weights: (self.remaining,) * len(weights)), _unlimited())


def true_total() -> Any:
    """The exact number of records where it is secret."""
    return replaced((PrivateTable, "public_total", lambda self: self._data.count()))


def domain_from_data() -> Any:
    """Only codes up to the largest one in the table are queried."""

    def measure(self: Any, table: Any, clique: Any, cost: Any) -> Any:
        counts = table._data.marginals([clique])[0].reshape(-1)
        rows = int(np.flatnonzero(counts)[-1]) + 1 if counts.any() else 1
        query = DenseMatrix(clique, np.eye(rows, counts.size, dtype=np.int64))
        unit = "epsilons" if self.delta == 0 else "rhos"
        measured = table.measure([query], **{unit: [cost]}, show_progress=False)[0]
        padded = np.zeros(counts.size, dtype=np.int64)
        padded[:rows] = measured.values
        return _Measured(clique, padded)

    return replaced((SelectAndMeasure, "_measure", measure))


@dataclasses.dataclass(frozen=True, eq=False)
class _Measured:
    clique: Any
    values: np.ndarray


def early_stop() -> Any:
    """No more rounds once the true error is small."""

    def finished(self: Any, table: Any, estimates: Any) -> bool:
        return sum(_true_errors(table, estimates)) < 45

    return replaced((SelectAndMeasure, "_finished", finished))


def _true_errors(table: Any, estimates: Any) -> tuple[int, ...]:
    exact = table._data.marginals(list(estimates))
    pairs = zip(exact, estimates.values(), strict=True)
    return tuple(int(np.abs(counts - mine).sum()) for counts, mine in pairs)


def true_error() -> Any:
    """The true error among what is returned."""
    return replaced(
        (SelectAndMeasure, "_remarks", lambda self, table, estimates: _true_errors(table, estimates))
    )


def true_range() -> Any:
    """The smallest and the largest code that occur among what is returned."""

    def remarks(self: Any, table: Any, estimates: Any) -> tuple[int, ...]:
        found = [
            np.flatnonzero(counts) for counts in table._data.marginals([(name,) for name in table.domain])
        ]
        return tuple(int(codes[end]) for codes in found for end in (0, -1))

    return replaced((SelectAndMeasure, "_remarks", remarks))


def _sensitivity(change: Callable[..., Sensitivity]) -> Any:
    true = Sensitivity.of
    return replaced((Sensitivity, "of", staticmethod(lambda *given: change(true, *given))), _unknown_shifts())


def _unknown_shifts() -> tuple[Any, str, Any]:
    """Keeps the account from comparing a scale with the known shifts of the answers."""
    return measuring, "shifts_of", lambda *given: None


def wrong_relation() -> Any:
    """Sensitivity under REPLACE_ONE as if a record were only added."""

    def change(
        true: Any, query: Any, domain: Any, relation: Any, norm: str, weight: Any = None
    ) -> Sensitivity:
        return Sensitivity(true(query, domain, Relation.ADD_REMOVE, norm, weight).value, norm, relation)

    return _sensitivity(change)


def forgotten_weight() -> Any:
    """A record counts once, whatever its weight."""

    def change(
        true: Any, query: Any, domain: Any, relation: Any, norm: str, weight: Any = None
    ) -> Sensitivity:
        return true(query, domain, relation, norm)

    return _sensitivity(change)


def wrong_norm() -> Any:
    """Laplace noise by the L2 sensitivity."""

    def change(
        true: Any, query: Any, domain: Any, relation: Any, norm: str, weight: Any = None
    ) -> Sensitivity:
        if norm != "l1":
            return true(query, domain, relation, norm, weight)
        square = true(query, domain, relation, "l2_squared", weight).value
        return Sensitivity(int(np.ceil(np.sqrt(square))), norm, relation)

    return _sensitivity(change)


def wrong_score() -> Any:
    """Sensitivity 1 for the distance of a marginal when a record is replaced."""
    true = scores.Distances._sensitivity
    return replaced(
        (
            scores.Distances,
            "_sensitivity",
            lambda self, domain, relation, weight: true(self, domain, Relation.ADD_REMOVE, weight),
        )
    )


def wrapped_squares() -> Any:
    """Sums of squares of large integers in 64 bits, where floats would round and not wrap around."""
    return replaced((columns, "_as_floats", lambda matrix: matrix))


def noise_over_n() -> Any:
    """Epsilon multiplied by the number of records on its way to the noise."""
    true = PrivateTable.measure

    def measure(self: Any, queries: Any, *, epsilons: Any = None, rhos: Any = None, **more: Any) -> Any:
        records = self._data.count()
        raised = [None if each is None else [cost * records for cost in each] for each in (epsilons, rhos)]
        return true(self, queries, epsilons=raised[0], rhos=raised[1], **more)

    return replaced((PrivateTable, "measure", measure), _unlimited())


def rho_as_scale() -> Any:
    """The Gaussian's parameter passed in place of its scale."""
    return replaced(
        (scales, "gaussian_for", lambda square, rho: DiscreteGaussian(float(rho))), _unknown_shifts()
    )


def no_half() -> Any:
    """The exponential mechanism with epsilon instead of epsilon / 2."""
    true = selection._scale
    return replaced((selection, "_scale", lambda *given: true(*given) / 2))


def zero_sensitivity() -> Any:
    """A formula in which the sensitivity cancels out."""
    return _sensitivity(
        lambda true, query, domain, relation, norm, weight=None: Sensitivity(0, norm, relation)
    )


def unsquared() -> Any:
    """The L2 sensitivity where its square belongs."""

    def change(
        true: Any, query: Any, domain: Any, relation: Any, norm: str, weight: Any = None
    ) -> Sensitivity:
        found = true(query, domain, relation, norm, weight)
        return found if norm != "l2_squared" else Sensitivity(math.isqrt(found.value), norm, relation)

    return _sensitivity(change)


def float_noise() -> Any:
    """Noise off the grid of the integers."""
    return replaced((measuring, "noisy", lambda exact, noise: exact + noise * (1 + 2.0**-40)))


def single_precision() -> Any:
    """Exact answers passed through 32-bit floats, which stay integers but not the right ones."""
    true = measuring.exact_answers
    return replaced(
        (measuring, "exact_answers", lambda *given: true(*given).astype(np.float32).astype(np.int64))
    )


def narrow_counts() -> Any:
    """Exact answers in 32 bits."""
    true = measuring.exact_answers
    return replaced(
        (measuring, "exact_answers", lambda *given: true(*given).astype(np.int32).astype(np.int64))
    )


def quiet_zeros() -> Any:
    """Cells without records stay exactly zero."""
    return replaced((measuring, "noisy", lambda exact, noise: np.where(exact == 0, 0, exact + noise)))


def only_positive() -> Any:
    """Negative answers are drawn again."""
    return replaced(
        (
            measuring,
            "noisy",
            lambda exact, noise: np.where(exact + noise < 0, exact + np.abs(noise), exact + noise),
        )
    )


def _drawn(change: Callable[..., list[np.ndarray]]) -> Any:
    true = measuring.draw

    def draw(planned: Any, backend: Any, show_progress: Any) -> list[np.ndarray]:
        return change(true, planned, backend, show_progress)

    return replaced((measuring, "draw", draw))


def half_scale() -> Any:
    """Noise of half the scale that is stated."""
    return _rescaled(0.5)


def _rescaled(factor: float) -> Any:
    def change(true: Any, planned: Any, backend: Any, show: Any) -> list[np.ndarray]:
        scaled = [
            dataclasses.replace(each, distribution=type(each.distribution)(each.distribution.scale * factor))
            for each in planned
        ]
        return true(scaled, backend, show)

    return _drawn(change)


def no_noise() -> Any:
    """A corner case in which the noise is zero."""
    return _drawn(lambda true, planned, *rest: [np.zeros(each.rows, dtype=np.int64) for each in planned])


def fixed_seed() -> Any:
    """A sampler that restarts its stream at every call."""

    def change(true: Any, planned: Any, backend: Any, show: Any) -> list[np.ndarray]:
        return [SeededBackend(5, insecure=True).draw(each.distribution, each.rows) for each in planned]

    return _drawn(change)


def tiled_noise() -> Any:
    """A little noise, used 200 times."""

    def change(true: Any, planned: Any, backend: Any, show: Any) -> list[np.ndarray]:
        return [
            np.resize(backend.draw(each.distribution, -(-each.rows // 200)), each.rows) for each in planned
        ]

    return _drawn(change)


def wide_noise() -> Any:
    """Noise a tenth wider than stated: private, but the error bars are wrong."""
    return _rescaled(1.1)


def same_stream() -> Any:
    """Every call draws from the start of one stream."""
    return _drawn(lambda true, planned, backend, show: true(planned, SeededBackend(5, insecure=True), show))


def late_noise() -> Any:
    """Counts are read before noise is drawn."""
    true = PrivateTable._answer

    def answer(self: Any, planned: Any, show: Any) -> Any:
        self._marginals([each.query.clique for each in planned])
        return true(self, planned, show)

    return replaced((PrivateTable, "_answer", answer))


def sharp_choice() -> Any:
    """Selections drawn at half of their scale."""

    def sharpened(true: Any) -> Any:
        return lambda self, distribution, values: true(
            self, type(distribution)(distribution.scale / 2), values
        )

    return replaced(*((each, "choose", sharpened(each.choose)) for each in (OpenDPBackend, SeededBackend)))


def truthful_lies() -> Any:
    """The other category of a lie drawn from all, the truth among them."""

    def answered(truth: np.ndarray, lies: np.ndarray, others: np.ndarray) -> np.ndarray:
        answers = np.array(truth, dtype=np.int64)
        answers[lies] = others
        return answers

    return replaced((response, "answered", answered))


def too_true() -> Any:
    """Half as many lies as epsilon asks for."""
    true = response.response_for
    return replaced(
        (
            response,
            "response_for",
            lambda size, epsilon: response.KaryResponse(size, true(size, epsilon).lie / 2),
        )
    )


def short_formula() -> Any:
    """From rho to epsilon without the term in log(1 / delta)."""
    return replaced((zcdp, "_epsilon", lambda rho, delta: rho))


def float_budget() -> Any:
    """Sums in floats, in which a tiny spend vanishes."""

    def charge(self: Any, cost: Any) -> None:
        events = self._as_events(cost)
        self._check(events)
        self._spent = Fraction(float(self._spent) + float(self._sum(events)))

    return replaced((Budget, "charge", charge))


def free_failure() -> Any:
    """The charge comes after the answer, if there is one."""
    return replaced((PrivateTable, "_charge", lambda self, events, *more: self._budget.require(events)))


def telling_error() -> Any:
    """The reader's own error message is passed on."""
    return replaced(
        (
            PrivateTable,
            "_marginals",
            lambda self, cliques: dict(zip(cliques, self._data.marginals(cliques), strict=True)),
        )
    )


def any_epsilon() -> Any:
    """Take an epsilon that is not a number for 1."""
    return replaced((budget, "exact_epsilon", lambda value: Fraction(1)))


def any_category() -> Any:
    """A category outside the universe becomes one inside."""
    return replaced((response, "checked_codes", lambda size, codes: np.clip(np.asarray(codes), 0, size - 1)))


def fixed_choice() -> Any:
    """Selections by a generator that starts again at every call."""
    return _seeded("choose")


def fixed_lies() -> Any:
    """Responses by a generator that starts again at every call."""
    return _seeded("respond")


def _seeded(method: str) -> Any:
    def drawn(self: Any, distribution: Any, values: Any) -> Any:
        return getattr(SeededBackend(5, insecure=True), method)(distribution, values)

    return replaced((OpenDPBackend, method, drawn))


def nearest_scale() -> Any:
    """Scales rounded to the nearest float, even if it is smaller."""
    return replaced(
        (scales, "ceil_float", float),
        (scales, "ceil_sqrt", lambda square: math.sqrt(float(square))),
        (selection, "ceil_float", float),
        (opendp, "_confirmed", lambda scale, budget, loss: scale),
    )


def any_scores() -> Any:
    """Scores that are not integers are converted to integers."""
    true = selection.checked_scores

    def checked(scores: Any) -> np.ndarray:
        return true(np.nan_to_num(np.asarray(scores, dtype=np.float64), posinf=0.0).astype(np.int64))

    return replaced((selection, "checked_scores", checked))


def any_delta() -> Any:
    """Take an invalid delta for a small one."""
    return replaced((zcdp, "exact_delta", lambda value: Fraction(1, 10**6)))


def any_code() -> Any:
    """Codes outside the domain are moved into it."""
    true = Dataset.from_columns

    def clipped(domain: Any, given: Mapping[str, Any], **more: Any) -> Dataset:
        inside = {}
        for name in domain:
            codes = np.nan_to_num(np.asarray(given[name], dtype=np.float64))
            inside[name] = np.clip(codes, 0, domain.size([name]) - 1).astype(np.int64)
        return true(domain, inside, **more)

    return replaced((Dataset, "from_columns", staticmethod(clipped)))


def binary_tenths() -> Any:
    """A float budget is read as the binary fraction that stores it."""
    return replaced((budget, "exact_epsilon", Fraction))


def mixed_relations() -> Any:
    """A budget takes spends under either relation."""
    return replaced((Budget, "bind", lambda self, *given: None))


def mixed_units() -> Any:
    """A budget takes spends on any unit, and an account those of tables that were opened with another."""
    true = Budget.bind
    return replaced(
        (Budget, "bind", lambda self, relation, *unit: true(self, relation)),
        (Dataset, "of_unit", lambda self, unit: self),
    )


def unbounded_units() -> Any:
    """All records of a unit count."""
    return replaced((bounding, "left_out", lambda *given: bounding.LeftOut()))


def bounded_cells() -> Any:
    """A bounded number of a unit's records count in each cell instead of in all."""

    def batches(self: Any, names: Any, ordered: bool = False) -> Iterator[Any]:
        (batch,) = self._source.unsettled(names, ordered=True)
        cells = np.stack([encoded.codes.astype(np.int64) for encoded in batch.columns.values()])
        gone: list[int] = []
        for records in self._records(self.unit.max_records):
            for places in np.split(records.places, np.cumsum(records.sizes)[:-1]):
                _, whose = np.unique(cells[:, places], axis=1, return_inverse=True)
                for cell in range(whose.max(initial=-1) + 1):
                    gone += places[whose.reshape(-1) == cell][self.unit.max_records :].tolist()
        yield batch.without(np.array(gone, dtype=np.int64))

    return replaced((bounding.BoundedSource, "batches", batches))


def unscaled_unit() -> Any:
    """Sensitivities are those of one record where a unit has several."""
    return replaced((Sensitivity, "of_unit", lambda self, records: self))


def scores_of_one_candidate() -> Any:
    """The noise of all scores together is that of one candidate, and so is the sensitivity declared."""
    true = measuring.plan_scores

    def plan(*given: Any) -> Any:
        planned: Any = true(*given)
        backend, event, whole = given[6], planned.event, planned.sensitivity
        one = dataclasses.replace(whole, value=whole.value // planned.rows)
        if one.norm == "l1":
            noise = backend.laplace(one.value, event.epsilon)
        else:
            noise = backend.gaussian(one.value, event.rho)
        event = dataclasses.replace(event, scale=noise.scale)
        return dataclasses.replace(planned, distribution=noise, sensitivity=one, event=event)

    return replaced((measuring, "plan_scores", plan))


def scores_of_one_record() -> Any:
    """The noise of scores is that for one record, also where a unit has several."""
    true = measuring.plan_scores
    return replaced((measuring, "plan_scores", lambda *given: true(*given[:7])))


def exact_scores() -> Any:
    """Scores are published without noise."""
    true = PrivateTable._scored

    def scored(self: Any, planned: Any) -> np.ndarray:
        with no_noise():
            return true(self, planned)

    return replaced((PrivateTable, "_scored", scored))


def joint_choice() -> Any:
    """A choice of records that depends on how many records the table has."""
    true = bounding.left_out

    def left_out(parts: Any, most: int, key: bytes) -> Any:
        known = list(parts)
        number = sum(int(part.sizes.sum()) for part in known)
        return true(known, most, key + number.to_bytes(8, "big"))

    return replaced((bounding, "left_out", left_out))


def always_secure() -> Any:
    """Noise from any source is marked secure."""
    return replaced((PrivateTable, "secure", True))


def whole_epsilon_a_bit() -> Any:
    """The symmetric encoding spends all of epsilon on each bit, though two bits differ."""
    true = response.unary_for

    def distribution(size: Any, epsilon: Any, symmetric: bool = False) -> Any:
        return response.UnaryResponse(size, true(size, epsilon).lie, symmetric)

    return replaced(
        (response, "unary_for", distribution),
        (opendp, "unary_for", distribution),
        (seeded, "unary_for", distribution),
    )


def shared_coin() -> Any:
    """One coin flips all bits of a record."""

    def bits(self: Any, distribution: Any, codes: np.ndarray) -> np.ndarray:
        lies = SeededBackend(len(codes), insecure=True)._generator.random(len(codes)) < distribution.lie
        return (np.arange(distribution.size) == codes[:, None]) ^ lies[:, None]

    return replaced((OpenDPBackend, "respond_bits", bits), (SeededBackend, "respond_bits", bits))


def fixed_bits() -> Any:
    """Bits by a generator that starts again at every call."""
    return _seeded("respond_bits")


def honest_records() -> Any:
    """Records tell the truth."""

    def respond(self: Any, backend: Any, codes: np.ndarray) -> np.ndarray:
        return (np.arange(self.distribution.size) == codes[:, None]) if self.bits else codes.astype(np.uint8)

    return replaced((responding.PlannedResponse, "respond", respond))


def answers_again() -> Any:
    """Responses are drawn again when they are read a second time."""
    return replaced((Responses, "__iter__", lambda self: self._blocks(self._kept)))


def any_relation() -> Any:
    """Randomised response is accepted under ADD_REMOVE."""
    true = responding.plan_responses

    def plan(groups: Any, epsilons: Any, encodings: Any, domain: Any, relation: Any, *more: Any) -> Any:
        return true(groups, epsilons, encodings, domain, responding.Relation.REPLACE_ONE, *more)

    return replaced(
        (responding, "plan_responses", plan),
        (responding.Response, "only", None),
        (PrivateTable, "public_count", lambda self: self._data.count()),
    )


_CHUNK = 1 << 16
_TAIL = 1 << 18


def quiet_tail() -> Any:
    """No noise beyond row 262,144 of what one call draws."""

    def change(true: Any, planned: Any, backend: Any, show: Any) -> list[np.ndarray]:
        noise, start = true(planned, backend, show), 0
        for part in noise:
            part[max(0, _TAIL - start) :] = 0
            start += part.size
        return noise

    return _drawn(change)


def reused_chunks() -> Any:
    """Every chunk of a large draw has the noise of the first."""

    def change(true: Any, planned: Any, backend: Any, show: Any) -> list[np.ndarray]:
        return [np.resize(part[:_CHUNK], part.size) for part in true(planned, backend, show)]

    return _drawn(change)


def chunk_seams() -> Any:
    """A chunk of a large draw begins one cell late, which leaves that cell without noise."""

    def change(true: Any, planned: Any, backend: Any, show: Any) -> list[np.ndarray]:
        noise = true(planned, backend, show)
        for part in noise:
            part[_CHUNK::_CHUNK] = 0
        return noise

    return _drawn(change)


def quiet_tail_of_the_sampler() -> Any:
    """The secure backend draws no more than 262,144 numbers, and fills up with zeros."""
    true = OpenDPBackend.draw

    def draw(self: Any, distribution: Any, size: int) -> np.ndarray:
        noise = np.zeros(size, dtype=np.int64)
        noise[:_TAIL] = true(self, distribution, min(size, _TAIL))
        return noise

    return replaced((OpenDPBackend, "draw", draw))


def quiet_empty_cells_of_weighted_tables() -> Any:
    """Empty cells of a weighted table stay zero in queries of more than 64 rows."""
    true = PrivateTable._answer

    def answer(self: Any, planned: Any, show: Any) -> Any:
        def noisy(exact: np.ndarray, noise: np.ndarray) -> np.ndarray:
            quiet = self.weighted and exact.size > 64
            return np.where((exact == 0) & quiet, 0, exact + noise)

        with replaced((measuring, "noisy", noisy)):
            return true(self, planned, show)

    return replaced((PrivateTable, "_answer", answer))


def forgotten_weight_of_sums() -> Any:
    """A record counts once in weighted sums of products, whatever its weight."""

    def change(
        true: Any, query: Any, domain: Any, relation: Any, norm: str, weight: Any = None
    ) -> Sensitivity:
        return true(query, domain, relation, norm, None if isinstance(query, WeightedSum) else weight)

    return _sensitivity(change)


def any_weight() -> Any:
    """Weights above the bound are taken as they are."""
    true = dataset.weight_coder
    return replaced(
        (dataset, "weight_coder", lambda bound, *more: true(2**31, *more)),
        (Dataset, "validate", lambda self, *given: None),
    )


def counted_budget_refusal() -> Any:
    """A budget that does not suffice is refused with the exact number of records."""
    true = PrivateTable._charge

    def charge(self: Any, events: Any, *more: Any) -> None:
        try:
            true(self, events, *more)
        except budget.BudgetExceeded as error:
            raise budget.BudgetExceeded(f"{error} The table has {self._data.count():,} rows.") from None

    return replaced((PrivateTable, "_charge", charge))


def counted_workload_refusal() -> Any:
    """A workload that does not fit is refused with the exact number of records."""
    true = base.Mechanism._start

    def start(self: Any, data: Any, *given: Any, **more: Any) -> Any:
        try:
            return true(self, data, *given, **more)
        except ValueError as error:
            raise ValueError(f"{error} (a table of {data.count():,} records)") from None

    return replaced((base.Mechanism, "_start", start))


def telling_attempts() -> Any:
    """An answer is tried once more where the number of records is odd; the ledger counts attempts."""
    true = LedgerJournal.answer

    def answer(self: Any, request: Any, compute: Any) -> np.ndarray:
        def fail() -> bytes:
            raise ArithmeticError

        if self._run._data.count() % 2:
            with contextlib.suppress(ArithmeticError):
                self._charge.answer(self._step, request, fail)
        return true(self, request, compute)

    return replaced((LedgerJournal, "answer", answer))


def telling_context() -> Any:
    """A failure withholds its details, and carries the error that has them along."""

    def withheld(self: Any, doing: str, act: Any, *given: Any) -> Any:
        try:
            return act(*given)
        except Exception as error:
            raise measuring.TableReadError(f"{doing} failed. Details are withheld.") from error

    return replaced((PrivateTable, "_withheld", withheld))


def one_level_of_a_tree() -> Any:
    """The scale of a tree is that of one level."""
    return replaced((partition, "_PATHS", 1))


def level_counts() -> Any:
    """The counts of a tree's nodes do not fall from level to level."""
    return replaced((partition, "tree_step", lambda distribution: 0))


def exact_tree() -> Any:
    """Nodes are split by their exact counts."""
    return _without_noise("_split")


def exact_keys() -> Any:
    """Keys are counted without noise."""
    return _without_noise("_packed")


def _without_noise(name: str) -> Any:
    true: Any = getattr(partition, name)

    def released(*given: Any) -> np.ndarray:
        quiet = (measuring, "fresh", lambda backend, distribution, size: np.zeros(size, dtype=np.int64))
        with replaced(quiet):
            return true(*given)

    return replaced((partition, name, released))


def low_threshold() -> Any:
    """The threshold of keys is one below the least that delta allows, to which the library adds one."""
    true: Any = partition.key_threshold
    return replaced((partition, "key_threshold", lambda *given: true(*given) - partition._MARGIN - 1))


def threshold_without_delta() -> Any:
    """The threshold of keys is some standard deviations of the noise, whatever delta is."""

    def threshold(distribution: DiscreteGaussian, records: int, delta: Any) -> int:
        return records + math.ceil(4 * distribution.scale)

    return replaced((partition, "key_threshold", threshold))


def threshold_of_one() -> Any:
    """The threshold of keys is that of one record, also where a unit has several."""
    true: Any = partition.key_threshold
    return replaced(
        (partition, "key_threshold", lambda distribution, records, delta: true(distribution, 1, delta))
    )


def rare_keys() -> Any:
    """Every key with a positive noisy count is released."""
    true: Any = partition._packed
    return replaced((partition, "_packed", lambda *given: true(*given[:-1], 1)))


def free_discovery() -> Any:
    """Charges to a part of a budget are none to the whole."""
    true = Budget.charge

    def charge(self: Any, cost: Any) -> None:
        whole, self._within = self._within, None
        try:
            true(self, cost)
        finally:
            self._within = whole

    return replaced((Budget, "charge", charge))


def free_partitions() -> Any:
    """Trees and keys cost nothing."""
    true = PrivateTable._charge

    def charge(self: Any, events: Any, *more: Any) -> None:
        true(self, [event for event in events if event.kind not in ("tree", "keys")], *more)

    return replaced((PrivateTable, "_charge", charge))


def true_bounds() -> Any:
    """The bounds of a column are those of its values, not those of noisy counts."""
    true = _Search.magnitudes

    def magnitudes(self: Any) -> None:
        true(self)
        edges = probes.magnitude_edges()
        for column in self._ordered():
            data = self._table.under([probes.magnitude_probe(column.name, column.reading)])
            there = np.flatnonzero(data.marginals([(column.name,)])[0][:-1])
            low, high = float(edges[there[0]]), float(edges[there[-1] + 1])
            column.fine = FineCells.over(low, high, column.step)

    return replaced((_Search, "magnitudes", magnitudes))


def kept_labels() -> Any:
    """Labels that were not released are labels of the domain nevertheless."""
    true = partition.find_keys

    def find_keys(table: Any, name: str, coder: Any, **costs: Any) -> Any:
        found, *rest = true(table, name, coder, **costs)
        return ({key: found.get(key, rest[-1]) for key in sorted(coder.keys)}, *rest)

    return replaced((sys.modules[_Search.__module__], "find_keys", find_keys))
