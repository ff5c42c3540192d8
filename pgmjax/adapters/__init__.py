"""Conversion to and from other libraries: mbi, OpenDP contingency tables, Arrow tables.

`mbi` takes lists of `mbi.LinearMeasurement` and returns mbi-like models; `opendp` reads contingency tables
released by OpenDP; `arrow` converts rows, marginals and measurements. None of these libraries is needed to
import this package.
"""

from pgmjax._internal import migration
from pgmjax.adapters import arrow, mbi, opendp

__all__ = ["arrow", "mbi", "opendp"]

migration.answer(globals())
