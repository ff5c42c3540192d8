"""How many random queries to train on: more of them need more noise each, fewer leave more to the model."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.learning.choice import training_query
from pgmjax.learning.factor_rows import cell_rows
from pgmjax.learning.random_queries import check_matrix, ranges_there_are

_ASKED = 256
_OTHER_SEED = 1 << 31  # fresh queries are drawn apart from those of training


@dataclasses.dataclass(frozen=True)
class ErrorTerms:
    """Expected squared errors of a fresh query, by number of training queries (counts squared).

    Attributes:
        counts: numbers of training queries, ascending.
        noise: from the noise of the training answers.
        model: from what the training queries leave open.
    """

    counts: tuple[int, ...]
    noise: tuple[float, ...]
    model: tuple[float, ...]

    @property
    def best(self) -> int:
        """The number whose two errors add up to least."""
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
    """Return both errors of least squares of least norm on cells, trained on random queries.

    The noise term is exact. The model term is the expectation over histograms whose shares have a symmetric
    Dirichlet law of parameter c, ``E x x^T = records**2 (I + c 1 1^T) / (k (k c + 1))`` on k cells. Fresh
    queries are drawn as those of training.

    Args:
        training: "random" or "random_subsets".
        clique: the attributes.
        domain: their sizes.
        records: the number of records, public or guessed.
        noise_variance: of each training answer, by the number of training queries that the same cell is in.
        concentration: c above, > 0: 1 makes all histograms equally likely, less puts the records in fewer
            cells. With 0.01 the root of the term was between a quarter and five times that of the public
            histograms NETTRACE and SEARCHLOGS of 4,096 cells, with 1 down to a thirtieth.
        most: consider no more training queries than this.
        seed: of the training queries: the ones that `training_query` draws.

    References:
        Zhu et al. 2017, section III-C and Theorems IV.2 and IV.4, for the trade-off. Their bounds are not
        what is balanced here: their sum is least near records * epsilon / 2 queries, far beyond any use.

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
