"""Privacy accounting: what accesses to a table cost, each and together, and how much noise a target needs.

`events` gives the cost of one access in every unit. `composition` adds up accesses declared in advance, by
the best account that applies: `zcdp` converts between rho and (epsilon, delta), `renyi` adds divergences
order by order. `calibration` finds the least noise for a target.
"""
