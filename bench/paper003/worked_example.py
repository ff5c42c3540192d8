"""The worked example of Xiao and Xiong 2012, or one of the same form, every number by public names.

`python bench/paper003/worked_example.py [--input F.json] --json`; F holds H [answers, cells], y and alpha
[answers], Q [cells] and level. The noise is the paper's continuous Laplace distribution. Two figures that the
paper prints in its Section 5.2 are wrong: the 95 % interval [-41, 125] and P(theta > 0) = 0.88.
"""

import argparse
import json
import math
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import harness

from pgmjax import history

PAPER = {
    "H": [
        [1, 1, 0, 0],
        [0, 0, 1, 1],
        [0, 0, 0, 1],
        [0, 0, 1, 0],
        [0, 1, 0, 1],
        [2, 1, 0, 0],
        [0, 0, 2, -1],
        [0, -1, 0, 1],
    ],
    "y": [30.8, 30.3, 46.9, 20.2, 30.4, 68.9, 38.9, 9.5],
    "alpha": [0.05, 0.1, 0.05, 0.1, 0.1, 0.05, 0.05, 0.1],
    "Q": [1, 0, 1, 0],
    "level": 0.95,
}


def solve(example):
    """Every number of the worked example from H, y, alpha, Q and the level."""
    matrix, epsilons = np.array(example["H"], float), np.array(example["alpha"], float)
    moves = np.abs(matrix).max(axis=1)  # sensitivities under add-remove
    losses = (epsilons / moves) @ np.abs(matrix)  # Theorem 5.4: of each cell, and below of the system
    blue = history.BestLinearUnbiased.from_matrix(matrix, example["y"], moves / epsilons, continuous=True)
    answer = blue.answer(example["Q"], method="characteristic")
    return {
        "S": moves.tolist(),
        "A": blue.combination(example["Q"])[0].tolist(),
        "x_hat": blue.estimate.tolist(),
        "theta": answer.value,
        "variance": answer.variance,
        "interval95": list(answer.interval(float(example.get("level", 0.95)))),
        "prob_positive": answer.probability(low=0.0),
        "cell_costs": losses.tolist(),
        "system_cost": float(losses.max()),
    }


def main():
    """Read the example, solve it, print it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--input", type=pathlib.Path, help="a JSON file with H, y, alpha, Q and level")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--keep", action="store_true", help="add the paper's example to bench/results")
    options = parser.parse_args()
    result = solve(PAPER if options.input is None else json.loads(options.input.read_text()))
    if options.keep and options.input is None:
        harness.keep("paper003-example", result)
    if options.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        numbers = np.atleast_1d(value)
        print(f"{name:14}", " ".join(f"{v:.{8 if math.isfinite(v) else 1}g}" for v in numbers))


if __name__ == "__main__":
    main()
