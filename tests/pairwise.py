"""Few rows of parameters that hold every pair of levels, in place of all products."""

import itertools


def rows(*factors, possible=lambda *row: True):
    """Rows of a level of each factor: any two levels that are possible together stand in one of them.

    Greedy and without chance: the next row is the first of those with most pairs that are still missing. Of
    two factors that is the product; of five with 3, 2, 2, 2 and 4 levels it is about 12 rows and not 96.
    """
    indexes = itertools.product(*(range(len(levels)) for levels in factors))
    every = [(tuple(levels[i] for levels, i in zip(factors, row, strict=True)), row) for row in indexes]
    left = [(row, pairs_of(indexes)) for row, indexes in every if possible(*row)]
    missing = set().union(*(pairs for _, pairs in left))
    chosen = []
    while missing:
        row, pairs = max(left, key=lambda entry: len(entry[1] & missing))
        missing -= pairs
        chosen.append(row)
    return chosen


def pairs_of(row):
    """What a row of indexes covers; of a single factor, its level."""
    if len(row) == 1:
        return {row}
    return {(a, row[a], b, row[b]) for a, b in itertools.combinations(range(len(row)), 2)}
