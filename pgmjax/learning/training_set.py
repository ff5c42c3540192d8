"""Training sets: the attributes that are learned together, and the queries that a model is trained on.

Training queries are covering ones of low sensitivity, or random ones. More random queries need more noise
each; fewer cause a larger model error. `error_terms` returns both errors by the number of queries.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.domain import Clique, Domain
from pgmjax.data.relation import Relation
from pgmjax.learning.encodings import CellWeights, Encoding, Factors, cell_rows
from pgmjax.queries import Code, DenseMatrix, Product, Query, identity, marginal, ranges
from pgmjax.queries.blocks import AttributeQuery
from pgmjax.queries.query import MAX_MATRIX_ENTRIES
from pgmjax.queries.random import check_matrix, distinct_ranges, random_subsets, ranges_there_are
from pgmjax.queries.workload import Entry, Workload
from pgmjax.strategies import fixed, strategy

UNIVERSES = ("auto", "joint", "cliques")
MAX_JOINT_CELLS = 1 << 12
"""Universe "auto" uses one learner for all attributes up to this number of cells."""

COVERING = ("identity", "tree", "hb", "opt_0")
"""Trainings whose answers determine every cell (OPT_0: every query of the workload)."""

RANDOM = ("random", "random_subsets")
"""Trainings that draw a given number of random queries."""

TRAININGS = (*COVERING, "workload", *RANDOM)
"""All trainings; "workload" are the queries of the workload themselves."""

_ASKED = 256
_OTHER_SEED = 1 << 31  # fresh queries use another seed than those of training


@dataclasses.dataclass(frozen=True, eq=False)
class TrainingSet:
    """The attributes and training queries of one learner.

    Attributes:
        clique: the attributes; the learner answers queries on any of them.
        queries: the training queries, on some or all of the attributes.
        encodings: float64 [rows of all queries, dimensions].
        scales: divisors of the answers, float64 [rows of all queries]: 1, or for the encoding "cells" the
            larger of 1 and the query's largest weight, so that encodings are in -1..1.
    """

    clique: Clique
    queries: tuple[Query, ...]
    encodings: np.ndarray
    scales: np.ndarray

    @classmethod
    def of(cls, clique: Clique, queries: Sequence[Query], encoding: Encoding, domain: Domain) -> TrainingSet:
        """Return a training set with its queries encoded.

        Raises:
            ValueError: queries that cannot be encoded, or different ones with the same vector.
        """
        tables = [encoding.encode(query, domain, clique) for query in queries]
        scaled = isinstance(encoding, CellWeights)
        scales = [max(1.0, float(np.abs(table).max())) if scaled else 1.0 for table in tables]
        encodings = np.concatenate([table / scale for table, scale in zip(tables, scales, strict=True)])
        _check_distinguished(encodings, clique, queries, encoding, domain)
        repeated = np.repeat(scales, [len(table) for table in tables])
        return cls(clique, tuple(queries), encodings, repeated)


def group_cliques(
    asked: Sequence[Clique], domain: Domain, encoding: Encoding, universe: str = "auto"
) -> dict[Clique, tuple[Clique, ...]]:
    """Return for each learner's attributes the sets of attributes that it is trained on.

    Args:
        asked: the attributes of each query to be answered.
        domain: the domain.
        encoding: the encoding of queries.
        universe: "joint" learns all attributes together; "cliques" trains on each maximal set of attributes
            separately, with one learner per set, or one for all with the encoding "factors"; "auto" is
            "joint" up to `MAX_JOINT_CELLS` cells.

    Raises:
        ValueError: unknown universe.

    Example:
        >>> domain = Domain({"a": 100, "b": 100, "c": 100})
        >>> group_cliques([("b", "a"), ("a",), ("b", "c")], domain, CellWeights())
        {('a', 'b'): (('a', 'b'),), ('b', 'c'): (('b', 'c'),)}
    """
    universe = checks.choice("universe", universe, UNIVERSES)
    named = {name for clique in asked for name in clique}
    everything = tuple(name for name in domain.attributes if name in named)
    if universe == "auto":
        universe = "joint" if domain.size(everything) <= MAX_JOINT_CELLS else "cliques"
    if universe == "joint":
        return {everything: (everything,)}
    sets = {frozenset(clique) for clique in asked}
    largest = [each for each in sets if not any(each < other for other in sets)]
    cliques = sorted(tuple(name for name in domain.attributes if name in each) for each in largest)
    if isinstance(encoding, Factors):
        return {everything: tuple(cliques)}
    return {each: (each,) for each in cliques}


def _check_distinguished(
    encodings: np.ndarray, clique: Clique, queries: Sequence[Query], encoding: Encoding, domain: Domain
) -> None:
    """Refuse an encoding that gives two different training queries the same vector."""
    if isinstance(encoding, CellWeights):
        return
    rows = sum(query.num_rows(domain) for query in queries)
    whole: Encoding = CellWeights() if rows * domain.size(clique) <= MAX_MATRIX_ENTRIES else Factors()
    apart = np.concatenate([whole.encode(query, domain, clique) for query in queries])
    different, seen = (len({row.tobytes() for row in table + 0.0}) for table in (apart, encodings))
    if seen < different:
        raise ValueError(
            f"the encoding {encoding.name!r} leaves training queries indistinguishable: {different:,} "
            f"different ones have {seen:,} vectors. Use the encoding 'cells', or another training."
        )


def training_query(
    training: str,
    clique: Clique,
    domain: Domain,
    *,
    workload: Workload | None = None,
    count: int | None = None,
    norm: str = "l1",
    relation: Relation = Relation.ADD_REMOVE,
    seed: int = 0,
) -> Query:
    """Return the training queries as one query; it uses no data.

    Args:
        training: "identity" (every cell), "tree" (binary trees with roots), "hb" (trees of the best
            branching), "opt_0" (optimised for `workload`, OPT_kron for several attributes), "workload" (its
            queries), "random" (ranges) or "random_subsets" (of cells).
        clique: the attributes.
        domain: the domain.
        workload: for "opt_0" and "workload", the queries to be answered; entries on other attributes are
            ignored.
        count: number of random queries; required by "random" and "random_subsets".
        norm: for "opt_0", "l1" for Laplace, "l2" for Gaussian noise.
        relation: for "opt_0", which tables are neighbours.
        seed: seed of random queries and of the starts of "opt_0", which are not noise.

    Returns:
        a query with integer entries; its rows are the training queries.

    Raises:
        ValueError: unknown training, a missing count or workload, or too many queries.

    References:
        Zhu et al. 2017, section III-C; Hay et al. 2010 (trees); Qardaji et al. 2013 (HB); McKenna et al.
        2018 (OPT_0, OPT_kron).

    Example:
        >>> query = training_query("tree", ("a",), Domain({"a": 4}))
        >>> query.num_rows(Domain({"a": 4})), query.l1_sensitivity(Relation.ADD_REMOVE, Domain({"a": 4}))
        (7, 3)
    """
    training = checks.choice("training", training, TRAININGS)
    if training == "identity":
        return marginal(clique)
    if training in ("tree", "hb"):
        return Product({name: _tree(training, domain[name]) for name in clique})
    if training in ("opt_0", "workload"):
        served = _served(training, clique, workload)
        if training == "workload":
            rows = np.concatenate([cell_rows(entry.query, domain, clique) for entry in served])
            return DenseMatrix(clique, np.unique(rows, axis=0))
        (query,) = strategy("kron", Workload(served), domain, norm, relation, seed=seed).queries
        return query
    if count is None:
        raise ValueError(f"the training {training!r} needs a count of queries.")
    return (distinct_ranges if training == "random" else random_subsets)(domain, clique, count, seed)


def validation_query(clique: Clique, domain: Domain, most: int = 31) -> Query:
    """Return ranges of several widths with low sensitivity: the tops of binary trees.

    Args:
        clique: the attributes; the largest are split most often.
        domain: the domain.
        most: maximum number of rows.

    Example:
        >>> query = validation_query(("a",), Domain({"a": 100}))
        >>> query.num_rows(Domain({"a": 100})), query.l1_sensitivity(Relation.ADD_REMOVE, Domain({"a": 100}))
        (31, 5)
    """
    most = checks.integer("the number of validation queries", most, low=1)
    depths = dict.fromkeys(clique, 0)
    while True:
        name = max(clique, key=lambda each: domain[each] >> depths[each])
        deeper = {**depths, name: depths[name] + 1}
        rows = math.prod(2 ** (depth + 1) - 1 for depth in deeper.values())
        if domain[name] >> depths[name] < 2 or rows > most:
            return Product({each: _top(domain[each], depth) for each, depth in depths.items()})
        depths = deeper


def validation_queries(training_sets: Sequence[TrainingSet], domain: Domain) -> list[Query]:
    """Return queries of low sensitivity on each learner's training attributes, for private validation."""
    cliques = dict.fromkeys(query.clique for training_set in training_sets for query in training_set.queries)
    return [validation_query(clique, domain) for clique in cliques]


