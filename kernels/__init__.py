"""Accelerator kernels, installed as `pgmjax.kernels`.

The library does not depend on this package: every operation is defined in `inference.ops`, and a kernel only
computes the same numbers in another way. Kernels are off until switched on (`using_kernels`), or until
`pgmjax bench kernels` finds them right and faster on the device at hand (`measure`).

The folder is at the top level of the repository; `pgmjax/kernels` is a link to it, so that it can be imported
from an uninstalled checkout as well.
"""

from pgmjax.kernels.switch import kernels_in_use, using_kernels

__all__ = ["kernels_in_use", "using_kernels"]
