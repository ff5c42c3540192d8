"""Simulated tables over a public domain, with their exact answers to a workload.

They are drawn by a rule that knows nothing of any real table, so their exact counts are nobody's.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from pgmjax import random
from pgmjax._internal import checks
from pgmjax._internal.memory import available_bytes, readable_bytes
from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.queries.workload import Workload

KINDS = {"independent": (0, 0.0), "tree": (1, 0.4), "dense": (3, 0.7)}
"""The kinds of simulated tables: parents of an attribute, and the share of records that copy one of them."""
_BYTES = 32  # per record and attribute of a simulated table, while it is drawn


def simulated_table(domain: Domain, records: int, kind: str, seed: int) -> dict[str, np.ndarray]:
    """Return a simulated table, which knows nothing of any real one but the domain and the number of records.

    The shares of an attribute's values are proportional to 1, 1/2, 1/3, ..., in random order (Zipf's law).
    Attributes are drawn in random order. "independent": each by itself. "tree": four tenths of the records,
    chosen at random, copy their rank in one earlier attribute. "dense": seven tenths copy it from one of
    three earlier attributes, each record from its own. A rank is a uniform number within the share of the
    record's value, counted from the first value, so copying it keeps the shares of the values.

    Args:
        domain: the attributes and their sizes.
        records: number of records.
        kind: "independent", "tree" or "dense".
        seed: seed of all random choices.

    Returns:
        Codes, int64 [records], by attribute.

    Raises:
        ValueError: an unknown kind, no records, or more than fit in memory.

    Example:
        >>> table = simulated_table(Domain({"a": 3, "b": 2}), 1000, "tree", seed=0)
        >>> sorted(np.bincount(table["a"]).tolist(), reverse=True)[0] > 400
        True
    """
    records = checks.integer("records", records, low=1)
    parents, copied = KINDS[checks.choice("kind", kind, tuple(KINDS))]
    if (need := records * len(domain) * _BYTES) > (limit := available_bytes()):
        raise ValueError(
            f"A simulated table of {records:,} records needs {readable_bytes(need)}, and "
            f"{readable_bytes(limit)} is available: give fewer records."
        )
    (generator,) = random.generators(seed, 1)  # not the stream of the noise of this seed
    drawn: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    columns = {}
    for name in generator.permutation(np.array(domain.attributes, dtype=object)):
        shares = 1 / (1 + generator.permutation(domain[name]))
        shares /= shares.sum()
        rank = generator.random(records)
        if parents and drawn:
            earlier = generator.permutation(len(drawn))[:parents]
            chosen = earlier[generator.integers(len(earlier), size=records)]
            copies = generator.random(records) < copied
            for parent in earlier:
                tops, widths, values = drawn[parent]
                # anywhere within the value, so that a copy depends on the value alone
                copy = tops[values] - widths[values] * generator.random(records)
                rank = np.where(copies & (chosen == parent), copy, rank)
        ends = np.cumsum(shares)
        codes = np.minimum(np.searchsorted(ends, rank, side="right"), len(shares) - 1)
        drawn.append((ends, shares, codes))
        columns[name] = codes
    return {name: columns[name] for name in domain}


@dataclasses.dataclass
class SimulatedTable:
    """A simulated table with its exact answers to a workload.

    Attributes:
        domain: its domain.
        workload: the queries.
        columns: codes, int64 [records], by attribute.
        queries: of the workload's entries.
        exact: their exact answers (counts), float64 [rows of each].
    """

    domain: Domain
    workload: Workload
    columns: Mapping[str, np.ndarray]

    def __post_init__(self) -> None:
        self.queries = [entry.query for entry in self.workload.entries]
        self.exact = [query.apply(self._counts(query.clique)).ravel().astype(float) for query in self.queries]

    def error(self, answers: Iterable[np.ndarray]) -> float:
        """Return the mean over entries of the L1 distance relative to the L1 norm of the exact answers."""
        pairs = zip(self.exact, answers, strict=True)
        return float(
            np.mean([np.abs(true - np.ravel(a)).sum() / (np.abs(true).sum() or 1.0) for true, a in pairs])
        )

    def product(self) -> Iterator[np.ndarray]:
        """Yield the answers of the product of the exact one-way marginals."""
        for query in self.queries:
            one_way = [self._counts((name,)) for name in query.clique]
            total = one_way[0].sum()
            yield query.apply(functools.reduce(np.multiply.outer, (each / total for each in one_way)) * total)

    def _counts(self, clique: Clique) -> np.ndarray:
        shape = self.domain.shape_of(clique)
        cells = np.ravel_multi_index([self.columns[name] for name in clique], shape)
        return np.bincount(cells, minlength=self.domain.size(clique)).reshape(shape)
