"""One draw a cell: a run with noise that can be told apart shows where every single draw went.

Goodness of fit looks at distributions and misses a cell among many; replay freezes the noise and does not
look at it. Here each draw is a large number of its own. What was added to a released number is then one of
the draws, or something is wrong: no noise, a part of it, the sum of two, or a draw that another cell has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.measurements.noise import DiscreteNoise
from pgmjax.privacy import SeededBackend, partition
from pgmjax.privacy.response import KaryResponse, ResponseDistribution, UnaryResponse
from pgmjax.privacy.selection import SelectionDistribution, ThresholdNoise
from pgmjax.privacy.tape import Call, NonInterferenceError, Tape

_OFFSET = 1 << 26
"""Draws lie this far and up to twice as far from 0: neither sums nor differences of two are a draw."""


class CountingBackend(SeededBackend):
    """A backend that hands out numbers that can be told apart instead of noise, and counts what it hands out.

    The n-th draw, from 0, is 2^26 + n, with a minus sign where n is odd. Choices and responses are those of
    the `SeededBackend`, counted. It is for one run.

    Args:
        seed: of choices and responses.

    Example:
        >>> from pgmjax.measurements.noise import DiscreteLaplace
        >>> backend = CountingBackend(0)
        >>> backend.draw(DiscreteLaplace(1.0), 3) - 2**26
        array([         0, -134217729,          2])
        >>> backend.draws
        3
    """

    name = "counting"

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed, insecure=True)
        self.seed = None  # its numbers are not those of a seed, so that nobody makes a backend of it again
        self.draws = self.choices = self.responses = 0

    def restart(self) -> CountingBackend:
        """Return itself: what is counted is the whole run."""
        return self

    def draw(self, distribution: DiscreteNoise, size: int) -> np.ndarray:
        """Return the next numbers, int64 [size]."""
        checks.kind(distribution, DiscreteNoise, "distribution must be discrete noise")
        numbers = np.arange(self.draws, self.draws + size, dtype=np.int64)
        self.draws += size
        if self.draws > _OFFSET:
            raise ValueError(f"A run of at most {_OFFSET:,} draws can be told apart: ask for fewer cells.")
        return np.where(numbers % 2 == 0, 1, -1) * (_OFFSET + numbers)

    def choose(self, distribution: SelectionDistribution, scores: np.ndarray) -> int:
        """Return the index of a candidate."""
        self.choices += 1
        return super().choose(distribution, scores)

    def choose_several(
        self, distribution: SelectionDistribution, scores: np.ndarray, draws: int
    ) -> np.ndarray:
        """Return the indices of independent choices, int64 [draws]."""
        before = self.choices
        chosen = super().choose_several(distribution, scores, draws)
        self.choices = before + draws
        return chosen

    def respond(self, distribution: KaryResponse, codes: np.ndarray) -> np.ndarray:
        """Return an answer for each true category."""
        self.responses += len(codes)
        return super().respond(distribution, codes)

    def respond_bits(self, distribution: UnaryResponse, codes: np.ndarray) -> np.ndarray:
        """Return a bit of each category for each true category."""
        self.responses += len(codes)
        return super().respond_bits(distribution, codes)

    def __repr__(self) -> str:
        return "CountingBackend()"


def check_draws(run: Callable[[CountingBackend], Any], seed: int = 0) -> int:
    """Check that every number which a run releases has exactly one draw, and every draw one number.

    Args:
        run: takes the source of noise and runs a mechanism with it on a table. It may end with an error, also
            half way: what it released until then is looked at.
        seed: of the source's choices and responses.

    Returns:
        How many released numbers carry a draw.

    Trees of cells release none of their draws, but say how many nodes they had one for. Counts of keys are
    told apart on tables with a few dozen keys.

    Raises:
        NonInterferenceError: a number without a draw of its own, a draw in two numbers or in none, draws in
            another order than they were drawn, or more or fewer choices or responses than were released.

    Example:
        >>> import pgmjax as pj
        >>> data = pj.Dataset.from_columns(pj.Domain({"a": 3}), {"a": [0, 2, 2]})
        >>> def run(backend):
        ...     table = pj.privacy.PrivateTable(data, pj.Relation.ADD_REMOVE, pj.privacy.Budget(1), backend)
        ...     return table.measure([pj.queries.marginal(["a"])], epsilons=[1])
        >>> check_draws(run)
        3
    """
    backend, tape = CountingBackend(seed), Tape()
    ended = True
    with tape.recording():
        try:
            run(backend)
        except NonInterferenceError:
            raise
        except Exception:  # draws that were made for what is not released
            ended = False
    carried = [
        _carried(number, call, *_noisy(call, released))
        for number, (call, released) in enumerate(zip(tape.calls, tape.releases, strict=True), start=1)
        if isinstance(call.distribution, DiscreteNoise) and call.kind != "tree"
    ]
    numbers = np.concatenate([np.zeros(0, dtype=np.int64), *carried])
    if np.unique(numbers).size != numbers.size:
        raise NonInterferenceError(
            "A draw of noise is in two released numbers: their difference shows exact counts."
        )
    if ended:
        kinds = [call.distribution for call in tape.calls]
        answered = sum(
            call.exact.size for call in tape.calls if isinstance(call.distribution, ResponseDistribution)
        )
        _compare("draws of noise", backend.draws, numbers.size + sum(map(_hidden, tape.calls, tape.releases)))
        _compare("choices", backend.choices, sum(isinstance(kind, SelectionDistribution) for kind in kinds))
        _compare("responses", backend.responses, answered)
    return int(numbers.size)


def _noisy(call: Call, released: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the noisy numbers among what is released [rows] and the exact ones; keys in the order drawn."""
    if call.kind != "keys":
        return released, call.exact
    keys, missing, other, _ = partition.unpacked(released, 0)
    noisy = np.array([other, missing, *keys.values()])
    exact = call.exact[[partition.OTHER, partition.MISSING, *map(partition.place_on_tape, keys)]]
    drawn = np.argsort(np.abs(noisy - exact), kind="stable")  # keys are released by their texts
    return noisy[drawn], exact[drawn]


