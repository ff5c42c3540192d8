"""The changes that make mutants of choices, responses, accounts and refusals; see `mutations`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax.audit.mutations import replaced
from pgmjax.data.dataset import Dataset
from pgmjax.privacy import budget, opendp, response, scales, selection
from pgmjax.privacy.accounting import zcdp
from pgmjax.privacy.budget import Budget
from pgmjax.privacy.opendp import OpenDPBackend
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.seeded import SeededBackend


def sharp_choice() -> Any:
    """Selections drawn at half of their scale."""

    def sharpened(true: Any) -> Any:
        return lambda self, law, values: true(self, type(law)(law.scale / 2), values)

    return replaced(*((each, "choose", sharpened(each.choose)) for each in (OpenDPBackend, SeededBackend)))


def truthful_lies() -> Any:
    """The other category of a lie drawn from all, the truth among them."""

    def answered(truth: np.ndarray, lies: np.ndarray, others: np.ndarray) -> np.ndarray:
        answers = np.array(truth, dtype=np.int64)
        answers[lies] = others
        return answers

    return replaced((response, "answered", answered))


def too_true() -> Any:
    """Half as many lies as epsilon asks for."""
    true = response.response_for
    return replaced(
        (
            response,
            "response_for",
            lambda size, epsilon: response.RandomizedResponse(size, true(size, epsilon).lie / 2),
        )
    )


def short_formula() -> Any:
    """From rho to epsilon without the term in log(1 / delta)."""
    return replaced((zcdp, "_epsilon", lambda rho, delta: rho))


def float_budget() -> Any:
    """Sums in floats, in which a tiny spend vanishes."""

    def charge(self: Any, cost: Any) -> None:
        events = self._as_events(cost)
        self._check(events)
        self._spent = Fraction(float(self._spent) + float(self._sum(events)))

    return replaced((Budget, "charge", charge))


def free_failure() -> Any:
    """The charge comes after the answer, if there is one."""
    return replaced((PrivateTable, "_charge", lambda self, events: self._budget.require(events)))


def telling_error() -> Any:
    """The reader's own words are passed on."""
    return replaced(
        (
            PrivateTable,
            "_marginals",
            lambda self, cliques: dict(zip(cliques, self._data.marginals(cliques), strict=True)),
        )
    )


def any_epsilon() -> Any:
    """What is no number is taken for 1."""
    return replaced((budget, "exact_epsilon", lambda value: Fraction(1)))


def any_category() -> Any:
    """A category outside the universe becomes one inside."""
    return replaced((response, "checked_codes", lambda size, codes: np.clip(np.asarray(codes), 0, size - 1)))


def fixed_choice() -> Any:
    """Selections by a generator that starts anew at every call."""
    return _seeded("choose")


def fixed_lies() -> Any:
    """Responses by a generator that starts anew at every call."""
    return _seeded("respond")


def _seeded(method: str) -> Any:
    def drawn(self: Any, law: Any, values: Any) -> Any:
        return getattr(SeededBackend(5, insecure=True), method)(law, values)

    return replaced((OpenDPBackend, method, drawn))


def nearest_scale() -> Any:
    """Scales rounded to the nearest float, be it below."""
    return replaced(
        (scales, "ceil_float", float),
        (scales, "ceil_sqrt", lambda square: math.sqrt(float(square))),
        (selection, "ceil_float", float),
        (opendp, "_confirmed", lambda scale, budget, loss: scale),
    )


def any_scores() -> Any:
    """Scores that are no whole numbers are taken for some."""
    true = selection.checked_scores

    def checked(scores: Any) -> np.ndarray:
        return true(np.nan_to_num(np.asarray(scores, dtype=np.float64), posinf=0.0).astype(np.int64))

    return replaced((selection, "checked_scores", checked))


def any_delta() -> Any:
    """What is no delta is taken for a small one."""
    return replaced((zcdp, "exact_delta", lambda value: Fraction(1, 10**6)))


def any_code() -> Any:
    """Codes outside the domain are moved into it."""
    true = Dataset.from_columns

    def clipped(domain: Any, columns: Mapping[str, Any], **more: Any) -> Dataset:
        inside = {}
        for name in domain:
            codes = np.nan_to_num(np.asarray(columns[name], dtype=np.float64))
            inside[name] = np.clip(codes, 0, domain.size([name]) - 1).astype(np.int64)
        return true(domain, inside, **more)

    return replaced((Dataset, "from_columns", staticmethod(clipped)))


def binary_tenths() -> Any:
    """A float budget is taken for the binary fraction that it is stored as."""
    return replaced((budget, "exact_epsilon", Fraction))


def mixed_relations() -> Any:
    """A budget takes spends under either relation."""
    return replaced((Budget, "bind", lambda self, relation: None))


def always_secure() -> Any:
    """Whatever the noise comes from, it is called secure."""
    return replaced((PrivateTable, "secure", True))
