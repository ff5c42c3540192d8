"""Inference from log-potentials: log-partition, marginals, maxima; planned on the host, run on the device."""
