"""On-line private multiplicative weights, for experiments: floating-point noise, no private release.

Queries come one after another. A public histogram A, at first uniform, answers a query f if a noisy test says
that it is near enough; otherwise f is answered with noise and A is improved by it.

Guarantee, for real-valued noise: epsilon-DP under add-remove. epsilon = e_n + e_1 + e_2 + e_3. The total has
Laplace noise of scale 1 / e_n. The tests are one run of the sparse-vector technique over the queries
|f(x) - f(A)|, where A is a function of what was released before, with sensitivity 1 (f counts):
the threshold has one Laplace noise of scale 1 / e_1, each test one of scale 2 c / e_2, and it stops after
c tests above. Those c are answered with Laplace noise of scale c / e_3. Every later query is answered by A,
which costs nothing. Floating-point Laplace noise leaks through its lowest bits: this file makes no
release.

References:
    Hardt and Rothblum 2010, "A multiplicative weights mechanism for privacy-preserving data analysis"; Dwork
    and Roth 2014, section 4.2; Lyu, Su and Li 2017, "Understanding the sparse vector technique", Algorithm 7.
"""

from __future__ import annotations

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class PMW:
    """Settings.

    Attributes:
        updates: the most queries that are measured, c.
        threshold: of the tests, as a multiple of the scale of their noise.
        total_share: of epsilon, that measures the total.
        test_share: of epsilon, that tests.
        sweeps: how often an update goes through all answers so far, which costs nothing.
    """

    updates: int
    threshold: float
    total_share: float = 0.05
    test_share: float = 0.5
    sweeps: int = 10

    def scales(self, epsilon: float) -> dict[str, float]:
        """Return the scale of each Laplace noise (counts): total, threshold, test and answer."""
        ratio = (2 * self.updates) ** (2 / 3)  # the split with the least variance of a comparison
        first = epsilon * self.test_share / (1 + ratio)
        return {
            "total": 1 / (epsilon * self.total_share),
            "threshold": 1 / first,
            "test": 2 * self.updates / (first * ratio),
            "answer": self.updates / (epsilon * (1 - self.total_share - self.test_share)),
        }

    def answer(self, counts: np.ndarray, queries: np.ndarray, epsilon: float, seed: int) -> np.ndarray:
        """Answer queries in their order.

        Args:
            counts: the private histogram [cells].
            queries: counting queries, zeros and ones [queries, cells].
            epsilon: all that is spent.
            seed: of the noise.

        Returns:
            float64 [queries].
        """
        noise, scales = np.random.default_rng(seed), self.scales(epsilon)
        total = max(1.0, counts.sum() + noise.laplace(0, scales["total"]))
        threshold = self.threshold * scales["test"] + noise.laplace(0, scales["threshold"])
        truth, weights = queries @ counts, np.full(len(counts), total / len(counts))
        public, used, released = queries @ weights, [], []
        result = np.zeros(len(queries))
        for place in range(len(queries)):
            gap = abs(truth[place] - public[place]) + noise.laplace(0, scales["test"])
            if len(used) == self.updates or gap < threshold:
                result[place] = public[place]
                continue
            result[place] = truth[place] + noise.laplace(0, scales["answer"])
            used.append(place)
            released.append(result[place])
            weights = self._improved(weights, queries[used], np.array(released), total)
            public = queries @ weights
        return result

    def _improved(
        self, weights: np.ndarray, asked: np.ndarray, released: np.ndarray, total: float
    ) -> np.ndarray:
        """Return the histogram after multiplicative updates by all answers so far."""
        weights = weights.copy()
        for _ in range(self.sweeps):
            for query, answer in zip(asked, released, strict=True):
                move = np.clip((answer - query @ weights) / (2 * total), -1, 1)
                weights[query > 0] *= np.exp(move)
                weights *= total / weights.sum()
        return weights
