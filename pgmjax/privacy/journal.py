"""Where a run's charge and its answers are kept, so that none is paid for twice or shown uncharged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from pgmjax.data.relation import Relation
from pgmjax.privacy.budget import Budget


class Journal(Protocol):
    """What `noise.PrivateTable` asks of a journal."""

    def begin(self, run: object, budget: Budget, relation: Relation, secure: bool) -> None:
        """Have the whole budget of a run charged; called before counts are read, also repeatedly.

        Raises:
            ValueError: the journal is that of another run.
        """
        ...

    def receipt(self) -> dict[str, Any]:
        """Return where the run's charge is kept, for the records."""
        ...

    def answer(self, request: Mapping[str, Any], compute: Callable[[], np.ndarray]) -> np.ndarray:
        """Return the run's next answer, int64 [n]: the kept one, or one computed and kept now."""
        ...
