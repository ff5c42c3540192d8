"""Exact limits of an event's probability from how often it was seen.

References:
    Clopper and Pearson 1934, "The use of confidence or fiducial limits illustrated in the case of the
    binomial".
"""

from __future__ import annotations

import numpy as np

from pgmjax._internal import checks


def at_least(held: np.ndarray, of: int, alpha: float) -> np.ndarray:
    """Return the limit from below: above the probability with probability alpha at most.

    Args:
        held: how often the event was seen [events].
        of: in how many draws.
        alpha: the probability of an error.
    """
    special = checks.optional("scipy.special", extra="privacy")
    return np.where(held > 0, special.betaincinv(np.maximum(held, 1), of - held + 1, alpha), 0.0)


def at_most(held: np.ndarray, of: int, alpha: float) -> np.ndarray:
    """Return the limit from above: below the probability with probability alpha at most; see `at_least`."""
    special = checks.optional("scipy.special", extra="privacy")
    return np.where(held < of, special.betainccinv(held + 1, np.maximum(of - held, 1), alpha), 1.0)
