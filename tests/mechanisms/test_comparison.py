"""The comparison of mechanisms on simulated tables: their distributions, the errors, the recommendation."""

import inspect
import json

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.data.dataset import Dataset
from pgmjax.mechanisms import comparison
from pgmjax.mechanisms.comparison import MechanismComparison, MechanismErrors, simulated_table
from pgmjax.privacy.seeded import SeededBackend

DOMAIN = pj.Domain({"a": 3, "b": 4, "c": 2})
WORKLOAD = pj.Workload([["a", "b"], {"clique": ["b", "c"], "queries": {"b": "prefix"}}])
GIVEN = {"epsilon": 1, "relation": "replace-one", "records": 500}
N = 200_000


def compare(domain=DOMAIN, workload=WORKLOAD, **changes):
    return pj.mechanisms.compare(domain, workload, **{**GIVEN, "seeds": 1, **changes})


def zipf_of(codes, size):
    """The exact shares of the values of a column: 1, 1/2, ..., in the order of its counts."""
    shares = 1 / np.arange(1, size + 1)
    places = np.argsort(-np.bincount(codes, minlength=size))
    return (shares / shares.sum())[np.argsort(places)]


def squares(columns, names, shares):
    """Pearson's statistic of a table of counts against exact shares, in its standard deviations."""
    counts = np.bincount(
        np.ravel_multi_index([columns[n] for n in names], shares.shape), minlength=shares.size
    )
    expected = N * shares.ravel()
    statistic, freedom = ((counts - expected) ** 2 / expected).sum(), shares.size - 1
    return (statistic - freedom) / np.sqrt(2 * freedom)


@pytest.mark.parametrize("kind", comparison.KINDS)
def test_values_have_the_shares_of_zipf_in_every_kind(kind):
    domain = pj.Domain({"a": 7, "b": 4, "c": 2, "d": 1, "e": 5})
    columns = simulated_table(domain, N, kind, seed=3)
    assert list(columns) == list(domain)
    for name, size in domain.sizes.items():
        assert columns[name].shape == (N,)
        shares = zipf_of(columns[name], size)
        assert size == 1 or abs(squares(columns, [name], shares)) < 5


@pytest.mark.parametrize(("kind", "copied"), [("independent", 0.0), ("tree", 0.4), ("dense", 0.7)])
def test_two_attributes_have_the_joint_shares_of_their_kind(kind, copied):
    """The product, mixed with the table of equal ranks; of the independent kind the product alone."""
    domain = pj.Domain({"a": 5, "b": 4})
    columns = simulated_table(domain, N, kind, seed=1)
    a, b = zipf_of(columns["a"], 5), zipf_of(columns["b"], 4)
    ends = [np.concatenate([[0], np.cumsum(each)]) for each in (a, b)]
    low = np.maximum.outer(ends[0][:-1], ends[1][:-1])
    equal_ranks = np.clip(np.minimum.outer(ends[0][1:], ends[1][1:]) - low, 0, None)
    joint = (1 - copied) * np.outer(a, b) + copied * equal_ranks
    assert abs(squares(columns, ["a", "b"], joint)) < 5
    assert copied == 0 or squares(columns, ["a", "b"], np.outer(a, b)) > 1000


def test_every_pair_of_the_independent_kind_is_a_product():
    domain = pj.Domain({name: 2 + i for i, name in enumerate("abcde")})
    columns = simulated_table(domain, N, "independent", seed=8)
    for i, first in enumerate(domain):
        for second in list(domain)[i + 1 :]:
            shares = [zipf_of(columns[name], domain[name]) for name in (first, second)]
            assert abs(squares(columns, [first, second], np.outer(*shares))) < 5


@pytest.mark.parametrize("seed", range(4))
def test_a_copy_depends_on_the_value_alone(seed):
    """In a tree of three, some attribute makes the other two independent, to the precision of the counts."""
    sizes = (3, 4, 5)
    columns = simulated_table(pj.Domain(dict(zip("abc", sizes, strict=True))), N, "tree", seed)
    counts = np.zeros(sizes)
    np.add.at(counts, tuple(columns.values()), 1)

    def dependence(axis):
        """Likelihood ratio statistic of independence given an attribute, in its standard deviations."""
        one, other = (each for each in range(3) if each != axis)
        given = counts.sum(axis=(one, other), keepdims=True)
        expected = counts.sum(axis=one, keepdims=True) * counts.sum(axis=other, keepdims=True) / given
        seen = counts > 0
        freedom = sizes[axis] * (sizes[one] - 1) * (sizes[other] - 1)
        statistic = 2 * (counts[seen] * np.log(counts[seen] / expected[seen])).sum()
        return (statistic - freedom) / np.sqrt(2 * freedom)

    found = sorted(map(dependence, range(3)))
    assert found[0] < 5 and found[1] > 50


