"""Names on the axes of pictures in notebooks."""

import pytest

from pgmjax.plotting import axes

LONG = [f"Municipality of the northern border no. {k}" for k in range(9)]
MIDDLE = [f"Municipality of the north no. {k}, with all of its islands" for k in range(9)]


@pytest.mark.parametrize("names", [LONG, MIDDLE, [*MIDDLE[:4], "a"], ["x" * 40, "x" * 41]])
@pytest.mark.parametrize("most", [8, 12, 16, 22])
def test_names_that_differ_are_cut_so_that_they_still_differ(names, most):
    cut = axes.distinct(names, most)
    assert len(set(cut)) == len(names) and max(map(len, cut)) <= most
