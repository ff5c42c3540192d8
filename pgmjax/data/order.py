"""A domain among the arguments of a call: another order of them is refused with the right call."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pgmjax.data.domain import Domain


def as_domain(domain: Any, call: str, *others: Any) -> Domain:
    """Return the argument that is to be a domain.

    Args:
        domain: the argument.
        call: how the function is called, for the message.
        others: arguments that stand beside it.

    Raises:
        TypeError: it is none; the message has the call, and says whether the domain stands elsewhere.

    Example:
        >>> as_domain([1, 2], "Dataset.from_frame(domain, frame)", Domain({"a": 2}))
        Traceback (most recent call last):
        TypeError: the domain stands in another place: write Dataset.from_frame(domain, frame).
    """
    if isinstance(domain, Domain):
        return domain
    if any(isinstance(other, Domain) for other in others):
        raise TypeError(f"the domain stands in another place: write {call}.")
    made = ", with pgmjax.Domain(mapping) for the domain" if isinstance(domain, Mapping) else ""
    made = ", with pgmjax.Domain.read(file) for the domain" if isinstance(domain, str | os.PathLike) else made
    raise TypeError(f"domain must be a pgmjax.Domain, got {type(domain).__name__}: write {call}{made}.")