def test_the_table_is_another_stream_than_the_noise():
    drawn = simulated_table(DOMAIN, 1000, "independent", 7)
    assert all(
        (drawn[name] == simulated_table(DOMAIN, 1000, "independent", 7)[name]).all() for name in DOMAIN
    )
    assert any(
        (drawn[name] != simulated_table(DOMAIN, 1000, "independent", 8)[name]).any() for name in DOMAIN
    )
    assert pj.random.generators(7, 1)[0].random() != pj.random.generator(7).random()


@pytest.mark.parametrize("name", ["mst", "hdmm"])
def test_errors_are_those_of_the_mechanism_on_the_table(name):
    found = compare(mechanisms=[name], seeds=2)
    for kind in comparison.KINDS:
        for seed in range(2):
            table = Dataset.from_columns(DOMAIN, simulated_table(DOMAIN, 500, kind, seed))
            ready = pj.mechanisms.names()[name](
                1,
                "replace-one",
                estimator=pj.Estimator(progress=False),
                backend=SeededBackend(seed, insecure=True),
            )
            release = ready.run(table, WORKLOAD, show_progress=False)
            tables = table.marginals([entry.clique for entry in WORKLOAD.entries])
            far = []
            for entry, counts, ours in zip(WORKLOAD.entries, tables, release.answers(), strict=True):
                exact = np.ravel(entry.query.apply(counts))
                far.append(np.abs(exact - ours).sum() / exact.sum())
            expected = np.mean(far)
            assert found.mechanisms[0].errors[kind][seed] == pytest.approx(expected, rel=1e-12)


def test_the_product_of_exact_marginals():
    found = compare(mechanisms=["marginals"])
    for kind in comparison.KINDS:
        columns = simulated_table(DOMAIN, 500, kind, 0)
        one = {n: np.bincount(c, minlength=DOMAIN[n]) for n, c in columns.items()}
        ab, bc = np.zeros((3, 4)), np.zeros((4, 2))
        np.add.at(ab, (columns["a"], columns["b"]), 1)
        np.add.at(bc, (columns["b"], columns["c"]), 1)
        first = np.abs(ab - np.outer(one["a"], one["b"]) / 500).sum() / 500
        prefix = bc.cumsum(axis=0)
        second = np.abs(prefix - np.outer(one["b"], one["c"]).cumsum(axis=0) / 500).sum() / prefix.sum()
        assert found.product[kind] == pytest.approx(((first + second) / 2,), rel=1e-12)


def test_noisy_counts_have_the_expected_size_of_the_noise():
    """Two marginals at epsilon 1/2 each; a replaced record changes two counts by one."""
    found = compare(workload=pj.Workload([["a", "b"], ["b", "c"]]), mechanisms=["marginals"], seeds=2)
    ratio = np.exp(-0.5 / 2)
    size = 2 * ratio / (1 - ratio**2)  # of a discrete Laplace variable
    expected = (12 * size + 8 * size) / 500 / 2
    assert found.noisy_counts == pytest.approx(dict.fromkeys(comparison.KINDS, expected), rel=1e-9)


def test_seeds_repeat_the_comparison():
    first, again = (compare(mechanisms=["mst", "marginals"], seeds=2).to_dict() for _ in range(2))
    for each in (first, again):
        for mechanism in (*each["mechanisms"].values(), each["one_way"]):
            assert mechanism.pop("seconds") > 0
    assert first == again and json.loads(json.dumps(first, allow_nan=False)) == first


@pytest.mark.parametrize("names", [["dual-query", "marginals", "mst"], ["mst", "marginals", "dual-query"]])
def test_the_least_error_comes_first(names):
    found = compare(mechanisms=names)
    averages = [each.average for each in found.mechanisms]
    assert averages == sorted(averages) and {each.name for each in found.mechanisms} == set(names)
    assert found.recommended == found.mechanisms[0].name != "dual-query" == found.mechanisms[-1].name


