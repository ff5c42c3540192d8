"""Builders of workloads: blocks, unions, random marginals."""

import importlib
import json
import pathlib

import pytest

from pgmjax import queries
from pgmjax.data.domain import Domain
from pgmjax.queries.workload import Workload

ROOT = pathlib.Path(__file__).parent.parent.parent
SIZES = [7500, 1260, 84, 2720, 2160, 210, 420, 3000, 1386, 4500, 4200, 14400, 480, 19800, 756]
DOMAIN = Domain({"a": 2, "b": 3, "c": 4, "d": 5})


def test_the_papers_adult_workload_has_62876_queries(data_dir, monkeypatch):
    """The fifteen triples of McKenna et al. 2019, with prefix queries on the five wide attributes."""
    monkeypatch.syspath_prepend(str(ROOT / "bench" / "paper004"))
    domain = Domain.read(data_dir / "adult" / "adult-domain.json")
    workload = importlib.import_module("workload").workload("adult", domain)
    assert [entry.query.num_rows(domain) for entry in workload.entries] == SIZES
    assert workload.num_queries(domain) == sum(SIZES) == 62876


def test_blocks_stand_wherever_their_attribute_does(tmp_path):
    workload = Workload.of_blocks([("a", "d"), ("d",), ("a",)], {"d": queries.prefix()})
    assert [entry.to_spec() for entry in workload.entries] == [
        {"clique": ["a", "d"], "queries": {"d": "prefix"}},
        {"clique": ["d"], "queries": {"d": "prefix"}},
        ["a"],
    ]
    workload.write(tmp_path / "w.json")
    assert Workload.read(tmp_path / "w.json") == workload
    assert json.loads((tmp_path / "w.json").read_text())


@pytest.mark.parametrize(
    "cliques, blocks, error, words",
    [
        ("abc", {}, TypeError, "got str"),
        ([("a",)], ["prefix"], TypeError, "must map attribute names"),
        ([("a",)], {"d": "prefix"}, ValueError, r"given for \['d'\], which no clique holds"),
        ([], {}, ValueError, "at least one entry"),
    ],
)
def test_bad_blocks(cliques, blocks, error, words):
    with pytest.raises(error, match=words):
        Workload.of_blocks(cliques, blocks)


def test_unions_multiply_weights():
    first, second = Workload.of_marginals([("a",), ("b",)]), Workload([{"clique": ["c"], "weight": 2}])
    both = Workload.union([("0.5", first), (3, second)])
    assert [str(entry.weight) for entry in both.entries] == ["1/2", "1/2", "6"]
    with pytest.raises(ValueError, match="stands twice"):
        Workload.union([(1, first), (1, first)])
    with pytest.raises(TypeError, match=r"pairs \(weight, Workload\)"):
        Workload.union([first])
    with pytest.raises(ValueError, match="weight"):
        Workload.union([(0, first)])


def test_random_marginals_follow_the_seed_and_the_limit():
    made = Workload.random(DOMAIN, 3, k=2, max_queries=12, seed=4)
    assert made == Workload.random(DOMAIN, 3, k=2, max_queries=12, seed=4)
    assert made != Workload.random(DOMAIN, 3, k=2, max_queries=12, seed=5)
    assert all(entry.query.num_rows(DOMAIN) <= 12 and len(entry.clique) == 2 for entry in made.entries)
    assert len(set(made.cliques)) == 3
    prefixed = Workload.random(DOMAIN, 4, k=3, blocks={"d": "prefix"})
    assert all(("queries" in e.to_spec()) == ("d" in e.clique) for e in prefixed.entries if "d" in e.clique)


def test_too_many_marginals_asked_for():
    with pytest.raises(
        ValueError, match="there are 2 marginals of 2 attributes with at most 8 answers, fewer"
    ):
        Workload.random(DOMAIN, 3, k=2, max_queries=8)
