"""The sums that all inference comes down to, installed as `pgmjax.kernels`.

Each file has one operation with its definition and its forms: on a processor, on other devices, in NumPy.
`tests/kernels` compares every form with the sum of all terms in float64.

- `log_sum_exp`: a table reduced over some axes.
- `log_matmul_exp`: the matrix product in log space; `exact_product` and `fast_product` are forms of it.
- `where_needed`: work that is skipped where no entry needs it.

The folder is at the top level of the repository; `pgmjax/kernels` is a link to it, so that it can be imported
from an uninstalled checkout as well.
"""
