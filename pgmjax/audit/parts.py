"""The parts of a value, for comparison."""

from __future__ import annotations

import dataclasses
from typing import Any

Part = tuple[str, Any]


@dataclasses.dataclass(frozen=True)
class Parts:
    """What a value consists of.

    Attributes:
        inside: each part with what to write behind the value's name.
        frame: parts that must agree before those inside can be compared one by one, such as lengths.
        mark: what no longer falls into parts, to be compared as it is.
    """

    inside: tuple[Part, ...] = ()
    frame: tuple[Part, ...] = ()
    mark: str | bytes = ""

    def __add__(self, more: Parts) -> Parts:
        return Parts(self.inside + more.inside, self.frame + more.frame, self.mark or more.mark)
