"""Reference channels and selection distributions, from textbook formulas and nothing of the library."""

import itertools
import math

import numpy as np


def response(size, epsilon):
    """k-ary randomised response: the truth with e^eps / (e^eps + k - 1), else another category."""
    other = 1 / (math.exp(epsilon) + size - 1)
    return np.full((size, size), other) + np.eye(size) * (math.exp(epsilon) - 1) * other


def lie_may_be_truth(size, epsilon):
    """A seeded bug: the replacement is drawn from all categories, the truth among them."""
    lie = (size - 1) / (math.exp(epsilon) + size - 1)
    return np.full((size, size), lie / size) + np.eye(size) * (1 - lie)


def unary(size, truth, false):
    """Unary encoding: each bit of the one-hot vector by itself; outputs are all bit vectors."""
    outputs = np.array(list(itertools.product((0, 1), repeat=size)))
    ones = np.where(np.eye(size, dtype=bool), truth, false)[:, None, :]
    return np.where(outputs[None] == 1, ones, 1 - ones).prod(axis=2)


def optimised_unary(size, epsilon):
    """A one stays with 1/2, a zero becomes one with 1 / (e^eps + 1)."""
    return unary(size, 0.5, 1 / (math.exp(epsilon) + 1))


def unary_per_bit(size, epsilon):
    """A seeded bug: every bit by a response of the whole epsilon, though two bits differ."""
    false = 1 / (math.exp(epsilon) + 1)
    return unary(size, 1 - false, false)


def exponential(scores, epsilon=1.0, half=0.5):
    """P(i) ~ exp(half epsilon score); the missing half is a seeded bug."""
    weights = np.exp(half * epsilon * (scores - scores.max()))
    return weights / weights.sum()


def permute_and_flip(scores, epsilon=1.0):
    """McKenna and Sheldon 2020: walk the candidates in random order, take each with its own coin."""
    coins = np.exp(0.5 * epsilon * (scores - scores.max()))
    distribution = np.zeros(len(scores))
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        left = 1.0
        for candidate in order:
            distribution[candidate] += left * coins[candidate] / len(orders)
            left *= 1 - coins[candidate]
    return distribution
