"""Checks of responses that records give for themselves, through the choke point of the installed library.

Each raises `primitives.AuditFailure`, and passes in silence otherwise.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax.audit import exact, goodness
from pgmjax.audit.primitives import ALPHA, AuditFailure, must_refuse
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.privacy.backend import NoiseBackend, default_backend
from pgmjax.privacy.budget import Budget, BudgetExceeded
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.responding import ENCODINGS
from pgmjax.privacy.seeded import SeededBackend

_SIZE = 3
_RECORDS = 60_000
_DOMAIN = Domain({"a": _SIZE})


def responses_keep_their_epsilon(backend: NoiseBackend | None = None) -> None:
    """L0 and L2: each encoding's channel costs what is claimed, and released answers follow it.

    Args:
        backend: source of lies; None is the secure one.

    Raises:
        AuditFailure: an exact log-ratio above epsilon, answers of another channel, or lies that repeat.
    """
    source = default_backend() if backend is None else backend
    truths = np.repeat(np.arange(_SIZE), _RECORDS // _SIZE)
    data = Dataset.from_columns(_DOMAIN, {"a": truths})
    for encoding in ENCODINGS:
        for epsilon in (Fraction(1, 2), Fraction(2)):
            table = PrivateTable(data, Relation.REPLACE_ONE, Budget(2 * epsilon), source)
            runs = [_answers(table, encoding, epsilon) for _ in range(2)]
            law = runs[0][0]
            said = f"Responses of encoding {encoding!r} and epsilon {epsilon}"
            found = exact.channel_epsilon(law.channel())
            if not found <= float(epsilon) * (1 + 1e-12):
                raise AuditFailure(f"{said} have an exact loss of {found:.6g}.")
            answers = runs[0][1]
            for truth in range(_SIZE):
                counts = np.bincount(answers[truths == truth], minlength=law.channel().shape[1])
                fit = goodness.categorical_fit(counts, law.channel()[truth])
                if fit.p_value < ALPHA:
                    raise AuditFailure(f"{said} do not follow their channel: p = {fit.p_value:.2g}.")
            if np.array_equal(answers, runs[1][1]):
                raise AuditFailure(f"{said} are the same in two calls.")


def _answers(table: PrivateTable, encoding: str, epsilon: Fraction) -> tuple[Any, np.ndarray]:
    """The law of a call, and its answers as columns of the law's channel [records]."""
    responses = table.respond([["a"]], epsilons=[epsilon], encodings=[encoding], show_progress=False)
    answers = np.concatenate([block[0] for block in responses])
    if answers.ndim == 2:
        answers = answers @ (1 << np.arange(_SIZE)[::-1])
    return responses.planned[0].law, answers.astype(np.int64)


def records_answer_once() -> None:
    """Responses are charged before they are read, read once, and refused where records come and go.

    Raises:
        AuditFailure: one of these is not so.
    """
    data = Dataset.from_columns(_DOMAIN, {"a": [0, 1, 2]})
    budget = Budget(1)
    table = PrivateTable(data, Relation.REPLACE_ONE, budget, SeededBackend(0, insecure=True))
    respond: Callable[..., Any] = functools.partial(table.respond, [["a"]], show_progress=False)
    responses = respond(epsilons=[1])
    if budget.spent != 1:
        raise AuditFailure("Responses that are not read yet were not paid for.")
    list(responses)
    must_refuse(lambda: list(responses), "a second answer for one charge", ValueError)
    must_refuse(functools.partial(respond, epsilons=["0.1"]), "a response beyond the cap", BudgetExceeded)
    either = PrivateTable(data, Relation.ADD_REMOVE, Budget(1), SeededBackend(0, insecure=True))
    must_refuse(
        lambda: either.respond([["a"]], epsilons=[1]), "randomised response under add-remove", ValueError
    )
