"""The changes that make mutants of mechanisms and measurements, each a `with` block with one thing wrong."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np

from pgmjax.audit.specimen import SelectAndMeasure
from pgmjax.data.relation import Relation
from pgmjax.measurements.noise import DiscreteGaussian
from pgmjax.privacy import measuring, scales, scores, selection
from pgmjax.privacy.budget import Budget
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.privacy.sensitivity import Sensitivity
from pgmjax.queries import DenseMatrix
from pgmjax.queries import columns as exact


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
    """Only codes up to the largest that occurs are asked for."""

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
    return replaced((Sensitivity, "of", staticmethod(lambda *given: change(true, *given))), _unknown_moves())


def _unknown_moves() -> tuple[Any, str, Any]:
    """Keeps the account from comparing a scale with how far answers are known to move."""
    return measuring, "shifts_of", lambda *given: None


def wrong_relation() -> Any:
    """Replacing a record moves counts no farther than adding one."""

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
    """The distance of a marginal moves by 1 when a record is replaced."""
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
    return replaced((exact, "_as_floats", lambda matrix: matrix))


def noise_over_n() -> Any:
    """Epsilon multiplied by the number of records on its way to the noise."""
    true = PrivateTable.measure

    def measure(self: Any, queries: Any, *, epsilons: Any = None, rhos: Any = None, **more: Any) -> Any:
        records = self._data.count()
        raised = [None if each is None else [cost * records for cost in each] for each in (epsilons, rhos)]
        return true(self, queries, epsilons=raised[0], rhos=raised[1], **more)

    return replaced((PrivateTable, "measure", measure), _unlimited())


def rho_as_scale() -> Any:
    """The Gaussian's parameter passed where its scale belongs."""
    return replaced(
        (scales, "gaussian_for", lambda square, rho: DiscreteGaussian(float(rho))), _unknown_moves()
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
    """Exact answers through 32-bit floats, which are whole numbers still, but not the right ones."""
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
    return replaced((measuring, "draw", lambda *given: change(true, *given)))


def half_scale() -> Any:
    """Noise of half the scale that is stated."""
    return _rescaled(0.5)


def _rescaled(factor: float) -> Any:
    def change(true: Any, planned: Any, backend: Any, show: Any) -> list[np.ndarray]:
        scaled = [dataclasses.replace(each, law=type(each.law)(each.law.scale * factor)) for each in planned]
        return true(scaled, backend, show)

    return _drawn(change)


def no_noise() -> Any:
    """A corner case in which the noise comes out as zero."""
    return _drawn(lambda true, planned, *rest: [np.zeros(each.rows, dtype=np.int64) for each in planned])


def fixed_seed() -> Any:
    """A sampler that starts its stream anew at every call."""

    def change(true: Any, planned: Any, backend: Any, show: Any) -> list[np.ndarray]:
        return [SeededBackend(5, insecure=True).draw(each.law, each.rows) for each in planned]

    return _drawn(change)


def tiled_noise() -> Any:
    """A little noise, used 200 times."""

    def change(true: Any, planned: Any, backend: Any, show: Any) -> list[np.ndarray]:
        return [np.resize(backend.draw(each.law, -(-each.rows // 200)), each.rows) for each in planned]

    return _drawn(change)


def wide_noise() -> Any:
    """Noise a tenth wider than is stated: private, but error bars lie."""
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
