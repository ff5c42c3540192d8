"""Which laws a backend draws from: a law of the wrong kind would be drawn as another one without a word."""

from __future__ import annotations

from typing import Any

from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace, Law
from pgmjax.privacy.response import RandomizedResponse
from pgmjax.privacy.selection import ExponentialMechanism, PermuteAndFlip, SelectionLaw
from pgmjax.privacy.unary_response import UnaryResponse

ResponseLaw = RandomizedResponse | UnaryResponse


def checked_noise(law: Any) -> Law:
    """Return a law of noise; laws refuse scales that are not > 0, which samplers take for no noise."""
    if not isinstance(law, DiscreteLaplace | DiscreteGaussian):
        raise TypeError(f"law must be a DiscreteLaplace or DiscreteGaussian, got {type(law).__name__}.")
    return law


def checked_selection(law: Any) -> SelectionLaw:
    """Return a law of selection."""
    if not isinstance(law, PermuteAndFlip | ExponentialMechanism):
        raise TypeError(f"law must be a PermuteAndFlip or ExponentialMechanism, got {type(law).__name__}.")
    return law


def checked_response(law: Any) -> RandomizedResponse:
    """Return a law of randomised response."""
    if not isinstance(law, RandomizedResponse):
        raise TypeError(f"law must be a RandomizedResponse, got {type(law).__name__}.")
    return law


def checked_bits(law: Any) -> UnaryResponse:
    """Return a law of unary responses."""
    if not isinstance(law, UnaryResponse):
        raise TypeError(f"law must be a UnaryResponse, got {type(law).__name__}.")
    return law
