import itertools
import json
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from pgmjax import queries as q
from pgmjax.data.domain import Domain
from pgmjax.inference.plan.junction_tree import total_cells
from pgmjax.queries.workload import Entry, Workload

DOMAIN = Domain({"age": 5, "sex": 2, "job": 4})
FILE = [
    ["age", "sex"],
    ["job"],
    {"clique": ["age"], "queries": {"age": "prefix"}, "weight": 2.0},
    {"clique": ["sex", "age"], "queries": {"age": {"range": [1, 3]}, "sex": "total"}, "weight": 0.1},
    {"clique": ["job", "sex"]},
    {"clique": ["job"], "queries": {"job": {"mean": [0.5, 1, 1.5, 2]}}, "weight": "1/3"},
    {"clique": ["sex", "job"], "matrix": [[1, -1, 0, 0, 0.5, 0, 0, 0]]},
    {
        "clique": ["age"],
        "terms": [
            {"coefficient": 1, "queries": {"age": {"point": 0}}},
            {"coefficient": -0.5, "queries": {"age": {"point": 1}}},
        ],
    },
]


def test_file_is_read_exactly_and_written_back(tmp_path):
    path = tmp_path / "w.json"
    path.write_text(json.dumps(FILE))
    workload = Workload.read(path)
    workload.over(DOMAIN)
    assert [entry.weight for entry in workload.entries] == [1, 1, 2, Fraction(1, 10), 1, Fraction(1, 3), 1, 1]
    assert workload.entries[0].query == q.marginal(("age", "sex"))
    assert workload.entries[2].query == q.Product({"age": q.prefix()})
    assert workload.entries[3].query == q.Product({"sex": q.total(), "age": q.range(1, 3)})
    assert workload.entries[6].query == q.DenseMatrix(("sex", "job"), FILE[6]["matrix"])
    assert workload.cliques == (("age", "sex"), ("job",), ("age",), ("job", "sex"))
    assert workload.num_queries(DOMAIN) == 10 + 4 + 5 + 1 + 8 + 1 + 1 + 1
    assert len(workload) == 8
    again = tmp_path / "again.json"
    workload.write(again)
    assert Workload.read(again) == workload
    assert Workload(workload.to_list()) == workload and hash(Workload(FILE)) == hash(workload)
    assert json.loads(again.read_text())[:3] == [["age", "sex"], ["job"], FILE[2] | {"weight": 2}]


@pytest.mark.parametrize(
    ("given", "exact"),
    [
        (0.1, "1/10"),
        (2.0, "2"),
        (3, "3"),
        ("1/3", "1/3"),
        (Decimal("0.25"), "1/4"),
        (np.float64(0.3), "3/10"),
    ],
)
def test_weights_are_exact(given, exact):
    entry = Entry(q.marginal(("age",)), given)
    assert entry.weight == Fraction(exact)
    assert Workload([entry.to_spec()]).entries[0] == entry


def test_marginals_and_their_repr():
    workload = Workload.of_marginals([("age", "sex"), ["job"]])
    assert workload.cliques == (("age", "sex"), ("job",))
    assert repr(workload) == "Workload(2 entries: age x sex, job)"
    many = Workload.of_marginals([(name,) for name in "abcdef"])
    assert repr(many) == "Workload(6 entries: a, b, c, d, ... 2 more)"
    assert Workload([q.marginal(("age",))]).cliques == (("age",),)


def test_all_kway():
    assert Workload.all_kway(DOMAIN, 2).cliques == (("age", "sex"), ("age", "job"), ("sex", "job"))
    assert Workload.all_kway(DOMAIN, 3).cliques == (("age", "sex", "job"),)
    assert len(Workload.all_kway(DOMAIN, 1, max_cells=6)) == 2


def test_all_kway_takes_the_smallest_that_fit_and_passes_over_others():
    rng = np.random.default_rng(0)
    domain = Domain({f"x{i}": int(n) for i, n in enumerate(rng.integers(2, 12, 7))})
    limit = 300
    kept = Workload.all_kway(domain, 2, max_cells=limit).cliques
    index = {name: at for at, name in enumerate(domain)}

    def cells(cliques):
        return total_cells(domain.shape, [tuple(index[name] for name in clique) for clique in cliques])

    chosen = []
    for clique in sorted(itertools.combinations(domain, 2), key=domain.size):
        if cells([*chosen, clique]) <= limit:
            chosen.append(clique)
    assert list(kept) == chosen and cells(kept) <= limit < domain.size()
    assert 0 < len(chosen) < 21


