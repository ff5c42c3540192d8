"""The learners by name, and what stands for one: a name, a regressor of scikit-learn, or settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pgmjax._internal import checks
from pgmjax.learning.base import Learner
from pgmjax.learning.linear import EngineLearner, GaussianBasis, Linear, Ridge
from pgmjax.learning.mlp import MLP
from pgmjax.learning.sklearn import SklearnLearner

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
        got = f"the class {learner.__name__}: write {learner.__name__}()" if isinstance(learner, type) else ""
        raise TypeError(
            "learner must be a name, a Learner or a regressor of scikit-learn, got "
            f"{got or type(learner).__name__}."
        )
    named = [each for each in LEARNERS if each != SklearnLearner.name or settings]
    name = checks.choice(
        "learner", name, named, "'sklearn.' and a regressor's name, such as 'sklearn.SVR', or a Learner"
    )
    return LEARNERS[name](**settings)


def as_learners(given: Any) -> tuple[Learner, ...]:
    """Return learners from one, or from a list of them; raises as `as_learner`, and if there is none."""
    found = tuple(as_learner(each) for each in (given if isinstance(given, list | tuple) else [given]))
    if not found:
        raise ValueError("learner must be a name, a Learner or several of them, got none.")
    return found
