"""A progress bar for long computations, shown in terminals and notebooks but not if output is piped."""

from __future__ import annotations

import warnings
from types import TracebackType

from pgmjax._internal import checks


class Progress:
    """A progress bar that appears after one second, and only in terminals and notebooks.

    Args:
        label: text in front of the bar.
        total: number of units, if known.
        show: False never shows a bar. Default: shown in terminals and notebooks only.
    """

    def __init__(self, label: str, total: int | None = None, show: bool | None = None):
        self._bar = None
        if show is False:
            return
        try:
            with warnings.catch_warnings():  # a notebook without widgets still gets a plain bar
                warnings.simplefilter("ignore")
                tqdm = checks.optional("tqdm.auto", extra="plots").tqdm
        except ImportError:
            return
        # for tqdm, disable=None means: only if the output is a terminal or notebook
        self._bar = tqdm(desc=label, total=total, disable=None, delay=1.0, leave=False)

    def advance(self, units: int = 1, note: str = "") -> None:
        """Advance the bar by some units, with an optional note after it."""
        if self._bar is not None:
            if note:
                self._bar.set_postfix_str(note, refresh=False)
            self._bar.update(units)

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()
