"""Negative log-likelihood of the draws of a DualQuery transcript, as a loss of marginals.

With y the queries' answers as fractions and a_t each query's count over the t - 1 earlier records,
round t draws query q with probability proportional to exp(-z) and its negation with exp(z), where
z = step * ((t - 1) y_q - a_tq). The loss is the sum over all draws of minus the log-probability. It is
convex: log-sum-exp of linear functions, minus linear ones.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.jit import jit
from pgmjax.data.domain import Clique, Domain
from pgmjax.estimation.losses.base import BoundLoss, Loss, check_arguments, of_host, unique_cliques
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.transcript import Transcript
from pgmjax.queries import Query

Asked = tuple[tuple[int, tuple[int, ...], Query], ...]


@dataclasses.dataclass(frozen=True)
class Draws(Loss):
    """The negative log-likelihood of a transcript's draws (nats).

    Its gradient in the answers of queries and negations, as fractions, is the sum over rounds of
    step * (t - 1) * (times drawn - samples * probability), and has expectation zero at the table's own
    answers. It is smooth, with a constant of at most step^2 * samples * sum (t - 1)^2 for probabilities,
    far above the curvature in practice: solvers start from a guess instead.

    Attributes:
        transcript: transcript of the game.

    References:
        McKenna et al. 2019, Algorithms 4 and 5.
    """

    name: ClassVar[str] = "draws"
    transcript: Transcript

    def __post_init__(self) -> None:
        checks.kind(self.transcript, Transcript, "this loss needs a Transcript, such as Release.transcript")

    def bind(
        self, domain: Domain, measurements: Sequence[LinearMeasurement], total: float, dtype: Any = "float32"
    ) -> BoundDraws:
        """Return the loss as a function of probabilities; it does not depend on the total.

        Raises:
            ValueError: measurements are given, or the domain is not the transcript's.
        """
        _, dtype = check_arguments(domain, measurements, total, dtype)
        if measurements:
            raise ValueError("the loss of a transcript's draws takes no measurements beside them.")
        if domain != self.transcript.domain:
            raise ValueError("the loss of a transcript's draws needs the domain of the transcript.")
        queries = self.transcript.queries
        cliques = unique_cliques([query.clique for query in queries])
        held = {frozenset(clique): place for place, clique in enumerate(cliques)}
        asked = []
        for query in queries:
            place = held[frozenset(query.clique)]
            asked.append((place, tuple(cliques[place].index(name) for name in query.clique), query))
        rows = self.transcript.rows
        return BoundDraws(
            cliques,
            tuple(domain.shape_of(clique) for clique in cliques),
            tuple(asked),
            self.transcript.before(),
            np.arange(self.transcript.rounds, dtype=dtype),
            (self.transcript.drawn % rows).astype(np.int32),
            np.where(self.transcript.drawn < rows, 1, -1).astype(dtype),
            np.asarray(float(self.transcript.step), dtype),
            float(self.transcript.step),
        )


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["before", "numbers", "rows", "signs", "step"],
    meta_fields=["cliques", "shapes", "asked"],
    drop_fields=["exact_step"],
)
@dataclasses.dataclass(frozen=True, eq=False)
class BoundDraws(BoundLoss):
    """The negative log-likelihood of draws as a loss of probabilities.

    Attributes:
        cliques: the cliques (static).
        shapes: the shape of each clique's table (static).
        asked: for each query the index of its clique, its axes there, and itself (static).
        before: number of earlier records that each query counts [rounds, queries].
        numbers: 0, 1, ..., the number of records before each round [rounds].
        rows: the drawn queries [rounds, samples].
        signs: 1, or -1 where a query's negation was drawn [rounds, samples].
        step: eta.
        exact_step: the same in float64, absent after a JAX transformation.
    """

    cliques: tuple[Clique, ...]
    shapes: tuple[tuple[int, ...], ...]
    asked: Asked
    before: Any
    numbers: Any
    rows: Any
    signs: Any
    step: Any
    exact_step: float | None = None

    def __call__(self, marginals: Sequence[Any]) -> jax.Array:
        """Return the loss."""
        rounds = (self.before, self.numbers, self.rows, self.signs)
        return _sum_of_rounds(self._answers(marginals, jnp), self.step, rounds)

    def cast(self, dtype: Any) -> BoundDraws:
        """Return the same loss with arrays of another type."""
        return dataclasses.replace(
            self,
            numbers=np.asarray(self.numbers, dtype),
            signs=np.asarray(self.signs, dtype),
            step=np.asarray(of_host(self.exact_step), dtype),
        )

    def exact(self, marginals: Sequence[np.ndarray]) -> float:
        """Return the loss in float64."""
        step = of_host(self.exact_step)
        answers = self._answers([np.asarray(table, np.float64) for table in marginals], np)
        loss = 0.0
        for number, (before, rows, signs) in enumerate(zip(self.before, self.rows, self.signs, strict=True)):
            lean = step * (number * answers - before)
            top = np.abs(lean).max()
            largest = top + np.log(np.sum(np.exp(lean - top) + np.exp(-lean - top)))
            loss += float(np.sum(largest + signs * lean[rows]))
        return loss

    def _answers(self, marginals: Sequence[Any], xp: Any) -> Any:
        parts = [
            query.apply(xp.transpose(marginals[place], axes), xp).reshape(-1)
            for place, axes, query in self.asked
        ]
        return xp.concatenate(parts)


@functools.partial(jit, compiler_options=None)
def _sum_of_rounds(answers: jax.Array, step: Any, rounds: tuple[Any, ...]) -> jax.Array:
    """Sum round by round: memory of a single round, and no precision lost in a large sum."""

    @jax.checkpoint
    def add(loss: jax.Array, game: tuple[Any, ...]) -> tuple[jax.Array, None]:
        before, number, rows, signs = game
        lean = step * (number * answers - before)
        largest = jax.nn.logsumexp(jnp.concatenate([lean, -lean]))
        return loss + jnp.sum(largest + signs * lean[rows]), None

    return jax.lax.scan(add, jnp.zeros((), answers.dtype), rounds)[0]
