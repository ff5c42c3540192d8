"""The census workload SF1 of the HDMM papers, built from its published description."""

import functools
import itertools

import numpy as np

from pgmjax import queries
from pgmjax.data.domain import Domain
from pgmjax.queries import Product

DOMAIN = Domain({"sex": 2, "hispanic": 2, "race": 64, "age": 115})
EDGES = [0, 5, 10, 15, 18, 20, 21, 22, 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, 70, 75, 80, 85, 115]
CODES = np.arange(64)
RACES = np.array([bin(code).count("1") for code in CODES])
SINGLE = [2**bit == CODES for bit in range(6)]
COUNTED = [number == RACES for number in range(1, 7)]
SINGLY = [(age, age) for age in range(100)]

BLOCKS = {
    "T": queries.total(),
    "I": queries.identity(),
    "IT": queries.matrix(np.vstack([np.eye(2), np.ones(2)])),
    "h": queries.point(0),
    "n": queries.point(1),
    "w": queries.point(1),
    "r1": queries.matrix(np.array([*SINGLE, RACES != 1]).astype(int)),
    "r2": queries.matrix(np.array([*(k == CODES for k in range(1, 64)), *COUNTED, RACES >= 2]).astype(int)),
    "a": queries.range(18, 114),
    "a1": queries.ranges([(low, high - 1) for low, high in itertools.pairwise(EDGES)]),
    "a3": queries.ranges([*SINGLY, (100, 104), (105, 109), (110, 114)]),
}
PRODUCTS = """
5 T T T T, 1 T T r1 T, 2 T I T T, 1 T I r1 T, 1 T IT T T, 1 T T r2 T, 1 T n r2 T, 1 T T r2 a, 2 T T T a,
1 T I T a, 1 T n r2 a, 1 I T T a1, 2 IT T T T, 1 I T r1 a1, 2 IT T r1 T, 1 I h T a1, 2 IT h T T,
1 I n w a1, 1 IT n w T, 1 I T T a3, 1 I T r1 a3, 1 I h T a3, 1 I n r1 a3, 1 IT n r1 T
"""


def products():
    """The 33 products, each as often as it stands in the workload."""
    made = []
    for words in PRODUCTS.replace("\n", " ").split(","):
        times, *names = words.split()
        blocks = {attribute: BLOCKS[name] for attribute, name in zip(DOMAIN, names, strict=True)}
        made += [Product(blocks)] * int(times)
    return made


def l1_sensitivity():
    """The largest column norm of all products together, over all joint cells."""
    columns = 0
    for product in products():
        sums = [
            np.abs(block.matrix(DOMAIN[name])).sum(axis=0)
            for name, block in zip(product.clique, product.blocks, strict=True)
        ]
        columns = columns + functools.reduce(np.multiply.outer, sums)
    return int(columns.max())