def check_answerable(
    asked: Sequence[Query], training_sets: Sequence[TrainingSet], encoding: Encoding, domain: Domain
) -> None:
    """Check that learners of training sets can answer queries.

    Raises:
        ValueError: no learner has all attributes of a query, or a query cannot be encoded.
    """
    for query in asked:
        cliques = [each.clique for each in training_sets if set(query.clique) <= set(each.clique)]
        if not cliques:
            raise ValueError(f"the validation asks for {query.clique}, which no learner learns together.")
        encoding.encode(query, domain, min(cliques, key=domain.size))


@functools.lru_cache(maxsize=64)
def _tree(training: str, size: int) -> AttributeQuery:
    """Return a tree as ranges, which are answered without a matrix; the identity if it is that."""
    if size == 1:
        return identity()
    rows = fixed.h2(size) if training == "tree" else fixed.hb(size)
    if len(rows) == size:
        return identity()
    low, above = rows.argmax(axis=1), size - rows[:, ::-1].argmax(axis=1)
    return ranges((Code(a), Code(b - 1)) for a, b in zip(low, above, strict=True))


def _served(training: str, clique: Clique, workload: Workload | None) -> list[Entry]:
    """Return the entries of a workload on some of the attributes."""
    entries = () if workload is None else workload.entries
    served = [entry for entry in entries if set(entry.clique) <= set(clique)]
    if not served:
        raise ValueError(f"the training {training!r} needs a workload that asks for some of {clique}.")
    return served


