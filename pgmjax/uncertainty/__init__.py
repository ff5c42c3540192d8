"""Error bars on answers: standard deviations and confidence intervals from released numbers only.

`error_bars` gives values, standard deviations and intervals by one of three methods, and says which answers
the measurements do not determine at all.
"""

from pgmjax.uncertainty.intervals import ErrorBars, error_bars
from pgmjax.uncertainty.linear import TooMuchWorkError

__all__ = ["ErrorBars", "TooMuchWorkError", "error_bars"]
