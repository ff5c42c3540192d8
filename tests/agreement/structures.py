"""Ten small structures, random models on them, and the truth: all cells of all draws at once, in NumPy.

Nothing of the library is used here but `Domain` and `GraphicalModel.from_potentials`, to make what is tested.
"""

import dataclasses
import functools
import itertools
import string

import numpy as np
import pytest

import pgmjax as pj

STRUCTURES = {
    "chain": ((2, 3, 4, 3, 2), ("ab", "bc", "cd", "de")),
    "star": ((3, 2, 4, 3, 2), ("ab", "ac", "ad", "ae")),
    "cycle of four": ((3, 2, 4, 3), ("ab", "bc", "cd", "da")),
    "all pairs of four": ((2, 3, 4, 3), ("ab", "ac", "ad", "bc", "bd", "cd")),
    "tree with triples": ((2, 3, 2, 3, 4, 2), ("abc", "cde", "cf")),
    "grid": ((2, 3, 2, 3, 2, 3), ("ab", "bc", "de", "ef", "ad", "be", "cf")),
    "parts": ((3, 4, 2, 3, 2), ("ab", "cde")),
    "one clique": ((3, 4, 2), ("bca",)),
    "overlapping triples": ((2, 3, 4, 2, 3), ("abc", "cbd", "cde", "ead")),
    "free attributes": ((3, 4, 2, 3), ("ba",)),
}
DRAWS = 200
QUICK = 8
# every structure has draws of all four kinds: plain, with structural zeros, with a wide spread, with both
SPREADS, ZEROS = (1.0, 1.0, 30.0, 30.0), (0.0, 0.3, 0.0, 0.3)


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """Draws of log-potentials on one structure, with every cell of every joint.

    Attributes:
        domain: the attributes.
        cliques: attribute names of each potential.
        tables: for each clique log-potentials [draws, size of each attribute].
        logits: their sums [draws, size of each attribute of the domain].
        shares: the probabilities, in the same shape.
    """

    domain: pj.Domain
    cliques: tuple[tuple[str, ...], ...]
    tables: tuple[np.ndarray, ...]
    logits: np.ndarray
    shares: np.ndarray

    @property
    def draws(self):
        return range(len(self.logits))

    def model(self, draw):
        """The library's model of a draw, for 1,000 records."""
        potentials = {c: t[draw] for c, t in zip(self.cliques, self.tables, strict=True)}
        return pj.GraphicalModel.from_potentials(self.domain, potentials, total=1000.0)

    def log_partition(self, draw, allowed=None):
        """Log of the sum over the cells that are allowed; boolean [size of each attribute]."""
        logits = self.logits[draw] if allowed is None else np.where(allowed, self.logits[draw], -np.inf)
        top = logits.max()
        return top + np.log(np.exp(logits - top).sum()) if np.isfinite(top) else -np.inf

    def marginal(self, draw, clique):
        """Probabilities of some attributes, axes in the order asked for."""
        return summed(self.domain, self.shares[draw], clique)

    def impossible(self, draw, clique):
        """Where structural zeros leave no cell at all, booleans [size of each attribute]."""
        return summed(self.domain, np.isfinite(self.logits[draw]), clique) == 0

    def agreeing(self, evidence):
        """Which cells agree with lists of allowed codes, booleans [size of each attribute]."""
        found = np.ones(self.domain.shape, bool)
        for axis, name in enumerate(self.domain.attributes):
            if name in evidence:
                wanted = np.isin(np.arange(self.domain[name]), evidence[name])
                found &= np.expand_dims(wanted, [i for i in range(found.ndim) if i != axis])
        return found


def summed(domain, table, clique):
    """A table over all attributes, summed to some, axes in the order asked for."""
    names = domain.attributes
    kept = [name for name in names if name in clique]
    table = table.sum(axis=tuple(i for i, name in enumerate(names) if name not in clique))
    return table.transpose([kept.index(name) for name in clique])


def sets(domain, cliques):
    """The cliques of a model, all its pairs, and three attributes far apart, in an unusual order."""
    names = domain.attributes
    return dict.fromkeys([*cliques, *itertools.combinations(names, 2), (names[-1], names[0], names[1])])


@functools.cache
def case(name, draws):
    """The first draws of a structure."""
    sizes, words = STRUCTURES[name]
    domain = pj.Domain(dict(zip(string.ascii_lowercase, sizes, strict=False)))
    cliques = tuple(tuple(word) for word in words)
    generator = np.random.default_rng(list(STRUCTURES).index(name))
    kinds = np.arange(DRAWS) % len(SPREADS)
    tables = []
    for clique in cliques:
        shape = domain.shape_of(clique)
        ones = (slice(None), *(None for _ in shape))
        table = np.array(SPREADS)[kinds][ones] * generator.normal(size=(DRAWS, *shape))
        table[generator.random(table.shape) < np.array(ZEROS)[kinds][ones]] = -np.inf
        first = (slice(None), *(0 for _ in shape))
        table[first] = np.where(np.isfinite(table[first]), table[first], 0.0)  # one cell is always possible
        tables.append(table[:draws])
    logits = np.zeros((draws, *domain.shape))
    for clique, table in zip(cliques, tables, strict=True):
        order = [clique.index(n) for n in domain.attributes if n in clique]
        turned = table.transpose(0, *(1 + i for i in order))
        logits += turned.reshape(draws, *(domain[n] if n in clique else 1 for n in domain.attributes))
    axes = tuple(range(1, logits.ndim))
    weights = np.exp(logits - logits.max(axis=axes, keepdims=True))
    return Case(domain, cliques, tuple(tables), logits, weights / weights.sum(axis=axes, keepdims=True))


def over_structures(function):
    """Run a test on each structure: over some draws, and over all of them where slow tests run."""
    sizes = [pytest.param(QUICK, id="quick"), pytest.param(DRAWS, id="all", marks=pytest.mark.slow)]
    return pytest.mark.parametrize("draws", sizes)(pytest.mark.parametrize("name", STRUCTURES)(function))
