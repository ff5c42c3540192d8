"""Private mechanisms, from a table and a workload to a release.

A mechanism is one file with one frozen dataclass and one line here. The class has `name` (what the
command line calls it), `summary` (one line) and `run(data, workload) -> Release`; it holds the table
only as a `privacy.noise.PrivateTable`. Contract tests run over `__all__`.
"""

from __future__ import annotations

from typing import Any

from pgmjax.mechanisms.marginals import Marginals

__all__ = ["Marginals"]


def names() -> dict[str, type[Any]]:
    """Return the mechanisms by their command-line names; `.summary` of each describes it in a line.

    Example:
        >>> names()["marginals"].summary
        'measure every query of the workload once, with equal or weighted budget'
    """
    classes = [globals()[name] for name in __all__]
    return {mechanism.name: mechanism for mechanism in classes}
