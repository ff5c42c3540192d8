"""The two randomised responses that the paper's publishing is compared with, and what is read off them.

Every attribute of every row is perturbed on its own. Each gets the same share of gamma = exp(epsilon), so
that the whole row has gamma-amplification; both are then epsilon-DP for the replacement of one row.

References:
    Agrawal, Srikant and Thomas 2005, "Privacy preserving OLAP" (retention replacement). Mishra and Sandler
    2006, "Privacy via pseudorandom sketches" (flipping).
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

CHUNK = 20_000


@dataclasses.dataclass(frozen=True)
class Retention:
    """A value is kept with probability p, otherwise replaced by a uniform one.

    Attributes:
        columns: perturbed codes [rows] by attribute.
        sizes: of every attribute.
        gamma: amplification of one attribute.
    """

    columns: dict
    sizes: dict
    gamma: float

    @classmethod
    def of(cls, columns, sizes, epsilon, seed):
        """Perturb a table."""
        rng = np.random.default_rng(seed)
        gamma = math.exp(epsilon / len(sizes))
        perturbed = {}
        for name, column in columns.items():
            keep = rng.random(len(column)) < cls._kept(gamma, sizes[name])
            perturbed[name] = np.where(keep, column, rng.integers(sizes[name], size=len(column)))
        return cls(perturbed, sizes, gamma)

    @staticmethod
    def _kept(gamma, size):
        return (gamma - 1) / (gamma - 1 + size)

    def unbiased(self, name, part):
        """Unbiased one-hot rows of some records [records, size]: their products estimate joint counts."""
        kept = self._kept(self.gamma, self.sizes[name])
        seen = np.eye(self.sizes[name], dtype=np.float32)[self.columns[name][part]]
        return (seen - np.float32((1 - kept) / self.sizes[name])) / np.float32(kept)


@dataclasses.dataclass(frozen=True)
class Flipping:
    """A value becomes a vector with a one in its place, of which every bit is flipped with one probability.

    Two values differ in two bits, so a bit is kept with odds exp(share / 2).
    """

    bits: dict
    flip: float

    @classmethod
    def of(cls, columns, sizes, epsilon, seed):
        """Perturb a table."""
        rng = np.random.default_rng(seed)
        flip = 1 / (1 + math.exp(epsilon / len(sizes) / 2))
        bits = {}
        for name, column in columns.items():
            drawn = rng.random((len(column), sizes[name]), dtype=np.float32) < flip
            drawn[np.arange(len(column)), column] ^= True
            bits[name] = drawn
        return cls(bits, flip)

    def unbiased(self, name, part):
        """Unbiased one-hot rows of some records [records, size]."""
        return (self.bits[name][part].astype(np.float32) - np.float32(self.flip)) / np.float32(
            1 - 2 * self.flip
        )


def joint(response, clique, rows):
    """Estimated joint probabilities of some attributes [size of each]: the mean product of unbiased rows."""
    total = 0.0
    for start in range(0, rows, CHUNK):
        part = slice(start, min(start + CHUNK, rows))
        left = response.unbiased(clique[0], part)
        for name in clique[1:-1]:
            left = (left[:, :, None] * response.unbiased(name, part)[:, None, :]).reshape(len(left), -1)
        total = total + (left.T @ response.unbiased(clique[-1], part)).astype(np.float64)
    return (total / rows).reshape([response.unbiased(name, slice(0, 1)).shape[1] for name in clique])


def ranges(response, asked, rows):
    """Estimated shares of range conjunctions: `asked` lists mappings of attribute to (first, last) code."""
    result = np.zeros(len(asked))
    for start in range(0, rows, CHUNK):
        part = slice(start, min(start + CHUNK, rows))
        sums = {}
        for number, query in enumerate(asked):
            product = 1.0
            for name, (low, high) in query.items():
                if name not in sums:
                    ends = np.cumsum(response.unbiased(name, part), axis=1, dtype=np.float64)
                    sums[name] = np.pad(ends, ((0, 0), (1, 0)))
                product = product * (sums[name][:, high + 1] - sums[name][:, low])
            result[number] += product.sum()
    return result / rows