def test_a_class_of_ones_own_is_compared_like_those_of_the_library():
    class Own(pj.mechanisms.Marginals):
        name = "own"

    found = compare(mechanisms=[Own, "marginals"])
    own, marginals = (next(e for e in found.mechanisms if e.name == name) for name in ("own", "marginals"))
    assert own.errors == marginals.errors and not found.refused
    assert [each.name for each in compare(mechanisms=[pj.mechanisms.Marginals]).mechanisms] == ["marginals"]


def errors(name, independent, tree, dense):
    return MechanismErrors(
        name, {"independent": independent, "tree": tree, "dense": dense}, seconds=1.0, cells=1
    )


def made(*mechanisms, product=(0.1, 0.3, 0.5)):
    ordered = tuple(sorted(mechanisms, key=lambda each: each.average))
    products = {kind: (each, each) for kind, each in zip(comparison.KINDS, product, strict=True)}
    return MechanismComparison({}, ordered, {}, errors("one-way only", (0.2,), (0.4,), (0.6,)), products, {})


def test_every_mechanism_is_compared_if_none_is_named(monkeypatch):
    def run(mechanism, asked, kind, *given):
        return comparison._SimulatedRun(kind, 0.5, 0.0, 0)

    monkeypatch.setattr(comparison, "_simulated_run", run)
    found = [each.name for each in compare().mechanisms]
    assert found == list(pj.mechanisms.names()) and "batch-aim" in found


def test_the_recommendation_is_the_least_average():
    slow = errors("slow", (0.3, 0.3), (0.2, 0.2), (0.2, 0.2))
    near = errors("near", (0.2, 0.2), (0.25, 0.25), (0.26, 0.28))
    far = errors("far", (0.1, 0.1), (0.4, 0.4), (0.5, 0.5))
    found = made(far, near, slow)
    assert found.recommended == "slow" and slow.average == pytest.approx(0.7 / 3)
    assert found.winners == {"independent": "far", "tree": "slow", "dense": "slow"}
    assert "slow has the least error, 0.233" in found.reason and "Within 5 % of it: near;" in found.reason
    assert "Least by kind: independent far, tree slow" in found.reason
    assert near.spread("dense") == pytest.approx(0.02 / np.sqrt(2)) and near.spread("tree") == 0


@pytest.mark.parametrize(
    ("tree", "dense", "useful"),
    [
        ((0.31, 0.31), (0.51, 0.51), False),
        ((0.29, 0.31), (0.51, 0.49), False),  # better by luck, in one seed
        ((0.31, 0.31), (0.49, 0.49), True),
        ((0.29, 0.29), (0.9, 0.9), True),
    ],
)
def test_a_mechanism_has_to_beat_the_product(tree, dense, useful):
    found = made(errors("mst", (0.0, 0.0), tree, dense))  # on independent tables anything can
    assert found.useful is useful and found.recommended == ("mst" if useful else None)
    assert ("No budget of this size measures this candidate set usefully" in found.reason) is not useful


def test_a_small_budget_measures_nothing_usefully():
    found = compare(epsilon="1/1000", mechanisms=["marginals", "mst"], records=200)
    assert found.recommended is None and "one-way marginals alone" in found.reason
    assert compare(epsilon=10, mechanisms=["marginals"], records=5000).recommended == "marginals"


def test_where_only_one_way_marginals_are_asked_for_the_product_is_no_bar():
    found = compare(workload=pj.Workload([["a"], ["b"], ["c"]]), mechanisms=["marginals"], records=401)
    assert found.product["dense"] == pytest.approx((0,), abs=1e-12) and found.recommended == "marginals"
    for kind, errors in found.one_way.errors.items():  # the second of equal fits is compiled
        assert found.mechanisms[0].errors[kind] == pytest.approx(errors, rel=1e-12)


def test_refused_mechanisms_have_their_reason_in_one_line():
    found = compare(relation="add-remove", mechanisms=["privbayes", "marginals", "dual-query"])
    assert list(found.refused) == ["privbayes", "dual-query"] and found.recommended == "marginals"
    assert all(word in found.refused["privbayes"] for word in ("PrivBayes", "replace-one", "add-remove"))
    assert not any("\n" in reason for reason in found.refused.values())
    none = compare(relation="add-remove", mechanisms=["privbayes"])
    assert none.recommended is None and none.reason == "No mechanism runs with these settings."
    assert none.winners == {} and none.mechanisms == ()


