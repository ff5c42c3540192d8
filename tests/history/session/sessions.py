"""A small table and sessions on it, for the sessions' tests."""

import numpy as np

from pgmjax import Dataset, Domain
from pgmjax.history import Session
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.queries import DenseMatrix

DOMAIN = Domain({"age": 4, "sex": 2})
COUNTS = np.array([[300, 10], [20, 40], [500, 60], [70, 80]])


def table(counts=COUNTS):
    cells = np.repeat(np.arange(8), counts.reshape(-1))
    return Dataset.from_columns(DOMAIN, {"age": cells // 2, "sex": cells % 2})


def begin(
    ledger, cap="1", relation="add-remove", seed=3, given=None, counts=COUNTS, name="session", epsilon=2
):
    data = table(counts)
    if ledger.find(ledger.digest_of(data)) is None:
        digest = ledger.digest_of(data)
        ledger.register(
            "t", epsilon=epsilon, relation=relation, digest=digest, research=True, domain=data.domain
        )
    backend = None if seed is None else SeededBackend(seed, insecure=True)
    return Session.open(ledger, data, cap=cap, relation=relation, backend=backend, given=given, name=name)


def ages(*codes):
    entries = np.zeros((1, 4), np.int64)
    entries[0, list(codes)] = 1
    return DenseMatrix(("age",), entries)


def system_cost(rows, epsilons, moves, relation):
    """Theorem 5.4 of Xiao and Xiong 2012: the epsilon of all answers [rows], from H [rows, cells]."""
    weighted = (np.asarray(epsilons) / moves)[:, None] * rows
    if relation == "add-remove":
        return np.abs(weighted).sum(axis=0).max()
    return np.abs(weighted[:, :, None] - weighted[:, None]).sum(axis=0).max()