def _top(size: int, depth: int) -> AttributeQuery:
    bounds = []
    for level in range(depth + 1):
        ends = [size * part // 2**level for part in range(2**level + 1)]
        bounds += [(Code(low), Code(above - 1)) for low, above in itertools.pairwise(ends)]
    return ranges(bounds)


@dataclasses.dataclass(frozen=True)
class ErrorTerms:
    """Expected squared errors of a fresh query, by number of training queries (counts squared).

    Attributes:
        counts: numbers of training queries, ascending.
        noise: errors due to the noise of the training answers.
        model: errors due to what the training queries do not determine.
    """

    counts: tuple[int, ...]
    noise: tuple[float, ...]
    model: tuple[float, ...]

    @property
    def best(self) -> int:
        """The number of queries with the smallest sum of both errors."""
        sums = np.add(self.noise, self.model)
        return self.counts[int(sums.argmin())]


def error_terms(
    training: str,
    clique: Clique,
    domain: Domain,
    *,
    records: int,
    noise_variance: Callable[[int], float],
    concentration: float = 0.01,
    most: int = 1024,
    seed: int = 0,
) -> ErrorTerms:
    """Return both errors of minimum-norm least squares on cells, trained on random queries.

    The noise term is exact. The model term is the expectation over histograms whose shares have a symmetric
    Dirichlet distribution with parameter c, ``E x x^T = records**2 (I + c 1 1^T) / (k (k c + 1))`` on k
    cells. Fresh queries are drawn like the training queries.

    Args:
        training: "random" or "random_subsets".
        clique: the attributes.
        domain: the domain.
        records: the number of records, public or guessed.
        noise_variance: function from the largest number of training queries that share a cell to the noise
            variance of each training answer.
        concentration: c above, > 0. With 1 all histograms are equally likely; smaller values concentrate the
            records in fewer cells. On the public histograms NETTRACE and SEARCHLOGS of 4,096 cells, the root
            of the term was 1/4 to 5 times the actual one with 0.01, and down to 1/30 with 1.
        most: maximum number of training queries.
        seed: seed of the training queries, as in `training_query`.

    References:
        Zhu et al. 2017, section III-C and Theorems IV.2 and IV.4, for the trade-off. Their bounds are not
        used here: their sum is smallest near records * epsilon / 2 queries, far too many in practice.

    Example:
        >>> terms = error_terms(
        ...     "random", ("a",), Domain({"a": 64}), records=500, noise_variance=lambda cover: 2.0 * cover**2
        ... )
        >>> terms.best
        32
    """
    records = checks.integer("the expected number of records", records, low=1)
    cells = domain.size(clique)
    concentration = checks.number("concentration", concentration, above=0)
    scale = records**2 / (cells * (cells * concentration + 1))
    most, fresh_ones = checks.integer("most", most, low=1), _ASKED
    if training == "random":
        existing = ranges_there_are(domain, clique)
        most, fresh_ones = min(most, existing), min(_ASKED, existing)
    check_matrix(domain, clique, max(most, _ASKED))
    rows = cell_rows(training_query(training, clique, domain, count=most, seed=seed), domain, clique)
    fresh = training_query(training, clique, domain, count=fresh_ones, seed=seed + _OTHER_SEED)
    asked = cell_rows(fresh, domain, clique)
    gram, shared = rows @ rows.T, asked @ rows.T
    norms, sums, row_sums = (asked**2).sum(axis=1), asked.sum(axis=1), rows.sum(axis=1)
    counts = sorted({min(most, round(2 ** (step / 2))) for step in range(4, 2 * most.bit_length() + 1)})
    noise, model = [], []
    for count in counts or [most]:
        weights = shared[:, :count] @ np.linalg.pinv(gram[:count, :count], hermitian=True)
        cover = int(rows[:count].sum(axis=0).max())
        noise.append(noise_variance(cover) * float((weights**2).sum(axis=1).mean()))
        left = np.maximum(norms - (weights * shared[:, :count]).sum(axis=1), 0)
        left_of_sums = sums - weights @ row_sums[:count]
        model.append(scale * float((left + concentration * left_of_sums**2).mean()))
    return ErrorTerms(tuple(counts or [most]), tuple(noise), tuple(model))
