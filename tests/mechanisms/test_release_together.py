"""Runs that are measured one by one and fitted in one batch."""

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.mechanisms.measure_once import Measured, release_together
from pgmjax.mechanisms.run import FitError
from pgmjax.privacy.seeded import SeededBackend

DOMAIN = pj.Domain({"a": 2, "b": 3, "c": 4})
WORKLOAD = pj.Workload([["a", "b"], ["b", "c"]])


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return pj.Dataset.from_columns(DOMAIN, {n: rng.integers(s, size=500) for n, s in DOMAIN.sizes.items()})


def mechanism(seed, relation=pj.Relation.REPLACE_ONE, kind=pj.mechanisms.Marginals, **options):
    return kind(epsilon=1, relation=relation, backend=SeededBackend(seed, insecure=True), **options)


@pytest.mark.parametrize("relation", list(pj.Relation))
@pytest.mark.parametrize(
    ("kind", "options"), [(pj.mechanisms.Marginals, {}), (pj.mechanisms.HDMM, {"strategy": "identity"})]
)
def test_a_batch_holds_the_releases_of_single_runs(data, relation, kind, options):
    alone = [mechanism(seed, relation, kind, **options).run(data, WORKLOAD) for seed in range(3)]
    measured = [mechanism(seed, relation, kind, **options).measure(data, WORKLOAD) for seed in range(3)]
    assert all(isinstance(each, Measured) for each in measured)
    for ours, true in zip(release_together(measured), alone, strict=True):
        assert (ours.mechanism, ours.spent, ours.seed, ours.secure) == (
            true.mechanism, true.spent, true.seed, False
        )  # fmt: skip
        for one, other in zip(ours.measurements, true.measurements, strict=True):
            assert np.array_equal(one.values, other.values)
        assert ours.model.total == pytest.approx(true.model.total, rel=1e-12)
        # each is within its certificate of the one optimum: 1e-4 of the loss
        assert ours.fit.loss == pytest.approx(true.fit.loss, abs=1e-4 * max(1, true.fit.loss))


def test_another_way_to_answer_is_kept(data):
    measured = mechanism(1, kind=pj.mechanisms.HDMM, strategy="identity", answer="local").measure(
        data, WORKLOAD
    )
    assert measured.release().answered_by == release_together([measured])[0].answered_by == "local"


def test_an_empty_batch_and_one_of_two_structures_are_refused(data):
    with pytest.raises(ValueError, match="at least one run"):
        release_together([])
    mixed = [mechanism(0).measure(data, WORKLOAD), mechanism(0).measure(data, pj.Workload([["a"]]))]
    with pytest.raises(FitError, match=r"row 0.*2.*row 1.*1") as caught:
        release_together(mixed)
    assert len(caught.value.measurements) == 3
