"""The sums that all inference comes down to, installed as `pgmjax.kernels`.

Each file has one operation with its definition and its forms: on a processor, on other devices, in NumPy.
`tests/kernels` compares every form with the sum of all terms in float64.

- `log_sum_exp`: a table reduced over some axes.
- `exact_product`, `fast_product`: the matrix product in log space. Every large step of a contraction is one,
  and its gradient takes two more. The exact form knows minus infinity as zero; the fast one may underflow,
  and says where.

The folder is at the top level of the repository; `pgmjax/kernels` is a link to it, so that it can be imported
from an uninstalled checkout as well.
"""
