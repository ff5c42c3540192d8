"""Auto measures everything where noise allows it, leaves out what it drowns, and else lets others choose."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.measurements.noise import DiscreteLaplace
from pgmjax.mechanisms import Auto, Marginals
from pgmjax.mechanisms.auto import LARGEST_NOISE
from pgmjax.privacy.seeded import SeededBackend

DOMAIN = pj.Domain({"a": 2, "b": 3, "c": 5, "d": 40, "e": 50})
PAIRS = list(itertools.combinations(DOMAIN.attributes, 2))
ALL = pj.Workload(PAIRS)
QUICK = pj.Estimator(max_steps=60, progress=False)
relations = pytest.mark.parametrize("relation", ["add-remove", "replace-one"])


def table(records, seed=0):
    """Each attribute follows the one before it for half of the records."""
    rng = np.random.default_rng(seed)
    columns, before = {}, rng.integers(0, 60, records)
    for name, size in DOMAIN.sizes.items():
        own = (size * rng.random(records) ** 2).astype(int)
        columns[name] = np.where(rng.random(records) < 0.5, before % size, own)
        before = columns[name]
    return pj.Dataset.from_columns(DOMAIN, columns)


def run(data, workload=ALL, relation="add-remove", epsilon=1, delta=0, seed=0, kind=Auto, **more):
    backend = SeededBackend(seed, insecure=True)
    mechanism = kind(epsilon, relation, delta, backend=backend, estimator=QUICK, **more)
    return mechanism.run(data, workload, show_progress=False)


def measured(release):
    return [m.clique for m in release.measurements if m.query == pj.queries.marginal(m.clique)]


@relations
@pytest.mark.parametrize("delta", [0, "1e-9"])
def test_all_marginals_are_measured_where_noise_allows_it(relation, delta):
    release = run(table(100_000), relation=relation, delta=delta)
    assert sorted(measured(release)) == sorted(PAIRS)
    assert release.spent.epsilon == 1 and release.mechanism == "auto"
    counts = [m for m in release.measurements if m.query != pj.queries.marginal(m.clique)]
    assert len(counts) == (relation == "add-remove")  # otherwise the number of records is public
    if delta == 0:  # of the pairs, each costs the same, and of the count a fiftieth of everything
        whole = Fraction(1) if not counts else Fraction(49, 50)
        moved = 1 if counts else 2
        scale = float(moved * len(PAIRS) / whole)
        pair = next(m for m in release.measurements if m.clique == PAIRS[0])
        assert pair.distribution.scale == pytest.approx(scale, rel=1e-12)
        assert not counts or counts[0].distribution.scale == pytest.approx(50, rel=1e-12)


@pytest.mark.parametrize("records", [20, 100, 300, 1000, 10_000])
def test_the_largest_are_left_out_by_the_rule(records):
    """The rule, by brute force: the most of the smallest pairs whose noise is bearable on average."""
    release = run(table(records), relation="replace-one")
    order = sorted(PAIRS, key=DOMAIN.size)

    def bearable(kept):
        covered = {name for pair in order[:kept] for name in pair}
        parts = kept + len(DOMAIN) - len(covered)
        stddev = DiscreteLaplace(2.0 * parts).stddev
        return (
            np.mean([DOMAIN.size(pair) for pair in order[:kept]]) * float(stddev) <= LARGEST_NOISE * records
        )

    kept = max((k for k in range(1, len(order) + 1) if bearable(k)), default=0)
    covered = {name for pair in order[:kept] for name in pair}
    alone = [(name,) for name in DOMAIN if name not in covered]
    assert sorted(measured(release)) == sorted(order[:kept] + alone)
    assert (kept == 0) == (records == 20) and (kept == len(order)) == (records == 10_000)


@pytest.mark.parametrize("records", [100, 400, 1600])
def test_the_error_is_that_of_the_better_of_all_pairs_and_of_independence(records):
    """Within a tenth. All pairs fit in memory; of few records, noise would drown them."""
    singles, errors = pj.Workload([[name] for name in DOMAIN]), dict.fromkeys(["auto", "all", "alone"], 0.0)
    for seed in range(4):
        data = table(records, seed)
        exact = dict(zip(PAIRS, data.marginals(PAIRS), strict=True))
        for key, kind, asked in (("auto", Auto, ALL), ("all", Marginals, ALL), ("alone", Marginals, singles)):
            model = run(data, asked, seed=seed, kind=kind).model
            shares = {pair: model.marginal(pair) / model.total for pair in PAIRS}
            errors[key] += np.mean([np.abs(shares[p] - exact[p] / records).sum() for p in PAIRS])
    assert errors["auto"] < 1.1 * min(errors["all"], errors["alone"])
    assert (errors["alone"] < errors["all"]) == (records == 100)


def test_a_unit_of_several_records_makes_more_noise():
    columns = {name: np.arange(1000) % size for name, size in DOMAIN.sizes.items()}
    plain = run(pj.Dataset.from_columns(DOMAIN, columns))
    columns |= {"who": np.arange(1000) // 4}
    bounded = run(pj.Dataset.from_columns(DOMAIN, columns, unit=pj.Unit("who", 4)))
    pairs = [sum(len(clique) > 1 for clique in measured(each)) for each in (bounded, plain)]
    assert 0 < pairs[0] < pairs[1] < len(PAIRS)


def test_a_model_that_is_too_large_is_left_to_those_who_choose():
    data = table(5000)
    assert {m.clique for m in run(data, max_cells=2500).measurements} >= {(name,) for name in DOMAIN}
    wide = pj.Domain({f"x{i:02d}": 3 for i in range(16)})
    rng = np.random.default_rng(0)
    many = pj.Dataset.from_columns(wide, {name: rng.integers(0, 3, 3000) for name in wide})
    every = pj.Workload.all_kway(wide, 2)  # 120 pairs: without a delta their scores cost too much
    tree = measured(run(many, every, max_cells=500))
    assert len(tree) == 16 + 15 and len({name for clique in tree[16:] for name in clique}) == 16
    drowned = measured(run(many, every, max_cells=500, epsilon="0.001"))
    assert drowned == [(name,) for name in wide]


def test_a_workload_of_other_queries_is_measured_whole():
    ranges = pj.Workload([{"clique": ["d", "e"], "queries": {"d": "prefix"}}, ["a"]])
    release = run(table(200), ranges)
    assert [m.query for m in release.measurements[1:]] == [entry.query for entry in ranges.entries]


@pytest.mark.parametrize("kind", [Auto, Marginals])
def test_a_weight_is_a_part_of_the_budget(kind):
    """Of Laplace noise: the scale is inverse to the part."""
    entries = [{"clique": ["a"], "weight": 9}, ["b"]]
    heavy, light = run(table(20_000), pj.Workload(entries), kind=kind).measurements[-2:]
    assert light.distribution.scale == pytest.approx(9 * heavy.distribution.scale, rel=1e-9)


def test_a_budget_too_small_for_noise_is_refused_before_spending():
    with pytest.raises(ValueError, match="noise"):
        run(table(200), epsilon="1e-18")
