"""The changes that make mutants of what records answer for themselves; see `mutations`."""

from __future__ import annotations

from typing import Any

import numpy as np

from pgmjax.audit.mutations import replaced
from pgmjax.privacy import opendp, responding, response, seeded
from pgmjax.privacy.opendp import OpenDPBackend
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.responding import Responses
from pgmjax.privacy.seeded import SeededBackend


def whole_epsilon_a_bit() -> Any:
    """The symmetric encoding spends all of epsilon on each bit, though two bits differ."""
    true = response.unary_for

    def law(size: Any, epsilon: Any, symmetric: bool = False) -> Any:
        return response.UnaryResponse(size, true(size, epsilon).lie, symmetric)

    return replaced(
        (response, "unary_for", law),
        (opendp, "unary_for", law),
        (seeded, "unary_for", law),
    )


def shared_coin() -> Any:
    """One coin turns all bits of a record over."""

    def bits(self: Any, law: Any, codes: np.ndarray) -> np.ndarray:
        lies = SeededBackend(len(codes), insecure=True)._generator.random(len(codes)) < law.lie
        return (np.arange(law.size) == codes[:, None]) ^ lies[:, None]

    return replaced((OpenDPBackend, "respond_bits", bits), (SeededBackend, "respond_bits", bits))


def fixed_bits() -> Any:
    """Bits by a generator that starts anew at every call."""
    true = SeededBackend.respond_bits

    def bits(self: Any, law: Any, codes: np.ndarray) -> np.ndarray:
        return true(SeededBackend(5, insecure=True), law, codes)

    return replaced((OpenDPBackend, "respond_bits", bits))


def honest_records() -> Any:
    """Records tell the truth."""

    def respond(self: Any, backend: Any, codes: np.ndarray) -> np.ndarray:
        return (np.arange(self.law.size) == codes[:, None]) if self.bits else codes.astype(np.uint8)

    return replaced((responding.Planned, "respond", respond))


def answers_again() -> Any:
    """Responses that were read are drawn anew when they are read again."""
    return replaced((Responses, "__iter__", lambda self: self._blocks()))


def any_relation() -> Any:
    """Records answer for themselves where they come and go."""
    true = responding.plan

    def plan(groups: Any, epsilons: Any, encodings: Any, domain: Any, relation: Any, *more: Any) -> Any:
        return true(groups, epsilons, encodings, domain, responding.Relation.REPLACE_ONE, *more)

    return replaced(
        (responding, "plan", plan),
        (responding.Response, "only", None),
        (PrivateTable, "public_count", lambda self: self._data.count()),
    )
