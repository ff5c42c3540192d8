"""Inference from log-potentials: log-partition, marginals and maxima of a model.

- `plan`: the order of the work and its cost, settled on the host before memory is touched.
- `ops`: operations on log-space tables, which run a plan on the device.
- `oracles`: answers about a model, one way of computing them a file; `oracles.choose` picks one.
"""
