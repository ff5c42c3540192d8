"""Inference from log-potentials: log-partition, marginals and maxima of a model.

- `plan`: the order of operations and its cost, planned on the host before memory is allocated.
- `ops`: operations on log-space tables, which run a plan on the device.
- `oracles`: inference algorithms, one per file; `oracles.choose` selects one.
"""
