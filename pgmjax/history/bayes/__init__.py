"""Bayesian inference from a history: unbiased estimators, exact noise distributions, posteriors.

`blue` is the best linear unbiased estimator of queries, in the coordinates of `coordinates`; `inference`
gives intervals, probabilities and tests of its answers. The error is a sum of noises (`noise_sum`), whose
distribution is computed by `distribution`, from its characteristic function, `convolution` or `monte_carlo`.
`posterior` samples the posterior of tables given all answers. `consistent` answers from the engine's model,
and has inference control: queries are declined once a watched claim becomes too certain.
"""
