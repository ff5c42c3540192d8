"""Noisy answers about a table, the only information about it that estimation uses.

- `linear`: noisy answers to a linear query, and their standard deviation. `transcript`: a game of DualQuery.
- `noise`: the distributions of noise.
- `least_squares`: the best unbiased combinations of noisy answers, shared by several packages.
- `published`: noisy answers that were published elsewhere, from a file.
- `total`: the estimated number of records. `marginals`: noisy counts over any attributes, for plots.
"""
