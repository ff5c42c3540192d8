"""Queries as training examples: their choice and encoding, the learners, and bounds on their error.

Everything here is chosen without data or computed from released noisy answers. `mechanisms.MLDP` measures
the training queries and trains.

- `training_set`: the training queries. `encodings` turns them into vectors; `queries.random` draws some.
- `base`: the learner interface. `linear`, `gaussian_basis`, `mlp`, `engine` and `sklearn` are the learners;
  `scaling` standardises their columns.
- `selection`: the learner with the smallest error, and error bounds. `predictor`: answers fresh queries.

A learner is one file with one frozen dataclass and one line here; contract tests run over `LEARNERS`.
`as_learner` makes one from a name, a scikit-learn regressor or the output of `Learner.to_dict`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pgmjax._internal import checks, migration
from pgmjax.learning.base import Learner, NotDescribedError
from pgmjax.learning.engine import EngineLearner
from pgmjax.learning.gaussian_basis import GaussianBasis
from pgmjax.learning.linear import Linear, Ridge
from pgmjax.learning.mlp import MLP
from pgmjax.learning.sklearn import SklearnLearner

__all__ = [
    "LEARNERS",
    "MLP",
    "EngineLearner",
    "GaussianBasis",
    "Learner",
    "Linear",
    "NotDescribedError",
    "Ridge",
    "SklearnLearner",
    "as_learner",
]

LEARNERS: dict[str, type[Learner]] = {
    each.name: each for each in (Linear, Ridge, GaussianBasis, MLP, EngineLearner, SklearnLearner)
}

_SKLEARN = "sklearn."


def as_learner(learner: Any) -> Learner:
    """Return a learner from a name, a regressor or its settings.

    Args:
        learner: a `Learner`; a name in `LEARNERS`; "sklearn." followed by the name of a scikit-learn
            regressor, such as "sklearn.SVR"; an object with `fit`, `predict` and `get_params`; or the
            mapping returned by `Learner.to_dict`.

    Raises:
        TypeError: none of these, or settings that the learner does not have.
        ValueError: unknown name.

    Example:
        >>> as_learner("linear"), as_learner({"name": "ridge", "penalty": 2.0})
        (Linear(intercept=False), Ridge(penalty=2.0, intercept=False))
    """
    if isinstance(learner, Learner):
        return learner
    if isinstance(learner, str) and learner.startswith(_SKLEARN):
        return SklearnLearner(learner.removeprefix(_SKLEARN))
    if hasattr(learner, "get_params") and not isinstance(learner, type):
        return SklearnLearner(learner)
    settings = dict(learner) if isinstance(learner, Mapping) else {"name": learner}
    name = settings.pop("name", None)
    if not isinstance(name, str):
        raise TypeError(
            f"learner must be a name, a Learner or a regressor of scikit-learn, got {type(learner).__name__}."
        )
    named = [each for each in LEARNERS if each != SklearnLearner.name or settings]
    name = checks.choice("learner", name, named, "'sklearn.' and a regressor's name, or a Learner")
    return LEARNERS[name](**settings)


def as_learners(given: Any) -> tuple[Learner, ...]:
    """Return learners from one, or from a list of them; raises as `as_learner`, and if there is none."""
    found = tuple(as_learner(each) for each in (given if isinstance(given, list | tuple) else [given]))
    if not found:
        raise ValueError("learner must be a name, a Learner or several of them, got none.")
    return found


migration.answer(globals())
