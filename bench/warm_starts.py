"""What a warm start saves between the rounds of AIM and MWEM: solver steps with it and without, at one seed.

    python bench/warm_starts.py [--seed N]

A synthetic table of eight attributes with planted dependences. Every fit may take 1,000 steps, so that each
ends by its certificate. Steps are counted over all fits of a run. The noise is seeded: nothing of it is a
release.
"""

from __future__ import annotations

import argparse
import functools
from typing import Any

import numpy as np

import pgmjax as pj
from pgmjax.privacy.seeded import SeededBackend

SIZES = dict(zip("abcdefgh", (6, 5, 4, 3, 6, 5, 4, 3), strict=True))
ROWS = 20_000
MECHANISMS = {
    "AIM": functools.partial(pj.mechanisms.AIM, rounds=24),
    "MWEM": functools.partial(pj.mechanisms.MWEM, rounds=16),
}


def table() -> pj.Dataset:
    """Each attribute copies the one before it half of the time."""
    rng = np.random.default_rng(0)
    columns = {name: rng.integers(0, size, ROWS) for name, size in SIZES.items()}
    for before, name in zip("abcdefg", "bcdefgh", strict=True):
        copies = rng.random(ROWS) < 0.5
        columns[name][copies] = columns[before][copies] % SIZES[name]
    return pj.Dataset.from_columns(pj.Domain(SIZES), columns)


def steps(name: str, warm: bool, seed: int) -> list[int]:
    """Return the steps of every fit of a run."""
    taken: list[int] = []
    fit = pj.Estimator.fit

    def counted(self: Any, domain: Any, given: Any, total: Any = None, warm_start: Any = None) -> Any:
        found = fit(self, domain, given, total, warm_start if warm else None)
        taken.append(found.steps)
        return found

    pj.Estimator.fit = counted  # type: ignore[method-assign]
    try:
        mechanism = MECHANISMS[name](
            1,
            "add-remove",
            "1e-9",
            steps=1000,
            backend=SeededBackend(seed, insecure=True),
            estimator=pj.Estimator(progress=False),
        )
        data = table()
        mechanism.run(data, pj.Workload.all_kway(data.domain, 2), show_progress=False)
    finally:
        pj.Estimator.fit = fit  # type: ignore[method-assign]
    return taken


def main() -> None:
    """Print a line for each mechanism."""
    parser = argparse.ArgumentParser(description="Warm starts of AIM and MWEM.")
    parser.add_argument("--seed", type=int, default=0)
    seed = parser.parse_args().seed
    for name in MECHANISMS:
        for warm in (True, False):
            taken = steps(name, warm, seed)
            print(
                f"{name}, {'warm' if warm else 'cold'}: {sum(taken)} steps in {len(taken)} fits", flush=True
            )


if __name__ == "__main__":
    main()