def test_a_model_that_is_too_large_is_refused_and_others_run():
    domain = pj.Domain(dict.fromkeys("abcdefgh", 60))
    found = compare(domain, pj.Workload.all_kway(domain, 2), mechanisms=["marginals", "mst"], records=100)
    assert "marginals" in found.refused and [each.name for each in found.mechanisms] == ["mst"]
    assert found.noisy_counts["tree"] > 1  # noise needs no model


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"mechanisms": ["mts"]}, ValueError, "mechanisms.*'mst'"),
        ({"mechanisms": []}, ValueError, "different names, at least one"),
        ({"mechanisms": ["mst", "mst"]}, ValueError, "different names"),
        ({"mechanisms": ["mst", pj.mechanisms.MST]}, ValueError, "different names"),
        ({"mechanisms": [pj.Estimator]}, ValueError, "a class of Mechanism, got the class Estimator"),
        ({"mechanisms": [pj.mechanisms.Mechanism]}, ValueError, "class Mechanism has no name"),
        ({"mechanisms": "mst"}, TypeError, "mechanisms.*str"),
        ({"workload": pj.Workload([["a", "z"]])}, ValueError, "'z'"),
        ({"records": 0}, ValueError, "records.*0"),
        ({"records": 10.5}, TypeError, r"records.*float 10\.5"),
        ({"records": 10**13}, ValueError, "give fewer records"),
        (
            {"domain": pj.Domain({"a": 10**6, "b": 10**7, "c": 2})},
            ValueError,
            r"\('a', 'b'\).*10,000,000,000,000",
        ),
        ({"workload": [["a", "b"]]}, TypeError, "workload must be a pgmjax.Workload, got list"),
        ({"seeds": 0}, ValueError, "seeds.*0"),
        ({"epsilon": 0}, ValueError, "epsilon"),
        ({"epsilon": -1}, ValueError, "epsilon"),
        ({"delta": 2}, ValueError, "delta"),
        ({"relation": "swap"}, ValueError, "add-remove"),
    ],
)
def test_bad_input_is_refused_before_any_work(changes, error, message, monkeypatch):
    def run(*_):
        raise AssertionError("a mechanism ran")

    monkeypatch.setattr(pj.mechanisms.Mechanism, "run", run)
    with pytest.raises(error, match=message):
        compare(**changes)


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match=r"kind.*'independent'.*'tree'.*'dense'"):
        simulated_table(DOMAIN, 10, "chain", 0)


def test_no_table_can_be_given():
    assert not {"data", "table", "columns", "path"} & set(inspect.signature(pj.mechanisms.compare).parameters)


def test_check_ends_the_comparison_and_is_no_refusal(monkeypatch):
    calls = []

    def check():
        calls.append(1)
        if len(calls) > 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(mechanisms=["marginals"], check=check)
    assert len(calls) == 5

    whole, interrupted = pj.mechanisms.MST.run, []

    def dropped(self, *given, **named):
        """The last of three runs is interrupted, and its fit passes that on as another exception."""
        if len(calls) == 3:
            interrupted.append(1)
            raise RuntimeError("the fit failed")
        calls.append(1)
        return whole(self, *given, **named)

    def heard():
        if interrupted:
            raise KeyboardInterrupt

    calls.clear()
    calls.append(1)
    monkeypatch.setattr(pj.mechanisms.MST, "run", dropped)
    with pytest.raises(KeyboardInterrupt):
        compare(mechanisms=["mst"], seeds=1, check=heard)


def test_units_are_protected_as_by_that_much_less_epsilon():
    """Four records of each unit have the noise of one at a quarter of epsilon."""
    unit = compare(epsilon=4, max_records=4, mechanisms=["marginals"], seeds=3)
    alone = compare(epsilon=1, mechanisms=["marginals"], seeds=3)
    assert unit.settings["max_records"] == 4 and "max_records" not in alone.settings
    assert unit.noisy_counts == pytest.approx(alone.noisy_counts)
    assert unit.mechanisms[0].average == pytest.approx(alone.mechanisms[0].average, rel=0.2)
    assert (
        unit.mechanisms[0].average > 1.5 * compare(epsilon=4, mechanisms=["marginals"]).mechanisms[0].average
    )
