"""`pgmjax release --mechanism mldp`: options as words, the trained model on disk."""

import json

import numpy as np
import pandas
import pytest

from pgmjax.cli import main
from pgmjax.queries import Product, marginal, prefix
from pgmjax.release import folder


@pytest.fixture
def call(small_domain, small_columns, tmp_path):
    """Returns what runs the command on a small table with more words."""
    pandas.DataFrame(small_columns).to_csv(tmp_path / "t.csv", index=False)
    small_domain.write(tmp_path / "d.json")
    workload = [["age", "sex"], {"clique": ["age"], "queries": {"age": "prefix"}}]
    (tmp_path / "w.json").write_text(json.dumps(workload))
    given = ["release", str(tmp_path / "t.csv"), "--domain", str(tmp_path / "d.json")]
    given += ["--workload", str(tmp_path / "w.json"), "--epsilon", "0.4", "--relation", "add-remove"]
    given += ["--mechanism", "mldp", "--steps", "50", "--rows", "10", "--out", str(tmp_path / "out")]
    return lambda *words: (main([*given, *words]), tmp_path / "out")


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--option", "training=random", "--option", "training_count=12", "--delta", "1e-6"],
        [
            "--option",
            'learner=["linear", {"name": "linear", "intercept": true}]',
            "--option",
            "encoding=factors",
        ],
    ],
    ids=["plain", "random", "several learners"],
)
def test_the_trained_model_is_written(call, words, capsys):
    status, out = call(*words)
    said = capsys.readouterr().out
    assert status == 0 and "of the trained model in predictor/" in said
    saved = folder.read(out)
    predictor = saved.predictor()
    estimates, low, high = (saved.answers()[name].to_numpy() for name in ("estimate", "low", "high"))
    asked = np.concatenate(
        [predictor.predict(marginal(("age", "sex"))), predictor.predict(Product({"age": prefix()}))]
    )
    moved = ~np.isclose(estimates, asked)  # where noise cannot explain the distance from the noisy answers
    assert (np.isclose(estimates, low) | np.isclose(estimates, high))[moved].all() and moved.mean() < 0.5
    assert saved.record["secure"] is True


def test_a_wrong_option_is_said(call, capsys):
    status, out = call("--option", "training=everything")
    assert status != 0 and "'everything'" in capsys.readouterr().err and not out.exists()
    status, out = call("--option", "training=random")
    assert status != 0 and "expected_records" in capsys.readouterr().err and not out.exists()


def test_a_release_of_another_mechanism_has_no_predictor(call):
    status, out = call("--mechanism", "marginals")
    assert status == 0
    with pytest.raises(ValueError, match="no predictor"):
        folder.read(out).predictor()
