"""Building blocks of randomised responses: groups of attributes with costs, and the answers in blocks.

Records are read once, in order, one memory-sized block at a time. `PrivateTable` controls the order of the
steps, and only it passes records; `mechanisms.randomized_response` and `local` consume the answers.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.progress import Progress
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Clique, Domain, as_clique
from pgmjax.data.encoding import code_dtype
from pgmjax.data.relation import Relation
from pgmjax.privacy import response, tape
from pgmjax.privacy.accounting.events import Response
from pgmjax.privacy.backend import NoiseBackend
from pgmjax.privacy.budget import SingleProcess
from pgmjax.privacy.exact import exact_epsilon
from pgmjax.privacy.gate import Gate
from pgmjax.privacy.sensitivity import RECORDS, Sensitivity

ENCODINGS = ("direct", "optimal-unary", "symmetric-unary")

_MOST_ROWS = 1 << 20
_FEWEST_ROWS = 1 << 10
_BLOCK_BITS = 1 << 26

Block = tuple[np.ndarray, ...]
"""The answers of some records for each group: categories [rows], or bits, bool [rows, size]."""


@dataclasses.dataclass(frozen=True)
class PlannedResponse:
    """A group of attributes with its response distribution and cost, all public.

    Attributes:
        attributes: the group; a record's category is its cell index, row-major in this order.
        encoding: one of `ENCODINGS`.
        distribution: distribution of the response given the category.
        event: its cost, for all records of a unit.
        records: the largest number of records of a unit.
    """

    attributes: Clique
    encoding: str
    distribution: response.ResponseDistribution
    event: Response
    records: int = 1

    @property
    def sensitivity(self) -> Sensitivity:
        """The number of records whose responses may change."""
        return Sensitivity(self.records, RECORDS, Relation.REPLACE_ONE)

    def describe(self) -> dict[str, Any]:
        """Return what was asked, for the records."""
        return {
            "attributes": list(self.attributes),
            "encoding": self.encoding,
            "size": self.distribution.size,
            "lie": repr(self.distribution.lie),
        }

    @property
    def bits(self) -> bool:
        """True if a record answers with one bit per category instead of a category."""
        return isinstance(self.distribution, response.UnaryResponse)

    def codes(self, domain: Domain, columns: dict[str, np.ndarray]) -> np.ndarray:
        """Return the categories of some records [rows]."""
        parts = [columns[name] for name in self.attributes]
        return parts[0] if len(parts) == 1 else np.ravel_multi_index(parts, domain.shape_of(self.attributes))

    def respond(self, backend: NoiseBackend, codes: np.ndarray) -> np.ndarray:
        """Return responses: categories [rows] of the smallest unsigned type, or bits, bool [rows, size]."""
        if isinstance(self.distribution, response.UnaryResponse):
            return backend.respond_bits(self.distribution, codes)
        return backend.respond(self.distribution, codes).astype(code_dtype(self.distribution.size))


def plan_responses(
    groups: Sequence[Any],
    epsilons: Sequence[Any],
    encodings: Sequence[str] | None,
    domain: Domain,
    relation: Relation,
    weighted: bool,
    backend: NoiseBackend,
    records: int = 1,
) -> tuple[PlannedResponse, ...]:
    """Return groups of attributes with the response distributions for their costs.

    A cost is that of the answers of a unit of `records` records together: each of them gets a part of it.

    Raises:
        TypeError: a group is not a list of names.
        ValueError: the relation is not REPLACE_ONE, the table is weighted, there is no group, the number
            of costs or encodings differs from that of groups, or a number of categories is out of range.
    """
    if relation is not Relation.REPLACE_ONE:
        raise ValueError(
            f"Randomised response works under {Relation.REPLACE_ONE.value} only, got {relation.value}: each "
            "record answers for itself, so that the answers show how many records there are."
        )
    if weighted:
        raise ValueError("Randomised response takes no weighted tables: every record answers once.")
    cliques = [as_clique(domain, group) for group in checks.several("groups", groups, "lists of names")]
    if not cliques:
        raise ValueError("There is nothing to answer for: give at least one group of attributes.")
    encodings = ["direct"] * len(cliques) if encodings is None else list(encodings)
    for name, given in (("epsilon", epsilons), ("encoding", encodings)):
        if len(given) != len(cliques):
            raise ValueError(f"There must be one {name} a group: expected {len(cliques)}, got {len(given)}.")
    return tuple(
        _planned(
            clique,
            checks.choice("encoding", encoding, ENCODINGS),
            exact_epsilon(cost),
            domain,
            backend,
            records,
        )
        for clique, encoding, cost in zip(cliques, encodings, epsilons, strict=True)
    )


def _planned(
    clique: Clique, encoding: str, cost: Fraction, domain: Domain, backend: NoiseBackend, records: int
) -> PlannedResponse:
    size = domain.size(clique)
    whole, cost = cost, cost / records
    check_size(clique, size, encoding)
    distribution: response.ResponseDistribution
    if encoding == "direct":
        distribution = backend.randomized_response(size, cost)
    else:
        distribution = backend.unary_response(size, cost, encoding == "symmetric-unary")
    return PlannedResponse(clique, encoding, distribution, Response(whole), records)


def check_size(clique: Clique, size: int, encoding: str) -> None:
    """Refuse a number of categories that the encoding does not support.

    Raises:
        ValueError: fewer than 2 categories, or more than the encoding supports.
    """
    largest = response.LARGEST_SIZE if encoding == "direct" else response.LARGEST_UNARY_SIZE
    if not 2 <= size <= largest:
        raise ValueError(
            f"The attributes {clique} together have {size:,} categories, and randomised response with the "
            f"encoding {encoding!r} answers for 2 to {largest:,}: choose other attributes, or answer for "
            "each attribute by itself."
        )


class Responses(SingleProcess):
    """The answers of the records, block by block in the order of the table; can be read only once.

    Attributes:
        planned: the groups, their distributions and costs, in the order of a block's parts.
        rows: number of records, public.

    Guarantees:
        A journal stores no answer of a single record, only sums over all of them (`counted`), unless the
        order of the table was declared public. Records answer once per charge.
    """

    def __init__(
        self,
        gate: Gate,
        planned: tuple[PlannedResponse, ...],
        data: Dataset,
        rows: int,
        show_progress: bool | None,
        row_order_is_public: bool,
    ):
        super().__init__()
        self.planned = planned
        self.rows = rows
        self._data = data
        self._gate = gate
        self._show = show_progress
        self._ordered = row_order_is_public
        self._read = False

    @property
    def domain(self) -> Domain:
        """The public domain of the table."""
        return self._data.domain

    @property
    def groups(self) -> tuple[Clique, ...]:
        """The groups of attributes."""
        return tuple(each.attributes for each in self.planned)

    @property
    def distributions(self) -> tuple[response.ResponseDistribution, ...]:
        """The distribution of each group's answers."""
        return tuple(each.distribution for each in self.planned)

    @property
    def distribution(self) -> response.KaryResponse:
        """The response distribution of a single group in the encoding "direct".

        Raises:
            ValueError: there are several groups, or the encoding is unary.
        """
        distribution = self.planned[0].distribution
        if len(self.planned) != 1 or not isinstance(distribution, response.KaryResponse):
            given = ", ".join(f"{each.attributes} in {each.encoding!r}" for each in self.planned)
            raise ValueError(
                f"These responses are no codes: expected one group in the encoding 'direct', got {given}."
            )
        return distribution

    def codes(self) -> Iterator[np.ndarray]:
        """Yield the categories [rows] of each block of a single group; raises as `__iter__` does."""
        return (block[0] for block in self)

    def blocks(self) -> Iterator[Block]:
        """Return an iterator over the blocks, as `__iter__` does."""
        return iter(self)

    def __iter__(self) -> Iterator[Block]:
        """Yield blocks: per group, categories [rows] or bits, bool [rows, size].

        Raises:
            RuntimeError: called in another process than the one that asked for the responses.
            ValueError: the responses were read before, since records answer only once per charge; or a
                journal would store them in an order that was not declared public.
            TableReadError: the table could not be read; the spend stays.
        """
        if self._gate._journal is not None and not self._ordered:
            raise ValueError(
                "These responses would be kept in the ledger in the order of the table, which was not said "
                "to be public: say respond(..., row_order_is_public=True) if it does not depend on private "
                "values, or have them counted (local.marginals_of, Responses.counted)."
            )
        self._begin()
        return self._blocks(self._journaled)

    def counted(self, asked: Any, count: Callable[[Iterator[Block]], np.ndarray]) -> np.ndarray:
        """Return sums over all records, the one thing about the responses that a journal then keeps.

        A run that is interrupted begins again: nothing was shown of its answers.

        Args:
            asked: what is counted, public and JSON-able.
            count: takes blocks and returns numbers, int64 [n], that add up over blocks and are the same for
                every order of the records.

        Raises:
            RuntimeError: another process than the one that asked for them.
            ValueError: they were read before: records answer once for what was charged.
            TableReadError: the table could not be read; the spend stays.

        Guarantees:
            What is returned and kept is the same for every order of the table, as `count` is: it is as
            private as the responses together, also where the order depends on private values.
        """
        self._begin()
        request = {**self._request(0, self.rows), "counted": asked}
        return self._gate._journaled(request, lambda: count(self._blocks(self._answered)))

    def _begin(self) -> None:
        self._check_process()
        if self._read:
            raise ValueError("These responses were read before, and records answer once: keep what was read.")
        self._read = True

    def _request(self, block: int, records: int) -> dict[str, Any]:
        asked = [each.describe() for each in self.planned]
        return {"respond": asked, "block": block, "records": records}

    def _blocks(self, give: Callable[[Reader, int, int], Block]) -> Iterator[Block]:
        # a tape sees each group of attributes pass once
        size = block_rows(self.planned) if self._gate._tape is None else self.rows
        names = list(dict.fromkeys(name for each in self.planned for name in each.attributes))
        reader = Reader(self._data, names, size)
        with Progress("responding", self.rows, self._show) as progress:
            for number, start in enumerate(range(0, self.rows, size)):
                self._check_process()
                count = min(size, self.rows - start)
                yield give(reader, number, count)
                progress.advance(count)

    def _journaled(self, reader: Reader, number: int, count: int) -> Block:
        if self._gate._journal is None:
            return self._answered(reader, number, count)
        request = self._request(number, count)
        words = self._gate._journaled(request, lambda: pack(self._answered(reader, number, count)))
        return unpack(words, self.planned, count)

    def _answered(self, reader: Reader, number: int, count: int) -> Block:
        codes = self._gate._withheld("Reading the table", self._codes, reader, number, count)
        return tuple(self._passed(each, part) for each, part in zip(self.planned, codes, strict=True))

    def _codes(self, reader: Reader, number: int, count: int) -> list[np.ndarray]:
        columns = reader.block(number)
        codes = [each.codes(self._data.domain, columns) for each in self.planned]
        if any(part.size != count for part in codes):
            raise ValueError("the table has another number of records than when it was validated.")
        return codes

    def _passed(self, planned: PlannedResponse, codes: np.ndarray) -> np.ndarray:
        if self._gate._tape is None:
            return planned.respond(self._gate._backend, codes)
        call = tape.Call(
            "response",
            (planned.attributes,),
            planned.distribution,
            planned.sensitivity,
            codes.astype(np.int64),
        )
        answers = self._gate._through_tape(
            call, lambda: planned.respond(self._gate._backend, codes).astype(np.int64).reshape(-1)
        )
        if planned.bits:
            return answers.astype(np.bool_).reshape(codes.size, planned.distribution.size)
        return answers.astype(code_dtype(planned.distribution.size))


