"""Learners: regressions from encoded queries to answers. They take released numbers only.

`as_learner` turns a name, a `Learner` or what `Learner.to_dict` wrote into a learner.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pgmjax.learners.base import FittedLearner, Learner, NotDescribedError
from pgmjax.learners.engine import Engine
from pgmjax.learners.linear import Linear, Ridge

__all__ = ["Engine", "FittedLearner", "Learner", "Linear", "NotDescribedError", "Ridge", "as_learner"]

LEARNERS: dict[str, type[Learner]] = {each.name: each for each in (Linear, Ridge, Engine)}


def as_learner(learner: Any) -> Learner:
    """Return a learner from itself, its name, or the mapping that `Learner.to_dict` gives.

    Raises:
        TypeError: none of these, or settings that the learner does not have.
        ValueError: no such name.
    """
    if isinstance(learner, Learner):
        return learner
    settings = dict(learner) if isinstance(learner, Mapping) else {"name": learner}
    name = settings.pop("name", None)
    if not isinstance(name, str):
        raise TypeError(f"learner must be a name or a Learner, got {type(learner).__name__}.")
    if name not in LEARNERS:
        raise ValueError(f"learner must be one of {', '.join(LEARNERS)}, or a Learner; got {name!r}.")
    return LEARNERS[name](**settings)
