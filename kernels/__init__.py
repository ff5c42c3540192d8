"""Accelerator kernels, installed as `pgmjax.kernels`.

Nothing in the library may need this package: every operation has its definition in
`inference.ops`, and a kernel is only another way of computing the same numbers. Kernels are off
until switched on (`using_kernels`), since none has been measured on a GPU yet.

The folder stands at the top of the repository; `pgmjax/kernels` is a link to it, so that an
uninstalled checkout imports it, too.
"""

from pgmjax.kernels.switch import kernels_in_use, using_kernels

__all__ = ["kernels_in_use", "using_kernels"]
