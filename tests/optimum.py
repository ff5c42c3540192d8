"""The estimator of tests that know the optimum of the loss: no regularisation, a certified tolerance.

Its fits are compiled: left to itself, a small fit runs on the host.
"""

import functools

import pgmjax as pj

to_optimum = functools.partial(pj.Estimator, regularisation="none", tol=1e-4, oracle="contraction")
