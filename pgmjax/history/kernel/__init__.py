"""Kernels of queries under a product prior: ridge regression and kernel PCA.

`inner_products` computes the kernel matrix, and products with it without storing it. `ridge` answers from a
history at one alpha by a linear solve, `pca` at any alpha from a decomposition. Cross-validation, in `ridge`,
finds the alpha of least expected error.
"""
