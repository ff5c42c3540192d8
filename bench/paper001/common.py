"""What the experiments of this folder share: histograms and range queries."""

from __future__ import annotations

import dataclasses
import functools
import gzip
import os
import pathlib
import sys

import numpy as np

FOLDER = pathlib.Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent))

import harness  # noqa: E402, F401  before the library

import pgmjax as pj  # noqa: E402
from pgmjax.data.relation import Relation  # noqa: E402
from pgmjax.learning.encodings import CellWeights  # noqa: E402
from pgmjax.privacy.budget import Budget  # noqa: E402
from pgmjax.privacy.private_table import PrivateTable  # noqa: E402
from pgmjax.privacy.seeded import SeededBackend  # noqa: E402
from pgmjax.queries import DenseMatrix, Query  # noqa: E402
from pgmjax.queries.random import distinct_ranges  # noqa: E402

LARGE = ("NETTRACE", "SEARCHLOGS", "FACEBOOK")
NAMES = (*LARGE, "SIMULATED")
CLIQUE = ("cell",)
CELLS = 4096


@dataclasses.dataclass(frozen=True, eq=False)
class Histogram:
    """A named histogram.

    Attributes:
        name: one of `NAMES`.
        counts: of the cells, int64 [cells].
    """

    name: str
    counts: np.ndarray

    @functools.cached_property
    def domain(self) -> pj.Domain:
        """One attribute, the cell."""
        return pj.Domain({"cell": len(self.counts)})

    @functools.cached_property
    def data(self) -> pj.Dataset:
        """The table with one record a count."""
        cells = np.repeat(np.arange(len(self.counts)), self.counts)
        return pj.Dataset.from_columns(self.domain, {"cell": cells})

    def answers(self, queries: np.ndarray) -> np.ndarray:
        """Return the true answers [queries] to rows of weights [queries, cells]."""
        return queries @ self.counts.astype(float)

    def measured(self, query: Query, epsilon: str, seed: int) -> np.ndarray:
        """Return answers with discrete Laplace noise of scale (L1 sensitivity) / epsilon, add-remove."""
        backend = SeededBackend(seed, insecure=True)
        table = PrivateTable(self.data, Relation.ADD_REMOVE, Budget(epsilon), backend)
        (found,) = table.measure([query], epsilons=[epsilon], show_progress=False)
        return np.asarray(found.flat_values(), float)


@functools.cache
def histogram(name: str) -> Histogram:
    """Return one of the four histograms."""
    if name == "SIMULATED":  # ten bins with random numbers; the seed makes the experiment's input
        return Histogram(name, np.random.default_rng(2017).integers(0, 1000, 10))
    folder = os.environ.get("PGMJAX_DATA")
    if not folder:
        raise SystemExit("PGMJAX_DATA must name the folder that holds dpbench/ and facebook/")
    if name == "FACEBOOK":
        with gzip.open(pathlib.Path(folder) / "facebook" / "facebook_combined.txt.gz", "rt") as file:
            ends = np.loadtxt(file, dtype=np.int64).reshape(-1)
        return Histogram(name, np.bincount(ends, minlength=CELLS))
    counts = np.load(pathlib.Path(folder) / "dpbench" / f"{name}.n4096.npy")
    return Histogram(name, counts.astype(np.int64))


def sampled(cells: int, number: int, seed: int) -> Query:
    """Return test queries: different random ranges, of ten cells different random subsets."""
    domain = pj.Domain({"cell": cells})
    if cells > 10:
        return distinct_ranges(domain, CLIQUE, number, 1000 + seed)
    codes = 1 + np.random.default_rng(1000 + seed).permutation(2**cells - 1)[:number]
    return DenseMatrix(CLIQUE, (codes[:, None] >> np.arange(cells)) & 1)


def rows(query: Query, cells: int) -> np.ndarray:
    """Return the weights of the cells [queries, cells]."""
    return CellWeights().encode(query, pj.Domain({"cell": cells}), CLIQUE)


def sensitivity(query: Query, cells: int) -> int:
    """Return the L1 sensitivity under add-remove."""
    return int(query.l1_sensitivity(Relation.ADD_REMOVE, pj.Domain({"cell": cells})))
