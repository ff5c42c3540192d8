"""Regressors of scikit-learn as plain data and back: names from its own list, parameters that JSON holds.

Reading makes regressors of that list only and imports nothing that a file names.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from pgmjax.learning.base import NotDescribedError


def regressor(name: str) -> type[Any]:
    """Return the class of one of scikit-learn's regressors.

    Raises:
        ValueError: none of this name.
    """
    from sklearn.utils import all_estimators

    found = dict(all_estimators(type_filter="regressor"))
    if name not in found:
        raise ValueError(
            f"scikit-learn has no regressor {name!r}: give one of its names, such as 'SVR', or an object."
        )
    return found[name]


def described(estimator: Any) -> dict[str, Any]:
    """Return a regressor's name, and those of its parameters that are not as usual.

    Raises:
        NotDescribedError: a regressor from elsewhere, or parameters that JSON does not hold.
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


def made(settings: Any) -> Any:
    """Return a new regressor from its name or from what `described` returned.

    Raises:
        ValueError: no such regressor or parameters.
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
        return described(value)
    if isinstance(value, np.integer | np.floating):
        return value.item()
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise NotDescribedError(f"a parameter of type {type(value).__name__} cannot be written down.")


def _object(value: Any) -> Any:
    if isinstance(value, Mapping):
        return made(value)
    return [_object(each) for each in value] if isinstance(value, list) else value
