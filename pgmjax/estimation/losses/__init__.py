"""Losses: convex functions of marginals that a fit minimises.

`base` is the interface. `linear` has L1 and L2, of residuals of the answers; `custom` is any convex function,
`transcript` is for DualQuery. A new loss is one file with a `Loss` and its `BoundLoss` (whose docstring says
what they must have), one export line and its name here, which the command line lists too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pgmjax._internal import checks, migration
from pgmjax.data.domain import Domain
from pgmjax.estimation.losses.base import BoundLoss, Loss
from pgmjax.estimation.losses.linear import L1, L2
from pgmjax.measurements.linear import LinearMeasurement

if TYPE_CHECKING:
    from pgmjax.estimation.losses.custom import Custom

__all__ = ["L1", "BoundLoss", "Custom", "Loss"]

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


def setting(loss: str | Loss | Callable[..., Any]) -> Loss:
    """Return the loss of a name, or a function as one.

    Raises:
        TypeError: not a loss.
        ValueError: an unknown name.

    Example:
        >>> setting("l2").noise_level([LinearMeasurement(("a",), [30, 10], stddev=1.0)])
        1.0
    """
    loss = check(loss)
    if isinstance(loss, str):
        return _BY_NAME[loss]()
    if isinstance(loss, Loss):
        return loss
    from pgmjax.estimation.losses.custom import Custom  # of a function alone

    return Custom(loss)


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
    return setting(loss).bind(domain, measurements, total, dtype)


def _later() -> dict[str, Any]:
    """Return the loss of a function, which fits of named losses do without."""
    from pgmjax.estimation.losses.custom import Custom

    return {"Custom": Custom}


migration.answer(globals(), _later)
