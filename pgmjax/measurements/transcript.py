"""The transcript of a game of DualQuery: the drawn queries and the records that answer them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax._internal import checks, formats
from pgmjax.data.domain import Clique, Domain
from pgmjax.queries import Query, integers, marginal
from pgmjax.queries.workload import Workload


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Transcript:
    """Everything released by a game. Only the draws depend on the table directly.

    Queries are numbered row by row: first those of all `queries`, then their negations 1 - q in the same
    order.

    Attributes:
        domain: the public domain.
        queries: the queries of the game, with entries 0 or 1.
        count: the number of records, public.
        step: eta, exact: round t draws a query q with probability proportional to
            exp(-step * (sum over the records x of earlier rounds of (q(table) / count - q(x)))).
        drawn: numbers of the drawn queries, int64 [rounds, samples].
        records: codes of each round's record in the domain's order, int64 [rounds, attributes].

    Raises:
        ValueError: there is no query, or the arrays are inconsistent.

    References:
        Gaboardi, Gallego Arias, Hsu, Roth and Wu 2014, "Dual Query: practical private query release for
        high dimensional data".
    """

    domain: Domain
    queries: tuple[Query, ...]
    count: int
    step: Fraction
    drawn: np.ndarray
    records: np.ndarray

    def __post_init__(self) -> None:
        if not self.queries:
            raise ValueError("a transcript needs at least one query, got none.")
        for query in self.queries:
            integers.check_indicators(query, self.domain)
        for name in ("drawn", "records"):
            array = np.array(getattr(self, name))
            if array.ndim != 2 or array.dtype.kind not in "iu" or array.size == 0:
                raise ValueError(f"{name} must be integers with two axes, got {array.dtype} {array.shape}.")
            array = array.astype(np.int64)
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        checks.refuse(
            (
                len(self.drawn) != len(self.records),
                f"there must be draws and a record for each round, got {len(self.drawn)} and "
                f"{len(self.records)}.",
            ),
            (
                not 0 <= self.drawn.min() <= self.drawn.max() < 2 * self.rows,
                f"drawn queries must be numbered 0..{2 * self.rows - 1}.",
            ),
        )
        integers.check_codes(self.domain, self.records)

    @property
    def rounds(self) -> int:
        """The number of rounds."""
        return len(self.drawn)

    @property
    def samples(self) -> int:
        """The number of queries drawn per round."""
        return self.drawn.shape[1]

    @property
    def rows(self) -> int:
        """The number of queries, without their negations."""
        return sum(query.num_rows(self.domain) for query in self.queries)

    def answer(self, query: Query) -> np.ndarray:
        """Return the paper's answer to a 0/1 query: that of the records, scaled to the table's size.

        Returns:
            Counts, float64, in the query's shape.
        """
        integers.check_indicators(query, self.domain)
        ours = integers.count_records(query, self.domain, self.records)
        return (ours * (self.count / self.rounds)).reshape(query.shape(self.domain))

    def marginal(self, clique: Clique) -> np.ndarray:
        """Return the fraction of the records in each cell of a clique, [size of each attribute]."""
        counts = integers.count_records(marginal(clique), self.domain, self.records)
        return counts.reshape(self.domain.shape_of(clique)) / self.rounds

    def before(self) -> np.ndarray:
        """Return the number of records of earlier rounds counted by each query, int32 [rounds, rows]."""
        result = np.zeros((self.rounds, self.rows), dtype=np.int32)
        for number in range(1, self.rounds):
            one = self.records[number - 1 : number]
            counted = [integers.count_records(query, self.domain, one) for query in self.queries]
            result[number] = result[number - 1] + np.concatenate(counted)
        return result

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON-serialisable record that `read` accepts."""
        return {
            **formats.TRANSCRIPT.heading(),
            "attributes": list(self.domain.attributes),
            "queries": [query.to_spec() for query in self.queries],
            "count": self.count,
            "step": str(self.step),
            "drawn": self.drawn.tolist(),
            "records": self.records.tolist(),
        }

    def __repr__(self) -> str:
        return f"Transcript({self.rounds} rounds of {self.samples} draws from {2 * self.rows:,} queries)"


def read(record: Mapping[str, Any], domain: Domain) -> Transcript:
    """Return the transcript from the output of `Transcript.to_dict`.

    Raises:
        ValueError: an entry is missing or does not fit the domain.
    """
    names = ("attributes", "queries", "count", "step", "drawn", "records")
    lacking = [name for name in names if name not in record]
    if lacking:
        raise ValueError(f"the transcript lacks {', '.join(lacking)}.")
    if tuple(record["attributes"]) != domain.attributes:
        raise ValueError("the transcript is of a table with other attributes.")
    queries = tuple(entry.query for entry in Workload(record["queries"]).entries)
    count = checks.integer("count", record["count"], low=1)
    return Transcript(
        domain,
        queries,
        count,
        Fraction(checks.short_number("step", record["step"])),
        np.array(record["drawn"]),
        np.array(record["records"]),
    )
