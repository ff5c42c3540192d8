"""A release says what it is, in words and in exact numbers."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest

from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.estimation.estimator import Estimator
from pgmjax.mechanisms import Marginals
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.queries.workload import Workload
from pgmjax.release.release import Release, Spent

DOMAIN = Domain({"a": 3, "b": 2})
DATA = Dataset.from_columns(DOMAIN, {"a": [0, 1, 2, 2], "b": [0, 1, 1, 0]})
WORKLOAD = Workload.of_marginals([("a", "b")])
pytestmark = pytest.mark.filterwarnings("ignore:the noisy answers put the total")  # four records only


def run(relation=Relation.ADD_REMOVE, **settings):
    settings = {"epsilon": 1, "relation": relation, "estimator": Estimator(max_steps=3)} | settings
    return Marginals(**settings).run(DATA, WORKLOAD)


def test_spent_is_exact_text():
    assert Spent(Fraction(1), Fraction(0)).to_dict() == {"epsilon": "1", "delta": "0"}
    assert Spent(Fraction(1, 3), Fraction(1, 10**9), Fraction(1, 8)).to_dict() == {
        "epsilon": "1/3",
        "delta": "0.000000001",
        "rho": "0.125",
    }
    assert str(Spent(Fraction(1, 10), Fraction(0))) == "epsilon 0.1, delta 0"


def test_a_release_is_frozen():
    release = run()
    assert isinstance(release, Release)
    with pytest.raises(dataclasses.FrozenInstanceError):
        release.secure = True
    with pytest.raises(ValueError, match="read-only"):
        release.measurements[0].values[0] = 0


def test_repr_fits_a_line():
    assert (
        repr(run())
        == "Release(marginals: epsilon 1, delta 0, add-remove, secure; 1 measurements, 2 attributes)"
    )
    insecure = run(backend=SeededBackend(7, insecure=True))
    assert "NOT SECURE, seed 7" in repr(insecure)


def test_statement_of_a_pure_release():
    said = run(epsilon="0.5").statement()
    assert said.startswith(
        "This release is differentially private with epsilon = 0.5: if one record is added to the "
        "table or removed from it, the probability"
    )
    assert "at most by a factor of exp(0.5). " in said
    assert "6 counts, each released with discrete Laplace noise" in said
    assert said.endswith("The noise came from a vetted sampler and cannot be repeated.")


def test_statement_of_an_approximate_release():
    said = run(Relation.REPLACE_ONE, delta="1e-6").statement()
    assert "epsilon = 1 and delta = 0.000001" in said and "apart from a probability of 0.000001." in said
    assert "if the values of one record in the table are changed, the probability" in said
    assert "The number of records is public." in said
    assert "discrete Gaussian noise" in said


WEIGHTED = Dataset.from_columns(
    DOMAIN, {"a": [0, 1, 2, 2], "b": [0, 1, 1, 0]}, weights=[1, 2, 3, 1], max_weight=3
)


def test_weights_are_never_said_to_be_public():
    settings = {"epsilon": 1, "estimator": Estimator(max_steps=3)}
    replaced = Marginals(relation=Relation.REPLACE_ONE, **settings).run(WEIGHTED, WORKLOAD)
    assert replaced.unit is None and replaced.weighted and replaced.max_weight == 3
    assert not replaced.total_public
    said = replaced.statement()
    assert "values of one record in the table (its weight, at most 3, among them) are changed, the" in said
    assert "their weights and total weight are private." in said
    added = Marginals(relation=Relation.ADD_REMOVE, **settings).run(WEIGHTED, WORKLOAD)
    assert "if one record, of weight at most 3, is added to the table or removed from it, the" in (
        added.statement()
    )
    assert "public" not in added.statement()


@pytest.mark.parametrize(("relation", "public"), [(Relation.ADD_REMOVE, False), (Relation.REPLACE_ONE, True)])
def test_what_the_total_of_a_table_without_weights_is(relation, public):
    made = run(relation)
    assert made.unit is None and not made.weighted and made.max_weight == 1
    assert made.total_public is public


def test_statement_of_an_insecure_release_warns_first():
    said = run(backend=SeededBackend(7, insecure=True)).statement()
    assert said.startswith("NOT FOR PUBLICATION") and "vetted" not in said


def test_values_are_integers_of_64_bits():
    assert all(m.values.dtype == np.int64 for m in run().measurements)
