"""Builders of workloads: blocks on attributes."""

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
        ("abc", {}, TypeError, "str"),
        ([("a",)], ["prefix"], TypeError, "must map attribute names"),
        ([("a",)], {"d": "prefix"}, ValueError, r"given for \['d'\], which no clique holds"),
        ([], {}, ValueError, "workload"),
    ],
)
def test_bad_blocks(cliques, blocks, error, words):
    with pytest.raises(error, match=words):
        Workload.of_blocks(cliques, blocks)