def test_adult_two_way_marginals_under_a_million_cells(data_dir):
    """58 of the 91, with both elimination rules at hand."""
    domain = Domain.read(data_dir / "adult" / "adult-domain.json")
    assert len(Workload.all_kway(domain, 2, max_cells=1_000_000)) == 58


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Workload([]), ValueError, "at least one entry, got none"),
        (
            lambda: Workload("age"),
            TypeError,
            "a workload is Workload.all_kway.*, or a list such as .*, got str",
        ),
        (lambda: Workload({"clique": ["age"]}), TypeError, "or a list such as .*, got dict"),
        (lambda: Workload(3), TypeError, "or a list such as .*, got int"),
        (
            lambda: Workload(["age"]),
            TypeError,
            "entry 0: expected a list of attribute names or a mapping.*got str",
        ),
        (lambda: Workload([["age"], []]), ValueError, "1.*[Cc]lique"),
        (lambda: Workload([["age", "age"]]), ValueError, "entry 0: .*twice"),
        (lambda: Workload([["age", 3]]), TypeError, "0.*int"),
        (
            lambda: Workload([{"clique": ["age"], "query": "prefix"}]),
            ValueError,
            r"entry 0: unknown keys \['query'\]; the known ones are clique, queries, matrix, terms, weight",
        ),
        (lambda: Workload([{"queries": {}}]), ValueError, "key 'clique' is missing"),
        (lambda: Workload([{"clique": ["age"], "queries": {}, "matrix": [[1]]}]), ValueError, "give one of"),
        (
            lambda: Workload([{"clique": ["age"], "queries": {"sex": "total"}}]),
            ValueError,
            r"'sex'.*\('age',\)",
        ),
        (
            lambda: Workload([{"clique": ["age"], "queries": ["prefix"]}]),
            TypeError,
            "'queries' must map.*got list",
        ),
        (lambda: Workload([{"clique": ["age"], "queries": {"age": "cdf"}}]), ValueError, "identity"),
        (lambda: Workload([{"clique": ["age"], "terms": [{"queries": {}}]}]), ValueError, "'coefficient'"),
        (lambda: Workload([{"clique": ["age"], "weight": 0}]), ValueError, "weight must be > 0, got 0"),
        (lambda: Workload([{"clique": ["age"], "weight": -1}]), ValueError, "weight must be > 0"),
        (
            lambda: Workload([{"clique": ["age"], "weight": True}]),
            TypeError,
            "weight must be a number, got bool",
        ),
        (lambda: Workload([{"clique": ["age"], "weight": "much"}]), ValueError, "finite number > 0"),
        (lambda: Workload([{"clique": ["age"], "weight": np.nan}]), ValueError, "finite number > 0"),
        (lambda: Workload([{"clique": ["age"], "weight": np.inf}]), ValueError, "finite number > 0"),
        (
            lambda: Workload([["age", "sex"], ["sex", "age"]]),
            ValueError,
            r"stands twice .*entries 0 and 1.*weight",
        ),
        (lambda: Entry("age"), TypeError, "a query on a clique, got str"),
        (lambda: Workload.of_marginals("age"), TypeError, "str"),
        (lambda: Workload.of_marginals([]), ValueError, "at least one entry"),
        (lambda: Workload([["zip"]]).over(DOMAIN), ValueError, "workload entry 0: .*'zip', which is not"),
        (
            lambda: Workload([["age"], {"clique": ["age"], "queries": {"age": {"point": 5}}}]).over(DOMAIN),
            ValueError,
            "workload entry 1: 5.*'age'.* 0, 1, 2, 3, 4",
        ),
        (lambda: Workload.all_kway(DOMAIN, 0), ValueError, "k.*0"),
        (
            lambda: Workload.all_kway(DOMAIN, 4),
            ValueError,
            "k must be at most the number of attributes, 3, got 4",
        ),
        (lambda: Workload.all_kway(DOMAIN, 2.5), TypeError, r"k.*float 2\.5"),
        (lambda: Workload.all_kway(DOMAIN, 2, max_cells=7), ValueError, "2-way.*7"),
        (lambda: Workload.all_kway(DOMAIN, 2, max_cells=0), ValueError, "max_cells.*0"),
    ],
)
def test_bad_input(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, ", r"w.json is not JSON: .*line 1, column"),
        ('{"clique": ["age"]}', "must hold a JSON list of entries, such as .*, got a mapping of 1"),
        ("[]", "at least one entry"),
        ('[{"clique": ["age"], "weight": NaN}]', "finite number > 0, got nan"),
        ('["age"]', "entry 0: expected a list of attribute names"),
    ],
)
def test_bad_files(tmp_path, text, message):
    path = tmp_path / "w.json"
    path.write_text(text)
    with pytest.raises((ValueError, TypeError), match=message):
        Workload.read(path)
