"""Bayesian inference from a history: unbiased estimators, exact noise distributions, posteriors.

`blue` is the best linear unbiased estimator of queries; `inference` gives intervals, probabilities and tests
of its answers. The error is a sum of noises, whose distribution is computed from its characteristic function
in `distribution`, and by a convolution or by draws in `inference`. `posterior` samples the posterior of
tables given all answers. `consistent` answers from the engine's model, and has inference control: queries are
declined once a watched claim becomes too certain.
"""
