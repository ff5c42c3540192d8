"""The solvers by name, as parameters of tests."""

from pgmjax.estimation import solvers

SOLVERS = list(solvers.names())