def _carried(number: int, call: Call, released: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Return the numbers of the draws that a call's released numbers carry, int64 [rows]."""
    added = np.asarray(released - exact)
    if added.dtype != np.int64:
        raise NonInterferenceError(f"Call {number} ({call.kind}) releases {added.dtype}; it must be int64.")
    draws = np.abs(added) - _OFFSET
    whole = (draws >= 0) & (draws < _OFFSET) & ((added > 0) == (draws % 2 == 0))
    if not whole.all():
        row = int(np.flatnonzero(~whole)[0])
        raise NonInterferenceError(
            f"Call {number} ({call.kind}) releases {int((~whole).sum()):,} of {whole.size:,} numbers without "
            f"a draw of noise of their own, the first in row {row:,}."
        )
    if (np.diff(draws) <= 0).any():
        raise NonInterferenceError(
            f"Call {number} ({call.kind}) adds draws in another order than they were drawn, or one of them "
            "twice."
        )
    return draws


def _hidden(call: Call, released: np.ndarray) -> int:
    """Return how many draws a call uses that no released number carries."""
    if call.kind == "tree":
        return _nodes(call, {*released.tolist()})
    if call.kind == "keys":
        return int(np.count_nonzero(call.exact[partition.FIRST :])) - int(released[partition.FIRST])
    if not isinstance(call.distribution, ThresholdNoise):
        return 0
    return 1 if call.parameters[-1] else 2  # the first question draws the threshold too


def _nodes(call: Call, edges: set[int]) -> int:
    """Return how many nodes of a tree with these edges were asked whether they split, a draw each."""
    _, cells, _, most = call.parameters
    ends, found, asked = [(0, cells)], 2, 0
    while ends and ends[0][1] - ends[0][0] > 1 and found <= most:
        asked += len(ends)
        middles = [(first, (first + last) // 2, last) for first, last in ends]
        split = [node for node in middles if node[1] in edges]
        ends = [half for first, middle, last in split for half in ((first, middle), (middle, last))]
        found += len(split)
    return asked


def _compare(what: str, handed: int, used: int) -> None:
    if handed != used:
        raise NonInterferenceError(
            f"{handed:,} {what} were made and {used:,} were released: some are thrown away, made past the "
            "choke point or used twice."
        )
