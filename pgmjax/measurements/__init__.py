"""Noisy answers about a table: what estimation is given, and all that it sees of the table.

- `linear`: noisy answers to a linear query, and their standard deviation. `transcript`: a game of DualQuery.
- `estimates`: values with standard deviations, for all estimates whose intervals are Gaussian.
- `noise`: the discrete distributions that noise is drawn from.
- `least_squares`: the best unbiased combinations of noisy answers, which all floors above share.
- `total`: the number of records, estimated. `marginals`: noisy counts over any attributes, for plots.
"""

from pgmjax._internal.moved import serve_old_names

serve_old_names(__name__)
