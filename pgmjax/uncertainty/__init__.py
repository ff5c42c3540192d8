"""Error bars on answers: standard deviations and confidence intervals from released numbers only.

`error_bars` gives values, standard deviations and intervals by one of three methods, and says which answers
the measurements do not determine at all. `combine` is the rule for analyses of several tables of a release
(`Release.tables`).
"""

from pgmjax._internal import migration
from pgmjax.uncertainty.intervals import error_bars
from pgmjax.uncertainty.linear import TooMuchWorkError
from pgmjax.uncertainty.posterior import combine

__all__ = ["TooMuchWorkError", "combine", "error_bars"]

migration.answer(globals())
