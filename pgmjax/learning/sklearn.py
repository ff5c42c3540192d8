"""Any regressor of scikit-learn as a learner.

Regressors are saved as plain data: names from scikit-learn's own list and JSON parameters. Reading creates
only regressors from that list and never imports a name from a file.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from pgmjax._internal import checks
from pgmjax.learning.base import Examples, Learner, NotDescribedError, Scale

SEEDS = 2**32
"""scikit-learn accepts seeds below this value."""


@dataclasses.dataclass(frozen=True)
class SklearnLearner(Learner):
    """A regressor of scikit-learn, or any other object with `fit`, `predict` and `get_params`.

    The estimator is cloned for each fit and never changed. The fitted model is not saved, which would
    require pickle; it is fitted again to the released answers when a release is read.

    Args:
        estimator: a regressor such as `sklearn.svm.SVR()`, the name of one of scikit-learn's regressors, or
            the mapping under "estimator" in `to_dict`.
        scaled: standardise encodings and answers to mean 0 and standard deviation 1 before fitting, and undo
            it in predictions; needed by most regressors except linear ones and trees.

    Raises:
        ImportError: scikit-learn is not installed.
        TypeError: not a regressor.
        ValueError: no regressor of this name.

    Example:
        >>> learner = SklearnLearner("KNeighborsRegressor")
        >>> learner.fit([[0.0], [1], [2], [3], [4]], [7, 7, 7, 7, 7]).predict([[1.5]]).tolist()
        [7.0]
    """

    estimator: Any
    scaled: bool = True

    name: ClassVar[str] = "sklearn"

    def __post_init__(self) -> None:
        checks.optional("sklearn.base", "learners")
        if isinstance(self.estimator, str | Mapping):
            object.__setattr__(self, "estimator", regressor_from(self.estimator))
        parts = ("fit", "predict", "get_params")
        if inspect.isclass(self.estimator) or not all(
            callable(getattr(self.estimator, each, None)) for each in parts
        ):
            is_class, kind = inspect.isclass(self.estimator), type(self.estimator).__name__
            came = f"a class: write {self.estimator.__name__}()" if is_class else kind
            raise TypeError(
                "estimator must be a regressor with fit, predict and get_params, such as sklearn.svm.SVR(), "
                f"or its name, such as 'SVR'; got {came}."
            )

    def _learn(self, given: Examples, seed: Any) -> dict[str, Any]:
        """Fit a regressor to each row of the batch.

        Weights are passed as `fit(sample_weight=)`; the seed replaces every `random_state` that is None.

        Raises:
            ValueError: unequal weights for a regressor without sample weights.
        """
        seed = checks.integer("seed", seed, low=0) % SEEDS
        keywords = {}
        if np.ptp(given.weights) > 0:
            self._check_weights()
            keywords["sample_weight"] = given.weights / given.weights.mean()
        scale = Scale.of if self.scaled else Scale.none
        inputs = scale(given.encodings)
        outputs = [scale(row[:, None]) for row in given.answers]
        estimators = [self._fresh(seed) for _ in outputs]
        for row, output, estimator in zip(given.answers, outputs, estimators, strict=True):
            estimator.fit(inputs.apply(given.encodings), output.apply(row[:, None])[:, 0], **keywords)
        return {"inputs": inputs, "outputs": outputs, "estimators": estimators}

    def _predict(self, learned: Mapping[str, Any], rows: np.ndarray) -> np.ndarray:
        scaled = learned["inputs"].apply(rows)
        answers = [
            output.undo(np.asarray(estimator.predict(scaled), np.float64).reshape(-1, 1))[:, 0]
            for estimator, output in zip(learned["estimators"], learned["outputs"], strict=True)
        ]
        return np.stack(answers)

    def _fresh(self, seed: int) -> Any:
        from sklearn.base import clone

        estimator = clone(self.estimator)
        given = estimator.get_params()
        free = {n: seed for n in given if n.split("__")[-1] == "random_state" and given[n] is None}
        return estimator.set_params(**free) if free else estimator

    def _check_weights(self) -> None:
        from sklearn.utils.validation import has_fit_parameter

        if not has_fit_parameter(self.estimator, "sample_weight"):
            raise ValueError(
                f"{type(self.estimator).__name__} takes no weights, and the answers have noise of different "
                "sizes: use training queries with one noise, or another learner."
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the regressor's name and parameters.

        Raises:
            NotDescribedError: a regressor not from scikit-learn, or parameters that JSON cannot represent.
        """
        return {
            "name": self.name,
            "estimator": regressor_to_dict(self.estimator),
            "scaled": self.scaled,
        }


def regressor(name: str) -> type[Any]:
    """Return the class of one of scikit-learn's regressors.

    Raises:
        ValueError: no regressor of this name.
    """
    from sklearn.utils import all_estimators

    found = dict(all_estimators(type_filter="regressor"))
    name = name.removeprefix("sklearn.")
    if name not in found:
        meant = next((each for each in (f"{name}Regressor", f"{name}Regression") if each in found), None)
        meant = f" Did you mean 'sklearn.{meant}'?" if meant else checks.did_you_mean(name, found)
        raise ValueError(
            f"scikit-learn has no regressor {name!r}: give one of its names, such as 'SVR', or an "
            f"object.{meant}"
        )
    return found[name]


def regressor_to_dict(estimator: Any) -> dict[str, Any]:
    """Return a regressor's name and its non-default parameters.

    Raises:
        NotDescribedError: a regressor not from scikit-learn, or parameters that JSON cannot represent.
    """
    kind = type(estimator).__name__
    try:
        known = regressor(kind) is type(estimator)
    except ValueError:
        known = False
    if not known:
        raise NotDescribedError(f"{kind} is no regressor of scikit-learn's own: it cannot be written down.")
    usual = {name: each.default for name, each in inspect.signature(type(estimator)).parameters.items()}
    given = estimator.get_params(deep=False)
    changed = {name: each for name, each in given.items() if each is not usual[name]}
    return {"regressor": kind, "parameters": {name: _plain(each) for name, each in changed.items()}}


def regressor_from(settings: Any) -> Any:
    """Return a new regressor from its name or the output of `regressor_to_dict`.

    Raises:
        ValueError: unknown regressor or parameters.
    """
    if isinstance(settings, str):
        settings = {"regressor": settings, "parameters": {}}
    if set(settings) != {"regressor", "parameters"} or not isinstance(settings["parameters"], Mapping):
        raise ValueError("a regressor is written as its name or {regressor: name, parameters: a mapping}.")
    parameters = {str(name): _object(each) for name, each in settings["parameters"].items()}
    try:
        return regressor(str(settings["regressor"]))(**parameters)
    except TypeError as error:
        raise ValueError(
            f"{settings['regressor']} cannot be made with the parameters {', '.join(parameters) or 'none'}: "
            f"{error}."
        ) from error


def _plain(value: Any) -> Any:
    if hasattr(value, "get_params") and not inspect.isclass(value):
        return regressor_to_dict(value)
    if isinstance(value, np.integer | np.floating):
        return value.item()
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise NotDescribedError(f"a parameter of type {type(value).__name__} cannot be written down.")


def _object(value: Any) -> Any:
    if isinstance(value, Mapping):
        return regressor_from(value)
    return [_object(each) for each in value] if isinstance(value, list) else value