def block_rows(planned: Sequence[PlannedResponse]) -> int:
    """Return the number of records per block, a public number so that a run can resume where it stopped."""
    bits = sum(each.distribution.size for each in planned if each.bits)
    return min(_MOST_ROWS, max(_FEWEST_ROWS, _BLOCK_BITS // max(1, bits)))


class Reader:
    """Reads a table once, in order, in blocks; nothing is read before the first block is requested.

    Args:
        data: the private table.
        names: the attributes to read.
        rows: records per block.
    """

    def __init__(self, data: Dataset, names: Sequence[str], rows: int):
        self._blocks = _of_equal_length(data, names, rows)
        self._next = 0

    def block(self, number: int) -> dict[str, np.ndarray]:
        """Return codes [rows] by attribute of a block after those requested so far.

        Blocks between were answered for in an earlier run, and are skipped.
        """
        skipped, self._next = number - self._next, number + 1
        return next(itertools.islice(self._blocks, skipped, None))


def _of_equal_length(data: Dataset, names: Sequence[str], rows: int) -> Iterator[dict[str, np.ndarray]]:
    """Yield codes by attribute in blocks of as many rows, the last one of the rest."""
    parts: list[dict[str, np.ndarray]] = []
    for batch in data.records(names):
        parts.append(batch)
        held = sum(len(part[names[0]]) for part in parts)
        if held < rows:
            continue
        joined = _joined(parts)
        whole = held - held % rows
        for start in range(0, whole, rows):
            yield {name: codes[start : start + rows] for name, codes in joined.items()}
        parts = [{name: codes[whole:] for name, codes in joined.items()}]
    yield _joined(parts)


def _joined(parts: Sequence[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    if len(parts) == 1:  # a table in memory comes as one batch, which is not copied
        return parts[0]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def pack(block: Block) -> np.ndarray:
    """Return a block as int64 words, for a journal."""
    flat = [np.packbits(part) if part.dtype == np.bool_ else part for part in block]
    content = b"".join(part.tobytes() for part in flat)
    # whole words, as journals store int64; `unpack` knows where the content ends
    return np.frombuffer(content + bytes(-len(content) % 8), dtype=np.int64)


def unpack(words: np.ndarray, planned: Sequence[PlannedResponse], rows: int) -> Block:
    """Return the block that `pack` packed."""
    content, parts, start = words.tobytes(), [], 0
    for each in planned:
        size = each.distribution.size
        if each.bits:
            packed = np.frombuffer(content, np.uint8, -(-rows * size // 8), start)
            bits = np.unpackbits(packed, count=rows * size).view(np.bool_)
            parts.append(bits.reshape(rows, size))
            start += packed.nbytes
        else:
            parts.append(np.frombuffer(content, code_dtype(size), rows, start))
            start += parts[-1].nbytes
    return tuple(parts)
