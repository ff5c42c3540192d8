"""Large tables of cases: a part of them by default, all of them with the slow tests."""

import pytest


def spread(cases, every):
    """Parameters for `parametrize`: every so many of the cases, tuples, run by default, the others are slow.

    A number that has no factor in common with the sizes of the table meets all values of each parameter.
    """
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)), marks=[pytest.mark.slow] * (k % every > 0)
        )
        for k, case in enumerate(cases)
    ]
