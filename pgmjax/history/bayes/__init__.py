"""Bayesian inference from a history: unbiased estimates, exact noise distributions, posteriors."""
