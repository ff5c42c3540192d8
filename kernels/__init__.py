"""Accelerator kernels, installed as `pgmjax.kernels`.

Nothing in the library may need this package: every operation has its definition in
`pgmjax.ops`, and a kernel is only another way of computing the same numbers.
"""
