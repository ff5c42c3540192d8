"""Losses: convex functions of marginals that a fit minimises.

`base` is the interface, `build` makes a loss from its name. `l1` and `l2` share the residuals of `linear`;
`custom` is any convex function, `transcript` is for DualQuery. A new loss is one file with a `Loss` and its
`BoundLoss` (whose docstring says what they must have), one export line here, and its name in `build`, which
the command line lists too.
"""

from pgmjax._internal import migration
from pgmjax.estimation.losses.base import BoundLoss, Loss
from pgmjax.estimation.losses.build import build as build
from pgmjax.estimation.losses.build import check as check
from pgmjax.estimation.losses.build import names as names
from pgmjax.estimation.losses.custom import Custom
from pgmjax.estimation.losses.l1 import L1
from pgmjax.estimation.losses.l2 import L2 as L2

__all__ = ["L1", "BoundLoss", "Custom", "Loss"]

migration.answer(globals())
