"""The solvers by name, as parameters of tests."""

import pytest

from pgmjax.estimation import solvers

# the line search of lbfgs takes long to compile
SOLVERS = [pytest.param(name, marks=pytest.mark.slow if name == "lbfgs" else ()) for name in solvers.names()]
