"""Privacy accounting: what accesses to a table cost, each and together, and how much noise a target needs.

`events` says what one access costs, in every currency. `composition` adds up accesses that are declared
beforehand, by the best account that applies: `zcdp` from rho to (epsilon, delta) and back, `renyi` order by
order, `pld` by privacy loss distributions. `calibration` goes from a target to the least noise.
"""

from pgmjax._internal.moved import serve_old_names

serve_old_names(__name__)
