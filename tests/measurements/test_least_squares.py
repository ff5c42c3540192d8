"""Generalised least squares in both coordinate systems against the Gauss-Markov formula on all cells."""

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.measurements.least_squares import (
    Information,
    JointCells,
    ResidualBasis,
    WhitenedAnswers,
    shortest_combinations,
)

DOMAIN = pj.Domain({"a": 2, "b": 3, "c": 2})
PREFIXES = pj.queries.kronecker({"b": pj.queries.prefix(), "a": pj.queries.identity()})
MEASURED = [
    pj.LinearMeasurement(("c", "a"), [[5, 4], [3, 9]], stddev=2.0),
    pj.LinearMeasurement(("b",), [7, 8, 7], stddev=0.5),
    pj.LinearMeasurement(("b", "a"), [1, 2, 3, 4, 8, 9], stddev=1.0, query=PREFIXES),
]


def whitened_on_all_cells():
    """The measured rows over their standard deviations [13, 12], from the answers on each single cell."""
    units = np.eye(12).reshape(12, 2, 3, 2)
    tables = [
        units.sum(2).transpose(0, 2, 1),
        units.sum((1, 3)),
        np.cumsum(units.sum(3).transpose(0, 2, 1), 1),
    ]
    return np.concatenate([t.reshape(12, -1).T / m.stddev for t, m in zip(tables, MEASURED, strict=True)])


ROWS = whitened_on_all_cells()
TARGETS = np.array([np.ones(12), np.repeat([1.0, 0.0], 6), np.eye(12)[0]])  # all, those with a = 0, one cell


def systems():
    cells = JointCells(DOMAIN, ("a", "b", "c"))
    return {"cells": cells, "effects": ResidualBasis.of(DOMAIN, [("a", "b", "c")])}


@pytest.mark.parametrize("kind", ["cells", "effects"])
def test_both_coordinate_systems_agree_with_the_formula(kind):
    coordinates = systems()[kind]
    answers = WhitenedAnswers(MEASURED, coordinates)
    targets = np.zeros((3, coordinates.length))
    for vector, target in zip(targets, TARGETS, strict=True):
        coordinates.add(vector, ("a", "b", "c"), target.reshape(2, 3, 2))
    found, estimable, rank = shortest_combinations(answers.matrix(), targets)
    assert estimable.tolist() == [True, True, False] and rank == np.linalg.matrix_rank(ROWS)
    inverse = np.linalg.pinv(ROWS.T @ ROWS)
    np.testing.assert_allclose(found[:2], TARGETS[:2] @ inverse @ ROWS.T, atol=1e-9)
    np.testing.assert_allclose((found[:2] ** 2).sum(1), np.diag(TARGETS @ inverse @ TARGETS.T)[:2])


@pytest.mark.parametrize("kind", ["cells", "effects"])
def test_products_are_those_of_the_matrix(kind):
    answers = WhitenedAnswers(MEASURED, systems()[kind])
    matrix, rng = answers.matrix(), np.random.default_rng(3)
    vector, weights = rng.standard_normal(matrix.shape[1]), rng.standard_normal(len(matrix))
    np.testing.assert_allclose(answers.operator() @ vector, matrix @ vector, atol=1e-12)
    np.testing.assert_allclose(answers.operator().rmatvec(weights), weights @ matrix, atol=1e-12)
    if kind == "cells":
        np.testing.assert_allclose(matrix, ROWS)


def test_information_is_the_covariance_of_the_estimates():
    information, inverse = Information.of(ROWS), np.linalg.pinv(ROWS.T @ ROWS)
    np.testing.assert_allclose(information.inverse, inverse, atol=1e-9)
    np.testing.assert_allclose(information.variances(TARGETS), np.diag(TARGETS @ inverse @ TARGETS.T))
    assert information.missing(TARGETS).any(axis=1).tolist() == [False, False, True]
    np.testing.assert_allclose(
        information.combinations(ROWS, TARGETS[:2]), TARGETS[:2] @ inverse @ ROWS.T, atol=1e-9
    )
    values = WhitenedAnswers(MEASURED, systems()["cells"]).values
    np.testing.assert_allclose(
        information.estimate(ROWS, values), np.linalg.lstsq(ROWS, values)[0], atol=1e-9
    )


def test_rows_appended_one_by_one_give_the_pseudo_inverse():
    """Those that see a new direction and those that do not, from no row at all on."""
    information = Information(np.zeros((12, 12)), np.eye(12))
    order = np.random.default_rng(0).permutation(len(ROWS))
    for number, place in enumerate(order, start=1):
        information = information.append(ROWS[place])
        rows = ROWS[order[:number]]
        np.testing.assert_allclose(information.inverse, np.linalg.pinv(rows.T @ rows), atol=1e-7)
    assert information.updates == len(ROWS)


def test_a_single_cell_that_is_missed_makes_a_target_not_estimable():
    """However many other cells are met: thirty millionths of one in 4,096 are no rounding."""
    rows = np.ones((1, 4096))
    assert shortest_combinations(rows, np.ones((1, 4096)))[1].tolist() == [True]
    rows[0, 7] -= 3e-5
    assert shortest_combinations(rows, np.ones((1, 4096)))[1].tolist() == [False]
