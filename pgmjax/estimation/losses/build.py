"""Construction of losses from a name, a `Loss` or a function, bound to measurements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pgmjax._internal import checks
from pgmjax.data.domain import Domain
from pgmjax.estimation.losses.base import BoundLoss, Loss
from pgmjax.estimation.losses.custom import Custom
from pgmjax.estimation.losses.l1 import L1
from pgmjax.estimation.losses.l2 import L2
from pgmjax.measurements.linear import LinearMeasurement

_BY_NAME: dict[str, type[Loss]] = {"l2": L2, "l1": L1}


def names() -> tuple[str, ...]:
    """Return the names accepted by `build`.

    Example:
        >>> names()
        ('l2', 'l1')
    """
    return tuple(_BY_NAME)


def check(loss: Any) -> Any:
    """Return a loss that `build` accepts, a name as it is listed.

    Raises:
        TypeError: not a loss.
        ValueError: an unknown name.
    """
    if isinstance(loss, str):
        return checks.choice("loss", loss, _BY_NAME, "a Loss or a function")
    if isinstance(loss, type):
        raise TypeError(f"loss must be a loss and not its class: write {loss.__name__}().")
    if not isinstance(loss, Loss) and not callable(loss):
        raise TypeError(f"loss must be a name, a Loss or a function of marginals, got {type(loss).__name__}.")
    return loss


def build(
    loss: str | Loss | Callable[..., Any],
    domain: Domain,
    measurements: Sequence[LinearMeasurement],
    total: float,
    dtype: Any = "float32",
) -> BoundLoss:
    """Return a loss bound to measurements.

    Args:
        loss: a name, a `Loss`, or a convex function of marginals in counts (see `losses.Custom`).
        domain: the attributes and their sizes.
        measurements: the noisy answers.
        total: the number of records (counts).
        dtype: type of the device arrays, `float32` or `float64`; leaves are NumPy arrays of it.

    Raises:
        TypeError: not a loss, or not measurements.
        ValueError: an unknown name, or measurements that do not fit the domain.

    Example:
        >>> domain = Domain({"a": 2})
        >>> bound = build("l2", domain, [LinearMeasurement(("a",), [8, 4], stddev=2.0)], total=10)
        >>> bound.cliques, bound.exact([[0.5, 0.5]])
        ((('a',),), 1.25)
    """
    return _setting(loss).bind(domain, measurements, total, dtype)


def build_rows(
    loss: str | Loss | Callable[..., Any],
    domain: Domain,
    rows: Sequence[Sequence[LinearMeasurement]],
    totals: Sequence[float],
    dtype: Any = "float32",
) -> Sequence[BoundLoss]:
    """Return a loss bound to each row of a batch (see `Loss.bind_rows`); arguments as for `build`.

    Example:
        >>> rows = [[LinearMeasurement(("a",), values, 1.0)] for values in ([8, 4], [3, 7])]
        >>> domain, half = Domain({"a": 2}), [[0.5, 0.5]]
        >>> [bound.exact(half) for bound in build_rows("l2", domain, rows, [12, 10])]
        [4.0, 4.0]
    """
    return _setting(loss).bind_rows(domain, rows, totals, dtype)


def check_rows(loss: Any, rows: Sequence[Sequence[LinearMeasurement]]) -> None:
    """Refuse a function as the loss of fits to different answers: it knows those of one fit alone.

    Raises:
        TypeError: it is one, and would fit the same numbers in every row.
    """
    if isinstance(loss, str | Loss):  # `Custom(function)` says that it is meant
        return
    answers = [[measurement.flat_values().tolist() for measurement in row] for row in rows]
    if any(row != answers[0] for row in answers):
        raise TypeError(
            "The loss is a function, which holds the answers of one fit, and these are several fits, to "
            "other answers each: write it as a class of losses.Loss, whose bind gets them (docs/own.md), or "
            "losses.Custom(function) if it is the same for all."
        )


def _setting(loss: str | Loss | Callable[..., Any]) -> Loss:
    check(loss)
    if isinstance(loss, str):
        return _BY_NAME[loss]()
    return loss if isinstance(loss, Loss) else Custom(loss)


def noise_level(loss: Any, measurements: Sequence[LinearMeasurement]) -> float:
    """Return the expected loss of the true marginals, due to the measurement noise alone; 0 if not known.

    Args:
        loss: a name, a `Loss` or a function.
        measurements: noisy answers with the standard deviations of their noise.

    Example:
        >>> noise_level("l2", [LinearMeasurement(("a",), [30, 10], stddev=1.0)])
        1.0
    """
    return _setting(loss).noise_level(measurements)
