"""The worked example of the paper by its script: figures computed three ways, and another input."""

import json
import pathlib

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parent.parent.parent
SCRIPT = ROOT / "bench" / "paper003" / "worked_example.py"
A = [0.476923, 0.364486, -0.032710, 0.495327, -0.500072, 0.261538, 0.070093, 0.238390]


def test_the_papers_example(run_script):
    paper = json.loads(run_script(SCRIPT, "--json"))
    first = ["S", "A", "x_hat", "theta", "variance", "interval95", "prob_positive"]
    assert list(paper) == [*first, "cell_costs", "system_cost"]
    assert paper["S"] == [1, 1, 1, 1, 1, 2, 2, 1]
    np.testing.assert_allclose(paper["x_hat"], [24.992308, 10.176923, 17.021495, 19.501869], atol=1e-6)
    np.testing.assert_allclose(paper["A"], A, atol=1e-6)
    np.testing.assert_allclose(paper["theta"], 42.0138030194, atol=1e-6)
    np.testing.assert_allclose(paper["variance"], 554.450036, atol=1e-6)
    np.testing.assert_allclose(paper["interval95"], [-5.3695, 89.3971], atol=1e-4)
    np.testing.assert_allclose(paper["prob_positive"], 0.961904, atol=1e-6)
    np.testing.assert_allclose(paper["cell_costs"], [0.1, 0.275, 0.25, 0.375], atol=1e-12)
    np.testing.assert_allclose(paper["system_cost"], 0.375, atol=1e-12)


def test_another_input_has_its_own_figures(run_script, tmp_path):
    """One cell asked twice: the inverse-variance mean, whose two equal Laplace terms have a closed form."""
    example = {"H": [[2.0], [2.0]], "y": [20.0, 30.0], "alpha": [0.5, 0.5], "Q": [1.0], "level": 0.8}
    (tmp_path / "F.json").write_text(json.dumps(example))
    result = json.loads(run_script(SCRIPT, "--input", tmp_path / "F.json", "--json"))
    assert result["S"] == [2, 2] and result["cell_costs"] == pytest.approx([1.0])
    assert result["theta"] == pytest.approx(12.5) and result["variance"] == pytest.approx(4.0)
    half = (result["interval95"][1] - result["interval95"][0]) / 2
    # two Laplace noises of scale b = 1: P(abs(X) <= w) = 1 - (1 + w / 2) exp(-w)
    assert 1 - (1 + half / 2) * np.exp(-half) == pytest.approx(0.8, abs=1e-8)


def test_words_for_a_reader(run_script):
    assert "system_cost    0.375" in run_script(SCRIPT)
