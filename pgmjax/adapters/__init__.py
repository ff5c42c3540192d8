"""To and from other libraries: mbi, contingency tables of OpenDP, Arrow tables. None of them is needed here.

`mbi` takes lists of `mbi.LinearMeasurement` and gives back what mbi's users work with; `opendp` reads the
contingency tables that OpenDP releases; `arrow` makes Arrow tables of rows, marginals and measurements.
"""

from pgmjax._internal.moved import serve_old_names
from pgmjax.adapters import arrow, mbi, opendp

__all__ = ["arrow", "mbi", "opendp"]

serve_old_names(__name__)
