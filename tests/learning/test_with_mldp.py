"""Every learner in a release: trained, saved, read again, and asked."""

import numpy as np
import pytest

from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.learning import MLP, GaussianBasis
from pgmjax.learning.learners import LEARNERS, as_learner
from pgmjax.mechanisms import MLDP
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.queries import Product, ranges
from pgmjax.queries.workload import Workload
from pgmjax.release import folder

DOMAIN = Domain({"a": 24})
COUNTS = np.bincount(np.random.default_rng(0).binomial(23, 0.4, 3000), minlength=24)
DATA = Dataset.from_columns(DOMAIN, {"a": np.repeat(np.arange(24), COUNTS)})
WORKLOAD = Workload([{"clique": ["a"], "queries": {"a": "prefix"}}])
FRESH = Product({"a": ranges([(3, 9), (0, 20), (10, 12)])})
CHOSEN = {"mlp": MLP(hidden=(16,), epochs=300, learning_rate=0.01), "sklearn": "sklearn.SVR"}
SETTINGS = {"epsilon": 20, "relation": Relation.ADD_REMOVE, "encoding": "corners", "training": "random"}


def trained(learner, **more):
    backend = SeededBackend(1, insecure=True)
    mechanism = MLDP(**{**SETTINGS, "training_count": 60, **more}, learner=learner, backend=backend)
    return mechanism.run(DATA, WORKLOAD, show_progress=False)


@pytest.mark.parametrize("name", LEARNERS)
def test_a_release_with_any_learner_is_read_again(name, tmp_path):
    cells = {"encoding": "cells"} if name == "engine" else {}
    release = trained(as_learner(CHOSEN.get(name, name)), **cells)
    folder.write(release, tmp_path / "release")
    again = folder.read(tmp_path / "release").predictor()
    assert np.allclose(again.predict(FRESH), release.predict(FRESH), rtol=1e-9)


def test_curves_over_corners_are_learned():
    """Ranges' counts are smooth in both ends: learners of curves err less than a plane does."""
    truth = FRESH.apply(COUNTS)
    error = {}
    for learner in ("linear", GaussianBasis(), CHOSEN["mlp"]):
        error[as_learner(learner).name] = np.abs(trained(learner).predict(FRESH) - truth).mean()
    assert error["gaussian-basis"] < 0.5 * error["linear"]
    assert error["mlp"] < 0.5 * error["linear"]


def test_the_best_of_several_is_chosen():
    release = trained(["linear", GaussianBasis()], epsilon=50)
    assert [name for name, _ in release.selection] == ["linear", "gaussian-basis"]
    errors = dict(release.selection)
    assert errors["gaussian-basis"] < errors["linear"]
    assert release.predictor.parts[0].fitted.learner.name == "gaussian-basis"
