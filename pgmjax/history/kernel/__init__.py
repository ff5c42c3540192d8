"""Kernels of queries under a product prior: ridge regression and kernel PCA.

`inner_products` computes the kernel matrix, and products with it without storing it; `system` joins it with
noise and answers. `ridge` answers from a history at one alpha by a linear solve, `pca` at any alpha from a
decomposition; `cross_validation` finds the alpha of least expected error.
"""
