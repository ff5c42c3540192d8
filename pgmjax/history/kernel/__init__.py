"""Kernels of queries under a product prior: ridge regression and kernel PCA."""

from pgmjax._internal.moved import names_of

__getattr__ = names_of("history.kernel", __path__)
